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


def test_training_that_undoes_the_probe_is_said(encoder, files, tmp_path):
    wild = {**FAST["training"], "learning_rate": 3.0, "max_steps": 30, "max_grad_norm": 0}
    run = warmstart.fit(
        model=encoder,
        train=files["train"],
        test=files["test"],
        out=tmp_path / "run",
        training=wild,
        head={"init": "linear-probe", "pooling": "mean"},
    )
    probe = run.training.linear_probe
    assert run.metrics["test"]["accuracy"] < probe.value - probe.half_width, "the test needs a worse model"
    [warning] = [one for one in training_warnings(run) if "linear probe" in one and "below" in one]
    assert f"is below the {probe.value:.3f} of the linear probe" in warning
    assert "(--quick)" in warning
