"""A run, opened to look inside its model: heads and layers off, attention, probes and explanations.

inspector = RunInspector("runs/reviews")
inspector.heads().effects                # what is lost without each attention head
inspector.explain(["a fine film"])       # the words behind an answer, and whether they really are
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from scipy import stats

from warmstart.data.schema import Row
from warmstart.data.table import Table
from warmstart.errors import ModelError, RunError
from warmstart.evaluation.run import RunFolder
from warmstart.inference.features import Extractor
from warmstart.inference.folders import model_folder
from warmstart.inference.predictor import Predictor, Text
from warmstart.inspection.ablation import Ablations, Effect, every_head, every_layer
from warmstart.inspection.attention import AttentionMaps, read_maps
from warmstart.inspection.attention_statistics import KINDS, AttentionStatistics, WordKinds, attention_statistics
from warmstart.inspection.explanations import DEFAULT, Explanations, explain_texts
from warmstart.inspection.importance import gradient_importance
from warmstart.inspection.probe_examples import compare_layers, text_examples, word_examples
from warmstart.inspection.probes import ProbeProfile, probe_layers
from warmstart.inspection.removal import Removal, remove_heads
from warmstart.pipeline.prepare import Rows, read_parts
from warmstart.recipe import MEMORY
from warmstart.runtime.progress import Progress, silent
from warmstart.storage.artifacts import read_manifest
from warmstart.storage.cache import cache_folder

LIMIT = 500
"""The most rows that are measured on."""
TEXTS = 100
"""The most texts whose attention is read."""
WORDS = 5000
"""The most words that a probe is fitted to."""


@dataclass(frozen=True)
class MeasuredRows:
    """The rows that something was measured on."""

    part: str
    """`dev`, `test` or `train` of the run, or `given`."""
    used: int
    available: int


@dataclass(frozen=True)
class HeadAblation:
    """What is lost without each head; more in `Effect` and `Removal`."""

    rows: MeasuredRows
    metric: str
    headline: float | None
    """The metric of the whole model."""
    effects: list[Effect]
    importance: list[list[float]]
    """By block and head, from gradients: a first guess at what is lost without each."""
    rank_correlation: float | None
    """Spearman's correlation of the importance with what is lost; None where nothing differs."""
    removal: list[Removal]
    """Heads switched off one after the other; empty if that was not asked for."""
    precision: str = "fp32"
    """What the answers were computed in."""


@dataclass(frozen=True)
class LayerAblation:
    """What is lost without the attention of each block, and without each block."""

    rows: MeasuredRows
    metric: str
    headline: float | None
    effects: list[Effect]
    precision: str = "fp32"
    """What the answers were computed in."""


@dataclass(frozen=True)
class AttentionOverview:
    """What all heads attend to."""

    rows: MeasuredRows
    statistics: AttentionStatistics


@dataclass(frozen=True)
class LayerKnowledge:
    """What each layer knows of the task, before and after fine-tuning."""

    rows: MeasuredRows
    start: ProbeProfile
    """The encoder that the training started from."""
    finetuned: ProbeProfile
    cka: list[float]
    """How similar the states of each layer still are, embeddings first: linear CKA."""


