"""Every architecture: rates by the formula, unfreezing in its order, what is frozen bit-equal and without gradients."""

import copy
from contextlib import suppress

import pytest
import torch
import transformers
from torch.optim import SGD, AdamW

from tiny import ARCHITECTURES, NoStockHead, tiny_model
from warmstart.errors import RecipeError
from warmstart.models.heads.pooled import PooledConfig, PooledForSequenceClassification
from warmstart.models.layer_map import LayerMap
from warmstart.models.learning_rates import layer_learning_rates
from warmstart.models.lora import add_lora, merge_lora
from warmstart.models.reinit import reinitialize
from warmstart.training.callbacks.gradual_unfreezing import (
    STRATEGIES,
    GradualUnfreezing,
    count_phases,
    trainable_layers,
)

every_architecture = pytest.mark.parametrize("name", ARCHITECTURES)


def model_of(name, **changes):
    for head in ("sequence", "token"):
        with suppress(NoStockHead):
            return tiny_model(name, head, **changes)
    encoder = tiny_model(name, None, **changes)
    return PooledForSequenceClassification(PooledConfig(encoder=encoder.config, num_labels=3), encoder)


def loss_of(model, seed=0):
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(5, 60, (3, 9), generator=generator)
    ids[:, -1] = 3
    outputs = model(input_ids=ids, attention_mask=torch.ones_like(ids))
    return outputs.logits.square().mean()


@every_architecture
def test_rates_are_as_the_formula_gives_and_every_parameter_has_one(name):
    model = model_of(name)
    layers = LayerMap.of(model)
    groups = layers.param_groups(learning_rate=2e-5, lr_decay=0.95, weight_decay=0.01)
    rate_of = {id(p): group["lr"] for group in groups for p in group["params"]}
    assert sorted(rate_of) == sorted(id(p) for p in model.parameters())
    top = len(layers.groups) - 1
    for place, group in enumerate(layers.groups):
        expected = 2e-5 * 0.95 ** (top - place)
        assert all(rate_of[id(p)] == pytest.approx(expected, rel=1e-12) for p in group.parameters.values())
    other = layers.param_groups(learning_rate=2e-5, lr_decay=0.95, head_learning_rate=1e-3)
    assert {group["lr"] for group in other if group["layer"] == "head"} == {1e-3}
    below = [(g["layer"], g["lr"]) for g in groups if g["layer"] != "head"]
    assert [(g["layer"], g["lr"]) for g in other if g["layer"] != "head"] == below


@every_architecture
def test_weight_decay_is_off_for_the_norms_and_biases_that_the_trainer_knows(name):
    model = model_of(name)
    groups = LayerMap.of(model).param_groups(learning_rate=1e-3, weight_decay=0.01)
    decayed = {id(p) for group in groups if group["weight_decay"] for p in group["params"]}
    theirs = transformers.Trainer.get_decay_parameter_names(None, model)
    ours = {n for n, p in model.named_parameters() if id(p) in decayed}
    # A vector that is neither, such as XLNet's, is decayed by the Trainer and not here.
    vectors = {n for n, p in model.named_parameters() if p.ndim < 2}
    assert ours == set(theirs) & {n for n, _ in model.named_parameters()} - vectors


@every_architecture
@pytest.mark.parametrize("optimizer", [AdamW, SGD])
def test_each_layer_moves_by_its_rate_in_any_optimizer(name, optimizer):
    model = model_of(name).eval()
    layers = LayerMap.of(model)
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    step = optimizer(layers.param_groups(learning_rate=0.1, lr_decay=0.5))
    loss_of(model).backward()
    step.step()
    for group, rate in zip(layers.groups, layer_learning_rates(len(layers.groups), 0.1, 0.5), strict=True):
        for key, parameter in group.parameters.items():
            if optimizer is SGD and parameter.grad is not None:
                torch.testing.assert_close(parameter.detach(), before[key] - rate * parameter.grad)
            elif parameter.grad is not None:
                assert (parameter.detach() - before[key]).abs().max() <= rate * 1.001


@every_architecture
@pytest.mark.parametrize("plan", STRATEGIES)
def test_unfreezing_goes_in_its_order_and_what_is_frozen_keeps_every_bit(name, plan):
    model = model_of(name).eval()
    layers = LayerMap.of(model)
    callback = GradualUnfreezing(layers, strategy=plan, freeze=1)
    optimizer = AdamW(layers.param_groups(learning_rate=0.01, lr_decay=0.9, weight_decay=0.01))
    count = len(layers.groups)
    for phase in range(count_phases(count, plan, freeze=1) + 1):
        callback.set_phase(phase)
        before = {n: p.detach().clone() for n, p in model.named_parameters()}
        loss_of(model, phase).backward()
        for group, learns in zip(layers.groups, trainable_layers(count, plan, phase, freeze=1), strict=True):
            grads = [p.grad is not None for p in group.parameters.values()]
            assert any(grads) if learns else not any(grads), (phase, group.name)
        optimizer.step()
        optimizer.zero_grad()
        for group, learns in zip(layers.groups, trainable_layers(count, plan, phase, freeze=1), strict=True):
            moved = any(not torch.equal(before[n], p) for n, p in group.parameters.items())
            assert moved == learns, (phase, group.name)


