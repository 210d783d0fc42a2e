"""A marked secret in every place that one can be given, in commands that succeed and fail: nobody reads it again.

Each place gets a mark of its own: the user and the query of a URI, the environment, files of credentials, an option of
a recipe, the headers and the query of a request. Then all that the commands printed and wrote is searched for the
marks: outputs, caches, logs, and the session logs of Ray. As a control, planted marks must be found.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from common import ROOT, finish, write_page

sys.path.insert(0, str(ROOT / "tests"))

PARTS = ("commands", "labelling", "server")
DEAD = "endpoint_override=127.0.0.1:9&scheme=http&region=us-east-1"
VARIABLES = (
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AZURE_STORAGE_KEY",
    "AZURE_CLIENT_SECRET",
    "FSSPEC_S3_SECRET",
    "GITHUB_TOKEN",
    "HF_TOKEN",
    "WANDB_API_KEY",
    "MLFLOW_TRACKING_PASSWORD",
)
HEADERS = ("Authorization", "Cookie", "X-Api-Key", "Proxy-Authorization", "X-Amz-Security-Token")


@dataclass
class Marks:
    """The secrets, each known by the place that it was put into."""

    places: dict[str, str] = field(default_factory=dict)

    def make(self, place: str) -> str:
        """A new secret."""
        return self.places.setdefault(place, f"MARK{len(self.places):03d}secret0123456789abcdef")

    def found_in(self, data: bytes) -> set[str]:
        """The places whose secrets are in these bytes, as they are or in the form of a header."""
        forms = {
            place: (mark.encode(), base64.b64encode(f"user:{mark}".encode())) for place, mark in self.places.items()
        }
        return {place for place, texts in forms.items() if any(text in data for text in texts)}


@dataclass
class Proof:
    """Commands, what they print, and a folder with all that they write."""

    base: Path
    forks: bool = False
    """Whether a command is a fork of this process, which has loaded what it needs, instead of a process of its own."""
    marks: Marks = field(default_factory=Marks)
    commands: int = 0
    failed: int = 0
    leaks: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.given, self.written, self.ray = (self.base / name for name in ("given", "w", "r"))
        for folder in (self.given, self.written, self.ray):
            folder.mkdir()

    def environment(self) -> dict[str, str]:
        """An environment with a secret in every variable and file that libraries read one from."""
        profile, google, home = self.given / "credentials", self.given / "google.json", self.written / "home"
        (home / "hf").mkdir(parents=True, exist_ok=True)
        profile.write_text(
            f"[marked]\naws_access_key_id = KEY\naws_secret_access_key = {self.marks.make('AWS profile')}\n"
        )
        google.write_text(json.dumps({"type": "service_account", "private_key": self.marks.make("Google key file")}))
        token = self.given / "hf-token"
        token.write_text(self.marks.make("Hugging Face token file"))
        proxy = f"http://user:{self.marks.make('proxy')}@127.0.0.1:9"
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "RAY_"))},
            **{name: self.marks.make(name) for name in VARIABLES},
            "AWS_ACCESS_KEY_ID": "KEY",
            "AWS_SHARED_CREDENTIALS_FILE": str(profile),
            "GOOGLE_APPLICATION_CREDENTIALS": str(google),
            "HF_TOKEN_PATH": str(token),
            "HF_HUB_OFFLINE": "1",
            "HTTPS_PROXY": proxy,
            "HOME": str(home),
            "HF_HOME": str(home / "hf"),
            "OMP_NUM_THREADS": "1",
            "RAY_TMPDIR": str(self.ray),
            "TMPDIR": str(self.written),
            "WARMSTART_CACHE": str(self.written / "cache"),
        }

    def run(self, *arguments: str, code: int | None = None, **more: str) -> None:
        """A command; what it prints is searched at once."""
        command = [sys.executable, *(arguments if arguments[0] == "-c" else ("-m", "warmstart.cli.main", *arguments))]
        environment = {**self.environment(), **more}
        if self.forks:
            done = forked(command[1:], environment, self.written)
        else:
            done = subprocess.run(command, env=environment, capture_output=True, cwd=self.written)
        self.commands += 1
        self.failed += done.returncode != 0
        told = " ".join(arguments[:2])
        expected = done.returncode not in (0, 2) if code is None else done.returncode == code
        assert expected, (
            told,
            done.returncode,
            done.stderr.decode()[-2000:],
        )
        self.search(done.stdout + done.stderr, f"the output of {told}")

    def search(self, data: bytes, where: str) -> None:
        """Note every mark that is in these bytes."""
        self.leaks += [f"{place}: in {where}" for place in sorted(self.marks.found_in(data))]

    def search_files(self) -> None:
        """Look into everything that was written."""
        for folder in (self.written, self.ray):
            for path in sorted(folder.rglob("*")):
                name = str(path.relative_to(self.base))
                self.search(name.encode(), "the name of a file or folder")
                if path.is_file() and not path.is_symlink():
                    self.search(b"\n".join(contents(path)), name)

    def control(self) -> int:
        """How many of two planted leaks, in a text and in a compressed table, the search finds; none is kept."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        before, self.leaks = self.leaks, []
        mark = next(iter(self.marks.places.values()))
        text, table = self.written / "planted.log", self.ray / "planted.parquet"
        text.write_text(f"failed with {mark}\n")
        pq.write_table(pa.table({"error": [f"x {mark}"] * 100}), table, compression="zstd")
        self.search_files()
        found = [leak for leak in self.leaks if "planted" in leak]
        self.leaks = before
        text.unlink()
        table.unlink()
        return len(found)


