"""Every task with each head on kept features: the head learns by heart, the encoder stays, and nothing else differs."""

import pytest
import torch
from safetensors.torch import load_file

from contracts.test_every_task import CASES, fit, near
from small import saved_weights
from test_resume import Crash, Trouble, crash, same
from tiny import save_tiny, tiny_config
from warmstart import tasks
from warmstart.errors import RecipeError
from warmstart.inference.predictor import Predictor
from warmstart.models.heads.selection import HeadChoice, head_config
from warmstart.models.loading import load_as_saved, load_encoder

HEADS = ("linear", "mlp", "bilstm")
NAMES = ("classify", "score", "tag crf", "span", "rank cross", "choose", "relate")
"""A case of each task; that of rank reads query and document together, since a bi-encoder has no head."""
FROZEN = {"layers.freeze": "encoder", "training.learning_rate": 2e-2, "training.max_steps": 120}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return str(
        save_tiny(
            tmp_path_factory.mktemp("encoder"), "bert", hidden_size=64, initializer_range=0.2, hidden_dropout_prob=0.0
        )
    )


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("name", NAMES)
def test_it_learns_by_heart_while_the_encoder_stays(encoder, name, head, tmp_path):
    run = fit(encoder, name, tmp_path / "run", **FROZEN, **{"head.type": head})
    predictor, case = Predictor.load(run.folder), CASES[name]
    assert run.metrics["test"][predictor.task.headline] >= 0.99, run.metrics["test"]
    before, after = load_file(f"{encoder}/model.safetensors"), saved_weights(run.model)
    kept = {key.removeprefix("encoder."): one for key, one in after.items() if key.startswith("encoder.")}
    assert kept
    for key, tensor in kept.items():
        assert torch.equal(tensor[: len(before[key])], before[key])  # a task's own tokens have their embeddings behind
    asked = [*case.asked, case.long, *case.rows]
    for given, answer in zip(asked, predictor.predict(asked), strict=True):
        # Heads learned at so high a rate have logits near a hundred, of which 32 bits hold a few digits less.
        assert near(predictor.predict([given])[0], answer, within=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_it_goes_on_bit_equal_after_a_crash(encoder, name, tmp_path):
    few = {
        "training.max_steps": 6,
        "checkpoints.every_steps": 2,
        "checkpoints.when_finished": "keep",
        "head.type": "bilstm",
    }
    whole = fit(encoder, name, tmp_path / "whole", **{**FROZEN, **few})
    with pytest.raises(Crash):
        fit(encoder, name, tmp_path / "run", progress=Trouble(5, crash), **{**FROZEN, **few})
    same(fit(encoder, name, tmp_path / "run", **{**FROZEN, **few}), whole)


@pytest.mark.parametrize("name", ["tag crf", "span", "choose", "relate"])
def test_padding_on_the_left_is_no_matter(name, tmp_path):
    encoder = str(save_tiny(tmp_path / "encoder", "xlnet", d_model=64, initializer_range=0.2, dropout=0.0))
    run = fit(encoder, name, tmp_path / "run", **FROZEN, **{"head.type": "bilstm"})
    assert run.metrics["test"][Predictor.load(run.folder).task.headline] >= 0.99


@pytest.mark.parametrize(("name", "architecture"), [("tag", "t5"), ("span", "t5"), ("choose", "gpt2")])
def test_where_no_stock_head_is_ours_can_be_asked_for(name, architecture, tmp_path):
    encoder = str(save_tiny(tmp_path / "encoder", architecture))
    few = {"training.max_steps": 2, "head.type": "linear", "head.layers": "concat-2"}
    run = fit(encoder, name, tmp_path / "run", **few)
    assert run.finished
    with pytest.raises(RecipeError, match=r"concat-2.*type: linear.*; set the same, or head\.reuse: false"):
        fit(str(run.model), name, tmp_path / "next", **{**few, "head.type": "mlp"})
    again = fit(str(run.model), name, tmp_path / "next", **few)
    assert again.training.new_parameters == []


def test_tokens_are_not_chosen_where_all_are_read(encoder, tmp_path):
    with pytest.raises(RecipeError, match=r"head\.pooling: found mean, but the head of this task reads every token"):
        fit(encoder, "tag", tmp_path / "run", **{"head.pooling": "mean"})


def test_an_encoder_goes_from_one_head_of_ours_to_another_task(encoder, tmp_path):
    few = {"training.max_steps": 2, "head.type": "mlp"}
    first = fit(encoder, "tag", tmp_path / "tag", **few)
    second = fit(str(first.model), "classify", tmp_path / "classify", **few)
    third = fit(str(second.model), "span", tmp_path / "span", **{"training.max_steps": 2})
    assert type(load_as_saved(str(first.model))).__name__ == "PooledForTokenClassification"
    assert type(load_as_saved(str(third.model))).__name__ == "BertForQuestionAnswering"
    assert load_encoder(str(first.model)).config.model_type == "bert"


def test_no_task_is_forgotten():
    # A language model's head is its own embeddings turned round; it is learned with the encoder or not at all.
    assert {name.partition(" ")[0] for name in NAMES} == set(tasks.names()) - {"masked"}


def test_a_bi_encoder_has_no_head_to_train(encoder, tmp_path):
    with pytest.raises(RecipeError, match=r"freeze: encoder are about a head, and this task has none.*encoder: cross"):
        fit(encoder, "rank", tmp_path / "run", **FROZEN)


def test_a_head_that_we_have_no_other_of_is_not_chosen():
    with pytest.raises(RecipeError, match="this task has a single one; leave them out"):
        head_config(tiny_config("bert"), HeadChoice(type="mlp"), False, "AutoModelForMaskedLM")
    assert head_config(tiny_config("bert"), HeadChoice(), False, "AutoModelForMaskedLM").model_type == "bert"
