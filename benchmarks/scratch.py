"""A small encoder from nothing but wikitext-2.

Does the loss of masked tokens fall below the entropy of single tokens, and can it tell the next sentences from others?

The run is kept in .cache/scratch/, so a stopped measurement goes on where it was.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from common import KEPT_WORK, ROOT, TINY, arguments, finish, write_page
from set_files import articles
from tables import Lines

"""For tests: a few texts of our own and a tiny encoder."""
CACHE = Path(tempfile.mkdtemp()) if TINY else KEPT_WORK / "scratch"
SHAPE = {"num_layers": 3, "hidden_size": 128, "num_heads": 4, "vocab_size": 6000, "max_tokens": 128}
if TINY:
    SHAPE |= {"num_layers": 1, "hidden_size": 16, "vocab_size": 300}
TOKENS, BATCH, RATE = 128, 32, 2e-3


def texts(part: str) -> Path:
    """The articles of a part, blank lines between them, without headings.

    A document is an article, not a paragraph: the wrong one of two stretches then comes from another article.
    """
    path = CACHE / "data" / f"{part}.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    if TINY:
        path.write_text(
            "\n\n".join(f"Film {n} was good. It was loved. Nobody slept." for n in range(40)), encoding="utf-8"
        )
    if not path.is_file():
        path.write_text("\n\n".join(articles(part)) + "\n", encoding="utf-8")
    return path


def entropy(model: Path, text: str) -> float:
    """The entropy of the tokens of a text one by one, in nats: what is left to a guess that knows nothing around."""
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    ids = [
        one for line in text.split("\n\n") for one in tokenizer(line, add_special_tokens=False, verbose=False).input_ids
    ]
    counts = Counter(ids)
    return -sum(count / len(ids) * math.log(count / len(ids)) for count in counts.values())


def draw(history: list[dict[str, float]], floor: float, path: Path) -> None:
    """The two losses over the steps, and the entropy as a line."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, both = pyplot.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    marks = {"mlm": (floor, "entropy of single tokens"), "nsp": (math.log(2), "chance")}
    for place, (name, (mark, told)) in zip(both, marks.items(), strict=True):
        place.plot([one["step"] for one in history], [one[f"loss_{name}"] for one in history], linewidth=1.2)
        place.axhline(mark, color="#d62728", linestyle="--", linewidth=1, label=told)
        place.set_title({"mlm": "loss of masked tokens", "nsp": "loss of next sentences"}[name], fontsize=11)
        place.spines[["top", "right"]].set_visible(False)
        place.legend(frameon=False, fontsize=9)
    figure.supxlabel("optimizer steps", fontsize=10)
    figure.savefig(path, format="svg", metadata={"Date": None}, facecolor="white")
    pyplot.close(figure)


def main() -> None:
    """Train, or go on, and report."""
    args = arguments(__doc__ or "", 3000, "optimizer steps")
    from scipy.stats import binomtest

    from warmstart.evaluation.run import RunFolder
    from warmstart.pipeline.run_recipe import run_recipe
    from warmstart.recipe import make_recipe

    # The encoder from scratch lies with the run, so that removing the folder measures all anew.
    os.environ["WARMSTART_CACHE"] = str(CACHE / "store")
    folder = CACHE / f"run-{args.n}"
    recipe = {
        "from_scratch": SHAPE,
        "task": {"name": "masked", "objective": "mlm+nsp"},
        "data.train": str(texts("train")),
        "data.test": str(texts("valid")),
        "window.max_tokens": TOKENS,
        "training": {"learning_rate": RATE, "batch_size": BATCH, "max_steps": args.n, "warmup": 0.1},
    }
    if not (folder / "metrics.json").is_file():
        run_recipe(make_recipe(recipe), folder, Lines("wikitext-2"))
    run = RunFolder(folder)
    found = run.metrics["test"]
    floor = entropy(run.model, texts("valid").read_text(encoding="utf-8"))
    pairs = found["nsp_pairs"]
    test = binomtest(round(found["nsp_accuracy"] * pairs), pairs, found["nsp_chance"], alternative="greater")
    figures: dict[str, Any] = {
        "steps": args.n,
        "loss": round(found["loss"], 4),
        "entropy": round(floor, 4),
        "accuracy": round(found["accuracy"], 4),
        "nsp_accuracy": round(found["nsp_accuracy"], 4),
        "nsp_low": round(test.proportion_ci(0.95).low, 4),
        "nsp_chance": round(found["nsp_chance"], 4),
        "nsp_p": test.pvalue,
        "minutes": round(run.training.seconds / 60, 1),
    }
    if args.write:
        draw(run.training.history, floor, ROOT / "docs" / "results" / "scratch.svg")
        write_page("scratch", "An encoder from scratch", "make results-scratch", _page(figures, pairs))
    finish(figures)


def _page(figures: dict[str, Any], pairs: int) -> str:
    return (
        f"From scratch on a small corpus, an encoder learns to predict **{figures['accuracy']:.1%}** of the masked "
        f"tokens and the next sentence for **{figures['nsp_accuracy']:.1%}** of the pairs, where guessing the more "
        f"frequent answer gets {figures['nsp_chance']:.1%}.\n\n"
        f"A BERT with {SHAPE['num_layers']} blocks of width {SHAPE['hidden_size']} and a tokenizer with a "
        f"vocabulary of {SHAPE['vocab_size']:,} tokens, both trained on nothing but the training set of wikitext-2: "
        f"{figures['steps']:,} steps of {BATCH} sequences of at most {TOKENS} tokens, {figures['minutes']} minutes.\n\n"
        "![The losses of masked tokens and of next-sentence prediction over the steps](scratch.svg)\n\n"
        f"On the validation set, the loss of masked tokens is **{figures['loss']}** nats, while the entropy of single "
        f"tokens is {figures['entropy']}; {figures['accuracy']:.1%} of the masked tokens are predicted correctly. "
        f"Next-sentence prediction is right for **{figures['nsp_accuracy']:.1%}** of {pairs:,} pairs (lower end of the "
        f"one-sided 95% confidence interval: {figures['nsp_low']:.1%}); always predicting the more frequent answer "
        f"gets {figures['nsp_chance']:.1%}. A document is an article, so negative segments come from other articles."
    )


if __name__ == "__main__":
    main()