def forked(command: list[str], environment: dict[str, str], folder: Path) -> subprocess.CompletedProcess[bytes]:
    """A Python command in a fork of this process."""
    import runpy

    out, err = (folder / name for name in (".out", ".err"))
    child = os.fork()
    if not child:
        code: Any = 70
        try:
            for number, path in ((1, out), (2, err)):
                os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
            os.environ.clear()
            os.environ.update(environment)
            os.chdir(folder)
            sys.argv = ["warmstart", *command[2:]]
            if command[0] == "-c":
                exec(command[1])
            else:
                runpy.run_module(command[1], run_name="__main__", alter_sys=True)
            code = 0
        except SystemExit as left:
            code = left.code or 0
        finally:
            sys.stdout.flush()
            os._exit(code if isinstance(code, int) else 1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return subprocess.CompletedProcess(command, code, out.read_bytes(), err.read_bytes())


def contents(path: Path) -> Iterator[bytes]:
    """The bytes of a file, and what is in it if it is a table."""
    yield path.read_bytes()
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        yield str(pq.read_table(path).to_pylist()).encode()


def uris(marks: Marks) -> dict[str, str]:
    """Places in an object store that do not answer, with a secret in each part of a URI."""
    return {
        "user": f"s3://KEY:{marks.make('URI user')}@bucket/in?{DEAD}",
        "query": f"s3://bucket/in?{DEAD}&secret_key={marks.make('URI query')}",
        "signature": f"https://host.invalid/in.csv?X-Amz-Signature={marks.make('URI signature')}&x=1",
        "sas": f"abfs://box@account.dfs.core.windows.net/in?sig={marks.make('SAS signature')}",
        "token": f"https://{marks.make('URI token')}@host.invalid/in.csv",
    }


def commands(proof: Proof, run: Path, few: bool) -> None:
    """Every verb that takes a file, a model or a folder, with secrets in their URIs and in the environment."""
    train = run.parent / "train.csv"
    recipe = proof.given / "recipe.yaml"
    recipe.write_text(f"model: x\ndata: {{train: '{uris(proof.marks)['user']}'}}\n")
    option = proof.given / "option.yaml"
    secret = proof.marks.make("trainer option")
    option.write_text(f"model: {run}/model\ndata: {{train: {train}}}\ntrainer: {{hub_token: {secret}}}\n")
    proof.run("fit", str(option), "--out", str(proof.written / "option"))
    proof.run("fit", str(recipe), "--out", str(proof.written / "fit"), WARMSTART_TRACEBACK="1")
    boom = f"import warmstart.cli.main as m, sys; m.app = lambda: [][ '{uris(proof.marks)['user']}' ]; m.main()"
    proof.run("-c", boom, code=70, WARMSTART_TRACEBACK="1")
    for uri in list(uris(proof.marks).values())[: 1 if few else None]:
        proof.run("predict", str(run), "--file", uri, "--out", str(proof.written / "out.csv"))
        proof.run("verify", uri, "--json")
        if few:
            continue
        proof.run("check", uri, "--json")
        proof.run("evaluate", str(run), uri)
        proof.run("fit", str(train), "--model", uri, "--out", str(proof.written / "f"))
        proof.run("features", str(train), "--model", uri, "--out", str(proof.written / "v.npy"))
        proof.run("show", uri, WARMSTART_TRACEBACK="1")
        proof.run("serve", uri)
        proof.run("export", str(run), "--out", uri)
    if not few:
        proof.run("doctor", "--json", code=0)
        proof.run("plan", str(recipe))
        proof.run(
            "fit", str(train), "--model", f"{run}/model", "--out", str(proof.written / "run"),
            "--set", "training.epochs=1", code=0,
        )  # fmt: skip
        proof.run("report", str(proof.written / "run"), code=0)
        proof.run("show", str(proof.written / "run"), "--json", code=0)


def labelling(proof: Proof, run: Path, few: bool) -> None:
    """A corpus labelled with Ray into an object store, and outages of it; few: without one that answers."""
    from s3_server import S3Server

    out = str(proof.written / "labelled")
    dead = uris(proof.marks)["user"]
    proof.run("predict", str(run), "--ray", "local", "--file", dead, "--out", out, "--retry-timeout", "1", code=74)
    if few:
        return
    with S3Server(proof.base / "s3") as server:
        server.put("bucket", {f"in/{n}.jsonl": b'{"text": "good film"}\n{"text": 7}\n' * 30 for n in range(2)})
        query = f"endpoint_override=127.0.0.1:{server.port}&scheme=http&region=us-east-1"
        secret = proof.marks.make("URI user")
        place = f"s3://KEY:{secret}@bucket/"
        inputs, labelled = f"{place}in?{query}", f"{place}out?{query}"
        label = ("predict", str(run), "--ray", "local", "--workers", "1", "--file", inputs)
        proof.run(*label, "--out", labelled, code=0)
        proof.run(*label, "--out", labelled, "--json", code=0)
        proof.run("verify", labelled, "--file", inputs, code=0)
        proof.run(*label, "--out", f"{place}out?{query}&wrong=1", code=3)
        proof.run(*label, "--out", out, "--json", AWS_PROFILE="marked", code=0)
        for name, data in server.objects("bucket", "out/"):
            proof.search(data, f"s3 {name}")
        server.stop()
        proof.run(*label, "--out", labelled, "--retry-timeout", "2", code=74)


def server(proof: Proof, run: Path, few: bool) -> None:
    """A server with a token; requests with the right one, wrong ones, and secrets in all other places of a request."""
    token = proof.given / "token"
    token.write_text(proof.marks.make("server token") + "\n")
    command = [sys.executable, "-m", "warmstart.cli.main", "serve", f"m={run}", "--port", "0", "--json"]
    log = (proof.written / "server.log").open("wb")
    process = subprocess.Popen(
        [*command, "--token-file", str(token)], env=proof.environment(), stdout=subprocess.PIPE, stderr=log
    )
    proof.commands += 1
    assert process.stdout is not None
    try:
        first = process.stdout.readline()
        url = json.loads(first)["url"]
        right = {"Authorization": f"Bearer {proof.marks.make('server token')}"}
        paths = ("/v1/models", "/metrics", "/healthz", f"/v1/models?token={proof.marks.make('request query')}", "/x")
        for path in paths:
            proof.search(_asked(url + path, right), path)
        for name in HEADERS:
            wrong = {name: f"Bearer {proof.marks.make(f'header {name}')}"}
            proof.search(_asked(url + "/v1/models", wrong), f"the answer to a wrong {name}")
            proof.search(_asked(url + "/v1/models/m/predict", {**right, **wrong}, b"{"), f"the answer to {name}")
        basic = base64.b64encode(f"user:{proof.marks.make('basic')}".encode()).decode()
        proof.search(_asked(url + "/v1/models", {"Authorization": f"Basic {basic}"}), "the answer to basic")
        process.send_signal(signal.SIGTERM)
        rest, _ = process.communicate(timeout=120)
        proof.search(first + rest, "the output of serve")
        assert process.returncode == 0
    finally:
        process.kill()
        log.close()


def _asked(url: str, headers: dict[str, str], body: bytes | None = None) -> bytes:
    """An answer, headers and body."""
    try:
        with urlopen(Request(url, body, headers), timeout=60) as reply:
            return bytes(reply.headers) + bytes(reply.read())
    except HTTPError as error:
        return bytes(error.headers) + error.read()


def main() -> None:
    """Prove and report."""
    from exactly_once import make_run

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=100, help="below 100, a few commands only")
    parser.add_argument("--parts", default=",".join(PARTS), help="which of " + ", ".join(PARTS))
    parser.add_argument("--write", action="store_true", help="write the results page in docs/results/")
    args = parser.parse_args()
    # Ray's sockets need a short path.
    with tempfile.TemporaryDirectory(prefix="s-") as name:
        (Path(name) / "model").mkdir()
        run = make_run(Path(name) / "model")
        proof = Proof(Path(name))
        for part in args.parts.split(","):
            proof.forks = part == "commands" or args.n < 100
            globals()[part](proof, run, args.n < 100)
        proof.search_files()
        for leak in proof.leaks:
            print(leak, file=sys.stderr)
        figures: dict[str, Any] = {
            "places": len(proof.marks.places),
            "commands": proof.commands,
            "failed_commands": proof.failed,
            "leaks": len(proof.leaks),
            "planted_found": proof.control(),
        }
    if args.write:
        write_page("secrets", "No secret is written or printed", "make proof-secrets", _page(figures, proof))
    finish(figures)


def _page(figures: dict[str, Any], proof: Proof) -> str:
    places = ", ".join(sorted(proof.marks.places))
    return (
        f"**{figures['leaks']} secrets** of {figures['places']} kinds were printed or written by {figures['commands']} "
        "commands.\n\n"
        f"A marked secret is put into each of {figures['places']} places ({places}). With them, "
        f"{figures['commands']} commands are run, {figures['failed_commands']} of which fail on purpose, some with "
        "`WARMSTART_TRACEBACK`: training, predicting, labelling with Ray into an object store that answers and one "
        "that does not, verifying, serving with a token.\n\n"
        f"**{figures['leaks']} marks** are found in all that they printed, in all files that they wrote (tables are "
        "decoded), in the objects of the store, in the responses of the server, and in Ray's session logs. As a "
        f"control, {figures['planted_found']} of 2 planted marks are found."
    )


if __name__ == "__main__":
    main()