class RunInspector:
    """A run, opened to look inside its model.

    Args:
        run: A run, or its model folder; some methods then need rows, or the run itself.
        rows: The rows by part, where they were passed in Python when the run was trained.
        precision: What answers are computed in: `fp32`; or `bf16`, `fp16` or `auto`, faster where the hardware has it.
            Gradients, attention and hidden states are in fp32.
    """

    def __init__(
        self, run: str | Path, rows: Rows | None = None, progress: Progress = silent, precision: str = "fp32"
    ) -> None:
        self.path = Path(run)
        self.folder = model_folder(run)
        self.passed = rows
        self.progress = progress
        self.precision = precision

    @cached_property
    def predictor(self) -> Predictor:
        """The run's model."""
        return Predictor.load(self.path, self.precision)

    @cached_property
    def extractor(self) -> Extractor:
        """The run's encoder, all of its layers."""
        return Extractor.load(self.path, layers="all")

    def heads(self, rows: Sequence[Row] | None = None, limit: int = LIMIT, remove: int = 0) -> HeadAblation:
        """What is lost without each attention head.

        Args:
            rows: Labelled rows; by default the run's dev rows, or else its test rows.
            limit: The most rows to measure on; more are sampled.
            remove: How many heads to switch off one after the other, the least costly first. If the run has dev and
                test rows, the order is chosen on dev, and each step is measured on test.
        """
        return self._heads(rows, limit, remove, limit, with_layers=False)

    def heads_and_layers(self, limit: int = LIMIT, remove: int = 0, removal_limit: int | None = None) -> HeadAblation:
        """As `heads`, with the effects of the layers behind those of the heads, corrected for all of them together.

        Args:
            removal_limit: The most rows to choose by which heads to remove; None for as many as there are effects of.
        """
        return self._heads(None, limit, remove, removal_limit or limit, with_layers=True)

    def _heads(
        self, rows: Sequence[Row] | None, limit: int, remove: int, removal_limit: int, with_layers: bool
    ) -> HeadAblation:
        chosen, about = self._rows(rows, limit)
        ablations = self._ablations(chosen)
        heads = every_head(ablations.model)
        layers = every_layer(ablations.model) if with_layers else []
        effects, base = ablations.effects([*heads, *layers], self.progress), ablations.measure().headline
        importance = gradient_importance(self.predictor, chosen, self.progress)
        if remove and len(chosen) > removal_limit:
            ablations = self._ablations([chosen[index] for index in _draw(len(chosen), removal_limit)])
        removal = self._removal(ablations, importance, about, limit, remove) if remove else []
        flat = [value for block in importance for value in block]
        lost = [-effect.difference for effect in effects[: len(heads)]]
        correlation = float(stats.spearmanr(flat, lost).statistic) if len(set(lost)) > 1 else None
        metric, precision = self.predictor.task.headline, self.predictor.engine.precision
        return HeadAblation(about, metric, base, effects, importance, correlation, removal, precision)

    def layers(self, rows: Sequence[Row] | None = None, limit: int = LIMIT) -> LayerAblation:
        """What is lost without the attention of each block, and without each block; arguments as in `heads`."""
        chosen, about = self._rows(rows, limit)
        ablations = self._ablations(chosen)
        effects = ablations.effects(every_layer(ablations.model), self.progress)
        metric, precision = self.predictor.task.headline, self.predictor.engine.precision
        return LayerAblation(about, metric, ablations.measure().headline, effects, precision)

    def attention(
        self, rows: Sequence[Row] | None = None, limit: int = TEXTS, kinds: WordKinds = KINDS
    ) -> AttentionOverview:
        """What each head attends to, over many texts.

        Args:
            kinds: Kinds of words, each with whether a token is of it; see `attention_statistics`.
        """
        chosen, about = self._rows(rows, limit)
        with self.progress.bar("attention", len(chosen)) as bar:

            def maps() -> Iterator[AttentionMaps]:
                for text in chosen:
                    yield from self.maps([text])
                    bar.advance()

            return AttentionOverview(about, attention_statistics(maps(), kinds))

    def maps(self, texts: Sequence[Text]) -> Iterator[AttentionMaps]:
        """The attention maps of texts, of every layer and head."""
        return read_maps(self.extractor, [_as_text(text) for text in texts])

    def probe(self, limit: int = 2 * LIMIT) -> LayerKnowledge:
        """What a linear probe can read from each layer about the run's own task, before and after fine-tuning.

        Args:
            limit: The most rows to fit to, and half of it to measure on.
        """
        run = RunFolder(self.path)
        answer = self.predictor.task.schema(self.predictor.task.options).answer
        if answer is None or answer.kind not in {"label", "entities"}:
            raise ModelError(f"{self.predictor.task.name}: a probe needs one label a text, or entities; found neither")
        words = answer.kind == "entities"
        train, about = self._rows(None, limit, ("train",))
        test, _ = self._rows(None, limit // 2, ("test", "dev"))
        start = Extractor.load(run.recipe.model, layers="all", max_tokens=self.extractor.window.max_tokens)
        profiles = []
        for encoder in (start, self.extractor):
            both = [
                word_examples(encoder, rows, WORDS, self.progress)
                if words
                else text_examples(encoder, rows, self.progress)
                for rows in (train, test)
            ]
            profiles.append(probe_layers(both[0], both[1], progress=self.progress))
        cka = compare_layers(start, self.extractor, test[:TEXTS], self.progress)
        return LayerKnowledge(about, profiles[0], profiles[1], cka)

    def explain(self, texts: Sequence[Text], method: str = DEFAULT) -> Explanations:
        """The words behind the answer to each text, with whether the model does depend on them.

        Args:
            method: `integrated-gradients`, `gradient-input`, `occlusion` or `lime`.
        """
        return explain_texts(self.predictor, texts, method, self.progress)

    def sample(self, rows: Sequence[Row] | None, limit: int) -> list[Row]:
        """Some of the rows that are given, or of the run's dev or test rows."""
        return self._rows(rows, limit)[0]

    def _removal(
        self, ablations: Ablations, importance: list[list[float]], about: MeasuredRows, limit: int, steps: int
    ) -> list[Removal]:
        by_head = {(block, head): value for block, row in enumerate(importance) for head, value in enumerate(row)}
        tables = self._tables if about.part == "dev" else {}
        test = self._ablations(_sample(tables["test"], limit)) if "test" in tables else None
        return remove_heads(ablations, by_head, steps, test, progress=self.progress)

    def _ablations(self, rows: Sequence[Row]) -> Ablations:
        """Measurements on rows, kept under a name that depends on the model's files, the rows and the precision."""
        files, precision = read_manifest(self.folder)["files"], self.predictor.engine.precision
        key = json.dumps([files, rows, precision], sort_keys=True, default=str, ensure_ascii=False)
        folder = cache_folder() / "inspection" / hashlib.sha256(key.encode()).hexdigest()[:32]
        return Ablations(self.predictor, rows, folder)

    def _rows(
        self, rows: Sequence[Row] | None, limit: int, parts: Sequence[str] = ("dev", "test")
    ) -> tuple[list[Row], MeasuredRows]:
        """Rows that are given, or those of the first part that the run has."""
        if rows is not None:
            chosen = [rows[index] for index in _draw(len(rows), limit)]
            return chosen, MeasuredRows("given", len(chosen), len(rows))
        for part in parts:
            if part in self._tables:
                chosen = _sample(self._tables[part], limit)
                return chosen, MeasuredRows(part, len(chosen), len(self._tables[part]))
        raise RunError(f"{self.path} has no {' or '.join(parts)} rows of its own; give labelled rows, by --file")

    @cached_property
    def _tables(self) -> Mapping[str, Table]:
        """The rows of the run, by part."""
        run = RunFolder(self.path)
        if run.recipe.data.train == MEMORY and self.passed is None:
            raise RunError(f"{self.path}: its rows were passed in Python, so they cannot be read again; give some")
        schema = self.predictor.task.schema(self.predictor.task.options)
        return read_parts(run.recipe, schema, cache_folder(), self.progress, self.passed).tables


def _draw(count: int, limit: int) -> list[int]:
    """All rows, or as many as the limit at random, always the same ones, in their order."""
    if count <= limit:
        return list(range(count))
    return sorted(np.random.default_rng(0).choice(count, limit, replace=False).tolist())


def _sample(table: Table, limit: int) -> list[Row]:
    return list(table.select(_draw(len(table), limit)).dicts())


def _as_text(text: Text) -> Text:
    """A text for its encoder: of a question and its context, the pair."""
    if isinstance(text, Mapping):
        first, second = (
            text.get(name) for name in (("question", "context") if "question" in text else ("text", "pair"))
        )
        return first if second is None else (first, second)
    return text
