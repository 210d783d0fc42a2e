"""A package in a venv of its own adds one part of each kind: every verb knows them, and no file of ours names them.

The package is `tests/packages/warmstart-extras`, and the commands are those of the page that shows it.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file

import warm
import warmstart
from processes import finish
from test_docs import Block, blocks
from test_lazy import HEAVY
from tiny import tiny_config, tiny_tokenizer

TESTS = Path(__file__).parent
PACKAGE = TESTS / "packages" / "warmstart-extras"
PAGE = TESTS.parent / "docs" / "howto" / "your-own-task.md"
MODULE = "warmstart_extras"
ENCODER = "facebook/data2vec-text-base"
"""The encoder of the page; a tiny one has its name here."""


def entry_points() -> dict[str, str]:
    """The name of each part that the package adds, by the kind in the singular."""
    groups = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]["entry-points"]
    return {group.removeprefix("warmstart.").removesuffix("s"): name for group, (name,) in groups.items()}


PARTS = entry_points()


@pytest.fixture(scope="module")
def venv_python(tmp_path_factory):
    """The Python of a venv with the package in it, and beside it all that is installed for the tests."""
    folder = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    [site_packages] = folder.glob("lib/*/site-packages")
    # `addsitedir`, not the path alone: an editable install of warmstart is a .pth file there.
    (site_packages / "tests.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    source = shutil.copytree(PACKAGE, folder / "source")  # a build writes into the folder that it is made from
    pip = [python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, source], check=True, env=os.environ | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"})
    return python


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder in which the commands of the page run."""
    folder = tmp_path_factory.mktemp("page")
    values = tiny_config("roberta").to_dict()
    del values["model_type"]
    torch.manual_seed(0)
    transformers.Data2VecTextModel(transformers.Data2VecTextConfig(**values)).save_pretrained(folder / ENCODER)
    tiny_tokenizer("roberta").save_pretrained(folder / ENCODER)
    shutil.copy(PACKAGE / "src" / MODULE / "ordinal.py", folder)
    return folder


@pytest.fixture(scope="module")
def run_command(venv_python, folder):
    """Gives what a command prints that runs in the venv."""
    with tempfile.TemporaryDirectory(prefix="warm-") as short, warm.start(Path(short) / "s", venv_python) as commands:
        path = os.pathsep.join(filter(None, (str(TESTS), os.environ.get("PYTHONPATH"))))
        environment = os.environ | {"PATH": f"{commands}:{os.environ['PATH']}", "PYTHONPATH": path, "COLUMNS": "200"}

        def run(*command: str) -> str:
            done = finish(["/usr/bin/env", *command], cwd=folder, env=environment)
            assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}\n{done.stderr[-3000:]}"
            return done.stdout

        yield run


def page_blocks(language: str) -> list[Block]:
    """The commands of the page, or its scripts; not those that install something, nor files of the package."""
    return [
        block
        for block in blocks(PAGE)
        if block.language == language and "title=" not in block.info and not block.text.startswith("pip ")
    ]


@pytest.fixture(scope="module")
def printed(run_command):
    """What each verb on the page printed, all having run in order."""
    outputs = {}
    for block in page_blocks("bash"):
        verb = re.findall(r"^warmstart (\w+)", block.text, re.M)[-1]
        outputs[verb] = run_command("bash", "-euo", "pipefail", "-c", block.text)
    return outputs


def test_the_page_shows_the_package_as_it_is():
    shown = {match[1]: block.text for block in blocks(PAGE) if (match := re.search(r'title="([^"]+)"', block.info))}
    files = [path for path in PACKAGE.rglob("*") if path.suffix in {".py", ".toml"} and path.name != "__init__.py"]
    assert shown == {path.relative_to(PACKAGE).as_posix(): path.read_text() for path in files}


