"""The five patterns of attention maps, by layer, before and after fine-tuning on three sets; and how right they are.

    make results-attention [N=texts of each set]

The rules that name a pattern are checked against maps that were labelled by looking at their pictures, before the rules
were written: `attention_labels.json`, with the labels of a first pass, of one shortly after it, and of a blind one.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import kept
from common import ROOT, TINY, arguments, finish, weights, write_page
from inspect_sets import encoder, finished_run, read
from tables import Lines

SETS = ("rt-polarity", "mrpc", "trec")
SINGLE, PAIRS = ("rt-polarity", "trec"), ("mrpc",)
LABELS = Path(__file__).with_name("attention_labels.json")


ABOUT = """
Fine-tuning on single texts changes most what the heads of the last two layers attend to: {before:.0%} of their maps are
vertical before it and {after:.0%} after it.

![Share of vertical maps by layer, before and after fine-tuning, a panel for each set](attention.svg)

Most maps are vertical: the tokens of a text look at the same few, such as the special ones, as Kovaleva et al. 2019 saw
in BERT. Their claim that the last two layers change most holds for rt-polarity and TREC, with one run of each. On the
pairs of MRPC, layers 4 to 7 change more: vertical maps fall from {middle_before:.0%} to {middle_after:.0%} there, and
maps of neighbours rise; in the last two layers, vertical ones fall from {pair_before:.0%} to {pair_after:.0%}.
Attention maps are named by [five rules](../howto/inspect.md#the-five-patterns), after that paper.

**How right the names are.** {maps} maps of three encoders were labelled from their pictures before the rules were
written ({counts}). A second pass over them, in another order and without the names of the first, agrees with it on
{blind_agrees:.1%} (Cohen's kappa {kappa:.2f}); one shortly after the first, on {passes_agree:.1%}. All were made by the
same reader. The rules' thresholds were chosen on half of the maps, where the rules agree with the first pass on
{rules_agree_where_chosen:.1%}; on the other half they agree on **{rules_agree:.1%}**, less than the reader with
themselves, so a share below means little by itself. Where rules and reader differ, it is most often about `both` and
one of its parts. Only two maps were labelled `block`, so the labels say little about that pattern.
"""


def as_text(row: dict[str, Any]) -> Any:
    """A row's text, or its pair of texts."""
    return (row["text"], row["pair"]) if "pair" in row else row["text"]


def labelled_texts(name: str) -> list[Any]:
    """The texts of a set whose maps were labelled; of `rte-short`, a second sentence and its label as a pair."""
    if name == "rte-short":
        return [(row["pair"], row["label"]) for row in read("rte", "test")]
    return [as_text(row) for row in read(name, "test")]


def check_labels() -> dict[str, Any]:
    """How often the two passes agree with each other, and the rules with the first."""
    from warmstart.inference.features import Extractor
    from warmstart.inspection.attention import read_maps
    from warmstart.inspection.patterns import PATTERNS, find_patterns

    labels = json.loads(LABELS.read_text(encoding="utf-8"))
    extractors = {name: Extractor.load(weights(name)) for name in {label["encoder"] for label in labels}}
    sets = {name: labelled_texts(name) for name in {label["set"] for label in labels}}
    named = []
    for label in labels:
        text = sets[label["set"]][label["row"]]
        maps = next(read_maps(extractors[label["encoder"]], [text]))
        chosen = maps.weights[label["layer"], label["head"]]
        named.append(PATTERNS[int(find_patterns(chosen, maps.segments))])
    right = [name == label["first"] for name, label in zip(named, labels, strict=True)]
    return {
        "maps": len(labels),
        "passes_agree": sum(label["first"] == label["second"] for label in labels) / len(labels),
        "labels": Counter(label["first"] for label in labels),
        # The thresholds were chosen on every other map, so the rest alone says how well the rules do.
        "rules_agree": sum(right[1::2]) / len(right[1::2]),
        "rules_agree_where_chosen": sum(right[::2]) / len(right[::2]),
    }


def measure(name: str, count: int) -> dict[str, Any]:
    """The share of each pattern by layer, before and after fine-tuning."""
    from warmstart.inference.features import Extractor
    from warmstart.inspection.attention import read_maps
    from warmstart.inspection.attention_statistics import attention_statistics

    texts = [as_text(row) for row in read(name, "test")[:count]]
    models = {"before": encoder(), "after": str(finished_run(name, 0, Lines(f"attention {name}")))}
    return {
        when: attention_statistics(read_maps(Extractor.load(model), texts)).patterns_by_layer()
        for when, model in models.items()
    }


def blind_agreement() -> dict[str, float]:
    """How often the pass that did not see the first agrees with it, and how much more than by chance."""
    from sklearn.metrics import cohen_kappa_score

    labels = json.loads(LABELS.read_text(encoding="utf-8"))
    first, blind = ([label[name] for label in labels] for name in ("first", "blind"))
    agree = sum(one == other for one, other in zip(first, blind, strict=True))
    return {"blind_agrees": agree / len(labels), "kappa": float(cohen_kappa_score(first, blind))}


def vertical(figures: dict[str, Any], when: str, names: tuple[str, ...], layers: slice = slice(-2, None)) -> float:
    """The share of vertical maps in some layers, the last two, over some sets."""
    shares = [layer["vertical"] for name in names for layer in figures[name][when][layers]]
    return sum(shares) / len(shares)


def plot(figures: dict[str, Any], path: Path) -> None:
    """The share of vertical maps by layer, a panel for each set."""
    from warmstart.inspection.plots import draw

    panels = {
        name: {when: (range(len(layers)), [100 * one["vertical"] for one in layers]) for when, layers in both.items()}
        for name, both in figures.items()
        if name in SETS
    }
    draw(panels, path, "", "layer; share of vertical maps, %")


def page(figures: dict[str, Any]) -> str:
    """The page about all sets."""
    checked = figures["labels"]
    counts = ", ".join(f"{count} {name}" for name, count in checked["labels"].items())
    shares = {}
    for when in ("before", "after"):
        shares[when] = vertical(figures, when, SINGLE)
        shares[f"pair_{when}"] = vertical(figures, when, PAIRS)
        shares[f"middle_{when}"] = vertical(figures, when, PAIRS, slice(4, 8))
    parts = [ABOUT.format(counts=counts, **checked, **blind_agreement(), **shares).strip()]
    for name in (name for name in SETS if name in figures):
        before, after = figures[name]["before"], figures[name]["after"]
        patterns = list(before[0])
        parts += ["", f"## {name}", "", "Share of maps, before → after fine-tuning.", ""]
        parts += ["| layer | " + " | ".join(patterns) + " |", "| ---: |" + " ---: |" * len(patterns)]
        for layer, (one, other) in enumerate(zip(before, after, strict=True)):
            parts.append(f"| {layer} | " + " | ".join(f"{one[p]:.0%} → {other[p]:.0%}" for p in patterns) + " |")
    return "\n".join(parts)


def main() -> None:
    """Measure what is missing, then report on all."""
    args = arguments(__doc__ or "", 200, "texts of each set")
    figures = kept.read("attention") if args.write else {}
    parts = {name: lambda name=name: measure(name, args.n) for name in (SETS[:1] if TINY else SETS)}
    for name, work in ({} if TINY else {"labels": check_labels}).items() | parts.items():
        if name not in figures:
            figures[name] = work()
            if args.write:
                kept.write("attention", figures)
    if args.write:
        plot(figures, ROOT / "docs" / "results" / "attention.svg")
        write_page(
            "attention", "Attention patterns, before and after fine-tuning", "make results-attention", page(figures)
        )
    finish(figures)


if __name__ == "__main__":
    main()
