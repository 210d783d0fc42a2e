"""The state of a training: all that it needs to resume bit-equal, as tensors and plain values.

Tensors are saved as safetensors and everything else as JSON; nothing here can run code when it is read.
"""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch.distributed.tensor import DTensor

from warmstart.errors import RunError
from warmstart.storage.files import write_text
from warmstart.storage.json_files import MEGABYTE, Json, read_object
from warmstart.training.shards import load_shards, save_shards

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

TENSORS = "tensors.safetensors"
STATE = "state.json"
MAX_STATE_BYTES = 64 * MEGABYTE

StateDict: TypeAlias = dict[str, Any]
"""Nested plain values, tensors and arrays, as `state_dict()` of PyTorch gives them."""


@dataclass(frozen=True)
class TrainingState:
    """What a checkpoint holds."""

    weights: StateDict
    optimizer: StateDict
    schedule: StateDict
    scaler: StateDict | None
    """Of the gradients of fp16."""
    random: list[StateDict]
    """The random states of each process, in order."""
    loss: tuple[torch.Tensor, float, int]
    """Sum since the last log, sum before that, and the step of that log."""
    parts: dict[str, torch.Tensor]
    """Sums of the parts of the loss since the last log."""
    callbacks: dict[str, StateDict]
    """The state of each stateful callback."""
    seconds: float
    """Seconds of training so far."""

    def save(self, folder: Path) -> None:
        """Write the state into a folder; where weights are sharded, every other process must call `save_shards`."""
        save_state(self._fields(), folder)

    def save_shards(self) -> None:
        """Write this process's share of the tensors that are sharded into the folder that the main process writes."""
        tensors = _Tensors()
        _pack(self._fields(), "", tensors)
        save_shards(tensors.sharded)

    def _fields(self) -> StateDict:
        return {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}

    @classmethod
    def load(cls, folder: Path, mesh: DeviceMesh | None = None) -> Self:
        """Read what `save` wrote.

        Args:
            mesh: The processes that weights are sharded over, if they are; each reads its share.
        """
        state = load_state(folder, mesh)
        names = {each.name for each in dataclasses.fields(cls)}
        if state.keys() != names:
            different = ", ".join(sorted(map(str, state.keys() ^ names)))
            raise RunError(
                f"{folder / STATE}: not the state of a training: {different} is missing or unknown; remove the folder"
            )
        return cls(**state)


def save_state(state: StateDict, folder: Path) -> None:
    """Write nested plain values, tensors and arrays into a folder."""
    tensors = _Tensors()
    plain = _pack(state, "", tensors)
    if tensors.sharded:
        save_shards(tensors.sharded, folder)
    save_file(tensors.whole, folder / TENSORS)
    write_text(folder / STATE, json.dumps(plain))


def load_state(folder: Path, mesh: DeviceMesh | None = None) -> StateDict:
    """Read what `save_state` wrote; tensors that it wrote as shards are sharded over a mesh, without one whole."""
    try:
        plain = read_object(folder / STATE, RunError, MAX_STATE_BYTES, finite=False)
        sharded = list(_names(plain, "sharded"))
        if mesh is not None and not sharded:
            raise RunError(
                f"{folder}: made without training.fsdp, so there are no shards to resume from; leave training.fsdp "
                "out, or choose another --out"
            )
        shards = load_shards(sharded, folder, mesh) if sharded else {}
        state = _unpack(plain, load_file(folder / TENSORS) | shards)
    except (SafetensorError, OSError, ValueError, KeyError) as error:
        raise RunError(f"{folder}: {STATE} and {TENSORS} are not a checkpoint: {error}; remove the folder") from None
    if not isinstance(state, dict):
        raise RunError(
            f"{folder / STATE}: found {type(state).__name__}, expected the state of a training; remove the folder"
        )
    return state


