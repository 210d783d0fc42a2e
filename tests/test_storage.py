"""What is on disk is written in one room: files appear whole or not at all, and locks end with their process."""

import ast
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import warmstart
from warmstart.storage.cache import cache_folder
from warmstart.storage.files import (
    append,
    atomic_file,
    drop_torn_line,
    link_or_copy,
    open_atomic,
    open_atomic_binary,
    write_json,
    write_text,
)
from warmstart.storage.locks import hold_lock, lock_holder, try_lock

SOURCE = Path(warmstart.__file__).parent
ALLOWED: dict[str, str] = {}
"""Modules outside storage/ that write a file by themselves, each with the reason; the shorter the better."""


def writes_in(code: str) -> list[tuple[int, str]]:
    """Line and name of every call that renames, flushes or writes a file."""
    writes = []
    for node in ast.walk(ast.parse(code)):
        if not isinstance(node, ast.Call):
            continue
        method = isinstance(node.func, ast.Attribute)
        name = node.func.attr if method else getattr(node.func, "id", "")
        module = node.func.value.id if method and isinstance(node.func.value, ast.Name) else ""
        modes = [*node.args[:2], *(keyword.value for keyword in node.keywords if keyword.arg == "mode")]
        texts = [mode.value for mode in modes if isinstance(mode, ast.Constant) and isinstance(mode.value, str)]
        opens_to_write = any(set(text) <= set("rwaxbt+") and set(text) & set("wax+") for text in texts)
        if (
            (module == "os" and name in {"replace", "rename", "renames", "fsync", "truncate"})
            or (module == "shutil" and name == "move")
            or (method and name in {"write_text", "write_bytes", "rename"})
            # Of a path; text is replaced by two arguments, and a dataclass by keywords.
            or (method and name == "replace" and len(node.args) == 1 and not node.keywords)
            or (name == "open" and opens_to_write)
        ):
            writes.append((node.lineno, name))
    return writes


def test_no_other_room_writes_files_by_itself():
    files = [path for path in sorted(SOURCE.rglob("*.py")) if path.parent != SOURCE / "storage"]
    writes = {str(path.relative_to(SOURCE)): writes_in(path.read_text(encoding="utf-8")) for path in files}
    writing = {name: calls for name, calls in writes.items() if calls}
    assert {name: calls for name, calls in writing.items() if name not in ALLOWED} == {}
    assert sorted(ALLOWED) == sorted(writing), "the list holds no module that does not write"


@pytest.mark.parametrize(
    "code",
    [
        "os.replace(a, b)",
        "path.rename(other)",
        "staging.replace(path)",
        "os.fsync(file.fileno())",
        "path.write_text('x', encoding='utf-8')",
        "path.write_bytes(b'x')",
        "open(path, 'a')",
        "path.open('wb')",
        "path.open(mode='r+')",
        "shutil.move(a, b)",
    ],
)
def test_a_planted_write_is_seen(code):
    assert writes_in(code)
    assert not writes_in("name.replace('a', 'b'); replace(row, x=1); path.open('rb'); open(path); write_text(p, 'x')")


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    path = tmp_path / "a.txt"
    write_text(path, "old")

    def fail():
        with open_atomic(path) as file:
            file.write("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert path.read_text() == "old"
    with open_atomic(path) as file:
        file.write("new\r\n")
        assert path.read_text() == "old"
    assert path.read_bytes() == b"new\r\n"
    with open_atomic_binary(path) as binary:
        binary.write(b"\0")
    assert path.read_bytes() == b"\0"
    with atomic_file(path) as staging:
        staging.write_text("by name")
    write_json(tmp_path / "b.json", {"é": 1})
    assert (tmp_path / "b.json").read_text() == '{\n  "é": 1\n}\n'
    with pytest.raises(ValueError, match="Out of range"):
        write_json(tmp_path / "b.json", {"a": float("nan")})
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.txt", "b.json"]


@pytest.mark.parametrize(
    ("before", "after"), [(b"", b""), (b"a\nb\n", b"a\nb\n"), (b"a\nb", b"a\n"), (b"a", b""), (None, None)]
)
def test_a_torn_last_line_is_dropped(tmp_path, before, after):
    path = tmp_path / "journal"
    if before is not None:
        path.write_bytes(before)
    drop_torn_line(path)
    assert (path.read_bytes() if path.exists() else None) == after


def test_an_append_to_a_full_disk_leaves_a_torn_line_at_most(tmp_path):
    path = tmp_path / "journal"
    append(path, b"one\n")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (6, hard))
    try:
        with pytest.raises(OSError, match="too large"):
            append(path, b"three\n")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == b"one\nth"
    drop_torn_line(path)
    append(path, b"two\n")
    assert path.read_bytes() == b"one\ntwo\n"


