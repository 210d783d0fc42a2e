"""Explanations where the cause is known: texts in which one planted word decides the label by construction.

A tiny model is trained on such texts. The planted word must be ranked first by integrated gradients and by occlusion;
words ranked at random must not be called faithful more often than 1 in 20; and after the weights are randomised, the
rankings must have next to nothing to do with those before (the sanity check of Adebayo et al. 2018).
"""

from __future__ import annotations

import csv
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from scipy import stats

import warmstart
from common import ROOT, arguments, finish, write_page

sys.path.insert(0, str(ROOT / "tests"))

from small import FAST
from tiny import save_tiny
from warmstart.inference.predictor import Predictor
from warmstart.inspection.attributions import METHODS, attribute
from warmstart.inspection.explained_text import ExplainedText
from warmstart.inspection.explanations import measure_faithfulness

CAUSES = {"good": "pos", "bad": "neg"}
NEITHER = "none"
"""The label of a text without a planted word: else a model could take the absence of one for the other."""
FILLERS = tuple(
    "the an and or not is was it this that film book food movie story actor plot very who where when in".split()  # noqa: SIM905
)
MUST_FIND = ("integrated-gradients", "occlusion")
TRAIN = 384
DRAWS = 5
"""Draws of random weights."""
SLOW = 100
"""Texts on which the other methods are measured."""


def plant(count: int, seed: int, causes: tuple[str, ...] = tuple(CAUSES)) -> list[tuple[str, str]]:
    """Texts of 20 to 40 words that say nothing, with one among them that decides the label; "" for none."""
    draw = random.Random(seed)
    rows = []
    for number in range(count):
        cause = causes[number % len(causes)]
        words = draw.choices(FILLERS, k=draw.randint(19, 39))
        if cause:
            words.insert(draw.randint(0, len(words)), cause)
        rows.append((" ".join(words), CAUSES.get(cause, NEITHER)))
    return rows


def train(folder: Path) -> Predictor:
    """A tiny model that has learned what decides."""
    path = folder / "train.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "label"), *plant(TRAIN, 0, (*CAUSES, ""))])
    settings = {**FAST["training"], "epochs": 12}
    model = str(save_tiny(folder / "encoder"))
    fields: dict[str, Any] = {"data.split.test": 0.1, "head.init": "random", "training": settings}
    return warmstart.fit(model=model, train=str(path), out=folder / "run", **fields).predictor


def randomise(predictor: Predictor, seed: int) -> None:
    """Draw all weights anew, as large as they were."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in predictor.engine.model.parameters():  # type: ignore[attr-defined]
            parameter.copy_(torch.randn_like(parameter) * parameter.std(correction=0) + parameter.mean())


def rankings(
    predictor: Predictor, rows: list[tuple[str, str]], method: str | Callable[[ExplainedText, int], Any]
) -> tuple[list[Any], list[ExplainedText], float]:
    """The weights of each text's words, the texts, and the texts per second."""
    texts = [ExplainedText(predictor, {"text": text}) for text, _ in rows]
    started = time.process_time()
    weights = [
        attribute(text, method, number) if isinstance(method, str) else method(text, number)
        for number, text in enumerate(texts)
    ]
    return weights, texts, len(rows) / (time.process_time() - started)


def is_first(text: ExplainedText, weights: Any) -> bool:
    """Whether the planted word is ranked first."""
    return text.words[int(np.argmax(weights))].text in CAUSES


def by_chance(text: ExplainedText, number: int) -> Any:
    """Words ranked at random, by a seed of their own."""
    return np.random.default_rng(10_000 + number).normal(size=len(text.words))


def correlations(predictor: Predictor, rows: list[tuple[str, str]], before: dict[str, list[Any]]) -> dict[str, Any]:
    """Spearman's correlation of each text's weights with those of a model of random weights: its mean, and its size.

    A part of the texts each meets other random weights: one draw alone may happen to like the same words.
    """
    by_method: dict[str, list[float]] = {method: [] for method in METHODS}
    for draw in range(DRAWS):
        randomise(predictor, draw)
        for method, weights in before.items():
            own = range(draw, len(weights), DRAWS)
            after, _, _ = rankings(predictor, [rows[number] for number in own], method)
            pairs = zip((weights[number] for number in own), after, strict=True)
            by_method[method] += [float(stats.spearmanr(one, other).statistic) for one, other in pairs]
    return {
        "after_randomising": {name: round(abs(float(np.mean(values))), 4) for name, values in by_method.items()},
        "size_after_randomising": {name: round(float(np.mean(np.abs(v))), 4) for name, v in by_method.items()},
    }


