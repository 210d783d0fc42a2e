"""A language model of half the published size on WikiText-2, beside fastai's AWD_LSTM with the same sizes and tokens.

Both learn from the same token ids in as many steps of as many streams, with the same dropouts, regularization, learning
rate schedule and optimizer; fastai in an environment of its own (FASTAI= its python). Its weights are read into our
model, so that one function measures the perplexity of both, over validation and test text as one stream. The figures of
a side are kept in docs/results/figures/ when it has ended, and a stopped training of either goes on where it was. Two
epochs of both fit two hours of two cores without bf16.

    benchmarks/ulmfit_lm.py --fastai PYTHON [--n EPOCHS]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import torch

import kept
from common import TINY, finish, write_page
from ulmfit_sets import CACHE, wikitext

SIZES = {"embedding_size": 200, "hidden_size": 576, "num_layers": 3, "vocab_size": 30_000}
if TINY:
    SIZES = {"embedding_size": 8, "hidden_size": 16, "num_layers": 2, "vocab_size": 2000}
BATCH, BPTT, RATE, CLIP = (8 if TINY else 64), 70, 5e-3, 0.25
ARTICLES = 3 if TINY else None
KEPT = "ulmfit-lm"
STREAMS = 8
"""Streams that perplexity is measured over at a time."""
Side = dict[str, Any]
"""What is measured of one side."""


def fit(epochs: int) -> Path:
    """The folder of our own run, trained on from where it is."""
    import warmstart

    os.environ["WARMSTART_CACHE"] = str(CACHE / "store")
    out = CACHE / f"lm-{'tiny-' if TINY else ''}{epochs}"
    settings: dict[str, Any] = {
        "task": {"name": "masked", "objective": "clm", "bptt": BPTT},
        "from_scratch": {"architecture": "awd-lstm", "case_marks": True, **SIZES},
        "training": {
            "learning_rate": RATE,
            "lr_schedule": "slanted-triangular",
            "epochs": epochs,
            "batch_size": BATCH,
            "max_grad_norm": CLIP,
        },
        "trainer.adam_beta1": 0.7,
        "trainer.adam_beta2": 0.99,
        "reuse_stages": True,
    }
    if not (out / "manifest.json").is_file():  # a finished run is taken as it is
        files = {"train": str(wikitext("train", ARTICLES)), "test": str(wikitext("valid", ARTICLES))}
        warmstart.fit(**files, **settings, out=out)
    return out


def own_side(epochs: int) -> Side:
    """Our model, and what its training was like."""
    import warmstart
    from warmstart.models.loading import load_as_saved

    run = warmstart.Run(fit(epochs))
    along = {entry["step"]: math.exp(min(entry["loss_clm"], 700)) for entry in run.training.history}
    about = {"seconds": run.training.seconds, "steps": run.training.steps, "along": along}
    return perplexities(load_as_saved(str(run.model)), run.model) | about


def token_ids(model: Path, part: str) -> np.ndarray:
    """All tokens of a part as one stream."""
    from warmstart.models.loading import load_tokenizer

    tokenizer = load_tokenizer(str(model))
    texts = [json.loads(line)["text"] for line in wikitext(part, ARTICLES).read_text(encoding="utf-8").splitlines()]
    return np.concatenate([np.array(ids) for ids in tokenizer(texts, verbose=False)["input_ids"]])


@torch.inference_mode()
def perplexity(model: torch.nn.Module, ids: np.ndarray) -> float:
    """The perplexity of a text, read as a few streams with carried state."""
    length = (len(ids) - 1) // STREAMS
    inputs, targets = (torch.from_numpy(ids[start : start + STREAMS * length]).reshape(STREAMS, -1) for start in (0, 1))
    losses = model.eval()(inputs, targets=targets).target_losses
    return math.exp(float(losses.double().mean()))


def fastai_side(python: str, epochs: int) -> Side:
    """Fastai's model trained on the same tokens, read into ours, and what its training was like."""
    import warmstart
    from warmstart.models.loading import load_as_saved

    model = warmstart.Run(fit(epochs)).model
    own = load_as_saved(str(model))
    settings = {**SIZES, "batch": BATCH, "bptt": BPTT, "rate": RATE, "clip": CLIP, "epochs": epochs}
    settings |= {"vocab_size": own.config.vocab_size, "pad": own.config.pad_token_id}
    place = CACHE / f"fastai-{kept.settings(settings)}"
    place.mkdir(parents=True, exist_ok=True)
    np.save(place / "tokens.npy", token_ids(model, "train"))
    (place / "settings.json").write_text(json.dumps(settings))
    script = Path(__file__).with_name("fastai_peer.py")
    ended = subprocess.run([python, str(script), str(place)], check=True, stdout=subprocess.PIPE, text=True)
    with np.load(place / "weights.npz") as arrays:
        own.load_state_dict({name: torch.from_numpy(arrays[name]) for name in arrays.files})
    return perplexities(own, model) | json.loads(ended.stdout.splitlines()[-1])


