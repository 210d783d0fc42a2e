"""An S3-compatible server for proofs: `moto_server`, which lives in an environment of its own.

MOTO_SERVER names the program; by default it is installed, once, below the cache of this machine's user.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

LOOPBACK = "127.0.0.1"
VENV = Path.home() / ".cache" / "warmstart-proofs" / "moto"


def moto_server() -> str:
    """The program, installed where it is not there yet; leaves, saying why, where that cannot be done."""
    if named := os.environ.get("MOTO_SERVER"):
        return named
    program = VENV / "bin" / "moto_server"
    if not program.is_file():
        try:
            subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True, capture_output=True)
            install = [str(VENV / "bin" / "pip"), "install", "-q", "moto[server]"]
            subprocess.run(install, check=True, capture_output=True, timeout=600)
        except (subprocess.SubprocessError, OSError) as error:
            sys.exit(f"moto[server] cannot be installed ({error}); set MOTO_SERVER, or leave this part out by --parts")
    return str(program)


class S3Server:
    """A server whose objects are in its memory.

    Args:
        host: The address at which it listens.
        enter: What comes before its command, to start it on another host.
    """

    def __init__(self, folder: Path, host: str = LOOPBACK, enter: Sequence[str] = ()) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.host, self.port = host, free_port()
        self.log = (folder / "moto.log").open("ab")
        self.process = subprocess.Popen(
            [*enter, moto_server(), "-H", host, "-p", str(self.port)], stdout=self.log, stderr=self.log
        )

    def __enter__(self) -> Self:
        wait_for(self.port, self.host)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the server; its objects are gone."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        self.log.close()

    def system(self) -> Any:
        """The file system of a client."""
        from pyarrow import fs

        return fs.S3FileSystem(
            access_key="KEY",
            secret_key="secret",
            endpoint_override=f"{self.host}:{self.port}",
            scheme="http",
            region="us-east-1",
            allow_bucket_creation=True,
        )

    def put(self, bucket: str, objects: Mapping[str, bytes]) -> None:
        """Make a bucket with objects."""
        system = self.system()
        system.create_dir(bucket)
        for name, data in objects.items():
            with system.open_output_stream(f"{bucket}/{name}", compression=None) as file:
                file.write(data)

    def objects(self, bucket: str, below: str) -> Iterator[tuple[str, bytes]]:
        """The objects below a name."""
        from pyarrow import fs

        system = self.system()
        selector = fs.FileSelector(f"{bucket}/{below}".rstrip("/"), recursive=True)
        for info in system.get_file_info(selector):
            if info.type == fs.FileType.File:
                with system.open_input_stream(info.path) as file:
                    yield info.path, file.read()

    def names(self, bucket: str, below: str) -> list[str]:
        """The records of finished shards below a name."""
        from pyarrow import fs

        selector = fs.FileSelector(f"{bucket}/{below}", recursive=True, allow_not_found=True)
        return [info.path for info in self.system().get_file_info(selector) if "/records/" in info.path]


class Forwarder:
    """A port in front of a server, in a process of its own: when it is killed, all connections are cut and refused.

    Args:
        target: The port of the server.
        host: The address at which both listen.
        enter: What comes before its command, to start it on another host; it must not fork.
    """

    def __init__(self, target: int, host: str = LOOPBACK, enter: Sequence[str] = ()) -> None:
        self.target, self.host, self.enter = target, host, enter
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Listen, on the same port as before."""
        command = [*self.enter, sys.executable, __file__, self.host, str(self.port), str(self.target)]
        self.process = subprocess.Popen(command)
        wait_for(self.port, self.host)

    def kill(self) -> None:
        """SIGKILL."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()


def free_port() -> int:
    """A port where nobody listens."""
    with socket.socket() as sock:
        sock.bind((LOOPBACK, 0))
        return int(sock.getsockname()[1])


def wait_for(port: int, host: str = LOOPBACK) -> None:
    """Wait until somebody listens."""
    deadline = time.monotonic() + 60
    while True:
        with socket.socket() as sock:
            if not sock.connect_ex((host, port)):
                return
        assert time.monotonic() < deadline, f"nobody listens at {host}:{port}"
        time.sleep(0.1)


async def forward(host: str, port: int, target: int) -> None:
    """Pass on what comes, both ways."""

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection(host, target)
        await asyncio.gather(pump(reader, there[1]), pump(there[0], writer))

    server = await asyncio.start_server(serve, host, port)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(forward(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
