"""The predictor: a finished model, ready to predict.

Every prediction of warmstart comes from here, including those for the run's own test score.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from transformers import PreTrainedTokenizerBase

from warmstart.data.schema import Value
from warmstart.errors import ModelError, RecipeError
from warmstart.inference.batching import ROWS, count_tokens, group_by_length
from warmstart.inference.engine_selection import check_names, load_engine
from warmstart.inference.engine_trial import EngineTrial, settle
from warmstart.inference.engines.base import AUTO, Engine, ModelSource
from warmstart.inference.ensembles import Ensemble, members_of
from warmstart.inference.folders import model_folder
from warmstart.models.architectures import is_pooled
from warmstart.models.heads.selection import compares_texts
from warmstart.models.loading import load_config, load_model, load_tokenizer, max_tokens_of
from warmstart.models.switches import parse_switches, switch_off
from warmstart.runtime import notebook_html
from warmstart.storage.artifacts import verify
from warmstart.tasks.base import Answer, AnyFeature, AnyTask, Input
from warmstart.tasks.shared.protocols import EncodesQueries, HasTensors, ReadsWindows, extended_model
from warmstart.tasks.shared.saved_task import FILE, open_task
from warmstart.text.windows import Frame, Truncation, Window

Text: TypeAlias = Input
"""A text, a pair of texts, or a row with the task's columns."""

InputRow: TypeAlias = Mapping[str, Value]
"""A row of the columns that the task reads."""
Encoded: TypeAlias = tuple[InputRow, list[AnyFeature]]
"""A row and its features."""
BUFFER, BUFFERED = 16384, 1 << 20
"""Features, and tokens of them, read ahead, so that those of like length can share a batch."""
CHUNK, CHARACTERS = 64, 1 << 18
"""Rows, and characters of their texts, turned into features at a time: a long row has many."""
SHOWN = 10
"""Labels that are shown of a predictor."""


