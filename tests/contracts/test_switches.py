"""Heads and blocks that are switched off, for every architecture: as if their weights were not there."""

import contextlib
import copy
import json

import pytest
import torch
from torch import nn
from typer.testing import CliRunner

import warmstart
from tiny import ARCHITECTURES, NO_ATTENTION, tiny_model, tiny_tokenizer
from warmstart.cli.main import app
from warmstart.errors import ModelError, RecipeError
from warmstart.models.layer_map import LayerMap
from warmstart.models.switches import ALL, BlocksOff, HeadGates, HeadsOff, heads_joined, parse_switches, switch_off

RECURRENT = dict.fromkeys(NO_ATTENTION, "it has no attention, or not in every block")
NO_HEADS = {"xlnet": "it joins its heads by a bare parameter, which no hook can reach", **RECURRENT}
SHARED = {"albert": "its layers share one block"}
NO_BLOCKS = {**SHARED, **dict.fromkeys(("mamba", "mamba2", "rwkv"), "it records hidden states before its blocks")}
HEADS = 4

every_architecture = pytest.mark.parametrize("name", ARCHITECTURES)
with_heads = pytest.mark.parametrize("name", [name for name in ARCHITECTURES if name not in NO_HEADS])
with_blocks = pytest.mark.parametrize("name", [name for name in ARCHITECTURES if name not in NO_BLOCKS])


def build(name, **changes):
    """A bare encoder whose biases and norms are not those it starts with, so that nothing is 0 by chance."""
    model = tiny_model(name, None, **changes).eval()
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return model


@torch.no_grad()
def states(model, name):
    pairs = ["who is alice?", "where is it"], ["alice lives in paris.", "the book was in tokyo"]
    return model(**tiny_tokenizer(name)(*pairs, padding=True, return_tensors="pt")).last_hidden_state


def count_hooks(model):
    return sum(
        len(module._forward_hooks) + len(module._forward_pre_hooks) + len(module._backward_hooks)
        for module in model.modules()
    )


def zero_heads(module, heads):
    """Set the weights that read these heads to 0."""
    # The weight of GPT-2's Conv1D has its inputs first.
    weight = module.weight if isinstance(module, nn.Linear) else module.weight.T
    size = weight.shape[1] // HEADS
    with torch.no_grad():
        for head in heads:
            weight[:, head * size : (head + 1) * size] = 0


@with_heads
def test_heads_off_are_heads_whose_weights_are_zero(name):
    model, blocks = build(name), 1 if name in SHARED else 3
    chosen = {0: [1, 3]} if name in SHARED else {0: [1], 1: ALL, 2: [0, 3]}
    zeroed = copy.deepcopy(model)
    for block, module in enumerate(heads_joined(LayerMap.of(zeroed))):
        heads = chosen.get(block, [])
        zero_heads(module, range(HEADS) if heads == ALL else heads)
    before = states(model, name)
    with HeadsOff(model, chosen) as off:
        assert off.gates.shape == (blocks, HEADS)
        after = states(model, name)
    assert (after - states(zeroed, name)).abs().max() <= 1e-6
    assert (after - before).abs().max() > 1e-3


@with_heads
def test_all_heads_on_is_the_untouched_model(name):
    model = build(name)
    before = states(model, name)
    with HeadsOff(model, {}):
        assert states(model, name).equal(before)
    gates = HeadGates(model).gates.requires_grad_()  # so that every block has its hook
    with HeadGates(model, gates):
        assert states(model, name).equal(before)


@with_blocks
def test_a_block_off_is_a_model_built_without_it(name):
    model = build(name)
    with BlocksOff(model, [1]):
        after = states(model, name)
    assert (after - states(without_block(model, name, 1), name)).abs().max() <= 1e-6
    assert (after - states(model, name)).abs().max() > 1e-3


def without_block(model, name, block):
    """The same weights in a model that has one block less."""
    shorter = copy.deepcopy(model)
    stack, _, _ = LayerMap.of(shorter).blocks[block].modules[0].rpartition(".")
    del shorter.get_submodule(stack)[block]
    shorter.config.num_hidden_layers -= 1
    shorter.config.use_cache = False  # a decoder's cache counts the blocks
    for attribute in ("layer_types", "attention_window"):
        if isinstance(by_block := getattr(shorter.config, attribute, None), list):
            setattr(shorter.config, attribute, [*by_block[:block], *by_block[block + 1 :]])
    return shorter


