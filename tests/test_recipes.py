"""Every recipe that comes with warmstart, found by scanning: complete but for model and data, and one for each task."""

import pytest
from typer.testing import CliRunner

from warmstart import tasks
from warmstart.cli.main import app
from warmstart.errors import RecipeError
from warmstart.recipe import load_recipe, shipped

GIVEN = {"model": "m", "data.train": "rows.jsonl"}


def given(name):
    """What a user adds; a recipe from scratch brings its own encoder."""
    scratch = "\nfrom_scratch:" in shipped()[name].read_text(encoding="utf-8")
    return {key: value for key, value in GIVEN.items() if key != "model" or not scratch}


@pytest.mark.parametrize("name", shipped())
def test_a_shipped_recipe_is_whole_but_for_model_and_data(name):
    recipe = load_recipe(f"recipes:{name}", given(name))
    assert recipe.data.train == "rows.jsonl"
    tasks.options_of(recipe.task.name, recipe.task.options)
    assert shipped()[name].read_text(encoding="utf-8").startswith("# ")


def test_every_task_has_one():
    assert {load_recipe(f"recipes:{name}", given(name)).task.name for name in shipped()} == set(tasks.names())


def test_a_wrong_name_is_answered_with_the_nearest():
    with pytest.raises(RecipeError, match="did you mean 'classify'"):
        load_recipe("recipes:clasify", GIVEN)


def test_they_are_shown():
    told = CliRunner().invoke(app, ["show", "--recipes"]).stdout
    assert all(f"--recipe {name}\n" in told for name in shipped())


def test_fit_starts_from_one(encoder, files, tmp_path):
    import warmstart

    given = {"model": encoder, "train": files["train"], "training": {"max_steps": 2}}
    run = warmstart.fit("recipes:classify", out=tmp_path / "run", **given)
    assert run.recipe.training.peak_learning_rate == 5e-5
    assert run.recipe.training.max_steps == 2
