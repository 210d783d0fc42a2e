"""Opening an encoder: a head is kept or drawn as asked, labels must match, and what is broken is said in our words."""

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import warmstart
from small import FAST
from warmstart.errors import ModelError, RunError
from warmstart.models.heads.selection import HeadChoice
from warmstart.models.loading import load_model, load_tokenizer

AUTO = "AutoModelForSequenceClassification"


def test_a_bare_encoder_gets_a_head_and_keeps_every_weight_of_its_own(encoder):
    loaded = load_model(encoder, AUTO, {"num_labels": 5}, load_tokenizer(encoder))
    assert loaded.new_parameters == ("classifier.bias", "classifier.weight")
    saved = load_file(f"{encoder}/model.safetensors")
    own = loaded.model.base_model.state_dict()
    assert all(torch.equal(saved[name], own[name]) for name in own)


def test_a_head_is_kept_with_its_labels_or_drawn_anew(run):
    model, tokenizer = str(run.model), load_tokenizer(str(run.model))
    saved = load_file(f"{model}/model.safetensors")["classifier.weight"]
    kept = load_model(model, AUTO, {}, tokenizer)
    drawn = load_model(model, AUTO, {}, tokenizer, HeadChoice(reuse=False))
    assert torch.equal(kept.model.classifier.weight, saved)
    assert kept.new_parameters == ()
    assert not torch.equal(drawn.model.classifier.weight, saved)
    assert drawn.new_parameters == ("classifier.bias", "classifier.weight")


def test_going_on_from_a_run_keeps_its_head_and_refuses_other_labels(run, files, tmp_path):
    quick = {"training": {"max_steps": 1}}
    again = warmstart.fit(model=str(run.model), train=files["train"], out=tmp_path / "again", **quick)
    assert again.training.new_parameters == []
    other = tmp_path / "other.csv"
    other.write_text(Path(files["train"]).read_text(encoding="utf-8").replace("pos", "positive"), encoding="utf-8")
    with pytest.raises(
        ModelError, match=r"only the model has \['pos'\]; only the data has \['positive'\].*head\.reuse: false"
    ):
        warmstart.fit(model=str(run.model), train=str(other), out=tmp_path / "refused", **quick)
    new = warmstart.fit(model=str(run.model), train=str(other), out=tmp_path / "new", head={"reuse": False}, **quick)
    assert new.training.new_parameters == ["classifier.bias", "classifier.weight"]


def test_an_encoder_that_lacks_a_tensor_is_refused(encoder, files, tmp_path):
    broken = tmp_path / "broken"
    shutil.copytree(encoder, broken)
    tensors = load_file(broken / "model.safetensors")
    del tensors["encoder.layer.1.output.dense.weight"]
    save_file(tensors, broken / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"lacks 1 of the model's tensors \(encoder.layer.1.output.dense.weight"):
        warmstart.fit(model=str(broken), train=files["train"], out=tmp_path / "run")


def test_a_saved_head_that_lacks_a_tensor_is_not_drawn_anew_in_silence(run, tmp_path):
    copy = tmp_path / "model"
    shutil.copytree(run.model, copy)
    tensors = load_file(copy / "model.safetensors")
    del tensors["classifier.bias"]
    save_file(tensors, copy / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"classifier\.bias"):
        load_model(str(copy), AUTO, {}, load_tokenizer(str(copy)))


@pytest.mark.parametrize("what", ["empty folder", "no such name"])
def test_what_is_no_model_is_said_so(tmp_path, what, monkeypatch, files):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (tmp_path / "empty").mkdir()
    name = str(tmp_path / "empty") if what == "empty folder" else "nobody/nothing"
    expected = "the folder holds nothing" if what == "empty folder" else "there is no such folder here"
    with pytest.raises(ModelError, match=expected):
        warmstart.fit(model=name, train=files["train"], out=tmp_path / "run", **FAST)
    assert not (tmp_path / "run" / "model").exists()


def test_a_changed_model_file_is_noticed(run, tmp_path):
    copy = tmp_path / "model"
    shutil.copytree(run.model, copy)
    weights = bytearray((copy / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (copy / "model.safetensors").write_bytes(bytes(weights))
    with pytest.raises(RunError, match=r"model.safetensors was changed"):
        warmstart.load(copy)


def test_a_model_folder_taken_elsewhere_still_answers(run, tmp_path):
    shutil.copytree(run.model, tmp_path / "elsewhere")
    texts = ["a good film", "a boring film"]
    assert warmstart.load(tmp_path / "elsewhere").predict(texts) == run.predict(texts)
