"""A linear head over pooled tokens, on every architecture: sentence-transformers opens it and gives its logits."""

import json

import numpy as np
import pytest
import torch
import transformers

import warmstart.models.heads.pooled  # noqa: F401  (makes our models known to transformers)
from contracts.test_every_task import CASES, fit
from small import saved_weights
from tiny import ARCHITECTURES, save_tiny
from warmstart.errors import ModelError
from warmstart.inference.predictor import Predictor
from warmstart.models.loading import load_as_saved

HEAD = {"head.type": "linear", "training.max_steps": 2}
TEXTS = ["a good film", "bad", "it was a long story with many words " * 40]


def logits(run, texts):
    """The logits of our model, one text at a time."""
    predictor = Predictor.load(run.folder)
    tokenizer, model = predictor.tokenizer, predictor.engine.model
    options = {"truncation": True, "max_length": predictor.window.max_tokens, "return_tensors": "pt"}
    with torch.no_grad():
        rows = [model(**tokenizer(*(text if isinstance(text, tuple) else (text,)), **options)).logits for text in texts]
    return torch.cat(rows).float().numpy()


@pytest.mark.parametrize("architecture", sorted(ARCHITECTURES))
def test_it_opens_in_sentence_transformers_and_gives_the_logits(architecture, tmp_path):
    library = pytest.importorskip("sentence_transformers")
    encoder = str(save_tiny(tmp_path / "encoder", architecture))
    run = fit(encoder, "classify", tmp_path / "run", **HEAD, **{"head.pooling": "mean"})
    # The library gives no token global attention, and pads on the side where these would read it.
    if architecture in {"longformer", "rwkv", "recurrent_gemma", "xlstm"}:
        assert (run.model / "model.safetensors").is_file()
        return
    other = library.SentenceTransformer(str(run.model))
    assert np.abs(other.encode(TEXTS) - logits(run, TEXTS)).max() < 1e-5
    assert not (run.model / "model.safetensors").exists()
    again = transformers.AutoModelForSequenceClassification.from_pretrained(run.model)
    ours = load_as_saved(str(run.model)).state_dict()
    assert all(torch.equal(tensor, ours[name]) for name, tensor in again.state_dict().items())


@pytest.mark.parametrize("pooling", ["cls", "mean", "max", "last"])
@pytest.mark.parametrize("name", ["classify", "score", "classify pairs"])
def test_every_pooling_that_both_have_is_the_same(name, pooling, encoder, tmp_path):
    library = pytest.importorskip("sentence_transformers")
    if name not in CASES:
        pytest.skip(f"there is no case {name}")
    run = fit(encoder, name, tmp_path / "run", **HEAD, **{"head.pooling": pooling})
    asked = [text for text in CASES[name].asked if isinstance(text, str | tuple)]
    other = library.SentenceTransformer(str(run.model))
    theirs = other.encode([list(text) if isinstance(text, tuple) else text for text in asked])
    assert np.abs(theirs - logits(run, asked)).max() < 1e-5


def test_a_head_that_it_does_not_have_is_stored_in_one_file(encoder, tmp_path):
    for number, changes in enumerate(
        ({"head.type": "mlp"}, {"head.layers": "concat-2"}, {"head.pooling": "attention"}, {"window.method": "slices"})
    ):
        run = fit(encoder, "classify", tmp_path / str(number), **{**HEAD, "head.pooling": "mean", **changes})
        assert (run.model / "model.safetensors").is_file()
        assert not (run.model / "modules.json").exists()


def test_a_model_stored_so_can_be_trained_on_and_its_damage_is_found(encoder, tmp_path):
    run = fit(encoder, "classify", tmp_path / "run", **HEAD)
    again = fit(str(run.model), "classify", tmp_path / "again", **HEAD)
    assert again.training.new_parameters == []
    before, after = saved_weights(run.model), saved_weights(again.model)
    assert before.keys() == after.keys()
    assert not torch.equal(before["classifier.weight"], after["classifier.weight"])
    path = run.model / "2_Dense" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(ModelError, match=r"2_Dense/model\.safetensors: found .* bytes of tensors"):
        load_as_saved(str(run.model))
    assert json.loads((again.model / "2_Dense" / "config.json").read_text())["out_features"] == 2
