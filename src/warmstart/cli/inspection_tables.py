"""What `warmstart inspect` found, as tables on the screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import singledispatch

from rich.text import Text

from warmstart.cli import screen
from warmstart.diagnosis.run_inspector import (
    AttentionOverview,
    HeadAblation,
    LayerAblation,
    LayerKnowledge,
    MeasuredRows,
)
from warmstart.inspection.ablation import Effect
from warmstart.inspection.explanations import Explanation
from warmstart.inspection.patterns import PATTERNS

STAR = "* significant after correction for the number of effects (Holm, p ≤ 0.05)"
SHOWN = 10
"""Words of an explanation that are shown."""


@singledispatch
def show(result: object) -> None:
    """Print what was found."""
    raise TypeError(f"no table for {type(result).__name__}")


@show.register
def _heads(result: HeadAblation) -> None:
    screen.grid(f"{_title(result)}; change of a row's score without each head, by block", _by_block(result.effects))
    _line(STAR)
    if result.rank_correlation is not None:
        _line(f"rank correlation of the gradient importance with what is lost: {result.rank_correlation:.2f}")
    if result.removal:
        names = ("heads", "last", "row_score", "headline", "test_row_score", "test_headline")
        rows = [{name: getattr(step, name) for name in names} for step in result.removal]
        screen.grid(f"heads switched off one after the other, chosen on the {result.rows.part} rows", rows)


@show.register
def _layers(result: LayerAblation) -> None:
    rows = [
        {
            "without": f"{effect.without} ({effect.kind})",
            result.metric: effect.headline,
            "change": f"{effect.difference:+.4f}{'*' if effect.significant else ''}",
            "95% interval": f"{effect.low:+.3f} to {effect.high:+.3f}",
            "p": effect.p_corrected,
        }
        for effect in result.effects
    ]
    screen.grid(_title(result), rows)
    _line(STAR)


@show.register
def _attention(result: AttentionOverview) -> None:
    statistics = result.statistics
    layers: list[Mapping[str, object]] = []
    for number, shares in enumerate(statistics.patterns_by_layer()):
        heads = [head for head in statistics.heads if head.head.startswith(f"{number}.")]
        means = {
            name: sum(getattr(head, name) for head in heads) / len(heads) for name in ("entropy", "special", "distance")
        }
        layers.append({"layer": number, **{name: f"{shares[name]:.0%}" for name in PATTERNS}, **means})
    screen.grid(f"{_measured(result.rows)}, read with eager attention: patterns of the maps, by layer", layers)


@show.register
def _probe(result: LayerKnowledge) -> None:
    rows = [
        {
            "layer": before.name,
            "start": before.accuracy,
            "its control": before.control,
            "its compression": before.compression,
            "fine-tuned": after.accuracy,
            "control": after.control,
            "compression": after.compression,
            "CKA": cka,
        }
        for before, after, cka in zip(result.start.layers, result.finetuned.layers, result.cka, strict=True)
    ]
    start = result.start
    title = f"accuracy of a linear probe, fitted to {start.train:,} and measured on {start.test:,} examples"
    screen.grid(f"{title}; the most frequent label has {start.majority:.1%}", rows)


@show.register(list)
def _explanations(result: Sequence[Explanation]) -> None:
    for explanation in result:
        answer = next(iter(explanation.answer.values()))
        words = [{"word": word.text, "weight": f"{word.weight:+.3f}"} for word in explanation.ranked[:SHOWN]]
        screen.grid(f"{explanation.method}: {answer}", words)
        _line(faithfulness_sentence(explanation))


def faithfulness_sentence(explanation: Explanation) -> str:
    """Whether the model depends on the words, as a sentence."""
    tested = explanation.faithfulness
    numbers = (
        f"comprehensiveness {tested.comprehensiveness:.2f} against {tested.random_comprehensiveness:.2f} at random, "
        f"sufficiency {tested.sufficiency:.2f} against {tested.random_sufficiency:.2f}"
    )
    claim = "faithful" if tested.faithful else "no better than random rankings of the same words"
    return f"{claim} (p = {tested.p:.2f}): {numbers}"


def _by_block(effects: Sequence[Effect]) -> list[Mapping[str, object]]:
    blocks: dict[str, dict[str, object]] = {}
    for effect in effects:
        block, _, head = effect.without.partition(".")
        blocks.setdefault(block, {"block": block})[head] = (
            f"{effect.difference:+.3f}{'*' if effect.significant else ''}"
        )
    return list(blocks.values())


def _title(result: HeadAblation | LayerAblation) -> str:
    precision = "" if result.precision == "fp32" else f", in {result.precision}"
    return f"{_measured(result.rows)}{precision}: {result.metric} {screen.number(result.headline)}"


def _measured(rows: MeasuredRows) -> str:
    some = f"{rows.used:,}" if rows.used == rows.available else f"{rows.used:,} of {rows.available:,}"
    return f"{some} {rows.part} rows"


def _line(text: str) -> None:
    screen.console.print(Text(text, style="dim"))
