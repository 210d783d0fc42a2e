"""rank: which documents answer a query, best first; by a bi-encoder, which can search, or a cross-encoder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import torch
from pydantic import Field, model_validator

from warmstart.data.schema import Column, Schema
from warmstart.errors import DataError, ModelError, RecipeError
from warmstart.models.bi_encoder import BiEncoder
from warmstart.models.heads.pooled import encoder_options
from warmstart.models.sentence_transformers_folder import write_sentence_files
from warmstart.options import Options
from warmstart.tasks.base import EXAMPLE, Feature, Shown, Task
from warmstart.tasks.shared import metrics, negatives
from warmstart.tasks.shared import ranking_losses as ranking
from warmstart.tasks.shared.error_tables import places_table, table
from warmstart.tasks.shared.relevance import first_places, judged
from warmstart.tasks.shared.text_inputs import encode_texts, pad
from warmstart.text.windows import Window

HARDEST = 10
"""Queries that a diagnosis names."""
LABEL = "how relevant the document is, 0 for not; say `task: {name: rank, rows: pairs}` where every document is"


class RankOptions(Options):
    """Options of `task: {name: rank, …}`."""

    kind: Literal["bi", "cross"] = "bi"
    """`bi` gives each text a vector, so that millions of documents can be searched; `cross` reads query and document
    together, which is closer and far slower: for the few that another search has found."""
    rows: Literal["labelled", "pairs", "triplets"] = "labelled"
    """What a row is: a query and a document, `labelled` by how relevant it is (0 or less: not); `pairs`, all relevant;
    or `triplets`, with a `negative`, a document that is not."""
    loss: Literal["auto", "in-batch", "triplet", "margin", "each"] = "auto"
    """What is learned: a query's document among all of its batch (`in-batch`, with a bi-encoder); that it beats the
    row's own negatives by `margin` (`triplet`), or all other documents of its batch (`margin`); is a document relevant
    (`each`, with a cross-encoder). auto: in-batch, or each."""
    scale: Annotated[float, Field(gt=0)] = 20.0
    """With `in-batch`, what cosines are multiplied by before the softmax."""
    margin: Annotated[float, Field(gt=0)] | None = None
    """By how much the query's document must score higher. None: 0.2 between cosines, 1 between logits."""
    negatives: Annotated[int, Field(ge=0)] = 1
    """Documents judged not relevant (labelled 0 or less) that a relevant one is set against, drawn by the seed."""
    mine: Annotated[int, Field(ge=0)] = 0
    """More documents that it is set against, found before training: close to the query by the encoder as it comes, and
    not known to be relevant."""
    pool: Literal["mean", "cls", "max", "last"] = "mean"
    """Which tokens of the last layer a bi-encoder's vector is made of; take what the encoder was pretrained with."""
    query_prompt: str = ""
    """Put before each query of a bi-encoder, as `query: ` for some encoders."""
    document_prompt: str = ""
    """Put before each document of a bi-encoder, as `passage: ` for some encoders."""
    at_once: Annotated[int, Field(ge=1)] | None = None
    """Texts whose activations a bi-encoder holds at a time, so that a large batch fits the memory: the rest is computed
    again when it is needed, for a third more time and the same result. None: all."""
    candidates: Literal["auto", "given", "all"] = "auto"
    """What a query's documents are ranked among when measured: those `given` in its rows, or `all` of the test rows or
    of `data.documents`. auto: all where there are documents or rows without labels, else given."""

    @model_validator(mode="after")
    def _settings_go_together(self) -> Self:
        wrong = {"bi": ("each",), "cross": ("in-batch", "triplet")}[self.kind]
        if self.loss in wrong:
            known = {"bi": "in-batch, triplet or margin", "cross": "each or margin"}[self.kind]
            raise ValueError(f"loss: found {self.loss} with kind: {self.kind}; expected {known}")
        own = {"labelled": self.negatives, "pairs": 0, "triplets": 1}[self.rows]
        if (self.kind == "cross" or self.loss == "triplet") and not own + self.mine:
            raise ValueError(
                f"rows: found {self.rows}, which leaves nothing to set a relevant document against; say mine: 1, "
                "or give rows with a negative or with labels"
            )
        return self


