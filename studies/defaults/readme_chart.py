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
    "frozen": ("frozen encoder + logistic regression", "#5f8fbf"),
    "defaults": ("warmstart fit", "#d9622b"),
}


def accuracy(name: str, method: str) -> float:
    """The accuracy of a method with 8 rows a label, in percent, with the first seed."""
    for line in (HERE / "figures" / "minilm" / f"{name}-8-a-label.jsonl").read_text().splitlines():
        figure = json.loads(line)
        if figure["method"] == method and figure["seed"] == 0:
            return 100 * float(figure["value"])
    raise SystemExit(f"{name}: {method} is not measured")


def main() -> None:
    """Draw the chart."""
    mpl.rcParams["svg.hashsalt"] = "warmstart"
    figure, axes = plt.subplots(figsize=(10, 4.2), layout="constrained")
    width = 0.2
    for at, (method, (label, colour)) in enumerate(METHODS.items()):
        places = [number + (at - 1.5) * width for number in range(len(SETS))]
        bars = axes.bar(places, [accuracy(name, method) for name in SETS], width, label=label, color=colour)
        if method == "defaults":
            axes.bar_label(bars, fmt="%.0f", fontsize=8)
    axes.set_xticks(range(len(SETS)), SETS.values(), fontsize=8)
    axes.set_ylabel("test accuracy, %")
    axes.set_ylim(0, 100)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.16), ncols=4, frameon=False, fontsize=8)
    figure.savefig(CHART, metadata={"Date": None})


if __name__ == "__main__":
    main()
