"""`warmstart plan` as a user types it."""

import json

import pytest
from typer.testing import CliRunner

from warmstart.cli.main import app
from warmstart.cli.plan import duration
from warmstart.errors import RecipeError

SMALL = [
    "--max-steps",
    "1000",
    "--batch-size",
    "8",
    "--max-tokens",
    "64",
    "--shape",
    "num_layers=2,hidden_size=64,vocab_size=100",
]


def call(*words):
    result = CliRunner().invoke(app, ["plan", *map(str, words)])
    if result.exception:
        raise result.exception
    return result.stdout


def test_a_file_is_planned_with_the_options_of_fit(encoder, files):
    words = [files["train"], "--model", encoder, "--batch-size", 16, "--epochs", 2, "--hardware", "t4"]
    told = json.loads(call(*words, "--set", "data.split={test: 0.25}", "--json"))
    (stage,) = told["stages"]
    assert stage["stage"] == "finetune"
    assert stage["steps"] == 6
    assert stage["rows"] == {"train": 48, "test": 16}
    assert told["total"]["seconds"] == stage["seconds"]["total"] > 0


def test_a_training_without_data_is_a_table():
    shown = call(*SMALL, "--hardware", "laptop-cpu")
    assert "pretrain" in shown
    assert "512,000" in shown
    assert "laptop-cpu, fp32, according to the table of devices of 2025" in shown


def test_devices_are_listed():
    shown = call("--hardware", "list")
    assert "a100-80" in shown
    assert "$/h (2025)" in shown
    assert "peak_tflops" in json.loads(call("--hardware", "list", "--json"))[0]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--max-steps", "10"], "needs --batch-size, --max-tokens as well"),
        ([*SMALL, "--measure"], "--measure needs data"),
        ([*SMALL, "--model", "x"], "leave one out"),
        ([*SMALL[:-1], "hidden_size"], "expected NAME=NUMBER"),
        ([*SMALL[:-1], "depth=3"], "--shape depth"),
        ([*SMALL[:-1], "hidden_size=100,num_heads=7"], "expected a multiple of num_heads, which is 7"),
        (["x.csv", "--shape", "hidden_size=64"], "for an estimate without data"),
        (["x.yaml", "--recipe", "tag"], "is a recipe already"),
    ],
)
def test_what_does_not_go_together_is_refused(words, told):
    with pytest.raises(RecipeError, match=told):
        call(*words)


def test_measuring_is_for_this_machine(encoder, files):
    with pytest.raises(RecipeError, match="it measures this machine, but --hardware is t4"):
        call(files["train"], "--model", encoder, "--measure", "--hardware", "t4")


def test_times_are_told_in_units_of_their_size():
    told = [duration(seconds) for seconds in (5, 119, 120, 7200, 864000)]
    assert told == ["5.0 s", "119.0 s", "2.0 min", "2.0 h", "10.0 days"]
