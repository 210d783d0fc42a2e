"""What fit does where the recipe leaves it open: by rules, which a user's own settings switch off."""

import json
import shutil

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


@pytest.fixture(scope="module")
def sentences(encoder, tmp_path_factory):
    """An encoder whose folder says that its tokens are pooled by their mean."""
    folder = tmp_path_factory.mktemp("sentences") / "encoder"
    shutil.copytree(encoder, folder)
    (folder / "1_Pooling").mkdir()
    modes = {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 32, **modes}))
    return str(folder)


def decided(model, file, folder, **fields):
    """The recipe as the rules complete it, and what they decided."""
    recipe = make_recipe({"model": model, "data.train": file, **fields})
    completed, made = with_rules(recipe, read_rows(recipe, folder, silent), load_config(model))
    return completed, {rule.field: rule.value for rule in made}


def value(recipe, key):
    section, name = key.split(".")
    return getattr(getattr(recipe, section), name)


def test_few_rows_a_label_learn_by_contrast_and_a_regression(sentences, files, tmp_path):
    recipe, made = decided(sentences, files["train"], tmp_path)
    assert made == CONTRASTIVE
    assert {key: value(recipe, key) for key in made} == CONTRASTIVE


def test_more_rows_a_label_are_trained_plainly(sentences, files, tmp_path, monkeypatch):
    monkeypatch.setattr(rules, "FEW_ROWS", 1)
    recipe, made = decided(sentences, files["train"], tmp_path)
    assert made == {}
    assert (recipe.head.init, recipe.head.refit, recipe.training.loss) == ("random", False, "task")


def test_an_encoder_that_says_nothing_of_pooling_is_trained_plainly(encoder, files, tmp_path):
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
    [{"training.max_steps": 7}, {"training.learning_rate": 1e-3}, {"training.r_drop": 1.0}, {"training.epochs": 2}],
)
def test_how_a_user_trains_is_kept_and_the_run_says_that_the_rule_is_off(sentences, files, tmp_path, fields):
    recipe, made = decided(sentences, files["train"], tmp_path, **fields)
    assert made == {"training.loss": "task"}
    assert {key: value(recipe, key) for key in fields} == fields


def test_pairs_numbers_and_several_labels_are_trained_plainly(sentences, files, tmp_path):
    assert decided(sentences, files["pairs"], tmp_path, **{"data.columns": {"pair": "other"}})[1] == {}
    assert decided(sentences, files["scores"], tmp_path, task="score")[1] == {}
    several = {"task": {"name": "classify", "multi_label": True}, "data.label_separator": "|"}
    assert decided(sentences, files["many"], tmp_path, **several)[1] == {}


def test_a_run_by_rule_says_so_resumes_bit_equal_and_opens_elsewhere(sentences, files, tmp_path, monkeypatch):
    monkeypatch.setattr(rules, "STEPS", 6)
    settings = {"model": sentences, "train": files["train"], "test": files["test"], "checkpoints": {"every_steps": 2}}
    whole = warmstart.fit(**settings, out=tmp_path / "whole")
    assert whole.training.steps == 6
    assert [rule.field for rule in whole.training.rules] == list(CONTRASTIVE)
    assert whole.training.rules[0].reason.endswith("rows with 2 labels are few")
    assert whole.training.linear_probe is not None
    assert whole.completed_recipe.training.batch_size == 16
    facts = read_facts(whole.folder)
    assert "batch size 16" in make_card(facts)
    assert "By rule, since" in render(facts)
    assert (whole.recipe.head.init, whole.recipe.training.loss) == ("auto", "auto")
    assert (whole.model / "2_Dense").is_dir()
    with pytest.raises(Crash):
        warmstart.fit(**settings, out=tmp_path / "run", progress=Trouble(step=5, what=crash))
    again = warmstart.fit(**settings, out=tmp_path / "run")
    assert weight_bytes(again.model) == weight_bytes(whole.model) != {}
