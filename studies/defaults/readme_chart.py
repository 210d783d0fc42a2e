"""The chart of the README, from the figures of this study: `python studies/defaults/readme_chart.py`."""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib as mpl

mpl.use("svg")
import matplotlib.pyplot as plt

HERE = Path(__file__).parent
CHART = HERE.parent.parent / "docs" / "images" / "small-data.svg"
SETS = {
    "trec": "TREC\n6 labels",
    "banking77": "banking77\n77 labels",
    "clinc150": "clinc150\n151 labels",
    "sms_spam": "SMS spam\n2 labels",
    "mrpc": "MRPC\npairs, 2 labels",
    "rt-polarity": "rt-polarity\n2 labels",
    "sst5": "SST-5\n5 labels",
    "film-reviews": "film reviews\n2 labels",
}
METHODS = {
    "trainer": ("plain Trainer, 10 epochs", "#c9c9c9"),
    "tfidf": ("TF-IDF + logistic regression", "#9fb8cf"),
    "setfit": ("SetFit, 300 steps", "#b79ad0"),
    "autogluon": ("AutoGluon, preset for few rows", "#8fb58a"),
    "frozen": ("frozen encoder + logistic regression", "#5f8fbf"),
    "defaults": ("warmstart fit", "#d9622b"),
}


def accuracies(name: str) -> dict[str, float]:
    """The accuracy of each method with 8 rows a label, in percent: the mean over the seeds that all of them have."""
    by_method: dict[str, dict[int, float]] = {}
    for line in (HERE / "figures" / "minilm" / f"{name}-8-a-label.jsonl").read_text().splitlines():
        figure = json.loads(line)
        by_method.setdefault(figure["method"], {})[figure["seed"]] = 100 * float(figure["value"])
    shown = {method: by_method[method] for method in METHODS if method in by_method}
    seeds = set.intersection(*(set(values) for values in shown.values()))
    return {method: sum(values[seed] for seed in seeds) / len(seeds) for method, values in shown.items()}


def main() -> None:
    """Draw the chart."""
    mpl.rcParams["svg.hashsalt"] = "warmstart"
    figure, axes = plt.subplots(figsize=(10, 4.2), layout="constrained")
    width = 0.8 / len(METHODS)
    means = [accuracies(name) for name in SETS]
    for at, (method, (label, colour)) in enumerate(METHODS.items()):
        places = [number + (at - (len(METHODS) - 1) / 2) * width for number in range(len(SETS))]
        bars = axes.bar(places, [mean.get(method, 0.0) for mean in means], width, label=label, color=colour)
        if method == "defaults":
            axes.bar_label(bars, fmt="%.0f", fontsize=8)
    axes.set_xticks(range(len(SETS)), SETS.values(), fontsize=8)
    axes.set_ylabel("test accuracy, %")
    axes.set_ylim(0, 100)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.24), ncols=3, frameon=False, fontsize=8)
    figure.savefig(CHART, metadata={"Date": None})


if __name__ == "__main__":
    main()
