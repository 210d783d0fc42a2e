"""Features: vectors of texts from any layer of an encoder, for any number of texts in little memory.

extractor = Extractor.load("sentence-transformers/all-MiniLM-L6-v2", layers="concat-4", pooling="mean")
vectors = extractor.vectors(["one text", "and another"])
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from warmstart.data.schema import Value
from warmstart.errors import DataError, ModelError, RecipeError
from warmstart.inference.batching import ROWS, group_by_length
from warmstart.inference.ensembles import MEMBERS, members_of
from warmstart.inference.folders import model_folder
from warmstart.inference.predictor import Text
from warmstart.models.hidden_states import build_pooling, hidden_states
from warmstart.models.loading import load_config, load_encoder, load_tokenizer, max_tokens_of
from warmstart.models.pooling import SlicePooling
from warmstart.models.precision import autocast, resolve_precision
from warmstart.storage.artifacts import verify
from warmstart.tasks.shared.saved_task import FILE, SavedTask
from warmstart.tasks.shared.text_inputs import encode_texts, pad
from warmstart.text.windows import DEFAULT_TOKENS, Frame, Truncation, Window

Vectors = npt.NDArray[np.float32]
TextRow: TypeAlias = Mapping[str, Value]
BUFFER = 1024
"""Rows read ahead, so that those of like length can share a batch; their vectors are held, too."""
LEARNED = {"layers": "scalar-mix", "pooling": "attention"}
"""Ways to pool that have to be trained first."""


class Extractor:
    """Vectors of texts, in the order they are given; the same numbers as the plain encoder's, pooled.

    Args:
        encoder: An encoder without a head.
        layers: `last`; one layer by its number (0 the embeddings, 1 the first block, -1 the last); `concat-N`, `sum-N`,
            `mean-N` or `max-N` of the last N, or of `all` blocks; or `all`: every layer separately, embeddings first.
        pooling: `cls` (the first token), `last`, `mean`, `max` or `last+max+mean`.

    Attributes:
        shape: The shape of a vector: its width, or (layers, width) for `all`.
        cut: How much of the texts so far the window has truncated.
    """

    def __init__(
        self,
        encoder: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        window: Window,
        layers: str | int = "last",
        pooling: str = "mean",
        precision: str = "fp32",
    ) -> None:
        for name, value in {"layers": layers, "pooling": pooling}.items():
            if value == LEARNED[name]:
                raise RecipeError(
                    f"{name}: found {value}, which is learned in training; choose one that is not for features"
                )
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.encoder = encoder.eval().to(self.device)
        self.tokenizer = tokenizer
        self.window = window
        self.cut = Truncation()
        self.precision = resolve_precision(precision, encoder.config)
        chosen = range(encoder.config.num_hidden_layers + 1) if layers == "all" else [layers]
        self.poolings = [build_pooling(encoder.config, one, pooling) for one in chosen]
        widths = {pooling.output_size for pooling in self.poolings}
        if len(widths) > 1:
            raise RecipeError(
                f"layers: found all, but the encoder's layers are {sorted(widths)} wide; give one by its number"
            )
        self.width = sum(pooling.output_size for pooling in self.poolings)
        self.shape = (len(self.poolings), *widths) if layers == "all" else (*widths,)
        self.slices = SlicePooling("mean", self.width)

    @classmethod
    def load(
        cls,
        model: str | Path,
        layers: str | int = "last",
        pooling: str = "mean",
        max_tokens: int | None = None,
        window: str | None = None,
        precision: str = "fp32",
    ) -> Extractor:
        """Open an encoder, from its folder or by its name on the Hub, or the one in a run.

        Args:
            max_tokens: The maximum number of tokens seen at once. None: as in the run, or as many as the encoder
                supports, but at most 512.
            window: What is kept of a text that is too long: `head`, `tail`, `head+tail`, or all of it in `slices`,
                whose vectors are averaged. None: as in the run, or `head`.
            precision: `fp32` (as in plain `transformers`), `bf16`, `fp16`, or `auto` for the fastest here.
        """
        name, trained = _open(model)
        tokenizer = load_tokenizer(name)
        most = max_tokens_of(load_config(name), tokenizer)
        return cls(
            load_encoder(name), tokenizer, _window(trained, max_tokens, window, most), layers, pooling, precision
        )

    def vectors(self, texts: Iterable[Text], batch_size: int = ROWS) -> Vectors:
        """All vectors, as one array of shape (texts, …); use `stream` if they do not fit into memory."""
        chunks = [vectors for _, vectors in self.stream(texts, batch_size)]
        return np.concatenate(chunks) if chunks else np.zeros((0, *self.shape), np.float32)

    def stream(
        self, texts: Iterable[Text], batch_size: int = ROWS, advance: Callable[[int], object] = lambda count: None
    ) -> Iterator[tuple[list[TextRow], Vectors]]:
        """A few rows at a time with their vectors, in order, reading ahead no more than a buffer of rows.

        Args:
            texts: Texts, pairs of them, or rows with `text`, for a pair `pair`, and anything else.
            batch_size: The maximum number of token sequences per batch.
            advance: Called with the number of texts of each batch when it is done.
        """
        pending = text_rows(texts)
        first = next(pending, None)
        if first is None:
            return
        pair = "pair" in first
        self.check_window(pair)
        pending = itertools.chain([first], pending)
        while rows := list(itertools.islice(pending, BUFFER)):
            yield rows, self._vectors(rows, pair, batch_size, advance)

    def check_window(self, pair: bool) -> None:
        """Refuse a window that leaves no room for text."""
        try:
            self.window.check(Frame.of(self.tokenizer, pair), pair)
        except ValueError as error:
            raise RecipeError(f"window: {error}") from None

    def _vectors(self, rows: Sequence[TextRow], pair: bool, batch: int, advance: Callable[[int], object]) -> Vectors:
        names = ("text", "pair") if pair else ("text",)
        columns = {name: [row[name] for row in rows] for name in names}
        features = encode_texts(columns, self.tokenizer, self.window, pair)
        for feature in features:
            self.cut.add(feature)
        vectors = np.empty((len(rows), self.width), np.float32)
        for chosen in group_by_length(features, batch):
            vectors[chosen] = self._run(pad([features[index] for index in chosen], self.tokenizer), batch)
            advance(len(chosen))
        return vectors.reshape(len(rows), *self.shape)

    @torch.inference_mode()
    def _run(self, inputs: dict[str, torch.Tensor], batch: int) -> Vectors:
        """Vectors of a padded batch; a text of many slices goes through the encoder a few at a time."""
        slices = inputs.pop("slices", None)
        every = any(pooling.needs_all_layers for pooling in self.poolings)
        chunks = []
        for start in range(0, len(inputs["input_ids"]), batch):
            part = {name: tensor[start : start + batch].to(self.device) for name, tensor in inputs.items()}
            with autocast(self.precision, self.device):
                states = hidden_states(self.encoder, part, every)
                pooled = [pooling(states, part["attention_mask"]) for pooling in self.poolings]
            chunks.append(torch.cat(pooled, dim=-1).float())
        vectors = torch.cat(chunks)
        whole: Vectors = (vectors if slices is None else self.slices(vectors, slices)).cpu().numpy()
        return whole


def _open(model: str | Path) -> tuple[str, Window | None]:
    """The name to open an encoder by, and the window it was trained with if it is a run's."""
    path = Path(model)
    if not any((folder / FILE).is_file() for folder in (path / "model", path)):
        return str(model), None
    folder = model_folder(path)
    if members_of(folder, verify(folder)):
        raise ModelError(f"{folder} holds several models; give one of them, as {folder / MEMBERS / '0'}")
    return str(folder), SavedTask.read(folder).window


