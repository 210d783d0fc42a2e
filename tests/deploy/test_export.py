"""`warmstart export`: what is written answers as the run does, is checked first, and is there whole or not at all."""

import json
import shutil

import onnx
import pytest
import torch
from typer.testing import CliRunner

import warmstart
from small import FAST, reviews
from warmstart.cli.main import app
from warmstart.deploy.export import compare_answers as comparison
from warmstart.deploy.export import graph
from warmstart.errors import ModelError, RunError
from warmstart.inference import exported_graph
from warmstart.inference.predictor import Predictor

TEXTS = ["a great film", "boring", "the plot was terrible and very bad", "good " * 300]


def test_the_export_says_how_it_was_checked(exported):
    about = json.loads((exported / "onnx" / "export.json").read_text())
    assert about["rows"] == about["of"] == 24
    assert about["engines"]["onnx"]["differ"] == 0
    assert about["engines"]["onnx"]["worst"] < 1e-4
    assert about["values"]["onnx fp32"] == about["values"]["torch fp32"]
    assert about["int8"]["passed"]


def test_axes_have_the_names_of_the_field(exported):
    for file in ("model.onnx", "model.int8.onnx"):
        inputs = onnx.load(exported / "onnx" / file).graph.input
        axes = {value.name: [axis.dim_param for axis in value.type.tensor_type.shape.dim] for value in inputs}
        assert axes["input_ids"] == axes["attention_mask"] == ["batch", "tokens"]


def test_an_export_answers_elsewhere_without_the_run(exported, tmp_path):
    shutil.copytree(exported / "onnx", tmp_path / "elsewhere")
    expected = Predictor.load(exported).predict(TEXTS)
    assert comparison.compare_answers(
        expected, Predictor.load(tmp_path / "elsewhere", engine="onnx").predict(TEXTS)
    ).equal
    with pytest.raises(ModelError, match="--engine onnx"):
        Predictor.load(tmp_path / "elsewhere")


def test_a_changed_export_is_refused(exported, tmp_path):
    shutil.copytree(exported / "onnx", tmp_path / "changed")
    path = tmp_path / "changed" / "model.onnx"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(RunError, match="was changed"):
        Predictor.load(tmp_path / "changed", engine="onnx")


def test_an_export_of_another_model_is_refused(exported, tmp_path):
    shutil.copytree(exported, tmp_path / "run")
    manifest = tmp_path / "run" / "model" / "manifest.json"
    manifest.write_text(manifest.read_text() + " ")
    with pytest.raises(ModelError, match="another model"):
        Predictor.load(tmp_path / "run", engine="onnx")


def test_without_an_export_the_command_is_named(run):
    with pytest.raises(ModelError, match=r"warmstart export .*"):
        Predictor.load(run.folder, engine="onnx")


def test_other_answers_are_never_published(run, tmp_path, monkeypatch):
    monkeypatch.setattr(comparison, "CLOSE", -1.0)
    with pytest.raises(ModelError, match="gives other numbers"):
        warmstart.export(run.folder, tmp_path / "onnx")
    assert list(tmp_path.iterdir()) == []


def test_int8_that_loses_too_much_is_refused_and_fp32_stays(run, tmp_path, monkeypatch):
    def spoilt(path, target):
        model = onnx.load(str(path))
        for tensor in model.graph.initializer:
            if tensor.data_type == onnx.TensorProto.FLOAT:
                tensor.raw_data = bytes(len(tensor.raw_data))
        onnx.save(model, str(target))

    monkeypatch.setattr("warmstart.experiments.export_run.quantize", spoilt)
    with pytest.raises(ModelError, match=r"--max-drop 0\.5"):
        warmstart.export(run.folder, tmp_path / "onnx", int8=True)
    assert not (tmp_path / "onnx" / "model.int8.onnx").exists()
    assert Predictor.load(tmp_path / "onnx", engine="onnx").predict(TEXTS)
    assert not json.loads((tmp_path / "onnx" / "export.json").read_text())["int8"]["passed"]


def test_a_second_export_takes_the_place_of_the_first(run, tmp_path):
    warmstart.export(run.folder, tmp_path / "onnx", int8=True, max_drop=100)
    warmstart.export(run.folder, tmp_path / "onnx")
    assert not (tmp_path / "onnx" / "model.int8.onnx").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["onnx"]
    (tmp_path / "other").mkdir()
    with pytest.raises(RunError, match="already exists"):
        warmstart.export(run.folder, tmp_path / "other")


def test_rows_handed_over_check_a_run_that_has_none(encoder, files, tmp_path):
    made = warmstart.fit(model=encoder, train=files["train"], out=tmp_path / "run", data={"split": {"test": 0}}, **FAST)
    with pytest.raises(RunError, match="rows="):
        warmstart.export(made.folder)
    rows = [{"text": text, "label": label} for text, label in reviews(10)]
    assert warmstart.export(made.folder, rows=rows)["rows"] == 10


def test_a_graph_that_reads_other_files_is_refused(exported, tmp_path):
    model = onnx.load(str(exported / "onnx" / "model.onnx"))
    onnx.save_model(
        model, str(tmp_path / "model.onnx"), save_as_external_data=True, location="weights", size_threshold=0
    )
    with pytest.raises(ModelError, match="in another file"):
        exported_graph.check_graph(tmp_path / "model.onnx")
    (tmp_path / "noise.onnx").write_bytes(b"\xff" * 100)
    with pytest.raises(ModelError, match="cannot be read"):
        exported_graph.check_graph(tmp_path / "noise.onnx")


def test_what_cannot_be_traced_is_said(tmp_path):
    class Odd(torch.nn.Module):
        config = type("Config", (), {"model_type": "odd"})

        def forward(self, input_ids):
            return {"logits": torch.linalg.eigvals(input_ids.float() @ input_ids.float().T).real}

    with pytest.raises(ModelError, match="a model of odd"):
        graph.write_graph(Odd(), {"input_ids": torch.ones(2, 3, dtype=torch.long)}, tmp_path / "model.onnx")


def test_the_command_tells_and_predicts(exported, tmp_path):
    found = CliRunner().invoke(app, ["export", str(exported), "--out", str(tmp_path / "onnx"), "--json"])
    assert json.loads(found.stdout)["engines"]["onnx"]["differ"] == 0
    found = CliRunner().invoke(app, ["predict", str(exported), "a great film", "--engine", "onnx", "--json"])
    assert json.loads(found.stdout)["label"] == "pos"
