"""What is known to go wrong: with this machine as it is set up, and with a recipe on it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from warmstart.doctor.packages import Package
from warmstart.recipe import Recipe

LITTLE_DISK, LITTLE_MEMORY = 5.0, 4.0
"""Gigabytes below which a training of a small encoder may not fit."""
HIGH = 2e-4
"""The learning rate from which up an encoder as a whole forgets: at 4e-4 BERT failed ("How to Fine-Tune BERT for Text
Classification?", Sun et al. 2019)."""


def machine_warnings(found: Mapping[str, Any], packages: Sequence[Package]) -> Iterator[str]:
    """What is wrong or odd here, each in a sentence that ends with what to do."""
    for one in packages:
        if not one.extra and not one.fits:
            yield f"{one.name} is {one.found or 'missing'}, wanted {one.wanted}; type: {one.repair}"
    if found["threads"] > found["cores"]:
        yield (
            f"{found['threads']} threads share {found['cores']} cores, which slows each down; "
            f"type: export OMP_NUM_THREADS={found['cores']}"
        )
    if found["memory_gb"] < LITTLE_MEMORY:
        yield f"{found['memory_gb']} GB of memory is little; take a small encoder, and lower training.batch_size"
    for name in ("cache", "here"):
        if found[f"{name}_free_gb"] < LITTLE_DISK:
            where = f"{found['cache']} (WARMSTART_CACHE says where)" if name == "cache" else "the current folder"
            yield f"{found[f'{name}_free_gb']} GB are free in {where}, which checkpoints may fill; make room"
    if not found["bf16"] and found["accelerator"] is None:
        yield "this processor has no bf16: trainings run in fp32, about twice as long; nothing to do"
    yield from _surroundings(found)


def _surroundings(found: Mapping[str, Any]) -> Iterator[str]:
    """Environment variables that change what happens."""
    said = os.environ.get
    if said("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        yield "CUDA_VISIBLE_DEVICES hides every GPU; unset it to use them"
    if found["accelerator"] is None and _cuda_build():
        yield "torch was built for CUDA and finds no GPU; check the driver with nvidia-smi, or install torch for CPU"
    if said("HF_HUB_OFFLINE") == "1" or said("TRANSFORMERS_OFFLINE") == "1":
        yield "HF_HUB_OFFLINE is set: names on the Hub work only if they were fetched before; unset it to fetch"
    if sys.getfilesystemencoding().lower() != "utf-8":
        yield f"file names are {sys.getfilesystemencoding()}, not UTF-8; type: export PYTHONUTF8=1"


def recipe_warnings(recipe: Recipe, found: Mapping[str, Any]) -> Iterator[str]:
    """Settings of a recipe that are known to go wrong, on this machine or anywhere."""
    training, layers = recipe.training, recipe.layers
    whole = layers.lora is None and layers.freeze != "encoder"
    if whole and training.learning_rate > HIGH and recipe.from_scratch is None:
        yield (
            f"training.learning_rate: {training.learning_rate:g} is known to destroy what an encoder "
            "knows when all of it is trained; "
            "say 5e-5 or less, or measure it by `forgetting`"
        )
    if not training.adam_bias_correction:
        yield "training.adam_bias_correction: false fails with some seeds on small data; set true, or try several seeds"
    if training.precision == "fp16" and found["accelerator"] is None:
        yield "training.precision: fp16 without a GPU is slow and may lose small gradients; say auto"
    if training.precision == "bf16" and not found["bf16"]:
        yield "training.precision: bf16 is imitated here, slower than fp32; say auto"
    workers = recipe.trainer.get("dataloader_num_workers", 0)
    if isinstance(workers, int) and workers > found["cores"]:
        yield f"trainer.dataloader_num_workers: {workers} on {found['cores']} cores get in each other's way; say 0"
    if recipe.trainer.get("torch_compile"):
        yield "trainer.torch_compile: batches of many lengths are compiled again and again; leave it out"


def _cuda_build() -> bool:
    import torch

    return torch.version.cuda is not None
