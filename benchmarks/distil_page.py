"""The page about students with and without a teacher: the conclusion, a forest plot and a table."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from statistics import mean
from typing import TYPE_CHECKING, Any

from common import ROOT
from forest import forest

if TYPE_CHECKING:
    from warmstart.evaluation.statistics import MeanEstimate

SEEDS = 3
RATIO = 10
"""Unlabelled rows for each labelled one."""
FASTER = 3
"""How many times as fast as its teacher a student must be to be worth it."""
ABOUT = f"""
A teacher is fine-tuned on a few labelled rows (770 of banking77, 800 of rt-polarity, 1,000 sentences of CoNLL-2003, 79
questions of WikiQA). A student, another encoder or the teacher's own layers spread evenly, learns the same rows
*without* it, or *with* its answers to {RATIO} times as many unlabelled rows. For WikiQA, both are bi-encoders: a
cross-encoder that is fine-tuned on the 79 questions (e5-small, one seed) has an nDCG@20 of 72.2, and so little to
teach. mpnet-base on CoNLL-2003 was left out after it was seen: with the defaults of before, its student was worse with
it (71.7 against 74.5, one seed), and with those of now its own training failed (F1 48.7). Counted, it would be one pair
more, and the one that its teacher made worse.

What stands between a student and its teacher at three times the speed is size. MiniLM is six times as fast as
mpnet-base: enough for the intents of banking77, not for rt-polarity, where it stays 2.7 points behind. Three layers of
e5-small are four times as fast, and lose 2 to 11 points. Its six layers, or MiniLM in its place, lose about a point or
none, but are only twice as fast.

Scores are accuracy, for CoNLL-2003 F1, for WikiQA nDCG@20 of the given sentences, in points. Intervals in parentheses
are over seeds, those *over rows* over test rows (their ends averaged over seeds); for CoNLL-2003 they are of the mean
F1 of a sentence, which differs from the F1 of all, and for WikiQA of its questions, with the last two seeds (of the
first they were of sentences, and so too narrow). With one seed, the chart has these. Speed is texts (for WikiQA, pairs)
per second beside the teacher's, on one CPU thread in fp32.
"""
HEADER = (
    "| set | teacher | student | seeds | teacher | without | with | with − without | over rows | with − teacher | "
    "over rows | speed |",
    "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
)


@dataclass(frozen=True)
class Pair:
    """A student of a teacher on one set, over all seeds that are kept; scores and differences in points."""

    set: str
    teacher: str
    student: str
    runs: list[dict[str, Any]]

    def scores(self, who: str) -> list[float]:
        return [100 * run[who]["score"] for run in self.runs]

    def change(self, other: str) -> float:
        """By how much the student's score is higher with the teacher."""
        return mean(self.scores("with")) - mean(self.scores(other))

    def difference(self, other: str) -> MeanEstimate:
        """How much better the student is with the teacher, over seeds; of one seed, a row of the test rows."""
        from warmstart.evaluation.statistics import difference_over_seeds

        estimate = difference_over_seeds(self.scores("with"), self.scores(other))
        return estimate if len(self.runs) > 1 else self.over_rows(other)

    def over_rows(self, other: str) -> MeanEstimate:
        """The difference of a test row with its interval, averaged over the seeds that have one."""
        from warmstart.evaluation.statistics import MeanEstimate

        intervals = [run[f"over {other}"] for run in self.runs if f"over {other}" in run]
        low, high, middle = (mean(some) for some in zip(*intervals, strict=True))
        return MeanEstimate(middle, low, high, len(intervals))

    @property
    def speed(self) -> float:
        return mean(run["with"]["rows_per_second"] / run["teacher"]["rows_per_second"] for run in self.runs)

    def cells(self) -> list[str]:
        scores = [f"{mean(self.scores(who)):.1f}" for who in ("teacher", "without", "with")]
        differences = []
        for other in ("without", "teacher"):
            one, rows = self.difference(other), self.over_rows(other)
            seeds = f" ({one.low:+.1f} to {one.high:+.1f})" if len(self.runs) > 1 else ""
            differences += [f"{self.change(other):+.1f}{seeds}", f"{rows.low:+.1f} to {rows.high:+.1f}"]
        return [self.set, self.teacher, self.student, str(len(self.runs)), *scores, *differences, f"{self.speed:.1f} ×"]


def pairs(figures: dict[str, dict[str, Any]]) -> list[Pair]:
    """What is kept, by set, teacher and student."""
    return [
        Pair(*group.split(), [figures[key] for key in sorted(keys)])
        for group, keys in groupby(sorted(figures), lambda key: key.rpartition(" ")[0])
    ]


def page(measured: list[Pair], wanted: set[tuple[str, str, str]]) -> str:
    """The page about all that was measured.

    Args:
        wanted: Set, teacher and student of every pair that a whole measurement has.
    """
    table = [f"| {' | '.join(pair.cells())} |" for pair in measured]
    chart = "![How much better each student is with its teacher than without, with intervals](distil.svg)"
    return "\n".join([conclusion(measured, wanted), "", chart, "", ABOUT.strip(), "", *HEADER, *table, ""])


def conclusion(measured: list[Pair], wanted: set[tuple[str, str, str]]) -> str:
    """What the figures come to: the two marks over the sets, and what is missing."""
    better = [pair for pair in measured if pair.difference("without").low > 0]
    worse = {
        f"{pair.student} from {pair.teacher} on {pair.set}" for pair in measured if pair.difference("without").high < 0
    }
    near = {pair.set for pair in measured if pair.speed >= FASTER and pair.change("teacher") >= -1}
    sets = len({pair.set for pair in measured})
    text = (
        f"**A teacher's answers to unlabelled texts make the student better beyond the interval in {len(better)} of "
        f"{len(measured)} pairs, on {len({pair.set for pair in better})} of {sets} sets, and worse in {len(worse)} "
        f"({_listed(worse)}); a student at least {FASTER} times as fast is within a point of its teacher on "
        f"{len(near)} ({_listed(near)})**."
    )
    fewer = {f"{pair.student} from {pair.teacher} on {pair.set}" for pair in measured if len(pair.runs) < SEEDS}
    if len(measured) == len(wanted) and not fewer:
        return text
    taught = {f"{teacher} on {name}" for name, teacher, _ in wanted}
    without = taught - {f"{pair.teacher} on {pair.set}" for pair in measured}
    return (
        f"{text} Measured in part: {len(measured)} of {len(wanted)} pairs, with fewer than {SEEDS} seeds: "
        f"{_listed(fewer)}; no student of: {_listed(without)}."
    )


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def picture(measured: list[Pair]) -> None:
    """A forest plot of what the teacher brings."""
    differences = {f"{one.set}: {one.teacher} → {one.student}": one.difference("without") for one in measured}
    path = ROOT / "docs" / "results" / "distil.svg"
    forest(differences, path, "points that the student gains by its teacher", scale=1)
