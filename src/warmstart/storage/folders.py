"""Folders that outlast a power cut: what a system has promised to keep is only what it was told to flush.

A file that was flushed is lost with its name, and a folder with its own, until the folder above was flushed too.
"""

from __future__ import annotations

import errno
import os
import shutil
import uuid
from contextlib import suppress
from itertools import takewhile
from pathlib import Path

STAGING = ".staging"
"""What the name of an unfinished or discarded file or folder ends with; it begins with a dot."""
_CANNOT_FLUSH = {errno.EINVAL, errno.EBADF, errno.EACCES, errno.EPERM, errno.ENOTSUP}
"""What file systems say that cannot flush a folder, or do not allow it to be opened for that."""
_flushed: set[tuple[int, Path]] = set()
"""Folders whose own names this process has flushed."""


def flush(path: Path) -> None:
    """Wait until the bytes of a file are on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def flush_folder(folder: Path) -> None:
    """Wait until the names in a folder are on disk, where its file system can do that."""
    try:
        flush(folder)
    except OSError as error:
        if error.errno not in _CANNOT_FLUSH:
            raise


def flush_tree(folder: Path) -> None:
    """Wait until everything in a folder is on disk, the files before their names."""
    for path in sorted(folder.rglob("*"), reverse=True):  # what is in a folder comes before it
        if path.is_dir():
            flush_folder(path)
        elif path.is_file():  # and no link that leads nowhere
            flush(path)
    flush_folder(folder)


def make_folder(folder: Path, parents: bool = True) -> None:
    """Make a folder, with those above it that are missing, to last; one that is there is left as it is.

    One that is there may be from a process that died before it was on disk: the first time, it is flushed as well.

    Args:
        parents: Whether to make those above it.
    """
    folder = folder.absolute()
    places = (folder, *folder.parents)
    new = set(takewhile(lambda place: not place.is_dir(), places))
    folder.mkdir(parents=parents, exist_ok=True)
    own = os.getpid()
    for place in places:
        if place not in new and (own, place) in _flushed:
            break
        if not os.access(place.parent, os.W_OK):  # so nothing in it was made by this user
            break
        flush_folder(place.parent)
        _flushed.add((own, place))


def discard(folder: Path) -> None:
    """Delete a folder: first renamed out of sight, so that nobody ever meets it half deleted."""
    aside = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}{STAGING}")
    with suppress(FileNotFoundError):  # it is not there, or another process was quicker
        folder.rename(aside)
        flush_folder(folder.parent)  # else a power cut may bring it back, with half of its files
    shutil.rmtree(aside, ignore_errors=True)
