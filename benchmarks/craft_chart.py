"""The chart of the page on the craft: what single techniques change, read from the page's own tables."""

from __future__ import annotations

import re

from common import ROOT
from forest import forest
from warmstart.evaluation.statistics import MeanEstimate

SHOWN = ("longer", "mean-tokens", "rdrop", "smoothing", "slanted", "random-order", "decay-0.95", "gradual")
"""Variants in the chart: each alone, beside plain fine-tuning."""
IMAGE = (
    "![What each technique changes beside plain fine-tuning, on three datasets, with intervals over seeds](craft.svg)"
)
MOST = 25
"""Points at which the axis ends."""
_SET = re.compile(r"^## (?P<name>[^:]+):[^\n]*; minilm\n(?P<table>.*?)(?=^## |\Z)", re.M | re.S)
_ROW = re.compile(
    r"^\| (?P<variant>\S+) \|[^|]*\| plain \| (?P<mean>[+-][\d.]+) \((?P<low>[+-][\d.]+) to (?P<high>[+-][\d.]+)\)",
    re.M,
)


def differences(text: str) -> dict[str, MeanEstimate]:
    """The differences to plain fine-tuning in a page's tables, by technique and dataset."""
    read = {
        (row["variant"], part["name"]): MeanEstimate(*(float(row[name]) for name in ("mean", "low", "high")), 5)
        for part in _SET.finditer(text)
        for row in _ROW.finditer(part["table"])
    }
    return {f"{variant}: {name}": one for shown in SHOWN for (variant, name), one in read.items() if variant == shown}


def draw(text: str) -> None:
    """Draw the chart of a page."""
    forest(differences(text), ROOT / "docs" / "results" / "craft.svg", "points beside plain fine-tuning", 1, MOST)