class Predictor:
    """Predictions for texts, in the order they are given.

    Attributes:
        cut: How much of the texts so far the window has truncated.
        temperature: What the logits are divided by if labels compete (Guo et al. 2017): it calibrates
            probabilities, and changes no label.
        trial: With the engine `auto`, which one was chosen and how fast the others were; None before the first call.
    """

    def __init__(
        self,
        engine: Engine,
        tokenizer: PreTrainedTokenizerBase,
        task: AnyTask,
        window: Window,
        temperature: float = 1.0,
    ) -> None:
        self.engine = engine
        self.tokenizer = tokenizer
        self.task = task
        self.window = window
        self.cut = Truncation()
        self.trial: EngineTrial | None = None
        self.temperature = temperature if task.single_choice else 1.0

    @classmethod
    def load(
        cls,
        path: str | Path,
        precision: str = "fp32",
        engine: str = "torch",
        task: type[AnyTask] | None = None,
        without: str | None = None,
    ) -> Predictor:
        """Load a run, or its model folder.

        Args:
            engine: `torch`; `onnx` or `openvino`, which need an export of the run; or `auto`, the fastest of those in
                a trial of a few seconds on the first texts.
            precision: `fp32` (as in plain `transformers`), `bf16`, `fp16`, `int8`, or `auto` for the fastest.
            task: The class of the task, where the run was trained with one that no package registers. What a model
                folder names is never imported.
            without: Attention heads and blocks to switch off, as `parse_switches` reads them: `3.7,5.*,6`.
        """
        check_names(engine, precision)
        switches = parse_switches(without) if without else None
        if switches and engine != "torch":
            raise RecipeError(f"without: only the engine torch can switch heads and blocks off; found {engine}")
        folder = model_folder(path)
        members = members_of(folder, verify(folder)) or [folder]
        if switches and len(members) > 1:
            raise ModelError(f"without: {folder} holds several models, whose heads differ; give {members[0]}")
        config = load_config(str(members[0]))
        opened, saved = open_task(folder, config, task)
        window = saved.window
        tokenizer = load_tokenizer(str(members[0]))
        if window.method == "slices" and not (isinstance(opened, ReadsWindows) or is_pooled(config)):
            raise ModelError(f"{folder / FILE}: window.method: found slices, but the model in config.json takes none")
        if opened.separate_texts != compares_texts(config):
            raise ModelError(f"{folder / FILE}: options.encoder: the head in config.json reads pairs otherwise")
        pair = opened.pair and not opened.separate_texts
        _check_window(folder, window, max_tokens_of(config, tokenizer), Frame.of(tokenizer, pair), pair)
        if isinstance(opened, HasTensors):
            opened.load_tensors(members[0])

        def model() -> torch.nn.Module:
            models = (load_model(str(member), opened.auto_class, {}, tokenizer).model for member in members)
            both = zip(models, members, strict=True)
            whole = _ensemble([extended_model(opened, model, member) for model, member in both], opened)
            if switches:
                switch_off(whole, switches)
            return whole

        loaded = load_engine(ModelSource(folder, config, model), engine, precision)
        return cls(loaded, tokenizer, opened, window, saved.temperature)

    def __repr__(self) -> str:
        return f"Predictor({', '.join(f'{name}: {value}' for name, value in self._facts())})"

    def _repr_html_(self) -> str:
        """The predictor in a notebook."""
        return notebook_html.table("Predictor", [], list(self._facts()))

    def _facts(self) -> Iterator[tuple[str, str]]:
        """What a reader wants to know of it."""
        yield "task", self.task.name
        names = list(getattr(getattr(self.task, "labels", None), "names", ()))
        if names:
            more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
            yield "labels", f"{', '.join(names[:SHOWN])}{more}"
        yield "answers with", ", ".join(self.task.answer_schema)
        # One that is still to be chosen has no precision yet.
        yield "engine", AUTO if self.engine.name == AUTO else f"{self.engine.name}, {self.engine.precision}"
        yield "window", self.window.summary()
        if self.temperature != 1.0:
            yield "temperature", f"{self.temperature:.3f}"

    def with_engine(self, engine: Engine) -> Predictor:
        """The same model with another engine."""
        return Predictor(engine, self.tokenizer, self.task, self.window, self.temperature)

    def predict(self, texts: Sequence[Text], batch_size: int = ROWS) -> list[Answer]:
        """One prediction for each text.

        Args:
            batch_size: The maximum number of token sequences per batch; a text in slices has several.
        """
        return list(
            self.stream((self.task.parse_input(text, number) for number, text in enumerate(texts, 1)), batch_size)
        )

    def stream(self, rows: Iterable[InputRow], batch_size: int = ROWS) -> Iterator[Answer]:
        """One prediction for each row, in order, reading ahead no more than a buffer of features."""
        pending = iter(rows)
        held: list[Encoded] = []
        count = tokens = 0
        while chunk := _chunk(pending):
            encoded = self.encode(chunk)
            held += encoded
            count += sum(len(features) for _, features in encoded)
            tokens += sum(count_tokens(feature) for _, features in encoded for feature in features)
            if count >= BUFFER or tokens >= BUFFERED:
                yield from self.answer(held, batch_size)
                held, count, tokens = [], 0, 0
        if held:
            yield from self.answer(held, batch_size)

    def encode(self, rows: Sequence[InputRow]) -> list[Encoded]:
        """Each row with its features; counts what the window truncates."""
        columns = {name: [row[name] for row in rows] for name in self.task.input_columns if name in rows[0]}
        encoded: list[Encoded] = [(row, []) for row in rows]
        encode = self.task.encode_query if isinstance(self.task, EncodesQueries) else self.task.encode
        for number, feature in enumerate(encode(columns, self.tokenizer, self.window)):
            encoded[feature.get("sample", number)][1].append(feature)
        for _, features in encoded:
            self.cut.add(features[0])
        return encoded

    def answer(self, held: Sequence[Encoded], batch_size: int = ROWS) -> Iterator[Answer]:
        """The answers to rows that `encode` gave; of a feature, only what the task decodes from its outputs is held."""
        flat = [feature for _, features in held for feature in features]
        batch_size = min(batch_size, self.task.max_batch or batch_size)
        self.engine, trial = settle(self.engine, flat, self.collate)
        self.trial = trial or self.trial
        parts: list[object] = [None] * len(flat)
        for chosen in group_by_length(flat, batch_size):
            together = [flat[index] for index in chosen]
            for index, part in zip(chosen, self.task.decode(self._outputs(together), together), strict=True):
                parts[index] = part
        start = 0
        for row, features in held:
            yield self.task.merge(row, features, parts[start : start + len(features)])
            start += len(features)

    def compute(self, features: Sequence[AnyFeature], name: str, batch_size: int = ROWS) -> npt.NDArray[np.float32]:
        """One of the model's outputs, by its name, for features of one row each; counts what the window truncates."""
        by_index: dict[int, npt.NDArray[np.float32]] = {}
        for feature in features:
            self.cut.add(feature)
        for chosen in group_by_length(features, batch_size):
            outputs = self._outputs([features[index] for index in chosen])[name].numpy()
            by_index.update(zip(chosen, outputs, strict=True))
        return np.stack([by_index[index] for index in range(len(features))])

    def _outputs(self, features: Sequence[AnyFeature]) -> dict[str, torch.Tensor]:
        outputs = self.engine.compute(self.collate(features))
        if self.temperature != 1.0:
            outputs["logits"] = outputs["logits"] / self.temperature
        return outputs

    def collate(self, features: Sequence[AnyFeature]) -> dict[str, torch.Tensor]:
        """Features as one padded batch, as an engine takes it."""
        return self.task.collate(list(map(dict, features)), self.tokenizer)


def _ensemble(models: Sequence[torch.nn.Module], task: AnyTask) -> torch.nn.Module:
    """The model, or several as an ensemble."""
    if len(models) == 1:
        return models[0]
    how = task.ensemble_averaging(task.options)
    if how is None:
        raise ModelError(f"found {len(models)} models, but answers of {task.name} cannot be averaged; expected one")
    return Ensemble(models, how)


def _chunk(rows: Iterator[InputRow]) -> list[InputRow]:
    """The next rows, as many as are turned into features at a time."""
    chunk, size = [], 0
    for row in itertools.islice(rows, CHUNK):
        chunk.append(row)
        size += sum(len(value) for value in row.values() if isinstance(value, str))
        if size >= CHARACTERS:
            break
    return chunk


def _check_window(folder: Path, window: Window, most: int, frame: Frame, pair: bool) -> None:
    """Refuse a saved window that the saved encoder and tokenizer cannot have been trained with."""
    try:
        if window.max_tokens > most:
            raise ValueError(f"max_tokens: found {window.max_tokens}, but the encoder takes at most {most}")
        window.check(frame, pair)
    except ValueError as error:
        raise ModelError(f"{folder / FILE}: window.{error}") from None
