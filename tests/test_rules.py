"""What fit does where the recipe leaves it open: by rules, which a user's own settings switch off."""

import pytest

import warmstart
from small import weight_bytes
from test_resume import Crash, Trouble, crash
from warmstart.models.loading import load_config
from warmstart.pipeline import rules
from warmstart.pipeline.prepare import read_rows
from warmstart.pipeline.rules import with_rules
from warmstart.recipe import make_recipe
from warmstart.report.model_card import make_card
from warmstart.report.page import render
from warmstart.report.run_facts import read_facts
from warmstart.runtime.progress import silent

CONTRASTIVE = {
    "training.loss": "supervised-contrastive",
    "training.max_steps": 100,
    "training.batch_size": 16,
    "head.init": "linear-probe",
    "head.refit": True,
}
PROBE_START = {"head.init": "linear-probe", "training.learning_rate": 1e-4}


def decided(model, file, folder, **fields):
    """The recipe as the rules complete it, and what they decided."""
    recipe = make_recipe({"model": model, "data.train": file, **fields})
    decision = with_rules(recipe, read_rows(recipe, folder, silent), load_config(model))
    return decision.recipe, {rule.field: rule.value for rule in decision.rules}


def value(recipe, key):
    section, name = key.split(".")
    return getattr(getattr(recipe, section), name)


def test_few_rows_learn_by_contrast_and_a_regression(sentences, files, tmp_path):
    recipe, made = decided(sentences, files["train"], tmp_path)
    assert made == CONTRASTIVE
    assert {key: value(recipe, key) for key in made} == CONTRASTIVE


def long_rows(folder, words):
    """A file with 20 texts of so many words."""
    path = folder / "rows.csv"
    rows = [f"{number:03} {'word ' * words},{'ab'[number % 2]}\n" for number in range(20)]
    path.write_text("text,label\n" + "".join(rows))
    return str(path)


@pytest.mark.parametrize(("words", "window", "steps"), [(20, {}, 100), (120, {}, 41), (900, {}, 25), (900, 20, 100)])
def test_long_texts_have_fewer_steps(sentences, tmp_path, words, window, steps):
    fields = {"window.method": "head", **({"window.max_tokens": window} if window else {})}
    assert decided(sentences, long_rows(tmp_path, words), tmp_path, **fields)[1]["training.max_steps"] == steps


SLICES = {"window.method": "slices", "window.slice_tokens": 64, "training.slices_per_text": 1}


def test_few_long_texts_are_read_in_slices(sentences, tmp_path):
    recipe, made = decided(sentences, long_rows(tmp_path, 900), tmp_path)
    assert made == {**SLICES, **CONTRASTIVE, "training.max_steps": 98}
    assert {key: value(recipe, key) for key in SLICES} == SLICES
    assert decided(sentences, long_rows(tmp_path, 400), tmp_path)[1] == {**CONTRASTIVE, "training.max_steps": 25}


@pytest.mark.parametrize(
    ("fields", "slice_tokens"), [({"window.max_tokens": 20}, 20), ({"window.slice_tokens": 100}, None)]
)
def test_a_user_says_how_long_slices_are(sentences, tmp_path, fields, slice_tokens):
    recipe, made = decided(sentences, long_rows(tmp_path, 900), tmp_path, **fields)
    assert made["window.method"] == "slices"
    assert made.get("window.slice_tokens") == slice_tokens
    assert {key: value(recipe, key) for key in fields} == fields


def test_a_probe_alone_reads_few_long_texts_in_slices_too(sentences, tmp_path):
    frozen = {"layers.freeze": "encoder", "head.init": "linear-probe"}
    made = decided(sentences, long_rows(tmp_path, 900), tmp_path, **frozen)[1]
    assert made == {"window.method": "slices", "window.slice_tokens": 64}
    assert decided(sentences, long_rows(tmp_path, 20), tmp_path, **frozen)[1] == {}


def test_more_rows_start_from_a_regression(sentences, files, tmp_path, monkeypatch):
    monkeypatch.setattr(rules, "FEW_ROWS", 1)
    recipe, made = decided(sentences, files["train"], tmp_path)
    assert made == PROBE_START
    assert (recipe.head.refit, recipe.training.loss, recipe.training.final_model) == (False, "task", "fine-tuned")


