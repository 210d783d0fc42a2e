"""A plan says what a run takes: its steps, its operations, its memory, and what is left out where layers are frozen."""

import json

import hypothesis.strategies as st
import pytest
import torch
import transformers
from hypothesis import given

from small import FAST, reviews
from tiny import tiny_config, tiny_model
from warmstart.errors import RecipeError
from warmstart.plan.cost_curve import BatchShape, CostCurve, evenly_spaced
from warmstart.plan.devices import DEVICES, find_device, this_machine
from warmstart.plan.estimate import estimate_from_trial, estimate_stage
from warmstart.plan.flops import count_flops
from warmstart.plan.plan import plan, plan_pretraining
from warmstart.plan.teacher import estimate_teacher
from warmstart.plan.trial_run import BATCHES, run_trial
from warmstart.plan.workload import relative_step_cost, workload_of
from warmstart.recipe import DistilOptions, make_recipe
from warmstart.runtime.progress import silent
from warmstart.training.settings import Settings

SHAPES = [(2, 8), (2, 32), (2, 64), (3, 32)]


def batch(lists, length):
    ids = torch.ones((lists, length), dtype=torch.long)
    return {"input_ids": ids, "attention_mask": ids, "labels": torch.zeros(lists, dtype=torch.long)}


def counted(build):
    return count_flops(build, [batch(*shape) for shape in SHAPES], lambda model, given: model(**given).loss, half=False)


@pytest.fixture(scope="module")
def bert():
    return counted(lambda: tiny_model("bert"))


def test_operations_are_those_of_the_formula(bert):
    config = tiny_config("bert")
    width, inner, depth = config.hidden_size, config.intermediate_size, config.num_hidden_layers
    shape = BatchShape(4, 40)
    linear = 2 * depth * (4 * width**2 + 2 * width * inner) * shape.tokens
    attention = 4 * depth * width * shape.tokens * shape.length
    assert bert.forward(shape) == pytest.approx(linear + attention, rel=0.02)
    assert bert.step(shape) == pytest.approx(3 * bert.forward(shape), rel=0.01)
    assert bert.trainable_parameters == bert.parameters == sum(one.numel() for one in tiny_model("bert").parameters())


def test_frozen_layers_cost_no_backward_pass_and_keep_nothing(bert):
    from warmstart.models.layer_map import LayerMap

    def half():
        model = tiny_model("bert")
        LayerMap.of(model).freeze_to(3)
        return model

    frozen, shape = counted(half), BatchShape(4, 40)
    assert frozen.forward(shape) == pytest.approx(bert.forward(shape))
    # A little less: what feeds the lowest block that learns needs no gradient.
    assert frozen.step(shape) == pytest.approx((1 + 2 / 3) * bert.forward(shape), rel=0.1)
    assert frozen.activations(shape) < 0.5 * bert.activations(shape)
    assert frozen.trainable_parameters < bert.trainable_parameters


@pytest.mark.parametrize("name", ["deberta", "modernbert"])
def test_models_that_look_at_values_are_counted_too(name):
    cost = counted(lambda: tiny_model(name))
    assert cost.step(BatchShape(4, 40)) > cost.forward(BatchShape(4, 40)) > 0


@given(st.tuples(*[st.floats(0, 1e6)] * 3), st.lists(st.tuples(st.integers(1, 64), st.integers(1, 512)), min_size=1))
def test_a_curve_gives_back_the_costs_it_goes_through(parts, shapes):
    shapes = [BatchShape(*shape) for shape in shapes]
    true = CostCurve(*parts)
    curve = CostCurve.through(shapes, [true(shape) for shape in shapes])
    assert curve.total(shapes) == pytest.approx(true.total(shapes), rel=1e-3, abs=1e-3)


@given(st.integers(1, 500), st.integers(1, 20))
def test_even_places_have_the_first_and_the_last(count, wanted):
    indices = evenly_spaced(count, wanted)
    assert len(indices) == min(count, wanted)
    assert indices[0] == 0
    assert wanted == 1 or indices[-1] == count - 1


@pytest.mark.parametrize(("plan_name", "low", "high"), [("all", 1, 1), ("head-first", 0.7, 0.9), ("gradual", 0.5, 0.9)])
def test_steps_with_fewer_layers_learning_cost_their_share(plan_name, low, high):
    share = relative_step_cost(Settings(unfreeze=plan_name), groups=6, steps=30, epoch=10)
    assert low <= share <= high
    assert relative_step_cost(Settings(unfreeze=plan_name, unfreeze_every=1), groups=6, steps=3000, epoch=10) > 0.99


def test_bert_base_from_scratch_is_of_the_known_size():
    (estimate,) = plan_pretraining(1_000_000, 256, 512, hardware="a100-80", devices=8)
    parameters = transformers.BertConfig().vocab_size * 768 + 12 * (12 * 768**2)
    assert estimate.flops == pytest.approx(6 * parameters * estimate.tokens, rel=0.15)
    assert 9e19 < estimate.flops < 1e20
    assert estimate.tokens == 131_072_000_000
    assert 1 < estimate.seconds.total / 86400 < 2
    assert estimate.fits


