"""What the engines of an export share: a graph file that is checked before it is loaded, and how it is computed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Self

import torch

from warmstart.errors import MissingExtraError, ModelError
from warmstart.inference.engines.base import AUTO, Engine, ModelSource
from warmstart.inference.exported_model import export_of
from warmstart.models.bi_encoder import compare_texts

if TYPE_CHECKING:
    from onnx import GraphProto, TensorProto

DOMAINS = {"", "ai.onnx", "ai.onnx.ml", "com.microsoft"}
"""Whose operations a graph may have: ONNX's own, and ONNX Runtime's for int8."""
FILES = {"fp32": "model.onnx", "int8": "model.int8.onnx"}
"""The graph of each precision in an export."""


class GraphEngine(Engine):
    """An exported model in an engine.

    Attributes:
        inputs: The names of the graph's inputs.
        outputs: The names of its outputs.
    """

    needs_export = True
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @abstractmethod
    def __init__(self, folder: Path, precision: str = "fp32") -> None:
        """Load the graph of an export."""

    @classmethod
    def load(cls, source: ModelSource, precision: str) -> Self:
        export = source.export
        if reason := export.why_not(cls.name):
            raise ModelError(f"{export.folder}: {reason}; use --engine onnx or torch")
        if precision == AUTO:
            precision = [*cls.precisions[:1], *cls.usable_precisions(source, AUTO)][-1]
        return cls(export.folder, precision)

    @classmethod
    def usable_precisions(cls, source: ModelSource, precision: str) -> Iterator[str]:
        """Those of the engine, once its packages are installed and it was compared with PyTorch on this export."""
        # A damaged export is an error here, and not passed over.
        if export_of(source.folder) is None or source.export.why_not(cls.name) or not cls.is_installed():
            return iter(())
        return super().usable_precisions(source, precision)

    @property
    def gives_vectors(self) -> bool:
        return self.outputs == ("documents",)

    def compute(self, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """The model's outputs; of a bi-encoder, whose graph gives one vector a text, their similarities too."""
        texts = inputs.get("texts")
        own = {name: inputs[name] for name in self.inputs}
        if texts is None:
            return self._run(own)
        return compare_texts(
            lambda *rows: self._run(dict(zip(own, rows, strict=True)))["documents"], list(own.values()), texts
        )

    def _run(self, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        try:
            return self.run(inputs)
        except Exception as error:  # the engines' errors share no class
            reason = " ".join(str(error).split())[:300]
            raise ModelError(
                f"the engine {self.name} cannot compute this model: {reason}; use --engine torch"
            ) from None

    @abstractmethod
    def run(self, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """The outputs of the graph."""


def check_graph(path: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of a graph's inputs and outputs; one that reads other files or has foreign operations is refused."""
    try:
        import onnx
    except ImportError:
        raise MissingExtraError("ONNX is not installed: pip install 'warmstart[onnx]'") from None
    try:
        model = onnx.load(str(path), load_external_data=False)
    except Exception as error:  # protobuf's, of a class that has no one home
        raise ModelError(f"{path}: cannot be read as an ONNX graph: {error}; export the run again") from None
    if foreign := {operations.domain for operations in model.opset_import} - DOMAINS:
        raise ModelError(f"{path}: found operations of {sorted(foreign)}, expected ONNX's own; export the run again")
    for tensor in _tensors(model.graph):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            raise ModelError(f"{path}: {tensor.name}: found numbers kept in another file, expected all in this one")
    return tuple(value.name for value in model.graph.input), tuple(value.name for value in model.graph.output)


def _tensors(graph: GraphProto) -> Iterator[TensorProto]:
    """All tensors that a graph holds, those of graphs inside it too."""
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        for attribute in node.attribute:
            yield from ([attribute.t] if attribute.HasField("t") else []) + list(attribute.tensors)
            for inner in ([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs):
                yield from _tensors(inner)
