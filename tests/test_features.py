"""Features: the numbers a plain forward pass gives, in the rows' order, written whole or not at all."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import warmstart
from tiny import ARCHITECTURES, save_tiny, tiny_model, tiny_tokenizer
from warmstart.cli.main import app
from warmstart.errors import DataError, ModelError, RecipeError
from warmstart.inference import features as module
from warmstart.inference import token_features as token_module
from warmstart.inference.feature_files import write_vectors
from warmstart.inference.features import Extractor
from warmstart.inference.token_features import TokenExtractor
from warmstart.text.windows import Window

TEXTS = ["the film was good and the book was bad", "good", "a great story, and a boring one", "it is a plot"]


def plain(encoder, name, text):
    """Hidden states of one text, from a plain forward pass without padding: (layers, tokens, width)."""
    inputs = tiny_tokenizer(name)(text, return_tensors="pt")
    if name == "longformer":
        inputs["global_attention_mask"] = torch.zeros_like(inputs["input_ids"])
        inputs["global_attention_mask"][:, 0] = 1
    with torch.no_grad():
        states = encoder(**inputs, output_hidden_states=True).hidden_states
    return [state[0].numpy() for state in states]


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_numbers_are_those_of_a_plain_forward_pass(name, tmp_path):
    folder = save_tiny(tmp_path / "encoder", name)
    encoder = tiny_model(name, None).eval()
    states = [plain(encoder, name, text) for text in TEXTS]

    def check(layers, tokens, wanted):
        found = warmstart.features(TEXTS, folder, layers, tokens)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, np.stack([wanted(one) for one in states]), atol=2e-5, rtol=1e-4)

    check("last", "mean", lambda one: one[-1].mean(axis=0))
    check("-2", "cls", lambda one: one[-2][0])
    check("0", "last", lambda one: one[0][-1])
    check("concat-2", "max", lambda one: np.concatenate(one[-2:], axis=-1).max(axis=0))
    if name in ("opt", "awd-lstm"):  # its last layer is narrower
        with pytest.raises(RecipeError, match=r"layers are \[16, 32\] wide"):
            warmstart.features(TEXTS, folder, "all")
        return
    check("sum-3", "mean", lambda one: sum(one[-3:]).mean(axis=0))
    check("all", "mean", lambda one: np.stack([state.mean(axis=0) for state in one]))


@pytest.mark.parametrize("name", ["bert", "xlnet", "longformer", "roberta"])
def test_every_token_has_the_hidden_state_of_a_plain_forward_pass(name, tmp_path, monkeypatch):
    """With padding on either side, and in chunks so small that texts of one buffer are computed apart."""
    monkeypatch.setattr(token_module, "MAX_NUMBERS", 32 * 15)
    folder = save_tiny(tmp_path / "encoder", name)
    states = [plain(tiny_model(name, None).eval(), name, text) for text in TEXTS]
    chunks = list(TokenExtractor.load(folder, layers="-2").stream(TEXTS, batch_size=2))
    assert len(chunks) > 1
    found = np.concatenate([chunk.vectors for chunk in chunks])
    np.testing.assert_allclose(found, np.concatenate([one[-2] for one in states]), atol=2e-5, rtol=1e-4)
    tokenizer = tiny_tokenizer(name)
    tokens = [tokenizer.convert_ids_to_tokens(tokenizer(text)["input_ids"]) for text in TEXTS]
    assert [token for chunk in chunks for token in chunk.tokens] == [token for own in tokens for token in own]
    texts = [row["text"] for chunk in chunks for row in chunk.rows]
    assert texts == [text for text, own in zip(TEXTS, tokens, strict=True) for _ in own]
    every = TokenExtractor.load(folder, layers="all")
    assert every.shape == (4, 32)
    vectors = np.concatenate([chunk.vectors for chunk in every.stream(TEXTS)])
    wanted = np.concatenate([np.stack(one, axis=1) for one in states])
    np.testing.assert_allclose(vectors, wanted, atol=2e-5, rtol=1e-4)


def test_tokens_say_their_text_segment_and_characters(encoder):
    [chunk] = TokenExtractor.load(encoder).stream([("a good film", "the Book was bad")])
    words = {0: "a good film", 1: "the Book was bad"}
    spans = list(zip(chunk.tokens, chunk.segments, chunk.starts, chunk.ends, strict=True))
    assert [token for token, *place in spans if place == [None] * 3] == ["[CLS]", "[SEP]", "[SEP]"]
    covered = [words[segment][start:end] for _, segment, start, end in spans if segment is not None]
    assert covered == [*words[0].split(), *words[1].split()]


def test_tokens_of_a_long_text_are_those_that_are_seen(encoder):
    long = " ".join(["good"] * 6 + ["bad"] * 6)
    both = TokenExtractor.load(encoder, max_tokens=6, window="head+tail")
    [chunk] = both.stream([long])
    assert chunk.starts == [None, 0, 5, 46, 50, None]
    assert chunk.ends == [None, 4, 9, 49, 53, None]
    assert both.extractor.cut.tokens_cut == 8
    [chunk] = TokenExtractor.load(encoder, max_tokens=8, window="slices").stream([long, "bad"], batch_size=1)
    assert chunk.slices == [0] * 8 + [1] * 8 + [0] * 3
    assert [s for s in chunk.starts if s is not None] == [*range(0, 30, 5), *range(30, 54, 4), 0]


@pytest.fixture(scope="module")
def small():
    return Extractor(tiny_model("bert", None), tiny_tokenizer(), Window(16))


@given(st.lists(st.lists(st.sampled_from(["good", "film", "x"]), min_size=1, max_size=20).map(" ".join), max_size=12))
@settings(deadline=None, max_examples=20)
def test_whatever_the_batches_each_text_has_its_own_vector(small, texts):
    found = small.vectors(texts, batch_size=3)
    assert found.shape == (len(texts), 32)
    for text, vector in zip(texts, found, strict=True):
        np.testing.assert_allclose(vector, small.vectors([text])[0], atol=1e-5)


def test_rows_are_read_no_further_ahead_than_a_buffer(small, monkeypatch):
    monkeypatch.setattr(module, "BUFFER", 8)
    taken = []
    texts = (taken.append(number) or f"film {number}" for number in range(1000))
    rows, vectors = next(small.stream(texts))
    assert len(rows) == len(vectors) == 8
    assert len(taken) <= 9


def test_a_long_text_is_cut_and_counted_or_seen_in_slices(encoder):
    long = " ".join(["good"] * 40 + ["bad"] * 40)
    cut = Extractor.load(encoder, max_tokens=42)
    np.testing.assert_allclose(cut.vectors([long]), cut.vectors([" ".join(["good"] * 40)]), atol=1e-5)
    assert (cut.cut.rows_cut, cut.cut.tokens_cut) == (1, 40)
    whole = Extractor.load(encoder, max_tokens=42, window="slices")
    halves = cut.vectors([" ".join(["good"] * 40), " ".join(["bad"] * 40)])
    np.testing.assert_allclose(whole.vectors([long, "good"], batch_size=1)[0], halves.mean(axis=0), atol=1e-5)
    assert whole.cut.rows_cut == 0


def test_pairs_have_vectors_of_their_own(encoder):
    both = warmstart.features([("good", "bad"), ("a film", "a book")], encoder)
    assert both.shape == (2, 32)
    assert not np.allclose(both[0], warmstart.features(["good"], encoder)[0])
    with pytest.raises(DataError, match="text 2: found 'alone'; expected texts, all alike"):
        warmstart.features([("good", "bad"), "alone"], encoder)


@pytest.mark.parametrize("text", [5, None, "  ", ("one",), ["a", 3]])
def test_what_is_no_text_is_refused(small, text):
    with pytest.raises(DataError, match="text 2"):
        small.vectors(["good", text][0:2])


def test_a_run_gives_its_own_encoder_and_window(run, encoder):
    found = Extractor.load(run.folder)
    assert found.window == warmstart.load(run.folder).window
    with torch.no_grad():
        inputs = tiny_tokenizer()("a good film", return_tensors="pt")
        state = warmstart.load(run.folder).engine.model.base_model(**inputs).last_hidden_state
    np.testing.assert_allclose(found.vectors(["a good film"])[0], state[0].mean(dim=0), atol=1e-5)
    assert not np.allclose(found.vectors(["a good film"]), warmstart.features(["a good film"], encoder))


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"layers": "scalar-mix"}, "layers: found scalar-mix, which is learned"),
        ({"pooling": "attention"}, "pooling: found attention, which is learned"),
        ({"layers": "9"}, "has layers 0 to 3"),
        ({"pooling": "men"}, "did you mean 'mean'"),
        ({"max_tokens": 5000}, "takes at most 512"),
        ({"window": "middle"}, "window: method: found 'middle'"),
    ],
)
def test_what_cannot_be_is_refused(encoder, said, told):
    with pytest.raises(RecipeError, match=told):
        Extractor.load(encoder, **said)


def call(*words):
    result = CliRunner().invoke(app, ["features", *map(str, words)])
    if result.exception:
        raise result.exception
    return result


@pytest.mark.parametrize(("layers", "shape"), [("last", (32,)), ("all", (4, 32))])
def test_the_verb_writes_both_formats_with_the_same_numbers(encoder, files, tmp_path, layers, shape):
    words = [files["train"], "--model", encoder, "--layers", layers, "--batch-size", "5"]
    told = json.loads(call(*words, "--out", tmp_path / "v.npy", "--json").stdout)
    assert told == {"rows": 64, "shape": list(shape), "dtype": "fp32", "out": str(tmp_path / "v.npy")}
    assert "64 vectors" in call(*words, "--out", tmp_path / "v.parquet").stderr
    array, table = np.load(tmp_path / "v.npy"), pq.read_table(tmp_path / "v.parquet")
    assert array.shape == (64, *shape)
    assert array.dtype == np.float32
    np.testing.assert_array_equal(array, np.array(table.column("vector").to_pylist(), np.float32))
    assert table.column("row").to_pylist() == [f"{files['train']}:{line}" for line in range(2, 66)]
    texts = [line.partition(",")[0] for line in Path(files["train"]).read_text().splitlines()[1:]]
    np.testing.assert_allclose(array, warmstart.features(texts, encoder, layers), atol=1e-5)


def test_the_verb_writes_a_vector_for_every_token(encoder, files, tmp_path):
    words = [files["train"], "--model", encoder, "--pooling", "none", "--layers", "concat-2", "--batch-size", "5"]
    told = json.loads(call(*words, "--out", tmp_path / "v.parquet", "--json").stdout)
    table = pq.read_table(tmp_path / "v.parquet")
    assert table.column_names == ["row", "slice", "segment", "token", "start", "end", "vector"]
    assert told == {
        "rows": 64,
        "tokens": len(table),
        "shape": [64],
        "dtype": "fp32",
        "out": str(tmp_path / "v.parquet"),
    }
    texts = [line.partition(",")[0] for line in Path(files["train"]).read_text().splitlines()[1:]]
    mean = warmstart.features(texts, encoder, "concat-2")
    kept = table.to_pylist()
    for number, (text, vector) in enumerate(zip(texts, mean, strict=True)):
        own = [token for token in kept if token["row"] == f"{files['train']}:{number + 2}"]
        np.testing.assert_allclose(np.mean([token["vector"] for token in own], axis=0), vector, atol=1e-5)
        assert text[own[1]["start"] : own[1]["end"]] == text.split()[0]
        assert (own[0]["token"], own[0]["start"], own[0]["segment"]) == ("[CLS]", None, None)


def test_half_the_size_for_half_the_digits(encoder, files, tmp_path):
    words = [files["pairs"], "--model", encoder, "--pair", "other", "--dtype", "fp16"]
    call(*words, "--out", tmp_path / "v.npy")
    call(*words, "--out", tmp_path / "v.parquet")
    array = np.load(tmp_path / "v.npy")
    assert array.dtype == np.float16
    assert "halffloat" in str(pq.read_schema(tmp_path / "v.parquet").field("vector").type)
    exact = tmp_path / "exact.npy"
    call(*words[:-2], "--out", exact)
    np.testing.assert_array_equal(array, np.load(exact).astype(np.float16))


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "v.npy"
    path.write_bytes(b"old")

    def failing():
        yield ["a:1"], np.ones((1, 2), np.float32)
        raise DataError("b:2: broken")

    with pytest.raises(DataError):
        write_vectors(failing(), path, (2,))
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(ModelError, match=r"a:1: its vector has a number that fp16 cannot hold"):
        write_vectors([(["a:1"], np.full((1, 2), 1e6, np.float32))], path, (2,), "fp16")


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--out", "v.csv"], "found suffix '.csv'"),
        (["--out", "nowhere/v.npy"], "there is no folder nowhere"),
        (["--out", "v.npy", "--dtype", "fp8"], "--dtype: found 'fp8'"),
        (["--out", "v.npy", "--pooling", "none"], "cannot say which token"),
    ],
)
def test_where_it_cannot_be_written_is_said_at_once(encoder, files, more, told):
    with pytest.raises(RecipeError, match=told):
        call(files["train"], "--model", encoder, *more)
