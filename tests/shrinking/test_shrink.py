"""A smaller model is an ordinary folder that answers alike; one that does not is not kept."""

import json
from types import SimpleNamespace

import pytest
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer, T5EncoderModel
from typer.testing import CliRunner

import warmstart
from small import FAST, reviews
from tiny import save_tiny
from warmstart.cli.main import app
from warmstart.errors import ModelError, RunError
from warmstart.evaluation.run import RunFolder
from warmstart.pipeline.distil import with_teacher_rows
from warmstart.pipeline.prepare import read_rows
from warmstart.runtime.progress import silent
from warmstart.shrinking.gate import judge
from warmstart.shrinking.record import ShrinkOptions
from warmstart.shrinking.shrink_run import shrink_run
from warmstart.storage.cache import cache_folder


@pytest.fixture(scope="module")
def whole(files, tmp_path_factory):
    """A run with dev rows, of an encoder with many words that no text uses."""
    folder = tmp_path_factory.mktemp("whole")
    encoder = save_tiny(folder / "encoder", words=[f"wort{number}" for number in range(5000)])
    run = warmstart.fit(
        model=str(encoder), train=files["train"], dev=files["test"], test=files["test"], out=folder / "run", **FAST
    )
    return RunFolder(run.folder)


def call(*words, code=0):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, result.output
    return result


def test_a_trimmed_vocabulary_answers_as_before(whole, tmp_path):
    out = tmp_path / "small"
    told = json.loads(call("shrink", whole.folder, "--remove", 0, "--out", out, "--json").stdout)
    assert told["blocks"] == [3, 3]
    assert told["tokens"][1] < 200 < 5000 < told["tokens"][0]
    assert told["parameters"][1] < told["parameters"][0] / 3
    assert told["attempts"][-1]["gate"]["ratio"] == 1
    texts = [text for text, _ in reviews(24, start=1000)]
    before = [list(answer["probabilities"].values()) for answer in whole.predict(texts)]
    after = [list(answer["probabilities"].values()) for answer in warmstart.load(out).predict(texts)]
    for one, other in zip(before, after, strict=True):
        assert one == pytest.approx(other, abs=1e-6)
    assert AutoModelForSequenceClassification.from_pretrained(out).config.vocab_size == told["tokens"][1]
    assert AutoTokenizer.from_pretrained(out).tokenize("wort77")[0] == "w"
    assert not list(tmp_path.glob(".small*"))
    call("verify", out)


def test_blocks_are_removed_and_the_rest_is_trained_back(whole, tmp_path):
    out = tmp_path / "small"
    told = call("shrink", whole.folder, "--min-ratio", 0.8, "--out", out).output
    assert "2 of 3" in told
    small = AutoModelForSequenceClassification.from_pretrained(out)
    assert small.config.num_hidden_layers == 2
    assert len(warmstart.load(out).predict(["a good film"])) == 1
    record = json.loads((out / "manifest.json").read_text("utf-8"))["shrink"]
    assert record["attempts"][-1]["passed"]
    assert record["attempts"][-1]["gate"]["low"] >= 0
    with pytest.raises(RunError, match="already exists"):
        shrink_run(whole, out)


class Stopped(Exception):
    """Stands for a kill."""


def stop_at_the_gate(run, out):
    """A shrinking that is stopped when its training has ended."""

    def stop(*scores):
        raise Stopped

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("warmstart.shrinking.shrink_run.judge", stop)
        with pytest.raises(Stopped):
            shrink_run(run, out, ShrinkOptions(0.5, 1))


def test_a_training_that_ended_before_a_kill_is_not_repeated(whole, tmp_path, monkeypatch):
    shrink_run(whole, tmp_path / "whole", ShrinkOptions(0.5, 1))
    stop_at_the_gate(whole, tmp_path / "stopped")
    monkeypatch.setattr("warmstart.shrinking.train_back.run_recipe", None)
    shrink_run(whole, tmp_path / "stopped", ShrinkOptions(0.5, 1))
    one, other = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "stopped"))
    assert one == other
    assert not list(tmp_path.glob(".stopped*"))


def test_what_was_stopped_is_not_used_for_another_model(whole, files, tmp_path):
    data = {"train": files["train"], "dev": files["test"], "test": files["test"]}
    other = warmstart.fit(model=whole.recipe.model, out=tmp_path / "run", seed=7, **data, **FAST)
    shrink_run(other, tmp_path / "expected", ShrinkOptions(0.5, 1))
    stop_at_the_gate(whole, tmp_path / "small")
    shrink_run(other, tmp_path / "small", ShrinkOptions(0.5, 1))
    one, two = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("expected", "small"))
    assert one == two


