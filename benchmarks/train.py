"""Training speed, beside a plain `transformers.Trainer` and a bare PyTorch loop, and what each piece of it brings.

Rows are those of batches drawn evenly, from short to long, from an epoch by length over 2,000. All sides train on them
with the same model, in optimizer steps of 32 rows, by turns in one process: ours, a plain Trainer with dynamic padding
and random order, and a bare loop over the very same batches as ours; all in fp32, then ours in its default precision,
and ours with one of its pieces left out. Then a step with the lower half of the layers frozen beside a whole one, and
the accuracy that the fast training ends with beside a plain Trainer's. What is compared is the process's CPU time on
one thread, which other work on the machine hardly changes. Finished parts are kept, so that some of them can be
measured again (`--parts accuracy-0,accuracy-1`).
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import transformers

import kept
import plain as accuracy
from bars import bars
from common import ROOT, TINY, finish, timed, weights, write_page
from overhead import bare
from padding import PADDED, Texts, padding_table, read_texts
from tables import chosen
from warmstart.data.arrow_files import write_arrow
from warmstart.models.layer_map import LayerMap
from warmstart.models.precision import resolve_precision
from warmstart.pipeline.frozen_layers import store_states
from warmstart.runtime.progress import silent
from warmstart.tasks.classify import Classify, ClassifyOptions
from warmstart.text.windows import Window
from warmstart.training.batches import LengthGroupedBatchSampler, row_lengths
from warmstart.training.job import TrainingJob
from warmstart.training.settings import Settings
from warmstart.training.train import train

BATCH = 32
ROUNDS = {"rt-polarity": 3, "imdb": 2}
FULL = {"rt-polarity": 512, "imdb": 96}
"""Rows trained on at full size."""
AIMS = {"rt-polarity": 3.0, "imdb": 3.5}
"""How many times as fast as a plain Trainer it should be."""
WITH_BF16 = """
On a processor with AMX, where the default precision is bf16, it was 2.88 and 3.08 times as fast as the plain Trainer in
fp32, when 1.80 and 2.28 times in fp32 were what batches of similar length alone brought (2026-11-15).
"""
POOL = 2000
FROZEN_ROWS, FROZEN_EPOCHS = 256, 5
"""The training that is measured with a frozen lower half."""
ACCURACY_ROWS, SEEDS = 2000, 5
"""Training rows and seeds that accuracy is compared with."""


@dataclass(frozen=True)
class Piece:
    """Something that makes training fast, and what is done to leave it out."""

    settings: dict[str, Any] = field(default_factory=dict)
    function: str = ""
    """What `training/train.py` calls for it, where no setting switches it off."""

    @contextmanager
    def left_out(self) -> Iterator[None]:
        if not self.function:
            yield
            return
        with patch(f"warmstart.training.train.{self.function}", lambda *_: nullcontext()):
            yield


PIECES = {
    "rows of similar length in a batch": Piece({"batching": "random"}),
    "dropout from cheap random bits": Piece({"dropout_kernel": "torch"}),
    "the last block for the first token alone": Piece(function="first_token_only"),
}


class Encoder:
    """The model to train, fresh each time, and its tokenizer."""

    def __init__(self) -> None:
        if TINY:
            import sys

            sys.path.insert(0, str(ROOT / "tests"))
            from tiny import tiny_model, tiny_tokenizer

            self.tokenizer = tiny_tokenizer()
            self.make: Callable[[], Any] = lambda: tiny_model("bert", "sequence", 2)
        else:
            folder = weights("minilm")
            self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
            self.make = lambda: transformers.AutoModelForSequenceClassification.from_pretrained(folder, num_labels=2)


def plain(model: Any, tokenizer: Any, rows: Any, folder: str) -> None:
    """What one would write: a Trainer with its defaults, and the tokenizer's dynamic padding."""
    args = transformers.TrainingArguments(
        folder,
        per_device_train_batch_size=BATCH,
        num_train_epochs=1,
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
        logging_strategy="no",
    )
    transformers.Trainer(model, args, train_dataset=rows, processing_class=tokenizer).train()


