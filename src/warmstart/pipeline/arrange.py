"""Before a training: rows that are trained together with others, such as a query with its hard negatives."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from warmstart.data.arrow_files import open_arrow
from warmstart.data.findings import Findings
from warmstart.data.table import Table, extended
from warmstart.errors import Location
from warmstart.inference.predictor import Predictor
from warmstart.inference.searchers import vectors_of
from warmstart.runtime import processes
from warmstart.tasks.shared.protocols import ArrangesRows, LearnsFromAnswers


def arrange(rows: Table, embedder: Predictor, path: Path, findings: Findings, seed: int) -> Table:
    """The training rows as the task needs them, stored at `path`.

    The main process writes them; any other opens the file.

    Args:
        embedder: Gives vectors by the model before it is trained, so that a resumed training arranges the same rows.
    """
    task = embedder.task
    assert isinstance(task, ArrangesRows)
    if not processes.is_main_process():
        return replace(rows, rows=open_arrow(path), _whole=None, _indices=None)
    schema = task.schema(task.options)
    taught = task.taught_columns if isinstance(task, LearnsFromAnswers) else ()
    names = [name for name in (*schema.texts, *schema.answers[:1], *taught) if name in rows.rows.column_names]
    columns = {name: list(rows.column(name)) for name in names}
    chosen, more, notes = task.arrange_rows(columns, lambda texts, side: vectors_of(embedder, texts, side), seed)
    for note in notes:
        findings.add("negatives", "note", note, Location(rows.files[0]))
    return extended(rows, chosen, more, path)
