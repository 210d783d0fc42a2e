"""A reader: what turns an encoder's last states into tokens, so that many encoders can be asked what is masked.

Where the starting model comes with the head of a masked language model, that head reads. Else one is fitted on the
starting encoder, which is held still: BERT's head (Devlin et al. 2019; a layer, gelu, a norm, and a product with the
word embeddings), learned from its states of general text. The same reader then reads every later encoder: what it no
longer finds is no longer where it was.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional as F

from warmstart.artifacts import publish, verify
from warmstart.encoders.load import has_head, load_config, load_plain
from warmstart.encoders.precision import Precision, computing
from warmstart.encoders.states import hidden_states, pooling_of
from warmstart.errors import RunError
from warmstart.inspection.masks import Batch, Exam
from warmstart.progress import Progress, silent

MASKED = "AutoModelForMaskedLM"
FILE = "reader.safetensors"
VERSION = 1
"""Part of every key: raise it when the fit changes, and readers kept before are no longer found."""
STEPS, BATCH, RATE = 400, 256, 1e-3
"""How a reader is fitted: steps of AdamW, masked tokens a step, and the rate at first, which falls to zero."""


@dataclass(frozen=True)
class Reader:
    """States of shape (tokens, width) to a score for each token of the vocabulary."""

    read: Callable[[torch.Tensor], torch.Tensor]
    kind: str
    """`own`: the head the model came with. `fitted`: one fitted to it."""


class Head(nn.Module):
    """BERT's head of a masked language model, its decoder tied to an encoder's word embeddings, which never learn."""

    def __init__(self, width: int, words: torch.Tensor) -> None:
        super().__init__()
        self.dense = nn.Linear(width, words.shape[1])
        self.norm = nn.LayerNorm(words.shape[1])
        self.bias = nn.Parameter(torch.zeros(len(words)))
        self.register_buffer("words", words, persistent=False)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        words: Any = self.words
        return F.linear(self.norm(F.gelu(self.dense(states))), words, self.bias)


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
    folder = cache / _key(encoder, exam, precision)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        width = pooling_of(encoder.config, "last", "mean").width
        head = Head(width, encoder.get_input_embeddings().weight.detach().cpu().clone())
    if not _open(head, folder):
        states, answers = _masked_states(encoder, exam, precision, progress)
        loss = _fit(head.to(states.device), states, answers, precision, progress)
        with publish(folder, {"version": VERSION, "loss": loss, "masked": len(answers)}) as staging:
            save_file(head.state_dict(), staging / FILE)
    head.eval().requires_grad_(False)
    return Reader(lambda states: cast(torch.Tensor, head.to(states.device)(states)), "fitted")


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


def _fit(head: Head, states: torch.Tensor, answers: torch.Tensor, precision: Precision, progress: Progress) -> float:
    """Fit a head to states that were kept; the mean loss of the last tenth of the steps."""
    counts = torch.bincount(answers, minlength=len(head.bias)).float()
    with torch.no_grad():  # how frequent each token is need not be found step by step
        head.bias.copy_(torch.log((counts + 0.1) / (counts + 0.1).sum()))
    optimizer = torch.optim.AdamW(head.parameters(), RATE, weight_decay=0.01)
    falling = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, STEPS)
    chance = torch.Generator().manual_seed(0)
    losses = []
    with torch.enable_grad(), progress.bar("reader", STEPS) as bar:
        for _ in range(STEPS):
            chosen = torch.randint(len(states), (BATCH,), generator=chance).to(states.device)
            with computing(precision, states.device):
                scores = head(states[chosen])
            loss = F.cross_entropy(scores.float(), answers[chosen])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            falling.step()
            losses.append(loss.item())
            bar.advance(1, f"loss {losses[-1]:.3f}")
    last = losses[-STEPS // 10 :]
    return sum(last) / len(last)


def _open(head: Head, folder: Path) -> bool:
    """Fill a head from where it is kept; what is damaged there is removed."""
    if not folder.exists():
        return False
    try:
        verify(folder)
        head.load_state_dict(load_file(folder / FILE))
    except (RunError, SafetensorError, RuntimeError, OSError):
        shutil.rmtree(folder, ignore_errors=True)
        return False
    return True


def _key(encoder: Any, exam: Exam, precision: Precision) -> str:
    """A name made of all that affects a fitted reader: the encoder's weights, and the tokens it is fitted on."""
    digest = hashlib.sha256(f"{VERSION} {STEPS} {BATCH} {RATE} {precision}".encode())
    for name, tensor in sorted(encoder.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    for batch in exam.batches:
        for tensor in (batch.inputs["input_ids"], batch.masked):
            digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()