def sample(features: list[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """The rows of batches drawn evenly by length from those of an epoch; grouped anew, they are these batches."""
    lengths = row_lengths(features)
    batches = [batch for batch in LengthGroupedBatchSampler(lengths, BATCH) if len(batch) == BATCH]
    batches.sort(key=lambda batch: sum(lengths[batch]))
    wanted = max(count // BATCH, 1)
    drawn = [batches[int((number + 0.5) * len(batches) / wanted)] for number in range(wanted)]
    return [features[row] for batch in drawn for row in batch]


def side_by_side(name: str, encoder: Encoder, count: int, rounds: int) -> dict[str, Any]:
    """Median ratios of one data set."""
    found = read_texts(name, POOL)
    task = Classify.from_answers(ClassifyOptions(), found["label"], pair=False)
    features = sample(task.encode(found, encoder.tokenizer, Window(512)), count)
    names = [name for name in ("input_ids", "token_type_ids", "labels") if name in features[0]]
    columns = {name: [one[name] for one in features] for name in names}
    # What `auto` takes here in a training of usual length; these are too short for its trial.
    own = Settings(epochs=1, batch_size=BATCH, batching="by-length", dropout_kernel="fast")
    exact = replace(own, precision="fp32")

    def job(model: Any, settings: Settings) -> TrainingJob:
        return TrainingJob(model, task, encoder.tokenizer, rows, settings)

    def without(piece: Piece, model: Any) -> None:
        with piece.left_out():
            train(job(model, replace(exact, **piece.settings)), Path(folder) / "own")

    with tempfile.TemporaryDirectory() as folder:
        rows = write_arrow([{**columns, "row": list(range(len(features)))}], Path(folder) / "rows.arrow")
        lengths = row_lengths(rows)
        batches = list(LengthGroupedBatchSampler(lengths, BATCH))
        sides: dict[str, Callable[[Any], Any]] = {
            "plain": lambda model: plain(model, encoder.tokenizer, rows, folder),
            "ours": lambda model: train(job(model, exact), Path(folder) / "own"),
            "bare": lambda model: bare(model, task, rows, batches, exact, encoder.tokenizer),
            "default": lambda model: train(job(model, own), Path(folder) / "own"),
            **{name: partial(without, piece) for name, piece in PIECES.items()},
        }
        times: dict[str, list[float]] = {name: [] for name in sides}
        for number in range(rounds):
            for name in sides if number % 2 == 0 else reversed(sides):
                model = encoder.make()
                times[name].append(timed(lambda name=name, model=model: sides[name](model)))

    def ratio(name: str, other: str) -> float:
        return round(statistics.median(a / b for a, b in zip(times[name], times[other], strict=True)), 3)

    ours = statistics.median(times["ours"])
    padded = sum(len(batch) * max(lengths[batch]) for batch in batches)
    return {
        "rows": len(features),
        "rows_per_second": round(len(features) / ours, 2),
        "padding": round(1 - float(lengths.sum() / padded), 4),
        "ratio_plain": ratio("plain", "ours"),
        "ratio_bare": ratio("bare", "ours"),
        "ratio_default": ratio("plain", "default"),
        "pieces": {name: ratio(name, "ours") for name in PIECES},
    }


def accuracies(seed: int) -> dict[str, float]:
    """Test accuracy on rt-polarity of fast trainings and of a plain Trainer's."""
    model = weights("minilm")
    fast = {"batching": "by-length", "dropout_kernel": "fast", "precision": "fp32"}
    frozen = {name: {"freeze": 4, "cache_frozen": cached} for name, cached in (("computed", False), ("cached", True))}
    with tempfile.TemporaryDirectory() as folder:
        file = accuracy.subset(ACCURACY_ROWS, Path(folder))
        return {
            "ours": accuracy.ours(model, file, seed, **fast),
            "plain": accuracy.plain(model, file, seed, bf16=False),
            **{name: accuracy.ours(model, file, seed, layers, **fast) for name, layers in frozen.items()},
        }


def frozen_half(found: Texts, encoder: Encoder, count: int, epochs: int) -> dict[str, float]:
    """CPU time of trainings with embeddings and the lower half of the blocks frozen, as ratios to a whole training's.

    Their output is computed in each step, or once for each row and cached, which is counted.
    """
    task = Classify.from_answers(ClassifyOptions(), found["label"], pair=False)
    features = sample(task.encode(found, encoder.tokenizer, Window(512)), count)
    names = [name for name in ("input_ids", "attention_mask", "token_type_ids", "labels") if name in features[0]]
    whole = Settings(epochs=epochs, batch_size=BATCH, dropout_kernel="fast", precision="fp32")
    frozen = replace(whole, freeze=1 + len(LayerMap.of(encoder.make()).blocks) // 2)
    sides = {
        "whole": whole,
        "computed": replace(frozen, cache_frozen=False),
        "cached": replace(frozen, cache_frozen=True),
    }
    times: dict[str, list[float]] = {name: [] for name in sides}
    with tempfile.TemporaryDirectory() as folder:
        columns = {name: [one[name] for one in features] for name in names}
        rows = write_arrow([{**columns, "row": list(range(len(features)))}], Path(folder) / "rows.arrow")

        def run(settings: Settings) -> None:
            job = TrainingJob(encoder.make(), task, encoder.tokenizer, rows, settings)
            train(store_states(job, Path(folder) / "states.arrow", silent), Path(folder) / "own")

        for number in range(1 + ROUNDS["rt-polarity"]):
            for name, settings in sides.items():
                seconds = timed(lambda settings=settings: run(settings))
                if number:  # the first warms up
                    times[name].append(seconds)
    return {
        name: round(statistics.median(a / b for a, b in zip(times[name], times["whole"], strict=True)), 3)
        for name in ("computed", "cached")
    }


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=0, help="rows of each data set; 0 for the full size")
    parser.add_argument(
        "--parts", default="", help="such as frozen_half,accuracy-0 (default all; a sample: no accuracy)"
    )
    parser.add_argument("--write", action="store_true", help="keep the figures, and write the results page from them")
    args = parser.parse_args()
    torch.set_num_threads(1)
    encoder = Encoder()
    parts: dict[str, Callable[[], dict[str, Any]]] = {
        name: partial(side_by_side, name, encoder, args.n or full, 1 if args.n else ROUNDS[name])
        for name, full in FULL.items()
    }
    few = args.n or FROZEN_ROWS
    parts["frozen_half"] = lambda: frozen_half(read_texts("rt-polarity", POOL), encoder, few, FROZEN_EPOCHS)
    sample = ",".join(parts)
    parts |= {f"accuracy-{seed}": partial(accuracies, seed) for seed in range(SEEDS)}
    asked = chosen(args.parts if args.write or args.parts else sample, parts)
    found = kept.by_parts("train", {part: parts[part] for part in asked}, args.write)
    if args.write and set(found) == set(parts):
        table = padding_table(encoder.tokenizer)
        bars(_chart(found), ROOT / "docs" / "results" / "train.svg", "times as fast as a plain Trainer")
        write_page("train", "Training speed", "make bench-train", _page(found, table))
    sets = [found[name] for name in FULL if name in found]
    worst = {key: min(one[key] for one in sets) for key in ("ratio_plain", "ratio_bare", "ratio_default") if sets}
    finish({**found, **worst})


def _chart(figures: dict[str, Any]) -> dict[str, float]:
    """How many times as fast training is, by data and precision."""
    names = {"ratio_plain": "same precision"}
    if (precision := resolve_precision("auto")) != "fp32":
        names["ratio_default"] = f"{precision} beside fp32"
    return {f"{name}, {about}": figures[name][key] for name in FULL for key, about in names.items()}


def _page(figures: dict[str, Any], padding: str) -> str:
    sets = {name: figures[name] for name in FULL}
    rows = [
        f"| {name} | {one['rows']} | {one['rows_per_second']} | **{one['ratio_plain']}** | **{one['ratio_bare']}** | "
        f"{one['ratio_default']} | {one['padding']:.1%} |"
        for name, one in sets.items()
    ]
    pieces = [
        f"| {piece} | " + " | ".join(f"{one['pieces'][piece]:.2f} ×" for one in sets.values()) + " |"
        for piece in PIECES
    ]
    ratios = [one["ratio_plain"] for one in sets.values()]
    scores = [figures[f"accuracy-{seed}"] for seed in range(SEEDS)]
    mean = {side: 100 * statistics.mean(one[side] for one in scores) for side in scores[0]}
    gap = mean["ours"] - mean["plain"]
    return f"""
Training is **{min(ratios):.2f} to {
        max(ratios):.2f} times** as fast as a plain `transformers.Trainer` in the same precision.
Over {SEEDS} seeds, the mean accuracy of `fit` is {abs(gap):.1f} points {"higher" if gap > 0 else "lower"}.

![How many times as fast as a plain Trainer, by data and precision](train.svg)

MiniLM in steps of 32 rows, alternating in one process on one thread, on batches sampled evenly from a length-grouped
epoch of 2,000 rows, compared with a plain `transformers.Trainer` (random order, padded to the longest row of the batch)
on the same rows, and with a bare PyTorch loop over the same batches as ours. Ratios say how many times faster warmstart
is, by CPU time, with fp32 in both; the last ratio compares warmstart in its default precision
({resolve_precision("auto")} here) with the plain Trainer in fp32. IMDb is truncated to 512 tokens.
{"" if resolve_precision("auto") == "bf16" else WITH_BF16}

| data | rows | rows/s (fp32) | vs. plain | vs. bare | default precision | padding |
| --- | --- | --- | --- | --- | --- | --- |
{chr(10).join(rows)}

## What each piece brings

How many times as long a training takes with one piece left out, in the same run:

| left out | {" | ".join(sets)} |
| --- |{" ---: |" * len(sets)}
{chr(10).join(pieces)}

## A frozen lower half

With the embeddings and the lower half of the blocks frozen (`layers.freeze: 4`), {FROZEN_EPOCHS} epochs over
{FROZEN_ROWS} rows of rt-polarity take **{figures["frozen_half"]["computed"]}** of the time of a whole training where
the frozen blocks are computed in every step, and **{figures["frozen_half"]["cached"]}** where their output is computed
once a row and cached, as is the default. Cached, they have no dropout.

## What limits it

The aims were {AIMS["rt-polarity"]} on rt-polarity and {AIMS["imdb"]} on IMDb. Of short texts, most of what is left of a
step are the matrix products of the linear layers, which run near the peak of the processor ([where a step
goes](step.md)): in fp32, only fewer products would take less time. What was tried besides is on a [page of its
own](step-pieces.md).

## Accuracy

Test accuracy on rt-polarity with {ACCURACY_ROWS:,} training rows, three epochs at 5e-5, in fp32; the head of `fit`
starts from a linear probe, as it does by default. With the lower half frozen, accuracy is {
        mean["ours"] - mean["computed"]:.1f} points lower; it is {abs(mean["cached"] - mean["computed"]):.1f} points
{"higher" if mean["cached"] > mean["computed"] else "lower"} if what the frozen blocks return is cached, and they have
no dropout.

| seed | warmstart | plain Trainer | frozen lower half, computed | frozen lower half, cached |
| ---: | ---: | ---: | ---: | ---: |
{_scores(scores)}

## Padding of a whole epoch

Share of padding among all tokens, in batches of 32 rows, for up to {PADDED:,} rows of each dataset with at most 512
tokens per row:

{padding}"""


def _scores(accuracies: list[dict[str, float]]) -> str:
    """A line for each seed, and the means."""
    seeds = [(str(seed), list(one.values())) for seed, one in enumerate(accuracies)]
    means = ("mean", [statistics.mean(scores) for scores in zip(*(scores for _, scores in seeds), strict=True)])
    return "\n".join(
        f"| {name} | " + " | ".join(f"{score:.4f}" for score in scores) + " |" for name, scores in (*seeds, means)
    )


if __name__ == "__main__":
    main()
