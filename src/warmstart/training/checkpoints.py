"""Checkpoints: folders that are valid or absent, of which the newest is the one that a training resumes from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from warmstart.errors import RunError
from warmstart.storage.artifacts import publish, remove_stale_staging, verify
from warmstart.storage.folders import discard


@dataclass(frozen=True)
class CheckpointStore:
    """The checkpoints of one training.

    Args:
        folder: Their folder, with one folder for each.
        identity: All that must be the same for a training to resume bit-equal, by dotted name.
        keep_last: How many are kept; an older one is removed only after a newer one is complete.
        allowed_changes: Names in the identity that may differ nevertheless.
    """

    folder: Path
    identity: Mapping[str, object] = field(default_factory=dict)
    keep_last: int = 2
    allowed_changes: frozenset[str] = frozenset()

    def save(self, step: int, write: Callable[[Path], object]) -> Path:
        """Publish a checkpoint, then remove the oldest, and those ahead of it, which were skipped on resuming.

        Args:
            write: Writes the files of the checkpoint into a folder.
        """
        remove_stale_staging(self.folder)
        path = self.folder / f"step-{step:09d}"
        if not self._is_saved(path):
            discard(path)
            with publish(path, {"step": step, "identity": dict(self.identity)}) as staging:
                write(staging)
        paths = self._paths()
        own = paths.index(path)
        for old in (*paths[:own], *paths[own + self.keep_last :]):
            discard(old)
        return path

    def _is_saved(self, path: Path) -> bool:
        """Whether a checkpoint is there, whole and of this training: an error of the disk may have had it skipped."""
        try:
            return bool(verify(path)["identity"] == dict(self.identity))
        except RunError:
            return False

    def newest(self) -> tuple[Path | None, list[str]]:
        """The newest checkpoint that is complete, and a line for each newer one that was skipped.

        Raises:
            RunError: It was made with other settings, data or versions, which may not differ.
        """
        skipped = []
        for path in self._paths():
            try:
                manifest = verify(path)
            except RunError as error:
                skipped.append(f"{path.name} skipped: {error}")
                continue
            check_identity(path, manifest.get("identity"), self.identity, self.allowed_changes)
            return path, skipped
        return None, skipped

    def _paths(self) -> list[Path]:
        """All checkpoints, newest first; links are ignored."""
        return sorted((path for path in self.folder.glob("step-*") if not path.is_symlink()), reverse=True)


@dataclass(frozen=True)
class CheckpointPolicy:
    """Where a training saves checkpoints, and when."""

    checkpoints: CheckpointStore
    every_steps: int | None = None
    """Every so many optimizer steps."""
    every_minutes: float | None = 5
    """And whenever so many minutes have passed."""
    save_last: bool = False
    """After the last step too."""

    def end(self) -> None:
        """Remove the checkpoints of a training whose result is published, unless the last one is kept."""
        if not self.save_last:
            discard(self.checkpoints.folder)


def check_identity(path: Path, then: object, now: Mapping[str, object], allowed_changes: Iterable[str] = ()) -> None:
    """Refuse what was made with other settings, data or versions, which may not differ.

    Args:
        then: The identity in a manifest, which may come from any source.
    """
    if not isinstance(then, dict):
        raise RunError(f"{path}: its manifest has no identity, so warmstart did not make it; remove the folder")
    names = sorted({*now, *then} - set(allowed_changes))
    changed = [name for name in names if now.get(name) != then.get(name)]
    if changed:
        lines = [f"  {name}: then {then.get(name)!r}, now {now.get(name)!r}" for name in changed]
        flags = " ".join(f"--resume-anyway {name}" for name in changed)
        raise RunError(
            f"{path} was made with other settings, so resuming from it would not give the same model:\n"
            + "\n".join(lines)
            + f"\nRestore them, choose another --out, or accept the difference with {flags}"
        )
