"""Ablation: what a model loses where attention heads or blocks are switched off, measured row by row.

Each effect comes with a paired test over the rows. Where many are tested at once, some differ by chance alone: the p
values are corrected for that (Holm 1979).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from torch import nn

from warmstart.data.schema import Row
from warmstart.errors import ModelError, RunError
from warmstart.evaluation.records.files import read_record, write_record
from warmstart.evaluation.statistics import difference_over_rows, holm
from warmstart.inference.engines.torch import TorchEngine
from warmstart.inference.ensembles import Ensemble
from warmstart.inference.predictor import Predictor
from warmstart.models.block_outputs import BlockOutputs
from warmstart.models.layer_map import LayerMap
from warmstart.models.switches import ALL, BlocksOff, HeadsOff, Switches, count_heads, heads_joined
from warmstart.runtime.progress import Progress, silent
from warmstart.tasks.base import Answer

Kind = Literal["head", "attention", "block"]
"""What is off: one head, all heads of a block, or a whole block."""
SIGNIFICANCE = 0.05


@dataclass(frozen=True)
class AblatedScores:
    """How good a model's answers are."""

    without: str
    """What is off, as `predict --without` takes it; empty where nothing is."""
    headline: float | None
    """The metric that the task shows first; None where it is undefined."""
    scores: list[float]
    """That of each row, as the task scores rows: more is better."""

    @property
    def mean(self) -> float:
        """The mean of the rows' scores."""
        return sum(self.scores) / len(self.scores)


@dataclass(frozen=True)
class Effect:
    """What switching something off changes: the scores of rows without it, minus those with it."""

    without: str
    """What is off, as `predict --without` takes it."""
    kind: Kind
    headline: float | None
    """The task's metric without it."""
    difference: float
    """Of the mean score of a row; below 0 where the model needs it."""
    low: float
    high: float
    p: float
    p_corrected: float
    """Corrected for the number of effects that are measured together."""

    @property
    def significant(self) -> bool:
        """Whether it may be said to make a difference."""
        return self.p_corrected <= SIGNIFICANCE


class Ablations:
    """Measures a model with some of it switched off, always on the same rows.

    Args:
        predictor: Uses the engine `torch`.
        rows: With the columns that the task reads and those that its metrics need.
        store: A folder of its own for this model and these rows, in which measurements are kept, so that a stopped
            series of them continues where it was. None to keep them in memory only.
    """

    def __init__(self, predictor: Predictor, rows: Sequence[Row], store: Path | None = None) -> None:
        if not rows:
            raise RunError("there are no rows to measure on; give a file with some")
        if not predictor.task.rows_independent:
            raise ModelError(f"{predictor.task.name}: a row has no score of its own, so effects cannot be tested")
        self.predictor = predictor
        self.model = torch_model(predictor)
        self.rows = list(rows)
        self.store = store
        self.encoded = predictor.encode(self.rows)
        self.measured: dict[str, AblatedScores] = {}
        self.outputs = BlockOutputs(self.model)
        self.base: Switches | None = None
        self.stored_of: Switches | None = None

    def go_on_from(self, switches: Switches | None) -> None:
        """Say what is off in most of what will be measured: up to where they differ from it, it is computed once."""
        self.base = switches

    def measure(self, switches: Switches | None = None) -> AblatedScores:
        """The model's answers without these heads and blocks; None to switch nothing off."""
        name = str(switches) if switches else ""
        if name not in self.measured:
            self.measured[name] = self._stored(name) or self._measure(switches, name)
        return self.measured[name]

    def effects(self, kinds: Sequence[tuple[Kind, Switches]], progress: Progress = silent) -> list[Effect]:
        """What each of these changes, corrected for their number."""
        base = self.measure()
        effects = []
        with progress.bar("switching off", len(kinds)) as bar:
            for kind, switches in kinds:
                without = self.measure(switches)
                change = difference_over_rows(without.scores, base.scores)
                interval = (change.mean, change.low, change.high, change.p)
                effects.append((str(switches), kind, without.headline, *interval))
                bar.advance(note=str(switches))
        corrected = holm([effect[-1] for effect in effects])
        return [Effect(*effect, p) for effect, p in zip(effects, corrected, strict=True)]

    def _measure(self, switches: Switches | None, name: str) -> AblatedScores:
        task = self.predictor.task
        answers = self._answers(switches)
        columns = {key: [row[key] for row in self.rows] for key in task.metric_columns if key in self.rows[0]}
        headline = task.compute_metrics(columns, answers)[task.headline]
        scores = [float(score) for score in type(task).row_scores(task.options, columns, answers)]
        measurement = AblatedScores(name, None if math.isnan(headline) else float(headline), scores)
        if self.store is not None:
            self.store.mkdir(parents=True, exist_ok=True)
            write_record(measurement, self._file(self.store, name))
        return measurement

    def _answers(self, switches: Switches | None) -> list[Answer]:
        """The answers without these, the outputs of blocks below the first that differs from the base reused."""
        count = len(self.outputs.blocks)
        same = _same_blocks(switches, self.base, count)
        if same and not (self.outputs.tried and self.stored_of == self.base):
            answers = self._recorded_base()
            if same == count:
                return answers
        with _off(self.model, switches), self.outputs.reused(same):
            return list(self.predictor.answer(self.encoded))

    def _recorded_base(self) -> list[Answer]:
        """The answers of the base, its outputs stored; what they share with those stored before is not computed."""
        same = _same_blocks(self.base, self.stored_of, len(self.outputs.blocks))
        with _off(self.model, self.base), self.outputs.recorded(same):
            answers = list(self.predictor.answer(self.encoded))
        self.stored_of = self.base
        return answers

    def _stored(self, name: str) -> AblatedScores | None:
        if self.store is None or not self._file(self.store, name).is_file():
            return None
        stored = read_record(AblatedScores, self._file(self.store, name))
        return stored if stored.without == name and len(stored.scores) == len(self.rows) else None

    def _file(self, store: Path, name: str) -> Path:
        return store / f"{hashlib.sha256(name.encode()).hexdigest()[:24]}.json"


