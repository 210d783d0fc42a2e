"""A recipe says what is wrong with it, where, and what was meant."""

import pytest
import yaml

from warmstart.errors import RecipeError
from warmstart.options import meaning
from warmstart.recipe import Recipe, load_recipe, make_recipe
from warmstart.storage.yaml_files import parse_value


def write(tmp_path, text, name="recipe.yaml"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


MINIMAL = "model: m\ndata: {train: a.csv}\n"


def test_only_what_differs_need_be_said_and_the_complete_recipe_reads_back_the_same(tmp_path):
    recipe = load_recipe(write(tmp_path, MINIMAL + "training: {learning_rate: 2e-5}\n"))
    assert recipe.training.learning_rate == 2e-5  # YAML 1.1 reads 2e-5 as text
    assert recipe.training.epochs is None
    again = load_recipe(write(tmp_path, recipe.yaml(), "again.yaml"))
    assert again == recipe
    assert set(yaml.safe_load(recipe.yaml())) == set(Recipe.model_fields)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        (
            MINIMAL + "training:\n  learning_rat: 1\n",
            4,
            "training.learning_rat is not an option; did you mean 'learning_rate'?",
        ),
        (MINIMAL + "trainin: {}\n", 3, "trainin is not an option; did you mean 'training'?"),
        (MINIMAL + "training: {epochs: -1}\n", 3, "training.epochs: found -1"),
        (MINIMAL + "window:\n  method: middle\n", 4, "window.method: found 'middle'"),
        (
            MINIMAL + "window: {method: slices, head_tokens: 9}\n",
            3,
            "head_tokens: found 9, but method is slices; set method: head+tail, or leave head_tokens out",
        ),
        (
            MINIMAL + "window: {method: tail, slice_pooling: max}\n",
            3,
            "slice_pooling: found max, but method is tail; set method: slices, or leave slice_pooling out",
        ),
        (
            "model: m\ndata:\n  train: {file: a.csv, heder: false}\n",
            3,
            "data.train.heder is not an option; did you mean",
        ),
        (MINIMAL + "seed: 1\nseed: 2\n", 4, "seed is set twice, first on line 3"),
        (MINIMAL + "seed: [1\n", 4, "not YAML"),
    ],
)
def test_a_wrong_recipe_is_refused_with_its_line_and_the_nearest_name(tmp_path, text, line, said):
    path = write(tmp_path, text)
    with pytest.raises(RecipeError) as error:
        load_recipe(path)
    assert f"{path}:{line}: " in str(error.value)
    assert said in str(error.value)


def test_a_missing_key_says_what_it_is_for(tmp_path):
    with pytest.raises(RecipeError, match=r"model is missing; expected the pretrained encoder: a folder, or"):
        load_recipe(write(tmp_path, "data: {train: a.csv}\n"))


def test_yaml_runs_no_code(tmp_path):
    path = write(tmp_path, "model: !!python/object/apply:os.system ['touch hacked']\n")
    with pytest.raises(RecipeError, match="not YAML"):
        load_recipe(path)


def test_paths_are_taken_from_the_recipes_folder(tmp_path):
    folder = tmp_path / "deep"
    folder.mkdir()
    (folder / "encoder").mkdir()
    text = "model: encoder\ndata: {train: a.csv, test: {file: [b.csv, hub:x/y:test]}}\n"
    recipe = load_recipe(write(folder, text))
    assert recipe.model == str(folder / "encoder")
    assert recipe.data.train == str(folder / "a.csv")
    assert recipe.data.test.file == [str(folder / "b.csv"), "hub:x/y:test"]


def test_one_file_may_be_read_otherwise_than_the_rest():
    recipe = make_recipe(
        {
            "model": "m",
            "data.train": "a.csv",
            "data.test": "b.csv",
            "data.columns": {"text": 2, "label": 1},
            "data.header": False,
            "data.test.columns.label": "answer",
            "data.test.header": True,
        }
    )
    train, test = recipe.data.reading("train"), recipe.data.reading("test")
    assert train["columns"] == {"text": "2", "label": "1"}
    assert train["header"] is False
    assert test["columns"] == {"text": "2", "label": "answer"}
    assert test["header"] is True
    assert recipe.data.reading("dev") is None


def test_task_options_can_be_set_beside_a_task_given_by_name():
    recipe = make_recipe({"model": "m", "data.train": "a", "task": "classify", "task.multi_label": True})
    assert recipe.task.name == "classify"
    assert recipe.task.options == {"multi_label": True}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *[("1e-4", 1e-4), ("3", 3), ("true", True), ("null", None), ("[a, b]", ["a", "b"]), ("{text: 2}", {"text": 2})],
        *[("|", "|"), ("no", "no"), ("yes", "yes"), ("#", "#"), ("a: b", "a: b"), ("'3'", "3")],
    ],
)
def test_a_value_typed_on_the_command_line_is_what_was_typed(text, value):
    assert parse_value(text) == value


def test_every_field_has_its_meaning_under_it():
    def walk(options, prefix=""):
        for name, field in options.model_fields.items():
            assert field.description, f"{options.__name__}.{name} has no text under it"
            inner = field.annotation
            if isinstance(inner, type) and hasattr(inner, "model_fields"):
                walk(inner, f"{prefix}{name}.")

    walk(Recipe)
    assert meaning(Recipe, "training.lr_schedule") == "The learning rate schedule after the warm-up."
