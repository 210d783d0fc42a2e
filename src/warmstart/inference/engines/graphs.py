"""What the engines of an exported model share: a graph file looked through before it is opened, and how it is asked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch

from warmstart.errors import MissingExtraError, ModelError
from warmstart.models.bi_encoder import compare_texts

DOMAINS = {"", "ai.onnx", "ai.onnx.ml", "com.microsoft"}
"""Whose operations a graph may have: ONNX's own, and ONNX Runtime's for whole numbers."""


class Graph(ABC):
    """An exported model in an engine.

    Attributes:
        inputs: The names of what it is given.
        outputs: The names of what it gives.
    """

    name: ClassVar[str]
    precision: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @property
    def gives_vectors(self) -> bool:
        return self.outputs == ("documents",)

    def compute(self, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """The model's outputs; of a bi-encoder, whose graph gives one vector a text, how close those are too."""
        texts = inputs.get("texts")
        given = {name: inputs[name] for name in self.inputs}
        if texts is None:
            return self._told(given)
        vectors = lambda *rows: self._told(dict(zip(given, rows, strict=True)))["documents"]  # noqa: E731
        return compare_texts(vectors, list(given.values()), texts)

    def _told(self, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        try:
            return self.run(inputs)
        except Exception as error:  # the engines' errors share no class
            reason = " ".join(str(error).split())[:300]
            raise ModelError(
                f"the engine {self.name} cannot compute this model: {reason}; say --engine torch"
            ) from None

    @abstractmethod
    def run(self, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """What the graph puts out."""


def check_graph(path: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of a graph's inputs and outputs; refuses one that reads other files or has operations of its own."""
    try:
        import onnx
    except ImportError:
        raise MissingExtraError("ONNX is not installed: pip install 'warmstart[onnx]'") from None
    try:
        model = onnx.load(str(path), load_external_data=False)
    except Exception as error:  # protobuf's, of a class that has no one home
        raise ModelError(f"{path}: cannot be read as an ONNX graph: {error}; export the run again") from None
    if foreign := {one.domain for one in model.opset_import} - DOMAINS:
        raise ModelError(f"{path}: found operations of {sorted(foreign)}, expected ONNX's own; export the run again")
    for tensor in _tensors(model.graph):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            raise ModelError(f"{path}: {tensor.name}: found numbers kept in another file, expected all in this one")
    return tuple(one.name for one in model.graph.input), tuple(one.name for one in model.graph.output)


def _tensors(graph: Any) -> Iterator[Any]:
    """All tensors that a graph holds, those of graphs inside it too."""
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        for one in node.attribute:
            yield from ([one.t] if one.HasField("t") else []) + list(one.tensors)
            for inner in ([one.g] if one.HasField("g") else []) + list(one.graphs):
                yield from _tensors(inner)
