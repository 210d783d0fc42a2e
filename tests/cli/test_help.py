"""What is written for people to read: the help, the advice and the reference pages leave nothing out."""

import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

import warmstart
from warmstart.cli import doctor, fit, screen
from warmstart.cli.main import VERBS, app, load_verb
from warmstart.doctor.packages import Package
from warmstart.errors import RecipeError
from warmstart.recipe import make_recipe

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs"))
import hooks  # noqa: E402


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_of_a_verb_shows_what_is_in_brackets(verb):
    # Wide enough that no name is broken over two lines.
    help = CliRunner().invoke(app, [verb, "--help"], env={"COLUMNS": "300", "TERMINAL_WIDTH": "300"}).output
    fields = [field for item in load_verb(verb).params for field in re.findall(r"\[[a-z_.]+\]$", item.help or "")]
    assert [field for field in fields if field not in help] == []
    if verb == "fit":
        assert "[training.learning_rate]" in fields


def test_the_doctor_names_the_extra_to_install(monkeypatch):
    missing = [Package("peft", ">=0.17", None, "lora")]
    monkeypatch.setattr("warmstart.doctor.packages.packages", lambda: missing)
    assert "pip install 'warmstart[lora]'" in CliRunner().invoke(app, ["doctor"]).output
    assert doctor._line(missing[0])["to fix"] == "pip install 'warmstart[lora]'"


def test_a_name_in_brackets_is_shown_in_every_table(capsys):
    screen.table("of [red]", {"[bold] name": "a [link] value"})
    screen.grid("of [red]", [{"[dim] first": "[b]", "[i] other": "[/]"}])
    output = capsys.readouterr().out
    assert [text for text in ("[red]", "[bold]", "[link]", "[dim]", "[b]", "[i]", "[/]") if text not in output] == []


@pytest.mark.parametrize("page", hooks.WRITTEN, ids=lambda page: page.name)
def test_a_reference_page_says_what_the_code_says(page):
    text = page.read_text(encoding="utf-8")
    assert text == hooks.written(text), f"{page.name} differs from the code; run: make reference"


def test_the_pages_of_the_command_line_and_the_recipe_are_full_in_a_checkout():
    cli = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    assert [verb for verb in VERBS if f"\n## {verb}\n" not in cli] == []
    recipe = (ROOT / "docs" / "reference" / "recipe.md").read_text(encoding="utf-8")
    assert "| `model` | string | none |" in recipe
    assert "| `training.learning_rate` |" in recipe


def test_a_filled_page_is_built_with_what_the_code_says_now():
    stale = "a\n\n<!-- generate: exits -->\n\nstale\n\n<!-- end: exits -->\n\nb"
    assert hooks.on_page_markdown(stale) == f"a\n\n{hooks.exits()}\n\nb"
    assert hooks.on_page_markdown("<!-- generate: exits -->") == hooks.exits()


def test_every_exit_code_is_listed_everywhere():
    codes = set(re.findall(r"^\| (\d+) \|", hooks.exits(), re.M))
    assert codes >= {"0", "2", "8", "9", "70", "74", "75", "130"}
    help = " ".join(CliRunner().invoke(app, ["--help"], env={"COLUMNS": "300", "TERMINAL_WIDTH": "300"}).output.split())
    assert set(re.findall(r"(?<!\d)\d+(?= [a-zR])", help[help.index("Exit codes") :])) == codes


@pytest.mark.parametrize(
    ("fields", "advice"),
    [
        ({"max_steps": 5}, 'max_steps is called training.max_steps here; in Python, pass training={"max_steps": 5}'),
        ({"lr": 1e-4}, 'lr is called training.learning_rate here; in Python, pass training={"learning_rate": 0.0001}'),
        ({"fp16": True}, 'in Python, pass training={"precision": "fp16"}'),
        ({"lr_schedule": "cosine"}, 'pass training={"lr_schedule": …}'),
    ],
)
def test_a_field_of_a_section_is_answered_with_how_to_pass_it(fields, advice):
    with pytest.raises(RecipeError, match=re.escape(advice)):
        warmstart.fit(train="no.csv", model="m", **fields)


@pytest.mark.parametrize(
    ("start", "title"),
    [
        ({"model": "microsoft/deberta-v3-small/"}, "classify with deberta-v3-small"),
        ({"from_scratch": {}}, "classify, from scratch"),
    ],
)
def test_a_run_is_headed_by_what_it_started_from(start, title):
    assert fit._title(SimpleNamespace(recipe=make_recipe({"data.train": "t.csv", **start}))) == title


def test_each_part_of_the_time_has_its_name(run, capsys):
    training, rest = run.training, 61.2 - run.training.seconds
    parts = f"training in fp32 {training.seconds:.0f} s, reading, checking and evaluating {rest:.0f} s"
    assert fit._times(training, 61.2) == f"{parts}, the whole command 61 s"
    fit._show(run, [], 61.2)
    assert "training in fp32" in next(line for line in capsys.readouterr().out.splitlines() if "time" in line)
