"""Scouting: a linear probe on each of several encoders, the best first."""

import json
import shutil

import pytest
from typer.testing import CliRunner

from tiny import save_tiny
from warmstart.cli.main import app
from warmstart.errors import RecipeError, RunError
from warmstart.evaluation.run import RunFolder
from warmstart.experiments import scout as scouting
from warmstart.experiments.scout import scout


def test_every_encoder_has_a_score_a_speed_and_a_run_that_predicts(encoder, files, tmp_path, monkeypatch):
    other = str(save_tiny(tmp_path / "wide", "bert", hidden_size=64))
    results = scout({"data.train": files["train"]}, [encoder, other], tmp_path / "out")
    assert {one.model for one in results} == {encoder, other}
    assert results[0].value >= results[1].value
    by_model = {one.model: one for one in results}
    assert by_model[other].megabytes > by_model[encoder].megabytes > 0
    for one in results:
        run = RunFolder(one.run)
        assert run.training.linear_probe.value == one.value
        assert (run.training.steps, one.metric) == (0, "accuracy")
        assert one.texts_per_second > 0
    monkeypatch.setattr(scouting, "run_recipe", None)
    again = scout({"data.train": files["train"]}, [encoder, other], tmp_path / "out")
    assert [(one.model, one.value) for one in again] == [(one.model, one.value) for one in results]


def test_figures_of_other_rows_or_settings_are_not_told_as_those_of_these(encoder, files, tmp_path):
    train = tmp_path / "train.csv"
    shutil.copy(files["train"], train)
    scout({"data.train": str(train)}, [encoder], tmp_path / "out")
    with pytest.raises(RunError, match=r"(?s)another recipe.*window\.max_tokens: there None, here 16"):
        scout({"data.train": str(train), "window.max_tokens": 16}, [encoder], tmp_path / "out")
    train.write_text(train.read_text("utf-8") + "a good film after all,pos\n", "utf-8")
    with pytest.raises(RunError, match=r"train\.csv changed since .*; choose another folder with --out"):
        scout({"data.train": str(train)}, [encoder], tmp_path / "out")


def test_the_command_prints_a_table_json_and_a_picture(encoder, files, tmp_path):
    command = ["scout", files["train"], "--models", encoder, "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, [*command, "--plot", str(tmp_path / "scout.svg")])
    assert done.exit_code == 0, done.output
    assert "texts/s" in done.output
    assert f"warmstart fit {files['train']} --model {encoder}" in done.output.replace("\n", "")
    assert (tmp_path / "scout.svg").read_text().count("<svg") == 1
    done = CliRunner().invoke(app, [*command, "--json"])
    (one,) = json.loads(done.stdout)
    assert one["model"] == encoder
    assert 0 <= one["value"] <= 1


def test_the_same_encoder_twice_is_refused(encoder, files, tmp_path):
    with pytest.raises(RecipeError, match=r"--models: found .*; expected one or more, all different"):
        scout({"data.train": files["train"]}, [encoder, encoder], tmp_path / "out")
