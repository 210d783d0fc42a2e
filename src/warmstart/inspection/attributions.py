"""Methods that say how much each word speaks for an answer: a number for each word, above 0 where it does.

- `gradient-input`: the gradient at the word embeddings, times the embeddings.
- `integrated-gradients`: the gradient along the way from mask tokens to the text, times that way ("Axiomatic
  Attribution for Deep Networks", Sundararajan et al. 2017). The numbers of all words sum up to what the words change.
- `occlusion`: what is lost where the word alone is masked ("Understanding Neural Networks through Representation
  Erasure", Li et al. 2016).
- `lime`: a linear model of what random choices of words give ("Why Should I Trust You?", Ribeiro et al. 2016).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from warmstart.errors import ModelError, RecipeError, nearest
from warmstart.inspection.ablation import torch_model
from warmstart.inspection.explained_text import ExplainedText, sequences_of
from warmstart.models.hidden_states import encoder_of

STEPS = 32
"""Points on the way of integrated gradients."""
CHUNK = 8
"""Sequences that are computed at once, unless a text has more."""
CHUNK_SIZE = "slice_chunk_size"
"""What the config of our own models calls the number of slices that are computed at once."""
SAMPLES = 200
"""Choices of words for LIME."""
KERNEL = 0.25
"""The width of LIME's kernel, in units of the cosine distance to the whole text."""

Weights = NDArray[np.float64]


def attribute(text: ExplainedText, method: str, seed: int = 0) -> Weights:
    """How much each word of a text speaks for its answer.

    Args:
        method: One of `METHODS`.
        seed: For LIME, that of its choices.
    """
    if method not in METHODS:
        raise RecipeError(f"method: found {method!r}; {nearest(method, METHODS)}")
    return METHODS[method](text, seed)


def _gradient_input(text: ExplainedText, seed: int) -> Weights:
    gradient, embeddings, _ = _gradients(text, torch.ones(1))
    return _by_word(text, (gradient * embeddings).sum(-1))


