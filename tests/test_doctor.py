"""The doctor names what is missing with the command for it, and warns of what is known to go wrong."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from warmstart.cli.main import app
from warmstart.doctor.packages import Package, packages
from warmstart.doctor.warnings import machine_warnings, recipe_warnings
from warmstart.recipe import make_recipe
from warmstart.runtime import environment

SOUND = {
    "threads": 2,
    "cores": 2,
    "memory_gb": 16.0,
    "cache": "cache",
    "cache_free_gb": 50.0,
    "here_free_gb": 50.0,
    "bf16": True,
    "accelerator": None,
}


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    for name in ("CUDA_VISIBLE_DEVICES", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)


def recipe(**changes):
    return make_recipe({"model": "m", "data.train": "t.csv", **changes})


def test_every_package_that_is_asked_for_is_listed_with_its_extra():
    found = {one.name: one for one in packages(["numpy>=2.0", "peft>=99; extra == 'lora'", "no-such; extra == 'x'"])}
    assert found["numpy"].fits
    assert found["numpy"].extra == ""
    assert not found["peft"].fits
    assert found["peft"].repair == "pip install 'warmstart[lora]'"
    assert found["no-such"].installed is None


def test_a_sound_machine_gets_no_warning():
    assert list(machine_warnings(SOUND, [])) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"threads": 8}, "export OMP_NUM_THREADS=2"),
        ({"memory_gb": 2.0}, "2.0 GB of memory"),
        ({"cache_free_gb": 1.0}, "WARMSTART_CACHE"),
        ({"here_free_gb": 1.0}, "the current folder"),
        ({"bf16": False}, "no bf16"),
    ],
)
def test_what_goes_wrong_on_a_machine_is_said(change, said):
    (warning,) = machine_warnings({**SOUND, **change}, [])
    assert said in warning


def test_an_old_package_is_named_with_the_command():
    (warning,) = machine_warnings(SOUND, [Package("torch", ">=2.10", "2.4.0")])
    assert "torch is 2.4.0" in warning
    assert "pip install 'torch>=2.10'" in warning


@pytest.mark.parametrize(("name", "value"), [("CUDA_VISIBLE_DEVICES", ""), ("HF_HUB_OFFLINE", "1")])
def test_variables_that_change_what_happens_are_named(name, value, monkeypatch):
    monkeypatch.setenv(name, value)
    (warning,) = machine_warnings(SOUND, [])
    assert name in warning


@pytest.mark.parametrize(
    "changes",
    [
        {"training.learning_rate": 4e-4},
        {"training.adam_bias_correction": False},
        {"training.precision": "fp16"},
        {"trainer": {"dataloader_num_workers": 16}},
        {"trainer": {"torch_compile": True}},
    ],
    ids=str,
)
def test_settings_known_to_go_wrong_are_named(changes):
    (warning,) = recipe_warnings(recipe(**changes), SOUND)
    (key,) = changes
    assert warning.startswith(key)


def test_a_usual_recipe_gets_no_warning_nor_does_a_high_rate_for_few_weights():
    assert list(recipe_warnings(recipe(), SOUND)) == []
    assert list(recipe_warnings(recipe(**{"training.learning_rate": 1e-3, "layers.lora": {}}), SOUND)) == []


def test_a_container_may_grant_fewer_cores_and_less_memory_than_there_are(tmp_path, monkeypatch):
    monkeypatch.setattr(environment, "CGROUP", tmp_path)
    (tmp_path / "cpu.max").write_text("100000 100000\n")
    (tmp_path / "memory.max").write_text("1000000000\n")
    assert environment.usable_cores() == 1
    assert environment.total_memory() == 1_000_000_000


def test_the_verb_prints_tables_and_json(tmp_path):
    said = CliRunner().invoke(app, ["doctor"])
    assert said.exit_code == 0
    assert "this machine" in said.output
    Path(tmp_path / "r.yaml").write_text("model: m\ndata: {train: t.csv}\ntraining: {learning_rate: 4.0e-4}\n")
    found = json.loads(CliRunner().invoke(app, ["doctor", str(tmp_path / "r.yaml"), "--json"]).stdout)
    assert found["machine"]["cores"] >= 1
    assert any("training.learning_rate" in warning for warning in found["warnings"])
