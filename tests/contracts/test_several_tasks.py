"""All tasks on one encoder: each one's head is a folder that answers, and gives elsewhere what it gives here."""

import json

import pytest
from test_every_task import CASES, near

from tiny import save_tiny
from warmstart import tasks
from warmstart.inference.predictor import Predictor
from warmstart.pipeline.multitask import train_multitask
from warmstart.pipeline.multitask_recipes import MultitaskStage
from warmstart.recipe import MEMORY, MultitaskOptions, make_recipe

TASKS = tasks.names()


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    folder = tmp_path_factory.mktemp("several")
    encoder = str(save_tiny(folder / "encoder", initializer_range=0.2))
    recipes = {}
    for name in TASKS:
        own = {key: value for key, value in CASES[name].settings.items() if not key.startswith("training.")}
        values = {"model": encoder, "task": name, "data.train": MEMORY, "window.max_tokens": 64}
        recipes[name] = make_recipe({**values, **own})
    rows = {name: {"train": CASES[name].rows, "test": CASES[name].rows} for name in TASKS}
    options = MultitaskOptions(
        **{"with": ["others.yaml"]}, sampling="uniform", training={"epochs": 3, "batch_size": 8, "learning_rate": 1e-3}
    )
    stage = MultitaskStage(recipes, options, rows=rows)
    train_multitask(stage, folder / "stage", folder / "cache", folder / "work")
    return folder / "stage"


@pytest.mark.parametrize("name", TASKS)
def test_a_head_gives_elsewhere_what_it_gives_here(stage, name):
    predictor, case = Predictor.load(stage / "heads" / name), CASES[name]
    assert predictor.task.headline in json.loads((stage / "metrics.json").read_text())[name]["test"]
    for given, answer in zip(case.asked, predictor.predict(case.asked), strict=True):
        if case.opened is not None:
            expected = case.opened(stage / "heads" / name, given)
            assert near({key: answer[key] for key in expected}, expected)
