"""Schedules as closed forms; averaging, early stopping, R-Drop and smoothing as one would compute them by hand."""

import math
from pathlib import Path

import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch.nn import functional as F

import warmstart
from small import FAST
from tiny import tiny_model, tiny_tokenizer
from warmstart.data.arrow_files import write_arrow
from warmstart.errors import RecipeError
from warmstart.models.layer_map import LayerMap
from warmstart.recipe import make_recipe
from warmstart.tasks.classify import Classify, ClassifyOptions
from warmstart.text.windows import Window
from warmstart.training.job import TrainingHooks, TrainingJob
from warmstart.training.r_drop import divergence, duplicate_batch
from warmstart.training.schedules import (
    SCHEDULES,
    Phases,
    lr_factor,
    lr_factor_in,
    make_scheduler,
    undo_bias_correction,
)
from warmstart.training.settings import Settings
from warmstart.training.train import train


def slanted_triangular(t, T, cut_frac, ratio):
    """Howard and Ruder 2018, eq. 3, letter by letter."""
    cut = math.ceil(T * cut_frac)
    p = t / cut if t < cut else 1 - (t - cut) / (cut * (1 / cut_frac - 1))
    return (1 + p * (ratio - 1)) / ratio


def test_slanted_triangular_is_the_papers_equation():
    for t in range(101):
        assert lr_factor("slanted-triangular", t, 100, 0.1, 32) == pytest.approx(slanted_triangular(t, 100, 0.1, 32))


