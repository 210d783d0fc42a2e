"""warmstart serve: models over HTTP."""

from __future__ import annotations

import ipaddress
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from warmstart.cli import options
from warmstart.errors import RecipeError

if TYPE_CHECKING:
    import socket

    from warmstart.deploy.serve.ray_backend import ReplicaSettings
    from warmstart.deploy.serve.served_models import ServedModel

TOKEN = "WARMSTART_SERVE_TOKEN"
SHORTEST = 16


STORE = 200_000_000
"""Bytes of Ray's object store: it holds texts in transit, which the queue bounds."""
DEFAULT_ENGINE = ("torch", "fp32")
WAIT = "about 10 s of CPU time here, 8 for Ray, and 9 for each replica, most of it imports"
"""What the time until the server is ready is for (docs/howto/serve.md)."""

Runs = Annotated[
    list[str],
    typer.Argument(help="The runs, as RUN or NAME=RUN; the default name is that of the folder.", metavar="RUN"),
]
Host = Annotated[
    str, typer.Option("--host", help="The address to listen on; one that others can reach requires a token.")
]
Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="The port; 0 for any free port.")]
TokenFile = Annotated[
    str | None,
    typer.Option(
        "--token-file",
        help=f"A file with the token that clients must send; or set {TOKEN} in the environment.",
        metavar="FILE",
    ),
]
MaxReplicas = Annotated[
    int | None, typer.Option("--max-replicas", min=1, help="Scale up to this many replicas under load.")
]
BatchSize = Annotated[int, typer.Option("--batch-size", min=1, help="The maximum number of texts per batch.")]
BatchWait = Annotated[
    float,
    typer.Option("--batch-wait-ms", min=0, help="How long a text waits for others to fill its batch, in milliseconds."),
]
MaxQueue = Annotated[
    int,
    typer.Option(
        "--max-queue", min=1, help="The maximum number of texts that wait for a model; more are refused (429)."
    ),
]
Timeout = Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds after which a request times out (503).")]
Ray = Annotated[
    str | None,
    typer.Option("--ray", help="A Ray cluster to run the replicas on. Default: this machine.", metavar="ADDRESS"),
]
Explain = Annotated[
    bool,
    typer.Option("--explain", help="Also give the words behind an answer, at /v1/explain, one short text a request."),
]


def command(
    runs: Runs,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    token_file: TokenFile = None,
    replicas: Annotated[int, typer.Option("--replicas", min=1, help="Replicas of each model.")] = 1,
    max_replicas: MaxReplicas = None,
    batch_size: BatchSize = 64,
    batch_wait_ms: BatchWait = 5.0,
    max_queue: MaxQueue = 256,
    timeout: Timeout = 60.0,
    ray: Ray = None,
    explain: Explain = False,
    engine: options.Engine = "torch",
    precision: options.Precision = "fp32",
    json: options.Json = False,
) -> None:
    """Serve models over HTTP."""
    token = _token(token_file)
    if token is None and not _loopback(host):
        raise RecipeError(
            f"--host {host}: others can reach this address, so a token is required. Type `openssl rand -hex 32 > "
            "token`, and give --token-file token"
        )
    if max_replicas is not None and max_replicas < replicas:
        raise RecipeError(
            f"--max-replicas {max_replicas}: found fewer than --replicas {replicas}, expected as many or more"
        )
    if explain and engine != DEFAULT_ENGINE[0]:
        raise RecipeError(
            f"--explain: found --engine {engine}, but predictions for explanations run beside others, which only "
            "--engine torch allows; leave one of them out"
        )
    from warmstart.deploy import cluster
    from warmstart.deploy.serve.named_runs import named_runs
    from warmstart.deploy.serve.ray_backend import ReplicaSettings

    if (engine, precision) != DEFAULT_ENGINE:  # to check another takes importing it, and with it PyTorch
        from warmstart.inference.engine_selection import check_settled

        check_settled(engine, precision)
    folders = named_runs(runs)
    cluster.import_ray(own=ray is None)
    from warmstart.deploy.serve.connections import listen

    replica_settings = ReplicaSettings(
        replicas, max_replicas or replicas, batch_size, batch_wait_ms / 1000, max_queue, precision, engine
    )
    with listen(host, port) as sock:
        serving = {"max_queue": max_queue, "timeout": timeout, "token": token, "explain": explain}
        _serve(folders, sock, replica_settings, ray, serving, json)


def _serve(
    folders: dict[str, Path],
    sock: socket.socket,
    settings: ReplicaSettings,
    ray: str | None,
    serving: dict[str, Any],
    json: bool,
) -> None:
    """Open models and start Ray side by side, since each takes seconds, and serve until a signal comes."""
    from warmstart.deploy import cluster
    from warmstart.deploy.serve.ray_backend import RayBackend

    host, port = sock.getsockname()[:2]
    url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    started = time.monotonic()
    if not json:
        _tell(f"Starting Ray and the replicas: {WAIT}" if ray is None else f"Starting replicas on {ray}")
    with ThreadPoolExecutor(1) as background:
        opening = background.submit(_open_models, folders)
        with cluster.connected(ray or cluster.LOCAL, cpus=1, store=STORE):
            backend = RayBackend(settings, len(folders), own=ray is None)
            models = opening.result()
            from warmstart.deploy.serve.app import ServingApp, ServingSettings
            from warmstart.deploy.serve.server import run

            app = ServingApp(models, backend, ServingSettings(**serving))
            try:
                run(app, backend, sock, lambda: _tell_ready(url, list(models), time.monotonic() - started, json))
            finally:
                backend.stop()


def _open_models(folders: dict[str, Path]) -> dict[str, ServedModel]:
    from warmstart.deploy.serve.served_models import open_models

    return open_models(folders)


def _token(file: str | None) -> str | None:
    try:
        content = Path(file).read_text(encoding="ascii") if file else os.environ.get(TOKEN)
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(f"--token-file {file}: {error}; expected a file with one line of ASCII") from None
    if content is None:
        return None
    token = content.strip()
    if len(token) < SHORTEST or not token.isprintable() or " " in token:
        where = f"--token-file {file}" if file else TOKEN
        raise RecipeError(
            f"{where}: expected {SHORTEST} characters or more without spaces; `openssl rand -hex 32` gives one"
        )
    return token


def _loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _tell_ready(url: str, names: list[str], seconds: float, json: bool) -> None:
    from warmstart.cli import screen

    if json:
        screen.print_json({"url": url, "models": names})
    else:
        _tell(f"{', '.join(names)} at {url} after {seconds:.0f} s (open it in a browser to try the model)")


def _tell(line: str) -> None:
    from warmstart.cli import screen

    screen.errors.print(line, markup=False, highlight=False, soft_wrap=True)
