"""The words behind the mistakes that a model is most confident of, each explanation tested against random words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from warmstart.diagnosis.evaluated_rows import EvaluatedRows
from warmstart.errors import RunError
from warmstart.evaluation.records.diagnosis import Mistake, MistakeWords
from warmstart.inference.predictor import Predictor
from warmstart.inspection.explanations import Explanation, explain
from warmstart.runtime.progress import Progress

WORDS = 5
"""The most words that are named for a mistake."""
SHOWN = 100
"""The most words of a text that are kept with their weights."""


def explain_mistakes(
    mistakes: Sequence[Mistake],
    indices: Sequence[int],
    rows: EvaluatedRows,
    predictor: Predictor,
    count: int,
    progress: Progress,
) -> list[Mistake]:
    """Name the words that speak most for the wrong answer, for the first of the mistakes.

    Args:
        indices: Which row each mistake is.
        count: How many mistakes to explain.
    """
    if not rows.columns:
        raise RunError("--explain: the texts of the test rows cannot be read again, so no mistake can be explained")
    inputs = [name for name in predictor.task.schema(predictor.task.options).inputs if name in rows.columns]
    explained = []
    with progress.bar("explaining", min(count, len(mistakes))) as bar:
        for mistake, index in list(zip(mistakes, indices, strict=True))[:count]:
            explanation = explain(predictor, {name: rows.columns[name][index] for name in inputs})
            words = [word.text for word in explanation.ranked[:WORDS] if word.weight > 0]
            tested = explanation.faithfulness.faithful
            explained.append(replace(mistake, words=MistakeWords(words, tested, _weights(explanation))))
            bar.advance()
    return [*explained, *mistakes[len(explained) :]]


def _weights(explanation: Explanation) -> list[tuple[str, float]]:
    """The first words of the text in their order, the largest weight of all words being 1."""
    largest = max((abs(word.weight) for word in explanation.words), default=0.0) or 1.0
    weights: list[tuple[str, float]] = []
    before = None
    for word in explanation.words[:SHOWN]:
        joined = before is not None and word.column == before.column and word.start <= before.end
        weights.append((word.text if joined or before is None else f" {word.text}", round(word.weight / largest, 3)))
        before = word
    return weights
