"""The format version of a run folder: a number that goes up when a folder of the old format would be misread."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from warmstart.errors import RunError
from warmstart.evaluation.records.files import read_record, write_record

FILE = "run.json"
FORMAT_VERSION = 1
"""The version that is written. A sample of every version from 1 on is kept in the tests, and opens."""


@dataclass(frozen=True)
class FormatRecord:
    """What `run.json` holds."""

    format_version: int


def write_format_version(folder: Path) -> None:
    """Record the format version in a run folder."""
    write_record(FormatRecord(FORMAT_VERSION), folder / FILE)


def check_format_version(folder: Path) -> None:
    """Refuse a run whose format is newer than this version of warmstart can read."""
    try:
        version = read_record(FormatRecord, folder / FILE).format_version
    except FileNotFoundError:  # from before formats were numbered, and read as the first
        return
    if version > FORMAT_VERSION:
        raise RunError(
            f"{folder}: found a run of format version {version}, written by a later version of warmstart; this version "
            f"reads up to format version {FORMAT_VERSION}: pip install --upgrade warmstart"
        )
