"""Checkpoints: all that a training needs to go on bit-equal, in folders that are valid or absent.

Tensors are kept as safetensors and everything else as JSON; nothing here can run code when it is read.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from warmstart.errors import RunError
from warmstart.storage.artifacts import publish, sweep, verify
from warmstart.storage.json_files import MEGABYTE, read_object

TENSORS = "tensors.safetensors"
STATE = "state.json"
LARGEST_STATE = 64 * MEGABYTE


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of one training.

    Args:
        folder: Where they are kept, one folder each.
        identity: All that must be the same for a training to go on bit-equal, by dotted name.
        keep: How many are kept; older ones go only after a newer one is in its place.
        anyway: Names in the identity that may differ all the same.
    """

    folder: Path
    identity: Mapping[str, Any] = field(default_factory=dict)
    keep: int = 2
    anyway: frozenset[str] = frozenset()

    def save(self, step: int, state: Mapping[str, Any], also: Mapping[str, str]) -> Path:
        """Publish a checkpoint, then let the oldest go.

        Args:
            state: Nested plain values, tensors and arrays.
            also: Further text files by name.
        """
        sweep(self.folder)
        path = self.folder / f"step-{step:09d}"
        if path.exists():  # a training that was killed after this save, and has come here again
            shutil.rmtree(path)
        tensors: dict[str, torch.Tensor] = {}
        plain = _flatten(dict(state), "", tensors)
        with publish(path, {"step": step, "identity": dict(self.identity)}) as staging:
            save_file(tensors, staging / TENSORS)
            (staging / STATE).write_text(json.dumps(plain), encoding="utf-8")
            for name, text in also.items():
                (staging / name).write_text(text, encoding="utf-8")
        for old in self._paths()[self.keep :]:
            shutil.rmtree(old)
        return path

    def newest(self) -> tuple[Path | None, list[str]]:
        """The newest checkpoint that is whole, and a line for each newer one that was passed over.

        Raises:
            RunError: It was made with other settings, data or versions, none of them allowed to differ.
        """
        passed = []
        for path in self._paths():
            try:
                manifest = verify(path)
            except RunError as error:
                passed.append(f"{path.name} passed over: {error}")
                continue
            check_identity(path, manifest.get("identity"), self.identity, self.anyway)
            return path, passed
        return None, passed

    def _paths(self) -> list[Path]:
        """All checkpoints, newest first; a link is none."""
        return sorted((path for path in self.folder.glob("step-*") if not path.is_symlink()), reverse=True)


def check_identity(path: Path, then: Any, now: Mapping[str, Any], anyway: Iterable[str] = ()) -> None:
    """Refuse what was made with other settings, data or versions, none of them allowed to differ.

    Args:
        then: The identity in a manifest, which may be anyone's.
    """
    if not isinstance(then, dict):
        raise RunError(f"{path}: its manifest has no identity, so warmstart did not make it; remove the folder")
    names = sorted({*now, *then} - set(anyway))
    changed = [name for name in names if now.get(name) != then.get(name)]
    if changed:
        lines = [f"  {name}: then {then.get(name)!r}, now {now.get(name)!r}" for name in changed]
        flags = " ".join(f"--resume-anyway {name}" for name in changed)
        raise RunError(
            f"{path} was made otherwise, so going on from it would not give the same model:\n"
            + "\n".join(lines)
            + f"\nPut it back as it was, choose another --out, or accept the difference with {flags}"
        )


def load_state(path: Path) -> dict[str, Any]:
    """What `Checkpoints.save` was given."""
    try:
        plain = read_object(path / STATE, RunError, LARGEST_STATE, finite=False)
        state = _restore(plain, load_file(path / TENSORS))
    except (SafetensorError, OSError, KeyError, ValueError, TypeError, AttributeError) as error:
        raise RunError(f"{path}: {STATE} and {TENSORS} are no checkpoint's: {error}; remove the folder") from None
    if not isinstance(state, dict):
        raise RunError(f"{path / STATE}: found {type(state).__name__}, expected a training's state; remove the folder")
    return state


def random_state() -> dict[str, Any]:
    """The state of every random number generator that a training draws from."""
    name, keys, position, has_gauss, cached = np.random.get_state()
    found: dict[str, Any] = {
        "python": random.getstate(),
        "numpy": (name, np.asarray(keys, dtype=np.int64), int(position), int(has_gauss), float(cached)),
        "torch": torch.random.get_rng_state(),
    }
    if torch.cuda.is_available():
        found["cuda"] = torch.cuda.random.get_rng_state_all()
    return found


def set_random_state(state: Mapping[str, Any]) -> None:
    """Put every random number generator back to where `random_state` found it."""
    random.setstate(state["python"])
    name, keys, *rest = state["numpy"]
    np.random.set_state((name, keys.astype(np.uint32), *rest))
    torch.random.set_rng_state(state["torch"])
    if torch.cuda.is_available():
        torch.cuda.random.set_rng_state_all(state["cuda"])


def _flatten(value: Any, name: str, tensors: dict[str, torch.Tensor]) -> Any:
    """The value with tensors taken out, in forms that JSON can hold and `_restore` can tell apart."""
    if isinstance(value, np.ndarray):
        tensors[name] = torch.from_numpy(value)
        return {"array": name}
    if isinstance(value, torch.Tensor):
        # A copy of its own: safetensors refuses tensors that share memory, as tied weights do.
        tensors[name] = value.detach().cpu().contiguous().clone()
        return {"tensor": name}
    if isinstance(value, Mapping):
        return {"items": [[key, _flatten(item, f"{name}/{key}", tensors)] for key, item in value.items()]}
    if isinstance(value, list | tuple):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [_flatten(item, f"{name}/{index}", tensors) for index, item in enumerate(value)]}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"a checkpoint cannot hold {name}: {type(value).__name__}")


def _restore(value: Any, tensors: Mapping[str, torch.Tensor]) -> Any:
    if not isinstance(value, dict):
        return value
    [(kind, inner)] = value.items()
    if kind == "array":
        return tensors[inner].numpy()
    if kind == "tensor":
        return tensors[inner]
    if kind == "items":
        return {key: _restore(item, tensors) for key, item in inner}
    items = [_restore(item, tensors) for item in inner]
    return tuple(items) if kind == "tuple" else items
