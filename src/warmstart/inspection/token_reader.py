"""A reader: what turns an encoder's last states into tokens, so that many encoders can be asked what is masked.

Where the starting model comes with the head of a masked language model, that head reads. Else one is fitted on the
starting encoder, which is held still: a linear discriminant whose classes are tied to the word embeddings, as a masked
language model's head is tied to them. The same reader then reads every later encoder: what it no longer finds is no
longer where it was.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch.nn import functional as F

from warmstart.errors import RunError
from warmstart.inspection.masked_texts import Batch, Exam
from warmstart.models.hidden_states import hidden_states
from warmstart.models.loading import has_head, load_config, load_plain
from warmstart.models.precision import Precision, computing
from warmstart.runtime.progress import Progress, silent
from warmstart.storage.artifacts import publish, verify

MASKED = "AutoModelForMaskedLM"
FILE = "reader.safetensors"
VERSION = 1
"""Part of every key: raise it when the fit changes, and readers kept before are no longer found."""
RIDGE, SHRINK, UNSEEN = 3.0, 0.1, 0.1
"""How much a fit trusts few states: what is added to the variance of the embeddings and of the states, as shares of
their means; and how often a token that is never masked in the text is taken to be."""


@dataclass(frozen=True)
class Reader:
    """States of shape (tokens, width) to a score for each token of the vocabulary."""

    read: Callable[[torch.Tensor], torch.Tensor]
    kind: str
    """`own`: the head the model came with. `fitted`: one fitted to it."""


def has_own_head(model: str) -> bool:
    """Whether a model's folder comes with the head of a masked language model."""
    return has_head(load_config(model), MASKED)


def own_reader(model: str) -> Reader:
    """The head that a model's folder comes with, as a reader."""
    whole = load_plain(model).eval().requires_grad_(False)

    def read(states: torch.Tensor) -> torch.Tensor:
        def swap(module: Any, given: Any, output: Any) -> Any:
            output.last_hidden_state = states[None]
            return output

        # Every architecture's head has another form; all are reached by putting the states in the encoder's place.
        handle = whole.to(states.device).base_model.register_forward_hook(swap)
        try:
            found: torch.Tensor = whole(input_ids=torch.zeros(1, 1, dtype=torch.long, device=states.device)).logits[0]
        finally:
            handle.remove()
        return found

    return Reader(read, "own")


def fitted_reader(
    encoder: Any, exam: Exam, cache: Path, precision: Precision = "fp32", progress: Progress = silent
) -> Reader:
    """A reader fitted to an encoder, or the one that was fitted to it before.

    Args:
        exam: General text with masked tokens, to fit it on.
        cache: A folder in which readers are kept.
    """
    words = encoder.get_input_embeddings().weight.detach().float()
    folder = cache / _key(encoder, exam, precision)
    fit = _open(folder)
    if fit is None:
        fit = _fit(*_masked_states(encoder, exam, precision, progress), words)
        _keep(fit, folder, exam)
    fit = {name: tensor.to(words.device) for name, tensor in fit.items()}
    words = words - fit["centre"]
    return Reader(lambda states: F.linear((states - fit["mean"]) @ fit["map"], words, fit["bias"]), "fitted")


@torch.no_grad()
def _masked_states(
    encoder: Any, exam: Exam, precision: Precision, progress: Progress
) -> tuple[torch.Tensor, torch.Tensor]:
    """The last states of all masked tokens, and the tokens that were there."""
    states, answers = [], []
    with progress.bar("states", len(exam.batches)) as bar:
        for batch in exam.batches:
            states.append(states_of_masked(encoder, batch, precision))
            answers.append(batch.answers.to(encoder.device))
            bar.advance()
    return torch.cat(states), torch.cat(answers)


def states_of_masked(encoder: Any, batch: Batch, precision: Precision) -> torch.Tensor:
    """The encoder's last states of a batch's masked tokens; its dropout must be off."""
    given = {name: tensor.to(encoder.device) for name, tensor in batch.hidden.items()}
    with computing(precision, encoder.device):
        (last,) = hidden_states(encoder, given, every=False)
    return last[batch.masked.to(last.device)].float()


def _fit(states: torch.Tensor, answers: torch.Tensor, words: torch.Tensor) -> dict[str, torch.Tensor]:
    """A linear discriminant ("The Use of Multiple Measurements in Taxonomic Problems", Fisher 1936), in closed form.

    The states of a masked token lie around a linear image of its word embedding, spread alike for all tokens; a token
    is as likely as it is frequent and as its states are close.
    """
    states, words = states.double(), words.double()
    mean, centre = states.mean(dim=0), words[answers].mean(dim=0)
    x, y = words[answers] - centre, states - mean
    image = torch.linalg.solve(_widened(x.T @ x / len(x), RIDGE), x.T @ y / len(x))
    rest = y - x @ image
    map = torch.linalg.solve(_widened(rest.T @ rest / len(x), SHRINK), image.T)
    lengths = ((words - centre) @ (image @ map) * (words - centre)).sum(dim=1)
    counts = torch.bincount(answers, minlength=len(words)) + UNSEEN
    bias = torch.log(counts / counts.sum()) - lengths / 2
    found = {"mean": mean, "centre": centre, "map": map, "bias": bias}
    return {name: tensor.float().cpu().contiguous() for name, tensor in found.items()}


def _widened(covariance: torch.Tensor, share: float) -> torch.Tensor:
    """A covariance with a share of its mean variance added to every direction."""
    return covariance + share * covariance.diagonal().mean() * torch.eye(len(covariance)).to(covariance)


def _keep(fit: dict[str, torch.Tensor], folder: Path, exam: Exam) -> None:
    try:
        with publish(folder, {"version": VERSION, "masked": exam.asked}) as staging:
            save_file(fit, staging / FILE)
    except (OSError, RunError):
        if _open(folder) is None:  # else another process published the same one first
            raise


def _open(folder: Path) -> dict[str, torch.Tensor] | None:
    """A fit that is kept; what is damaged is removed."""
    if not folder.exists():
        return None
    try:
        verify(folder)
        found: dict[str, torch.Tensor] = load_file(folder / FILE)
    except (RunError, SafetensorError, OSError):
        shutil.rmtree(folder, ignore_errors=True)
        return None
    return found


def _key(encoder: Any, exam: Exam, precision: Precision) -> str:
    """A name made of all that affects a fitted reader: the encoder's weights, and the tokens it is fitted on."""
    digest = hashlib.sha256(f"{VERSION} {RIDGE} {SHRINK} {UNSEEN} {precision}".encode())
    for name, tensor in sorted(encoder.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    for batch in exam.batches:
        for tensor in (batch.inputs["input_ids"], batch.masked):
            digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()
