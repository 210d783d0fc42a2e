"""An encoder from scratch: the same from the same texts, of the size asked for, and one that any task can learn on."""

import json
import unicodedata

import pytest
import torch
import transformers

import warmstart
from warmstart.errors import RecipeError
from warmstart.models.from_scratch import CAUSAL_IF_ASKED, TOKENIZERS, EncoderShape, make_encoder

TEXTS = [f"the film {number} was {'good' if number % 2 else 'bad'}, and the story was long." for number in range(40)]
SIZE = {"num_layers": 2, "hidden_size": 32, "num_heads": 4, "vocab_size": 400, "max_tokens": 32}


@pytest.mark.parametrize("name", TOKENIZERS)
def test_the_same_texts_give_the_same_folder(name, tmp_path):
    folders = [tmp_path / "one", tmp_path / "two"]
    shape = EncoderShape(name, **SIZE, embedding_size=32)
    make_encoder(TEXTS, folders[0], shape)
    make_encoder(iter(TEXTS), folders[1], shape)
    for path in folders[0].iterdir():
        assert path.read_bytes() == (folders[1] / path.name).read_bytes(), path.name
    model = transformers.AutoModel.from_pretrained(folders[0])
    tokenizer = transformers.AutoTokenizer.from_pretrained(folders[0])
    assert (model.config.num_hidden_layers, model.config.hidden_size) == (2, 32)
    assert len(tokenizer) <= 400
    number = "<unk>" if name == "awd-lstm" else "0"  # a word that is there once
    words = tokenizer.decode(tokenizer(TEXTS[0], add_special_tokens=False)["input_ids"])
    assert words.startswith(f"the film {number} was bad")
    longest = tokenizer("good " * 90, truncation=True, return_tensors="pt")
    assert model(**longest).last_hidden_state.shape == (1, 32, 32)


def test_it_learns_from_raw_text_and_then_another_task(tmp_path):
    encoder = make_encoder(TEXTS, tmp_path / "encoder", EncoderShape(**SIZE))
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS), encoding="utf-8")
    raw = {"task": "masked", "train": str(tmp_path / "texts.txt"), "data.document": "line"}
    run = warmstart.fit(model=str(encoder), out=tmp_path / "raw", **raw, training={"max_steps": 3})
    assert run.metrics["test"]["rows"] == 4
    (tmp_path / "labels.csv").write_text("text,label\n" + "".join(f'"{t}",{"good" in t}\n' for t in TEXTS))
    labelled = {"train": str(tmp_path / "labels.csv"), "training": {"max_steps": 3}}
    assert warmstart.fit(model=str(run.model), out=tmp_path / "run", **labelled).finished


def vectors(folder, text, last):
    """What the encoder in a folder gives for a text that ends in this word, and the number of its tokens before it."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    with torch.no_grad():
        inputs = tokenizer(f"{text} {last}", return_tensors="pt")
        return model(**inputs).last_hidden_state[0], len(tokenizer(text)["input_ids"]) - 1


@pytest.mark.parametrize("name", CAUSAL_IF_ASKED)
def test_a_causal_encoder_reads_from_left_to_right_in_every_task(name, tmp_path):
    encoder = make_encoder(TEXTS, tmp_path / "encoder", EncoderShape(name, **SIZE, causal=True))
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS), encoding="utf-8")
    raw = {"task": {"name": "masked", "objective": "clm"}, "train": str(tmp_path / "texts.txt")}
    run = warmstart.fit(
        model=str(encoder), out=tmp_path / "raw", **raw, **{"data.document": "line"}, training={"max_steps": 2}
    )
    (tmp_path / "labels.csv").write_text("text,label\n" + "".join(f'"{t}",{"good" in t}\n' for t in TEXTS))
    labelled = {"train": str(tmp_path / "labels.csv"), "training": {"max_steps": 2}, "head": {"pooling": "last"}}
    classifier = warmstart.fit(model=str(run.model), out=tmp_path / "run", **labelled)
    for folder in (encoder, run.model):
        one, before = vectors(folder, "the film was", "good")
        other, _ = vectors(folder, "the film was", "bad")
        assert torch.allclose(one[:before], other[:before], atol=1e-6)
        assert not torch.allclose(one[-1], other[-1], atol=1e-3)
    assert json.loads((classifier.model / "config.json").read_text())["encoder"]["is_decoder"]


def test_accents_are_kept_however_they_were_typed(tmp_path):
    texts = ["かき と がぎ は ちがう", "ё и й", "cafe und Café"] * 4
    make_encoder(texts, tmp_path / "encoder", EncoderShape(**SIZE))
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "encoder")
    for one, other in (("か", "が"), ("и", "й"), ("cafe", "café")):
        assert tokenizer(one)["input_ids"] != tokenizer(other)["input_ids"]
        assert tokenizer.unk_token_id not in tokenizer(f"{one} {other}")["input_ids"]
    assert tokenizer(unicodedata.normalize("NFD", "Café が")) == tokenizer("café が")


def test_what_cannot_be_made_is_refused(tmp_path):
    with pytest.raises(RecipeError, match="'brt' cannot be made from scratch; did you mean 'bert'"):
        make_encoder(TEXTS, tmp_path, EncoderShape("brt"))
    with pytest.raises(RecipeError, match="num_heads: found 3, expected a number that divides the hidden size, 32"):
        make_encoder(TEXTS, tmp_path, EncoderShape(hidden_size=32, num_heads=3))
    with pytest.raises(RecipeError, match="causal: found true, but albert cannot be made so; expected bert"):
        make_encoder(TEXTS, tmp_path, EncoderShape("albert", causal=True))
