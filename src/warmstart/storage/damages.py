"""Published folders read again on demand: every file that is not as it was written, instead of only the first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from warmstart.errors import RunError
from warmstart.storage.artifacts import (
    MANIFEST,
    MAX_MANIFEST_BYTES,
    checksum,
    file_damages,
    read_manifest,
    write_manifest,
)
from warmstart.storage.files import json_text
from warmstart.storage.folders import flush_folder
from warmstart.storage.json_files import JsonObject, parse_json, read_text

FOLDERS = "folders"
"""What a manifest calls the published folders below its own, each with a manifest that may be written again."""
OWN_FILES = ("*.json", "*.yaml", "*.parquet", "recipes/*.yaml")
"""The files of a run that are not in one of its published folders."""
EDITABLE = "README.md"
"""The model card, which the user may edit, so no manifest lists it."""


def published_folders(folder: Path) -> list[Path]:
    """The folder and those below it that have a manifest; staging folders are no part of them."""
    paths = (path.parent for path in folder.rglob(MANIFEST))
    return sorted(path for path in paths if not any(part.startswith(".") for part in path.relative_to(folder).parts))


def list_files(folder: Path, last: Path, name: str) -> None:
    """Write the manifest of a run, whose files were written one by one, before the one that is written last.

    Args:
        last: The last file, under its temporary name.
        name: The name that it will have.
    """
    paths = sorted(path for pattern in OWN_FILES for path in folder.glob(pattern) if not path.name.startswith("."))
    files = {str(path.relative_to(folder)): checksum(path) for path in paths if path.name != MANIFEST}
    published = [path for path in published_folders(folder) if path != folder]
    for parent in {path.parent for path in published}:
        flush_folder(parent)  # a process that was killed may have published them, and not come to that
    below = [str(path.relative_to(folder)) for path in published]
    write_manifest(folder, {"files": {**files, name: checksum(last)}, FOLDERS: below})


def unlist_folders(folder: Path, removed: str) -> None:
    """Take a folder that was removed on purpose, and those below it, out of a run's manifest, if it has one."""
    if not (folder / MANIFEST).is_file():
        return
    manifest = read_manifest(folder)
    kept = [name for name in manifest[FOLDERS] if name != removed and not name.startswith(f"{removed}/")]
    if kept != manifest[FOLDERS]:
        write_manifest(folder, {**manifest, FOLDERS: kept})


def damages(folder: Path) -> list[str]:
    """All that is not as it was written in a folder and the published folders below it; every file is read."""
    folders = published_folders(folder)
    lines: list[str] = []
    for path in folders:
        try:
            manifest = read_manifest(path)
            lines += _reformatted(path / MANIFEST)
        except (RunError, OSError) as error:
            lines.append(str(error))
            continue
        lines += file_damages(path, manifest)
        lines += [
            f"{path / name / MANIFEST} is missing; {path / MANIFEST} lists its folder"
            for name in manifest.get(FOLDERS, ())
            if path / name not in folders
        ]
        lines += _unlisted(path, manifest)
    return lines


def _reformatted(path: Path) -> Iterator[str]:
    """A manifest that says the same in other bytes: its seal does not tell, but something has written into it."""
    text = read_text(path, RunError, MAX_MANIFEST_BYTES)
    if text != json_text(parse_json(text)):
        yield f"{path} was changed: it is not as warmstart writes it"


def _unlisted(folder: Path, manifest: JsonObject) -> Iterator[str]:
    """Files of a published folder that were put there later: whoever opens the folder may read them.

    A run is no such folder: reports, diagnoses and exports are written into it later.
    """
    if FOLDERS in manifest:
        return
    known = {MANIFEST, EDITABLE, *manifest["files"]}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if not path.is_dir() and name not in known and not name.startswith("."):
            yield f"{path}: no manifest lists it"
