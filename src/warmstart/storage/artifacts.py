"""Folders that are valid or absent: staged beside their place, flushed, checksummed, then published by a rename."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from warmstart.errors import DiskError, RunError
from warmstart.storage.json_files import MEGABYTE, check_regular, read_object

MANIFEST = "manifest.json"
LARGEST_MANIFEST = 16 * MEGABYTE


@contextmanager
def publish(folder: Path, about: Mapping[str, Any] | None = None) -> Iterator[Path]:
    """Give a staging folder to write into; on leaving, checksum it and move it to its place in one step.

    An exception inside leaves nothing behind, and a kill leaves only a staging folder that nobody reads.

    Args:
        about: Facts kept in the manifest beside the files' checksums; may be filled until the folder is published.
    """
    if folder.exists():
        raise RunError(f"{folder} is there already; remove it or choose another place")
    folder.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".staging", dir=folder.parent))
    try:
        # mkdtemp makes the folder private to one user; what is published is as readable as its neighbours.
        staging.chmod(0o755)
        yield staging
        files = {str(path.relative_to(staging)): describe(path) for path in _files(staging)}
        manifest = {**(about or {}), "files": files}
        write_json(staging / MANIFEST, {**manifest, "seal": _seal(manifest)})
        for path in _files(staging):
            _flush(path)
        _flush(staging)
        staging.rename(folder)
        _flush(folder.parent)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise


@contextmanager
def republish(folder: Path) -> Iterator[Path]:
    """Give a copy of a published folder to change; on leaving, it takes the folder's place.

    Files are shared with the folder until then: put a new file in the place of one, do not write into it. A kill leaves
    the old folder or the new one, or between two renames none, with the old one beside it, which `recover` puts back.
    """
    recover(folder)
    manifest = verify(folder)
    following = folder.with_name(f".{folder.name}.next")
    shutil.rmtree(following, ignore_errors=True)
    with publish(following, {name: value for name, value in manifest.items() if name != "files"}) as staging:
        _link_all(folder, manifest["files"], staging)
        yield staging
    own = {str(path.relative_to(folder)) for path in _files(folder)} - {MANIFEST, *manifest["files"]}
    _link_all(folder, own, following)  # what is no part of it, as a model's card, goes along
    folder.rename(_before(folder))
    following.rename(folder)
    _flush(folder.parent)
    shutil.rmtree(_before(folder), ignore_errors=True)


def _link_all(folder: Path, names: Iterable[str], target: Path) -> None:
    for name in names:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        _link(str(folder / name), str(target / name))


def recover(folder: Path) -> None:
    """Put back a folder that a kill left beside its place while another was about to take it."""
    before = _before(folder)
    if before.is_dir() and not folder.exists():
        before.rename(folder)
    shutil.rmtree(before, ignore_errors=True)


def _before(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.before")


@contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Turn what any library raises about a full or closed disk into a `DiskError` that says what to do."""
    try:
        yield
    except Exception as error:
        number = error.errno if isinstance(error, OSError) else _errno_told(error)
        if number not in _DISK:
            raise
        raise DiskError(
            f"{folder}: {_DISK[number]} ({_free(folder)} free); mend that and run the same command again to go on"
        ) from error


_DISK = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the disk can only be read",
    errno.EACCES: "there is no permission to write here",
    errno.EPERM: "there is no permission to write here",
    errno.EIO: "the disk does not work",
}


def _errno_told(error: Exception) -> int:
    """The system's error number where a library put it into words only, as safetensors does."""
    found = re.search(r"(?:os error |code: |errno )(\d+)", str(error), re.IGNORECASE)
    return int(found.group(1)) if found else 0


def _free(folder: Path) -> str:
    while not folder.exists():
        folder = folder.parent
    return f"{shutil.disk_usage(folder).free / 1e6:,.1f} MB"


def sweep(parent: Path) -> None:
    """Remove staging folders that a kill left beside published ones; only for a place that no one else writes to."""
    for left in parent.glob(".*.staging"):
        if left.is_dir():
            shutil.rmtree(left, ignore_errors=True)
        else:
            left.unlink(missing_ok=True)


def verify(folder: Path) -> dict[str, Any]:
    """The manifest of a published folder, after every file in it was found to be as it was written."""
    path = folder / MANIFEST
    try:
        manifest = read_object(path, RunError, LARGEST_MANIFEST)
    except FileNotFoundError:
        raise RunError(f"{folder} has no {MANIFEST}, so it was not finished or is not of warmstart's making") from None
    files = manifest.get("files")
    if not isinstance(files, dict):
        raise RunError(f"{path}: files: found {type(files).__name__}, expected the folder's files by name")
    for name in files:
        _check_inside(folder, name)
    if manifest.pop("seal", None) != _seal(manifest):
        raise RunError(f"{path} was changed: it does not hold what was written")
    for name, expected in files.items():
        found = describe(folder / name)
        if found != expected:
            raise RunError(f"{folder / name} was changed: found {found}, {MANIFEST} says {expected}")
    return manifest


def _seal(manifest: Mapping[str, Any]) -> str:
    """A checksum over the manifest itself, so that a change in it is noticed like one in any other file."""
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _check_inside(folder: Path, name: str) -> None:
    """Refuse a name in a manifest that leads out of its folder, by `..`, from the root or over a link."""
    parts = PurePosixPath(name).parts
    if not parts or ".." in parts or PurePosixPath(name).is_absolute() or "\\" in name or "\0" in name:
        raise RunError(f"{folder / MANIFEST}: files: found {name!r}, expected a file inside the folder")
    for depth in range(1, len(parts)):
        if folder.joinpath(*parts[:depth]).is_symlink():
            raise RunError(
                f"{folder.joinpath(*parts[:depth])}: found a link, expected a folder; put a copy in its place"
            )
    try:
        check_regular(folder / name, RunError)
    except OSError:
        raise RunError(f"{folder / name} is missing; {MANIFEST} lists it") from None


def describe(path: Path) -> dict[str, Any]:
    """A file's size and SHA-256."""
    with path.open("rb") as file:
        return {"bytes": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def write_json(path: Path, value: Any) -> None:
    """Write JSON in one step, so that a reader finds the old file or the new one."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write_text(path, text)


def write_text(path: Path, text: str) -> None:
    """Write a text file in one step, so that a reader finds the old file or the new one."""
    staging = path.with_name(f".{path.name}.{os.getpid()}.staging")
    try:
        staging.write_text(text, encoding="utf-8")
        _flush(staging)
        staging.replace(path)
    finally:
        staging.unlink(missing_ok=True)


def take(source: Path, target: Path) -> None:
    """Put a file or folder into another place, and away what is there; shared on disk where possible.

    So only for what is never changed where it stands.
    """
    if source.is_dir():
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target, copy_function=_link)
    else:
        target.unlink(missing_ok=True)
        _link(str(source), str(target))


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _flush(path: Path) -> None:
    """Wait until a file or a folder's list of names is on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
