"""warmstart serve: models over HTTP."""

from __future__ import annotations

import ipaddress
import os
from pathlib import Path
from typing import Annotated

import typer

from warmstart.cli import options
from warmstart.errors import RecipeError

TOKEN = "WARMSTART_SERVE_TOKEN"
SHORTEST = 16


STORE = 200_000_000
"""Bytes of Ray's object store: it holds texts in transit, which the queue bounds."""

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
    from warmstart.deploy import cluster
    from warmstart.inference.engine_selection import check_settled

    check_settled(engine, precision)
    cluster.import_ray(own=ray is None)
    from warmstart.deploy.serve.app import ServingApp, ServingSettings
    from warmstart.deploy.serve.ray_backend import RayBackend, ReplicaSettings
    from warmstart.deploy.serve.served_models import open_models
    from warmstart.deploy.serve.server import listen, run

    models = open_models(runs)
    sock = listen(host, port)
    address = f"[{host}]" if ":" in host else host
    url = f"http://{address}:{sock.getsockname()[1]}"
    settings = ReplicaSettings(
        replicas, max_replicas or replicas, batch_size, batch_wait_ms / 1000, max_queue, precision, engine
    )
    with sock, cluster.connected(ray or cluster.LOCAL, cpus=1, store=STORE):
        backend = RayBackend(settings, len(models), own=ray is None)
        app = ServingApp(models, backend, ServingSettings(max_queue=max_queue, timeout=timeout, token=token))
        try:
            run(app, backend, sock, lambda: _tell(url, list(models), json))
        finally:
            backend.stop()


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


def _tell(url: str, names: list[str], json: bool) -> None:
    from warmstart.cli import screen

    if json:
        screen.print_json({"url": url, "models": names})
    else:
        screen.errors.print(
            f"{', '.join(names)} at {url} (open it in a browser to try the model)", markup=False, highlight=False
        )
