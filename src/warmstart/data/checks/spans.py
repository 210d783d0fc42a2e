"""Answers with their positions: none at all, or the same one twice."""

from __future__ import annotations

from warmstart.data.checks.collector import FindingCollector, shown


def check_spans(collector: FindingCollector, column: str) -> None:
    """Report questions without an answer, and answers that several annotators gave alike; both are kept."""
    for row, answers in enumerate(collector.table.column(column)):
        if not answers:
            collector.add_row("answers-none", row, "no answer at all, which counts as an answer")
        elif len(answers) > 1 and len({(answer["text"], answer["start"]) for answer in answers}) < len(answers):
            message = f"an answer occurs twice among {len(answers)}: {shown(answers[0]['text'])}"
            collector.add_row("answer-repeated", row, message)
