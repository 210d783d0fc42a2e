"""Python's own doors to the file system, led to a simulated disk for the paths that are on it.

`os`, `open`, `fcntl` and `time` are what `pathlib`, `shutil`, `tempfile`, `filelock` and Optuna stand on: nothing of
warmstart knows, and a run of it costs the same with and without. Patched in the one process that simulates.
"""

from __future__ import annotations

import builtins
import errno
import fcntl
import io
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from filelock import Timeout

from simulated_disk import ROOT, File, Folder, Node
from simulated_machine import Killed, Machine, Process
from warmstart.storage import locks

FIRST_HANDLE = 1 << 30


@dataclass(eq=False)
class Handle:
    """An open file or folder of a process."""

    node: Node
    process: Process | None
    appends: bool = False


class Raw(io.RawIOBase):
    """An open file, as Python's buffers want it."""

    def __init__(self, system: System, number: int, handle: Handle, mode: str) -> None:
        self.system, self.number, self.handle, self.mode = system, number, handle, mode
        self.name = str(number)
        self.at = 0

    def readable(self) -> bool:
        return "r" in self.mode or "+" in self.mode

    def writable(self) -> bool:
        return self.mode.strip("bt") != "r"

    def seekable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self.number

    def seek(self, offset: int, whence: int = 0) -> int:
        self.at = offset + (0, self.at, len(self.handle.node.data))[whence]
        return self.at

    def tell(self) -> int:
        return self.at

    def truncate(self, size: int | None = None) -> int:
        size = self.at if size is None else size
        self.system.truncate_node(self.handle.node, size)
        return size

    def readinto(self, buffer: Any) -> int:
        data = self.handle.node.data[self.at : self.at + len(buffer)]
        buffer[: len(data)] = data
        self.at += len(data)
        return len(data)

    def write(self, data: Any) -> int:
        if self.handle.process is not None and self.handle.process.dead:
            raise Killed
        if self.handle.appends:
            self.at = len(self.handle.node.data)
        self.system.write_node(self.handle.node, self.at, bytes(data))
        self.at += len(data)
        return len(data)

    def close(self) -> None:
        if not self.closed:
            super().close()
            self.system.close(self.number)


class Entry:
    """What `os.scandir` gives."""

    def __init__(self, folder: str, name: str, node: Node) -> None:
        self.name, self.path, self.node = name, f"{folder}/{name}", node

    def __fspath__(self) -> str:
        return self.path

    def is_dir(self, follow_symlinks: bool = True) -> bool:
        return isinstance(self.node, Folder)

    def is_file(self, follow_symlinks: bool = True) -> bool:
        return isinstance(self.node, File)

    def is_symlink(self) -> bool:
        return False

    def is_junction(self) -> bool:
        return False

    def stat(self, follow_symlinks: bool = True) -> os.stat_result:
        return status(self.node)