class Rank(Task[RankOptions]):
    """How well a document answers a query."""

    name = "rank"
    options_class = RankOptions
    auto_class = "AutoModel"
    headline = "ndcg_20"
    apart = False

    def __init__(self, options: RankOptions) -> None:
        super().__init__(options, pair=True)
        self.cross = options.kind == "cross"
        self.auto_class = self.auto_class_for(options)
        self.doubles = self.cross

    @classmethod
    def auto_class_for(cls, options: RankOptions) -> str:
        return "AutoModelForSequenceClassification" if options.kind == "cross" else "AutoModel"

    @classmethod
    def schema(cls, options: RankOptions) -> Schema:
        labelled = options.rows == "labelled"
        label = Column("label", "relevance", LABEL, answer=True, required=labelled, default=None if labelled else 1)
        columns = [
            Column("query", "text", "what is asked"),
            Column("document", "text", "what may answer it"),
            label,
            Column("query_id", "label", "what names the query", required=False),
            Column("document_id", "label", "what names the document", required=False),
        ]
        if options.rows == "triplets":
            columns.insert(3, Column("negative", "text", "a document that is not relevant", answer=True))
        return Schema(tuple(columns), together=("query",))

    @classmethod
    def learn(cls, options: RankOptions, answers: Iterable[Any], pair: bool, saved: Any = None) -> Self:
        if options.kind == "cross" and saved is not None and saved.num_labels != 1:
            raise ModelError(
                f"the model has a head for {saved.num_labels} labels, and a rank wants one number; say `head: new`"
            )
        if not any(answer > 0 for answer in answers):
            raise DataError(
                "no training row has a label above 0, so nothing is relevant; is --label the right column?", "label-one"
            )
        return cls(options)

    @classmethod
    def of(cls, options: RankOptions, pair: bool, config: Any) -> Self:
        return cls(options)

    def config(self) -> dict[str, Any]:
        if not self.cross:
            return {}
        names = {"id2label": {0: "relevance"}, "label2id": {"relevance": 0}}
        return {"num_labels": 1, **names, "problem_type": "multi_label_classification"}

    def ready(self, model: Any, folder: Path | None) -> Any:
        return model if self.cross else BiEncoder(model, self.options.pool, self.options.at_once)

    def write(self, model: Any, tokenizer: Any, folder: Path) -> None:
        super().write(model if self.cross else model.encoder, tokenizer, folder)

    def hand_off(self, model: Any, window: Window, folder: Path) -> None:
        if not self.cross:
            prompts = {"query": self.options.query_prompt, "document": self.options.document_prompt}
            options = encoder_options(model.config)
            write_sentence_files(folder, model.width, self.options.pool, window.max_tokens, prompts, options)

    # Rows to features.

    def row(self, given: Any, number: int) -> Mapping[str, Any]:
        row: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
        if isinstance(given, list | tuple) and len(given) == 2:
            row = dict(zip(("query", "document"), given, strict=True))
        if not all(isinstance(row.get(name), str) for name in ("query", "document")):
            raise DataError(f'text {number}: found {given!r}; this model reads a query and a document, as ("…", "…")')
        if not (row["query"].strip() and row["document"].strip()):
            raise DataError(f"text {number} is empty; expected text, as in a file")
        return row

    @property
    def example(self) -> Any:
        return {"query": "Where is the book?", "document": EXAMPLE}

    def encode(self, rows: Mapping[str, Sequence[Any]], tokenizer: Any, window: Window) -> list[Feature]:
        """One feature a row: its texts as lists of tokens, the query first, or a list for each of its documents."""
        others = rows.get("negatives") or [[text] for text in rows.get("negative", [])] or [[] for _ in rows["query"]]
        documents = [[own, *more] for own, more in zip(rows["document"], others, strict=True)]
        if self.cross:
            firsts = [query for query, row in zip(rows["query"], documents, strict=True) for _ in row]
            flat = self._tokens(tokenizer, window, firsts, [text for row in documents for text in row])
            sizes = [len(row) for row in documents]
        else:
            texts = zip(rows["query"], documents, strict=True)
            mixed = [(text, side) for query, row in texts for text, side in [(query, 0), *((one, 1) for one in row)]]
            prompts = (self.options.query_prompt, self.options.document_prompt)
            flat = self._tokens(tokenizer, window, [prompts[side] + text for text, side in mixed])
            sizes = [1 + len(row) for row in documents]
        features, start = [], 0
        for size in sizes:
            features.append(_joined(flat[start : start + size]))
            start += size
        for feature, answer in zip(features, rows.get("label", ()), strict=False):
            feature["labels"] = float(answer)
        return features

    def encode_alone(self, texts: Sequence[str], side: str, tokenizer: Any, window: Window) -> list[Feature]:
        """One feature a text, for its vector; the side is `query` or `document`."""
        prompt = self.options.query_prompt if side == "query" else self.options.document_prompt
        return self._tokens(tokenizer, window, [prompt + text for text in texts])

    def _tokens(
        self, tokenizer: Any, window: Window, texts: Sequence[str], pairs: Sequence[str] | None = None
    ) -> list[Feature]:
        if window.method == "slices":
            raise RecipeError(
                "window.method: found slices, but rank sees one piece of a text; say head, tail or head+tail"
            )
        rows = {"text": texts, "pair": pairs or ()}
        return encode_texts(rows, tokenizer, window, pairs is not None)

    def collate(self, features: Sequence[Feature], tokenizer: Any) -> dict[str, Any]:
        batch: dict[str, Any] = pad(features, tokenizer, apart=True)
        counts = batch.pop("slices", None)
        if not self.cross and counts is not None:
            batch["texts"] = counts
        if "labels" not in features[0]:
            return batch
        if self.cross:
            batch["labels"] = torch.tensor([value for one in features for value in _relevant(one)], dtype=torch.float)
        else:
            keys = [[tuple(ids) for ids in feature["input_ids"]] for feature in features]
            batch["labels"] = ranking.roles([query for query, *_ in keys], [row for _, *row in keys])
        return batch

    # Learning.

    @property
    def arranges(self) -> bool:
        return not self.cross or bool(self.options.mine) or self.options.loss == "margin"

    def arrange(
        self, columns: Mapping[str, Sequence[Any]], vectors: Callable[[Sequence[str], str], Any], seed: int
    ) -> tuple[list[int], dict[str, list[Any]], list[str]]:
        queries, documents, labels = columns["query"], columns["document"], columns["label"]
        known = negatives.Relevance.of(queries, documents, labels)
        rows = [row for row, label in enumerate(labels) if label > 0]
        found = negatives.judged(known, rows, self.options.negatives, seed)
        notes = [f"{len(rows):,} of {len(labels):,} training rows are relevant, and are learned from"]
        if any(found):
            notes[0] += f", set against {sum(map(len, found)):,} judged not to be"
        if self.options.mine:
            both = vectors(known.queries, "query"), vectors(known.documents, "document")
            more = negatives.mined(known, rows, self.options.mine, *both)
            found = [[*a, *(one for one in b if one not in a)] for a, b in zip(found, more, strict=True)]
            notes.append(f"{sum(map(len, more)):,} documents close to a query were found to set against its own")
        texts = [[known.documents[number] for number in row] for row in found]
        if "negative" in columns:
            texts = [[columns["negative"][row], *more] for row, more in zip(rows, texts, strict=True)]
        return rows, {"negatives": texts}, notes

    def embedder(self, model: Any) -> Any:
        return BiEncoder(model.base_model, self.options.pool) if self.cross else model

    def loss(self, smoothing: float = 0.0) -> Callable[..., Any] | None:
        super().loss(smoothing)
        options = self.options
        if self.cross:
            margin = 1.0 if options.margin is None else options.margin
            pairs = ranking.grouped(margin) if options.loss == "margin" else ranking.each
            return lambda outputs, labels: pairs(outputs["logits"].float().reshape(-1), labels)
        margin = 0.2 if options.margin is None else options.margin
        losses = {"triplet": ranking.triplet(margin), "margin": ranking.batch_all(margin)}
        chosen = losses.get(options.loss) or ranking.in_batch(options.scale)
        return lambda outputs, labels: chosen(outputs["queries"] @ outputs["documents"].T, labels)

    # Answering and measuring.

    def decode(self, logits: Any) -> list[dict[str, Any]]:
        scores = torch.as_tensor(logits).double().reshape(-1)
        return [{"score": score} for score in (scores.sigmoid() if self.cross else scores).tolist()]

    def searches(self, collection: bool) -> bool:
        if self.options.candidates == "auto":
            return collection or self.options.rows != "labelled"
        return self.options.candidates == "all"

    @property
    def measured(self) -> tuple[str, ...]:
        return ("query", "document", "label", "query_id", "document_id")

    @property
    def gives(self) -> dict[str, str]:
        return {"score": "number"}

    def measure(
        self, columns: Mapping[str, Sequence[Any]], predictions: Sequence[Mapping[str, Any]]
    ) -> dict[str, float]:
        return metrics.ranking(*judged(columns, predictions)[1:])

    def scores(
        self, columns: Mapping[str, Sequence[Any]], predictions: Sequence[Mapping[str, Any]]
    ) -> Sequence[float] | None:
        """Of each row the nDCG@20 of its query; 0 where nothing is relevant to it."""
        queries, relevance, scores = judged(columns, predictions)
        found = metrics.ndcg_by_query(relevance, scores)
        return [found.get(query, 0.0) for query in queries]

    def diagnose(self, columns: Mapping[str, Sequence[Any]], predictions: Sequence[Mapping[str, Any]]) -> list[Shown]:
        """Where the first right document stands, and the queries for which it stands lowest."""
        if "query" not in columns or "document" not in columns:
            return []
        queries, relevance, scores = judged(columns, predictions)
        places = first_places(relevance, scores)
        texts = dict(zip(queries, columns["query"], strict=True))
        lowest = sorted(places, key=lambda query: -(places[query] or 1 << 30))[:HARDEST]
        rows = [
            [texts[query], places[query] or "not found", sum(x > 0 for x in relevance[query].values())]
            for query in lowest
        ]
        hardest = table("Hardest queries", "lowest first", ["query", "first right at", "right documents"], rows)
        return [places_table(list(places.values())), hardest]


def _joined(parts: Sequence[Feature]) -> Feature:
    """Several texts as one feature, each token list beside the others."""
    lists = {name: [part[name] for part in parts] for name in parts[0] if name not in {"tokens", "cut"}}
    return {**lists, **{name: sum(part[name] for part in parts) for name in ("tokens", "cut")}}


def _relevant(feature: Feature) -> list[float]:
    """1 or 0 for each document of a cross-encoder's feature: its own by its label, negatives never."""
    return [float(feature["labels"] > 0), *(0.0 for _ in feature["input_ids"][1:])]


TASK = Rank
