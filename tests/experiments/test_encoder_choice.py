"""`model: auto`: the best of several encoders is taken by its linear probe, and the run says and remembers which."""

import html
import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import warmstart
from small import FAST, weight_bytes
from test_resume import Crash, Trouble, crash
from tiny import save_tiny
from warmstart.cli.main import app
from warmstart.errors import RecipeError, RunError
from warmstart.evaluation.records.encoder_choice import EncoderScore, read_choice
from warmstart.experiments import encoder_choice
from warmstart.experiments.encoder_choice import best_encoder
from warmstart.recipe import make_recipe
from warmstart.report.page import render
from warmstart.report.run_facts import read_facts

BEST = EncoderScore("org/large", "accuracy", 0.90, 0.02, 3.0, 50.0, 1300.0)


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    return str(save_tiny(tmp_path_factory.mktemp("other") / "wide", "bert", hidden_size=64))


def test_the_best_is_taken_if_it_is_told_apart():
    chosen, why = best_encoder([BEST, replace(BEST, model="org/small", value=0.87, texts_per_second=500.0)])
    assert chosen is BEST
    assert why == "its accuracy is the best, 0.900 ± 0.020 by a linear probe"


def test_of_those_within_each_others_interval_the_fastest_is_taken():
    small = replace(BEST, model="org/small", value=0.89, half_width=0.03, texts_per_second=500.0)
    slow = replace(BEST, model="org/slow", value=0.895, texts_per_second=10.0)
    chosen, why = best_encoder([BEST, slow, small])
    assert chosen is small
    assert why == (
        "it is the fastest of the 3 that are within each other's interval: accuracy 0.890 ± 0.030 at 500 texts/s and "
        "1,300 MB, against accuracy 0.900 ± 0.020 at 50 texts/s and 1,300 MB of large, by linear probes"
    )
    assert best_encoder([BEST, slow])[0] is BEST
    like = replace(small, model="org/like", texts_per_second=450.0, megabytes=900.0)
    assert best_encoder([BEST, small, like])[0] is like
    # Within the interval of the best, but the best is not within its own.
    assert best_encoder([BEST, replace(small, half_width=0.005)])[0] is BEST


def test_without_a_score_there_is_no_choice():
    with pytest.raises(RecipeError, match="too few rows for a cross-validation; name one encoder"):
        best_encoder([replace(BEST, value=None, half_width=None)])


def test_fit_chooses_says_so_and_trains_the_chosen_one(encoder, other, files, tmp_path):
    out = str(tmp_path / "run")
    command = ["fit", files["train"], "--models", f"{encoder},{other}", "--out", out, "--max-steps", "3"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    choice = read_choice(Path(out))
    assert {score.model for score in choice.scores} == {encoder, other}
    assert "linear probes, by cross-validation" in done.output
    assert f"{Path(choice.model).name} of 2 encoders, since" in done.output
    run = warmstart.api.Run(out)
    assert (run.recipe.model, run.recipe.models) == (choice.model, [])
    assert run.training.steps == 3
    assert not (run.folder / encoder_choice.SCOUTS).exists()
    assert f"Encoder: {choice.sentence}." in html.unescape(render(read_facts(run.folder)))


def test_a_resumed_run_reads_its_choice_and_ends_bit_equal(encoder, other, files, tmp_path, monkeypatch):
    fields = {"model": "auto", "models": [encoder, other], "train": files["train"], **FAST}
    fields["checkpoints"] = {"every_steps": 1}
    monkeypatch.setattr(encoder_choice, "SAME_SPEED", 0.0)  # no speed that the machine's load would change
    whole = warmstart.fit(**fields, out=tmp_path / "whole")
    with pytest.raises(Crash):
        warmstart.fit(**fields, out=tmp_path / "run", progress=Trouble(step=2, what=crash))
    first = read_choice(tmp_path / "run")
    monkeypatch.setattr(encoder_choice, "scout", None)
    again = warmstart.fit(**fields, out=tmp_path / "run")
    assert read_choice(again.folder) == first
    assert first.model == whole.recipe.model
    assert weight_bytes(again.model) == weight_bytes(whole.model) != {}
    with pytest.raises(RunError, match="holds a finished run"):
        warmstart.fit(**fields, out=tmp_path / "run")


def test_another_list_does_not_resume(encoder, other, files, tmp_path):
    fields = {"model": "auto", "train": files["train"], "out": tmp_path / "run", **FAST}
    with pytest.raises(Crash):
        warmstart.fit(**fields, models=[encoder, other], progress=Trouble(step=1, what=crash))
    with pytest.raises(RunError, match=r"found a choice of .*, but models are .*; restore them"):
        warmstart.fit(**fields, models=[encoder])


def test_with_seeds_the_encoder_is_chosen_once(encoder, other, files, tmp_path):
    fields = {"model": "auto", "models": [encoder, other], "train": files["train"], **FAST}
    run = warmstart.fit(**fields, seeds=2, out=tmp_path / "run")
    assert run.recipe.model == read_choice(run.folder).model
    assert run.evidence is not None


def test_json_has_the_choice(encoder, files, tmp_path):
    command = ["fit", files["train"], "--models", encoder, "--out", str(tmp_path / "run"), "--quick", "--json"]
    done = CliRunner().invoke(app, command)
    assert json.loads(done.stdout)["encoder"]["model"] == encoder


@pytest.mark.parametrize(
    "fields",
    [
        {"model": "auto"},
        {"model": "x", "models": ["a", "b"]},
        {"models": ["a", "b"]},
        {"model": "auto", "models": "a a"},
    ],
)
def test_a_recipe_names_one_encoder_or_several_to_choose_from(fields):
    if isinstance(fields.get("models"), str):
        fields = {**fields, "models": fields["models"].split()}
    with pytest.raises(RecipeError, match="model"):
        make_recipe({"data.train": "x.csv", **fields})


def test_what_cannot_be_chosen_is_refused_and_leaves_no_folder(encoder, files, tmp_path):
    fields = {"model": "auto", "models": [encoder], "out": tmp_path / "run"}
    with pytest.raises(RecipeError, match="model: found auto, but tag has no linear probe to choose by"):
        warmstart.fit(**fields, train=files["train"], task="tag")
    with pytest.raises(Exception, match=r"nothing\.csv"):
        warmstart.fit(**fields, train="nothing.csv")
    assert not (tmp_path / "run").exists()