def perplexities(model: torch.nn.Module, tokenizer: Path) -> Side:
    """The perplexity over validation and test text."""
    return {part: round(perplexity(model, token_ids(tokenizer, part)), 2) for part in ("valid", "test")}


def main() -> None:
    """Train both and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=2, help="epochs (default 2)")
    parser.add_argument("--fastai", default="", help="the python of an environment with fastai (default: no peer)")
    parser.add_argument("--write", action="store_true", help="write docs/results/ulmfit-lm.md")
    args = parser.parse_args()
    settings = kept.settings([SIZES, BATCH, BPTT, RATE, CLIP, args.n])
    measures = {"warmstart": lambda: {**own_side(args.n), "settings": settings}}
    if args.fastai:
        measures["fastai"] = lambda: {**fastai_side(args.fastai, args.n), "settings": settings}
    there = {} if TINY else kept.read(KEPT)
    done = {name for name, side in there.items() if side["settings"] == settings}
    missing = {name: measure for name, measure in measures.items() if name not in done}
    every = kept.by_parts(KEPT, missing, keep=not TINY)
    sides = {name: side for name, side in every.items() if side["settings"] == settings}
    figures: dict[str, Any] = {
        name: {
            "valid": side["valid"],
            "test": side["test"],
            "seconds": round(side["seconds"], 1),
            "steps": side["steps"],
        }
        for name, side in sides.items()
    }
    if "fastai" in sides:
        figures["perplexity_ratio"] = round(figures["warmstart"]["test"] / figures["fastai"]["test"], 4)
        figures["speed_ratio"] = round(figures["fastai"]["seconds"] / figures["warmstart"]["seconds"], 3)
    if args.write:
        along = {name: {int(step): value for step, value in side["along"].items()} for name, side in sides.items()}
        page = _page(figures, along)
        write_page("ulmfit-lm", "A recurrent language model on WikiText-2", "make results-ulmfit-lm", page)
    finish(figures)


def _page(figures: dict[str, Any], along: dict[str, dict[int, float]]) -> str:
    names = list(along)
    rows = "\n".join(
        f"| {name} | {figures[name]['valid']} | {figures[name]['test']} | {figures[name]['steps']} | "
        f"{figures[name]['seconds']:,.0f} |"
        for name in names
    )
    steps = sorted(along["warmstart"])
    shown = [steps[round(place * (len(steps) - 1) / 9)] for place in range(10)] if len(steps) > 10 else steps
    nearest = {name: {step: min(along[name], key=lambda one: abs(one - step)) for step in shown} for name in names}
    path = "\n".join(
        f"| {step} | " + " | ".join(f"{along[name][nearest[name][step]]:.0f}" for name in names) + " |"
        for step in shown
    )
    ratio = ""
    if "fastai" in figures:
        ratio = (
            f"\n\nThe test perplexity is **{figures['perplexity_ratio']:.3f} times** that of fastai (at most 1.02 is "
            f"wanted), at **{figures['speed_ratio']:.2f} times** its speed (at least 1.0 is wanted)."
        )
    return (
        f"An AWD-LSTM of {SIZES['num_layers']} × {SIZES['hidden_size']} over {SIZES['embedding_size']}, half the "
        f"published size, on WikiText-2 by word, {BATCH} streams:\n\n"
        "| | valid perplexity | test perplexity | steps | seconds |\n| --- | ---: | ---: | ---: | ---: |\n"
        f"{rows}{ratio}\n\nTraining perplexity along the steps:\n\n"
        f"| step | {' | '.join(names)} |\n| ---: | {'---: | ' * len(names)}\n{path}"
    )


if __name__ == "__main__":
    main()
