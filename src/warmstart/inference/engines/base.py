"""What an engine is: padded batches in, the model's outputs out.

An engine is one class in one file of this folder, named as the engine is, or in another package:

    [project.entry-points."warmstart.engines"]
    tensorrt = "my_package.tensorrt:TensorRTEngine"
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

import torch
from torch import nn

from warmstart.inference.exported_model import ExportedModel, is_export, open_export
from warmstart.models.architectures import spec_of
from warmstart.models.precision import supports_bf16

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

AUTO = "auto"
"""The engine or the precision that is the fastest here."""


@dataclass(frozen=True)
class ModelSource:
    """The model that an engine loads.

    Args:
        folder: The model folder, or an export.
        load: Loads the PyTorch model.
    """

    folder: Path
    config: PreTrainedConfig
    load: Callable[[], nn.Module]

    @property
    def is_export(self) -> bool:
        """Whether there is nothing but an export."""
        return is_export(self.folder)

    @cached_property
    def export(self) -> ExportedModel:
        """The export of the model; one that is missing, damaged or of another model is refused."""
        return open_export(self.folder)

    @property
    def fast_in_bf16(self) -> bool:
        """Whether the architecture computes well in bf16, and this machine fast."""
        return bool(spec_of(self.config).half_precision) and supports_bf16()


class Engine(ABC):
    """A model ready to compute."""

    name: ClassVar[str]
    """What `--engine` calls it."""
    precisions: ClassVar[tuple[str, ...]]
    """The precisions it computes in."""
    packages: ClassVar[tuple[str, ...]] = ()
    """The packages it needs beyond those of warmstart."""
    needs_export: ClassVar[bool] = False
    """Whether it computes an export of a run."""
    precision: str
    """The precision it computes in now."""

    @classmethod
    def is_installed(cls) -> bool:
        """Whether the packages it needs are installed."""
        return all(map(find_spec, cls.packages))

    @classmethod
    @abstractmethod
    def load(cls, source: ModelSource, precision: str) -> Self:
        """Load a model.

        Args:
            precision: One of `precisions`, or `auto` for the fastest.

        Raises:
            ModelError: It cannot load this model, with the reason.
        """

    @classmethod
    def usable_precisions(cls, source: ModelSource, precision: str) -> Iterator[str]:
        """The precisions in which `--engine auto` may try it on a model; none where it cannot load it.

        Args:
            precision: The one that is wanted, or `auto` for all that are worth trying.
        """
        if precision != AUTO:
            yield from (name for name in cls.precisions if name == precision)
            return
        # fp16 overflows where bf16 does not, so it is never chosen for anyone.
        yield from (name for name in cls.precisions if name != "fp16" and (name != "bf16" or source.fast_in_bf16))

    @property
    @abstractmethod
    def gives_vectors(self) -> bool:
        """Whether a text by itself has a vector among the outputs, `documents`."""

    @abstractmethod
    def compute(self, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """The outputs of a batch that `Task.collate` made, by their names: in fp32, in the machine's own memory."""
