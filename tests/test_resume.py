"""A run that was stopped at any step goes on, and ends as if nothing had happened, to the bit."""

import os
import signal
from contextlib import contextmanager

import pytest
from safetensors.torch import load_file

import warmstart
from small import FAST, weight_bytes
from warmstart.errors import RunError, StoppedError, TrainingError
from warmstart.evaluation.run import RunFolder
from warmstart.models import precision
from warmstart.storage.artifacts import verify

SAVES = {"checkpoints": {"every_steps": 3, "when_finished": "keep"}}
LEARN = {"training": {**FAST["training"], "epochs": 3}}  # 12 steps, with dropout


class Crash(Exception):
    """Stands for a kill."""


class Trouble:
    """Progress that makes trouble at a step of the training, and notes what was said."""

    def __init__(self, step=None, what=None):
        self.step, self.what, self.said, self.done = step, what, [], 0

    @contextmanager
    def bar(self, name, total):
        self.training = name == "training"
        self.done = 0
        yield self

    def advance(self, amount=1, note=""):
        self.done += amount
        if self.training and self.done == self.step:
            self.what()

    def log(self, text):
        self.said.append(text)


def crash():
    raise Crash


def terminate():
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.fixture(scope="module")
def fit(encoder, files):
    def call(out, **more):
        settings = {**LEARN, **SAVES, **more}
        return warmstart.fit(model=encoder, train=files["train"], test=files["test"], out=out, **settings)

    return call


@pytest.fixture(scope="module")
def undisturbed(fit, tmp_path_factory):
    return fit(tmp_path_factory.mktemp("undisturbed") / "run")


def same(run, other):
    """Weights, optimizer, order of random numbers, losses and answers, all to the bit."""
    assert weight_bytes(run.model) == weight_bytes(other.model) != {}
    newest = sorted((run.folder / "checkpoints").iterdir())[-1].name
    one, two = (load_file(each.folder / "checkpoints" / newest / "tensors.safetensors") for each in (run, other))
    assert one.keys() == two.keys()
    assert any(name.endswith("exp_avg_sq") for name in one)
    assert all(one[name].equal(two[name]) for name in one)
    assert run.training.history == other.training.history
    assert run.metrics == other.metrics


@pytest.mark.parametrize("step", [1, 3, 4, 8, 11, 12])
def test_a_crash_at_any_step(fit, undisturbed, tmp_path, step):
    with pytest.raises(Crash):
        fit(tmp_path / "run", progress=Trouble(step, crash))
    again = Trouble()
    same(fit(tmp_path / "run", progress=again), undisturbed)
    saved = step - 1 - (step - 1) % 3  # the step's own save had not begun
    assert again.said == ([f"resuming from step-{saved:09d}"] if saved else [])


PIECES = {
    "rates": {"layers": {"lr_decay": 0.8}, "head": {"learning_rate": 1e-2}},
    "gradual unfreezing": {"layers": {"unfreeze": "gradual"}},
    "a schedule in each phase": {"layers": {"unfreeze": "gradual", "unfreeze_every": 5, "lr_schedule_per_phase": True}},
    "chain-thaw by steps": {"layers": {"unfreeze": "chain-thaw", "unfreeze_every": 2, "freeze": 1}},
    "slanted triangle": {
        "training": {**LEARN["training"], "lr_schedule": "slanted-triangular", "adam_bias_correction": False}
    },
    "blocks drawn anew": {"layers": {"reinit_top": 1}, "head": {"init": "zero"}},
    "R-Drop and smoothing": {"training": {**LEARN["training"], "r_drop": 1.0, "label_smoothing": 0.1}},
    "fast dropout": {"training": {**LEARN["training"], "dropout_kernel": "fast"}},
    "averaging": {"training": {**LEARN["training"], "average_last_epochs": 2}},
    "early stopping": {
        "training": {**LEARN["training"], "early_stopping_patience": 3, "epochs": 8},
        "data.split.dev": 0.25,
    },
    "LoRA": {"layers": {"lora": {"rank": 2, "dropout": 0.1}, "unfreeze": "head-first"}},
}


@pytest.mark.parametrize("piece", PIECES)
def test_each_piece_of_the_craft_goes_on_bit_equal(fit, tmp_path, piece):
    """Stopped in the middle, and at the last step of an epoch, where pieces change what they do."""
    whole = fit(tmp_path / "whole", **PIECES[piece])
    for step in (8, 9):
        with pytest.raises(Crash):
            fit(tmp_path / "run", progress=Trouble(step, crash), **PIECES[piece])
    same(fit(tmp_path / "run", **PIECES[piece]), whole)
    assert whole.training.measured == RunFolder(tmp_path / "run").training.measured


