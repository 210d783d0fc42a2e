"""One recipe of three stages on real data, killed in each of them, then carried out once more.

Further pre-training on the texts of IMDb, several tasks at once, fine-tuning: a run that is killed with SIGKILL in a
stage goes on by the same command and ends with the same weights to the bit as one left alone; and the same recipe in
another folder trains nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from common import ROOT, arguments, finish, weights, write_page
from stage_sets import data_of, texts_of_imdb

CACHE = ROOT / ".cache" / "proof-stages"
STAGES = ("pretrain", "multitask", "finetune")
LEAST = 5
"""Steps that are saved before a kill."""


def write_recipe(steps: int) -> Path:
    """The recipe, with those of the tasks that take part beside it."""
    CACHE.mkdir(parents=True, exist_ok=True)
    model = weights("minilm")
    others = []
    for name in ("sst", "rt", "trec"):
        own = {"model": model, "data": _data(name), "window": {"max_tokens": 64}}
        others.append(f"{name}.yaml")
        (CACHE / others[-1]).write_text(json.dumps(own), encoding="utf-8")
    training = {"learning_rate": 1e-4, "batch_size": 16, "max_steps": steps}
    whole = {
        "model": model,
        "data": _data("imdb"),
        "window": {"max_tokens": 128},
        "before": [
            {
                "pretrain": {
                    "corpus": {"in-domain": [str(texts_of_imdb(2000))]},
                    "max_tokens": 128,
                    "steps": steps,
                    "training": {"learning_rate": 1e-4, "batch_size": 16},
                }
            },
            {"multitask": {"with": others, "include_own": False, "training": training}},
        ],
        "training": training,
        "checkpoints": {"every_steps": LEAST},
    }
    # JSON is YAML, and has no aliases for what stands in it twice.
    (CACHE / "recipe.yaml").write_text(json.dumps(whole, indent=2), encoding="utf-8")
    return CACHE / "recipe.yaml"


def _data(name: str) -> dict[str, Any]:
    return {key.removeprefix("data."): value for key, value in data_of(name).items()}


def start(recipe: Path, out: str, store: str) -> subprocess.Popen[str]:
    """`warmstart fit` in a process of its own, with a store of stages of its own."""
    env = {**os.environ, "WARMSTART_CACHE": str(CACHE / store), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "warmstart.cli.main", "fit", str(recipe), "--out", str(CACHE / out), "--json"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)


def fit(recipe: Path, out: str, store: str) -> float:
    """Carry the recipe out; gives the seconds it took."""
    began = time.monotonic()
    process = start(recipe, out, store)
    _, errors = process.communicate()
    if process.returncode:
        sys.exit(errors)
    return time.monotonic() - began


def kill_in(stage: str, recipe: Path, out: str, store: str) -> bool:
    """Start, wait until a stage has saved itself, and kill; whether it was hit."""
    place = CACHE / out if stage == "finetune" else CACHE / store / "stages"
    pattern = "checkpoints/step-*" if stage == "finetune" else f"{stage}-*/checkpoints/step-*"
    process = start(recipe, out, store)
    while process.poll() is None:
        if any(place.glob(pattern)):
            time.sleep(0.7)
            process.send_signal(signal.SIGKILL)
            process.communicate()
            return True
        time.sleep(0.05)
    return False


def model_bytes(out: str) -> bytes:
    """The weights at the end of a run."""
    return (CACHE / out / "model" / "model.safetensors").read_bytes()


def main() -> None:
    """Prove and report."""
    args = arguments(__doc__ or "", 40, "optimizer steps of each stage")
    shutil.rmtree(CACHE, ignore_errors=True)
    recipe = write_recipe(args.n)
    whole = fit(recipe, "alone", "store-alone")
    killed = [kill_in(stage, recipe, "killed", "store-killed") for stage in STAGES]
    fit(recipe, "killed", "store-killed")
    again = fit(recipe, "again", "store-alone")
    figures: dict[str, Any] = {
        "steps": args.n,
        "minutes": round(whole / 60, 1),
        "killed_in": sum(killed),
        "bit_equal": model_bytes("killed") == model_bytes("alone"),
        "seconds_again": round(again, 1),
        "same_again": model_bytes("again") == model_bytes("alone"),
    }
    if args.write:
        write_page("three-stages", "Three stages, killed in each", "make proof-stages", _page(figures))
    finish(figures)


def _page(figures: dict[str, Any]) -> str:
    equal = "bit-identical to those" if figures["bit_equal"] else "OTHER THAN those"
    return (
        f"Killed with SIGKILL in {figures['killed_in']} of 3 stages, each time after a checkpoint, and resumed by the "
        f"same command, a recipe ends with weights {equal} of an uninterrupted run.\n\n"
        "One recipe with all-MiniLM-L6-v2: continued pretraining on 2,000 reviews of IMDb in sequences of 128 tokens, "
        "then multi-task training on SST, rt-polarity and TREC, then fine-tuning on 1,000 reviews, 128 tokens of each; "
        f"{figures['steps']} steps of 16 per stage, {figures['minutes']} minutes in total.\n\n"
        "With another folder, all three "
        f"stages are reused, in **{figures['seconds_again']} seconds**, including the start of Python."
    )


if __name__ == "__main__":
    main()