@contextmanager
def _off(model: nn.Module, switches: Switches | None) -> Iterator[None]:
    with ExitStack() as stack:
        if switches and switches.heads:
            stack.enter_context(HeadsOff(model, switches.heads))
        if switches and switches.blocks:
            stack.enter_context(BlocksOff(model, switches.blocks))
        yield


def _same_blocks(one: Switches | None, other: Switches | None, blocks: int) -> int:
    """How many blocks, from the lowest one up, have the same off in both."""

    def off(switches: Switches | None, block: int) -> tuple[bool, set[int | str]]:
        return (False, set()) if switches is None else (block in switches.blocks, set(switches.heads.get(block, ())))

    return next((block for block in range(blocks) if off(one, block) != off(other, block)), blocks)


def torch_model(predictor: Predictor) -> nn.Module:
    """The PyTorch model of a predictor; refused where it has none, or several."""
    if not isinstance(predictor.engine, TorchEngine):
        raise ModelError(f"found the engine {predictor.engine.name}; a model is inspected with the engine torch")
    model: nn.Module = predictor.engine.model
    if isinstance(model, Ensemble):
        raise ModelError("found an ensemble of several models; inspect one, as RUN/model/members/0")
    return model


def every_head(model: nn.Module) -> list[tuple[Kind, Switches]]:
    """Each head of a model alone."""
    layers = LayerMap.of(model)
    blocks = range(len(heads_joined(layers)))
    return [("head", Switches({block: [head]})) for block in blocks for head in range(count_heads(layers))]


def every_layer(model: nn.Module) -> list[tuple[Kind, Switches]]:
    """The attention of each block alone, then each whole block alone, as far as the architecture allows it."""
    return [*_attentions(model), *_blocks(model)]


def _attentions(model: nn.Module) -> Iterator[tuple[Kind, Switches]]:
    layers = LayerMap.of(model)
    try:
        heads_joined(layers)
    except ModelError:
        return
    yield from (("attention", Switches({block: ALL})) for block in range(len(layers.blocks)))


def _blocks(model: nn.Module) -> Iterator[tuple[Kind, Switches]]:
    blocks = enumerate(LayerMap.of(model).blocks)
    yield from (("block", Switches({}, [number])) for number, block in blocks if block.runs == 1)
