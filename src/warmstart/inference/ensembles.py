"""Ensembles: several models that answer as one, their outputs averaged before the task decodes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import torch

from warmstart.errors import ModelError
from warmstart.tasks.base import Averaging

if TYPE_CHECKING:
    from transformers import PreTrainedModel

MEMBERS = "members"
"""The folder in a model folder that holds each member as a model folder of its own, `0` and up."""


def members_of(folder: Path, manifest: Mapping[str, Any]) -> list[Path]:
    """The members' folders by their number, as the manifest lists their files; none for a single model."""
    parts = (PurePosixPath(name).parts for name in manifest["files"])
    names = {part[1] for part in parts if part[0] == MEMBERS and len(part) > 2}
    if sorted(names) != sorted(str(number) for number in range(len(names))):
        raise ModelError(f"{folder / MEMBERS}: found {', '.join(sorted(names))}, expected folders numbered from 0 on")
    return [folder / MEMBERS / str(number) for number in range(len(names))]


class Ensemble(torch.nn.Module):
    """Models with the same inputs and outputs, called as one.

    Args:
        averaging: As `Task.ensemble_averaging` has it.
    """

    def __init__(self, members: Sequence[PreTrainedModel], averaging: Averaging) -> None:
        super().__init__()
        self.members = torch.nn.ModuleList(members)
        self.averaging = averaging
        self.config = members[0].config

    def forward(self, **inputs: torch.Tensor) -> dict[str, torch.Tensor]:
        """Each output of a name, mixed over the members; logits again, so that a task reads them as any."""
        each = [dict(member(**inputs).items()) for member in self.members]
        names = [name for name, one in each[0].items() if torch.is_tensor(one)]
        return {name: average_outputs([one[name] for one in each], self.averaging) for name in names}


def average_outputs(outputs: Sequence[torch.Tensor], averaging: Averaging) -> torch.Tensor:
    """Logits whose probabilities are the mean of those of the given logits, or the mean of the logits themselves."""
    every = torch.stack([one.double() for one in outputs])
    if averaging == "softmax":
        return _log_sum_exp(every.log_softmax(-1)) - torch.tensor(len(outputs)).double().log()
    if averaging == "sigmoid":
        yes, no = (_log_sum_exp(torch.nn.functional.logsigmoid(one)) for one in (every, -every))
        return yes - no
    return every.mean(0)


def _log_sum_exp(every: torch.Tensor) -> torch.Tensor:
    """The logarithm of the sum over members; written out, as OpenVINO sums `logsumexp` over all dimensions."""
    largest = every.amax(0)
    return (every - largest).exp().sum(0).log() + largest
