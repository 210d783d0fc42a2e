"""Trackers receive what a training records itself, and one that cannot be used is refused before anything is read."""

import pytest

import warmstart
from small import FAST
from warmstart.errors import MissingExtraError, RecipeError

SMALL = {"learning_rate": 3e-3, "max_steps": 12, "batch_size": 16, "precision": "fp32"}


def test_tensorboard_has_the_losses_rates_and_scores_of_a_training(encoder, files, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = warmstart.fit(
        model=encoder,
        train=files["train"],
        dev=files["test"],
        out=tmp_path / "run",
        trainer={"report_to": "tensorboard"},
        training={**SMALL, "early_stopping_patience": 5},
    )
    events = EventAccumulator(str(tmp_path / "run" / "trainer" / "tensorboard")).Reload()
    losses = {event.step: event.value for event in events.Scalars("train/loss")}
    assert losses == {entry["step"]: pytest.approx(entry["loss"]) for entry in run.training.history}
    scores = [event.value for event in events.Scalars("eval/score")]
    assert scores == [pytest.approx(one["value"]) for one in run.training.measured]


def test_a_local_mlflow_has_the_run_under_its_name(encoder, files, tmp_path, monkeypatch):
    from mlflow import MlflowClient

    store = f"file:{tmp_path / 'mlruns'}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    run = warmstart.fit(
        model=encoder, train=files["train"], out=tmp_path / "reviews", trainer={"report_to": ["mlflow"]}, training=SMALL
    )
    client = MlflowClient(store)
    (tracked,) = client.search_runs(["0"])
    assert tracked.info.run_name == "reviews"
    assert tracked.info.status == "FINISHED"
    assert tracked.data.params["learning_rate"] == "0.003"
    history = client.get_metric_history(tracked.info.run_id, "loss")
    assert {one.step: one.value for one in history} == {
        entry["step"]: pytest.approx(entry["loss"]) for entry in run.training.history
    }


def test_an_error_of_a_tracker_is_reported_as_such(encoder, files, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file:{tmp_path / 'mlruns'}")
    monkeypatch.delenv("MLFLOW_ALLOW_FILE_STORE", raising=False)
    with pytest.raises(RecipeError, match=r"trainer\.report_to: mlflow failed: .*MLFLOW_ALLOW_FILE_STORE"):
        warmstart.fit(
            model=encoder, train=files["train"], out=tmp_path / "run", trainer={"report_to": "mlflow"}, training=SMALL
        )


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("tensorbord", RecipeError, r"trainer\.report_to: 'tensorbord' is not a tracker; did you mean 'tensorboard'"),
        ("dvclive", MissingExtraError, r"trainer\.report_to: dvclive is not installed; type: pip install dvclive"),
    ],
)
def test_a_tracker_that_cannot_be_used_is_refused_before_the_data_is_read(name, error, message, tmp_path):
    with pytest.raises(error, match=message):
        warmstart.fit(model="none", train="none.csv", out=tmp_path / "run", trainer={"report_to": name}, **FAST)
    assert not (tmp_path / "run").exists()
