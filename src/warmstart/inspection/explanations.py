"""Explanations that prove themselves: the words behind an answer, and whether the model does depend on them.

An explanation is a claim about the model, and claims can be tested ("ERASER: A Benchmark to Evaluate Rationalized NLP
Models", DeYoung et al. 2020):

- *comprehensiveness*: how much weaker the answer is without the words ranked first. High is good.
- *sufficiency*: how much weaker it is with those words alone. Low is good.

Each is the mean over the first 10, 20 and 50% of the words. Beside them stand random rankings of the same words. An
explanation is called faithful only if it beats almost all of them: at most 5% of random rankings would be called so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray

from warmstart.data.schema import Row
from warmstart.inference.predictor import Predictor, Text
from warmstart.inspection.attributions import attribute
from warmstart.inspection.explained_text import ExplainedText, Mask
from warmstart.runtime import notebook_html
from warmstart.runtime.progress import Progress, silent
from warmstart.tasks.base import Answer

DEFAULT = "integrated-gradients"
SHARES = (0.1, 0.2, 0.5)
"""The shares of words that are taken as ranked first."""
RANDOM = 19
"""Random rankings: the fewest with which 1 in 20 is the best of all."""
ROUNDING = 1e-5
"""The difference below which two rankings do equally well: numbers depend a little on what shares a batch."""
CLAIMED = 0.05
"""The p value up to which an explanation is called faithful."""
NAMED = 5
"""Words that the text form of an explanation names."""
SHOWN = 200
"""Words that a notebook shows, and characters of a word."""


@dataclass(frozen=True)
class WordWeight:
    """How much a word speaks for the answer, or against it where the weight is below 0."""

    column: str
    start: int
    end: int
    text: str
    weight: float


@dataclass(frozen=True)
class Faithfulness:
    """Whether a model depends on the words that an explanation ranks first."""

    comprehensiveness: float
    sufficiency: float
    random_comprehensiveness: float
    """The mean of random rankings of the same words."""
    random_sufficiency: float
    p: float
    """The share of random rankings, itself included, that do as well."""
    faithful: bool
    """Whether it is better than random rankings."""


@dataclass(frozen=True, repr=False)
class Explanation:
    """The words behind an answer."""

    method: str
    answer: Answer
    words: list[WordWeight]
    """In the order of the text."""
    faithfulness: Faithfulness

    @property
    def ranked(self) -> list[WordWeight]:
        """The words, those that speak for the answer most first."""
        return sorted(self.words, key=lambda word: -word.weight)

    def as_answer(self) -> Answer:
        """The answer with its explanation, as plain values for JSON."""
        plain = asdict(self)
        return {**plain.pop("answer"), "explanation": plain}

    def __repr__(self) -> str:
        words = ", ".join(f"{word.text} {word.weight:+.2f}" for word in self.ranked[:NAMED])
        return f"Explanation({self.title}: {words}; {self.verdict})"

    def _repr_html_(self) -> str:
        """The explanation in a notebook: the words of the text, blue for the answer and orange against it."""
        largest = max((abs(word.weight) for word in self.words), default=0.0) or 1.0
        parts = []
        before = None
        for word in self.words[:SHOWN]:
            joined = before is None or (word.column == before.column and word.start <= before.end)
            colour = "42, 102, 200" if word.weight > 0 else "200, 98, 42"
            style = f"background: rgba({colour}, {0.6 * abs(word.weight) / largest:.2f})"
            text = escape(word.text if len(word.text) <= SHOWN else f"{word.text[:SHOWN]}…")
            parts.append(f'{"" if joined else " "}<span style="{style}" title="{word.weight:+.3f}">{text}</span>')
            before = word
        left = len(self.words) - SHOWN
        more = f" … ({left:,} more words)" if left > 0 else ""
        title = notebook_html.line(f"{self.title}; {self.verdict}")
        return f'<div>{title}<p style="line-height: 2">{"".join(parts)}{more}</p></div>'

    @property
    def title(self) -> str:
        """The answer that is explained, in short."""
        text = str(next(iter(self.answer.values()), ""))
        return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"

    @property
    def verdict(self) -> str:
        """Whether the explanation passed its test."""
        claim = "faithful" if self.faithfulness.faithful else "no better than random rankings of the same words"
        return f"{self.method}, {claim} (p = {self.faithfulness.p:.2f})"


class Explanations(list[Explanation]):
    """Explanations, as a list that shows itself in a notebook."""

    def __repr__(self) -> str:
        return "\n".join(map(repr, self)) or "no explanations"

    def _repr_html_(self) -> str:
        """All of them in a notebook."""
        left = len(self) - notebook_html.MOST_ROWS
        more = notebook_html.line(f"{left:,} more explanations") if left > 0 else ""
        return f"<div>{''.join(one._repr_html_() for one in self[: notebook_html.MOST_ROWS])}{more}</div>"


Ranker = Callable[[ExplainedText], NDArray[np.float64]]
"""A method: a number for each word."""


def explain(
    predictor: Predictor, row: Row, method: str | Ranker = DEFAULT, answer: Answer | None = None, seed: int = 0
) -> Explanation:
    """Explain an answer by the words of its row.

    Args:
        row: With the columns that the task reads, as `task.parse_input` gives it.
        method: One of `METHODS`, or a function of your own.
        answer: The answer to explain; None for the model's own.
        seed: That of the random rankings.
    """
    text = ExplainedText(predictor, row, answer)
    weights = attribute(text, method, seed) if isinstance(method, str) else np.asarray(method(text))
    words = [
        WordWeight(word.column, word.start, word.end, word.text, float(weight))
        for word, weight in zip(text.words, weights, strict=True)
    ]
    name = method if isinstance(method, str) else getattr(method, "__name__", "own")
    return Explanation(name, text.answer, words, measure_faithfulness(text, weights, seed))


def explain_texts(
    predictor: Predictor, texts: Sequence[Text], method: str = DEFAULT, progress: Progress = silent
) -> Explanations:
    """Explain the model's answer to each text."""
    explanations = Explanations()
    with progress.bar("explaining", len(texts)) as bar:
        for number, text in enumerate(texts, 1):
            explanations.append(explain(predictor, predictor.task.parse_input(text, number), method))
            bar.advance()
    return explanations