def _integrated_gradients(text: ExplainedText, seed: int) -> Weights:
    # The middle of each part of the way, which is more exact than its ends.
    points = (torch.arange(STEPS) + 0.5) / STEPS
    total: torch.Tensor | float = 0.0
    sequences = sum(len(sequences_of(feature)) for feature in text.features)
    for some in torch.split(points, max(1, CHUNK // sequences)):
        gradient, embeddings, baseline = _gradients(text, some)
        total = total + gradient * (embeddings - baseline)
    assert isinstance(total, torch.Tensor)
    return _by_word(text, total.sum(-1) / STEPS)


def _occlusion(text: ExplainedText, seed: int) -> Weights:
    count = len(text.words)
    whole, *others = text.scores([np.ones(count, bool), *(~np.eye(count, dtype=bool))])
    return np.asarray(whole - np.array(others))


def _lime(text: ExplainedText, seed: int) -> Weights:
    from sklearn.linear_model import Ridge

    count = len(text.words)
    random = np.random.default_rng(seed)
    masks = np.ones((SAMPLES, count), bool)
    for mask in masks[1:]:  # the first is the whole text
        mask[random.choice(count, random.integers(1, count + 1), replace=False)] = False
    distance = 1 - np.sqrt(masks.mean(axis=1))  # of the cosine to a vector of ones
    weights = np.exp(-((distance / KERNEL) ** 2))
    return np.asarray(Ridge(alpha=1.0).fit(masks, text.scores(list(masks)), weights).coef_)


METHODS: dict[str, Callable[[ExplainedText, int], Weights]] = {
    "gradient-input": _gradient_input,
    "integrated-gradients": _integrated_gradients,
    "occlusion": _occlusion,
    "lime": _lime,
}


def _gradients(text: ExplainedText, points: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The gradient at the word embeddings, summed over points on the way from mask tokens, 0, to the text, 1.

    Returns:
        The gradient, the embeddings and those of the mask tokens, each of shape (sequences, tokens, size).
    """
    model = torch_model(text.predictor)
    device = next(model.parameters()).device
    copies = list(text.features) * len(points)
    batch = {name: tensor.to(device) for name, tensor in text.predictor.collate(copies).items()}
    factors = points.repeat_interleave(sum(len(sequences_of(feature)) for feature in text.features))
    words = _is_word(text, batch, len(points))
    way = _on_the_way(model, text.mask_id, factors, words, batch["input_ids"])
    with torch.enable_grad(), way as states:
        outputs = {name: value for name, value in model(**batch).items() if torch.is_tensor(value)}
        total = torch.stack(list(text.split(outputs, len(points)))).sum()
        (gradient,) = torch.autograd.grad(total, states["moved"])
    shape = (len(points), -1, *gradient.shape[1:])
    whole, is_word = states["whole"].reshape(shape)[0], states["words"].reshape(*shape[:3], 1)[0]
    return gradient.reshape(shape).sum(0), whole, torch.where(is_word, states["mask"], whole)


@contextmanager
def _on_the_way(
    model: nn.Module, mask_id: int, factors: torch.Tensor, words: torch.Tensor, ids: torch.Tensor
) -> Iterator[dict[str, torch.Tensor]]:
    """Move the embeddings of words toward that of the mask token, and keep them for their gradient."""
    module: Any = encoder_of(model).get_input_embeddings()
    with torch.no_grad():
        mask = module(torch.tensor([mask_id], device=module.weight.device))[0]
    states: dict[str, torch.Tensor] = {"mask": mask}

    def move(_: nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor:
        rows, width = ids.shape
        if not inputs[0][:rows, :width].equal(ids):
            kind = encoder_of(model).config.model_type
            raise ModelError(f"{kind}: reads its embeddings in an order of its own; use the method occlusion or lime")
        # Longformer pads a batch itself.
        states["words"] = nn.functional.pad(words, (0, output.shape[1] - width))
        near = mask + factors.to(output)[:, None, None] * (output - mask)
        states["moved"] = torch.where(states["words"][..., None], near, output).detach().requires_grad_()
        states["whole"] = output.detach()
        return states["moved"]

    handle = module.register_forward_hook(move)
    config: Any = model.config
    # The slices of a text all at once, and not some at a time: the embeddings are those of the whole batch.
    chunk_size = getattr(config, CHUNK_SIZE, None)
    try:
        if chunk_size is not None:
            setattr(config, CHUNK_SIZE, None)
        yield states
    finally:
        handle.remove()
        if chunk_size is not None:
            setattr(config, CHUNK_SIZE, chunk_size)


def _is_word(text: ExplainedText, batch: dict[str, torch.Tensor], copies: int) -> torch.Tensor:
    """Which tokens of a batch belong to words, of shape (sequences, tokens)."""
    words = torch.zeros_like(batch["input_ids"], dtype=torch.bool)
    for row, position in _rows(text, words.shape[1]):
        words[row, position] = True
    return words[: len(words) // copies].repeat(copies, 1)


def _rows(text: ExplainedText, width: int) -> Iterator[tuple[int, int]]:
    """The row in the batch, and the position in it, of each token of each word, in their order."""
    left = text.predictor.tokenizer.padding_side == "left"
    lengths = [[len(sequence) for sequence in sequences_of(feature)] for feature in text.features]
    first = np.cumsum([0, *map(len, lengths)])
    for word in text.words:
        for feature, sequence, position in word.places:
            shift = width - lengths[feature][sequence] if left else 0
            yield int(first[feature]) + sequence, position + shift


def _by_word(text: ExplainedText, by_token: torch.Tensor) -> Weights:
    """The sum over the tokens of each word."""
    values = iter([float(by_token[row, position]) for row, position in _rows(text, by_token.shape[1])])
    return np.array([sum(next(values) for _ in word.places) for word in text.words])
