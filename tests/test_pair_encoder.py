"""Pairs whose texts are read separately: how they are encoded, compared, saved, exported and refused."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification

import warmstart
from warmstart.errors import ModelError, RecipeError
from warmstart.models.loading import load_tokenizer
from warmstart.models.pooling import SlicePooling
from warmstart.storage.artifacts import publish
from warmstart.tasks.shared.text_inputs import encode_texts
from warmstart.text.windows import Window

PAIRS = {"columns": {"pair": "other"}}
BI = {"name": "classify", "encoder": "bi"}


@pytest.fixture(scope="module")
def run(encoder, files, tmp_path_factory):
    return warmstart.fit(
        model=encoder,
        train=files["pairs"],
        task=BI,
        data=PAIRS,
        training={"max_steps": 3},
        out=tmp_path_factory.mktemp("bi") / "run",
    )


def test_each_text_is_an_input_of_its_own(encoder):
    tokenizer = load_tokenizer(encoder)
    rows = {"text": ["good film", "bad"], "pair": ["a film", "good"]}
    separate = encode_texts(rows, tokenizer, Window(16), pair=True, separate=True)
    for number, feature in enumerate(separate):
        alone = [encode_texts({"text": [rows[side][number]]}, tokenizer, Window(16), False)[0] for side in rows]
        assert feature["input_ids"] == [one["input_ids"] for one in alone]
        assert feature["tokens"] == sum(one["tokens"] for one in alone)
        assert feature["cut"] == 0


def test_the_texts_of_a_pair_are_compared_at_length_one():
    u, v = torch.tensor([3.0, 4.0]), torch.tensor([0.0, 2.0])
    (compared,) = SlicePooling("compare", 2)(torch.stack([u, v]), torch.tensor([2]))
    assert torch.allclose(compared, torch.tensor([0.6, 0.2, 0.0, 0.8, 1.6]))


def test_a_saved_model_answers_as_the_trained_one_whatever_shares_the_batch(run):
    predictor = warmstart.load(run.folder)
    pairs = [("good film", "a film"), ("bad", "a very long text about a good film"), ("x", "x")]
    together = predictor.predict(pairs)
    assert [predictor.predict([pair])[0]["label"] for pair in pairs] == [answer["label"] for answer in together]
    swapped = predictor.predict([(b, a) for a, b in pairs])
    for one, other in zip(together, swapped, strict=True):  # the comparison does not depend on the order
        assert one["probability"] == pytest.approx(other["probability"], abs=1e-5)
    model = AutoModelForSequenceClassification.from_pretrained(run.model)
    assert model.classifier.in_features == 2 * model.config.encoder.hidden_size + 1


def test_it_exports_to_onnx_with_the_same_answers(run, files):
    warmstart.export(run.folder)
    pairs = [("good film", "a film"), ("bad", "a very long text about a good film")]
    plain, onnx = warmstart.load(run.folder).predict(pairs), warmstart.load(run.folder, engine="onnx").predict(pairs)
    assert np.allclose([one["probability"] for one in plain], [one["probability"] for one in onnx], atol=1e-5)


def test_numbers_are_solved_without_training(encoder, files, tmp_path):
    fields = {"layers": {"freeze": "encoder"}, "head": {"init": "linear-probe"}}
    task = {"name": "score", "encoder": "bi"}
    header, *lines = Path(files["pairs"]).read_text().splitlines()
    numbered = [line.replace(",pos", ",4.5").replace(",neg", ",1.5") for line in lines]
    (tmp_path / "scores.csv").write_text("\n".join([header, *numbered]))
    run = warmstart.fit(
        model=encoder, train=str(tmp_path / "scores.csv"), task=task, data=PAIRS, out=tmp_path / "run", **fields
    )
    assert run.training.steps == 0
    assert run.training.linear_probe.method == "ridge regression"


def test_single_texts_and_slices_are_refused_by_name(encoder, files, tmp_path):
    with pytest.raises(RecipeError, match=r"task\.encoder: found bi, which reads the two texts of a pair"):
        warmstart.fit(model=encoder, train=files["train"], task=BI, out=tmp_path / "one")
    window = {"method": "slices", "max_tokens": 16}
    with pytest.raises(RecipeError, match=r"window\.method: found slices"):
        warmstart.fit(model=encoder, train=files["pairs"], task=BI, data=PAIRS, window=window, out=tmp_path / "two")


def test_a_head_that_compares_is_reused_as_one_alone(run, files, tmp_path):
    settings = {"model": str(run.model), "train": files["pairs"], "data": PAIRS, "training": {"max_steps": 1}}
    with pytest.raises(RecipeError, match=r"head\.reuse: the model's head is for task\.encoder: bi"):
        warmstart.fit(**settings, task={"name": "classify", "encoder": "cross"}, out=tmp_path / "cross")
    assert warmstart.fit(**settings, task=BI, out=tmp_path / "again").training.new_parameters == []


def test_a_folder_whose_task_and_head_disagree_is_refused(run, tmp_path):
    with publish(tmp_path / "model") as staging:
        shutil.copytree(run.model, staging, dirs_exist_ok=True, ignore=shutil.ignore_patterns("manifest.json"))
        values = json.loads((staging / "warmstart.json").read_text())
        values["options"]["encoder"] = "cross"
        (staging / "warmstart.json").write_text(json.dumps(values))
    with pytest.raises(ModelError, match=r"options\.encoder: the head in config\.json reads pairs otherwise"):
        warmstart.load(tmp_path / "model")