def test_what_is_linked_replaces_what_is_there(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x").write_text("new")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "y").write_text("old")
    link_or_copy(tmp_path / "a", tmp_path / "b")
    assert [path.name for path in (tmp_path / "b").iterdir()] == ["x"]
    link_or_copy(tmp_path / "a" / "x", tmp_path / "b" / "x")
    assert (tmp_path / "b" / "x").read_text() == "new"


def tried_elsewhere(path: Path) -> str:
    """Whether another process can take the lock."""
    code = (
        "import sys; from pathlib import Path; from warmstart.storage.locks import try_lock\n"
        "with try_lock(Path(sys.argv[1])) as mine: print(mine)"
    )
    return subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True).stdout.strip()


def test_a_lock_is_held_once_and_its_file_stays(tmp_path):
    path = tmp_path / "deep" / "a.lock"
    assert lock_holder(path) == "another process"
    with try_lock(path) as mine:
        assert mine
        assert lock_holder(path) == f"process {os.getpid()} on {socket.gethostname()}"
        with try_lock(path) as again:
            assert not again
        assert tried_elsewhere(path) == "False"
        assert lock_holder(path) == f"process {os.getpid()} on {socket.gethostname()}", (
            "who fails to take it leaves the holder's name"
        )
    assert path.read_bytes() == b"", "it keeps no name of a machine"
    assert tried_elsewhere(path) == "True"


def test_the_lock_of_a_killed_process_is_free_at_once(tmp_path):
    path = tmp_path / "a.lock"
    code = (
        "import sys, time; from pathlib import Path; from warmstart.storage.locks import try_lock\n"
        "with try_lock(Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"held\n"
        with try_lock(path) as mine:
            assert not mine
        assert lock_holder(path) == f"process {other.pid} on {socket.gethostname()}"
        other.send_signal(signal.SIGKILL)
        other.wait()
    with try_lock(path) as mine:
        assert mine


def test_a_forked_child_neither_holds_nor_releases_its_parents_lock(tmp_path):
    path = tmp_path / "a.lock"
    code = """
import os, sys, time
from pathlib import Path
from warmstart.storage.locks import try_lock
path = Path(sys.argv[1])
with try_lock(path):
    if not (idle := os.fork()):
        time.sleep(60)
        os._exit(0)
    if not (short := os.fork()):
        sys.exit(0)  # leaves the block too
    os.waitpid(short, 0)
    print("held", flush=True)
    sys.stdin.readline()
print("released", flush=True)
sys.stdin.readline()
os.kill(idle, 9)
os.waitpid(idle, 0)
"""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", code, path], **pipes) as other:
        assert other.stdout.readline() == "held\n"
        with try_lock(path) as mine:
            assert not mine, "a child that ended did not release it"
        other.stdin.write("\n")
        other.stdin.flush()
        assert other.stdout.readline() == "released\n"
        with try_lock(path) as mine:
            assert mine, "a child that lives does not hold it"
        other.stdin.write("\n")
        other.stdin.flush()


def test_a_lock_is_waited_for(tmp_path):
    path = tmp_path / "a.lock"
    code = (
        "import sys, time; from pathlib import Path; from warmstart.storage.locks import hold_lock\n"
        "with hold_lock(Path(sys.argv[1])): print('held', flush=True); time.sleep(0.5)"
    )
    with subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"held\n"
        began = time.monotonic()
        with hold_lock(path):
            assert time.monotonic() - began > 0.2
        other.wait()


def test_the_cache_is_where_the_user_wants_it(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("WARMSTART_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"
    monkeypatch.setenv("WARMSTART_CACHE", "")
    if sys.platform == "linux":
        assert cache_folder() == tmp_path / "xdg" / "warmstart"
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        assert cache_folder() == tmp_path / "home" / ".cache" / "warmstart"
