"""The loss over a vocabulary, computed in the head: the same number and gradient as from all logits, or not used."""

import pytest
import torch
import transformers
from torch.nn import functional as F

import warmstart
from small import saved_weights
from tiny import save_tiny, tiny_config
from warmstart.models import vocabulary_loss
from warmstart.models.vocabulary_loss import few_logits, has_plain_head, loss_in_head
from warmstart.training import trainer

CAUSAL = ("gpt2", "opt", "llama", "awd-lstm", "mamba", "mamba2")
IGNORED = -100


def causal(name):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return transformers.AutoModelForCausalLM.from_config(tiny_config(name)).eval()


def batch():
    ids = torch.randint(5, 30, (3, 7), generator=torch.Generator().manual_seed(0))
    targets = ids.roll(-1, 1)
    targets[:, -1] = IGNORED
    return ids, targets


@pytest.mark.parametrize("at_once", [1, 100, 8_000_000])
@pytest.mark.parametrize("name", CAUSAL)
def test_it_is_that_of_all_logits_however_many_fit(name, at_once, monkeypatch):
    monkeypatch.setattr(vocabulary_loss, "LOGITS_AT_ONCE", at_once)
    model = causal(name)
    assert has_plain_head(model)
    ids, targets = batch()
    expected = F.cross_entropy(model(input_ids=ids).logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED)
    expected.backward()
    gradients = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
    model.zero_grad()
    with loss_in_head(model, targets, targets != IGNORED) as losses:
        model(input_ids=ids)
    losses[0].backward()
    assert losses[0].item() == pytest.approx(expected.item(), rel=1e-5)
    found = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    torch.testing.assert_close(found, gradients, rtol=1e-4, atol=1e-6)
    assert model(input_ids=ids).logits.shape[:2] == ids.shape, "the head gives logits again"


@pytest.mark.parametrize("name", ["recurrent_gemma", "xlstm"])
def test_logits_that_are_changed_after_the_head_are_computed(name):
    assert not has_plain_head(causal(name))


def test_nothing_to_predict_costs_nothing():
    model = causal("gpt2")
    ids, _ = batch()
    with loss_in_head(model, ids, torch.zeros_like(ids, dtype=torch.bool)) as losses:
        model(input_ids=ids)
    losses[0].backward()
    assert losses[0].item() == 0


def test_a_training_is_the_same_with_it_and_without(tmp_path, monkeypatch):
    encoder = save_tiny(tmp_path / "encoder", "gpt2")
    texts = [{"text": "Alice lives in Paris. She loved the film."}, {"text": "Bob was in Tokyo. Food there was great."}]
    calls = []
    settings = {
        "training.max_steps": 10,
        "training.batch_size": 2,
        "training.precision": "fp32",
        "window.max_tokens": 32,
    }

    def fit(name):
        out = tmp_path / name
        task = {"name": "masked", "objective": "clm"}
        return warmstart.fit(
            model=str(encoder), task=task, train=texts, test=texts, out=out, reuse_stages=False, **settings
        )

    def spied(*args):
        calls.append(args[-1])
        return few_logits(*args)

    monkeypatch.setattr(trainer, "few_logits", spied)
    quick = fit("in-head")
    monkeypatch.setattr(trainer, "has_plain_head", lambda model: False)
    plain = fit("all-logits")
    assert calls == [True] * 10 + [False] * 10
    weights = [saved_weights(run.model) for run in (quick, plain)]
    torch.testing.assert_close(*weights, rtol=1e-4, atol=1e-6)
    losses = [run.training.history[0]["loss_clm"] for run in (quick, plain)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
