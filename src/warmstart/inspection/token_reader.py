"""A reader predicts tokens from an encoder's last hidden states, so that many encoders can be compared by it.

If the reference model comes with a masked-language-modeling head, that head is the reader. Otherwise one is fitted on
the frozen reference encoder: a linear discriminant whose classes are tied to the word embeddings, as the head of a
masked language model is. The same reader is then used for every later encoder: what it no longer predicts has changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional as F

from warmstart.errors import RunError
from warmstart.inspection.masked_texts import MaskedBatch, MaskedTexts
from warmstart.models.hidden_states import hidden_states
from warmstart.models.loading import has_head, load_as_saved, load_config
from warmstart.models.precision import Precision, autocast
from warmstart.runtime.progress import Progress, silent
from warmstart.storage.artifacts import publish, verify
from warmstart.storage.folders import discard

if TYPE_CHECKING:
    from transformers import PreTrainedModel
    from transformers.utils import ModelOutput

MASKED = "AutoModelForMaskedLM"
FILE = "reader.safetensors"
VERSION = 1
"""Part of every key: raise it when the fit changes, and readers fitted before are no longer used."""
RIDGE, SHRINK, UNSEEN = 3.0, 0.1, 0.1
"""Regularization of the fit: what is added to the variance of the embeddings and of the states, as shares of their
means; and the count of a token that is never masked in the texts."""


@dataclass(frozen=True)
class TokenReader:
    """Maps states of shape (tokens, size) to a logit for each token of the vocabulary."""

    read: Callable[[torch.Tensor], torch.Tensor]
    kind: str
    """`own`: the head that the model came with. `fitted`: one fitted to it."""


def has_own_head(model: str) -> bool:
    """Whether a model's folder comes with the head of a masked language model."""
    return has_head(load_config(model), MASKED)


def own_reader(model: str) -> TokenReader:
    """The head that a model's folder comes with, as a reader."""
    whole = load_as_saved(model).eval().requires_grad_(False)

    def read(states: torch.Tensor) -> torch.Tensor:
        def swap(module: nn.Module, args: object, output: ModelOutput) -> ModelOutput:
            output.last_hidden_state = states[None]
            return output

        # Heads differ between architectures; all can be run by replacing the output of the encoder.
        handle = whole.to(states.device).base_model.register_forward_hook(swap)
        try:
            ids = torch.zeros(1, 1, dtype=torch.long, device=states.device)
            logits: torch.Tensor = whole(input_ids=ids).logits[0]
        finally:
            handle.remove()
        return logits

    return TokenReader(read, "own")


def fitted_reader(
    encoder: PreTrainedModel,
    texts: MaskedTexts,
    cache: Path,
    precision: Precision = "fp32",
    progress: Progress = silent,
) -> TokenReader:
    """A reader fitted to an encoder, or the one that was fitted to it before.

    Args:
        texts: General text with masked tokens, to fit it on.
        cache: A folder in which readers are stored.
    """
    words = encoder.get_input_embeddings().weight.detach().float()
    folder = cache / _key(encoder, texts, precision)
    fit = _load(folder)
    if fit is None:
        fit = _fit(*_all_masked_states(encoder, texts, precision, progress), words)
        _save(fit, folder, texts)
    fit = {name: tensor.to(words.device) for name, tensor in fit.items()}
    words = words - fit["centre"]
    return TokenReader(lambda states: F.linear((states - fit["mean"]) @ fit["map"], words, fit["bias"]), "fitted")


@torch.no_grad()
def _all_masked_states(
    encoder: PreTrainedModel, texts: MaskedTexts, precision: Precision, progress: Progress
) -> tuple[torch.Tensor, torch.Tensor]:
    """The last states of all masked tokens, and the tokens that were masked."""
    states, targets = [], []
    with progress.bar("states", len(texts.batches)) as bar:
        for batch in texts.batches:
            states.append(masked_states(encoder, batch, precision))
            targets.append(batch.targets.to(encoder.device))
            bar.advance()
    return torch.cat(states), torch.cat(targets)


def masked_states(encoder: PreTrainedModel, batch: MaskedBatch, precision: Precision) -> torch.Tensor:
    """The encoder's last states of a batch's masked tokens; its dropout must be off."""
    inputs = {name: tensor.to(encoder.device) for name, tensor in batch.masked_inputs.items()}
    with autocast(precision, encoder.device):
        (last,) = hidden_states(encoder, inputs, all_layers=False)
    return last[batch.masked.to(last.device)].float()


def _fit(states: torch.Tensor, targets: torch.Tensor, words: torch.Tensor) -> dict[str, torch.Tensor]:
    """A linear discriminant ("The Use of Multiple Measurements in Taxonomic Problems", Fisher 1936), in closed form.

    The states of a masked token are normally distributed around a linear image of its word embedding, with the same
    covariance for all tokens; the prior of a token is its frequency.
    """
    states, words = states.double(), words.double()
    mean, centre = states.mean(dim=0), words[targets].mean(dim=0)
    x, y = words[targets] - centre, states - mean
    image = torch.linalg.solve(_regularized(x.T @ x / len(x), RIDGE), x.T @ y / len(x))
    rest = y - x @ image
    mapping = torch.linalg.solve(_regularized(rest.T @ rest / len(x), SHRINK), image.T)
    lengths = ((words - centre) @ (image @ mapping) * (words - centre)).sum(dim=1)
    counts = torch.bincount(targets, minlength=len(words)) + UNSEEN
    bias = torch.log(counts / counts.sum()) - lengths / 2
    fit = {"mean": mean, "centre": centre, "map": mapping, "bias": bias}
    return {name: tensor.float().cpu().contiguous() for name, tensor in fit.items()}


def _regularized(covariance: torch.Tensor, share: float) -> torch.Tensor:
    """A covariance with a share of its mean variance added to every direction."""
    return covariance + share * covariance.diagonal().mean() * torch.eye(len(covariance)).to(covariance)


def _save(fit: dict[str, torch.Tensor], folder: Path, texts: MaskedTexts) -> None:
    try:
        with publish(folder, {"version": VERSION, "masked": texts.num_masked}) as staging:
            save_file(fit, staging / FILE)
    except (OSError, RunError):
        if _load(folder) is None:  # else another process published the same one first
            raise


def _load(folder: Path) -> dict[str, torch.Tensor] | None:
    """A stored fit; a damaged one is removed."""
    if not folder.exists():
        return None
    try:
        verify(folder)
        fit: dict[str, torch.Tensor] = load_file(folder / FILE)
    except (RunError, SafetensorError, OSError):
        discard(folder)
        return None
    return fit


def _key(encoder: PreTrainedModel, texts: MaskedTexts, precision: Precision) -> str:
    """A hash of all that affects a fitted reader: the encoder's weights, and the tokens it is fitted on."""
    digest = hashlib.sha256(f"{VERSION} {RIDGE} {SHRINK} {UNSEEN} {precision}".encode())
    for name, tensor in sorted(encoder.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    for batch in texts.batches:
        for tensor in (batch.inputs["input_ids"], batch.masked):
            digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()
