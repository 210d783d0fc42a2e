"""A head that starts as the solution of a linear model on the encoder's features."""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from scipy.special import expit, softmax
from sklearn.linear_model import LogisticRegression, Ridge
from typer.testing import CliRunner

import warmstart
from small import FAST, saved_weights, weight_bytes
from test_resume import Crash, Trouble, crash
from tiny import declare_mean_pooling, save_tiny
from warmstart.cli.main import app
from warmstart.errors import RecipeError
from warmstart.evaluation.run import RunFolder
from warmstart.models import linear_probe
from warmstart.models.linear_probe import fit_head, fit_probe, sample_rows
from warmstart.models.sentence_transformers_folder import declared_pooling
from warmstart.models.temperature import fit_temperature

PROBE = {"head.init": "linear-probe", "training": FAST["training"]}
SOLVED = {"layers.freeze": "encoder", "head.init": "linear-probe"}


def clusters(labels=4, rows=30, size=6):
    """Vectors around a centre for each label, and the label of each."""
    draw = np.random.default_rng(0)
    centres = draw.normal(size=(labels, size))
    targets = np.arange(rows * labels) % labels
    return (centres[targets] + draw.normal(size=(len(targets), size))).astype(np.float32) * 7, targets


def standard(vectors):
    """Around 0, and of length 1."""
    centred = vectors - vectors.mean(axis=0)
    return centred / np.sqrt(np.mean(np.sum(centred**2, axis=1)))


def spread(logits):
    """From the least to the most probable label of each row."""
    return logits.max(axis=1) - logits.min(axis=1)


@pytest.mark.parametrize("labels", [2, 4])
def test_the_probabilities_are_those_of_scikit_learn(labels):
    vectors, targets = clusters(labels)
    probe = fit_probe(vectors, targets, "logistic", labels)
    scaled = standard(vectors)
    reference = LogisticRegression(C=probe.strength, max_iter=300, tol=1e-3).fit(scaled, targets)
    logits = np.log(reference.predict_proba(scaled))
    held_out = np.concatenate([rows for rows, _ in probe.held_out])
    # The temperature is that of the held-out rows; at it the probabilities are those of scikit-learn.
    ratios = spread(probe.outputs(vectors)) / spread(logits)
    assert ratios == pytest.approx(np.full(len(vectors), ratios[0]), rel=1e-3)
    assert softmax(probe.outputs(vectors) / ratios[0], axis=1) == pytest.approx(softmax(logits, axis=1), abs=1e-4)
    outputs = np.concatenate([out for _, out in probe.held_out]).astype(float)
    assert fit_temperature(outputs, targets[held_out]) == pytest.approx(1, abs=0.01)


def test_vectors_that_all_point_the_same_way_are_told_apart():
    draw = np.random.default_rng(0)
    targets = np.arange(150 * 4) % 150
    small = draw.normal(size=(150, 60))[targets] + draw.normal(size=(len(targets), 60)) * 0.3
    vectors = (small * 0.02 + draw.normal(size=60)).astype(np.float32)  # as those of many encoders do
    probe = fit_probe(vectors, targets, "logistic", 150)
    assert (probe.outputs(vectors).argmax(axis=1) == targets).mean() > 0.95
    assert np.mean([(out.argmax(axis=1) == targets[rows]).mean() for rows, out in probe.held_out]) > 0.9
    start = fit_head(vectors, targets, "logistic", 150, linear_probe.START_STRENGTH)
    assert (start.outputs(vectors).argmax(axis=1) == targets).mean() > 0.95
    elsewhere = fit_head(vectors + 5, targets, "logistic", 150, linear_probe.START_STRENGTH)
    assert elsewhere.outputs(vectors + 5) == pytest.approx(start.outputs(vectors), abs=0.01)