def test_no_file_of_ours_names_the_package_or_its_parts():
    assert set(PARTS) == {"task", "schedule", "pooling", "engine", "architecture"}
    names = re.compile("|".join(map(re.escape, (MODULE, PACKAGE.name, *PARTS.values()))))
    source = Path(warmstart.__file__).parent
    files = [path for path in source.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    assert len(files) > 100
    assert {path.name: names.findall(path.read_text(encoding="utf-8")) for path in files} == {
        path.name: [] for path in files
    }


def test_help_and_show_list_the_parts_without_importing_them(venv_python, tmp_path):
    code = f"""
from typer.testing import CliRunner
from warmstart.cli.main import app
for arguments in (["fit", "--help"], ["predict", "--help"], ["show", "--schema"], ["show", "--plugins", "--json"]):
    print(CliRunner().invoke(app, arguments).output, end="\\f")
import sys
print(sorted(set({(*HEAVY, MODULE)}) & sys.modules.keys()))
"""
    done = finish([venv_python, "-c", code], cwd=tmp_path, env=os.environ | {"COLUMNS": "300"})
    fit, predict, schema, plugins, imported = done.stdout.split("\f")
    assert imported.strip() == "[]"
    assert re.search(rf"--task .* {PARTS['task']}[,.]", fit)
    assert re.search(rf"--engine .* {PARTS['engine']},", predict)
    for text in (fit, predict):
        assert all(f"{kind} {name}" in text for kind, name in PARTS.items())
    assert {PARTS["schedule"], PARTS["pooling"]} <= set(re.findall(r'"([a-z-]+)"', schema))
    assert {(row["kind"], row["name"], row["package"]) for row in json.loads(plugins)} == {
        (kind, name, PACKAGE.name) for kind, name in PARTS.items()
    }


def test_fit_trains_with_every_part(printed, folder, run_command):
    run = folder / "runs" / "reviews"
    config = json.loads((run / "model" / "config.json").read_text())
    assert (config["pooling"], config["encoder"]["model_type"]) == (PARTS["pooling"], PARTS["architecture"])
    assert "pooling.custom.sharpness" in load_file(run / "model" / "model.safetensors")
    about = json.loads(run_command("warmstart", "show", "runs/reviews", "--json"))
    assert about["recipe"]["task"]["name"] == PARTS["task"]
    assert about["recipe"]["training"]["lr_schedule"] == PARTS["schedule"]
    assert {"kappa", "accuracy", "mean_distance"} <= set(about["metrics"]["test"])
    assert PARTS["task"] in printed["fit"]


def test_predict_and_evaluate_know_the_task_and_the_engine(printed):
    answer = json.loads(printed["predict"])
    assert answer["label"] in answer["probabilities"]
    assert set(answer["probabilities"]) == {"1", "2", "3"}
    metrics = json.loads(printed["evaluate"])["metrics"]
    assert metrics["rows"] == 12
    assert 0 <= metrics["mean_distance"] <= 2


def test_the_report_and_the_model_card_name_the_parts(printed, folder):
    run = folder / "runs" / "reviews"
    for text in ((run / "report.html").read_text(), (run / "model" / "README.md").read_text()):
        assert {PARTS["task"], PARTS["schedule"], "kappa"} <= set(re.findall(r"[\w-]+", text))
    assert f"- {PARTS['task']}\n" in (run / "model" / "README.md").read_text()


def test_the_export_gives_the_same_answers(printed, folder):
    about = json.loads(printed["export"])
    assert about["task"] == PARTS["task"]
    assert about["engines"]["onnx"]["differ"] == 0
    assert (folder / "runs" / "reviews" / "onnx" / "model.onnx").is_file()


SERVE = f"""
import json
from pathlib import Path

from serving import front, get, post
from warmstart.inference.engine_selection import check_settled

check_settled("{PARTS["engine"]}", "bf16")  # as `serve --engine` does
app = front({{"reviews": Path("runs/reviews")}})
print(json.dumps([get(app, "/v1/models").json, post(app, {{"texts": ["A good film."]}}).json]))
"""


def test_a_server_answers(printed, folder, run_command):
    (folder / "serve.py").write_text(SERVE)
    models, reply = json.loads(run_command("python", "serve.py"))
    assert [model["task"] for model in models["models"]] == [PARTS["task"]]
    assert set(reply["answers"][0]["probabilities"]) == {"1", "2", "3"}


def test_a_class_that_is_not_registered(printed, folder, run_command):
    [script] = page_blocks("python")
    (folder / "script.py").write_text(script.text)
    assert "'label'" in run_command("python", "script.py")
    recipe = (folder / "runs" / "own" / "recipe.yaml").read_text()
    assert "ordinal:Ordinal" in recipe
