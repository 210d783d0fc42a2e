"""Published folders read again on demand: every file that is not as it was written, instead of only the first."""

from __future__ import annotations

from pathlib import Path

from warmstart.errors import RunError
from warmstart.storage.artifacts import MANIFEST, MAX_MANIFEST_BYTES, _seal, checksum
from warmstart.storage.json_files import check_regular_file, read_object


def published_folders(folder: Path) -> list[Path]:
    """The folder and those below it that have a manifest; staging folders are no part of them."""
    paths = (path.parent for path in folder.rglob(MANIFEST))
    return sorted(path for path in paths if not any(part.startswith(".") for part in path.relative_to(folder).parts))


def folder_damages(folder: Path) -> list[str]:
    """All that is not as it was when a folder was published, a line each; every file is read."""
    path = folder / MANIFEST
    try:
        manifest = read_object(path, RunError, MAX_MANIFEST_BYTES)
    except (RunError, OSError) as error:
        return [str(error)]
    if manifest.pop("seal", None) != _seal(manifest) or not isinstance(manifest.get("files"), dict):
        return [f"{path}: was changed: its content does not match its own checksum"]
    damages = []
    for name, expected in manifest["files"].items():
        try:
            check_regular_file(folder / name, RunError)
            actual = checksum(folder / name)
        except FileNotFoundError:
            damages.append(f"{folder / name}: is missing")
        except (RunError, OSError) as error:
            damages.append(str(error))
        else:
            if actual != expected:
                damages.append(f"{folder / name}: was changed: found {actual}, its manifest lists {expected}")
    return damages
