"""Hostile models, runs, recipes and data files under strace: nothing is run, nothing outside is opened, nobody called.

A process that has the libraries loaded forks for each case, opens the folder there as warmstart does, and strace notes
every program started, every file opened or changed and every connection. An effect is whatever is not the folder's own,
not read by the interpreter or its libraries, and not read when a benign folder is opened. Controls, which do run, open
and call, show that strace would have seen it.
"""

from __future__ import annotations

import json
import os
import pickle
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # threads do not survive a fork
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ["TOKENIZERS_PARALLELISM"] = "false"

from common import ROOT, arguments, finish, write_page

sys.path.insert(0, str(ROOT / "tests"))

import hostile_files
from hostile import CASES as FOLDER_CASES
from hostile import Case, Kind, Payload, open_it, save_benign, secret

CASES = [*FOLDER_CASES, *hostile_files.FILE_CASES]
BOMB = 300 << 20
"""Bytes that bombs unpack to."""

SECONDS = 120
"""How long one case may take."""
MARK = "/dev/null/case"
"""No such path can be; trying to open one puts a mark into what strace notes."""
CALLS = "execve,execveat,open,openat,openat2,creat,connect,bind,sendto,unlink,unlinkat,rename,renameat,renameat2"
CALLS += ",mkdir,mkdirat,rmdir,symlink,symlinkat,link,linkat,chmod,fchmodat,truncate,mknod,mknodat"
OPENS = ("open", "openat", "openat2", "creat")
WRITING = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_APPEND")
NETWORK = re.compile(r"AF_INET|AF_INET6|AF_UNIX")


# --- inside strace ------------------------------------------------------------------------------------------------


def trace_me(work: Path, names: list[str]) -> None:
    """Open each case in a fork, between two marks; what became of it goes to standard output as a line of JSON."""
    import transformers

    transformers.logging.disable_progress_bar()
    benign = work / "benign"
    for kind in ("model", "recurrent", "run", "recipe", "data"):  # what is imported late is imported here
        open_it(kind, benign / kind)  # type: ignore[arg-type]
    kinds = {case.name: case.kind for case in CASES} | BENIGN
    for number, name in enumerate(names):
        folder = work / str(number) / "it"
        do = CONTROLS[name] if name in CONTROLS else partial(open_it, kinds[name])
        _mark(number)
        print(json.dumps({"name": name, **_in_a_fork(do, folder)}), flush=True)
    _mark(len(names))


