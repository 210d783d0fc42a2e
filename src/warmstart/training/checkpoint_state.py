"""The state of a training: all that it needs to resume bit-equal, as tensors and plain values.

Tensors are saved as safetensors and everything else as JSON; nothing here can run code when it is read.
"""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeAlias

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from warmstart.errors import RunError
from warmstart.storage.files import write_text
from warmstart.storage.json_files import MEGABYTE, Json, read_object

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
        """Write the state into a folder."""
        save_state({field.name: getattr(self, field.name) for field in dataclasses.fields(self)}, folder)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what `save` wrote."""
        state = load_state(folder)
        names = {field.name for field in dataclasses.fields(cls)}
        if state.keys() != names:
            different = ", ".join(sorted(map(str, state.keys() ^ names)))
            raise RunError(
                f"{folder / STATE}: not the state of a training: {different} is missing or unknown; remove the folder"
            )
        return cls(**state)


def save_state(state: StateDict, folder: Path) -> None:
    """Write nested plain values, tensors and arrays into a folder."""
    tensors: dict[str, torch.Tensor] = {}
    plain = _pack(state, "", tensors)
    save_file(tensors, folder / TENSORS)
    write_text(folder / STATE, json.dumps(plain))


def load_state(folder: Path) -> StateDict:
    """Read what `save_state` wrote."""
    try:
        plain = read_object(folder / STATE, RunError, MAX_STATE_BYTES, finite=False)
        state = _unpack(plain, load_file(folder / TENSORS))
    except (SafetensorError, OSError, ValueError) as error:
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


def set_random_state(states: StateDict) -> None:
    """Set every random number generator to the state that `random_state` returned."""
    random.setstate(states["python"])
    name, keys, *rest = states["numpy"]
    np.random.set_state((name, keys.astype(np.uint32), *rest))
    torch.random.set_rng_state(states["torch"])
    if torch.cuda.is_available():
        torch.cuda.random.set_rng_state_all(states["cuda"])


def _pack(value: object, name: str, tensors: dict[str, torch.Tensor]) -> Json:
    """The value with its tensors taken out, in JSON that `_unpack` can turn back."""
    if isinstance(value, np.ndarray):
        tensors[name] = torch.from_numpy(value)
        return {"array": name}
    if isinstance(value, torch.Tensor):
        # A copy of its own: safetensors refuses tensors that share memory, as tied weights do.
        tensors[name] = value.detach().cpu().contiguous().clone()
        return {"tensor": name}
    if isinstance(value, Mapping):
        return {"items": [[key, _pack(item, f"{name}/{key}", tensors)] for key, item in value.items()]}
    if isinstance(value, list | tuple):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [_pack(item, f"{name}/{index}", tensors) for index, item in enumerate(value)]}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"a checkpoint cannot hold {name}: {type(value).__name__}")


def _unpack(value: Json, tensors: Mapping[str, torch.Tensor]) -> Any:
    if not isinstance(value, dict | list):
        return value
    if not isinstance(value, dict) or len(value) != 1:
        raise ValueError(f"found {str(value)[:40]}, expected an object with one key")
    [(kind, inner)] = value.items()
    if kind in {"array", "tensor"}:
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
