"""The exceptions, as one tree, so that you can catch as much or as little as you want.

    WarmstartError               any error that warmstart raises on purpose
    ├── RecipeError              a recipe or an option is invalid
    ├── DataError                a data file contains something unexpected
    │   └── InputError           what an estimator is given contains something unexpected
    ├── ModelError               a model folder or name cannot be used
    ├── RunError                 a run folder is missing, unfinished or already in use
    │   └── BusyError            another process is working on the same thing
    ├── MissingExtraError        an optional package is not installed
    ├── TrainingError            training failed: the loss is NaN or infinite
    ├── DiskError                the disk is full, or a folder cannot be written to
    ├── PluginError              an object that another package registers cannot be used
    ├── ClusterError             Ray does not start, or its cluster does not answer
    ├── LocaleError              the locale cannot write a path
    ├── OutageError              storage, the network or memory failed for longer than it is retried
    └── StoppedError             a signal stopped training, after a checkpoint was saved

Every message says what happened, what was found, what was expected, and what to type next.
The command line prints the message and exits with the class's `exit_code`.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True, order=True)
class Location:
    """The position of a row: `str(location)` is `reviews.csv:17`, or `reviews.parquet:row 17`.

    Attributes:
        line: Counted from 1; 0 for the file as a whole.
        unit: A word before the number: none, or `row ` if the file has rows but no lines.
    """

    file: str
    line: int = 0
    unit: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.unit}{self.line}" if self.file and self.line else self.file

    @property
    def short(self) -> Location:
        """The same without the file's folder."""
        return replace(self, file=self.file.replace("\\", "/").rpartition("/")[2])

    @classmethod
    def parse(cls, text: str) -> Location:
        """Read back what `str` wrote, as predictions and diagnoses store it; any other text is taken as a file name."""
        match = re.fullmatch(r"(.+):(row )?([1-9]\d*)", text, re.DOTALL)
        return cls(match[1], int(match[3]), match[2] or "") if match else cls(text)


_CREDENTIALS = (
    re.compile(r"(\w:/{1,2})[^\s/@]*:\S*(?=@)"),  # a path made of a URI has one slash less
    re.compile(r"(https?:/{1,2})[^\s/@]+(?=@)", re.IGNORECASE),
    re.compile(
        r"(bearer |basic |[?&][\w-]*(?:key|secret|token|sig|signature|password|credential)[\w-]*=)[^\s&'\"]+",
        re.IGNORECASE,
    ),
)
_SECRET_NAME = re.compile(
    r"(?:SECRET|TOKEN|PASSWORD|ACCOUNT_KEY|STORAGE_KEY|API_KEY|CONNECTION_STRING)(?!.*(?:FILE|PATH)$)"
)


def redact(text: str) -> str:
    """A text without the credentials in its URIs and headers, and without secrets that the environment holds."""
    for name, value in os.environ.items():
        if len(value) >= 8 and _SECRET_NAME.search(name):
            text = text.replace(value, "***")
    for pattern in _CREDENTIALS:
        text = pattern.sub(r"\1***", text)
    return text


class WarmstartError(Exception):
    """Any error that warmstart raises on purpose; credentials in its message are replaced by `***`."""

    exit_code = 1

    def __init__(self, *args: object) -> None:
        super().__init__(*(redact(arg) if isinstance(arg, str) else arg for arg in args))


class RecipeError(WarmstartError):
    """A recipe or an option is invalid."""

    exit_code = 3


class DataError(WarmstartError):
    """A data file contains something unexpected; the message starts with `file:line`, as far as they are known.

    Attributes:
        problem: The message without its location.
        kind: The kind of finding, by its name in the table of `data/fault_kinds.py`.
        location: The file, and the line or row.
        column: The column of the task or of the file that is at fault, if there is one.
        row_id: The id of the row, if the file has ids.
    """

    exit_code = 4

    def __init__(
        self,
        problem: str,
        kind: str = "",
        *,
        location: Location | None = None,
        column: str | None = None,
        row_id: str | None = None,
    ) -> None:
        super().__init__(f"{location}: {problem}" if location else problem)
        self.problem = redact(problem)
        self.kind = kind
        self.location = replace(location, file=redact(location.file)) if location else None
        self.column = column
        self.row_id = row_id

    @property
    def path(self) -> str | None:
        """The file that is at fault."""
        return self.location.file if self.location else None

    @property
    def line(self) -> int | None:
        """The line of the file, or the number of the row, that is at fault."""
        return self.location.line or None if self.location else None


class InputError(DataError, ValueError):
    """What an estimator is given contains something unexpected; a `ValueError`, as scikit-learn raises it."""


class ModelError(WarmstartError):
    """A model folder or name cannot be used."""

    exit_code = 5


class RunError(WarmstartError):
    """A run folder is missing, unfinished or already in use."""

    exit_code = 6


class BusyError(RunError):
    """Another process is working on the same thing; try again when it is done."""


class MissingExtraError(WarmstartError):
    """An optional package is not installed; the message contains the `pip install` command for it."""

    exit_code = 7


class TrainingError(WarmstartError):
    """Training failed: the loss is NaN or infinite."""

    exit_code = 8


class DiskError(WarmstartError):
    """The disk is full, or a folder cannot be written to."""

    exit_code = 9


class PluginError(WarmstartError):
    """An object that another package registers (see `runtime/plugins.py`) cannot be used."""

    exit_code = 10


class ClusterError(WarmstartError):
    """Ray does not start, or its cluster does not answer."""

    exit_code = 11


class LocaleError(WarmstartError):
    """The locale has no characters for a path."""

    exit_code = 12


class OutageError(WarmstartError):
    """Storage, the network or memory failed for longer than it is retried; the same command resumes."""

    exit_code = 74


class StoppedError(WarmstartError):
    """A signal stopped training, after a checkpoint was saved; the same command resumes it."""

    exit_code = 75


def nearest(word: str, known: Iterable[str]) -> str:
    """The end of an error message about an unknown name: the closest known name, or all of them."""
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]!r}?"
    return "known: " + ", ".join(names) if names else "none is known"