def _in_a_fork(do: Callable[[Path], Any], folder: Path) -> dict[str, Any]:
    read, write = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(SECONDS)
        os.dup2(write, 1)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        try:
            do(folder)
            said: dict[str, Any] = {"kind": "opened", "message": ""}
        except BaseException as error:
            from warmstart.errors import WarmstartError

            kind = "refused" if isinstance(error, WarmstartError) else type(error).__name__
            said = {"kind": kind, "message": str(error)[:4000]}
        usage = resource.getrusage(resource.RUSAGE_SELF)
        said |= {"seconds": usage.ru_utime + usage.ru_stime, "megabytes": (usage.ru_maxrss - before) >> 10}
        os.write(write, json.dumps(said).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    ended = {"kind": f"ended with {status}", "message": "", "seconds": SECONDS, "megabytes": 0}
    found: dict[str, Any] = json.loads(text) if text else ended
    return found


def _mark(number: int) -> None:
    try:
        os.open(f"{MARK}{number}", os.O_RDONLY)
    except NotADirectoryError:
        return


def _call(folder: Path) -> None:
    with socket.socket(socket.AF_INET) as sock:
        sock.settimeout(1)
        sock.connect_ex(("127.0.0.1", 9))


CONTROLS: dict[str, Callable[[Path], Any]] = {
    "control: a pickle is opened": lambda folder: pickle.loads(  # noqa: S301
        pickle.dumps(Payload(str(folder.parent / "ran")))
    ),
    "control: a file outside is read": lambda folder: secret(folder).read_text(),
    "control: a file outside is written": lambda folder: (folder.parent / "written").write_text("x"),
    "control: someone is called": _call,
}

BENIGN: dict[str, Kind] = {f"benign: a {kind}": kind for kind in ("model", "recurrent", "run", "recipe", "data")}
"""Opened first: what they read of the system is what opening any folder reads."""


# --- around strace ------------------------------------------------------------------------------------------------


def lay_out(work: Path, cases: list[Case]) -> list[str]:
    """Write the benign folders, and each case's own; give the names in the order of their numbers."""
    save_benign(work / "benign")
    makers = {case.name: case for case in cases}
    names = [*BENIGN, *makers, *CONTROLS]
    for number, name in enumerate(names):
        folder = work / str(number) / "it"
        kind = makers[name].kind if name in makers else BENIGN.get(name, "model")
        shutil.copytree(work / "benign" / kind, folder)
        secret(folder).write_text('{"model_type": "bert"}', encoding="utf-8")
        if name in makers:
            makers[name].make(folder)
    return names


def trace(work: Path, names: list[str]) -> tuple[list[dict[str, Any]], list[list[str]]]:
    """What became of each case, and the calls that strace noted of it."""
    notes, home = work / "strace", work / "home"
    home.mkdir()
    command = ["strace", "-f", "-y", "-s", "4096", "--seccomp-bpf", "-e", f"trace={CALLS}", "-o", str(notes)]
    done = subprocess.run(
        [*command, sys.executable, __file__, "--inside", str(work)],
        input=json.dumps(names),
        capture_output=True,
        text=True,
        cwd=home,
        env={**os.environ, "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    if done.returncode:
        sys.exit(f"the traced process left with {done.returncode}:\n{done.stderr[-3000:]}")
    parts: list[list[str]] = []
    for line in notes.read_text(encoding="utf-8", errors="replace").splitlines():
        if f'"{MARK}' in line:
            parts.append([])
        elif parts:
            parts[-1].append(line)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"name"')], parts[:-1]


def effects(lines: list[str], folder: Path, usual: frozenset[Path] = frozenset()) -> Iterator[str]:
    """The calls among those noted that reach outside a folder, beyond the reading that is usual."""
    for line in lines:
        found = re.match(r"\d+\s+(\w+)\((.*)", line)
        if not found:  # a signal, an exit, the second half of a call
            continue
        call, rest = found.groups()
        if call in ("connect", "bind", "sendto"):
            if NETWORK.search(rest):
                yield line
        elif call in OPENS and not WRITING.search(rest):
            path = _path(rest)
            inside = path.is_relative_to(folder) or any(path.is_relative_to(place) for place in LIBRARIES)
            if not inside and path not in usual:
                yield line
        elif not (call in OPENS and _path(rest) == Path(os.devnull)):
            yield line  # a program started, or a file written, moved or removed, wherever it is


def usual_reading(parts: list[list[str]], places: list[Path]) -> frozenset[Path]:
    """What opening benign folders reads beyond the libraries; leaves, saying so, if they do more than read."""
    lines = [line for part, place in zip(parts, places, strict=False) for line in effects(part, place)]
    found = [re.match(r"\d+\s+(\w+)\((.*)", line) for line in lines]
    read = [_path(one[2]) for one in found if one and one[1] in OPENS and not WRITING.search(one[2])]
    if len(read) < len(lines) or any(path.is_relative_to(place.parents[1]) for path in read for place in places[:1]):
        sys.exit("opening a benign folder has effects:\n" + "\n".join(lines))
    return frozenset(read)


def _path(rest: str) -> Path:
    """The path a call names, from the root and without `..`; links were refused, so none is followed here."""
    base = re.match(r"(?:AT_FDCWD|\d+)<([^>]*)>", rest)
    name = re.search(r'"((?:[^"\\]|\\.)*)"', rest)
    return Path(os.path.normpath(Path(base[1] if base else "/") / (name[1] if name else "")))


def _libraries() -> list[Path]:
    """Where the interpreter, its packages and the system's libraries are: reading there is no effect."""
    places = {sys.prefix, sys.base_prefix, *sysconfig.get_paths().values(), str(ROOT / "src"), str(ROOT / "tests")}
    places |= {str(Path(place).resolve()) for place in places}
    places |= {"/usr/lib", "/usr/lib64", "/lib", "/lib64", "/usr/share/locale", "/etc/ld.so.cache", "/etc/localtime"}
    places |= {"/proc/self", "/proc/meminfo", "/proc/cpuinfo", "/proc/stat", "/sys/devices/system", "/sys/fs/cgroup"}
    places |= {"/dev/null", "/dev/urandom", "/usr/share/zoneinfo"}
    return [Path(place) for place in places]


LIBRARIES = _libraries()


def judge(case: Case, said: dict[str, Any]) -> str:
    """`refused` or `harmless` as the case expects, else `unclear`."""
    if not case.names:
        return "harmless" if said["kind"] == "opened" else "unclear"
    named = all(name in said["message"] for name in case.names)
    return "refused" if said["kind"] == "refused" and named else "unclear"


def main() -> None:
    """Prove and report."""
    if "--inside" in sys.argv:
        return trace_me(Path(sys.argv[sys.argv.index("--inside") + 1]), json.load(sys.stdin))
    args = arguments(__doc__ or "", len(CASES), "hostile folders, recipes and data files")
    if shutil.which("strace") is None:
        sys.exit("strace is not installed, and nothing else here sees what a process opens: apt-get install strace")
    step = len(CASES) / min(args.n, len(CASES))
    cases = [CASES[int(number * step)] for number in range(min(args.n, len(CASES)))]
    hostile_files.BOMB = BOMB
    with tempfile.TemporaryDirectory() as name:
        work = Path(name).resolve()
        said, parts = trace(work, lay_out(work, cases))
        places = [work / str(number) / "it" for number in range(len(parts))]
        usual = usual_reading(parts[: len(BENIGN)], places)
        del parts[: len(BENIGN)], places[: len(BENIGN)], said[: len(BENIGN)]
        counts: dict[str, int] = {"refused": 0, "harmless": 0, "unclear": 0}
        seen: list[str] = []
        for number, case in enumerate(cases):
            found = list(effects(parts[number], places[number], usual))
            seen += found
            verdict = judge(case, said[number])
            counts[verdict] += 1
            if found or verdict == "unclear":
                print(f"{case.name}: {verdict}: {said[number]}", *found[:5], sep="\n  ", file=sys.stderr)
        controls = [any(effects(parts[number], places[number], usual)) for number in range(len(cases), len(parts))]
    figures = {"folders": len(cases), "effects": len(seen), **counts}
    costs = [item for case, item in zip(cases, said, strict=False) if case.kind == "data"]
    figures |= {"files": len(costs), "seconds": max((item["seconds"] for item in costs), default=0)}
    figures |= {"megabytes": max((item["megabytes"] for item in costs), default=0)}
    figures |= {"controls": len(controls), "controls_seen": sum(controls)}
    if args.write:
        page = _page(figures, cases, sorted(map(str, usual)))
        write_page("hostile", "Hostile folders, recipes and data files", "make proof-hostile", page)
    finish(figures)
    return None


def _page(figures: dict[str, Any], cases: list[Case], usual: list[str]) -> str:
    kinds = {
        "model": "model folders",
        "recurrent": "folders of a recurrent model",
        "run": "run folders",
        "recipe": "recipes",
        "data": "spreadsheets and archives",
    }
    rows = "\n".join(f"| {text} | {sum(case.kind == kind for case in cases)} |" for kind, text in kinds.items())
    return (
        f"**{figures['effects']} effects of {figures['folders']} hostile folders, recipes and data files**, each "
        "opened under `strace -f`: no program was started, no file outside the folder opened, none written anywhere, "
        f"no connection made. {figures['refused']} were refused, with their file and key named; {figures['harmless']} "
        "contain something that is never read, such as a pickle next to `model.safetensors` or a macro, and were "
        "opened without it; "
        f"{figures['unclear']} ended in another way.\n\n"
        f"| kind | number |\n| --- | ---: |\n{rows}\n\n"
        f"{figures['controls_seen']} of {figures['controls']} controls, which open a pickle, read and write outside "
        "the folder, and call an address, were detected. Apart from files of the interpreter and the libraries, "
        f"opening any folder, even a benign one, reads {' and '.join(f'`{path}`' for path in usual) or 'nothing'}. "
        f"Of the {figures['files']} spreadsheets and archives, among them bombs of {BOMB >> 20} MB, none took more "
        f"than {figures['seconds']:.1f} s of CPU and {figures['megabytes']:,} MB of memory. "
        "What is promised, and what is not: [Security](../explanation/security.md)."
    )


if __name__ == "__main__":
    main()
