"""A training that learned little says so where its user looks."""

import json

from typer.testing import CliRunner

import warmstart
from small import FAST
from warmstart.api import Run
from warmstart.cli.main import app
from warmstart.evaluation.training_warnings import training_warnings


def test_a_good_run_has_none(run):
    assert training_warnings(run) == []


def test_a_loss_that_hardly_fell_is_said_at_the_end_in_json_and_in_the_report(encoder, files, tmp_path):
    out = tmp_path / "run"
    fit = ["fit", files["train"], "--model", encoder, "--test", files["test"], "--out", str(out)]
    still = ["--learning-rate", "1e-12", "--max-steps", "60", "--precision", "fp32", "--batch-size", "16"]
    done = CliRunner().invoke(app, [*fit, *still, "--json"])
    assert done.exit_code == 0, done.output
    warnings = json.loads(done.stdout)["warnings"]
    [fell] = [warning for warning in warnings if "the training loss hardly fell, from 0." in warning]
    assert fell.endswith("or start from a linear probe (head.init: linear-probe)")
    assert any(warning.startswith("the run counts as failed: every answer is ") for warning in warnings)
    assert "The training loss hardly fell" in Run(out).report().read_text(encoding="utf-8")


def test_a_window_that_most_of_the_texts_lie_outside_of_is_said(encoder, files, tmp_path):
    cut = {"max_tokens": 6}
    run = warmstart.fit(model=encoder, train=files["train"], out=tmp_path / "run", window=cut, quick=True)
    [warning] = [one for one in training_warnings(run) if "does not see" in one]
    assert f"{run.training.window.train.share:.0%} of the training rows' tokens (head of 6 tokens)" in warning


def test_training_that_undoes_the_probe_is_said(encoder, files, tmp_path):
    wild = {**FAST["training"], "learning_rate": 3.0, "max_steps": 30, "max_grad_norm": 0}
    run = warmstart.fit(
        model=encoder,
        train=files["train"],
        test=files["train"],
        out=tmp_path / "run",
        training=wild,
        head={"init": "linear-probe", "pooling": "mean"},
    )
    probe = run.training.linear_probe
    assert run.metrics["test"]["accuracy"] < probe.on_test.low, "the test needs a worse model"
    [warning] = [one for one in training_warnings(run) if "linear probe" in one and "below" in one]
    assert f"is below the {probe.on_test.value:.3f} of the linear probe" in warning
    assert "(--quick)" in warning


def test_counting_words_that_does_better_is_said(encoder, tmp_path):
    path, out = tmp_path / "rows.csv", tmp_path / "run"
    noise = ["the film was long", "a story of a book", "they saw it twice", "nobody left early", "it rained all day"]
    rows = [f"{noise[at % 5]} {noise[at % 3]} {'zyx' if at % 2 else 'xyz'},{'ab'[at % 2]}" for at in range(120)]
    path.write_text("text,label\n" + "\n".join(rows) + "\n")
    cut = ["--set", "window.max_tokens=5"]  # the word that decides is the last one
    words = ["fit", path, "--model", encoder, "--test", path, "--out", out, "--quick", *cut, "--json"]
    fitted = CliRunner().invoke(app, [*map(str, words)])
    assert fitted.exit_code == 0, fitted.output
    told = json.loads(fitted.stdout)
    assert told["training"]["linear_probe"]["tfidf"]["value"] == 1.0
    [warning] = [one for one in told["warnings"] if "TF-IDF with a linear SVM" in one]
    assert f"accuracy {told['metrics']['test']['accuracy']:.3f} on test is below the 1.000" in warning
    page = Run(out).report().read_text()
    assert "TF-IDF + linear SVM" in page
    assert "120 test rows" in page, "on the rows that the model is measured on"


def test_one_answer_for_all_rows_is_told_wherever_a_user_looks(encoder, tmp_path):
    path, out = tmp_path / "rows.csv", tmp_path / "run"
    labels = ["ham"] * 35 + ["spam"] * 5
    path.write_text("text,label\n" + "".join(f"text number {at},{label}\n" for at, label in enumerate(labels)))
    words = ["fit", path, "--model", encoder, "--test", path, "--out", out, "--max-steps", "1", "--lr", "1e-9"]
    fitted = CliRunner().invoke(app, [*map(str, words), "--strict", "--json"])
    assert fitted.exit_code == 8, fitted.output
    [warning] = [one for one in json.loads(fitted.stdout)["warnings"] if "every answer" in one]
    assert "every answer is 'ham', which 88% of the rows have" in warning
    assert "task.class_weight: balanced" in warning
    shown = CliRunner().invoke(app, ["show", str(out)])
    assert "every answer is 'ham'" in " ".join((shown.output + shown.stderr).split())
    measured = CliRunner().invoke(app, ["evaluate", str(out), str(path), "--json"])
    assert "every answer is 'ham'" in json.loads(measured.stdout)["warnings"][0]
    assert "every answer is" in (out / "model" / "README.md").read_text()