@pytest.mark.parametrize(
    ("name", "at"),
    {
        "linear": lambda x: 1 - x,
        "cosine": lambda x: 0.5 * (1 + math.cos(math.pi * x)),
        "constant": lambda x: 1,
        "reverse-annealing": lambda x: 1 / 32 + 31 / 32 * 0.5 * (1 - math.cos(math.pi * x)),
        "warmup-stable-decay": lambda x: 1 if x <= 0.8 else (1 - x) * 5,
    }.items(),
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_schedules_equal_their_closed_forms(name, at):
    top = at(0)
    for step in range(20):
        assert lr_factor(name, step, 200, 0.1) == pytest.approx(top * step / 20)
    for step in range(20, 201):
        assert lr_factor(name, step, 200, 0.1) == pytest.approx(at((step - 20) / 180), abs=1e-12)


@pytest.mark.parametrize("name", SCHEDULES)
@given(step=st.integers(0, 1000), steps=st.integers(1, 1000), warmup=st.floats(0, 0.99), ratio=st.floats(1, 100))
def test_a_factor_is_never_below_zero_or_above_the_peak(name, step, steps, warmup, ratio):
    assert 0 <= lr_factor(name, min(step, steps), steps, warmup, ratio) <= 1 + 1e-12


def test_a_schedule_keeps_the_ratio_between_layers():
    layers = LayerMap.of(tiny_model("bert"))
    optimizer = torch.optim.AdamW(layers.param_groups(learning_rate=1.0, lr_decay=0.5))
    follows = make_scheduler(optimizer, "linear", 10, warmup=0.0)
    for step in range(10):
        rates = [group["lr"] for group in optimizer.param_groups]
        assert rates == pytest.approx([group["initial_lr"] * (1 - step / 10) for group in optimizer.param_groups])
        optimizer.step()
        follows.step()
    with pytest.raises(RecipeError, match=r"training\.lr_schedule: found 'liner'; did you mean 'linear'"):
        make_scheduler(optimizer, "liner", 10)


def test_each_phase_has_the_papers_triangle():
    """ULMFiT trains each phase, of 20 steps here, by eq. 3; the third and last one goes on until the end."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    follows = make_scheduler(optimizer, "slanted-triangular", 100, 0.1, 32, phases=Phases(20, 3))
    expected = [slanted_triangular(t, 20, 0.1, 32) for t in range(20)] * 2
    expected += [slanted_triangular(t, 60, 0.1, 32) for t in range(61)]
    rates = []
    for _ in range(101):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        follows.step()
    assert rates == pytest.approx(expected)
    assert Phases(20, 8).locate(49, 50) == (9, 10), "a training that ends in a phase ends its schedule, too"
    assert Phases(20, 8).locate(40, 40) == (20, 20)
    assert [lr_factor_in(Phases(1, 3), "linear", step, 3) for step in range(3)] == [1.0] * 3, "a phase of one step"


def test_a_layer_starts_with_a_schedule_of_its_own(encoder, files, tmp_path):
    """Under one schedule, the second phase would start at half of the peak, and never come back to it."""

    def rates(name, **layers):
        training = {**FAST["training"], "max_steps": 8, "warmup": 0.0, "learning_rate": 1.0e-3}
        run = warmstart.fit(
            model=encoder,
            train=files["train"],
            test=files["test"],
            out=tmp_path / name,
            training=training,
            layers={"unfreeze": "head-first", "unfreeze_every": 4, **layers},
            trainer={"logging_steps": 1},
        )
        return [entry["learning_rate"] for entry in run.training.history if "learning_rate" in entry]

    linear = [1e-3 * (1 - step / 8) for step in range(8)]
    assert rates("one") == pytest.approx(linear)
    assert rates("own", lr_schedule_per_phase=True) == pytest.approx([1e-3 * (1 - step / 4) for step in range(4)] * 2)
    with pytest.raises(RecipeError, match=r"lr_schedule_per_phase: found true, but unfreeze is all.*expected unfreeze"):
        make_recipe({"model": "m", "data.train": "t.csv", "layers.lr_schedule_per_phase": True})


def test_the_factor_without_bias_correction_gives_the_steps_of_berts_first_optimizer():
    start, gradients = torch.tensor([1.0, -2.0]), [torch.tensor([0.3, -0.1]), torch.tensor([0.2, 0.4])]
    ours = start.clone().requires_grad_()
    optimizer = torch.optim.AdamW([ours], lr=1.0, weight_decay=0.0, eps=1e-12)
    m, v, theirs = torch.zeros(2), torch.zeros(2), start.clone()
    for step, gradient in enumerate(gradients):
        optimizer.param_groups[0]["lr"] = 0.01 * undo_bias_correction(step)
        ours.grad = gradient
        optimizer.step()
        m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
        theirs = theirs - 0.01 * m / v.sqrt()
        torch.testing.assert_close(ours.detach(), theirs)


def test_what_two_passes_differ_by_is_the_papers_divergence():
    logits = torch.randn(6, 4)
    p, q = logits[:3].softmax(-1), logits[3:].softmax(-1)
    kl = ((p * (p / q).log()).sum(-1) + (q * (q / p).log()).sum(-1)).mean() / 2
    torch.testing.assert_close(divergence(logits, "single_label_classification"), kl)
    a, b = logits[:3].sigmoid(), logits[3:].sigmoid()
    one = a * (a / b).log() + (1 - a) * ((1 - a) / (1 - b)).log()
    two = b * (b / a).log() + (1 - b) * ((1 - b) / (1 - a)).log()
    torch.testing.assert_close(divergence(logits, "multi_label_classification"), (one + two).mean() / 2)
    torch.testing.assert_close(divergence(logits, "regression"), (logits[:3] - logits[3:]).square().mean())
    assert divergence(torch.cat([logits, logits]), None) == 0
    assert duplicate_batch({"a": torch.tensor([1, 2])})["a"].tolist() == [1, 2, 1, 2]


def test_smoothing_spreads_the_target_and_a_score_refuses_it(encoder, files, tmp_path):
    scores, labels = torch.randn(5, 3), torch.tensor([0, 1, 2, 0, 1])
    task = Classify.from_answers(ClassifyOptions(), ["a", "b", "c"], pair=False)
    target = 0.9 * F.one_hot(labels, 3) + 0.1 / 3
    expected = -(target * scores.log_softmax(-1)).sum(-1).mean()
    torch.testing.assert_close(task.loss(0.1)({"logits": scores}, labels), expected)
    assert task.loss() is None
    with pytest.raises(RecipeError, match=r"training\.label_smoothing: found 0\.1, but score has no labels"):
        warmstart.fit(
            model=encoder, task="score", train=files["scores"], out=tmp_path / "run", training={"label_smoothing": 0.1}
        )


@pytest.fixture
def rows(tmp_path):
    texts = {"text": ["the good film", "bad", "a boring story", "loved it"] * 4, "label": ["a", "b", "c", "a"] * 4}
    features = TASK.encode(texts, tiny_tokenizer(), Window(32))
    columns = {name: [feature[name] for feature in features] for name in ("input_ids", "token_type_ids", "labels")}
    return write_arrow([{**columns, "row": list(range(len(features)))}], tmp_path / "rows.arrow")


TASK = Classify.from_answers(ClassifyOptions(), ["a", "b", "c"], pair=False)


def trained(rows, folder, measure=None, **settings):
    model = tiny_model("bert", "sequence", num_labels=3)
    model.config.problem_type = "single_label_classification"
    settings = Settings(**{"batch_size": 4, "precision": "fp32", "learning_rate": 1e-3, "epochs": 3, **settings})
    hooks = TrainingHooks(evaluate=measure and (lambda: measure(model)))
    return model, train(TrainingJob(model, TASK, tiny_tokenizer(), rows, settings), Path(folder), hooks=hooks)


def test_averaging_leaves_the_mean_of_the_last_epochs(rows, tmp_path):
    kept = []

    def keep(model):
        kept.append({name: tensor.clone() for name, tensor in model.state_dict().items()})
        return float(len(kept))  # ever better, so never stopped

    trained(rows, tmp_path, keep, early_stopping_patience=9)
    averaged, _ = trained(rows, tmp_path, average_last_epochs=2)
    assert len(kept) == 3
    for name, tensor in averaged.state_dict().items():
        torch.testing.assert_close(tensor, (kept[1][name] + kept[2][name]) / 2)


def test_early_stopping_keeps_the_best_epoch_and_says_what_it_saw(rows, tmp_path):
    values, kept = iter([0.5, 0.7, 0.6, math.nan, 0.9]), []

    def measure(model):
        kept.append({name: tensor.clone() for name, tensor in model.state_dict().items()})
        return next(values)

    model, done = trained(rows, tmp_path, measure, early_stopping_patience=2, epochs=9)
    assert done.steps == 16
    assert [one["value"] for one in done.evaluations] == [0.5, 0.7, 0.6, None]
    assert all(torch.equal(tensor, kept[1][name]) for name, tensor in model.state_dict().items())


def test_early_stopping_without_dev_rows_and_two_ways_to_keep_weights_are_refused(rows, tmp_path):
    with pytest.raises(
        RecipeError, match=r"training\.early_stopping_patience: there are no dev rows.*data\.split\.dev: 0\.1"
    ):
        trained(rows, tmp_path, early_stopping_patience=1)
    with pytest.raises(RecipeError, match=r"training\.average_last_epochs and training\.early_stopping_patience"):
        trained(rows, tmp_path, lambda model: 1.0, early_stopping_patience=1, average_last_epochs=2)


@pytest.fixture
def fit(encoder, files, tmp_path):
    """A run on the small data, with what is said of learning and of anything else."""

    def call(training, **more):
        out, training = tmp_path / "run", {**FAST["training"], **training}
        return warmstart.fit(
            model=encoder, train=files["train"], test=files["test"], out=out, training=training, **more
        )

    return call


def test_early_stopping_in_a_run_measures_the_dev_rows(fit):
    run = fit({"epochs": 20, "early_stopping_patience": 2}, **{"data.split.dev": 0.25})
    measured = run.training.measured
    assert len(measured) < 20
    assert run.metrics["dev"]["accuracy"] == pytest.approx(max(one["value"] for one in measured))


def test_small_data_is_trained_for_as_many_steps_as_asked_for(rows, tmp_path):
    assert trained(rows, tmp_path, epochs=None, min_steps=30)[1].steps == 32
    assert trained(rows, tmp_path, epochs=None, min_steps=5)[1].steps == 12
    assert trained(rows, tmp_path, epochs=1, min_steps=30)[1].steps == 4


def test_r_drop_changes_what_is_learned_and_frozen_layers_keep_every_bit(rows, tmp_path):
    plain, _ = trained(rows, tmp_path)
    other, _ = trained(rows, tmp_path, r_drop=1.0)
    assert not torch.equal(plain.classifier.weight, other.classifier.weight)
    frozen, _ = trained(rows, tmp_path, freeze=2)
    start = tiny_model("bert", "sequence", num_labels=3)
    for name, tensor in LayerMap.of(frozen).blocks[0].parameters.items():
        assert torch.equal(tensor, start.state_dict()[name])
    assert not torch.equal(
        frozen.bert.encoder.layer[1].output.dense.weight, start.bert.encoder.layer[1].output.dense.weight
    )


def test_a_model_trained_with_lora_opens_without_it_and_kept_its_embeddings(fit, encoder):
    run = fit({"epochs": 2}, layers={"lora": {"rank": 2}})
    kept, start = load_file(run.model / "model.safetensors"), load_file(Path(encoder) / "model.safetensors")
    assert not [name for name in kept if "lora" in name]
    name = "embeddings.word_embeddings.weight"
    assert torch.equal(kept[f"bert.{name}"], start[name])
    name = "encoder.layer.0.attention.self.query.weight"
    assert not torch.equal(kept[f"bert.{name}"], start[name])
    assert transformers.AutoModelForSequenceClassification.from_pretrained(run.model).config.num_labels == 2


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"layers": {"freeze": 9}}, r"layers\.freeze: found 9; this model has 5 layers"),
        ({"training": {"early_stopping_patience": 2}}, r"training\.early_stopping_patience: there are no dev rows"),
        ({"training": {"batch_tokens": 4}}, r"training\.batch_tokens: found 4, but a row has \d+ tokens"),
        (
            {"training": {"batch_tokens": 400, "batching": "random"}},
            r"training\.batch_tokens: needs rows of similar length",
        ),
        ({"layers": {"reinit_top": 4}}, r"layers\.reinit_top: found 4; this encoder has 3 blocks"),
    ],
    ids=["freeze", "early_stopping_patience", "batch_tokens", "batching", "reinit_top"],
)
def test_what_cannot_be_is_refused_before_a_folder_is_left(encoder, files, tmp_path, settings, told):
    with pytest.raises(RecipeError, match=told):
        warmstart.fit(model=encoder, train=files["train"], out=tmp_path / "run", **settings)
    assert not (tmp_path / "run").exists()
