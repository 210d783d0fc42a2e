"""A name from another library is answered with the name it has here, wherever it is written."""

import pytest
import yaml

import warmstart
from warmstart import tasks
from warmstart.errors import RecipeError
from warmstart.experiments.variants import variants_of
from warmstart.options import fields_of, has_field
from warmstart.recipe import Recipe, SearchRange, Sweep, load_recipe, load_sweep, make_recipe
from warmstart.recipe.synonyms import ELSEWHERE, RANGE, RECIPE, SWEEP

MINIMAL = {"model": "m", "data.train": "a.csv"}


def parted(target):
    """The key of a target, and the value that the name implies, if there is one."""
    key, colon, value = target.partition(": ")
    return key, yaml.safe_load(value) if colon else None


def task_fields():
    return {name for task in tasks.names() for name in fields_of(tasks.find(task).options_class)}


@pytest.mark.parametrize(("name", "target"), RECIPE.items())
def test_a_name_from_elsewhere_is_answered_with_a_field_that_is_there(name, target, tmp_path):
    key, value = parted(target)
    assert has_field(Recipe, key)
    assert not key.startswith("task.") or key.removeprefix("task.") in task_fields()
    if value is not None:
        assert make_recipe({**MINIMAL, key: value})
    if name in fields_of(Recipe):
        return  # it is a field, and a synonym below a section alone
    path = tmp_path / "recipe.yaml"
    path.write_text(f"model: m\ndata: {{train: a.csv}}\n{name}: 1\n", encoding="utf-8")
    with pytest.raises(RecipeError) as error:
        load_recipe(path)
    assert str(error.value) == f"{path}:3: {name} is called {target} here"


@pytest.mark.parametrize(
    ("table", "options"), [(SWEEP, Sweep), (RANGE, SearchRange)], ids=lambda one: getattr(one, "__name__", "")
)
def test_so_are_the_names_of_a_sweep(table, options):
    for name, field in table.items():
        assert field in fields_of(options)
        assert name not in fields_of(options)
        with pytest.raises(RecipeError, match=f"^here: {name} is called {field} here$"):
            options.check(
                {name: 1, **({"search": {"seed": [1, 2]}} if options is Sweep else {"low": 1, "high": 2})}, "here"
            )


@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_no_field_holds_is_answered_with_what_to_do(name):
    with pytest.raises(RecipeError, match=f"^fit: {name} is not an option; "):
        make_recipe({**MINIMAL, name: 1}, "fit")


@pytest.mark.parametrize(
    ("key", "here"),
    [
        ("training.lr", "training.learning_rate"),
        ("head.lr", "head.learning_rate"),
        ("training.lr_decay", "layers.lr_decay"),  # a field of ours in the wrong section
        ("epochs", "training.epochs"),
        ("learning-rate", "training.learning_rate"),
        ("data.val_size", "data.split.dev"),
        ("data.train.sep", "data.train.format"),
        ("forgetting.max_length", "forgetting.max_tokens"),
        ("trainer.num_train_epochs", "training.epochs"),
        ("trainer.fp16", "training.precision: fp16"),
        ("trainer.weight_decay", "training.weight_decay"),
    ],
)
def test_the_answer_is_for_the_section_it_stands_in(key, here):
    with pytest.raises(RecipeError) as error:
        make_recipe({**MINIMAL, "forgetting.text": "a.txt", "data.train.file": "a.csv", key: 1})
    assert str(error.value) == f"options: {key} is called {here} here"


def test_in_a_stage_it_is_the_stages_own_field(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text("model: m\ndata: {train: a.csv}\nstages:\n  - pretrain:\n      training:\n        num_epochs: 2\n")
    with pytest.raises(RecipeError) as error:
        load_recipe(path)
    own = "stages.0.pretrain.training"
    assert str(error.value) == f"{path}:6: {own}.num_epochs is called {own}.epochs here"


def test_what_belongs_to_the_trainer_is_passed_on():
    given = {"optim": "adafactor", "gradient_accumulation_steps": 2, "logging_steps": 5}
    assert make_recipe({**MINIMAL, "trainer": given}).trainer == given


def test_arguments_of_python(tmp_path):
    with pytest.raises(
        RecipeError, match=r"^fit: num_train_epochs is called training\.epochs here; in Python, pass .*3"
    ):
        warmstart.fit(model="m", train="a.csv", num_train_epochs=3)


def test_a_searched_field_and_an_ablated_one(tmp_path):
    path = tmp_path / "sweep.yaml"
    path.write_text("recipe: {model: m, data: {train: a.csv, dev: b.csv}}\nsearch:\n  lr: [1e-5, 2e-5]\n")
    with pytest.raises(RecipeError, match=r"sweep\.yaml:3: search: lr is called training\.learning_rate here"):
        load_sweep(path)
    with pytest.raises(RecipeError, match=r"^ablate: llrd is called layers\.lr_decay here$"):
        variants_of(make_recipe({**MINIMAL, "ablate": ["llrd"]}))
