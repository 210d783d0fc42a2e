"""Known problems: of this machine as it is set up, and of a recipe on it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from warmstart.doctor.packages import Package
from warmstart.recipe import Recipe

LITTLE_DISK, LITTLE_MEMORY = 5.0, 4.0
"""Gigabytes below which training a small encoder may not fit."""
HIGH = 2e-4
"""The learning rate above which a fully trained encoder forgets: at 4e-4 BERT failed ("How to Fine-Tune BERT for Text
Classification?", Sun et al. 2019)."""


def machine_warnings(facts: Mapping[str, Any], packages: Sequence[Package]) -> Iterator[str]:
    """Problems of this machine, each a sentence that ends with what to do."""
    for package in packages:
        if not package.extra and not package.fits:
            version = package.installed or "missing"
            yield f"{package.name} is {version}, required {package.required}; type: {package.repair}"
    if facts["threads"] > facts["cores"]:
        yield (
            f"{facts['threads']} threads share {facts['cores']} cores, which slows training down; "
            f"type: export OMP_NUM_THREADS={facts['cores']}"
        )
    if facts["memory_gb"] < LITTLE_MEMORY:
        yield f"{facts['memory_gb']} GB of memory is little; use a small encoder, and lower training.batch_size"
    for name in ("cache", "here"):
        if facts[f"{name}_free_gb"] < LITTLE_DISK:
            where = f"{facts['cache']} (set by WARMSTART_CACHE)" if name == "cache" else "the current folder"
            yield f"{facts[f'{name}_free_gb']} GB are free in {where}, which checkpoints may fill; free some"
    if not facts["bf16"] and facts["accelerator"] is None:
        yield "this processor has no bf16, so training runs in fp32 and takes about twice as long; nothing to do"
    yield from _surroundings(facts)


def _surroundings(facts: Mapping[str, Any]) -> Iterator[str]:
    """Environment variables that change how things run."""
    variable = os.environ.get
    if variable("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        yield "CUDA_VISIBLE_DEVICES hides every GPU; unset it to use them"
    if facts["accelerator"] is None and _cuda_build():
        yield "torch was built for CUDA and finds no GPU; check the driver with nvidia-smi, or install torch for CPU"
    if variable("HF_HUB_OFFLINE") == "1" or variable("TRANSFORMERS_OFFLINE") == "1":
        yield "HF_HUB_OFFLINE is set: names on the Hub work only if they were downloaded before; unset it to download"
    if sys.getfilesystemencoding().lower() != "utf-8":
        yield f"file names are {sys.getfilesystemencoding()}, not UTF-8; type: export PYTHONUTF8=1"


def recipe_warnings(recipe: Recipe, facts: Mapping[str, Any]) -> Iterator[str]:
    """Settings of a recipe that are known to cause problems, on this machine or anywhere."""
    training, layers = recipe.training, recipe.layers
    whole = layers.lora is None and layers.freeze != "encoder"
    if whole and training.peak_learning_rate > HIGH and recipe.from_scratch is None:
        yield (
            f"training.learning_rate: {training.learning_rate:g} is known to destroy what an encoder "
            "knows when all of it is trained; set 5e-5 or less, or measure it with `forgetting`"
        )
    if not training.adam_bias_correction:
        yield "training.adam_bias_correction: false fails with some seeds on small data; set true, or try several seeds"
    if training.precision == "fp16" and facts["accelerator"] is None:
        yield "training.precision: fp16 without a GPU is slow, and small gradients may underflow; set auto"
    if training.precision == "bf16" and not facts["bf16"]:
        yield "training.precision: bf16 is emulated here, slower than fp32; set auto"
    workers = recipe.trainer.get("dataloader_num_workers", 0)
    if isinstance(workers, int) and workers > facts["cores"]:
        yield f"trainer.dataloader_num_workers: {workers} on {facts['cores']} cores slow each other down; set 0"
    if recipe.trainer.get("torch_compile"):
        yield "trainer.torch_compile: batches of different lengths are recompiled again and again; leave it out"


def _cuda_build() -> bool:
    import torch

    return torch.version.cuda is not None