def random_state() -> StateDict:
    """The state of every random number generator that a training uses."""
    name, keys, position, has_gauss, cached = np.random.get_state()
    states: StateDict = {
        "python": random.getstate(),
        "numpy": (name, np.asarray(keys, dtype=np.int64), int(position), int(has_gauss), float(cached)),
        "torch": torch.random.get_rng_state(),
    }
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.random.get_rng_state_all()
    return states


def gather_states(state: StateDict, processes: int) -> list[StateDict]:
    """The state of every process, in order."""
    if processes == 1:
        return [state]
    states: list[StateDict] = [{} for _ in range(processes)]
    torch.distributed.all_gather_object(states, state)
    return states


def set_random_state(states: StateDict) -> None:
    """Set every random number generator to the state that `random_state` returned."""
    random.setstate(states["python"])
    name, keys, *rest = states["numpy"]
    np.random.set_state((name, keys.astype(np.uint32), *rest))
    torch.random.set_rng_state(states["torch"])
    if torch.cuda.is_available():
        torch.cuda.random.set_rng_state_all(states["cuda"])


@dataclass(frozen=True)
class _Tensors:
    """Tensors by name, those of which each process has a share apart."""

    whole: dict[str, torch.Tensor] = field(default_factory=dict)
    sharded: dict[str, torch.Tensor] = field(default_factory=dict)
    _places: set[int] = field(default_factory=set)

    def add_sharded(self, name: str, value: DTensor) -> None:
        """Add a sharded tensor; as a copy if it is one that was added already, as tied weights are."""
        place = value.to_local().data_ptr()
        self.sharded[name] = value.detach().clone() if place in self._places else value.detach()
        self._places.add(place)


def _pack(value: object, name: str, tensors: _Tensors) -> Json:
    """The value with its tensors taken out, in JSON that `_unpack` can turn back."""
    if isinstance(value, np.ndarray):
        tensors.whole[name] = torch.from_numpy(value)
        return {"array": name}
    if isinstance(value, DTensor):
        tensors.add_sharded(name, value)
        return {"sharded": name}
    if isinstance(value, torch.Tensor):
        # A copy of its own: safetensors refuses tensors that share memory, as tied weights do.
        tensors.whole[name] = value.detach().cpu().contiguous().clone()
        return {"tensor": name}
    if isinstance(value, Mapping):
        return {"items": [[key, _pack(item, f"{name}/{key}", tensors)] for key, item in value.items()]}
    if isinstance(value, list | tuple):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [_pack(item, f"{name}/{index}", tensors) for index, item in enumerate(value)]}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"a checkpoint cannot hold {name}: {type(value).__name__}")


def _names(value: Json, kind: str) -> Iterator[str]:
    """The names of all tensors of a kind in what `_pack` returned."""
    for inner in value if isinstance(value, list) else value.values() if isinstance(value, dict) else ():
        yield from _names(inner, kind)
    if isinstance(value, dict) and isinstance(name := value.get(kind), str):
        yield name


def _unpack(value: Json, tensors: Mapping[str, torch.Tensor]) -> Any:
    if not isinstance(value, dict | list):
        return value
    if not isinstance(value, dict) or len(value) != 1:
        raise ValueError(f"found {str(value)[:40]}, expected an object with one key")
    [(kind, inner)] = value.items()
    if kind in {"array", "tensor", "sharded"}:
        if not isinstance(inner, str) or inner not in tensors:
            raise ValueError(f"found no tensor {str(inner)[:40]!r}")
        return tensors[inner].numpy() if kind == "array" else tensors[inner]
    if not isinstance(inner, list) or kind not in {"items", "list", "tuple"}:
        raise ValueError(f"{kind[:40]!r}: found {str(inner)[:40]}, expected a list of values")
    if kind != "items":
        items = [_unpack(item, tensors) for item in inner]
        return tuple(items) if kind == "tuple" else items
    pairs: dict[object, object] = {}
    for pair in inner:
        if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], str | int):
            raise ValueError(f"items: found {str(pair)[:40]}, expected a key and a value")
        pairs[pair[0]] = _unpack(pair[1], tensors)
    return pairs