def _window(trained: Window | None, max_tokens: int | None, method: str | None, most: int) -> Window:
    """The window of the arguments, else the one trained with, else the head of what the encoder takes."""
    if max_tokens is not None and max_tokens > most:
        raise RecipeError(f"max_tokens: found {max_tokens}, but the encoder takes at most {most} tokens")
    try:
        if trained is None or method not in {None, trained.method}:
            own = Window(min(most, DEFAULT_TOKENS)) if trained is None else trained
            base = Window(own.max_tokens, method or "head", prompt=own.prompt)
        else:
            base = trained
        return replace(base, max_tokens=base.max_tokens if max_tokens is None else max_tokens)
    except ValueError as error:
        raise RecipeError(f"window: {error}") from None


def text_rows(texts: Iterable[Text]) -> Iterator[TextRow]:
    """Texts in any of their forms as rows, refusing what is none, and texts among pairs."""
    wanted: set[str] = set()
    for number, text in enumerate(texts, 1):
        row: TextRow = {"text": text} if isinstance(text, str) else text if isinstance(text, Mapping) else {}
        if isinstance(text, list | tuple) and len(text) == 2:
            row = {"text": text[0], "pair": text[1]}
        columns = set(row) & {"text", "pair"}
        wanted = wanted or columns
        if "text" not in columns or columns != wanted or not all(isinstance(row[name], str) for name in columns):
            like = ', all alike: a string each, or a pair each, as ("first", "second")'
            raise DataError(f"text {number}: found {text!r}; expected texts{like}")
        if not row["text"].strip():
            raise DataError(f"text {number} is empty; expected text, as in a file")
        yield row
