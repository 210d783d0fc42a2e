"""A folder as the bytes of its files, and back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from warmstart.errors import RunError
from warmstart.storage.files import write_bytes


def pack(folder: Path, leave_out: str = "") -> dict[str, bytes]:
    """The content of each file by its name in the folder, without links and hidden files.

    Args:
        leave_out: The name of folders whose files are left out.
    """
    files = {}
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if path.is_symlink() or not path.is_file() or any(part.startswith(".") or part == leave_out for part in parts):
            continue
        files["/".join(parts)] = path.read_bytes()
    return files


def unpack(files: Mapping[str, bytes], folder: Path) -> None:
    """Write files into a folder, after refusing all of them if one would be outside of it."""
    home = folder.resolve()
    targets = {}
    for name, content in files.items():
        # Windows also knows `\` and drives.
        outside = "\0" in name or "\\" in name or ":" in name or not (home / name).resolve().is_relative_to(home)
        if outside or (home / name).resolve() == home:
            raise RunError(f"{name!r} is not a file inside the folder; the packed run was changed, pack it again")
        if not isinstance(content, bytes):
            raise RunError(f"{name!r}: found {type(content).__name__}, expected bytes; the packed run was changed")
        targets[home / name] = content
    for target, content in targets.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(target, content)
