"""What is wrong with rows that could be read: every check over every part, reported as findings."""

from __future__ import annotations

from collections.abc import Mapping

from warmstart.data.checks.answers import Labels, check_labels, check_leaks, check_scores, check_shares, labels_of
from warmstart.data.checks.collector import FindingCollector
from warmstart.data.checks.duplicates import RowHashes, check_across, check_duplicates, row_hashes
from warmstart.data.checks.relevance import check_relevance
from warmstart.data.checks.spans import check_spans
from warmstart.data.checks.texts import check_texts
from warmstart.data.findings import NOWHERE, Finding, Findings
from warmstart.data.schema import Column, Schema
from warmstart.data.table import Table
from warmstart.errors import DataError, nearest

SOFT = "probabilities"
"""The column in which rows have their soft labels."""


def check_tables(tables: Mapping[str, Table], schema: Schema, findings: Findings) -> None:
    """Check the parts, by the names train, dev and test; all that is wrong, errors too, becomes findings."""
    labels = _LabelChecks(tables, findings)
    training_hashes: RowHashes | None = None
    for name, table in tables.items():
        collector = FindingCollector(table)
        texts = [text for text in schema.texts if text in table.rows.column_names]
        check_texts(collector, texts)
        inputs = [column for column in schema.inputs if column in table.rows.column_names]
        hashes = row_hashes(table, inputs, schema.answer.name if schema.answer else None)
        check_duplicates(collector, hashes)
        if schema.answer is not None:
            _check_answers(collector, schema.answer, texts, labels, name)
        if name == "train":
            training_hashes = hashes
        elif training_hashes is not None:
            check_across(collector, hashes, training_hashes, tables["train"])
        collector.report(findings)


def finding_of(error: DataError) -> Finding:
    """A reader's refusal as a finding."""
    return Finding(error.kind, "error", error.problem, error.location or NOWHERE)


def stop_at_error(findings: Findings) -> None:
    """Raise the first finding that is an error."""
    for finding in findings:
        if finding.severity == "error":
            raise DataError(finding.message, finding.kind, location=finding.location)


def _check_answers(
    collector: FindingCollector, answer: Column, texts: list[str], labels: _LabelChecks, part: str
) -> None:
    if answer.kind == "number":
        check_scores(collector, answer.name)
    elif answer.kind == "answers":
        check_spans(collector, answer.name)
    elif answer.kind == "relevance":
        check_relevance(collector, "query", answer.name)
    elif answer.kind != "choice":
        labels.check(collector, answer, texts, part)


class _LabelChecks:
    """Checks the labels of each part, against those of the training rows for the others."""

    def __init__(self, tables: Mapping[str, Table], findings: Findings) -> None:
        self.tables = tables
        self.findings = findings
        self.trained: Labels | None = None

    def check(self, collector: FindingCollector, answer: Column, texts: list[str], part: str) -> None:
        """Check the labels of one part; the training rows come first."""
        labels = known = labels_of(collector.table, answer.name)
        if SOFT in collector.table.rows.column_names:
            known = labels_of(collector.table, SOFT)
        check_labels(collector, labels)
        if answer.kind == "label":
            check_leaks(collector, texts[0], answer.name)
        elif answer.kind == "labels":
            _check_unlabelled(collector, answer.name)
        if part == "train":
            self.trained = known
            _check_training_labels(collector, labels, known, single=answer.kind == "label")
        elif self.trained is not None:
            _check_unseen(collector, known, self.trained)
            if part == "test":
                self._check_untested(labels, self.trained)

    def _check_untested(self, labels: Labels, trained: Labels) -> None:
        """Report labels that no test row has, at their first training row."""
        collector = FindingCollector(self.tables["train"])
        for label, (_, first) in sorted(trained.items(), key=lambda item: item[1][1]):
            if label not in labels:
                message = f"no test row has the label {label!r}, so the score says nothing about it"
                collector.add_row("label-untested", first, message)
        collector.report(self.findings)


def _check_training_labels(collector: FindingCollector, labels: Labels, known: Labels, single: bool) -> None:
    if single and len(known) == 1:
        (label,) = known
        collector.add_table(
            "label-one",
            f"the training rows hold 1 label ({label!r}); expected 2 or more; is --label the right column?",
        )
    elif labels:
        check_shares(collector, labels, len(collector.table), single)


def _check_unseen(collector: FindingCollector, labels: Labels, trained: Labels) -> None:
    """Report labels that the training rows do not have."""
    for label, (count, first) in sorted(labels.items(), key=lambda item: item[1][1]):
        if label not in trained:
            hint = nearest(label, trained)
            message = f"label {label!r} was not seen in training, so the model has no output for it; {hint}"
            collector.add_row("label-unseen", first, message, count)


def _check_unlabelled(collector: FindingCollector, answer: str) -> None:
    for row, labels in enumerate(collector.table.column(answer)):
        if not labels:
            collector.add_row("labels-none", row, "no label at all, which counts as an answer")
