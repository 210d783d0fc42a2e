"""A disk in memory that may lose power: it keeps for sure what was synced, and of the rest what an outcome says.

The model is that of POSIX alone, weaker than any one file system: a name that was made, moved or removed lasts once its
folder was synced, the bytes of a file once the file was; until then each of them may be lost by itself, in any order.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from warmstart.storage.folders import STAGING

ROOT = "/simulated"
"""Where the disk is mounted."""
CONTENTS = ("new", "old", "torn", "zeros", "hole")
"""What a power cut may leave of writes that were not synced."""


@dataclass(eq=False)
class File:
    """The bytes of a file, and those that were synced."""

    number: int
    modified: int
    data: bytearray = field(default_factory=bytearray)
    synced: bytes = b""
    writes: list[tuple[int, int]] = field(default_factory=list)
    """Where bytes were written since, from and to."""
    links: int = 0
    forgotten: bool = False
    """A sync failed: the system has dropped the bytes, and the next sync says nothing of it."""
    holder: object = None
    """Who has locked it."""

    def left(self, content: str) -> bytes:
        """Its bytes after a power cut."""
        new = bytes(self.data)
        if not self.writes:
            return new
        if content == "old":
            return self.synced
        start, end = self.writes[-1]
        middle = (start + end) // 2
        if content == "torn":
            return new[:middle]
        if content == "zeros":
            return new[:start] + bytes(end - start) + new[end:]
        if content == "hole":
            return new[:start] + bytes(middle - start) + new[middle:]
        return new


@dataclass(eq=False)
class Change:
    """A change to the names in folders: one is taken away, one is given; both happen or neither."""

    taken: tuple[Folder, str] | None
    given: tuple[Folder, str, Node] | None

    def apply(self, folder: Folder, names: dict[str, Node]) -> None:
        if self.taken and self.taken[0] is folder:
            names.pop(self.taken[1], None)
        if self.given and self.given[0] is folder:
            names[self.given[1]] = self.given[2]


@dataclass(eq=False)
class Folder:
    """The names in a folder, and those that were synced."""

    number: int
    modified: int = 0
    names: dict[str, Node] = field(default_factory=dict)
    synced: dict[str, Node] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    links: int = 2


Node = File | Folder


@dataclass(frozen=True)
class Outcome:
    """What a power cut leaves of what was not synced."""

    keeps: Callable[[Change], bool]
    content: Callable[[File], str]


KEEPS_ALL = Outcome(lambda change: True, lambda file: "new")


class Disk:
    """Files and folders by path, with the errors of the system."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self.root = Folder(0)
        self.dirty: dict[Node, None] = {}

    def look_up(self, path: str) -> Node:
        node: Node = self.root
        for part in path[len(ROOT) :].split("/"):
            if not part:
                continue
            if not isinstance(node, Folder):
                raise _error(errno.ENOTDIR, path)
            if part not in node.names:
                raise _error(errno.ENOENT, path)
            node = node.names[part]
        return node

    def folder(self, path: str) -> Folder:
        node = self.look_up(path)
        if not isinstance(node, Folder):
            raise _error(errno.ENOTDIR, path)
        return node

    def file(self, path: str) -> File:
        node = self.look_up(path)
        if not isinstance(node, File):
            raise _error(errno.EISDIR, path)
        return node

    def place(self, path: str) -> tuple[Folder, str]:
        """The folder that a path is in, and its name there."""
        parent, _, name = path.rstrip("/").rpartition("/")
        return self.folder(parent), name

    def create(self, path: str) -> File:
        file = File(next(self._numbers), 0)
        file.modified = file.number
        self._give(path, file)
        return file

    def mkdir(self, path: str) -> None:
        self._give(path, Folder(next(self._numbers)))

    def link(self, source: str, target: str) -> None:
        self._give(target, self.file(source))

    def _give(self, path: str, node: Node) -> None:
        folder, name = self.place(path)
        if name in folder.names:
            raise _error(errno.EEXIST, path)
        node.links += 1
        self._change(Change(None, (folder, name, node)))

    def remove(self, path: str, kind: type[Node]) -> None:
        """Remove a file, or a folder that is empty."""
        node = self.look_up(path)
        if not isinstance(node, kind):
            raise _error(errno.EISDIR if isinstance(node, Folder) else errno.ENOTDIR, path)
        if isinstance(node, Folder) and node.names:
            raise _error(errno.ENOTEMPTY, path)
        node.links -= 1
        self._change(Change(self.place(path), None))

    def rename(self, source: str, target: str) -> None:
        node, (folder, name) = self.look_up(source), self.place(target)
        there = folder.names.get(name)
        if there is node:
            return
        if isinstance(there, Folder) and (there.names or isinstance(node, File)):
            raise _error(errno.ENOTEMPTY if there.names else errno.EISDIR, target)
        if isinstance(there, File) and isinstance(node, Folder):
            raise _error(errno.ENOTDIR, target)
        if there is not None:
            there.links -= 1
        self._change(Change(self.place(source), (folder, name, node)))

    def _change(self, change: Change) -> None:
        for folder in dict.fromkeys(side[0] for side in (change.taken, change.given) if side):
            change.apply(folder, folder.names)
            folder.changes.append(change)
            self.dirty[folder] = None

    def write(self, file: File, start: int, data: bytes) -> None:
        if start > len(file.data):
            file.data += bytes(start - len(file.data))
        file.data[start : start + len(data)] = data
        file.writes.append((start, start + len(data)))
        self.dirty[file] = None

    def truncate(self, file: File, size: int) -> None:
        del file.data[size:]
        file.writes.append((size, size))
        self.dirty[file] = None

    def sync(self, node: Node) -> None:
        if isinstance(node, Folder):
            for change in node.changes:  # a move between two folders lasts once either was synced
                for side in (change.taken, change.given):
                    if side and side[0] is not node and change in side[0].changes:
                        change.apply(side[0], side[0].synced)
                        side[0].changes.remove(change)
            node.synced = dict(node.names)
            node.changes.clear()
        elif not node.forgotten:
            node.synced = bytes(node.data)
            node.writes.clear()
        if not isinstance(node, File) or not node.forgotten:
            self.dirty.pop(node, None)

    def pending(self) -> list[Change]:
        """The changes that a power cut may lose, oldest first."""
        return list(dict.fromkeys(change for node in self.dirty if isinstance(node, Folder) for change in node.changes))

    def after(self, outcome: Outcome) -> Disk:
        """The disk after a power cut: what was synced, and of the rest what the outcome keeps, for good."""
        kept = {change for change in self.pending() if outcome.keeps(change)}
        copies: dict[Node, Node] = {}
        disk = Disk()

        def copy(node: Node) -> Node:
            if node not in copies:
                copies[node] = _file(node) if isinstance(node, File) else _folder(node)
            return copies[node]

        def _file(file: File) -> File:
            data = file.left(outcome.content(file)) if file.writes else bytes(file.data)
            return File(next(disk._numbers), file.modified, bytearray(data), data)

        def _folder(folder: Folder) -> Folder:
            names = dict(folder.synced)
            for change in folder.changes:
                if change in kept:
                    change.apply(folder, names)
            new = Folder(next(disk._numbers))
            for name, node in names.items():
                new.names[name] = copy(node)
                new.names[name].links += 1
            new.synced = dict(new.names)
            return new

        disk.root = _folder(self.root)
        return disk

    def files(self, path: str = ROOT) -> dict[str, bytes]:
        """The bytes of every file below a folder, by its path."""
        files: dict[str, bytes] = {}
        for name, node in self.folder(path).names.items():
            below = f"{path}/{name}"
            files |= self.files(below) if isinstance(node, Folder) else {below: bytes(node.data)}
        return files

    def state(self) -> str:
        """What tells one disk from another: its names and bytes, but not what unfinished files and folders hold."""
        lines: list[str] = []

        def walk(folder: Folder, path: str) -> None:
            if any(name.endswith(STAGING) for name in folder.names):
                lines.append(f"{path} unfinished")
            for name, node in sorted(folder.names.items()):
                where = f"{path}/{name}"
                if name.endswith(STAGING):
                    continue
                lines.append(f"{where} {'' if isinstance(node, Folder) else hash(bytes(node.data))}")
                if isinstance(node, Folder):
                    walk(node, where)

        walk(self.root, "")
        return "\n".join(lines)


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)