def test_several_labels_a_row_are_as_many_regressions():
    vectors, targets = clusters(3)
    matrix = np.stack([targets == 0, targets != 2, np.ones(len(targets)), np.zeros(len(targets))], axis=1).astype(int)
    probe = fit_probe(vectors, matrix, "multi-label-logistic", 4)
    scaled = standard(vectors)
    for label in (0, 1):
        reference = LogisticRegression(C=probe.strength, max_iter=300, tol=1e-3).fit(scaled, matrix[:, label])
        given = expit(probe.outputs(vectors)[:, label])
        assert given == pytest.approx(reference.predict_proba(scaled)[:, 1], abs=1e-4)
    sure = expit(probe.outputs(vectors)[:, 2:])
    assert sure == pytest.approx(np.array([[1.0, 0.0]] * len(vectors)), abs=1e-6)


def test_numbers_are_a_ridge_regression():
    vectors, _ = clusters()
    numbers = vectors @ np.arange(6) + 3.0
    probe = fit_probe(vectors, numbers, "ridge", 1)
    scaled = standard(vectors)
    reference = Ridge(alpha=probe.strength * len(vectors) / 100).fit(scaled, numbers)
    assert probe.outputs(vectors)[:, 0] == pytest.approx(reference.predict(scaled), rel=1e-3)


def test_the_strength_is_the_one_that_loses_least_on_rows_held_out():
    vectors, targets = clusters()
    probe = fit_probe(vectors, targets, "logistic", 4)
    assert sorted(row for rows, _ in probe.held_out for row in rows) == list(range(len(targets)))

    def loss(probe):
        parts = [-np.log(softmax(out, axis=1)[np.arange(len(rows)), targets[rows]]) for rows, out in probe.held_out]
        return np.mean([part.mean() for part in parts])

    chosen = loss(probe)
    for other in linear_probe.STRENGTHS["logistic"]:
        only = {**linear_probe.STRENGTHS, "logistic": (other, other)}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(linear_probe, "STRENGTHS", only)
            assert chosen <= loss(fit_probe(vectors, targets, "logistic", 4)) + 1e-9


def test_a_strength_is_not_chosen_for_being_sure():
    draw = np.random.default_rng(1)
    targets = np.arange(60 * 6) % 60
    vectors = draw.normal(size=(60, 40))[targets] + draw.normal(size=(len(targets), 40)) * 0.9
    probe = fit_probe(vectors.astype(np.float32), targets, "logistic", 60)
    assert probe.strength < probe.refit_strength  # with many labels, a large penalty is hardly sure of what it knows
    others = draw.permutation(60 * 30) % 60
    unseen = np.random.default_rng(1).normal(size=(60, 40))[others] + draw.normal(size=(len(others), 40)) * 0.9
    surer = fit_head(vectors.astype(np.float32), targets, "logistic", 60, probe.refit_strength)
    right, fewer = ((one.outputs(unseen.astype(np.float32)).argmax(axis=1) == others).mean() for one in (probe, surer))
    assert right > fewer


def test_a_label_without_rows_is_never_the_answer_and_one_row_each_needs_no_folds():
    vectors, targets = clusters()
    targets = np.where(targets == 1, 2, targets)
    assert 1 not in fit_probe(vectors, targets, "logistic", 4).outputs(vectors).argmax(axis=1)
    alone = fit_probe(vectors[:4], np.arange(4), "logistic", 4)
    assert alone.held_out == ()
    assert alone.outputs(vectors[:4]).argmax(axis=1).tolist() == [0, 1, 2, 3]


def test_many_rows_are_sampled_and_no_label_is_lost():
    vectors, targets = clusters()
    targets[7] = 4
    rows = sample_rows(targets, len(targets), 20, seed=0)
    probe = fit_probe(vectors[rows], targets[rows], "logistic", 5)
    assert 20 <= probe.rows <= 25
    assert probe.weight[4].any(), "the only row of the label is in the sample"


