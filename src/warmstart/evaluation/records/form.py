"""The form of a run's folder: a number that goes up when a folder of the old form would be misread."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from warmstart.errors import RunError
from warmstart.evaluation.records.files import read_record, write_record

FILE = "run.json"
FORM = 1
"""The form that is written. A sample of every form from 1 on is kept in the tests, and opens."""


@dataclass(frozen=True)
class FormRecord:
    """What `run.json` holds."""

    form: int


def write_form(folder: Path) -> None:
    """Record the form in a run's folder."""
    write_record(FormRecord(FORM), folder / FILE)


def check_form(folder: Path) -> None:
    """Refuse a run whose form is later than this version of warmstart knows."""
    try:
        form = read_record(FormRecord, folder / FILE).form
    except FileNotFoundError:  # from before forms were counted, and read as the first
        return
    if form > FORM:
        raise RunError(
            f"{folder}: found a run of form {form}, written by a later version of warmstart; this version reads up to "
            f"form {FORM}: pip install --upgrade warmstart"
        )