@with_blocks
def test_a_block_off_is_so_for_whoever_records_hidden_states(name):
    model = build(name)
    inputs = tiny_tokenizer(name)(["alice lives in paris."], return_tensors="pt")
    with BlocksOff(model, [1]), torch.no_grad():
        recorded = model(**inputs, output_hidden_states=True).hidden_states
    assert recorded[2].equal(recorded[1])


@every_architecture
def test_hooks_leave_nothing_behind(name):
    model = build(name)
    before, hooks = states(model, name), count_hooks(model)
    contexts = [] if name in NO_HEADS else [HeadsOff(model, {0: ALL})]
    contexts += [] if name in SHARED else [BlocksOff(model, [0, 2])]
    for context in contexts:
        with contextlib.suppress(KeyError), context:
            assert count_hooks(model) > hooks
            raise KeyError
        assert count_hooks(model) == hooks
    assert states(model, name).equal(before)


@with_heads
def test_a_model_learns_around_heads_that_are_off(name):
    model = build(name).train()
    module = heads_joined(LayerMap.of(model))[0]
    inputs = tiny_tokenizer(name)(["alice lives in paris."], return_tensors="pt")
    with HeadsOff(model, {0: [2]}):
        model(**inputs).last_hidden_state.pow(2).sum().backward()
    gradient = module.weight.grad if isinstance(module, nn.Linear) else module.weight.grad.T
    by_head = gradient.unflatten(1, (HEADS, -1)).abs().amax((0, 2))
    assert by_head[2] == 0
    assert (by_head[[0, 1, 3]] > 0).all()


def test_what_cannot_be_switched_off_is_said_with_the_reason():
    with pytest.raises(ModelError, match="xlnet: no module is known"):
        HeadsOff(tiny_model("xlnet", None), {0: ALL})
    with pytest.raises(ModelError, match="block 0: its weights are shared by 3 layers"):
        BlocksOff(tiny_model("albert", None), [0])
    model = tiny_model("bert")
    for heads, message in (({3: [0]}, "block 3: this model has 3; expected 0 to 2"), ({0: [4]}, "head 4: .* has 4")):
        with pytest.raises(ModelError, match=message):
            HeadsOff(model, heads)
    with pytest.raises(ModelError, match="block 7: this model has 3"):
        BlocksOff(model, [7])
    with pytest.raises(ModelError, match=r"found the shape \(2, 4\), expected \(3, 4\)"):
        HeadGates(model, torch.ones(2, 4))


def test_switches_are_read_from_text():
    switches = parse_switches("2.3, 0.*, 2.1,1")
    assert (switches.heads, switches.blocks) == ({2: [3, 1], 0: ALL}, [1])
    assert str(switches) == "2.3,2.1,0.*,1"
    assert parse_switches("0.*,0.2").heads == {0: ALL}
    for text in ("", "3.x", "head 3", "-1", "1.2.3"):
        with pytest.raises(RecipeError, match="without: "):
            parse_switches(text)
    model, name = build("bert"), "bert"
    before = states(model, name)
    switch_off(model, switches)
    assert (states(model, name) - before).abs().max() > 1e-3


def test_a_predictor_answers_without_heads(run):
    text = "the film 7 was good and very great"
    [plain], [without] = (warmstart.load(run.folder, without=some).predict([text]) for some in (None, "0.*,1.2,2"))
    assert plain["probability"] != without["probability"]
    call = CliRunner().invoke(app, ["predict", str(run.folder), text, "--without", "0.*,1.2,2", "--json"])
    assert json.loads(call.stdout) == without
    for words, message in (
        (["--without", "9.1"], "block 9: this model has 3"),
        (["--without", "0.1", "--engine", "auto"], "only the engine torch"),
        (["--without", "first"], "without: found 'first'"),
    ):
        assert message in str(CliRunner().invoke(app, ["predict", str(run.folder), text, *words]).exception)
