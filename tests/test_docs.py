"""The pages: every command and every Python block in them runs, every recipe is valid, every link works.

The blocks of a page run in order in a folder of their own with a copy of `examples/`, without a network. Names on the
Hub are folders there (see `ENCODERS` and `DATA_SETS`), which the libraries look for first, and files that a page
fetches by `curl` are there already (`stand_ins`), so commands run as they are printed. A block whose fence has
`{.norun}` is only shown; one with `{.fails}` must be refused because of its data.
"""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import pytest
import yaml
from pydantic import ValidationError

import warm
from processes import finish, one_ray
from stand_ins import DATA_SETS, ENCODERS, JAPANESE, NOT_RUN, stand_in_folder
from warmstart import tasks
from warmstart.cli.main import VERBS, load_verb
from warmstart.errors import DataError, RecipeError
from warmstart.options import Options, fields_of
from warmstart.recipe import Recipe, load_recipe, load_sweep
from warmstart.recipe.study import Study

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

OTHERS = {"--help", "--version", "--index-url", "--logdir", "--nproc-per-node", "--no-python", "--local-dir", "--to"}
OTHERS |= {"--create-dirs", "--output-dir", "--remote-name-all"}
OTHERS |= {"--generate", "--head", "--address", "--model-id", "--auto-truncate", "--runner"}
"""Options in the pages that are other programs', or are gone."""


@dataclass(frozen=True)
class Block:
    line: int
    language: str
    info: str
    text: str

    @property
    def fails(self) -> bool:
        return ".fails" in self.info

    @property
    def runs(self) -> bool:
        if ".norun" in self.info or self.language not in {"bash", "python"}:
            return False
        return self.language == "python" or not any(line.startswith(NOT_RUN) for line in self.text.splitlines())


def blocks(page: Path) -> list[Block]:
    matches = re.finditer(r"^```(\w+)([^\n]*)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S)
    return [Block(match.string.count("\n", 0, match.start()) + 1, *match.groups()) for match in matches]


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
        warm.SHORT: "1",
        "LANG": "C.UTF-8",
        # If set, it selects the checkout that is tested, also for processes that a command starts.
        **{name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ},
    }


@pytest.fixture(scope="module")
def stand_ins(tmp_path_factory):
    """The folder that every page's folder begins as."""
    return stand_in_folder(tmp_path_factory.mktemp("stand-ins"))


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
        command, code = ["bash", "-euo", "pipefail", "-c", block.text], DataError.exit_code if block.fails else 0
        check(command, f"{name_of(page)}:{block.line}", folder, environment, code)
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


def check(command: list[str], where: str, folder: Path, environment: dict[str, str], code: int = 0) -> None:
    # `env` looks the command up in the PATH given here.
    with one_ray() if "--ray" in command[-1] else nullcontext():
        done = finish(["/usr/bin/env", *command], cwd=folder, env=environment)
    assert done.returncode == code, (
        f"{where} left with {done.returncode}:\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
    )


def test_every_recipe_in_a_page_is_valid(tmp_path):
    for page in PAGES:
        for block in blocks(page):
            if block.language == "yaml":
                load(block, f"{name_of(page)}:{block.line}", tmp_path)


def load(block: Block, where: str, folder: Path) -> None:
    """Load a YAML block: a recipe, a part of one, a sweep, or a part of a study."""
    content = yaml.safe_load(block.text)
    path = folder / "block.yaml"
    try:
        if "search" in content:
            path.write_text(block.text, encoding="utf-8")
            load_sweep(path)
        elif {"axes", "peers"} & set(content):
            whole = {"title": "t", "subject": "own", "methods": {"own": {}}, "sizes": {"all": {}}}
            sets = {"one": {"train": "t.csv", "test": "t.csv", "sizes": ["all"]}}
            Study.check({**whole, "sets": sets, **content}, where)
        else:
            path.write_text(yaml.safe_dump({"model": "m", "data": {"train": "t.csv"}} | content), encoding="utf-8")
            recipe = load_recipe(path)
            tasks.find(recipe.task.name).options_class.model_validate(recipe.task.options)
    except (RecipeError, ValidationError) as error:
        pytest.fail(f"{where}: {error}")


def test_every_link_works():
    broken = []
    for page in PAGES:
        text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
        targets = [target for target in re.findall(r"\]\(([^)\s]+)\)", text) if not re.match(r"[a-z]+:", target)]
        broken += [f"{name_of(page)} links to {target}" for target in targets if not is_there(page, target)]
    assert broken == []


def is_there(page: Path, target: str) -> bool:
    """Whether the file of a link exists, and in it the heading that the link names."""
    file, _, anchor = target.partition("#")
    path = page.parent / file if file else page
    if not path.exists() or not anchor or path.suffix != ".md":
        return path.exists()
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.M)
    return anchor in {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def test_every_option_in_a_page_exists():
    options = {name for verb in VERBS for item in load_verb(verb).params for name in (*item.opts, *item.secondary_opts)}
    assert unknown(r"(?<![\w-])--[a-z][a-z0-9-]+", options | OTHERS) == []


def test_every_recipe_field_in_a_page_exists():
    own = {f"task.{name}" for task in tasks.names() for name in fields_of(tasks.find(task).options_class)}
    fields = {*field_names(Recipe), *own}
    source = ROOT / "src" / "warmstart"
    modules = {".".join(path.relative_to(source).with_suffix("").parts) for path in source.rglob("*")}
    sections = "|".join(sorted({name.partition(".")[0] for name in fields if "." in name} - {"model"}))
    assert unknown(rf"`(?:{sections})\.(?!json`)[a-z_.]*[a-z](?=[`:=])", fields | modules) == []


def unknown(pattern: str, known: set[str]) -> list[str]:
    """Where a page names something that is not known."""
    return [
        f"{name_of(page)}:{number}: {name}"
        for page in PAGES
        if page.parent.name != "results"  # those are as they were when they were measured
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
        for name in re.findall(pattern, line)
        if name.strip("`") not in known
    ]


def field_names(options: type[Options], prefix: str = "", depth: int = 3) -> Iterator[str]:
    """Every field of a recipe by its dotted name."""
    for name, field in fields_of(options).items():
        yield prefix + name
        for choice in (field.annotation, *get_args(field.annotation)):
            if depth and isinstance(choice, type) and issubclass(choice, Options):
                yield from field_names(choice, f"{prefix}{name}.", depth - 1)


def test_every_how_to_guide_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = [page.relative_to(ROOT / "docs") for page in PAGES if page.parent.name == "howto"]
    assert [str(page) for page in pages if f": {page}\n" not in navigation] == []


def test_no_path_of_a_machine():
    paths = {}
    records = [path for path in (ROOT / "docs" / "sample-run").rglob("*") if path.suffix in {".json", ".yaml"}]
    assert records
    for page in [*PAGES, *(ROOT / "docs" / "images").glob("*.svg"), *records]:
        text = page.read_text(encoding="utf-8")
        paths[name_of(page)] = re.findall(r"(?<![\w.])/(?:work|home|root|tmp|Users|mnt|var)/\S*", text)
    assert {page: names for page, names in paths.items() if names} == {}


def test_the_stand_ins_are_needed():
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert [name for name in (*ENCODERS, JAPANESE, *DATA_SETS) if name not in text] == []
