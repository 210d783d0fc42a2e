"""Rows to label as a file: CSV, JSONL or Parquet with a column to fill in, or tasks for Label Studio."""

from __future__ import annotations

import json
from pathlib import Path
from xml.sax.saxutils import quoteattr

from warmstart.active_learning.ask import AskedRows
from warmstart.data.schema import Row
from warmstart.errors import RecipeError
from warmstart.inference import answer_files
from warmstart.storage.files import write_text

LABEL_STUDIO = ".json"
"""The suffix of a file of Label Studio's tasks."""


def check_out(path: Path, overwrite: bool) -> None:
    """Refuse a file that rows cannot be written to, before any is chosen."""
    if path.suffix != LABEL_STUDIO:
        answer_files.check_out(path, overwrite)
        return
    for file in (path, path.with_suffix(".xml")):
        if file.exists() and not overwrite:
            raise RecipeError(f"--out {path}: {file} exists; choose another, or pass --overwrite")


def write_asked(asked: AskedRows, path: Path) -> list[Path]:
    """Write the rows, each file complete or absent; returns the files that were written."""
    if path.suffix != LABEL_STUDIO:
        answer_files.write_answers(asked.rows, path)
        return [path]
    tasks = [{"data": _data(row, asked)} for row in asked.rows]
    write_text(path, json.dumps(tasks, ensure_ascii=False, indent=1, default=str) + "\n")
    if not asked.labels:
        return [path]
    config = path.with_suffix(".xml")
    write_text(config, labelling_config(asked))
    return [path, config]


def labelling_config(asked: AskedRows) -> str:
    """The labelling interface for Label Studio: the texts, and the labels to choose from.

    The choice is called as the column of the label, so that an export as CSV or JSON-MIN is what `fit --add` reads.
    """
    texts = "".join(f"  <Text name={quoteattr(name)} value={quoteattr('$' + name)}/>\n" for name in asked.inputs)
    choices = "".join(f"    <Choice value={quoteattr(label)}/>\n" for label in asked.labels)
    how = "multiple" if asked.multi_label else "single-radio"
    first = quoteattr(asked.inputs[0])
    opened = (
        f"  <Choices name={quoteattr(asked.label)} toName={first} choice={quoteattr(how)} required={quoteattr('true')}>"
    )
    return f"<View>\n{texts}{opened}\n{choices}  </Choices>\n</View>\n"


def _data(row: Row, asked: AskedRows) -> Row:
    """What Label Studio shows and exports of a row: no prediction, which would be agreed with too readily."""
    return {name: value for name, value in row.items() if name != asked.label and not name.startswith("predicted_")}
