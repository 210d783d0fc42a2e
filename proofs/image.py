"""The image, built by its Dockerfile and used as its own user; the Kubernetes files against schemas.

`buildah` builds it without a daemon. Where no registry is reached, the base image is made by `debootstrap`: Debian with
its Python 3.11, under the name that the Dockerfile gives. What this machine's pip is told, such as another index, is
mounted while packages are installed, and is not in the image. It is run as root.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import kept
from common import ROOT, finish, write_page
from exactly_once import make_run
from manifests import KUBERNETES, check_manifests
from s3_server import free_port

BASE = "docker.io/library/python:3.11-slim"
IMAGE = "localhost/warmstart-proof"
SUITE = "bookworm"
PARTS = ("image", "manifests")
PACKAGES = "ca-certificates,python3,python3-pip,python3-venv"
SERVE_SECONDS = 1800
TEXT = "a good film"


def run(*command: str, **options: Any) -> str:
    """What a program prints; leaves with its last lines where it fails."""
    say(shlex.join(command)[:160])
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode:
        sys.exit(f"{shlex.join(command)}: exit code {done.returncode}\n{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout


def say(text: str) -> None:
    """Tell how far it is."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def base_image(folder: Path, made: Path | None) -> str:
    """The image that the Dockerfile starts from; gives where it comes from."""
    if not subprocess.run(["buildah", "pull", "--policy", "always", BASE], capture_output=True, timeout=300).returncode:
        return "a registry"
    root = made or folder / "base"
    if not made:
        run("debootstrap", "--variant=minbase", f"--include={PACKAGES}", SUITE, str(root))
    # As in python:3.11-slim: pip installs for the one Python there is, and its name is python.
    for marker in root.glob("usr/lib/python3*/EXTERNALLY-MANAGED"):
        marker.unlink()
    python = root / "usr" / "bin" / "python"
    if not python.is_symlink():
        python.symlink_to("python3")
    container = run("buildah", "from", "scratch").strip()
    run("buildah", "add", container, str(root), "/")
    run("buildah", "commit", "--rm", container, BASE)
    run("buildah", "tag", BASE, f"localhost/{BASE.rpartition('/')[2]}")  # how a short name is found without a registry
    return f"`debootstrap {SUITE}`"


def pip_mounts(folder: Path) -> list[str]:
    """Mounts for the build: this machine's pip settings, and the folders and files that they name."""
    listed = run(sys.executable, "-m", "pip", "config", "list")
    settings = dict(re.findall(r"^(?::env:|global)\.([\w-]+)='(.*)'$", listed, re.MULTILINE))
    lines = ["[global]", "retries = 1", *(f"{name} = {value}" for name, value in settings.items())]
    (folder / "pip.conf").write_text("\n".join(lines) + "\n", encoding="utf-8")
    words = [word.removeprefix("file://") for value in settings.values() for word in value.split()]
    places = sorted({_existing(Path(word)) for word in words if word.startswith("/")} - {None})
    mounts = [f"{folder}/pip.conf:/etc/pip.conf:ro", *(f"{place}:{place}:ro" for place in places)]
    return [argument for mount in mounts for argument in ("--volume", mount)]


def _existing(path: Path) -> str | None:
    """What is mounted of a place; the files that an index lists in its `simple` lie beside it."""
    path = path.parent if path.name == "simple" else path
    return str(path) if path.exists() else None


class Container:
    """A container of the image, used as its own user."""

    def __init__(self, runs: Path) -> None:
        self.name = run("buildah", "from", "--pull-never", IMAGE).strip()
        self.options = ["--isolation", "chroot", "--volume", f"{runs}:/runs:ro"]

    def command(self, *command: str) -> list[str]:
        """A command in the container."""
        return ["buildah", "run", *self.options, self.name, "--", *command]

    def run(self, *command: str) -> str:
        """What a command in the container prints."""
        return run(*self.command(*command))

    def remove(self) -> None:
        """Remove the container; the image stays."""
        run("buildah", "rm", self.name)


