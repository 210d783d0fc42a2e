"""warmstart sweep on the command line: a file, a recipe or data with its choices, and a folder that is shown."""

import json

import pytest
from typer.testing import CliRunner

from warmstart.cli.main import app
from warmstart.cli.sweep import parse_search
from warmstart.errors import RecipeError
from warmstart.experiments import sweep as module
from warmstart.recipe import absolute


@pytest.fixture
def sweep(monkeypatch, tmp_path):
    """The command in a folder of its own, whose trials train nothing."""

    def pretend(recipe, place, progress=None, **_):
        place.mkdir(parents=True)
        (place / "recipe.yaml").write_text(absolute(recipe).yaml())
        metrics = {
            "dev": {"accuracy": recipe.training.learning_rate * recipe.training.batch_size},
            "test": {"accuracy": 0.5},
        }
        (place / "metrics.json").write_text(json.dumps(metrics))

    monkeypatch.setattr(module, "run_recipe", pretend)
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        done = CliRunner().invoke(app, ["sweep", *map(str, arguments)], catch_exceptions=False)
        assert done.exit_code == 0
        return done.stdout

    return call


@pytest.fixture
def recipe(encoder, files, tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text(f"model: {encoder}\ndata: {{train: {files['train']}, dev: {files['test']}}}\n")
    return path


def test_a_recipe_with_choices(sweep, recipe):
    choices = ("--search", "training.learning_rate=5e-5,3e-5,2e-5", "--search", "training.batch_size=16,32")
    found = json.loads(sweep(recipe, *choices, "--json"))
    assert (found["sweep"], found["wanted"], len(found["trials"])) == ("sweeps/recipe", 6, 6)
    assert found["best"]["settings"] == {"training.learning_rate": 5e-5, "training.batch_size": 32}
    assert found["best"]["test"] == {"accuracy": 0.5}
    assert json.loads(sweep("sweeps/recipe", "--json")) == found
    told = sweep("sweeps/recipe")
    assert "best on dev: trial" in told
    assert "training.learning_rate 5e-05, training.batch_size 32" in told
    assert told.count("its test score") == 1


def test_a_sweep_file_and_what_the_command_line_adds(sweep, recipe, tmp_path):
    path = tmp_path / "sweep.yaml"
    path.write_text(
        "recipe: recipe.yaml\nsearch:\n  training.learning_rate: {low: 1e-5, high: 1e-4, log: true}\ntrials: 9\n"
    )
    said = ("--trials", 3, "--set", "training.epochs=2", "--search", "training.batch_size=8,16", "--out", "here")
    found = json.loads(sweep(path, *said, "--json"))
    assert len(found["trials"]) == 3
    assert {tuple(one["settings"]) for one in found["trials"]} == {("training.learning_rate", "training.batch_size")}
    assert "epochs: 2" in (tmp_path / "here" / "best.yaml").read_text()
    # The file in the folder is the sweep as it was asked for.
    assert json.loads(sweep(tmp_path / "here" / "sweep.yaml", "--out", "here", "--json"))["trials"] == found["trials"]


def test_a_data_file_with_the_published_grid(sweep, encoder, files):
    said = ("--model", encoder, "--dev", files["test"], "--sweep", "published-grid", "--trials", 4)
    found = json.loads(sweep(files["train"], *said, "--json"))
    assert len(found["trials"]) == 4
    assert set(found["trials"][0]["settings"]) == {"training.batch_size", "training.learning_rate", "training.epochs"}


def test_what_is_missing_is_said(sweep, recipe):
    with pytest.raises(RecipeError, match=r"nothing to search; add --search training\.learning_rate=5e-5,3e-5"):
        sweep(recipe)
    with pytest.raises(RecipeError, match="did you mean 'published-grid'"):
        sweep(recipe, "--sweep", "publishd-grid")
    with pytest.raises(RecipeError, match=r"expected FIELD=CHOICES"):
        parse_search(["training.learning_rate"])


def test_choices_are_typed():
    assert parse_search(["a=1,2.5,true,null,x", "b=[[1], [2]]", "c={low: 1, high: 2}"]) == {
        "a": [1, 2.5, True, None, "x"],
        "b": [[1], [2]],
        "c": {"low": 1, "high": 2},
    }
