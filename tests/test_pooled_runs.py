"""Runs whose head is pooled: trained, measured, reopened, stopped and gone on with like any other."""

import json

import pytest
import torch
import transformers
from safetensors.torch import load_file

import warmstart
from small import FAST, saved_weights
from test_resume import SAVES, Crash, Trouble, crash, same
from tiny import save_tiny
from warmstart.cli import show
from warmstart.errors import RecipeError
from warmstart.models.loading import load_as_saved
from warmstart.recipe import make_recipe

QUICK = {"training": {"max_steps": 1, "batch_size": 4}}
CHOICES = {
    "mean": {"pooling": "mean"},
    "concat": {"layers": "concat-4", "pooling": "last+max+mean"},
}


@pytest.fixture(scope="module")
def deep(tmp_path_factory):
    """A tiny BERT of four blocks."""
    return str(save_tiny(tmp_path_factory.mktemp("deep") / "encoder", num_hidden_layers=4))


@pytest.fixture(scope="module")
def runs(deep, files, tmp_path_factory):
    made = {}

    def of(name):
        if name not in made:
            out = tmp_path_factory.mktemp("pooled") / name
            settings = {**FAST, "head": CHOICES[name]}
            made[name] = warmstart.fit(model=deep, train=files["train"], test=files["test"], out=out, **settings)
        return made[name]

    return of


@pytest.mark.parametrize("name", CHOICES)
def test_fit_measure_and_answer(runs, name):
    run = runs(name)
    assert run.metrics["test"]["accuracy"] > 0.8
    assert run.training.new_parameters == ["classifier.bias", "classifier.weight"]
    answers = warmstart.load(run.folder).predict(["the film was good and very great", "a bad film"])
    assert [answer["label"] for answer in answers] == ["pos", "neg"]
    config = json.loads((run.model / "config.json").read_text())
    choice = {"layers": "last", **CHOICES[name]}
    assert (config["layers"], config["pooling"]) == (choice["layers"], choice["pooling"])
    assert "id2label" not in config["encoder"]
    assert type(load_as_saved(str(run.model))).__name__ == "PooledForSequenceClassification"
    assert type(transformers.AutoTokenizer.from_pretrained(run.model)) is type(run.predictor.tokenizer)


def test_a_lower_layer_has_the_pretrained_pooler_as_the_top_one_has(deep, files, tmp_path):
    still = {"training": {"max_steps": 1, "batch_size": 4, "learning_rate": 1e-20, "weight_decay": 0}}
    pretrained = load_file(f"{deep}/model.safetensors")
    runs = {}
    for layers in ("last", 2, "mean-first-3", "first-2"):
        out = tmp_path / str(layers)
        runs[layers] = warmstart.fit(model=deep, train=files["train"], out=out, head={"layers": layers}, **still)
    assert type(load_as_saved(str(runs["last"].model))).__name__ == "BertForSequenceClassification"
    poolers = {"last": "bert.pooler.dense", 2: "pooler", "mean-first-3": "pooler"}
    for layers, name in poolers.items():
        weights = load_file(runs[layers].model / "model.safetensors")
        for part in ("weight", "bias"):
            torch.testing.assert_close(weights[f"{name}.{part}"], pretrained[f"pooler.dense.{part}"], atol=1e-9, rtol=0)
        assert runs[layers].training.new_parameters == ["classifier.bias", "classifier.weight"]
    # Two layers are twice as wide, so that their pooler is new.
    wide = load_file(runs["first-2"].model / "model.safetensors")
    assert wide["pooler.weight"].shape == (32, 64)
    assert "pooler.weight" in runs["first-2"].training.new_parameters
    linear = warmstart.fit(model=deep, train=files["train"], out=tmp_path / "none", head={"type": "linear"}, **still)
    assert not any("pooler" in name for name in saved_weights(linear.model))