def test_a_quick_run_is_the_solution_and_trains_nothing(encoder, files, tmp_path):
    fit = ["fit", files["train"], "--model", encoder, "--test", files["test"], "--out", str(tmp_path / "run")]
    done = CliRunner().invoke(app, [*fit, "--quick", "--precision", "fp32"])
    assert done.exit_code == 0, done.output
    assert "by 5-fold cross-validation" in done.output
    run = RunFolder(tmp_path / "run")
    assert run.training.steps == 0
    assert run.training.linear_probe.metric == "accuracy"
    weights, before = (saved_weights(folder) for folder in (run.model, encoder))
    encoders = {name.removeprefix("encoder."): value for name, value in weights.items() if name.startswith("encoder.")}
    assert all(torch.equal(value, before.get(name, before.get(f"bert.{name}"))) for name, value in encoders.items())
    head = load_file(run.folder / "linear-probe" / "head.safetensors")
    assert torch.equal(weights["classifier.weight"], head["weight"])
    assert torch.equal(weights["classifier.bias"], head["bias"])
    answers = warmstart.load(run.folder).predict(["a good film"])
    assert answers[0]["label"] in {"pos", "neg"}


@pytest.mark.parametrize(("task", "data"), [("score", "scores"), ({"name": "classify", "multi_label": True}, "many")])
def test_numbers_and_several_labels(encoder, files, tmp_path, task, data):
    run = warmstart.fit(
        model=encoder,
        train=files[data],
        test=files[data],
        task=task,
        out=tmp_path / "run",
        training=FAST["training"],
        **{"data.label_separator": "|"} if data == "many" else {},
        **SOLVED,
    )
    assert run.training.linear_probe.folds == 5


def test_training_starts_from_the_solution(encoder, files, tmp_path):
    settings = {"model": encoder, "train": files["train"], "test": files["test"], "head.pooling": "cls"}
    still = {**FAST["training"], "learning_rate": 1e-12, "max_steps": 2}
    run = warmstart.fit(**settings, out=tmp_path / "run", **{**PROBE, "training": still})
    start = load_file(run.folder / "linear-probe" / "start.safetensors")
    assert torch.allclose(saved_weights(run.model)["classifier.weight"], start["weight"], atol=1e-6)
    solved = warmstart.fit(**settings, out=tmp_path / "solved", training=still, **SOLVED)
    assert run.metrics["test"]["accuracy"] == solved.metrics["test"]["accuracy"]


def test_a_head_that_is_refitted_is_the_solution_on_the_features_of_the_trained_encoder(encoder, files, tmp_path):
    settings = {"model": encoder, "train": files["train"], "test": files["test"], "head.pooling": "cls"}
    few = {**PROBE, "training": {**FAST["training"], "max_steps": 6}}
    plain = warmstart.fit(**settings, out=tmp_path / "plain", **few)
    run = warmstart.fit(**settings, out=tmp_path / "run", **{**few, "head.refit": True})
    one, two = saved_weights(plain.model), saved_weights(run.model)
    assert all(torch.equal(one[name], two[name]) for name in one if name.startswith("encoder."))
    assert not torch.equal(one["classifier.weight"], two["classifier.weight"])
    predictor = warmstart.load(run.folder)
    with Path(files["train"]).open(newline="") as file:
        rows = list(csv.DictReader(file))
    with torch.no_grad():
        batch = predictor.tokenizer([row["text"] for row in rows], padding=True, return_tensors="pt")
        vectors = predictor.engine.model.features(**batch).numpy()
    targets = np.array([predictor.task.labels.ids[row["label"]] for row in rows])
    probe = run.training.linear_probe
    strength = max(min(probe.refit_strength / linear_probe.REFIT_FACTOR, probe.strength), linear_probe.START_STRENGTH)
    expected = LogisticRegression(C=strength, max_iter=1000, tol=1e-6).fit(standard(vectors), targets)
    weight, bias = (two[f"classifier.{name}"].numpy() for name in ("weight", "bias"))
    logits = vectors @ (weight[1] - weight[0]) + bias[1] - bias[0]
    assert np.allclose(logits, expected.decision_function(standard(vectors)), rtol=0.05, atol=0.05)