def test_an_encoder_that_says_nothing_of_pooling_is_read_by_the_mean_of_its_tokens(encoder, files, tmp_path):
    assert decided(encoder, files["train"], tmp_path)[1] == {"head.pooling": "mean", **CONTRASTIVE}


def test_such_an_encoder_is_trained_plainly_where_the_rules_were_not_measured(encoder, files, tmp_path, monkeypatch):
    assert decided(encoder, files["train"], tmp_path, **{"training.epochs": 2})[1] == {}
    scores = tmp_path / "scores.csv"
    scores.write_text("text,label\n" + "".join(f"text {number},{number / 10}\n" for number in range(40)))
    assert decided(encoder, str(scores), tmp_path, task="score")[1] == {}
    monkeypatch.setattr(rules, "HELD_OUT_ROWS", (1, 10))
    assert decided(encoder, files["train"], tmp_path)[1] == {}


@pytest.mark.parametrize(
    "fields",
    [
        {"head.init": "random"},
        {"head.pooling": "cls"},
        {"head.type": "mlp"},
        {"layers.freeze": 1},
        {"training.loss": "task"},
        {"window.method": "slices"},
    ],
)
def test_what_a_user_sets_is_kept_and_switches_the_rule_off(sentences, files, tmp_path, fields):
    recipe, made = decided(sentences, files["train"], tmp_path, **fields)
    assert made == {}
    assert {key: value(recipe, key) for key in fields} == fields
    assert recipe.head.init == "random"


@pytest.mark.parametrize(
    "fields",
    [
        {"training.max_steps": 7},
        {"training.learning_rate": 1e-3},
        {"training.learning_rate": 5e-5},
        {"training.r_drop": 1.0},
        {"training.epochs": 2},
    ],
)
def test_how_a_user_trains_is_kept_and_the_run_says_that_the_rule_is_off(sentences, files, tmp_path, fields):
    recipe, made = decided(sentences, files["train"], tmp_path, **fields)
    assert made["training.loss"] == "task"
    assert made["head.init"] == "linear-probe"
    assert {key: value(recipe, key) for key in fields} == fields


def test_numbers_and_several_labels_start_from_a_regression(sentences, files, tmp_path):
    assert decided(sentences, files["scores"], tmp_path, task="score")[1] == PROBE_START
    several = {"task": {"name": "classify", "multi_label": True}, "data.label_separator": "|"}
    assert decided(sentences, files["many"], tmp_path, **several)[1] == PROBE_START


def test_few_pairs_are_read_by_a_bi_encoder_unless_a_user_says_otherwise(sentences, files, tmp_path, monkeypatch):
    pairs = {"data.columns": {"pair": "other"}}
    frozen = {"task.encoder": "bi", "layers.freeze": "encoder", "head.init": "linear-probe"}
    assert decided(sentences, files["pairs"], tmp_path, **pairs)[1] == frozen
    monkeypatch.setattr(rules, "FEW_PAIRS", 10)
    tuned = {"task.encoder": "bi", **PROBE_START, "training.min_steps": 100}
    assert decided(sentences, files["pairs"], tmp_path, **pairs)[1] == tuned
    assert decided(sentences, files["pairs"], tmp_path, **pairs, **{"task.encoder": "cross"})[1] == {}


def test_few_pairs_leave_an_encoder_that_names_no_pooling_as_it_is(encoder, files, tmp_path, monkeypatch):
    pairs = {"data.columns": {"pair": "other"}}
    frozen = {"task.encoder": "bi", "layers.freeze": "encoder", "head.init": "linear-probe"}
    assert decided(encoder, files["pairs"], tmp_path, **pairs)[1] == {"head.pooling": "mean", **frozen}
    assert decided(encoder, files["pairs"], tmp_path, **pairs, **{"task.encoder": "cross"})[1] == {}
    assert decided(encoder, files["pairs"], tmp_path, **pairs, **{"training.epochs": 2})[1] == {}
    monkeypatch.setattr(rules, "FEW_PAIRS", 10)
    assert decided(encoder, files["pairs"], tmp_path, **pairs)[1] == {}