def test_show_has_the_run_and_its_layers(runs, capsys):
    show.command(str(runs("mean").folder), layers=True, json=True)
    assert [row["layer"] for row in json.loads(capsys.readouterr().out)][1:-1] == [f"block {n}" for n in range(4)]
    show.command(str(runs("mean").folder))
    assert "test accuracy" in capsys.readouterr().out


def test_going_on_from_a_pooled_run_keeps_its_head_and_refuses_to_read_otherwise(runs, files, tmp_path):
    model = str(runs("concat").model)
    kept = warmstart.fit(model=model, train=files["train"], out=tmp_path / "kept", **QUICK)
    assert kept.training.new_parameters == []
    assert load_as_saved(str(kept.model)).config.layers == "concat-4"
    same_again = {"head": {"layers": "concat-4"}, **QUICK}
    assert warmstart.fit(model=model, train=files["train"], out=tmp_path / "same", **same_again).finished
    with pytest.raises(RecipeError, match=r"has layers: concat-4, pooling: last\+max\+mean.*head\.reuse: false"):
        warmstart.fit(model=model, train=files["train"], out=tmp_path / "no", head={"pooling": "mean"}, **QUICK)
    stock = warmstart.fit(model=model, train=files["train"], out=tmp_path / "stock", head={"reuse": False}, **QUICK)
    with pytest.raises(RecipeError, match=r"has layers: last, pooling: cls, .*and no slices.*head\.reuse: false"):
        warmstart.fit(model=str(stock.model), train=files["train"], out=tmp_path / "no", head={"layers": 1}, **QUICK)


@pytest.mark.parametrize("head", [{"init": "random"}, {"layers": "scalar-mix", "pooling": "max"}])
def test_a_new_head_on_a_pooled_run_keeps_every_weight_of_its_encoder(runs, files, tmp_path, head):
    before = load_as_saved(str(runs("mean").model)).encoder.state_dict()
    still = {"training": {"max_steps": 1, "batch_size": 4, "learning_rate": 1e-20, "weight_decay": 0}}
    head = {"reuse": False, **head}
    run = warmstart.fit(model=str(runs("mean").model), train=files["train"], out=tmp_path / "run", head=head, **still)
    model = load_as_saved(str(run.model))
    assert type(model).__name__.startswith("Pooled" if "layers" in head else "Bert")
    after = model.base_model.state_dict()
    assert all(before[key].allclose(after[key], atol=1e-12) for key in before)
    assert "classifier.weight" in run.training.new_parameters


def test_a_pooled_run_that_was_stopped_ends_bit_equal(deep, files, tmp_path):
    def fit(out, **more):
        settings = {
            **FAST,
            **SAVES,
            "training": {**FAST["training"], "epochs": 3},
            "head": {"layers": "scalar-mix", "pooling": "attention"},
        }
        return warmstart.fit(
            model=deep, train=files["train"], test=files["test"], out=tmp_path / out, **settings, **more
        )

    undisturbed = fit("undisturbed")
    with pytest.raises(Crash):
        fit("run", progress=Trouble(8, crash))
    again = Trouble()
    same(fit("run", progress=again), undisturbed)
    assert again.said == ["resuming from step-000000006"]


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ({"layers": "concat"}, "found 'concat'; expected last, scalar-mix"),
        ({"layers": "mean-9"}, "this encoder has 4 blocks: set mean-all"),
        ({"pooling": "first"}, r"head\.pooling: found 'first'"),
        ({"poooling": 1}, "did you mean 'pooling'"),
    ],
)
def test_a_wrong_choice_is_refused_and_leaves_no_folder(deep, files, tmp_path, head, message):
    with pytest.raises(RecipeError, match=message):
        warmstart.fit(model=deep, train=files["train"], out=tmp_path / "run", head=head, **QUICK)
    assert not (tmp_path / "run").exists()


def test_the_layers_are_a_number_or_a_word_in_the_recipe():
    for value in (-1, 0, "concat-4"):
        assert make_recipe({"model": "m", "data.train": "t.csv", "head.layers": value}).head.layers == value