def main() -> None:
    """Prove and report."""
    args = arguments(__doc__ or "", 1000, "texts")
    torch.set_num_threads(1)
    rows = plant(args.n, seed=1)
    figures: dict[str, Any] = {"texts": args.n}
    with tempfile.TemporaryDirectory() as name:
        predictor = train(Path(name))
        answers = predictor.predict([text for text, _ in rows])
        right = [answer["label"] == label for answer, (_, label) in zip(answers, rows, strict=True)]
        figures["accuracy"] = float(np.mean(right))
        before: dict[str, list[Any]] = {}
        figures |= {"found_first": {}, "claimed": {}, "texts_per_second": {}}
        for method in METHODS:
            some = rows if method in MUST_FIND else rows[:SLOW]
            before[method], texts, speed = rankings(predictor, some, method)
            pairs = list(zip(texts, before[method], strict=True))
            figures["found_first"][method] = float(np.mean([is_first(*pair) for pair in pairs]))
            claims = [measure_faithfulness(*pair, seed=number).faithful for number, pair in enumerate(pairs[:SLOW])]
            figures["claimed"][method] = float(np.mean(claims))
            figures["texts_per_second"][method] = round(speed, 1)
        weights, texts, _ = rankings(predictor, rows, by_chance)
        both = enumerate(zip(texts, weights, strict=True))
        figures["random_claims"] = float(np.mean([measure_faithfulness(*pair, seed=n).faithful for n, pair in both]))
        figures |= correlations(predictor, rows, before)
    if args.write:
        write_page("explain", "Explanations where the cause is known", "make proof-explain", _page(figures))
    finish(figures)


def _page(figures: dict[str, Any]) -> str:
    shares = ("found_first", "claimed")
    numbers = ("after_randomising", "size_after_randomising", "texts_per_second")
    rows = [
        f"| {method} | "
        + " | ".join(
            [f"{figures[name][method]:.1%}" for name in shares] + [str(figures[name][method]) for name in numbers]
        )
        + " |"
        for method in METHODS
    ]
    heads = ("planted word ranked first", "called faithful", "correlation after randomising", "its size")
    return f"""
Where one planted word decides, `integrated-gradients` ranks it first in
**{figures["found_first"]["integrated-gradients"]:.1%}** of the texts.

A tiny BERT is trained on texts of 20 to 40 words in which a single planted word decides the label, and on texts without
one, which have a label of their own. On {figures["texts"]:,} other texts with a planted word its accuracy is
{figures["accuracy"]:.1%}, and the answer to each is explained.

| method | {" | ".join(heads)} | texts per second |
| --- | ---: | ---: | ---: | ---: | ---: |
{chr(10).join(rows)}

**Words ranked at random are called faithful in {figures["random_claims"]:.1%} of the texts**; the test allows for 5%.
`gradient-input` and `lime`, and what is called faithful, are measured on the first {min(SLOW, figures["texts"])} texts.

*Called faithful*: the words ranked first change the answer more than those of 19 random rankings of the same words.
Where one word decides, a random ranking that happens to put it first does just as well, as one in 30 does in a text of
30 words. So even a perfect ranking is not always called faithful, and the less often the shorter the text: the claim is
cautious.

*Correlation after randomising*: Spearman's, between the weights of a text's words before and after all of the model's
weights are drawn anew ({DRAWS} draws), as the sanity check of Adebayo et al. 2018: the absolute value of its mean over
texts, and the mean of its absolute value, which is 0.15 between unrelated rankings of 30 words. Words that occur twice
in a text get similar weights from any model, which makes it a little larger.
"""


if __name__ == "__main__":
    main()
