"""rank: which documents answer a query, best first: a bi-encoder for search, or a cross-encoder for reranking."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NotRequired, Self, cast

import torch

from warmstart.data.schema import Column, Row, Schema
from warmstart.errors import DataError, ModelError, RecipeError
from warmstart.models.bi_encoder import BiEncoder
from warmstart.models.heads.pooled import encoder_kwargs
from warmstart.models.sentence_transformers_folder import SentenceEmbedding, write_sentence_files
from warmstart.tasks.base import (
    EXAMPLE,
    Answer,
    Batch,
    Columns,
    ErrorTable,
    Input,
    LossFunction,
    NestedFeature,
    Outputs,
    Task,
    TextFeature,
)
from warmstart.tasks.shared import metrics, negatives, taught_rankings
from warmstart.tasks.shared import ranking_losses as ranking
from warmstart.tasks.shared.error_tables import ranks_table, table
from warmstart.tasks.shared.fusion import Fusion
from warmstart.tasks.shared.nearest_neighbours import Vectors
from warmstart.tasks.shared.prompts import AUTO, put_before
from warmstart.tasks.shared.rank_options import RankOptions
from warmstart.tasks.shared.relevance import first_ranks, judgements
from warmstart.tasks.shared.relevant_pairs import RelevantPairs, text_key
from warmstart.tasks.shared.taught_rankings import TEACHER_LOGITS
from warmstart.tasks.shared.text_inputs import encode_texts, nested, pad
from warmstart.text.windows import Window

if TYPE_CHECKING:
    from datasets import Dataset
    from torch import nn
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

    from warmstart.models.prompts import PromptUse

ROWS = 1000
"""Training rows that are read at a time."""
HARDEST = 10
"""Queries that an error analysis names."""
LABEL = "how relevant the document is, 0 for not; set `task: {name: rank, rows: pairs}` if every document is"
SEARCHED = {
    "bm25": "also ranks the documents by BM25 and fuses both rankings",
    "bm25-only": "ranks the documents by BM25 instead",
}
"""What a search does that is not by vectors alone."""
MODULES = "modules.json"
"""The file by which sentence-transformers knows a model folder of its own."""


class RankFeature(NestedFeature):
    """The texts of a row, the query first, or the query with each of its documents; and how relevant the first is."""

    labels: NotRequired[float]
    teacher_logits: NotRequired[list[float]]


class Rank(Task[RankOptions, RankFeature]):
    """How well a document answers a query."""

    name = "rank"
    options_class = RankOptions
    pipeline_tag = "sentence-similarity"
    auto_class = "AutoModel"
    headline = "ndcg_20"
    answer_fields = ("score",)
    rows_independent = False
    stores_row_scores = True
    taught_columns: ClassVar[Mapping[str, str]] = taught_rankings.COLUMNS

    def __init__(self, options: RankOptions) -> None:
        super().__init__(options, pair=True)
        self.cross = options.encoder == "cross"
        self.supports_r_drop = self.cross
        self.euclidean = options.distance_metric == "euclidean"
        self.relevant_pairs = RelevantPairs.of(())

    @classmethod
    def schema(cls, options: RankOptions) -> Schema:
        labelled = options.rows == "labelled"
        label = Column("label", "relevance", LABEL, answer=True, required=labelled, default=None if labelled else 1)
        columns = [
            Column("query", "text", "the query"),
            Column("document", "text", "a document that may answer it"),
            label,
            Column("query_id", "label", "the id of the query", required=False),
            Column("document_id", "label", "the id of the document", required=False),
        ]
        if options.rows == "triplets":
            columns.insert(3, Column("negative", "text", "a document that is not relevant", answer=True))
        return Schema(tuple(columns), together=("query",))

    @classmethod
    def from_answers(
        cls, options: RankOptions, answers: Iterable[Any], pair: bool, config: PreTrainedConfig | None = None
    ) -> Self:
        if options.encoder == "cross" and config is not None and config.num_labels != 1:
            raise ModelError(
                f"the model has a head for {config.num_labels} labels, and a rank needs one number; "
                "set head.reuse: false"
            )
        if not any(answer > 0 for answer in answers):
            raise DataError(
                "no training row has a label above 0, so nothing is relevant; is --label the right column?", "label-one"
            )
        return cls(options)

    @classmethod
    def from_config(cls, options: RankOptions, pair: bool, config: PreTrainedConfig) -> Self:
        return cls(options)

    @classmethod
    def check_teacher(cls, options: RankOptions, teacher: Mapping[str, Any]) -> list[str]:
        return [taught_rankings.column_of(options, teacher)]

    @classmethod
    def auto_class_for(cls, options: RankOptions) -> str:
        return "AutoModelForSequenceClassification" if options.encoder == "cross" else "AutoModel"

    @classmethod
    def prompt_uses(cls, options: RankOptions) -> Mapping[str, PromptUse]:
        cross = options.encoder == "cross"
        return {} if cross else {"task.query_prompt": "query", "task.document_prompt": "document"}

    def config_kwargs(self) -> dict[str, Any]:
        if not self.cross:
            return {}
        names = {"id2label": {0: "relevance"}, "label2id": {"relevance": 0}}
        return {"num_labels": 1, **names, "problem_type": "multi_label_classification"}

    # The model.

    def extend_model(self, model: PreTrainedModel, folder: Path | None) -> nn.Module:
        pooling, chunk_size = self.options.pooling, self.options.chunk_size
        return model if self.cross else BiEncoder(model, pooling, chunk_size, normalize=not self.euclidean)

    def plain_model(self, model: Any) -> PreTrainedModel:
        return model if self.cross else model.encoder

    def write_library_files(self, model: Any, window: Window, folder: Path) -> None:
        """A bi-encoder opens in sentence-transformers."""
        if not self.cross:
            options, kwargs = self.options, encoder_kwargs(model.config)
            sides = {"query": options.query_prompt, "document": options.document_prompt}
            prompts = {side: "" if prompt == AUTO else prompt for side, prompt in sides.items()}
            embedding = SentenceEmbedding(
                model.output_size, options.pooling, window.max_tokens, options.distance_metric
            )
            write_sentence_files(folder, embedding, prompts, kwargs)

    @staticmethod
    def library_usage(folder: Path) -> tuple[str, str] | None:
        if not (folder / MODULES).is_file():
            return None
        code = 'from sentence_transformers import SentenceTransformer\n\nmodel = SentenceTransformer("model")'
        return "sentence-transformers", code

    @staticmethod
    def usage_note(options: Mapping[str, Any]) -> str:
        """What a search with warmstart does beyond the bi-encoder, for the model card; nothing where that is all."""
        searched = SEARCHED.get(options.get("fusion", "auto"))
        if not searched:
            return ""
        return (
            "That is the bi-encoder alone. A search with warmstart (`warmstart predict model QUERY --documents FILE`) "
            f"{searched}, and so did the evaluation if it searched all documents."
        )

    # Rows to features.

    def parse_input(self, text: Input, number: int) -> Row:
        row: Row = dict(text) if isinstance(text, Mapping) else {}
        if isinstance(text, list | tuple) and len(text) == 2:
            row = dict(zip(("query", "document"), text, strict=True))
        if not all(isinstance(row.get(name), str) for name in ("query", "document")):
            raise DataError(f'text {number}: found {text!r}; this model reads a query and a document, as ("…", "…")')
        if not (row["query"].strip() and row["document"].strip()):
            raise DataError(f"text {number} is empty; expected text, as in a file")
        return row

    @property
    def example(self) -> Input:
        return {"query": "Where is the book?", "document": EXAMPLE}

    @classmethod
    def placeholder(cls, pair: bool) -> Input:
        return ("a query", "a document")

    def encode(self, rows: Columns, tokenizer: PreTrainedTokenizerBase, window: Window) -> list[RankFeature]:
        """One feature a row: its texts as lists of tokens, the query first, or a list for each of its documents."""
        others = rows.get("negatives") or [[text] for text in rows.get("negative", [])] or [[] for _ in rows["query"]]
        documents = [[own, *more] for own, more in zip(rows["document"], others, strict=True)]
        if self.cross:
            queries = [query for query, row in zip(rows["query"], documents, strict=True) for _ in row]
            texts = self._encode(tokenizer, window, queries, [text for row in documents for text in row])
            sizes = [len(row) for row in documents]
        else:
            queries = put_before(self.options.query_prompt, rows["query"])
            prompted = [
                text
                for query, row in zip(queries, documents, strict=True)
                for text in (query, *put_before(self.options.document_prompt, row))
            ]
            texts = self._encode(tokenizer, window, prompted)
            sizes = [1 + len(row) for row in documents]
        features, start = [], 0
        for size in sizes:
            features.append(_joined(texts[start : start + size]))
            start += size
        for feature, answer in zip(features, rows.get("label", ()), strict=False):
            feature["labels"] = float(answer)
        for feature, logits in zip(features, rows.get(TEACHER_LOGITS, ()), strict=False):
            feature["teacher_logits"] = logits
        return features

    def encode_texts(
        self, texts: Sequence[str], side: str, tokenizer: PreTrainedTokenizerBase, window: Window
    ) -> list[TextFeature]:
        prompt = self.options.query_prompt if side == "query" else self.options.document_prompt
        return self._encode(tokenizer, window, put_before(prompt, texts))

    def _encode(
        self,
        tokenizer: PreTrainedTokenizerBase,
        window: Window,
        texts: Sequence[str],
        pairs: Sequence[str] | None = None,
    ) -> list[TextFeature]:
        if window.method == "slices":
            raise RecipeError(
                "window.method: found slices, but rank reads a text in one window; set head, tail or head+tail"
            )
        rows = {"text": texts, "pair": pairs or ()}
        return encode_texts(rows, tokenizer, window, pairs is not None)

    def collate(self, features: Sequence[RankFeature], tokenizer: PreTrainedTokenizerBase) -> Batch:
        batch: Batch = pad(features, tokenizer, separate=True)
        counts = batch.pop("slices", None)
        if not self.cross and counts is not None:
            batch["texts"] = counts
        if "labels" not in features[0]:
            return batch
        if self.cross:
            relevant = [value for feature in features for value in _relevant(feature)]
            batch["labels"] = torch.tensor(relevant, dtype=torch.float)
        else:
            keys = [list(map(text_key, feature["input_ids"])) for feature in features]
            known = self.relevant_pairs.documents_of
            batch["labels"] = ranking.roles([query for query, *_ in keys], [row for _, *row in keys], known)
            if TEACHER_LOGITS in features[0]:
                teacher = taught_rankings.logit_matrix([feature["teacher_logits"] for feature in features])
                batch["labels"] = {"roles": batch["labels"], "teacher": teacher}
        return batch

    # Training.

    @property
    def arranges_rows(self) -> bool:
        options = self.options
        added = options.hard_negatives + options.random_negatives
        return not self.cross or added > 0 or options.loss == "margin" or options.rows == "triplets"

    def arrange_rows(
        self, columns: Columns, vectors: Callable[[Sequence[str], str], Vectors], seed: int
    ) -> tuple[list[int], dict[str, list[Any]], list[str]]:
        options = self.options
        wanted = negatives.Wanted(options.negatives, options.hard_negatives, options.random_negatives)
        logits = taught_rankings.teacher_logits(columns, 1.0 if self.euclidean else options.scale)
        if logits is not None:
            return taught_rankings.arrange_taught(columns, logits, wanted, vectors, seed)
        rows, texts, notes = negatives.arrange(columns, wanted, vectors, seed)
        return rows, {"negatives": texts}, notes

    def read_training_rows(self, rows: Dataset) -> None:
        if not self.cross:  # each of its documents is learned by itself
            batches = rows.select_columns(["input_ids"]).iter(batch_size=ROWS)
            texts = (row for batch in batches for row in batch["input_ids"])
            self.relevant_pairs = RelevantPairs.of((text_key(row[0]), text_key(row[1])) for row in texts)

    def embedding_model(self, model: Any) -> nn.Module:
        """One that compares by cosine: hard negatives are skipped by a share of the score of the row's document."""
        encoder = model.base_model if self.cross else model.encoder
        return BiEncoder(encoder, self.options.pooling) if self.cross or self.euclidean else model

    def loss(self, label_smoothing: float = 0.0) -> LossFunction | None:
        super().loss(label_smoothing)
        options = self.options
        if self.cross:
            margin = 1.0 if options.margin is None else options.margin
            pairs = ranking.grouped_margin(margin) if options.loss == "margin" else ranking.bce
            return lambda outputs, labels: pairs(outputs["logits"].float().reshape(-1), labels)
        margin = (1.0 if self.euclidean else 0.2) if options.margin is None else options.margin
        losses = {"triplet": ranking.triplet(margin), "margin": ranking.batch_all(margin)}
        chosen = losses.get(options.loss) or ranking.in_batch_negatives(options.scale)
        scores = ranking.negative_distances if self.euclidean else ranking.dot_products
        both = ranking.with_teacher(chosen, ranking.margin_mse(1.0 if self.euclidean else options.scale))

        def loss(outputs: Outputs, labels: Any) -> torch.Tensor:
            compared = scores(outputs["queries"], outputs["documents"])
            return both(compared, **labels) if isinstance(labels, Mapping) else chosen(compared, labels)

        return loss

    # Predicting and evaluation.

    def decode(self, outputs: Outputs, features: Sequence[RankFeature]) -> list[Answer]:
        if self.euclidean:
            distances = (outputs["queries"].double() - outputs["documents"].double()).norm(dim=-1)
            return [{"score": -distance} for distance in distances.tolist()]
        scores = outputs["logits"].double().reshape(-1)
        return [{"score": score} for score in (scores.sigmoid() if self.cross else scores).tolist()]

    @property
    def answer_schema(self) -> dict[str, str]:
        return {"score": "number"}

    @property
    def distance_metric(self) -> str:
        return self.options.distance_metric

    def searches_documents(self, collection: bool) -> bool:
        if self.options.candidates == "auto":
            return collection or self.options.rows != "labelled"
        return self.options.candidates == "all"

    def search_fusion(self) -> Fusion:
        return "none" if self.cross else self.options.fusion

    def with_fusion(self, fusion: Fusion) -> Self:
        task = copy(self)
        task.options = self.options.model_copy(update={"fusion": fusion})
        return task

    @property
    def metric_columns(self) -> tuple[str, ...]:
        return ("query", "document", "label", "query_id", "document_id")

    def compute_metrics(self, columns: Columns, predictions: Sequence[Answer]) -> dict[str, float]:
        _, relevance, scores = judgements(columns, predictions)
        return metrics.ranking(relevance, scores)

    @classmethod
    def row_scores(cls, options: RankOptions, columns: Columns, predictions: Sequence[Answer]) -> Sequence[float]:
        """The nDCG@20 of a query at its first row; NaN at others, as rows of one query are not evidence of their own.

        NaN too where nothing is relevant to a query.
        """
        queries, relevance, scores = judgements(columns, predictions)
        by_query = metrics.ndcg_by_query(relevance, scores)
        return [by_query.pop(query, math.nan) for query in queries]

    def error_tables(self, columns: Columns, predictions: Sequence[Answer]) -> list[ErrorTable]:
        """The rank of the first relevant document, and the queries for which it is lowest."""
        if "query" not in columns or "document" not in columns:
            return []
        queries, relevance, scores = judgements(columns, predictions)
        ranks = first_ranks(relevance, scores)
        texts = dict(zip(queries, columns["query"], strict=True))
        lowest = sorted(ranks, key=lambda query: -(ranks[query] or 1 << 30))[:HARDEST]
        rows = [
            [texts[query], ranks[query] or "not found", sum(label > 0 for label in relevance[query].values())]
            for query in lowest
        ]
        names = ["query", "first relevant at", "relevant documents"]
        return [ranks_table(list(ranks.values())), table("Hardest queries", "lowest first", names, rows)]


def _joined(texts: Sequence[TextFeature]) -> RankFeature:
    """Several texts as one feature, each token list next to the others."""
    ids: list[Any] = [{name: ids for name, ids in text.items() if name not in {"tokens", "cut"}} for text in texts]
    tokens, cut = sum(text["tokens"] for text in texts), sum(text["cut"] for text in texts)
    return cast(RankFeature, nested(ids, tokens, cut))


def _relevant(feature: RankFeature) -> list[float]:
    """1 or 0 for each document of a cross-encoder's feature: its own by its label, negatives never."""
    return [float(feature["labels"] > 0), *(0.0 for _ in feature["input_ids"][1:])]


TASK = Rank
