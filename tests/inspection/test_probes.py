"""Probes of layers: what is in the states is read, and what is not is not."""

import math

import numpy as np
import pytest

from tiny import tiny_model, tiny_tokenizer
from warmstart.errors import DataError
from warmstart.inference.features import Extractor
from warmstart.inspection.probe_examples import compare_layers, text_examples, word_examples
from warmstart.inspection.probes import ProbeExamples, online_code, probe_layers
from warmstart.text.windows import Window


def examples(count, seed):
    """Two layers: in the second the label is a direction, in the first nothing is."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 2, count)
    vectors = random.normal(size=(count, 2, 16)).astype(np.float32)
    vectors[:, 1, 0] += 6 * labels
    return ProbeExamples(vectors, ["no" if label else "yes" for label in labels], [f"w{n % 40}" for n in range(count)])


def test_a_probe_finds_the_layer_that_knows():
    profile = probe_layers(examples(400, 0), examples(200, 1))
    nothing, everything = profile.layers
    assert (profile.train, profile.test, profile.labels) == (400, 200, 2)
    assert everything.accuracy > 0.97
    assert everything.low <= everything.accuracy <= everything.high
    assert everything.selectivity == pytest.approx(everything.accuracy - everything.control)
    assert everything.control < 0.65  # the types are not in the states
    assert nothing.accuracy < 0.62
    assert everything.compression > 2 > 1.2 > nothing.compression
    assert profile.majority < 0.6


def test_a_control_label_belongs_to_its_type():
    train, test = examples(300, 0), examples(100, 1)
    for each in (train, test):  # the type itself is in the first layer
        each.vectors[:, 0] = [np.eye(40)[int(name[1:]), :16] + np.eye(40)[int(name[1:]), 16:32] for name in each.types]
    assert probe_layers(train, test).layers[0].control > 0.7


def test_the_online_code_is_uniform_where_there_is_nothing_to_learn():
    random = np.random.default_rng(0)
    vectors, labels = np.zeros((512, 4), np.float32), random.integers(0, 4, 512)
    assert online_code(vectors, labels, 4) == pytest.approx(512 * math.log2(4), rel=0.1)
    vectors[np.arange(512), labels] = 5
    assert online_code(vectors, labels, 4) < 512 * math.log2(4) / 4


def test_one_label_is_refused():
    train = ProbeExamples(np.zeros((3, 1, 2), np.float32), ["a"] * 3, ["x"] * 3)
    with pytest.raises(DataError, match="found 1 label in 3 examples; a probe needs two"):
        probe_layers(train, train)


def extractor(seed=0, max_tokens=32):
    return Extractor(tiny_model("bert", None, seed=seed).eval(), tiny_tokenizer(), Window(max_tokens), "all")


def test_words_have_the_states_of_their_first_token_and_the_type_of_their_entity():
    row = {"text": "Alice lives in newyork", "entities": [{"start": 0, "end": 5, "label": "person"}]}
    row["entities"].append({"start": 15, "end": 22, "label": "city"})
    words = word_examples(extractor(), [row])
    assert words.labels == ["person", "O", "O", "city"]
    assert words.types == ["alice", "lives", "in", "newyork"]
    states = (
        tiny_model("bert", None)
        .eval()(**tiny_tokenizer()(row["text"], return_tensors="pt"), output_hidden_states=True)
        .hidden_states
    )
    assert words.vectors[3, 2] == pytest.approx(states[2][0, 4].detach().numpy(), abs=1e-5)
    assert word_examples(extractor(), [row] * 3, limit=5).labels == ["person", "O", "O", "city", "person"]
    assert word_examples(extractor(max_tokens=4), [row]).labels == ["person", "O"]  # what the window shows


def test_texts_have_their_label_and_their_first_word():
    rows = [{"text": "Who lives", "label": "person", "pair": None}, {"text": "where is it", "label": "place"}]
    texts = text_examples(extractor(), rows)
    assert (texts.labels, texts.types, texts.vectors.shape) == (["person", "place"], ["who", "where"], (2, 4, 32))


def test_layers_of_two_encoders_are_compared_by_cka():
    rows = [{"text": f"the film {number} was good"} for number in range(30)]
    assert compare_layers(extractor(), extractor(), rows) == pytest.approx([1] * 4)
    assert all(value < 0.99 for value in compare_layers(extractor(), extractor(seed=1), rows))
