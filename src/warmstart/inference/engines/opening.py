"""Engines by their names: which there are for a model, and in which number formats."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from warmstart.errors import ModelError, RecipeError, nearest
from warmstart.inference.engines.base import Engine
from warmstart.inference.engines.onnx import FILES, Onnx
from warmstart.inference.engines.openvino import OpenVino
from warmstart.inference.engines.pytorch import Torch
from warmstart.inference.engines.trial import Candidate, Undecided
from warmstart.inference.exported_model import export_of, is_export, open_export
from warmstart.models.architectures import spec_of
from warmstart.models.precision import supports_bf16

FORMATS = {"torch": ("fp32", "bf16", "fp16"), "onnx": ("fp32", "int8"), "openvino": ("fp32", "bf16")}
"""The number formats of each engine."""
AUTO = "auto"
PACKAGES = {"onnx": ("onnx", "onnxruntime"), "openvino": ("onnx", "openvino")}


@dataclass(frozen=True)
class Opener:
    """The engines of one model.

    Args:
        folder: The model folder, or an export.
        model: Opens the PyTorch model.
    """

    folder: Path
    config: Any
    model: Callable[[], Any]

    def open(self, name: str, precision: str) -> Engine:
        """An engine by its name, with `auto` one that is still to be chosen; refuses what there is not, saying why."""
        check_names(name, precision)
        if name == AUTO:
            return Undecided([Candidate(*one, partial(self.open, *one)) for one in self._there(precision)])
        if name == "torch":
            if is_export(self.folder):
                raise ModelError(
                    f"{self.folder} is an export, without weights for PyTorch; say --engine onnx, or give the run"
                )
            return Torch(self.model(), precision)
        place, about = open_export(self.folder)
        if why := not_for(name, about):
            raise ModelError(f"{place}: {why}; say --engine onnx or torch")
        if precision == AUTO:
            precision = _fastest(name, place, self.config)
        if name == "openvino":
            return OpenVino(place, precision)
        if not (place / FILES[precision]).is_file():
            raise ModelError(
                f"{place} has no {FILES[precision]}; write it with: warmstart export {_run(self.folder)} --int8"
            )
        return Onnx(place, precision)

    def _there(self, wanted: str) -> Iterator[tuple[str, str]]:
        """Engines and formats that can be tried here, PyTorch first; with `fp32`, those that compute what it does."""
        place = export_of(self.folder)
        # A damaged one is said, not passed over.
        about = {} if place is None else open_export(self.folder)[1]
        half = spec_of(self.config).half_precision and supports_bf16()
        for name, formats in FORMATS.items():
            for one in formats if wanted == AUTO else (wanted,):
                if one == "bf16" and wanted == AUTO and not half:
                    continue
                if one not in formats or (one == "fp16" and wanted == AUTO):
                    continue
                if name == "torch" and is_export(self.folder):
                    continue
                if name != "torch" and (not all(map(find_spec, PACKAGES[name])) or not_for(name, about)):
                    continue
                if name == "onnx" and place is not None and not (place / FILES[one]).is_file():
                    continue
                yield name, one


def check_settled(name: str, precision: str) -> None:
    """Refuse what every copy of a model would choose for itself, on its own machine; and what there is not."""
    for option, said in {"--engine": name, "--precision": precision}.items():
        if said == AUTO:
            raise RecipeError(
                f"{option} auto: copies of a model would differ, each choosing for itself; say which it is to be"
            )
    check_names(name, precision)


def check_names(name: str, precision: str) -> None:
    """Refuse an engine that there is not, and a number format that it does not have."""
    if name not in {*FORMATS, AUTO}:
        raise RecipeError(f"engine: found {name!r}; {nearest(name, (*FORMATS, AUTO))}")
    known = {one for formats in FORMATS.values() for one in formats}
    if precision not in {*known, AUTO}:
        raise RecipeError(f"precision: found {precision!r}; {nearest(precision, (*sorted(known), AUTO))}")
    if name != AUTO and precision not in {*FORMATS[name], AUTO}:
        others = [one for one, formats in FORMATS.items() if precision in formats]
        raise RecipeError(
            f"precision: found {precision}, but the engine {name} computes in {' or '.join(FORMATS[name])}; "
            f"say one of those, or --engine {' or '.join(others)}"
        )


def not_for(name: str, about: Mapping[str, Any]) -> str | None:
    """Why an engine is not used for an export, by what was found when that was checked; None where it can be."""
    found = about.get("engines", {}).get(name)
    if found is None:
        return f"it was not checked with {name}; write it again where that is installed: warmstart export RUN"
    return found.get("refused")  # type: ignore[no-any-return]


def _fastest(name: str, place: Path, config: Any) -> str:
    """What `auto` is for an engine that was named: whole numbers where they were found good enough, else bf16."""
    if name == "onnx":
        return "int8" if (place / FILES["int8"]).is_file() else "fp32"
    return "bf16" if spec_of(config).half_precision and supports_bf16() else "fp32"


def _run(folder: Path) -> Path:
    return folder.parent if folder.name == "model" else folder