class Entries:
    """A listing, which is closed like one of the system."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.entries = iter(entries)

    def __iter__(self) -> Iterator[Entry]:
        return self.entries

    def __next__(self) -> Entry:
        return next(self.entries)

    def __enter__(self) -> Entries:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def close(self) -> None:
        pass


def status(node: Node) -> os.stat_result:
    """What `os.stat` says of a file or a folder."""
    mode, size = (stat.S_IFREG | 0o644, len(node.data)) if isinstance(node, File) else (stat.S_IFDIR | 0o755, 0)
    seconds = node.modified
    return os.stat_result((mode, node.number, 77, node.links, 0, 0, size, seconds, seconds, seconds))


class System:
    """The system calls of a machine's processes."""

    def __init__(self) -> None:
        self.machine = Machine()
        self.handles: dict[int, Handle] = {}
        self.last = FIRST_HANDLE
        self.reverse = False
        """List the names of a folder newest first."""

    def use(self, machine: Machine, reverse: bool = False) -> None:
        """Let all calls go to another machine."""
        self.machine, self.reverse = machine, reverse
        self.handles.clear()

    def _node(self, path: str | int) -> Node:
        return self._handle(path).node if isinstance(path, int) else self.machine.disk.look_up(path)

    def _handle(self, number: int) -> Handle:
        if number not in self.handles:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return self.handles[number]

    def _opened(self, node: Node, appends: bool = False) -> tuple[int, Handle]:
        self.last += 1
        handle = self.handles[self.last] = Handle(node, self.machine.process, appends)
        if self.machine.process is not None:
            self.machine.process.files[self.last] = handle
        return self.last, handle

    def stat(self, path: str | int, **_: Any) -> os.stat_result:
        self.machine.enter("stat", writes=False)
        return status(self._node(path))

    def readlink(self, path: str, **_: Any) -> str:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)

    def listdir(self, path: str) -> list[str]:
        self.machine.enter("listdir", writes=False)
        names = list(self.machine.disk.folder(path).names)
        return names[::-1] if self.reverse else names

    def scandir(self, path: str) -> Entries:
        path = path.rstrip("/")
        names = self.listdir(path)
        nodes = self.machine.disk.folder(path).names
        return Entries([Entry(path, name, nodes[name]) for name in names if name in nodes])

    def mkdir(self, path: str, mode: int = 0o777, **_: Any) -> None:
        self.machine.enter("mkdir")
        self.machine.disk.mkdir(path)

    def rmdir(self, path: str, **_: Any) -> None:
        self.machine.enter("rmdir")
        self.machine.disk.remove(path, Folder)

    def unlink(self, path: str, **_: Any) -> None:
        self.machine.enter("unlink")
        self.machine.disk.remove(path, File)

    def rename(self, source: str, target: str, **_: Any) -> None:
        self.machine.enter("rename")
        self.machine.disk.rename(source, os.fspath(target))

    def link(self, source: str, target: str, **_: Any) -> None:
        self.machine.enter("link")
        self.machine.disk.link(source, os.fspath(target))

    def chmod(self, path: str | int, mode: int, **_: Any) -> None:
        self._node(path)

    def truncate(self, path: str | int, size: int) -> None:
        node = self._node(path)
        assert isinstance(node, File)
        self.truncate_node(node, size)

    def truncate_node(self, file: File, size: int) -> None:
        self.machine.enter("truncate")
        self.machine.disk.truncate(file, size)

    def write_node(self, file: File, start: int, data: bytes) -> None:
        fault = self.machine.enter("write", file)
        if fault is not None:
            self.machine.disk.write(file, start, data[: len(data) // 2])
            self.machine.strike(fault)
        self.machine.disk.write(file, start, data)

    def pwrite(self, number: int, data: bytes, start: int) -> int:
        file = self._handle(number).node
        assert isinstance(file, File)
        self.write_node(file, start, data)
        return len(data)

    def fsync(self, number: int) -> None:
        node = self._handle(number).node
        self.machine.enter("fsync", node)
        self.machine.disk.sync(node)

    def open(self, path: str, flags: int, mode: int = 0o777, **_: Any) -> int:
        disk, creates = self.machine.disk, bool(flags & os.O_CREAT)
        self.machine.enter("create" if creates else "open", writes=creates)
        try:
            node = disk.look_up(path)
            if creates and flags & os.O_EXCL:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        except FileNotFoundError:
            if not creates:
                raise
            node = disk.create(path)
        return self._opened(node)[0]

    def close(self, number: int) -> None:
        handle = self.handles.pop(number, None)
        if handle is None:
            return
        if isinstance(handle.node, File) and handle.node.holder is handle:
            handle.node.holder = None
        if handle.process is not None:
            handle.process.files.pop(number, None)

    def flock(self, number: int, operation: int) -> None:
        handle = self._handle(number)
        self.machine.enter("flock", writes=False)
        file = handle.node
        assert isinstance(file, File)
        if operation & fcntl.LOCK_UN:
            file.holder = None if file.holder is handle else file.holder
        elif file.holder not in (None, handle):
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        else:
            file.holder = handle

    def open_file(
        self,
        path: str,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        *_: Any,
    ) -> Any:
        """`open`: a new file is created by one call, an old one emptied by another, then written by a third."""
        disk, kind = self.machine.disk, mode.strip("bt+")
        creates = kind in "wax"
        self.machine.enter("create" if creates else "open", writes=creates)
        try:
            node: Node = disk.file(path)
            if kind == "x":
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            if kind == "w" and node.data:
                disk.truncate(node, 0)
        except FileNotFoundError:
            if not creates:
                raise
            node = disk.create(path)
        raw = Raw(self, *self._opened(node, kind == "a"), mode)
        if not buffering:
            return raw
        if "+" in mode:
            file: Any = io.BufferedRandom(raw)
        else:
            file = io.BufferedWriter(raw) if creates else io.BufferedReader(raw)
        return file if "b" in mode else io.TextIOWrapper(file, encoding, errors, newline)


def _led(real: Callable[..., Any], simulated: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose calls go to the simulated disk where their path, or open file, is there."""

    def led(path: Any = ".", *rest: Any, **more: Any) -> Any:
        if isinstance(path, int):
            return simulated(path, *rest, **more) if path > FIRST_HANDLE else real(path, *rest, **more)
        name = os.fspath(path)
        if isinstance(name, str) and name.startswith(ROOT):
            return simulated(name, *rest, **more)
        return real(path, *rest, **more)

    return led


OS = {
    "stat": "stat", "lstat": "stat", "fstat": "stat", "readlink": "readlink", "listdir": "listdir",
    "scandir": "scandir", "mkdir": "mkdir", "rmdir": "rmdir", "unlink": "unlink", "remove": "unlink",
    "rename": "rename", "replace": "rename", "link": "link", "chmod": "chmod", "truncate": "truncate",
    "ftruncate": "truncate", "pwrite": "pwrite", "fsync": "fsync", "open": "open", "close": "close",
}  # fmt: skip


class Flock:
    """What `filelock` does with the system's locks; it also knows threads and forks, which are none here."""

    def __init__(self, path: Path, *, poll_interval: float, on_acquired: Callable[[int], None], **_: Any) -> None:
        self.path, self.poll_interval, self.on_acquired = path, poll_interval, on_acquired
        self.number = 0

    def acquire(self, blocking: bool = True) -> None:
        while not self._acquired():
            if not blocking:
                raise Timeout(str(self.path))
            time.sleep(self.poll_interval)

    def _acquired(self) -> bool:
        number = os.open(self.path, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(number).st_nlink:  # else it was removed since it was opened, and guards no name
                self.on_acquired(number)
                self.number = number
        except BlockingIOError:
            pass
        finally:
            if not self.number:
                os.close(number)
        return bool(self.number)

    def release(self) -> None:
        os.close(self.number)
        self.number = 0

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


@contextmanager
def simulated(system: System) -> Iterator[None]:
    """Lead all calls for paths on the simulated disk there, and take time, process numbers and names from it."""

    def process_number() -> int:
        process = system.machine.process
        return process.number if process is not None else number

    def names() -> Iterator[str]:
        while True:
            yield f"{system.machine.new_name():08d}"

    number = os.getpid()
    randoms = lambda count: system.machine.new_name().to_bytes(count, "big")  # noqa: E731
    replaced: list[tuple[Any, str, Any]] = [
        *((os, name, _led(getattr(os, name), getattr(system, own))) for name, own in OS.items()),
        (builtins, "open", _led(builtins.open, system.open_file)),
        (io, "open", _led(io.open, system.open_file)),
        (fcntl, "flock", _led(fcntl.flock, system.flock)),
        (os, "access", lambda path, mode: str(path).startswith(ROOT)),
        (os, "getpid", process_number),
        (os, "urandom", randoms),
        (tempfile, "_name_sequence", names()),
        (shutil, "_use_fd_functions", False),
        (shutil, "_USE_CP_SENDFILE", False),
        (shutil, "copystat", lambda *_, **__: None),
        (time, "sleep", lambda seconds: system.machine.sleep(seconds)),
        (time, "monotonic", lambda: system.machine.clock),
        (time, "perf_counter", lambda: system.machine.clock),
        (time, "time", lambda: 1.8e9 + system.machine.clock),
        (locks, "FileLock", Flock),
    ]
    with ExitStack() as stack:
        for owner, name, value in replaced:
            stack.enter_context(mock.patch.object(owner, name, value))
        yield