def test_a_model_that_is_never_right_is_refused_before_anything_is_trained(whole, tmp_path, monkeypatch):
    monkeypatch.setattr("warmstart.shrinking.train_back.run_recipe", None)
    monkeypatch.setattr(
        "warmstart.inspection.ablation.Ablations.measure", lambda self: SimpleNamespace(scores=[0.0], mean=0.0)
    )
    with pytest.raises(ModelError, match="no dev row right"):
        shrink_run(whole, tmp_path / "small", ShrinkOptions(0.5, 1))


def test_a_head_that_pools_tokens_is_trained_back_too(sentences, files, tmp_path):
    data = {"train": files["train"], "dev": files["test"], "test": files["test"]}
    run = warmstart.fit(model=sentences, out=tmp_path / "run", **data, **FAST)
    shrunk = shrink_run(run, tmp_path / "small", ShrinkOptions(0.5, 1))
    assert shrunk.blocks == (3, 2)
    assert shrunk.tokens[1] < shrunk.tokens[0]
    assert warmstart.load(tmp_path / "small").predict(["a good film"])[0]["label"] in ("pos", "neg")


def test_what_fails_the_gate_is_not_kept(whole, tmp_path):
    def broken(start, folder, progress):
        """A model that has forgotten everything: its head gives nothing."""
        from warmstart.storage.artifacts import republish

        model = AutoModelForSequenceClassification.from_pretrained(start)
        model.classifier.weight.data.zero_()
        with republish(start) as staging:
            (staging / "model.safetensors").unlink()
            model.save_pretrained(staging)
        return start

    out = tmp_path / "small"
    options = ShrinkOptions(0.99, 1, vocabulary=False)
    with pytest.raises(ModelError, match="so nothing is written"):
        shrink_run(whole, out, options, train_back=broken)
    assert list(tmp_path.iterdir()) == []
    kept = shrink_run(whole, out, ShrinkOptions(0.99, 1), train_back=broken)
    assert [attempt.passed for attempt in kept.attempts] == [False, True]
    assert kept.blocks == (3, 3)  # the vocabulary alone is trimmed


def test_a_run_without_dev_rows_is_refused(run, tmp_path):
    with pytest.raises(RunError, match="no dev rows"):
        shrink_run(run, tmp_path / "small")


def test_the_gate_is_the_lower_end_of_a_paired_interval():
    right = [1.0] * 95 + [0.0] * 5
    assert judge(right, right, 0.99).passed
    assert judge(right, [1.0] * 100, 1.0).passed
    one_lost = [0.0, *right[1:]]
    assert judge(right, one_lost, 0.99).ratio < 0.99
    assert not judge(right, one_lost, 0.99).passed
    two_of_many = [0.0, 0.0, *[1.0] * 998]
    assert judge([1.0] * 1000, two_of_many, 0.99).passed
    assert not judge([1.0] * 1000, two_of_many, 0.997).passed  # above it, but not surely
    with pytest.raises(ModelError, match="below 0"):
        judge([-1.0, -2.0], [-1.0, -1.0], 0.9)


def test_int8_passes_the_same_gate_or_is_not_written(whole, tmp_path, monkeypatch):
    small, int8 = tmp_path / "small", tmp_path / "int8"
    told = json.loads(call("shrink", whole.folder, "--remove", 0, "--out", small, "--int8", int8, "--json").stdout)
    assert told["int8"]["low"] >= 0
    assert told["int8"]["original"] == told["attempts"][-1]["gate"]["original"]
    assert warmstart.load(int8, engine="onnx", precision="int8").predict(["a good film"])[0]["label"] in ("pos", "neg")
    call("verify", int8)
    with pytest.raises(RunError, match=r"--int8 .* already exists"):
        shrink_run(whole, tmp_path / "other", ShrinkOptions(0.99, 0, int8=int8))
    monkeypatch.setattr("warmstart.shrinking.int8._scores", lambda predictor, rows: [0.0] * len(rows))
    shrunk = shrink_run(whole, tmp_path / "other", ShrinkOptions(0.99, 0, int8=tmp_path / "bad"))
    assert not shrunk.int8.passed
    assert any("int8 is not written: it scores 0.0000" in note for note in shrunk.notes)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["int8", "other", "small"]


