"""Everything a worker needs to know, as plain values that can be sent to it; imports nothing heavy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from warmstart.data.source import Source
from warmstart.deploy.label.bad_files import SET_ASIDE
from warmstart.deploy.label.locations import Folder

RECORDS = "records"
"""The folder of a group's records: one for each finished shard."""
LOCK = "lock"
"""The file in the output that is locked while a driver labels into it."""


@dataclass(frozen=True)
class LabelJob:
    """What is labelled, by which model, and how.

    Attributes:
        model: The model's fingerprint, which a worker's copy of the folder must match.
        keep: Columns to keep beside the answers, with their kinds; without any, what the model reads.
        min_confidence: Answers below it are left empty; None for all answers as they are.
        on_bad_file: Whether a damaged file is set aside or ends the job.
        vectors: Whether the encoder's vector of each text is written beside its answer.
    """

    run: str
    model: str
    folder: Folder
    out: Folder
    source: Source
    keep: Mapping[str, str] = field(default_factory=dict)
    min_confidence: float | None = None
    engine: str = "torch"
    precision: str = "fp32"
    threads: int = 1
    on_bad_file: str = SET_ASIDE
    vectors: bool = False