def smoke(container: Container) -> dict[str, Any]:
    """Use the image: which user it is, its version, what doctor says, a prediction, and one by HTTP."""
    uid = container.run("id", "-u").strip()
    version = container.run("warmstart", "--version").strip()
    doctor = json.loads(container.run("warmstart", "doctor", "--json"))
    predicted = container.run("warmstart", "predict", "/runs/run", TEXT, "--json")
    return {
        "uid": int(uid),
        "version": version,
        "doctor": sorted(doctor),
        "predicted": json.loads(predicted.splitlines()[0])["label"],
        "served": _served(container),
    }


def _served(container: Container) -> str:
    """The label that the image's server gives."""
    port = free_port()
    server = subprocess.Popen(container.command("warmstart", "serve", "/runs/run", "--port", str(port)))
    try:
        deadline = time.monotonic() + SERVE_SECONDS
        while not _ready(port):
            assert server.poll() is None, "the server ended"
            assert time.monotonic() < deadline, "the server is not ready"
            time.sleep(2)
        body = json.dumps({"texts": [TEXT]}).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/v1/predict", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return str(json.load(answer)["answers"][0]["label"])
    finally:
        server.terminate()
        server.wait()


def _ready(port: int) -> bool:
    try:
        return urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5).status == 200
    except OSError:
        return False


def build(folder: Path, made: Path | None) -> dict[str, Any]:
    """Build the image and use it."""
    began = time.monotonic()
    base = base_image(folder, made)
    mounts = pip_mounts(folder)
    run("buildah", "build", "--isolation", "chroot", "--pull-never", *mounts, "--tag", IMAGE, str(ROOT))
    seconds = round(time.monotonic() - began)
    size = json.loads(run("buildah", "images", "--json", IMAGE))[0]["size"]
    make_run(folder)
    for path in (folder, *folder.joinpath("run").rglob("*")):
        path.chmod(path.stat().st_mode | 0o555 if path.is_dir() else 0o644)
    container = Container(folder)
    try:
        used = smoke(container)
    finally:
        container.remove()
    return {"base": base, "builder": run("buildah", "--version").split()[2], "seconds": seconds, "size": size, **used}


def main() -> None:
    """Prove and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", type=Path, help="a folder that debootstrap made before")
    parser.add_argument("--parts", default=",".join(PARTS), help="which of " + ", ".join(PARTS))
    parser.add_argument("--write", action="store_true", help="write the results page in docs/results/")
    args = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory(prefix="image-") as name:
        work = {"image": lambda: build(Path(name), args.base), "manifests": check_manifests}
        parts = kept.by_parts("image", {part: work[part] for part in args.parts.split(",")}, args.write)
    if args.write and set(parts) == set(PARTS):
        write_page("image", "The image and the Kubernetes files", "make proof-image", _page(parts))
    finish(kept.flat(parts))


def _page(parts: dict[str, dict[str, Any]]) -> str:
    image, manifests = parts["image"], parts["manifests"]
    wrong = "".join(f"- {error}\n" for error in manifests["wrong"])
    return (
        f"The image **builds from its Dockerfile and works as user {image['uid']}**, and the "
        f"{manifests['documents']} Kubernetes documents have {len(manifests['wrong']) or 'no'} fields that their "
        "schemas do not allow.\n\n"
        f"`buildah` {image['builder']} built it in {image['seconds']:,} s, without a daemon. The base image came from: "
        f"{image['base']}. The image takes {image['size']}. As its own user it ran `warmstart --version` "
        f"({image['version']}), `warmstart doctor`, `warmstart predict` with a tiny model (`{image['predicted']}`) and "
        f"`warmstart serve`, which gave the same text `{image['served']}` by HTTP.\n\n"
        f"Deployments, Services and network policies were validated against the schemas of Kubernetes {KUBERNETES}, "
        f"and so were the {manifests['pod_templates']} pod templates of the RayJob. KubeRay's own schema was not to be "
        "had: the fields around the templates were checked by name and type against a list kept by hand, from the "
        "types of KubeRay's API (`authOptions` from its guide). "
        "No manifest was applied to a cluster, and there is no RayService: `serve.yaml` is a Deployment."
        + (f"\n\n{wrong}" if wrong else "")
    )


if __name__ == "__main__":
    main()