@pytest.mark.parametrize("budget", [None, 200])
def test_a_crash_with_rows_of_like_length_together(fit, tmp_path, budget):
    training = {**LEARN["training"], "batching": "by-length", "batch_tokens": budget}
    whole = fit(tmp_path / "whole", training=training)
    with pytest.raises(Crash):
        fit(tmp_path / "run", training=training, progress=Trouble(8, crash))
    same(fit(tmp_path / "run", training=training), whole)


def test_many_crashes_in_one_run(fit, undisturbed, tmp_path):
    for step in (4, 5, 9, 11):
        with pytest.raises(Crash):
            fit(tmp_path / "run", progress=Trouble(step, crash))
    same(fit(tmp_path / "run"), undisturbed)


def test_a_signal_saves_first_and_has_a_code_of_its_own(fit, undisturbed, tmp_path):
    with pytest.raises(StoppedError, match="SIGTERM received: saved after step 5") as stopped:
        fit(tmp_path / "run", progress=Trouble(5, terminate))
    assert stopped.value.exit_code == 75
    again = Trouble()
    same(fit(tmp_path / "run", progress=again), undisturbed)
    assert again.said == ["resuming from step-000000005"]


def test_a_damaged_checkpoint_is_passed_over_by_name(fit, undisturbed, tmp_path):
    with pytest.raises(Crash):
        fit(tmp_path / "run", progress=Trouble(8, crash))
    path = tmp_path / "run" / "checkpoints" / "step-000000006" / "tensors.safetensors"
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 1
    path.write_bytes(bytes(damaged))
    again = Trouble()
    same(fit(tmp_path / "run", progress=again), undisturbed)
    assert "tensors.safetensors was changed" in again.said[0]
    assert again.said[1] == "resuming from step-000000003"


def test_a_finished_training_is_not_done_again(fit, undisturbed, tmp_path):
    run = fit(tmp_path / "run")
    (run.folder / "metrics.json").unlink()
    before = (run.model / "model.safetensors").stat().st_mtime_ns
    again = Trouble()
    same(fit(run.folder, progress=again), undisturbed)
    assert again.said == ["stages/01-finetune is finished; reused"]
    assert (run.model / "model.safetensors").stat().st_mtime_ns == before


def test_going_on_with_other_settings_is_refused_with_the_difference_unless_it_is_named(fit, tmp_path):
    with pytest.raises(Crash):
        fit(tmp_path / "run", progress=Trouble(8, crash))
    other = {"training": {**LEARN["training"], "learning_rate": 1e-4}}
    with pytest.raises(
        RunError, match=r"recipe\.training\.learning_rate: then 0\.003, now 0\.0001\n.*--resume-anyway recipe"
    ):
        fit(tmp_path / "run", **other)
    kept = (tmp_path / "run" / "recipe.yaml").read_text()
    assert "learning_rate: 0.003" in kept
    assert fit(tmp_path / "run", resume_anyway=["recipe.training.learning_rate"], **other).finished


def test_a_machine_of_another_precision_is_refused(fit, tmp_path, monkeypatch):
    auto = {"training": {**LEARN["training"], "precision": "auto"}}
    with pytest.raises(Crash):
        fit(tmp_path / "run", progress=Trouble(8, crash), **auto)
    had = precision.supports_bf16()
    monkeypatch.setattr(precision, "supports_bf16", lambda: not had)
    then, now = ("bf16", "fp32") if had else ("fp32", "bf16")
    with pytest.raises(RunError, match=f"precision: then '{then}', now '{now}'\n.*--resume-anyway precision"):
        fit(tmp_path / "run", **auto)


def test_other_data_is_refused_too(fit, encoder, files, tmp_path):
    with pytest.raises(Crash):
        fit(tmp_path / "run", progress=Trouble(8, crash))
    with pytest.raises(RunError, match=r"data\.train: then"):
        warmstart.fit(model=encoder, train=files["test"], test=files["test"], out=tmp_path / "run", **LEARN, **SAVES)


def test_checkpoints_are_rotated_complete_and_hold_no_pickle(undisturbed):
    kept = sorted((undisturbed.folder / "checkpoints").iterdir())
    assert [path.name for path in kept] == ["step-000000009", "step-000000012"]
    for path in kept:
        assert set(verify(path)["files"]) == {"tensors.safetensors", "state.json", "trainer_state.json"}


def test_checkpoints_go_when_the_run_is_finished_unless_they_are_to_be_kept(fit, tmp_path):
    run = fit(tmp_path / "run", checkpoints={"every_steps": 3})
    assert not (run.folder / "checkpoints").exists()


def test_a_loss_that_is_no_number_stops_the_run_with_its_step_and_rows(fit, files, tmp_path):
    with pytest.raises(TrainingError, match=rf"step \d+: the loss is (nan|inf).*{files['train']}:\d+") as stopped:
        fit(tmp_path / "run", training={**LEARN["training"], "learning_rate": 1e30})
    assert stopped.value.exit_code == 8
    assert not (tmp_path / "run" / "model").exists()
