"""What the operating system says of a path, wherever it says it, as an error that tells the user what to do."""

from __future__ import annotations

import errno
import sys

from warmstart.errors import DiskError, LocaleError, WarmstartError

SHOWN = 80
"""Characters of a path in a message."""


def system_fault(error: Exception) -> WarmstartError | None:
    """The error of ours for one that any library raised; None where it is none of these."""
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        path = str(error.filename or "a path")
        short = f"{path[:SHOWN]}…" if len(path) > SHOWN else path
        return DiskError(f"{short}: the name is longer than the file system allows; choose a shorter one")
    if isinstance(error, UnicodeEncodeError) and sys.getfilesystemencoding() != "utf-8":
        text = error.object[max(error.start - SHOWN // 2, 0) : error.end]
        return LocaleError(f"{text!r}: this locale has no characters beyond ASCII; set PYTHONUTF8=1, or LC_ALL=C.UTF-8")
    return None