def recipe_of(encoder, files, **fields):
    return make_recipe({"model": encoder, "data.train": files["train"], "data.test": files["test"], **FAST, **fields})


def test_a_plan_has_the_steps_and_rows_of_the_run(run, encoder, files, tmp_path):
    work = workload_of(recipe_of(encoder, files), this_machine().precision, tmp_path, silent)
    assert work.steps == run.training.steps
    assert work.rows == {"train": 64, "test": 24}
    assert 0 <= work.padding < 0.5
    cheap, dear = (estimate_stage("finetune", work, find_device(name)) for name in ("t4", "h100"))
    assert cheap.flops == dear.flops > 0
    assert cheap.memory_gb > 1
    assert estimate_stage("finetune", work, find_device("t4"), price=36).cost == pytest.approx(
        cheap.seconds.total / 100
    )


def test_a_trial_run_times_steps_from_the_smallest_batch_to_the_largest(encoder, files, tmp_path):
    recipe = recipe_of(encoder, files, **{"training.batch_size": 4, "layers.unfreeze": "gradual"})
    trial = run_trial(recipe, tmp_path / "trial")
    (tmp_path / "work").mkdir()
    work = workload_of(recipe, this_machine().precision, tmp_path / "work", silent)
    assert len({step.shape for step in trial.steps}) <= BATCHES
    assert {max(step.shape for step in trial.steps)} <= set(work.shapes)
    assert all(step.seconds > 0 and step.cpu_seconds > 0 for step in trial.steps)
    estimate = estimate_from_trial("finetune", work, this_machine(), trial)
    assert estimate.measured
    assert estimate.memory_gb == trial.peak_gb >= trial.resting_gb > 0
    each = [step.seconds for step in trial.steps]
    assert min(each) / 2 * work.steps < estimate.seconds.training < 2 * max(each) * work.steps


def test_a_trial_run_refuses_what_a_run_refuses(encoder, files):
    recipe = recipe_of(encoder, files, **{"training.early_stopping_patience": 2})
    with pytest.raises(RecipeError, match=r"training\.early_stopping_patience: there are no dev rows; set data\.dev"):
        plan(recipe, measure=True)


def test_precision_is_what_the_device_has():
    assert find_device("t4").precision("auto", half=True) == "fp32"
    assert find_device("l4").precision("auto", half=True) == "bf16"
    assert find_device("l4").precision("auto", half=False) == "fp32"
    with pytest.raises(RecipeError, match="t4 has fp32, fp16"):
        find_device("t4").precision("bf16", half=True)
    with pytest.raises(RecipeError, match="did you mean 'a100-80'"):
        find_device("a100-8")


@pytest.mark.parametrize("device", DEVICES.values(), ids=lambda one: one.name)
def test_every_device_says_what_share_of_each_peak_is_reached(device):
    assert set(device.peak_tflops) <= set(device.utilization)
    assert all(0 < share < 1 for share in device.utilization.values())


def test_of_several_encoders_one_is_planned(files):
    recipe = make_recipe({"model": "auto", "models": ["a/b", "c/d"], "data.train": files["train"]})
    with pytest.raises(RecipeError, match=r"models: fit trains one of a/b, c/d.*--model a/b"):
        plan(recipe)


def test_a_plan_counts_the_slices_that_an_epoch_draws(encoder, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("text,label\n" + "".join(f"{'film ' * (20 + n)},{'ab'[n % 2]}\n" for n in range(20)))
    window = {"window.method": "slices", "window.max_tokens": 8, "training.max_steps": 5}
    both = [
        plan(make_recipe({"model": encoder, "data.train": str(path), **window, **more}))[-1].tokens
        for more in ({}, {"training.slices_per_text": 1})
    ]
    assert 3 * both[1] < both[0]


def test_a_plan_counts_a_teachers_answers_and_the_rows_its_student_learns(run, encoder, files, tmp_path):
    texts = tmp_path / "texts.jsonl"
    rows = [{"text": text} for text, _ in (*reviews(40, 5000), reviews(1, 1000)[0])]  # the last is in the test rows
    texts.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    stage = {"distil": {"teacher": str(run.folder), "texts": str(texts)}}
    (alone,) = plan(recipe_of(encoder, files))
    teacher, student = plan(recipe_of(encoder, files, stages=[stage]))
    assert (teacher.stage, teacher.rows, teacher.steps) == ("distil: teacher", {"texts": 41}, 0)
    assert 0 < teacher.flops < student.flops
    assert student.rows == {"train": 104, "test": 24}
    assert student.flops > 1.3 * alone.flops
    measured = estimate_teacher(
        DistilOptions(**stage["distil"]), recipe_of(encoder, files), this_machine(), 36, True, silent
    )
    assert measured.measured
    assert measured.cost == pytest.approx(measured.seconds.total / 100)
