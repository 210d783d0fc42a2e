"""Before a training: rows that are learned from together with others, such as documents they are set against."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from warmstart.data.findings import Findings
from warmstart.data.table import Table, extended, open_written
from warmstart.inference.predictor import Predictor
from warmstart.inference.search import vectors_of
from warmstart.runtime import processes


def arrange(rows: Table, embedder: Predictor, path: Path, findings: Findings, seed: int) -> Table:
    """The training rows as the task learns from them, stored at `path`.

    The main process writes them; any other opens what is there.

    Args:
        embedder: Gives vectors by the model before it is trained, so that a training that goes on arranges the same.
    """
    task = embedder.task
    if not processes.is_main():
        return replace(rows, rows=open_written(path), _whole=None, _indices=None)
    schema = task.schema(task.options)
    names = [name for name in (*schema.texts, *schema.answers[:1]) if name in rows.rows.column_names]
    columns = {name: list(rows.column(name)) for name in names}
    chosen, more, notes = task.arrange(columns, lambda texts, side: vectors_of(embedder, texts, side), seed)
    for note in notes:
        findings.add("negatives", "note", note, rows.files[0])
    return extended(rows, chosen, more, path)
