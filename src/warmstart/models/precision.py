"""Which number format this machine computes fastest in without losing what training needs."""

from __future__ import annotations

from typing import Any, Literal, get_args

import torch

from warmstart.errors import ModelError, RecipeError, nearest
from warmstart.models.architectures import encoder_config, row_of

Precision = Literal["fp32", "bf16", "fp16"]


def resolve(wanted: str, config: Any = None) -> Precision:
    """The format to use for `auto`, `fp32`, `bf16` or `fp16`: auto is bf16 where hardware and encoder have it.

    Args:
        config: The config of the model that is to run in it.
    """
    if wanted not in {"auto", *get_args(Precision)}:
        raise RecipeError(f"precision: found {wanted!r}; {nearest(wanted, ('auto', *get_args(Precision)))}")
    half = row_of(config).half
    if wanted == "auto":
        return "bf16" if half and has_bf16() else "fp32"
    if wanted != "fp32" and not half:
        kind = encoder_config(config).model_type
        raise ModelError(f"precision: found {wanted}, but {kind} runs in fp32 only; say fp32 or auto")
    return wanted  # type: ignore[return-value]


def computing(precision: Precision, device: torch.device) -> torch.autocast:
    """A block whose products are computed in this format."""
    kind = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision, torch.float32)
    return torch.autocast(device.type, dtype=kind, enabled=precision != "fp32")


def has_bf16() -> bool:
    """Whether the accelerator, or without one the processor, has bf16 arithmetic of its own."""
    if torch.cuda.is_available():
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if torch.backends.mps.is_available():
        return False
    found = torch.cpu.get_capabilities()
    return bool(found.get("amx_bf16") or found.get("avx512_bf16") or found.get("bf16"))