def test_many_rows_are_held_out_to_choose_how_to_train(sentences, files, tmp_path, monkeypatch):
    monkeypatch.setattr(rules, "HELD_OUT_ROWS", (10, 1000))
    recipe = make_recipe({"model": sentences, "data.train": files["train"]})
    decision = with_rules(recipe, read_rows(recipe, tmp_path, silent), load_config(sentences))
    assert list(decision.candidates) == ["cross-entropy", "contrastive"]
    recipe = make_recipe({"model": sentences, "data.train": files["train"], "training.final_model": "fine-tuned"})
    decision = with_rules(recipe, read_rows(recipe, tmp_path, silent), load_config(sentences))
    assert decision.candidates == {}


def test_a_run_by_rule_says_so_resumes_bit_equal_and_opens_elsewhere(sentences, files, tmp_path, monkeypatch):
    monkeypatch.setattr(rules, "STEPS", 8)
    settings = {"model": sentences, "train": files["train"], "test": files["test"], "checkpoints": {"every_steps": 2}}
    whole = warmstart.fit(**settings, out=tmp_path / "whole")
    assert whole.training.steps == 8
    assert [rule.field for rule in whole.training.rules] == list(CONTRASTIVE)
    assert whole.training.rules[0].reason.endswith("rows with 2 labels are few")
    assert whole.training.linear_probe is not None
    assert whole.completed_recipe.training.batch_size == 16
    facts = read_facts(whole.folder)
    assert "batch size 16" in make_card(facts)
    assert "By rule: " in render(facts)
    assert (whole.recipe.head.init, whole.recipe.training.loss) == ("auto", "auto")
    assert (whole.model / "2_Dense").is_dir()
    with pytest.raises(Crash):
        warmstart.fit(**settings, out=tmp_path / "run", progress=Trouble(step=5, what=crash))
    again = warmstart.fit(**settings, out=tmp_path / "run")
    assert weight_bytes(again.model) == weight_bytes(whole.model) != {}


def test_words_are_tagged_at_a_higher_learning_rate_unless_a_user_sets_one(encoder, tmp_path, monkeypatch):
    words = tmp_path / "words.conll"
    words.write_text("alice B-PER\nlives O\n\nbob B-PER\nloved O\nparis B-LOC\n" * 5)
    tag = {"task": "tag", "data.format": "conll"}
    assert decided(encoder, str(words), tmp_path, **tag)[1] == {
        "training.learning_rate": 2e-4,
        "training.batch_size": 16,
    }
    own = {"training.learning_rate": 5e-5, "training.batch_size": 32}
    recipe, made = decided(encoder, str(words), tmp_path, **tag, **own)
    assert (made, {key: value(recipe, key) for key in own}) == ({}, own)
    monkeypatch.setattr(rules, "FEW_SENTENCES", 1)
    assert decided(encoder, str(words), tmp_path, **tag)[1] == {"training.learning_rate": 2e-4}
    monkeypatch.setattr(rules, "SMALL_ENCODER", 16)
    assert decided(encoder, str(words), tmp_path, **tag)[1] == {}


def test_relations_are_learned_at_the_learning_rate_of_words(encoder, tmp_path):
    marked = tmp_path / "relations.csv"
    rows = [f"<e1>alice</e1> loves <e2>bob{n}</e2>,likes\n<e1>bob{n}</e1> in <e2>paris</e2>,at\n" for n in range(10)]
    marked.write_text("text,label\n" + "".join(rows))
    assert decided(encoder, str(marked), tmp_path, task="relate")[1] == {
        "training.learning_rate": 2e-4,
        "training.batch_size": 16,
    }


def test_an_encoder_of_sentences_ranks_after_fewer_steps_unless_a_user_says_how_many(sentences, encoder, tmp_path):
    rows = tmp_path / "rows.csv"
    lines = [f"query {number},document {number},1\nquery {number},another {number},0\n" for number in range(20)]
    rows.write_text("query,document,label\n" + "".join(lines))
    rank = {"task": "rank"}
    recipe, made = decided(sentences, str(rows), tmp_path, **rank)
    assert made == {"training.min_steps": 100}
    assert recipe.training.min_steps == 100
    assert decided(encoder, str(rows), tmp_path, **rank)[1] == {}
    prompts = {"task.query_prompt": "query: ", "task.document_prompt": "passage: "}
    assert decided(encoder, str(rows), tmp_path, **rank, **prompts)[1] == made
    for own in ({"training.epochs": 2}, {"training.min_steps": 7}, {"task.encoder": "cross"}):
        assert decided(sentences, str(rows), tmp_path, **rank, **own)[1] == {}
