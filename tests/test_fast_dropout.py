"""Dropout from cheap random bits: the same distribution, the same gradients, and the same draws after a restart."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from tiny import ARCHITECTURES, NoStockHead, tiny_model
from warmstart.training import dropout_trial, fast_dropout
from warmstart.training.fast_dropout import FastDropout, keep_mask


@pytest.mark.parametrize("p", [0.1, 0.5, 0.01])
def test_each_element_is_dropped_with_the_probability(p):
    torch.manual_seed(0)
    keep = keep_mask(torch.Size([1000, 1000]), p)
    assert abs(float(keep.float().mean()) - (1 - p)) < 4 * math.sqrt(p * (1 - p) / 1e6)
    together = float((~keep[:, 1:] & ~keep[:, :-1]).float().mean())  # neighbours, which share a 64-bit word
    assert abs(together - p * p) < 5 * math.sqrt(p * p / 1e6)


def test_the_draws_follow_the_seed_of_torch():
    x = torch.ones(100, 100)
    draws = []
    for _ in range(2):
        torch.manual_seed(7)
        with FastDropout():
            draws.append((F.dropout(x, 0.3), F.dropout(x, 0.3)))
    assert torch.equal(draws[0][0], draws[1][0])
    assert torch.equal(draws[0][1], draws[1][1])
    assert not torch.equal(draws[0][0], draws[0][1])
    assert draws[0][0].unique().tolist() == pytest.approx([0.0, 1 / 0.7])


def test_nothing_is_dropped_in_evaluation_or_without_a_probability():
    x = torch.randn(4, 5)
    with FastDropout():
        assert torch.equal(F.dropout(x, 0.5, training=False), x)
        assert torch.equal(torch.nn.Dropout(0.5).eval()(x), x)
        assert torch.equal(torch.nn.Dropout(0.0)(x), x)


@settings(max_examples=25, deadline=None)
@given(
    rows=st.integers(1, 4),
    heads=st.integers(1, 3),
    length=st.integers(1, 9),
    of_mask=st.sampled_from(["none", "bool", "float"]),
    piece=st.integers(1, 4000),
)
def test_attention_and_its_gradients_are_those_of_the_formula(rows, heads, length, of_mask, piece):
    query, key, value = (torch.randn(rows, heads, length, 4, dtype=torch.float64).requires_grad_() for _ in range(3))
    readable = torch.rand(rows, 1, 1, length) > 0.3
    readable[..., 0] = True
    added = torch.zeros(rows, 1, length, length, dtype=torch.float64).masked_fill(~readable, float("-inf"))
    mask = {"none": None, "bool": readable.expand(rows, 1, length, length), "float": added}[of_mask]
    keeps = []

    def recorded(shape, p):
        keeps.append(torch.rand(shape) > p)
        return keeps[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fast_dropout, "PIECE_BYTES", piece)
        patch.setattr(fast_dropout, "keep_mask", recorded)
        with FastDropout():
            output = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=0.25)
    scores = query @ key.transpose(2, 3) / 2 + (0 if mask is None else added)
    expected = (torch.softmax(scores, -1) * torch.cat(keeps).view(scores.shape) / 0.75) @ value
    torch.testing.assert_close(output, expected)
    incoming = torch.randn_like(output)
    ours, theirs = (torch.autograd.grad(one, (query, key, value), incoming) for one in (output, expected))
    torch.testing.assert_close(ours, theirs)


def test_one_query_in_the_place_of_all_is_computed_once(monkeypatch):
    shapes = []
    monkeypatch.setattr(fast_dropout, "keep_mask", lambda shape, p: shapes.append(shape) or torch.ones(shape) > 0)
    query, key, value = torch.randn(2, 3, 1, 4).expand(-1, -1, 7, -1), torch.randn(2, 3, 7, 4), torch.randn(2, 3, 7, 4)
    with FastDropout():
        output = F.scaled_dot_product_attention(query, key, value, dropout_p=0.1)
    assert [shape[1] for shape in shapes] == [1]
    torch.testing.assert_close(output * 0.9, F.scaled_dot_product_attention(query, key, value))


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_a_model_in_training_uses_it_whatever_its_attention(implementation, monkeypatch):
    model = tiny_model("bert", "sequence", 2).train()
    model.set_attn_implementation(implementation)
    calls = []
    monkeypatch.setattr(fast_dropout, "keep_mask", lambda shape, p: calls.append(shape) or torch.ones(shape) > 0)
    ids = torch.randint(5, 40, (2, 6))
    with FastDropout():
        model(input_ids=ids)
    hidden, attention = [s for s in calls if s[-1] != 6], [s for s in calls if s[-1] == 6]
    assert len(attention) == 3
    assert len(hidden) == 8  # the embeddings, two in each block, the head
    assert F.dropout(torch.ones(3), 0.999).sum() >= 0  # outside of it, PyTorch's own
    assert len(calls) == 11


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_architecture_trains_with_it(architecture):
    try:
        model = tiny_model(architecture, "sequence", 2).train()
    except NoStockHead as reason:
        pytest.skip(str(reason))
    ids, mask = torch.randint(5, 40, (4, 9)), torch.ones(4, 9).long()
    mask[1, 5:] = 0
    with FastDropout():
        loss = model(input_ids=ids, attention_mask=mask, labels=torch.tensor([0, 1, 1, 0])).loss
    loss.backward()
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    assert all(torch.isfinite(gradient).all() for gradient in gradients)
    assert any(gradient.abs().sum() > 0 for gradient in gradients)


@pytest.mark.parametrize(("fast", "kernel"), [(0.5, "fast"), (0.95, "torch")])
def test_the_trial_takes_what_is_faster_and_a_resumed_training_the_same(fast, kernel, monkeypatch, tmp_path):
    from types import SimpleNamespace

    job = SimpleNamespace(
        model=tiny_model("bert", "sequence", 2),
        rows=[{"input_ids": [1] * 30}],
        settings=SimpleNamespace(dropout_kernel="auto", batch_size=4),
    )
    seconds = {False: 1.0, True: fast}
    monkeypatch.setattr(dropout_trial, "_seconds", lambda step, mode: seconds[isinstance(mode, FastDropout)])
    torch.manual_seed(3)
    untouched = torch.rand(1)
    torch.manual_seed(3)
    assert dropout_trial.dropout_kernel(job, 10**6, tmp_path) == kernel
    assert torch.equal(torch.rand(1), untouched)  # the trial takes nothing from the training's random numbers
    seconds[True] = 2.0 - fast  # were it tried again, it would be the other one
    assert dropout_trial.dropout_kernel(job, 10**6, tmp_path) == kernel
    assert dropout_trial.dropout_kernel(job, 1) == "torch"
