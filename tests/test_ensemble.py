"""Several models as one: what they say is averaged as the task wants it, for every task that can."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from contracts.cases import all_cases
from tiny import save_tiny
from warmstart import tasks
from warmstart.errors import ModelError
from warmstart.inference.engines.torch import TorchEngine
from warmstart.inference.ensembles import Ensemble, average_outputs, members_of
from warmstart.inference.predictor import Predictor
from warmstart.pipeline.run_recipe import run_recipe
from warmstart.recipe import MEMORY, make_recipe
from warmstart.tasks.shared.protocols import EncodesQueries

LOGITS = st.lists(st.lists(st.floats(-30, 30), min_size=3, max_size=3), min_size=1, max_size=5)


@given(LOGITS)
def test_chances_of_a_mix_are_the_mean_of_chances(rows):
    every = [torch.tensor([row]) for row in rows]
    for how, chances in (("softmax", lambda one: one.softmax(-1)), ("sigmoid", torch.sigmoid)):
        wanted = torch.stack([chances(one.double()) for one in every]).mean(0)
        assert torch.allclose(chances(average_outputs(every, how)), wanted, atol=1e-9)
    assert torch.allclose(average_outputs(every, "mean"), torch.stack(every).double().mean(0))


CASES = all_cases()


def settings(name):
    case = CASES[name]
    return {key.removeprefix("task."): value for key, value in case.settings.items() if key.startswith("task.")}


def mixes(name):
    task = name.partition(" ")[0]
    return tasks.find(task).ensemble_averaging(tasks.options_of(task, settings(name)))


@pytest.mark.parametrize("name", [name for name in CASES if mixes(name)])
def test_a_model_and_itself_answer_as_it_does(name, tmp_path):
    case, task = CASES[name], name.partition(" ")[0]
    recipe = {"model": str(save_tiny(tmp_path / "encoder")), "task": task, "data.train": MEMORY, "data.test": MEMORY}
    columns = {key for row in case.rows for key in row}
    schema = tasks.find(task).schema(tasks.options_of(task, settings(name)))
    recipe |= {f"data.columns.{one.name}": one.name for one in schema if one.name in columns}
    quick = {"training.max_steps": 2, "training.precision": "fp32", "window.max_tokens": 64}
    made = make_recipe({**recipe, **case.settings, **quick}, "test")
    run = run_recipe(made, tmp_path / "run", rows={"train": case.rows, "test": case.rows})
    one = Predictor.load(run.folder)
    model = one.engine.model
    twice = Predictor(TorchEngine(Ensemble([model, model], mixes(name))), one.tokenizer, one.task, one.window)
    asked = [
        one.task.eval_row(row, n) if isinstance(one.task, EncodesQueries) else row for n, row in enumerate(case.rows)
    ]
    for alone, both in zip(one.stream(asked), twice.stream(asked), strict=True):
        _alike(alone, both)


def _alike(one, other):
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            _alike(one[key], other[key])
    elif isinstance(one, list):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            _alike(a, b)
    elif isinstance(one, float):
        assert np.isclose(one, other, atol=1e-5)
    else:
        assert one == other


def test_members_are_numbered_from_0_on(tmp_path):
    assert members_of(tmp_path, {"files": {"config.json": {}}}) == []
    files = {"members/0/config.json": {}, "members/1/config.json": {}, "warmstart.json": {}}
    assert members_of(tmp_path, {"files": files}) == [tmp_path / "members" / "0", tmp_path / "members" / "1"]
    with pytest.raises(ModelError, match="numbered from 0 on"):
        members_of(tmp_path, {"files": {"members/0/a": {}, "members/2/a": {}}})
