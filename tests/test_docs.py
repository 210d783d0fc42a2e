"""The pages: every command and every Python block in them runs, every recipe is a recipe, every link leads somewhere.

A page's blocks run in their order in a folder of their own that holds a copy of `examples/`, without a network. Names
on the Hub are folders there (see `ENCODERS` and `DATA_SETS`), which the libraries look for first, so commands run as
they stand. A block whose fence says `{.norun}` is shown only.
"""

import os
import re
import shutil
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from processes import finish, one_ray
from tiny import VOCABULARY, save_japanese, save_tiny
from warmstart.recipe import Recipe, load_recipe, load_sweep

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

ENCODERS = {"sentence-transformers/all-MiniLM-L6-v2": "bert", "google-bert/bert-base-uncased": "bert"}
"""Encoders that pages name, and the tiny architecture that stands in for each."""
JAPANESE = "tohoku-nlp/bert-base-japanese-char-v3"
"""The Japanese encoder that pages name."""

DATA_SETS = {
    "cornell-movie-review-data/rotten_tomatoes": {
        "train.csv": "text,label\n" + "a good film,pos\na bad film,neg\n" * 8,
        "test.csv": "text,label\na great story,pos\na boring story,neg\n",
    }
}
"""Data sets that pages name, and the files that stand in for each."""

NOT_RUN = ("git clone", "make ", "pip ", "bash .ci/run", "pre-commit ")
"""A bash block with a line that starts so is not run: it installs, or runs the tests themselves."""


@dataclass(frozen=True)
class Block:
    line: int
    language: str
    info: str
    text: str

    @property
    def runs(self) -> bool:
        if ".norun" in self.info or self.language not in {"bash", "python"}:
            return False
        return self.language == "python" or not any(line.startswith(NOT_RUN) for line in self.text.splitlines())


def blocks(page: Path) -> list[Block]:
    found = re.finditer(r"^```(\w+)([^\n]*)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S)
    return [Block(one.string.count("\n", 0, one.start()) + 1, *one.groups()) for one in found]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


RUNNABLE = [page for page in PAGES if any(block.runs for block in blocks(page))]


@pytest.fixture(scope="module")
def environment(commands, tmp_path_factory):
    """The environment of a page's commands: no network, a cache of its own, one thread."""
    return {
        "PATH": f"{commands}:{os.environ['PATH']}",
        "HOME": str(tmp_path_factory.mktemp("home")),
        "WARMSTART_CACHE": str(tmp_path_factory.mktemp("cache")),
        "HF_HUB_OFFLINE": "1",
        "COLUMNS": "100",
        "LANG": "C.UTF-8",
        # Where set, it says which checkout is tested; processes that a command starts must import that one, too.
        **{name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ},
    }


@pytest.fixture(scope="module")
def stand_ins(tmp_path_factory):
    """The folder that every page's folder begins as."""
    folder = tmp_path_factory.mktemp("stand-ins")
    shutil.copytree(ROOT / "examples", folder / "examples")
    # Whole words are known: spelt out, texts would be five times as long, and learned as much slower.
    texts = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "examples").glob("*.csv")))
    words = sorted(set(re.findall(r"[a-z]{2,}", texts.lower())) - set(VOCABULARY))
    for name, architecture in ENCODERS.items():
        save_tiny(folder / name, architecture, words=words, num_hidden_layers=4)
    save_japanese(folder / JAPANESE)
    for name, files in DATA_SETS.items():
        (folder / name).mkdir(parents=True)
        for file, text in files.items():
            (folder / name / file).write_text(text)
    return folder


@pytest.mark.parametrize("page", RUNNABLE, ids=name_of)
def test_a_page_runs(page, environment, stand_ins, tmp_path):
    folder = tmp_path / "page"
    shutil.copytree(stand_ins, folder)
    python: list[Block] = []
    for block in filter(lambda block: block.runs, blocks(page)):
        if block.language == "python":
            python.append(block)
            continue
        run(python, page, folder, environment)
        check(["bash", "-euo", "pipefail", "-c", block.text], f"{name_of(page)}:{block.line}", folder, environment)
    run(python, page, folder, environment)


def run(python: list[Block], page: Path, folder: Path, environment: dict[str, str]) -> None:
    """Run the Python blocks since the last command as one script; its lines are those of the page, for tracebacks."""
    if python:
        script = ""
        for block in python:
            script += "\n" * (block.line - script.count("\n")) + block.text
        (folder / "page.py").write_text(script, encoding="utf-8")
        check(["python", "page.py"], f"{name_of(page)}:{python[0].line} (Python)", folder, environment)
        python.clear()


def check(command: list[str], where: str, folder: Path, environment: dict[str, str]) -> None:
    # `env` looks the command up in the PATH given here.
    with one_ray() if "--ray" in command[-1] else nullcontext():
        done = finish(["/usr/bin/env", *command], cwd=folder, env=environment)
    assert done.returncode == 0, f"{where} left with {done.returncode}:\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"


@pytest.mark.parametrize(
    ("page", "block"),
    [
        pytest.param(page, block, id=f"{name_of(page)}:{block.line}")
        for page in PAGES
        for block in blocks(page)
        if block.language == "yaml"
    ],
)
def test_a_recipe_in_a_page_is_one(page, block, tmp_path):
    said = yaml.safe_load(block.text)
    if "search" in said:
        (tmp_path / "sweep.yaml").write_text(block.text)
        load_sweep(tmp_path / "sweep.yaml")
        return
    assert set(said) <= set(Recipe.model_fields), "every YAML block is a recipe, the part of one, or a sweep"
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump({"model": "m", "data": {"train": "t.csv"}} | said))
    load_recipe(path)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        found = page.parent / file if file else page
        assert found.exists(), f"{name_of(page)} links to {target}"
        if anchor and found.suffix == ".md":
            heads = re.findall(r"^#+ (.+)$", found.read_text(encoding="utf-8"), re.M)
            slugs = {re.sub(r"[^\w\- ]", "", head).strip().lower().replace(" ", "-") for head in heads}
            assert anchor in slugs, f"{name_of(page)} links to {target}"


@pytest.mark.parametrize("page", [*PAGES, ROOT / "docs" / "images" / "fit.svg"], ids=name_of)
def test_no_path_of_a_machine(page):
    found = re.findall(r"(?<![\w.])/(?:work|home|root|tmp|Users|mnt|var)/\S*", page.read_text(encoding="utf-8"))
    assert not found


def test_the_stand_ins_are_needed():
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert [name for name in (*ENCODERS, JAPANESE, *DATA_SETS) if name not in text] == []
