"""Checkpoints that TensorFlow wrote, kept in tests/samples: imported whole, or refused with the file and the place."""

import json
import random
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from warmstart.cli.main import app
from warmstart.errors import ModelError, RecipeError
from warmstart.models.loading import load_model, load_tokenizer
from warmstart.models.tensorflow.bert_names import weight_of
from warmstart.models.tensorflow.checkpoint import Checkpoint
from warmstart.models.tensorflow.crc32c import crc32c
from warmstart.models.tensorflow.import_bert import import_bert

ROOT = Path(__file__).resolve().parents[1]
SAMPLES = ROOT / "tests" / "samples" / "tensorflow"
sys.path[:0] = [str(ROOT / "proofs"), str(ROOT / "benchmarks")]
import import_checkpoints  # noqa: E402


@pytest.fixture
def sample(tmp_path):
    return shutil.copytree(SAMPLES / "tiny", tmp_path / "checkpoint")


@pytest.mark.parametrize("name", sorted(path.name for path in SAMPLES.iterdir()))
def test_outputs_are_those_of_the_weights_it_was_made_from(name, tmp_path):
    kind = getattr(transformers, import_checkpoints.CASES[name][0])
    expected = kind.from_pretrained(SAMPLES / name / "expected")
    apart, _ = import_checkpoints.difference(SAMPLES / name, expected, tmp_path / "out")
    assert apart <= 1e-5


@pytest.mark.parametrize("name", import_checkpoints.DAMAGES)
def test_a_damaged_one_is_refused_with_the_file_and_the_place(name, sample, tmp_path):
    damage, said = import_checkpoints.DAMAGES[name]
    damage(sample)
    with pytest.raises(ModelError, match=said):
        import_bert(sample, tmp_path / "out", lower_case=True)
    assert not (tmp_path / "out").exists()


def test_no_flipped_bit_is_taken_for_a_weight(sample, tmp_path):
    """Anywhere in the index, and anywhere in the data that the model reads."""
    read = [entry for name, entry in Checkpoint.find(sample).entries.items() if weight_of(name)]
    places = random.Random(0)
    for number in range(60):
        file = sample / (import_checkpoints.INDEX if number % 2 else import_checkpoints.DATA)
        content = file.read_bytes()
        entry = places.choice(read)
        at = places.randrange(len(content)) if number % 2 else entry.offset + places.randrange(entry.size)
        file.write_bytes(content[:at] + bytes([content[at] ^ (1 << places.randrange(8))]) + content[at + 1 :])
        with pytest.raises(ModelError, match=file.name):
            import_bert(sample, tmp_path / "out", lower_case=True)
        file.write_bytes(content)
    import_bert(sample, tmp_path / "out", lower_case=True)


@given(st.binary(max_size=20_000))
def test_the_checksum_is_that_of_one_byte_after_the_other(data):
    state = 0xFFFFFFFF
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = (state >> 1) ^ (0x82F63B78 if state & 1 else 0)
    assert crc32c(data) == state ^ 0xFFFFFFFF


def test_it_opens_as_any_encoder_with_its_heads(tmp_path):
    imported = import_bert(SAMPLES / "tiny", tmp_path / "bert", lower_case=True)
    assert (imported.model, imported.lower_case) == ("BertForPreTraining", True)
    assert imported.left_out == ("bert/pooler/dense/bias/adam_m", "global_step")
    tokenizer = load_tokenizer(str(tmp_path / "bert"))
    loaded = load_model(str(tmp_path / "bert"), "AutoModelForMaskedLM", {}, tokenizer)
    assert loaded.new_parameters == ()
    assert tokenizer.tokenize("W1 w2") == ["w1", "w2"]


def test_the_case_is_asked_for_where_no_file_says_it(sample, tmp_path):
    with pytest.raises(RecipeError, match="add --lower-case or --no-lower-case"):
        import_bert(sample, tmp_path / "out")
    vocabulary = sample / "vocab.txt"
    vocabulary.write_text(vocabulary.read_text().replace("w7\n", "Paris\n"))
    with pytest.raises(RecipeError, match="holds 'Paris', which such a text never has"):
        import_bert(sample, tmp_path / "out", lower_case=True)
    assert import_bert(sample, tmp_path / "out").lower_case is False
    assert load_tokenizer(str(tmp_path / "out")).tokenize("Paris") == ["Paris"]


def test_words_that_juman_cut_stay_whole(sample, tmp_path):
    """Kyoto's vocabulary has words of several ideographs, which BERT's own tokenizer would cut into single ones."""
    vocabulary = sample / "vocab.txt"
    vocabulary.write_text(vocabulary.read_text().replace("w7\n", "京都\n").replace("w8\n", "大学\n"), encoding="utf-8")
    imported = import_bert(sample, tmp_path / "out", lower_case=False)
    assert not imported.splits_ideographs
    assert load_tokenizer(str(tmp_path / "out")).tokenize("京都 大学") == ["京都", "大学"]
    assert import_bert(SAMPLES / "tiny", tmp_path / "other", lower_case=False).splits_ideographs


def test_tensors_of_other_types_are_read_or_named(sample):
    checkpoint = Checkpoint.find(sample)
    assert checkpoint.read("global_step") == 7
    assert checkpoint.read("bert/pooler/dense/kernel").dtype == np.float32
    assert weight_of("bert/pooler/dense/kernel").transposed
    assert weight_of("electra/embeddings/word_embeddings") is None


def test_the_command_says_what_it_wrote(sample, tmp_path):
    command = ["import", str(sample), "--out", str(tmp_path / "bert"), "--lower-case", "--json"]
    about = json.loads(CliRunner().invoke(app, command).stdout)
    assert (about["model"], about["tensors"], about["left_out"]) == ("BertForPreTraining", 46, 2)
    opened = transformers.AutoModelForPreTraining.from_pretrained(about["folder"])
    assert torch.equal(opened.cls.predictions.decoder.weight, opened.bert.embeddings.word_embeddings.weight)
    shown = CliRunner().invoke(app, ["import", str(sample), "--out", str(tmp_path / "two"), "--lower-case"]).stdout
    assert "BertForPreTraining" in shown
