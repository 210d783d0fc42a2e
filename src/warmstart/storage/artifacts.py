"""Folders that are valid or absent: staged beside their target, checksummed, flushed, then published by a rename."""

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
from typing import TypedDict

from warmstart.errors import DiskError, RunError
from warmstart.storage.cache import cache_folder
from warmstart.storage.files import link_file, write_json
from warmstart.storage.folders import STAGING, flush_folder, flush_tree, make_folder
from warmstart.storage.json_files import MEGABYTE, JsonObject, check_regular_file, read_object

MANIFEST = "manifest.json"
MAX_MANIFEST_BYTES = 16 * MEGABYTE


@contextmanager
def publish(folder: Path, about: Mapping[str, object] | None = None) -> Iterator[Path]:
    """Yield a staging folder to write into; on leaving, checksum it and move it into place in one step.

    An exception inside leaves nothing behind, and a kill leaves only a staging folder that nobody reads.

    Args:
        about: Facts stored in the manifest beside the files' checksums; may be filled until the folder is published.
    """
    if folder.exists():
        raise RunError(f"{folder} already exists; remove it or choose another folder")
    make_folder(folder.parent)
    staging = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=STAGING, dir=folder.parent))
    try:
        # mkdtemp makes the folder private to one user; a published folder is as readable as its neighbours.
        staging.chmod(0o755)
        yield staging
        files = {str(path.relative_to(staging)): checksum(path) for path in _files(staging)}
        write_manifest(staging, {**(about or {}), "files": files})
        flush_tree(staging)
        staging.rename(folder)
        flush_folder(folder.parent)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise


@contextmanager
def republish(folder: Path) -> Iterator[Path]:
    """Yield a copy of a published folder to change; on leaving, the copy replaces the folder.

    Until then files are shared with the folder: replace a file, never write into it. A kill leaves the old folder or
    the new one, or, between two renames, neither, with the old one beside it, which `recover` puts back.
    """
    recover(folder)
    manifest = verify(folder)
    following = folder.with_name(f".{folder.name}.next")
    shutil.rmtree(following, ignore_errors=True)
    with publish(following, {name: value for name, value in manifest.items() if name != "files"}) as staging:
        _link_all(folder, manifest["files"], staging)
        yield staging
    own = {str(path.relative_to(folder)) for path in _files(folder)} - {MANIFEST, *manifest["files"]}
    _link_all(folder, own, following)  # files the manifest does not list, as a model card, are carried over
    flush_tree(following)
    folder.rename(_before(folder))
    following.rename(folder)
    flush_folder(folder.parent)
    shutil.rmtree(_before(folder), ignore_errors=True)


def _link_all(folder: Path, names: Iterable[str], target: Path) -> None:
    for name in names:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        link_file(str(folder / name), str(target / name))


def recover(folder: Path) -> None:
    """Put back a folder that a kill left aside while its replacement was about to be moved into place."""
    before = _before(folder)
    if not before.is_dir():
        return
    if not folder.exists():
        before.rename(folder)
    flush_folder(folder.parent)  # else a power cut may undo the renames, and not what follows
    shutil.rmtree(before, ignore_errors=True)


