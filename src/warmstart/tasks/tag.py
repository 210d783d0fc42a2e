"""tag: which words of a text belong together and what they are, as names, places and products."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import torch
from torch.nn import functional as F

from warmstart.data.schema import Column, Schema
from warmstart.errors import DataError, RecipeError
from warmstart.models.heads.crf import CRF, load_crf, save_crf
from warmstart.options import Options
from warmstart.tasks.base import Feature, Mixing, Shown, Task
from warmstart.tasks.shared import metrics
from warmstart.tasks.shared.entities import check_entities, matched, row_f1, segments
from warmstart.tasks.shared.error_tables import table
from warmstart.tasks.shared.labels import LabelMap
from warmstart.tasks.shared.tagging import scored_pieces, target_tags, windowed, word_tags
from warmstart.tasks.shared.tagging_units import Place, characters_of, joined, words_of
from warmstart.tasks.shared.text_inputs import no_panic, pad, pad_labels
from warmstart.text import tag_schemes as schemes
from warmstart.text.alignment import Pieces, join_words, pieces
from warmstart.text.windows import Frame, Window

IGNORED = -100
"""The label of a token that is not scored."""


class TagOptions(Options):
    """Options of `task: {name: tag, …}`."""

    scheme: Literal["BIO", "IOBES"] = "BIO"
    """The tags the model learns: `BIO` (first word, other words), or `IOBES`, which marks last and single words too. A
    file may be in any scheme: it is read into places and labels first."""
    score_pieces: Literal["first", "last", "all"] = "first"
    """Which of a word's pieces says its tag: the `first`, the `last`, or `all`, whose scores are averaged."""
    crf: bool = False
    """Score the tags of a text together, with a linear-chain CRF (Lafferty et al. 2001): no tag then follows one that
    it cannot. Its weights lie beside the model's; plain `transformers` leaves them out and gives each word's scores."""
    units: Literal["word", "character"] = "word"
    """What gets a tag: a `word` as the data gives it, or, in raw text, a stretch of letters and digits, any other sign
    and every character of a script without spaces by itself; or each `character`, which the tokenizer then reads alone:
    no entity begins or ends inside one."""