def measure_faithfulness(text: ExplainedText, weights: NDArray[np.float64], seed: int = 0) -> Faithfulness:
    """Test a ranking of a text's words against random ones."""
    count = len(weights)
    random = np.random.default_rng(seed)
    # Words with the same weight are in no order; the text's own would be one that may happen to be right.
    shuffled = random.permutation(count)
    own = shuffled[np.argsort(-weights[shuffled], kind="stable")]
    rankings = [own, *(random.permutation(count) for _ in range(RANDOM))]
    masks = [mask for ranking in rankings for mask in _masks(ranking)]
    whole, *scores = text.scores([np.ones(count, bool), *masks])
    losses = (whole - np.array(scores)).reshape(len(rankings), 2, -1).mean(axis=2)
    comprehensiveness, sufficiency = losses.T
    strength = comprehensiveness - sufficiency
    p = float((strength >= strength[0] - ROUNDING).mean())
    at_random = float(comprehensiveness[1:].mean()), float(sufficiency[1:].mean())
    return Faithfulness(float(comprehensiveness[0]), float(sufficiency[0]), *at_random, p, p <= CLAIMED)


def _masks(ranking: NDArray[np.int64]) -> Sequence[Mask]:
    """The text without the words ranked first, for each share, and then with those alone."""
    count = len(ranking)
    without = []
    for share in SHARES:
        mask = np.ones(count, bool)
        mask[ranking[: math.ceil(share * count)]] = False
        without.append(mask)
    return [*without, *(~mask for mask in without)]