def _before(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.before")


@contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Turn what any library raises about a full or read-only disk into a `DiskError` that says what to do."""
    try:
        yield
    except Exception as error:
        number = error.errno if isinstance(error, OSError) else _errno_in_message(error)
        if number not in _DISK_PROBLEMS:
            raise
        path, hint = _at_fault(error, folder)
        raise DiskError(
            f"{path}: {_DISK_PROBLEMS[number]} ({_free(path)} free); {hint} and run the same command again to resume"
        ) from error


_DISK_PROBLEMS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the disk is read-only",
    errno.EACCES: "there is no permission to write here",
    errno.EPERM: "there is no permission to write here",
    errno.EIO: "the disk reports an input/output error",
}


def _at_fault(error: Exception, folder: Path) -> tuple[Path, str]:
    """The path that an error is about, and what to do: it may be in a cache, when `folder` itself can be written."""
    name = error.filename if isinstance(error, OSError) else None
    path = Path(name).absolute() if isinstance(name, str) and name else folder.absolute()
    if path.is_relative_to(folder.absolute()):
        return folder, "fix that"
    if path.is_relative_to(cache_folder().absolute()):
        return path, "fix that, or set WARMSTART_CACHE to a folder where you may write,"
    return path, "fix that, or set HF_HOME and WARMSTART_CACHE to folders where you may write,"


def _errno_in_message(error: Exception) -> int:
    """The system's error number where a library only mentions it in its message, as safetensors does."""
    match = re.search(r"(?:os error |code: |errno )(\d+)", str(error), re.IGNORECASE)
    return int(match.group(1)) if match else 0


def _free(folder: Path) -> str:
    while not os.path.exists(folder):  # noqa: PTH110 - where access is denied, `Path.exists` raises
        folder = folder.parent
    return f"{shutil.disk_usage(folder).free / 1e6:,.1f} MB"


def remove_stale_staging(parent: Path) -> None:
    """Remove staging files and folders that a kill left; only for a folder that no other process writes to."""
    for stale in parent.glob(f".*{STAGING}"):
        if stale.is_dir():
            shutil.rmtree(stale, ignore_errors=True)
        else:
            stale.unlink(missing_ok=True)


def verify(folder: Path) -> JsonObject:
    """The manifest of a published folder, after checking that every file in it is as it was written."""
    manifest = read_manifest(folder)
    for damage in file_damages(folder, manifest):
        raise RunError(damage)
    return manifest


def read_manifest(folder: Path) -> JsonObject:
    """The manifest of a folder without its seal, refusing one that is not as it was written."""
    path = folder / MANIFEST
    try:
        manifest = read_object(path, RunError, MAX_MANIFEST_BYTES)
    except FileNotFoundError:
        raise RunError(f"{folder} has no {MANIFEST}, so it was not finished or was not written by warmstart") from None
    files = manifest.get("files")
    if not isinstance(files, dict):
        raise RunError(f"{path}: files: found {type(files).__name__}, expected the folder's files by name")
    for name in files:
        _check_name(folder, name)
    if manifest.pop("seal", None) != _seal(manifest):
        raise RunError(f"{path} was changed: its content does not match its own checksum")
    return manifest


def file_damages(folder: Path, manifest: JsonObject) -> Iterator[str]:
    """The files of a manifest that are not as it lists them, a sentence each; every file is read."""
    for name, expected in manifest["files"].items():
        try:
            _check_inside(folder, name)
            actual = checksum(folder / name)
        except (RunError, OSError) as error:
            yield str(error)
        else:
            if actual != expected:
                yield f"{folder / name} was changed: found {actual}, but {MANIFEST} lists {expected}"


def write_manifest(folder: Path, manifest: Mapping[str, object]) -> None:
    """Write the manifest of a folder, with its seal."""
    write_json(folder / MANIFEST, {**manifest, "seal": _seal(manifest)})


def _seal(manifest: Mapping[str, object]) -> str:
    """A checksum over the manifest itself, so that a change in it is noticed like one in any other file."""
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _check_name(folder: Path, name: str) -> None:
    """Refuse a name in a manifest that leads out of its folder, by `..` or from the root."""
    parts = PurePosixPath(name).parts
    if not parts or ".." in parts or PurePosixPath(name).is_absolute() or "\\" in name or "\0" in name:
        raise RunError(f"{folder / MANIFEST}: files: found {name!r}, expected a file inside the folder")


def _check_inside(folder: Path, name: str) -> None:
    """Refuse a file that a link leads to, or that is not there."""
    parts = PurePosixPath(name).parts
    for depth in range(1, len(parts)):
        if folder.joinpath(*parts[:depth]).is_symlink():
            raise RunError(
                f"{folder.joinpath(*parts[:depth])}: found a link, expected a folder; replace it with a copy"
            )
    try:
        check_regular_file(folder / name, RunError)
    except OSError:
        raise RunError(f"{folder / name} is missing; {MANIFEST} lists it") from None


class Checksum(TypedDict):
    """What a manifest lists of a file."""

    bytes: int
    sha256: str


def checksum(path: Path) -> Checksum:
    """A file's size in bytes and its SHA-256."""
    with path.open("rb") as file:
        return {"bytes": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())
