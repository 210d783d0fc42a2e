"""The model that a run ends with: fine-tuned, the mean of before and after, or the linear probe; by dev or held out."""

import pytest
from safetensors.torch import load_file

import warmstart
from small import weight_bytes
from test_resume import Crash, Trouble, crash
from warmstart.errors import RecipeError
from warmstart.evaluation.records.training import RuleRecord
from warmstart.pipeline import held_out, rules
from warmstart.recipe import make_recipe
from warmstart.report.page import render
from warmstart.report.run_facts import read_facts

SAVES = {"checkpoints": {"every_steps": 2}}
PROBE = {"head": {"init": "linear-probe"}}


@pytest.fixture
def held(monkeypatch):
    """Rows are held out of small data too, and trainings are short."""
    monkeypatch.setattr(rules, "HELD_OUT_ROWS", (10, 1000))
    monkeypatch.setattr(rules, "STEPS", 6)
    start = rules._probe_start
    few = [RuleRecord("training.max_steps", 6, "a test is short")]
    monkeypatch.setattr(rules, "_probe_start", lambda recipe: [*start(recipe), *few])


def fit(sentences, files, out, **more):
    return warmstart.fit(model=sentences, train=files["train"], test=files["test"], out=out, **{**SAVES, **more})


def encoder_weights(model):
    return load_file(model / "0_Transformer" / "model.safetensors")


def test_a_weight_average_lies_midway_and_has_its_own_head(sentences, files, tmp_path):
    training = {"max_steps": 4, "learning_rate": 1e-2}
    tuned = fit(sentences, files, tmp_path / "tuned", **PROBE, training={**training, "final_model": "fine-tuned"})
    mean = fit(sentences, files, tmp_path / "mean", **PROBE, training={**training, "final_model": "weight-average"})
    before = fit(sentences, files, tmp_path / "probe", **PROBE, layers={"freeze": "encoder"})
    start, end, middle = (encoder_weights(run.model) for run in (before, tuned, mean))
    moved = [key for key in start if not start[key].equal(end[key])]
    assert moved
    for key in moved:
        assert middle[key].allclose((start[key] + end[key]) / 2, atol=1e-6)
    assert weight_bytes(mean.model) != weight_bytes(tuned.model)


def test_dev_rows_choose_and_the_run_says_by_how_much(sentences, files, tmp_path):
    run = fit(sentences, files, tmp_path / "run", data={"dev": files["test"]}, training={"max_steps": 4})
    choice = run.training.final_model
    assert (choice.part, choice.rows, choice.metric) == ("dev", 24, "accuracy")
    assert [one.name for one in choice.candidates] == ["fine-tuned", "weight-average", "linear-probe"]
    chosen = next(one.value for one in choice.candidates if one.name == choice.chosen)
    assert run.metrics["dev"]["accuracy"] == pytest.approx(chosen)
    assert run.completed_recipe.training.final_model == "dev"
    assert "The final model is " in render(read_facts(run.folder))


def test_a_training_that_ruins_the_encoder_ends_with_the_probe(sentences, files, tmp_path, monkeypatch):
    # The names of labels say nothing to an encoder with random weights.
    monkeypatch.setattr("warmstart.pipeline.linear_probe.ProbeStart._label_names", lambda self: None)
    ruin = {"max_steps": 12, "learning_rate": 3.0, "max_grad_norm": 0}
    run = fit(
        sentences,
        files,
        tmp_path / "run",
        **PROBE,
        data={"dev": files["test"]},
        training={**ruin, "final_model": "dev"},
    )
    assert run.training.final_model.chosen == "linear-probe"
    probe = fit(sentences, files, tmp_path / "probe", **PROBE, layers={"freeze": "encoder"})
    assert weight_bytes(run.model) == weight_bytes(probe.model)


def test_held_out_rows_choose_and_all_rows_are_trained_on_afterwards(sentences, files, tmp_path, held):
    run = fit(sentences, files, tmp_path / "run")
    choice = run.training.final_model
    assert (choice.part, choice.rows) == ("held-out", 13)
    assert run.data.parts["train"].rows == 64
    assert run.training.linear_probe.of_rows == 64
    assert not (run.folder / held_out.TRIALS).exists()
    field = "layers.freeze" if choice.chosen == "linear-probe" else "training.final_model"
    assert field in [rule.field for rule in run.training.rules]


@pytest.mark.parametrize("step", [1, 5])
def test_a_kill_while_rows_are_held_out_changes_nothing(sentences, files, tmp_path, held, step):
    whole = fit(sentences, files, tmp_path / "whole")
    with pytest.raises(Crash):
        fit(sentences, files, tmp_path / "run", progress=Trouble(step=step, what=crash))
    assert not (tmp_path / "run" / held_out.FOLDER).exists()
    again = fit(sentences, files, tmp_path / "run")
    assert again.training.final_model == whole.training.final_model
    assert weight_bytes(again.model) == weight_bytes(whole.model) != {}


def test_pairs_are_read_as_held_out_rows_say(sentences, files, tmp_path, held, monkeypatch):
    pairs = {"columns": {"pair": "other"}}
    run = warmstart.fit(
        model=sentences, train=files["pairs"], data=pairs, training={"max_steps": 3}, out=tmp_path / "run"
    )
    names = {one.name.partition(", ")[0] for one in run.training.final_model.candidates}
    assert names == {"bi", "cross"}
    chosen = run.training.final_model.chosen.partition(", ")[0]
    assert run.completed_recipe.task.options["encoder"] == chosen


def test_a_time_limit_shortens_the_training_once_for_all(sentences, files, tmp_path, monkeypatch):
    monkeypatch.setattr("warmstart.pipeline.time_limit.seconds_per_step", lambda job: 0.5)
    settings = {**PROBE, "training": {"time_limit": "20s", "max_steps": 100}}
    run = fit(sentences, files, tmp_path / "run", **settings)
    assert 10 <= run.training.steps <= 36
    steps = run.training.steps
    monkeypatch.setattr("warmstart.pipeline.time_limit.seconds_per_step", lambda job: 0.1)
    with pytest.raises(Crash):
        fit(sentences, files, tmp_path / "other", progress=Trouble(step=5, what=crash), **settings)
    monkeypatch.setattr("warmstart.pipeline.time_limit.seconds_per_step", lambda job: 5.0)
    assert fit(sentences, files, tmp_path / "other", **settings).training.steps == 100 != steps


def test_no_time_to_train_leaves_the_probe(sentences, files, tmp_path):
    run = fit(sentences, files, tmp_path / "run", **PROBE, training={"time_limit": 0.01})
    assert run.training.steps == 0
    assert run.metrics["test"]["rows"] == 24


@pytest.mark.parametrize(("value", "seconds"), [("90s", 90), ("10m", 600), ("1.5h", 5400), (30, 30), ("45", 45)])
def test_times_are_read_as_people_write_them(files, value, seconds):
    recipe = make_recipe({"model": "m", "data.train": files["train"], "training.time_limit": value})
    assert recipe.training.time_limit == seconds


def test_a_time_that_is_none_is_refused(files):
    with pytest.raises(RecipeError, match="expected a time such as 90s, 10m or 2h"):
        make_recipe({"model": "m", "data.train": files["train"], "training.time_limit": "soon"})
