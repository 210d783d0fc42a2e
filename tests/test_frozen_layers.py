"""Frozen blocks computed once for each row: the same training as if each step computed them, and bit-equal resumes."""

import json

import pytest
import torch
from safetensors.torch import load_file

import warmstart
from small import saved_weights
from test_resume import SAVES, Crash, Trouble, crash, same
from tiny import save_tiny
from warmstart.errors import RecipeError
from warmstart.models.layer_map import LayerMap
from warmstart.pipeline import finetune, frozen_layers
from warmstart.training.train import train

LEARN = {"learning_rate": 3e-3, "epochs": 4, "batch_size": 8, "precision": "fp32", "loss": "task"}
FREEZE = {"freeze": 3}
"""The embeddings and two of three blocks."""


def fit(encoder, files, out, layers=FREEZE, training=None, **more):
    parts = {"train": files["train"], "test": files["test"], "head": {"init": "random"}, **more}
    return warmstart.fit(model=encoder, out=out, layers=layers, training={**LEARN, **(training or {})}, **parts)


@pytest.fixture
def computed(monkeypatch):
    """How often each block computed something while the training went on."""
    counts = {}

    def counting(job, *rest):
        def count(name):
            return lambda *_: counts.update({name: counts.get(name, 0) + 1})

        blocks = LayerMap.of(job.model).blocks
        handles = [next(block.module.children()).register_forward_hook(count(block.name)) for block in blocks]
        result = train(job, *rest)
        for handle in handles:
            handle.remove()
        return result

    monkeypatch.setattr(finetune, "train", counting)
    return counts


def test_frozen_blocks_are_computed_once_and_what_is_above_learns(encoder, files, tmp_path, computed):
    run = fit(encoder, files, tmp_path / "run")
    assert set(computed) == {"block 2"}
    assert run.training.cached_blocks == 2
    before, after = load_file(f"{encoder}/model.safetensors"), saved_weights(run.model)
    kept = {name: tensor for name, tensor in before.items() if f"bert.{name}" in after}
    moved = {name for name, tensor in kept.items() if not torch.equal(tensor, after[f"bert.{name}"])}
    assert any("layer.2." in name for name in moved)
    assert not any("embeddings" in name or "layer.0." in name or "layer.1." in name for name in moved)
    assert len(kept) > 2 * len(moved)
    assert not (tmp_path / "run" / ".work").exists()
    assert "2 frozen blocks computed once a row" in run.report().read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["bert", "mpnet", "deberta-v2", "modernbert", "gpt2", "distilbert"])
def test_the_training_is_the_same_as_without_dropout_in_frozen_blocks(files, tmp_path, name):
    off = ("hidden_dropout_prob", "attention_probs_dropout_prob", "dropout", "attention_dropout")
    off += ("resid_pdrop", "embd_pdrop", "attn_pdrop", "mlp_dropout", "embedding_dropout")
    encoder = str(save_tiny(tmp_path / "encoder", name))
    config = json.loads((tmp_path / "encoder" / "config.json").read_text())
    config |= {field: 0.0 for field in off if field in config}
    (tmp_path / "encoder" / "config.json").write_text(json.dumps(config))
    runs = [
        fit(encoder, files, tmp_path / str(cached), {**FREEZE, "cache_frozen": cached}, {"dropout_kernel": "torch"})
        for cached in (True, False)
    ]
    assert [run.training.cached_blocks for run in runs] == [2, 0]
    one, two = (saved_weights(run.model) for run in runs)
    for key in one:
        torch.testing.assert_close(one[key], two[key], atol=2e-3, rtol=1e-2)
    losses = [[entry["loss"] for entry in run.training.history] for run in runs]
    assert losses[0] == pytest.approx(losses[1], abs=2e-3)


@pytest.mark.parametrize("step", [2, 14])
def test_a_crash_does_not_change_the_model(encoder, files, tmp_path, step):
    straight = fit(encoder, files, tmp_path / "straight", **SAVES)
    with pytest.raises(Crash):
        fit(encoder, files, tmp_path / "broken", progress=Trouble(step, crash), **SAVES)
    same(straight, fit(encoder, files, tmp_path / "broken", progress=Trouble(), **SAVES))
    assert straight.training.cached_blocks == 2


def test_all_blocks_can_be_frozen(encoder, files, tmp_path, computed):
    assert fit(encoder, files, tmp_path / "run", {"freeze": 4}).training.cached_blocks == 3
    assert computed == {}


def test_it_goes_with_everything_else_that_changes_a_step(encoder, files, tmp_path):
    for name, training in {
        "r-drop": {"r_drop": 1.0},
        "contrastive": {"loss": "supervised-contrastive"},
        "tokens": {"batch_tokens": 200},
        "limit": {"time_limit": 60},
        "gradual": {},
    }.items():
        layers = {**FREEZE, "unfreeze": "gradual", "unfreeze_every": 3} if name == "gradual" else FREEZE
        head = {"init": "linear-probe" if name == "contrastive" else "random"}
        run = fit(encoder, files, tmp_path / name, layers, training, head=head)
        assert run.training.cached_blocks == 2, name


@pytest.mark.parametrize("task", ["score", "classify", "tag"])
def test_other_tasks_and_pairs(encoder, files, tmp_path, task):
    tagged = tmp_path / "names.conll"
    tagged.write_text("alice B-PER\nlives O\nin O\nparis B-LOC\n\nbob B-PER\nwas O\ngood O\n\n" * 12)
    file = {"score": files["scores"], "classify": files["pairs"], "tag": str(tagged)}[task]
    more = {"pair": "other"} if task == "classify" else {}
    run = fit(
        encoder, {"train": file, "test": file}, tmp_path / "run", {**FREEZE, "cache_frozen": True}, task=task, **more
    )
    assert run.training.cached_blocks == 2


def test_where_it_would_save_nothing_or_cannot_be_each_step_computes_them(encoder, files, tmp_path, monkeypatch):
    assert fit(encoder, files, tmp_path / "once", training={"epochs": 1}).training.cached_blocks == 0
    sliced = {"window": {"method": "slices", "max_tokens": 8}}
    assert fit(encoder, files, tmp_path / "slices", **sliced).training.cached_blocks == 0
    assert fit(encoder, files, tmp_path / "embeddings", {"freeze": 1}).training.cached_blocks == 0
    lower = {"head": {"layers": "mean-3"}}
    assert fit(encoder, files, tmp_path / "lower", **lower).training.cached_blocks == 0
    monkeypatch.setattr(frozen_layers, "MOST_BYTES", 1000)
    assert fit(encoder, files, tmp_path / "large").training.cached_blocks == 0


@pytest.mark.parametrize(
    ("layers", "more", "message"),
    [
        (
            {"freeze": 1, "cache_frozen": True},
            {},
            "freeze: 1 freezes no block; leave it out, or set freeze to 2 or more",
        ),
        ({"freeze": "encoder", "cache_frozen": False}, {}, "freeze: encoder trains on cached features"),
        ({"freeze": 3, "cache_frozen": True, "lora": {}}, {}, "lora trains every block"),
        (
            {"freeze": 3, "cache_frozen": True},
            {"window": {"method": "slices", "max_tokens": 8}},
            "layers.cache_frozen: found true, but a row is not one sequence of tokens; leave it out",
        ),
    ],
)
def test_refused_where_it_is_asked_for(encoder, files, tmp_path, layers, more, message):
    with pytest.raises(RecipeError, match=message):
        fit(encoder, files, tmp_path / "run", layers, **more)
