"""All that a worker must know, as plain values that can be sent to it; imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass

from warmstart.data.source import Source
from warmstart.deploy.label.locations import Folder

RECORDS = "records"
"""The folder of a group's records: one for each finished shard."""


@dataclass(frozen=True)
class Work:
    """What is answered by which model, and how.

    Attributes:
        model: The model's fingerprint, which a worker's copy of the folder must have.
        least: The least confidence; None for every answer as it is.
    """

    run: str
    model: str
    folder: Folder
    out: Folder
    source: Source
    keep: tuple[str, ...] = ()
    least: float | None = None
    engine: str = "torch"
    precision: str = "fp32"
    threads: int = 1