@pytest.mark.parametrize("refit", [False, True])
def test_a_crash_changes_nothing_and_the_probe_is_not_fitted_again(encoder, files, tmp_path, monkeypatch, refit):
    settings = {"model": encoder, "train": files["train"], "test": files["test"], "checkpoints": {"every_steps": 2}}
    settings |= {**PROBE, "head.refit": refit}
    whole = warmstart.fit(**settings, out=tmp_path / "whole")
    with pytest.raises(Crash):
        warmstart.fit(**settings, out=tmp_path / "run", progress=Trouble(step=5, what=crash))
    monkeypatch.setattr("warmstart.pipeline.linear_probe.fit_probe", None)
    again = warmstart.fit(**settings, out=tmp_path / "run")
    assert weight_bytes(again.model) == weight_bytes(whole.model) != {}
    assert again.training.linear_probe.value == whole.training.linear_probe.value


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"head.type": "mlp"}, "type: found mlp, but init: linear-probe"),
        ({"head.pooling": "attention"}, "pooling: found attention"),
        ({"task": {"name": "tag", "crf": True}, "train": "tags"}, "tag has no head that a linear model solves"),
    ],
)
def test_what_no_linear_model_solves_is_refused(encoder, files, tmp_path, change, message):
    (tmp_path / "tags.jsonl").write_text(
        json.dumps({"text": "Bob", "entities": [{"start": 0, "end": 3, "label": "PER"}]}) + "\n"
    )
    settings = {
        "model": encoder,
        "train": files["train"],
        "test": files["test"],
        "out": tmp_path / "run",
        **PROBE,
        **change,
    }
    if settings["train"] == "tags":
        settings["train"] = settings["test"] = str(tmp_path / "tags.jsonl")
    with pytest.raises(RecipeError, match=message):
        warmstart.fit(**settings)


def test_a_head_of_ours_is_read_as_the_encoder_was_trained(files, tmp_path):
    """An encoder of sentence-transformers names its pooling; without a name it is the mean of the tokens."""
    folder = save_tiny(tmp_path / "sentence-encoder")
    declare_mean_pooling(folder)
    assert declared_pooling(str(folder)) == "mean"
    named = folder / "1_Pooling" / "config.json"
    named.write_text(json.dumps({"word_embedding_dimension": 32, "pooling_mode_cls_token": True}))
    settings = {"model": str(folder), "train": files["train"], "test": files["test"], "training": FAST["training"]}
    run = warmstart.fit(**settings, out=tmp_path / "run", **SOLVED)
    assert json.loads((run.model / "config.json").read_text())["pooling"] == "cls"
    shutil.rmtree(folder / "1_Pooling")
    run = warmstart.fit(**settings, out=tmp_path / "plain", **SOLVED)
    assert json.loads((run.model / "config.json").read_text())["pooling"] == "mean"


def test_the_names_of_labels_count_as_rows_where_that_helps():
    labels = 4
    chance = np.random.default_rng(0)
    centres = chance.normal(size=(labels, 16)).astype(np.float32)
    targets = np.repeat(np.arange(labels), 3)
    vectors = centres[targets] + chance.normal(size=(len(targets), 16)).astype(np.float32) * 1.5
    good, bad = (centres, np.arange(labels)), (centres[::-1].copy(), np.arange(labels))
    probe = fit_probe(vectors, targets, "logistic", labels, label_names=good)
    assert probe.names_used
    assert probe.outputs(centres).argmax(axis=1).tolist() == [0, 1, 2, 3]
    assert probe.rows == len(targets)
    assert sorted(row for rows, _ in probe.held_out for row in rows) == list(range(len(targets)))
    assert not fit_probe(vectors, targets, "logistic", labels, label_names=bad).names_used
