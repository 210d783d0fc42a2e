"""What is wrong with rows that could be read: every check over every part, told as findings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from warmstart.data.checks.answers import Labels, check_labels, check_leaks, check_scores, check_shares, labels_of
from warmstart.data.checks.collector import Sightings
from warmstart.data.checks.duplicates import Hashes, check_across, check_twins, hashes
from warmstart.data.checks.relevance import check_relevance
from warmstart.data.checks.spans import check_spans
from warmstart.data.checks.texts import check_texts
from warmstart.data.findings import Finding, Findings
from warmstart.data.schema import Schema
from warmstart.data.table import Table
from warmstart.errors import DataError, nearest


def check(tables: Mapping[str, Table], schema: Schema, findings: Findings) -> None:
    """Look at the parts, by the names train, dev and test; add what was found, errors too, to the findings."""
    answer = schema.answer
    known: Labels | None = None
    trained: Hashes | None = None
    for name, table in tables.items():
        seen = Sightings(table)
        texts = [text for text in schema.texts if text in table.rows.column_names]
        check_texts(seen, texts)
        inputs = [name for name in schema.inputs if name in table.rows.column_names]
        found = hashes(table, inputs, answer.name if answer else None)
        check_twins(seen, found)
        if answer is None:
            pass
        elif answer.kind == "number":
            check_scores(seen, answer.name)
        elif answer.kind == "answers":
            check_spans(seen, answer.name)
        elif answer.kind == "relevance":
            check_relevance(seen, "query", answer.name)
        elif answer.kind != "choice":
            labels = labels_of(table, answer.name)
            check_labels(seen, labels)
            if answer.kind == "label":
                check_leaks(seen, texts[0], answer.name)
            elif answer.kind == "labels":
                _unlabelled(seen, answer.name)
            if name == "train":
                known = labels
                _train(seen, labels, answer.kind == "label")
            elif known is not None:
                _compare(seen, labels, known)
                if name == "test":
                    _untested(labels, known, tables["train"], findings)
        if name == "train":
            trained = found
        elif trained is not None:
            check_across(seen, found, trained, tables["train"])
        seen.report(findings)


def finding_of(error: DataError, files: Sequence[str]) -> Finding:
    """Give a reader's refusal as a finding: its message starts with the place."""
    message = str(error)
    for file in sorted(files, key=len, reverse=True):
        if message.startswith(f"{file}:"):
            place = re.match(r":(row )?(\d+)(?=:)", message[len(file) :])
            unit, line = (place[1] or "", int(place[2])) if place else ("", 0)
            text = message[len(file) + (place.end() if place else 0) :].lstrip(": ")
            return Finding(error.kind, "error", text, file, line, unit=unit)
    return Finding(error.kind, "error", message)


def stop_at_error(findings: Findings) -> None:
    """Raise the first finding that is an error."""
    for finding in findings:
        if finding.severity == "error":
            raise DataError(f"{finding.where}: {finding.message}", finding.kind)


def _train(seen: Sightings, labels: Labels, single: bool) -> None:
    """Look at the training rows' labels as those the model is to give."""
    if single and len(labels) == 1:
        (label,) = labels
        seen.see_table(
            "label-one",
            f"the training rows hold 1 label ({label!r}); expected 2 or more; is --label the right column?",
        )
    elif labels:
        check_shares(seen, labels, len(seen.table), single)


def _compare(seen: Sightings, labels: Labels, known: Labels) -> None:
    """Tell of labels that training has not."""
    for label, (count, first) in sorted(labels.items(), key=lambda item: item[1][1]):
        if label not in known:
            what = (
                f"label {label!r} was not seen in training, so the model has no output for it; {nearest(label, known)}"
            )
            seen.see("label-unseen", first, what, count)


def _untested(labels: Labels, known: Labels, train: Table, findings: Findings) -> None:
    """Tell of labels that no test row has, at their first training row."""
    seen = Sightings(train)
    for label, (_, first) in sorted(known.items(), key=lambda item: item[1][1]):
        if label not in labels:
            seen.see("label-untested", first, f"no test row has the label {label!r}, so the score says nothing of it")
    seen.report(findings)


def _unlabelled(seen: Sightings, answer: str) -> None:
    for row, labels in enumerate(seen.table.column(answer)):
        if not labels:
            seen.see("labels-none", row, "no label at all, which counts as an answer")
