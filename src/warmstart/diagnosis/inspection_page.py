"""The page of an inspection: what was found about a model's inside, with pictures, as one HTML file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import singledispatch
from html import escape

import numpy as np
from numpy.typing import NDArray

from warmstart.diagnosis.run_inspector import (
    AttentionOverview,
    HeadAblation,
    LayerAblation,
    LayerKnowledge,
    MeasuredRows,
    RunInspector,
)
from warmstart.errors import ModelError
from warmstart.inference.predictor import Text
from warmstart.inspection.ablation import Effect
from warmstart.inspection.explanations import Explanation
from warmstart.inspection.page import PageSection, shade, write_html
from warmstart.inspection.pictures import LINES, WEAKEST, head_table, lines, table, thumbnails
from warmstart.models.switches import parse_switches

STAR = "An asterisk marks what is significant after correction for the number of effects (Holm, p ≤ 0.05)."


def inspection_page(inspector: RunInspector, result: object, text: Text | None = None, head: str | None = None) -> str:
    """The page of what one of the inspector's methods gave.

    Args:
        text: For attention, the text whose maps are drawn; None for the first row.
        head: For attention, the head that is drawn as lines, such as `3.7`; None for none.
    """
    sections = list(_sections(result))
    if isinstance(result, AttentionOverview):
        sections = [*_maps(inspector, result, text, head), *sections]
    return write_html(f"Inside {inspector.path.name}", _note(result), sections)


@singledispatch
def _sections(result: object) -> Iterator[PageSection]:
    raise TypeError(f"no page for {type(result).__name__}")


@_sections.register
def _heads(result: HeadAblation) -> Iterator[PageSection]:
    values, marked = _matrix(result.effects)
    yield PageSection("Without each head", head_table(values, marked=marked), f"Change of a row's score. {STAR}")
    note = "From gradients, divided by the norm of its block: a first guess at what is lost."
    yield PageSection("Gradient importance", head_table(np.array(result.importance)), note)
    if result.removal:
        steps = [
            {"heads off": step.heads, "last": step.last, "row score": step.row_score, "on test": step.test_row_score}
            for step in result.removal
        ]
        yield PageSection("One after the other", table(steps), "Each time the head that costs the least.")


@_sections.register
def _layers(result: LayerAblation) -> Iterator[PageSection]:
    rows = [
        {
            "without": f"{effect.without} ({effect.kind})",
            result.metric: effect.headline,
            "change": f"{effect.difference:+.4f}{'*' if effect.significant else ''}",
            "from": effect.low,
            "to": effect.high,
        }
        for effect in result.effects
    ]
    yield PageSection("Without each layer", table(rows), STAR)


@_sections.register
def _attention(result: AttentionOverview) -> Iterator[PageSection]:
    by_layer = [
        {"layer": number, **{name: f"{share:.0%}" for name, share in shares.items()}}
        for number, shares in enumerate(result.statistics.patterns_by_layer())
    ]
    yield PageSection("Patterns by layer", table(by_layer), "The share of maps, over all heads and texts.")
    heads = [
        {
            "head": head.head,
            "pattern": head.pattern,
            "entropy": head.entropy,
            "special tokens": head.special,
            "distance": head.distance,
            **head.kinds,
        }
        for head in result.statistics.heads
    ]
    note = "Entropy from 0 (one token) to 1 (all alike); of kinds of words, how many times as much as other words get."
    yield PageSection("Every head", table(heads), note)


@_sections.register
def _probe(result: LayerKnowledge) -> Iterator[PageSection]:
    for name, profile in (("Fine-tuned encoder", result.finetuned), ("Encoder before training", result.start)):
        rows = [
            {
                "layer": layer.name,
                "accuracy": layer.accuracy,
                "from": layer.low,
                "to": layer.high,
                "control": layer.control,
                "selectivity": layer.selectivity,
                "compression": layer.compression,
                "CKA": cka,
            }
            for layer, cka in zip(profile.layers, result.cka, strict=True)
        ]
        yield PageSection(name, table(rows), f"The most frequent label has {profile.majority:.1%}.")


@_sections.register(list)
def _explanations(result: Sequence[Explanation]) -> Iterator[PageSection]:
    for number, explanation in enumerate(result, 1):
        answer = str(next(iter(explanation.answer.values())))
        tested = explanation.faithfulness
        claim = "faithful" if tested.faithful else "no better than random rankings of the same words"
        note = (
            f"{explanation.method}, {claim} (p = {tested.p:.2f}): comprehensiveness {tested.comprehensiveness:.2f} "
            f"against {tested.random_comprehensiveness:.2f} at random, sufficiency {tested.sufficiency:.2f} against "
            f"{tested.random_sufficiency:.2f}. Blue speaks for the answer, orange against it."
        )
        yield PageSection(f"{number}. {answer[:200]}", shaded_words(explanation), note)


def shaded_words(explanation: Explanation) -> str:
    """The words of an explanation in their order, each shaded by its weight."""
    largest = max((abs(word.weight) for word in explanation.words), default=0.0)
    parts = []
    before = explanation.words[0]
    for word in explanation.words:
        together = word.column == before.column and word.start <= before.end
        span = f'<span style="{shade(word.weight, largest)}" title="{word.weight:+.3f}">{escape(word.text)}</span>'
        parts.append(span if together else f" {span}")
        before = word
    return f'<p class="words">{"".join(parts)}</p>'


def _maps(
    inspector: RunInspector, result: AttentionOverview, text: Text | None, head: str | None
) -> Iterator[PageSection]:
    shown = text if text is not None else inspector.sample(None, 1)[0]
    maps = next(inspector.maps([shown]))
    words = " ".join(maps.tokens)
    patterns = {one.head: one.pattern for one in result.statistics.heads}
    note = (
        "A row is a token that attends, a column one that is attended to; what stands out most is attended to most. "
        f"The text: {words[:300]}"
    )
    yield PageSection("All heads on one text", thumbnails(maps, patterns), note)
    if head is not None:
        chosen = parse_switches(head).heads
        block, heads = next(iter(chosen.items()), (-1, ()))
        layers, count = maps.weights.shape[:2]
        if len(chosen) != 1 or len(heads) != 1 or not 0 <= block < layers or not int(heads[0]) < count:
            raise ModelError(f"--head {head}: expected one of {layers} x {count} heads, such as 0.{count - 1}")
        limits = f"At most {LINES} lines a token, of attention from {WEAKEST} on."
        yield PageSection(f"Head {head}", lines(maps, block, int(heads[0])), limits)


def _matrix(effects: Sequence[Effect]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The change without each head by block, and whether it is significant."""
    blocks = 1 + max(int(effect.without.partition(".")[0]) for effect in effects)
    values = np.array([effect.difference for effect in effects]).reshape(blocks, -1)
    return values, np.array([effect.significant for effect in effects]).reshape(blocks, -1)


def _note(result: object) -> str:
    rows: MeasuredRows | None = getattr(result, "rows", None)
    precision = getattr(result, "precision", "fp32")
    computed = "" if precision == "fp32" else f", computed in {precision}"
    return f"On {rows.used:,} of {rows.available:,} {rows.part} rows{computed}." if rows else ""