class Tag(Task[TagOptions]):
    """Places in a text, each with a label."""

    name = "tag"
    options_class = TagOptions
    auto_class = "AutoModelForTokenClassification"
    headline = "f1"
    own_windows = True

    def __init__(self, options: TagOptions, pair: bool, labels: LabelMap) -> None:
        super().__init__(options, pair)
        if options.crf and options.score_pieces == "all":
            raise RecipeError("task.crf: reads one piece a word; say task.score_pieces: first or last")
        self.labels = labels
        self.kinds = LabelMap(tuple(dict.fromkeys(schemes.split(name)[1] for name in labels.names if name != "O")))
        self.crf: CRF | None = None

    @classmethod
    def mixing(cls, options: TagOptions) -> Mixing | None:
        return None if options.crf else "softmax"

    @classmethod
    def schema(cls, options: TagOptions) -> Schema:
        return Schema(
            (
                Column("text", "text", "the text"),
                Column("words", "ranges", "where each word of the text stands, if it is cut already", required=False),
                Column("entities", "entities", "what is learned: start, end and label of each", answer=True),
            ),
            check_entities,
        )

    @classmethod
    def learn(cls, options: TagOptions, answers: Iterable[Any], pair: bool, saved: Any = None) -> Self:
        metrics.need_seqeval()
        kinds = {entity["label"] for answer in answers for entity in answer}
        if not kinds:
            raise DataError(
                "no training row has an entity, so there is nothing to learn; expected some. Are the tags in another "
                "column (--column entities=NUMBER)?",
                "label-one",
            )
        labels = LabelMap(tuple(schemes.tags_of(options.scheme, sorted(kinds))))
        if saved is not None:
            labels = LabelMap.of_config(saved.id2label).same_as(labels)
        return cls(options, pair, labels)

    @classmethod
    def of(cls, options: TagOptions, pair: bool, config: Any) -> Self:
        return cls(options, pair, LabelMap.of_config(config.id2label))

    def config(self) -> dict[str, Any]:
        return self.labels.config()

    def ready(self, model: Any, folder: Path | None) -> Any:
        self.restore(folder)
        if self.crf is not None:
            model.crf = self.crf.to(model.device)
            model.register_forward_hook(_with_crf)
        return model

    def restore(self, folder: Path | None) -> None:
        if self.options.crf:
            self.crf = self._crf()
            if folder is not None:
                load_crf(self.crf, folder)

    def keep(self, folder: Path) -> None:
        if self.crf is not None:
            save_crf(self.crf, folder)

    def row(self, given: Any, number: int) -> Mapping[str, Any]:
        """A text, or a list of its words; a row may say `words`, too."""
        row: dict[str, Any] = {}
        if isinstance(given, str):
            row = {"text": given}
        elif isinstance(given, Mapping):
            row = {name: given[name] for name in ("text", "words") if name in given}
        elif isinstance(given, Sequence) and given and all(isinstance(word, str) and word.strip() for word in given):
            text, places = join_words(given)
            row = {"text": text, "words": [{"start": start, "end": end} for start, end in places]}
        if not isinstance(row.get("text"), str):
            raise DataError(f"text {number}: found {given!r}; this model reads a text, or a list of words")
        if not row["text"].strip():
            raise DataError(f"text {number} is empty; expected text, as in a file")
        if wrong := check_entities(row):
            raise DataError(f"text {number}: {wrong[1]}", wrong[0])
        return {"words": None, **row}

    def encode(self, rows: Mapping[str, Sequence[Any]], tokenizer: Any, window: Window) -> list[Feature]:
        alone = self.options.units == "character"
        with no_panic():
            frame = Frame.of(tokenizer, False)
            found = pieces(tokenizer, rows["text"], "character" if alone else "text")
        features: list[Feature] = []
        left = tokenizer.padding_side == "left"
        for number, (text, cut) in enumerate(zip(rows["text"], found, strict=True)):
            given = rows["words"][number] if "words" in rows else None
            units, scored = scored_pieces(self._units(text, given, cut), cut, self.options.score_pieces)
            views = windowed(cut, scored, frame, window)
            if "entities" not in rows:
                features += ({**one, "at": at, "units": units, "left": left, "of": number} for one, _, at in views)
                continue
            tags, lost = target_tags(units, rows["entities"][number], self.options.scheme)
            for one, own, at in views:
                first = not features or features[-1]["of"] != number
                features.append({**self._learned(one, own, at, tags), "of": number, "lost": lost * first})
        return features

    def collate(self, features: Sequence[Feature], tokenizer: Any) -> dict[str, Any]:
        batch = pad(features, tokenizer)
        if "labels" in features[0]:
            batch["labels"] = pad_labels([one["labels"] for one in features], tokenizer, IGNORED)
        return batch

    def counts(self, batch: Mapping[str, Any]) -> dict[str, int]:
        return {"": int((batch["labels"] != IGNORED).sum())}

    def loss(self, smoothing: float = 0.0) -> Callable[..., Any] | None:
        if self.options.crf and smoothing:
            raise RecipeError(
                f"training.label_smoothing: found {smoothing}, but task.crf scores whole rows of tags; drop one"
            )

        def own(outputs: Any, labels: torch.Tensor) -> torch.Tensor:
            scores, scored = outputs["logits"], labels != IGNORED
            if self.crf is not None:
                # The scored tokens first, in order, as the CRF wants its words.
                order = (~scored).int().argsort(dim=1, stable=True)[:, : max(int(scored.sum(1).max()), 1)]
                chosen = scores.gather(1, order.unsqueeze(2).expand(-1, -1, scores.shape[2]))
                total = -self.crf.log_likelihood(chosen, labels.gather(1, order), scored.gather(1, order)).sum()
            else:
                flat = scores.float().flatten(0, 1)
                total = F.cross_entropy(
                    flat, labels.flatten(), ignore_index=IGNORED, reduction="sum", label_smoothing=smoothing
                )
            return total / scored.sum().clamp(min=1)  # a batch may hold no word that has a piece

        return own

    def read(self, outputs: Mapping[str, Any], features: Sequence[Feature]) -> list[Any]:
        """The scores of each feature's own units, the mean over the pieces that count."""
        found = []
        for scores, feature in zip(outputs["logits"], features, strict=True):
            shift = len(scores) - len(feature["input_ids"]) if feature["left"] else 0
            tokens = torch.tensor([token + shift for at in feature["at"] for token in at], dtype=torch.long)
            counts = torch.tensor([len(at) for at in feature["at"]], dtype=torch.long)
            unit = torch.repeat_interleave(torch.arange(len(counts)), counts)
            sums = torch.zeros(len(counts), scores.shape[1]).index_add_(0, unit, scores[tokens])
            found.append(sums / counts.unsqueeze(1))
        return found

    @torch.no_grad()
    def merge(self, row: Mapping[str, Any], features: Sequence[Feature], parts: Sequence[Any]) -> dict[str, Any]:
        units, scores = features[0]["units"], torch.cat(list(parts))
        entities = []
        if len(units):
            if self.crf is not None:
                best, chances = self.crf.best(scores), self.crf.marginals(scores)
            else:
                chances = scores.softmax(1)
                best = chances.argmax(1).tolist()
            each = chances.gather(1, torch.tensor(best).unsqueeze(1)).squeeze(1)
            for first, stop, kind in schemes.spans([self.labels.names[tag] for tag in best], self.options.scheme):
                start, end = units[first][0], units[stop - 1][1]
                entity = {"start": start, "end": end, "label": kind, "text": row["text"][start:end]}
                entities.append({**entity, "score": float(each[first:stop].double().mean())})
        if row.get("words") is None:
            return {"entities": entities}
        return {"entities": entities, "tags": word_tags(row["words"], entities, self.options.scheme)}

    @property
    def gives(self) -> dict[str, str]:
        return {"entities": "text", "tags": "text"}

    def metrics(self, answers: Sequence[Any], predictions: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        """By seqeval in its strict mode; each row is cut where any entity, true or given, begins or ends."""
        both = [segments(gold, given["entities"]) for gold, given in zip(answers, predictions, strict=True)]
        return metrics.entities([gold for gold, _ in both], [given for _, given in both])

    def scores(
        self, columns: Mapping[str, Sequence[Any]], predictions: Sequence[Mapping[str, Any]]
    ) -> Sequence[float] | None:
        """F1 of each row; 1 where there is nothing to find and nothing was given."""
        both = zip(columns["entities"], predictions, strict=True)
        return [row_f1(gold, given["entities"]) for gold, given in both]

    def confused(self, answers: Sequence[Any], predictions: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
        """Types of entities that share a character; `O` where one side has nothing there."""
        both = zip(answers, predictions, strict=True)
        return [(true, found) for gold, given in both for true, found, _ in matched(gold, given["entities"])]

    def diagnose(self, columns: Mapping[str, Sequence[Any]], predictions: Sequence[Mapping[str, Any]]) -> list[Shown]:
        """What is wrong with the entities of each type."""
        kinds = ("right", "boundary", "type", "type and boundary", "missed", "spurious")
        counts: dict[str, Counter[str]] = {name: Counter() for name in self.kinds.names}
        for gold, given in zip(columns["entities"], predictions, strict=True):
            for true, found, how in matched(gold, given["entities"]):
                counts.setdefault(found if true == "O" else true, Counter())[how] += 1
        rows = [[name, *(one[kind] for kind in kinds)] for name, one in counts.items()]
        note = "by the type in the data; of spurious ones, by the type given"
        return [table("Kinds of error", note, ["type", *kinds], rows)]

    def check_answers(self, answers: Iterable[Any], where: Callable[[int], str]) -> None:
        self.kinds.check(([entity["label"] for entity in answer] for answer in answers), where)

    def _units(self, text: str, given: Sequence[Any] | None, cut: Pieces) -> list[Place]:
        """The units of a text, those without a piece included."""
        if given is not None and self.options.units == "word":
            return [(word["start"], word["end"]) for word in given]
        cut_up = characters_of if self.options.units == "character" else words_of
        return joined(cut_up(text), cut.places)

    def _learned(self, feature: Feature, own: range, at: Sequence[Sequence[int]], tags: Sequence[str]) -> Feature:
        """A feature with the label of each token; those that say no unit's tag are not scored."""
        labels = [IGNORED] * len(feature["input_ids"])
        for unit, tokens in zip(own, at, strict=True):
            for token in tokens:
                labels[token] = self.labels.ids[tags[unit]]
        return {**feature, "labels": labels}

    def _crf(self) -> CRF:
        """A CRF that knows which tags of the scheme may follow one another."""
        names, scheme = self.labels.names, self.options.scheme
        steps = torch.tensor([[not schemes.fault(scheme, before, after) for after in names] for before in names])
        starts = torch.tensor([not schemes.fault(scheme, "O", name) for name in names])
        return CRF(steps, starts, torch.tensor([not schemes.fault(scheme, name, None) for name in names]))


def _with_crf(model: Any, inputs: Any, outputs: Any) -> dict[str, Any] | None:
    """In training, the outputs with the CRF's weights: several processes take what is not in their graph for unused."""
    return {**outputs, "crf": [one.clone() for one in model.crf.parameters()]} if model.training else None


TASK = Tag
