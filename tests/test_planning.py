"""A plan says what a run takes: its steps, its operations, its memory, and what is left out where layers are frozen."""

import hypothesis.strategies as st
import pytest
import torch
import transformers
from hypothesis import given

from small import FAST
from tiny import tiny_config, tiny_model
from warmstart.errors import RecipeError
from warmstart.plan.cost_curve import Curve, Shape, evenly
from warmstart.plan.devices import DEVICES, find, here
from warmstart.plan.estimate import estimate, from_measured
from warmstart.plan.flops import count
from warmstart.plan.plan import plan, plan_pretraining
from warmstart.plan.trial_run import BATCHES, perform
from warmstart.plan.workload import share_of, work_of
from warmstart.recipe import make_recipe
from warmstart.runtime.progress import silent
from warmstart.training.settings import Settings

SHAPES = [(2, 8), (2, 32), (2, 64), (3, 32)]


def batch(lists, length):
    ids = torch.ones((lists, length), dtype=torch.long)
    return {"input_ids": ids, "attention_mask": ids, "labels": torch.zeros(lists, dtype=torch.long)}


def counted(build):
    return count(build, [batch(*shape) for shape in SHAPES], lambda model, given: model(**given).loss, half=False)


@pytest.fixture(scope="module")
def bert():
    return counted(lambda: tiny_model("bert"))


def test_operations_are_those_of_the_formula(bert):
    config = tiny_config("bert")
    width, inner, depth = config.hidden_size, config.intermediate_size, config.num_hidden_layers
    shape = Shape(4, 40)
    linear = 2 * depth * (4 * width**2 + 2 * width * inner) * shape.tokens
    attention = 4 * depth * width * shape.tokens * shape.length
    assert bert.forward(shape) == pytest.approx(linear + attention, rel=0.02)
    assert bert.step(shape) == pytest.approx(3 * bert.forward(shape), rel=0.01)
    assert bert.learning == bert.parameters == sum(one.numel() for one in tiny_model("bert").parameters())


def test_frozen_layers_cost_no_backward_pass_and_keep_nothing(bert):
    from warmstart.models.layer_map import LayerMap

    def half():
        model = tiny_model("bert")
        LayerMap.of(model).freeze_to(3)
        return model

    found, shape = counted(half), Shape(4, 40)
    assert found.forward(shape) == pytest.approx(bert.forward(shape))
    # A little less: what feeds the lowest block that learns needs no gradient.
    assert found.step(shape) == pytest.approx((1 + 2 / 3) * bert.forward(shape), rel=0.1)
    assert found.kept(shape) < 0.5 * bert.kept(shape)
    assert found.learning < bert.learning


@pytest.mark.parametrize("name", ["deberta", "modernbert"])
def test_models_that_look_at_values_are_counted_too(name):
    found = counted(lambda: tiny_model(name))
    assert found.step(Shape(4, 40)) > found.forward(Shape(4, 40)) > 0


@given(st.tuples(*[st.floats(0, 1e6)] * 3), st.lists(st.tuples(st.integers(1, 64), st.integers(1, 512)), min_size=1))
def test_a_curve_gives_back_the_costs_it_goes_through(parts, shapes):
    shapes = [Shape(*one) for one in shapes]
    true = Curve(*parts)
    found = Curve.through(shapes, [true(one) for one in shapes])
    assert found.total(shapes) == pytest.approx(true.total(shapes), rel=1e-3, abs=1e-3)


@given(st.integers(1, 500), st.integers(1, 20))
def test_even_places_have_the_first_and_the_last(count, wanted):
    found = evenly(count, wanted)
    assert len(found) == min(count, wanted)
    assert found[0] == 0
    assert wanted == 1 or found[-1] == count - 1


@pytest.mark.parametrize(("plan_name", "low", "high"), [("all", 1, 1), ("head-first", 0.7, 0.9), ("gradual", 0.5, 0.9)])
def test_steps_with_fewer_layers_learning_cost_their_share(plan_name, low, high):
    found = share_of(Settings(unfreeze=plan_name), groups=6, steps=30, epoch=10)
    assert low <= found <= high
    assert share_of(Settings(unfreeze=plan_name, unfreeze_every=1), groups=6, steps=3000, epoch=10) > 0.99


def test_bert_base_from_scratch_is_of_the_known_size():
    (found,) = plan_pretraining(1_000_000, 256, 512, hardware="a100-80", devices=8)
    parameters = transformers.BertConfig().vocab_size * 768 + 12 * (12 * 768**2)
    assert found.operations == pytest.approx(6 * parameters * found.tokens, rel=0.15)
    assert 9e19 < found.operations < 1e20
    assert found.tokens == 131_072_000_000
    assert 1 < found.seconds.total / 86400 < 2
    assert found.fits


def recipe_of(encoder, files, **said):
    return make_recipe({"model": encoder, "data.train": files["train"], "data.test": files["test"], **FAST, **said})


def test_a_plan_has_the_steps_and_rows_of_the_run(run, encoder, files, tmp_path):
    work = work_of(recipe_of(encoder, files), here().precision, tmp_path, silent)
    assert work.steps == run.training["steps"]
    assert work.rows == {"train": 64, "test": 24}
    assert 0 <= work.padding < 0.5
    cheap, dear = (estimate("finetune", work, find(name)) for name in ("t4", "h100"))
    assert cheap.operations == dear.operations > 0
    assert cheap.gb > 1
    assert estimate("finetune", work, find("t4"), price=36).cost == pytest.approx(cheap.seconds.total / 100)


def test_a_rehearsal_times_steps_from_the_smallest_batch_to_the_largest(encoder, files, tmp_path):
    recipe = recipe_of(encoder, files, **{"training.batch_size": 4, "layers.unfreeze": "gradual"})
    seen = perform(recipe, tmp_path / "rehearsal")
    (tmp_path / "work").mkdir()
    work = work_of(recipe, here().precision, tmp_path / "work", silent)
    assert len({step.shape for step in seen.steps}) <= BATCHES
    assert {max(step.shape for step in seen.steps)} <= set(work.shapes)
    assert all(step.seconds > 0 and step.busy > 0 for step in seen.steps)
    found = from_measured("finetune", work, here(), seen)
    assert found.measured
    assert found.gb == seen.gb >= seen.resting > 0
    each = [step.seconds for step in seen.steps]
    assert min(each) / 2 * work.steps < found.seconds.training < 2 * max(each) * work.steps


def test_what_a_rehearsal_refuses_is_said_as_a_run_says_it(encoder, files):
    recipe = recipe_of(encoder, files, **{"training.early_stopping_patience": 2})
    with pytest.raises(RecipeError, match="there are no dev rows to measure on"):
        plan(recipe, measure=True)


def test_precision_is_what_the_device_has():
    assert find("t4").precision("auto", half=True) == "fp32"
    assert find("l4").precision("auto", half=True) == "bf16"
    assert find("l4").precision("auto", half=False) == "fp32"
    with pytest.raises(RecipeError, match="t4 has fp32, fp16"):
        find("t4").precision("bf16", half=True)
    with pytest.raises(RecipeError, match="did you mean 'a100-80'"):
        find("a100-8")


@pytest.mark.parametrize("device", DEVICES.values(), ids=lambda one: one.name)
def test_every_device_says_what_share_of_each_peak_is_reached(device):
    assert set(device.peak) <= set(device.share)
    assert all(0 < share < 1 for share in device.share.values())
