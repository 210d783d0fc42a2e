"""The precision of a training: bf16 where the hardware has it, unless the encoder needs fp32."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

import torch

from warmstart.errors import ModelError, RecipeError, nearest
from warmstart.models.architectures import encoder_config, spec_of

if TYPE_CHECKING:
    from transformers import PretrainedConfig

Precision = Literal["fp32", "bf16", "fp16"]


def resolve_precision(wanted: str, config: PretrainedConfig | None = None) -> Precision:
    """The precision for `auto`, `fp32`, `bf16` or `fp16`: auto is bf16 where hardware and encoder have it.

    Args:
        config: The config of the model that runs in it.
    """
    if wanted not in {"auto", *get_args(Precision)}:
        raise RecipeError(f"precision: found {wanted!r}; {nearest(wanted, ('auto', *get_args(Precision)))}")
    half = spec_of(config).half_precision
    if wanted == "auto":
        return "bf16" if half and supports_bf16() else "fp32"
    if wanted != "fp32" and not half:
        kind = encoder_config(config).model_type
        raise ModelError(f"precision: found {wanted}, but {kind} runs in fp32 only; set fp32 or auto")
    return wanted  # type: ignore[return-value]


def autocast(precision: Precision, device: torch.device) -> torch.autocast:
    """A context in which matrix products are computed in this precision."""
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision, torch.float32)
    return torch.autocast(device.type, dtype=dtype, enabled=precision != "fp32")


def supports_bf16() -> bool:
    """Whether the accelerator, or without one the CPU, has bf16 arithmetic."""
    if torch.cuda.is_available():
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if torch.backends.mps.is_available():
        return False
    has = torch.cpu.get_capabilities()
    return bool(has.get("amx_bf16") or has.get("avx512_bf16") or has.get("bf16"))
