"""Attention maps, what they are like, and their pictures."""

import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tiny import ARCHITECTURES, NO_ATTENTION, tiny_japanese, tiny_model, tiny_tokenizer
from warmstart.errors import ModelError
from warmstart.inference.features import Extractor
from warmstart.inspection.attention import AttentionMaps, read_maps
from warmstart.inspection.attention_statistics import KINDS, attention_statistics, is_punctuation, word_kind
from warmstart.inspection.page import PageSection, write_html
from warmstart.inspection.patterns import PATTERNS, block_strength, find_patterns
from warmstart.inspection.pictures import head_table, lines, thumbnails
from warmstart.text.windows import Window

PAIR = ("who is alice?", "alice lives in paris!")
WINDOWED = {"longformer": "a token attends to a window of the others only"}


def extractor(name="bert", tokenizer=None, **changes):
    return Extractor(tiny_model(name, None, **changes).eval(), tokenizer or tiny_tokenizer(name), Window(64))


@pytest.mark.parametrize("name", [name for name in ARCHITECTURES if name not in {*WINDOWED, *NO_ATTENTION}])
def test_maps_are_whole_and_those_of_plain_transformers(name):
    reader = extractor(name)
    before = reader.encoder.config._attn_implementation
    [maps] = read_maps(reader, [PAIR])
    assert reader.encoder.config._attn_implementation == before
    plain = tiny_model(name, None).eval()
    plain.set_attn_implementation("eager")
    with torch.no_grad():
        expected = plain(**tiny_tokenizer(name)(*PAIR, return_tensors="pt"), output_attentions=True).attentions
    assert np.abs(maps.weights - torch.cat(expected).numpy()).max() < 1e-6
    assert maps.weights.shape == (3, 4, len(maps.tokens), len(maps.tokens))
    assert maps.weights.sum(-1) == pytest.approx(1, abs=1e-5)
    assert [token for token, segment in zip(maps.tokens, maps.segments, strict=True) if segment is not None] == [
        *("who", "is", "alice", "?"),
        *("alice", "lives", "in", "paris", "!"),
    ]


def test_an_encoder_without_whole_maps_is_refused():
    with pytest.raises(ModelError, match="longformer: a token attends to some of the others only"):
        list(read_maps(extractor("longformer"), [PAIR]))


def test_tokens_are_shown_by_the_characters_of_the_text(tmp_path):
    tokenizer = tiny_japanese(tmp_path)
    [maps] = read_maps(extractor("bert", tokenizer, vocab_size=len(tokenizer)), ["東京大学へ行く"])
    assert "".join(maps.tokens[1:-1]) == "東京大学へ行く"
    [maps] = read_maps(extractor(), ["Alice LOVED it"])
    assert maps.tokens == ["[CLS]", "Alice", "LOVED", "it", "[SEP]"]


def drawn(pattern, size=24, seed=0):
    """A map with one pattern, and a little noise."""
    weights = np.random.default_rng(seed).uniform(0.5, 1.5, (size, size)) / size
    place = np.arange(size)
    if pattern in ("vertical", "both"):
        weights[:, [0, size - 1]] += 1.5
    if pattern in ("diagonal", "both"):
        weights[place[1:], place[:-1]] += 2
    if pattern == "block":
        half = place < size // 2
        weights[half[:, None] == half] *= 8
    return (weights / weights.sum(-1, keepdims=True)).astype(np.float32)


@settings(max_examples=40)
@given(st.sampled_from(PATTERNS), st.integers(16, 60), st.integers(0, 1000))
def test_a_drawn_pattern_is_named(pattern, size, seed):
    segments = [None, *[0] * (size // 2 - 1), *[1] * (size - size // 2 - 1), None]
    weights = drawn(pattern, size, seed)
    assert PATTERNS[int(find_patterns(weights, segments))] == pattern
    one_text = [None, *[0] * (size - 2), None]
    assert block_strength(weights, one_text) == 0


def maps_of(weights, tokens):
    special = {"[CLS]", "[SEP]"}
    return AttentionMaps(tokens, [None if token in special else 0 for token in tokens], weights)


def test_statistics_are_means_over_texts():
    tokens = ["[CLS]", "not", "good", ",", "[SEP]"]
    uniform = np.full((5, 5), 0.2, np.float32)
    first = np.zeros((5, 5), np.float32)
    first[:, 0] = 1
    comma = np.zeros((5, 5), np.float32)
    comma[:, 3] = 1
    weights = np.stack([np.stack([uniform, first]), np.stack([comma, np.eye(5, dtype=np.float32)])])
    statistics = attention_statistics([maps_of(weights, tokens)] * 2, {**KINDS, "negation": word_kind(["NOT"])})
    by_head = {head.head: head for head in statistics.heads}
    assert (statistics.texts, statistics.tokens, list(by_head)) == (2, 10, ["0.0", "0.1", "1.0", "1.1"])
    assert [round(head.entropy, 4) for head in statistics.heads] == [1, 0, 0, 0]
    assert [round(head.special, 4) for head in statistics.heads] == [0.4, 1, 0, 0.4]
    assert by_head["0.0"].distance == pytest.approx(1.6)
    assert by_head["1.1"].distance == 0
    assert by_head["1.0"].kinds == {"punctuation": pytest.approx(3), "number": None, "negation": 0}
    assert by_head["0.0"].kinds["punctuation"] == pytest.approx(1)
    assert by_head["0.1"].patterns["vertical"] == 1
    assert statistics.patterns_by_layer()[0]["vertical"] == 0.5
    assert is_punctuation("。")
    assert not is_punctuation("")


def test_pictures_show_every_head_and_token_and_load_nothing():
    tokens = ["[CLS]", "<b>&", "東京", "a-very-long-token-of-many-characters", "[SEP]"]
    weights = np.stack([np.stack([drawn("mixed", 5), np.eye(5, dtype=np.float32)])])
    maps = maps_of(weights, tokens)
    sections = [
        PageSection("all", thumbnails(maps, {"0.1": "diagonal"})),
        PageSection("one", lines(maps, 0, 1)),
        PageSection("numbers", head_table(np.array([[0.5, -0.25]]), marked=np.array([[True, False]])), "a <note>"),
    ]
    page = write_html("Attention", "of a <text>", sections)
    assert page.count("<img ") == 2
    assert page.count("<line ") == 5  # each token attends to itself
    assert page.count("東京") == 2
    assert "<title>a-very-long-token-of-many-characters</title>" in page
    assert "&lt;b&gt;&amp;" in page
    assert "+0.500*" in page
    assert "-0.250<" in page
    assert not re.search(r"<script|<b>|https?://(?!www\.w3\.org/2000/svg)", page)
