"""A linear-chain conditional random field (CRF): the tags of a sequence are scored together.

"Conditional Random Fields", Lafferty, McCallum and Pereira 2001. The score of a sequence of tags is the
sum of the emissions (the logits of each word, from the encoder's head) and of the transitions from a tag to the next
(learned here). Rows have their words first and padding last, as a mask shows. There is no score for the first and the
last tag, so a window that starts inside a sentence is treated like any other.
"""

from __future__ import annotations

from pathlib import Path

import safetensors
import safetensors.torch
import torch
from torch import nn

from warmstart.errors import ModelError

NAME = "crf.transitions"
"""Its one tensor, under its name among the weights of a model that it is attached to as `crf`."""
FILE = "crf.safetensors"
"""Its file, where it is saved by itself."""
FORBIDDEN = -1e4
"""The score of a transition that the tag scheme does not allow: never chosen, and finite, since scores are
subtracted."""


class CRF(nn.Module):
    """Transitions between tags; computes in fp32 or fp64, whatever the precision of the encoder.

    Args:
        steps: Which tag may follow which: a row for the first, a column for the second.
        starts: Which tags may come first; used in decoding only.
        ends: Which tags may come last; likewise.
    """

    steps: torch.Tensor
    starts: torch.Tensor
    ends: torch.Tensor

    def __init__(self, steps: torch.Tensor, starts: torch.Tensor, ends: torch.Tensor) -> None:
        super().__init__()
        self.transitions = nn.Parameter(torch.zeros(steps.shape))
        # What the scheme forbids follows from the labels, so it is not saved.
        self.register_buffer("steps", (~steps) * FORBIDDEN, persistent=False)
        self.register_buffer("starts", (~starts) * FORBIDDEN, persistent=False)
        self.register_buffer("ends", (~ends) * FORBIDDEN, persistent=False)

    def log_likelihood(self, emissions: torch.Tensor, tags: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """The log-probability of each row of tags; 0 for a row without words.

        Args:
            emissions: Logits of each word, of shape (rows, words, tags).
            tags: The right tags, of shape (rows, words); anything where the mask is false.
            mask: Which of them are words.
        """
        with torch.autocast(emissions.device.type, enabled=False):
            emissions, scores = emissions.float(), self._scores()
            tags = tags.masked_fill(~mask, 0)
            own = emissions.gather(2, tags.unsqueeze(2)).squeeze(2)
            steps = scores[tags[:, :-1], tags[:, 1:]]
            score = (own * mask).sum(1) + (steps * mask[:, 1:]).sum(1)
            return torch.where(mask.any(1), score - self._forward(emissions, mask)[:, -1].logsumexp(1), 0.0)

    def marginals(self, emissions: torch.Tensor) -> torch.Tensor:
        """The probability of each tag at each word of one row, of shape (words, tags), in fp64."""
        # Sums over a long text are large, and the result is a small difference between them.
        row = emissions.double().clone()
        row[0] += self.starts.to(row)
        row[-1] += self.ends.to(row)
        forward = self._forward(row.unsqueeze(0), torch.ones(1, len(row), dtype=torch.bool, device=row.device))[0]
        backward = torch.zeros_like(forward)
        scores = self._scores().to(row)
        for index in range(len(row) - 2, -1, -1):
            backward[index] = (scores + row[index + 1] + backward[index + 1]).logsumexp(1)
        return (forward + backward).softmax(1)

    def decode(self, emissions: torch.Tensor) -> list[int]:
        """The best tags for one row of words (Viterbi), without forbidden transitions, starts or ends."""
        row = emissions.double()
        scores = self._scores().to(row)
        reached = row[0] + self.starts.to(row)
        back = []
        for word in row[1:]:
            reached, before = (reached.unsqueeze(1) + scores).max(0)
            reached = reached + word
            back.append(before)
        tag = int((reached + self.ends.to(row)).argmax())
        tags = [tag]
        for before in reversed(back):
            tag = int(before[tag])
            tags.append(tag)
        return tags[::-1]

    def _scores(self) -> torch.Tensor:
        return self.transitions.float() + self.steps

    def _forward(self, emissions: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """For each word and tag the log of the sum over all sequences of tags up to it; padding repeats the last."""
        scores = self._scores().to(emissions)
        sums = [emissions[:, 0]]
        for index in range(1, emissions.shape[1]):
            step = (sums[-1].unsqueeze(2) + scores).logsumexp(1) + emissions[:, index]
            sums.append(torch.where(mask[:, index, None], step, sums[-1]))
        return torch.stack(sums, 1)


def save_crf(crf: CRF, folder: Path) -> None:
    """Save the transitions by themselves, beside a model that is saved in another format than tensors."""
    safetensors.torch.save_file({NAME: crf.transitions.detach().cpu().contiguous()}, folder / FILE)


def load_crf(crf: CRF, folder: Path) -> None:
    """Load the transitions that are saved with a model's weights."""
    for path in sorted(folder.glob("*.safetensors")):
        with safetensors.safe_open(path, "pt") as file:
            if NAME in file.keys():  # noqa: SIM118 - no mapping, it has keys alone
                saved = file.get_tensor(NAME)
                if saved.shape != crf.transitions.shape:
                    shapes = f"found shape {tuple(saved.shape)}, expected {tuple(crf.transitions.shape)}"
                    raise ModelError(f"{path}: {NAME}: {shapes}, a row and a column for each label")
                crf.transitions.data.copy_(saved)
                return
    raise ModelError(f"{folder}: has no {NAME} among its weights; for a new head with a CRF, set head.reuse: false")