def test_the_smaller_model_learns_from_the_unshrunk_one(whole, tmp_path, monkeypatch):
    texts, out = tmp_path / "texts.csv", tmp_path / "small"
    texts.write_text("text\na wort77 film\n", encoding="utf-8")
    learned = []
    monkeypatch.setattr(
        "warmstart.pipeline.run_recipe.with_teacher_rows",
        lambda *words: learned.append(parts := with_teacher_rows(*words)) or parts,
    )
    options = ("--remove", 1, "--min-ratio", 0.5, "--train-back", "distil", "--texts", texts)
    told = json.loads(call("shrink", whole.folder, *options, "--out", out, "--json").stdout)
    assert told["blocks"] == [3, 2]
    rows = [row for row in learned[0].tables["train"].dicts() if row["text"] == "a wort77 film"]
    expected = whole.predict(["a wort77 film"])[0]["probabilities"]
    assert {one["label"]: one["probability"] for one in rows[0]["probabilities"]} == pytest.approx(expected, abs=1e-6)
    own = len(list(read_rows(whole.recipe, cache_folder(), silent).tables["train"].dicts()))
    assert len(learned[0].tables["train"]) == 2 * own + 1
    assert not list(tmp_path.glob(".small*"))


def test_a_task_without_a_teacher_is_trained_back_on_labels(whole, tmp_path, monkeypatch):
    monkeypatch.setattr("warmstart.pipeline.distil.learns_from_answers", lambda kind: False)
    shrunk = shrink_run(whole, tmp_path / "small", ShrinkOptions(0.5, 1, train_back="distil"))
    assert any("on labels alone: stages.distil: classify cannot be distilled" in note for note in shrunk.notes)
    assert shrunk.blocks == (3, 2)


@pytest.mark.parametrize(
    ("name", "kind", "folder"), [("nomic_bert", AutoModel, ""), ("t5", T5EncoderModel, "0_Transformer")]
)
def test_heads_are_removed_from_each_block(name, kind, folder, files, tmp_path):
    encoder, out = save_tiny(tmp_path / "encoder", name), tmp_path / "small"
    data = {"train": files["train"], "dev": files["test"], "test": files["test"]}
    run = warmstart.fit(model=str(encoder), out=tmp_path / "run", **data, **FAST)
    told = call("shrink", run.folder, "--remove", 1, "--remove-heads", 3, "--min-ratio", 0.4, "--out", out).output
    assert "2 of 3" in told
    assert "1 of 4" in told
    config = kind.from_pretrained(out / folder).config
    assert (config.num_hidden_layers, config.num_attention_heads) == (2, 1)
    assert warmstart.load(out).predict(["a good film"])[0]["label"] in ("pos", "neg")
    attempt = json.loads((out / "manifest.json").read_text("utf-8"))["shrink"]["attempts"][-1]
    assert len(attempt["removed_heads"].split(",")) == 9


def test_heads_that_a_config_cannot_miss_are_refused_by_name(whole, tmp_path):
    with pytest.raises(ModelError, match="--remove-heads 1: the config of bert cannot say"):
        shrink_run(whole, tmp_path / "small", ShrinkOptions(remove_heads=1))
    assert list(tmp_path.iterdir()) == []


def test_embeddings_are_factorized_where_asked(files, tmp_path):
    encoder, out = save_tiny(tmp_path / "encoder", "deberta-v2"), tmp_path / "small"
    data = {"train": files["train"], "dev": files["test"], "test": files["test"]}
    run = warmstart.fit(model=str(encoder), out=tmp_path / "run", **data, **FAST)
    told = call("shrink", run.folder, "--remove", 0, "--embedding-size", 16, "--min-ratio", 0.1, "--out", out).output
    assert "embedding size" in told
    assert AutoModel.from_pretrained(out).get_input_embeddings().embedding_dim == 16
    assert warmstart.load(out).predict(["a good film"])[0]["label"] in ("pos", "neg")
    options = ShrinkOptions(0.9, 0, embedding_size=31)
    untrained = shrink_run(run, tmp_path / "untrained", options, train_back=lambda start, folder, progress: start)
    assert [attempt.embedding_size for attempt in untrained.attempts] == [31]  # hardly anything is lost
    with pytest.raises(ModelError, match="--embedding-size 32: found 32"):
        shrink_run(run, tmp_path / "other", ShrinkOptions(embedding_size=32))
