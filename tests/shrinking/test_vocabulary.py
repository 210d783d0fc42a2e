"""A trimmed vocabulary reads the texts it was trimmed to as before, whatever kind of tokenizer it is of."""

import json
import string

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models
from transformers import AutoModelForSequenceClassification, AutoTokenizer, PreTrainedTokenizerFast

from tiny import tiny_byte_tokenizer, tiny_model, tiny_tokenizer, tiny_unigram_tokenizer
from warmstart.errors import ModelError
from warmstart.models.fewer_layers import remove_blocks
from warmstart.models.switches import BlocksOff
from warmstart.models.vocabulary import trim_embeddings, trim_vocabulary

TOKENIZERS = {
    "WordPiece": tiny_tokenizer("bert", [f"word{number}" for number in range(50)]),
    "Unigram": tiny_unigram_tokenizer(),
    "BPE": tiny_byte_tokenizer(),
}
words = st.sampled_from(["the", "film", "word7", "films", "thefilm", "東京", "大", "x", "!", "é", "👍"])
texts = st.lists(words, max_size=6).map(" ".join)


@pytest.mark.parametrize("kind", TOKENIZERS)
@settings(max_examples=30)
@given(some=st.lists(texts | st.text(alphabet=string.ascii_letters + " #▁", max_size=8), min_size=1, max_size=4))
def test_what_is_left_reads_its_texts_as_before(kind, some):
    tokenizer = TOKENIZERS[kind]
    before = [tokenizer(text)["input_ids"] for text in some]
    trimmed = trim_vocabulary(tokenizer, [number for ids in before for number in ids])
    after = [trimmed.tokenizer(text)["input_ids"] for text in some]
    new_ids = trimmed.new_ids
    assert after == [[new_ids[number] for number in ids] for ids in before]
    assert len(trimmed.tokenizer) == len(trimmed.kept) <= len(tokenizer)
    assert trimmed.tokenizer.pad_token_id == tokenizer.pad_token_id


def test_other_texts_are_spelt_out_not_unknown():
    trimmed = trim_vocabulary(TOKENIZERS["WordPiece"], [])
    assert "word7" not in trimmed.tokenizer.get_vocab()
    assert trimmed.tokenizer.tokenize("word7") == ["w", "##o", "##r", "##d", "##7"]


def test_a_tokenizer_of_whole_words_is_refused_by_name():
    words = Tokenizer(models.WordLevel({"[UNK]": 0, "film": 1}, unk_token="[UNK]"))
    with pytest.raises(ModelError, match="WordLevel; expected WordPiece, Unigram, BPE"):
        trim_vocabulary(PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]"), [1])


@pytest.mark.parametrize("name", ["bert", "roberta", "electra"])
def test_a_large_vocabulary_trimmed_gives_the_same_numbers_in_plain_transformers(name, tmp_path):
    # As many tokens as a multilingual encoder has, of which these texts use a few.
    more = [f"wort{number}" for number in range(120_000)]
    tokenizer = tiny_tokenizer(name, more)
    model = tiny_model(name, vocab_size=len(tokenizer)).eval()
    texts = ["the film was good", "wort7 wort119999 and paris", "a b c !"]
    inputs = tokenizer(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        before = model(**inputs).logits
    size = sum(parameter.numel() for parameter in model.parameters())
    trimmed = trim_vocabulary(tokenizer, inputs["input_ids"].flatten().tolist())
    trim_embeddings(model, trimmed)
    model.save_pretrained(tmp_path)
    trimmed.tokenizer.save_pretrained(tmp_path)
    small = AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    again = AutoTokenizer.from_pretrained(tmp_path)
    assert small.config.vocab_size == len(again) < 200
    assert sum(parameter.numel() for parameter in small.parameters()) < size / 20
    with torch.no_grad():
        after = small(**again(texts, padding=True, return_tensors="pt")).logits
    assert torch.allclose(before, after, atol=1e-6, rtol=0)
    assert json.loads((tmp_path / "config.json").read_text("utf-8"))["pad_token_id"] == 0


@pytest.mark.parametrize("name", ["bert", "roberta", "distilbert", "electra", "mpnet"])
def test_fewer_blocks_give_what_the_model_gives_with_them_off(name, tmp_path):
    model = tiny_model(name).eval()
    inputs = tiny_tokenizer(name)("the film was good", return_tensors="pt")
    with torch.no_grad(), BlocksOff(model, [1]):
        expected = model(**inputs).logits
    remove_blocks(model, [1])
    model.save_pretrained(tmp_path)
    small = AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    assert small.config.num_hidden_layers == 2
    with torch.no_grad():
        assert torch.allclose(small(**inputs).logits, expected, atol=1e-6, rtol=0)


def test_blocks_that_share_their_weights_are_left():
    with pytest.raises(ModelError, match="the blocks of albert are not a list"):
        remove_blocks(tiny_model("albert"), [1])
    with pytest.raises(ModelError, match="one must be left"):
        remove_blocks(tiny_model("bert"), [0, 1, 2])
