"""Answers with their places: none at all, or the same one twice."""

from __future__ import annotations

from warmstart.data.checks.collector import Sightings, shown


def check_spans(seen: Sightings, column: str) -> None:
    """Tell of questions without an answer, and of answers that several people gave alike; both are kept."""
    for row, answers in enumerate(seen.table.column(column)):
        if not answers:
            seen.see("answers-none", row, "no answer at all, which counts as an answer")
        elif len(answers) > 1 and len({(one["text"], one["start"]) for one in answers}) < len(answers):
            seen.see(
                "answer-repeated", row, f"an answer stands twice among {len(answers)}: {shown(answers[0]['text'])}"
            )
