"""A Python process with the heavy libraries already imported, that forks to run what it is sent.

Importing torch and transformers takes seconds, and a page of the docs starts `warmstart` several times. So tests of
commands use `bin/warmstart` and `bin/python` of `start`: each hands its arguments, folder, environment and standard
streams to this process, which forks, and leaves with the exit code of the fork. What runs is the code of
`venv/bin/warmstart`, or a script; only the imports are shared. Processes that those start are ordinary ones.
"""

import contextlib
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

CLIENT = """\
#!{python} -SE
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as sock:
    sock.connect({address!r})
    request = json.dumps([{name!r}, sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(sock, [len(request).to_bytes(8, "big")], [0, 1, 2])
    sock.sendall(request)
    sys.exit(int(sock.recv(16) or b"70"))
"""

SHORT = "WARMSTART_TESTS_SHORT"
"""A variable that makes trainings short, for a command that need only work, not give a good model."""


@contextlib.contextmanager
def start(folder: Path, python: str | Path = sys.executable):
    """Start the process and give the folder to put into the PATH; the process ends with the block.

    Args:
        python: The interpreter of the process, such as that of another venv.
    """
    bin_folder = folder / "bin"
    bin_folder.mkdir(parents=True)
    address = str(folder / "socket")
    for name in ("warmstart", "python"):
        path = bin_folder / name
        path.write_text(CLIENT.format(python=sys.executable, address=address, name=name))
        path.chmod(0o755)
    process = subprocess.Popen([str(python), __file__, address])
    try:
        while not Path(address).exists():
            assert process.poll() is None, "the process that runs the docs' commands did not start"
            time.sleep(0.05)
        yield bin_folder
    finally:
        process.terminate()
        process.wait()


def serve(address: str) -> None:
    """Answer requests, each in a fork of its own."""
    import datasets  # noqa: F401
    import sklearn.metrics  # noqa: F401
    import transformers.trainer  # noqa: F401

    # What is imported stays: no fork need look through it for garbage, and copy its memory by doing so.
    gc.freeze()
    with socket.socket(socket.AF_UNIX) as server:
        # Bound under another name first: the file's appearance says that requests are answered.
        server.bind(f"{address}.new")
        server.listen()
        Path(f"{address}.new").rename(address)
        # Who answers a request is a fork of its own, so that several commands can run side by side. None is waited for.
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while True:
            sock, _ = server.accept()
            with sock:
                if not os.fork():
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    server.close()
                    _answer(sock)


def _answer(sock: socket.socket) -> None:
    """In a fork: run what one request asks for, give its exit code, and leave."""
    size, streams, _, _ = socket.recv_fds(sock, 8, 3)
    request = b""
    while len(request) < int.from_bytes(size, "big"):
        request += sock.recv(1 << 16)
    child = os.fork()
    if not child:
        sock.close()
        _run(streams, *json.loads(request))
    for stream in streams:
        os.close(stream)
    ended = os.pidfd_open(child)
    # The one who asked may go first, where a test gave up on it: the command goes with it.
    if ended not in select.select([ended, sock], [], [])[0]:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(BrokenPipeError):
        sock.sendall(str(os.waitstatus_to_exitcode(status) % 256).encode())
    os._exit(0)


def _train_briefly() -> None:
    """Let a training whose length is not set end after three epochs, however few steps these are."""
    from warmstart.training import steps

    steps.count_epochs = lambda settings, batches: settings.epochs or steps.DEFAULT_EPOCHS


def _run(streams: list[int], name: str, arguments: list[str], folder: str, environment: dict[str, str]) -> None:
    """In the fork: become the command, and leave."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    code = 0
    try:
        if SHORT in environment:
            _train_briefly()
        if name == "warmstart":
            from warmstart.cli.main import main

            sys.argv = [name, *arguments]
            main()
        else:
            sys.argv = arguments
            more = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
            sys.path[:0] = [str((Path(folder) / arguments[0]).parent), *more]
            runpy.run_path(arguments[0], run_name="__main__")
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except BaseException:
        import traceback

        traceback.print_exc()
        code = 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve(sys.argv[1])
