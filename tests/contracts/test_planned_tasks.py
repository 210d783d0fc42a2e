"""Every task, found by scanning, can be planned: its steps are those of its run, and something is counted."""

import pytest

from contracts.cases import all_cases
from contracts.test_every_task import fit, recipe_of
from warmstart.plan.cost_curve import BatchShape
from warmstart.plan.devices import find_device
from warmstart.plan.stage_recipes import on_disk
from warmstart.plan.workload import workload_of
from warmstart.runtime.progress import silent

CASES = all_cases()


@pytest.mark.parametrize("name", CASES)
def test_a_task_is_planned(name, encoder, tmp_path):
    rows = CASES[name].rows
    recipe = on_disk(recipe_of(encoder, name), {"train": rows, "test": rows}, tmp_path)
    (tmp_path / "work").mkdir()
    work = workload_of(recipe, find_device("laptop-cpu").precision, tmp_path / "work", silent)
    assert work.steps == recipe.training.max_steps
    assert work.rows["test"] == len(rows)
    shape = BatchShape(8, 32)
    assert work.model.step(shape) > 2 * work.model.forward(shape) > 0
    assert work.model.activations(shape) > 0
    assert work.evaluation_flops > 0


@pytest.mark.parametrize("name", CASES)
def test_a_task_has_a_time_limit(name, encoder, tmp_path):
    run = fit(encoder, name, tmp_path / "run", **{"training.time_limit": "10m", "training.max_steps": 2})
    assert run.finished
    assert (run.folder / "time-limit" / "time_limit.json").is_file()