def test_the_plans_in_full():
    def told(plan, freeze=0):
        return ["".join("x" if on else "." for on in trainable_layers(5, plan, phase, freeze)) for phase in range(7)]

    assert told("all") == ["xxxxx"] * 7
    assert told("all", 2) == ["..xxx"] * 7
    assert told("gradual") == ["....x", "...xx", "..xxx", ".xxxx", "xxxxx", "xxxxx", "xxxxx"]
    assert told("gradual", 3) == ["....x"] + ["...xx"] * 6
    assert told("head-first") == ["....x"] + ["xxxxx"] * 6
    assert told("chain-thaw") == ["....x", "x....", ".x...", "..x..", "...x.", "xxxxx", "xxxxx"]
    assert [count_phases(5, plan) for plan in STRATEGIES] == [1, 5, 2, 6]


def test_plans_and_counts_that_cannot_be_are_refused():
    with pytest.raises(RecipeError, match=r"layers\.unfreeze: found 'gradully'; did you mean 'gradual'"):
        trainable_layers(5, "gradully", 0)
    with pytest.raises(RecipeError, match=r"layers\.freeze: found 5; this model has 5 layers, so expected 0 to 4"):
        trainable_layers(5, "all", 0, freeze=5)
    with pytest.raises(RecipeError, match=r"layers\.lr_decay: found 0"):
        layer_learning_rates(3, 1e-3, lr_decay=0)


@every_architecture
def test_drawing_the_topmost_block_anew_leaves_the_others_as_they_were(name):
    model = model_of(name, seed=1)
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    changed = reinitialize(model, blocks=1)
    layers = LayerMap.of(model)
    assert changed == {*layers.blocks[-1].parameters, *layers.head.parameters}
    for key, parameter in model.named_parameters():
        if key not in changed:
            assert torch.equal(parameter, before[key])
    drawn = layers.blocks[-1].parameters
    fixed = {"A_log", "time_mix_key", "time_mix_value", "time_mix_receptance"}  # the same in every new model
    matrices = [k for k, p in drawn.items() if p.ndim > 1 and before[k].std() > 0 and k.split(".")[-1] not in fixed]
    assert all(not torch.equal(layers.blocks[-1].parameters[k], before[k]) for k in matrices)


@every_architecture
def test_a_head_that_starts_from_zero_gives_every_answer_alike(name):
    model = model_of(name).eval()
    assert reinitialize(model, zero_head=True)
    ids = torch.randint(5, 60, (2, 7))
    assert model(input_ids=ids).logits.abs().max() == 0


def test_norms_can_be_put_back_and_more_blocks_than_there_are_cannot_be_drawn():
    model = tiny_model("bert")
    with torch.no_grad():
        model.bert.embeddings.LayerNorm.weight.fill_(3)
    assert "bert.embeddings.LayerNorm.weight" in reinitialize(model, norms=True)
    assert model.bert.embeddings.LayerNorm.weight.eq(1).all()
    with pytest.raises(RecipeError, match=r"layers\.reinit_top: found 4; this encoder has 3 blocks"):
        reinitialize(model, blocks=4)


def test_lora_is_refused_where_blocks_have_no_linear_layers():
    with pytest.raises(RecipeError, match=r"layers\.lora: the blocks of AwdLstmForSequenceClassification"):
        add_lora(model_of("awd-lstm"), rank=2)


@pytest.mark.parametrize("name", [name for name in ARCHITECTURES if name != "awd-lstm"])
def test_lora_learns_beside_the_blocks_and_merges_into_a_plain_model(name):
    model = model_of(name).eval()
    keys = list(model.state_dict())
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    first = copy.deepcopy(model)
    add_lora(model, rank=2)
    model.eval()
    torch.testing.assert_close(loss_of(model), loss_of(first))  # B starts at zero
    layers = LayerMap.of(model)
    assert layers.embeddings.num_trainable == 0
    assert all(0 < block.num_trainable < block.num_parameters for block in layers.blocks)
    groups = layers.param_groups(learning_rate=0.05, lr_decay=0.9)
    optimizer = AdamW(groups)
    for seed in range(2):
        loss_of(model, seed).backward()
        optimizer.step()
        optimizer.zero_grad()
    learned = loss_of(model)
    merge_lora(model)
    assert list(model.state_dict()) == keys
    torch.testing.assert_close(loss_of(model), learned, rtol=1e-4, atol=1e-6)
    moved = {n for n, p in model.named_parameters() if not torch.equal(p, before[n])}
    assert not moved & set(LayerMap.of(model).embeddings.parameters)
    assert moved & set(LayerMap.of(model).blocks[0].parameters)
