"""Files that cannot be read, whatever is tried: a fault of the data, told apart from one of the world."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager

from warmstart.errors import DataError, Location

SET_ASIDE, STOP = "set-aside", "stop"
ON_BAD_FILE = (SET_ASIDE, STOP)
"""What to do with a file that cannot be read: name it, count it and go on, or end the job."""


class BadFileError(DataError):
    """A file, or a part of it, is damaged."""


@contextmanager
def bad_files(name: str, kind: str) -> Iterator[None]:
    """Turn what a decoder raises about a file into a `BadFileError`.

    The file system itself raises an `OutageError` (see `Folder`), so that an `OSError` in here is about the bytes:
    Arrow and gzip both take it for damaged ones.
    """
    import pyarrow as pa

    try:
        yield
    except DataError as error:
        if error.kind not in ("compression", "bomb"):
            raise
        raise BadFileError(error.problem, error.kind, location=error.location) from error
    except (OSError, EOFError, zlib.error, pa.ArrowException) as error:
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        advice = "Download it again, or set --format" if kind == "parquet" else "Download it again"
        form = "Parquet" if kind == "parquet" else "the format of its name"
        raise BadFileError(f"not readable as {form} ({reason}). {advice}", kind, location=Location(name)) from error
