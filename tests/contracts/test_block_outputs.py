"""Stored outputs of the lowest blocks, for every architecture: a model that goes on from them answers the same."""

import pytest
import torch

from tiny import ARCHITECTURES, tiny_model, tiny_tokenizer
from warmstart.models import block_outputs
from warmstart.models.block_outputs import BlockOutputs
from warmstart.models.layer_map import LayerMap

SHARED = {"albert": "its layers share one block"}
BATCHES = (["who is alice?", "where is it"], ["alice lives in paris.", "the book was in tokyo"])


@torch.inference_mode()
def answers(model, name):
    tokenizer = tiny_tokenizer(name)
    return [model(**tokenizer(texts, padding=True, return_tensors="pt")).last_hidden_state for texts in BATCHES]


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_model_goes_on_from_stored_outputs(name):
    model = tiny_model(name, None).eval()
    blocks = [group.module for group in LayerMap.of(model).blocks]
    outputs = BlockOutputs(model)
    with outputs.recorded():
        whole = answers(model, name)
    assert outputs.usable == (name not in SHARED)
    computed = []
    handles = [
        module.register_forward_hook(lambda *_, number=number: computed.append(number))
        for number, block in enumerate(blocks)
        for module in block.children()
    ]
    with outputs.reused(below=2):
        again = answers(model, name)
    assert all(torch.equal(one, other) for one, other in zip(whole, again, strict=True))
    if name not in SHARED:
        assert not {0, 1} & set(computed)
    for handle in handles:
        handle.remove()
    assert not any("forward" in vars(block) for block in blocks)
    assert all(torch.equal(one, two) for one, two in zip(whole, answers(model, name), strict=True))


def test_some_blocks_are_reused_while_those_above_are_stored_anew():
    model = tiny_model("bert", None).eval()
    blocks = [group.module for group in LayerMap.of(model).blocks]
    outputs = BlockOutputs(model)
    with outputs.recorded():
        answers(model, "bert")
    kept = outputs.calls[0]
    with torch.no_grad():
        blocks[1].get_submodule("output.dense").weight.mul_(2)
        changed = answers(model, "bert")
        blocks[0].get_submodule("output.dense").weight.mul_(2)  # as before, as its outputs are reused
    with outputs.recorded(below=1):
        assert all(torch.equal(one, two) for one, two in zip(changed, answers(model, "bert"), strict=True))
    assert outputs.calls[0] is kept
    with outputs.reused(below=len(blocks)):
        assert all(torch.equal(one, two) for one, two in zip(changed, answers(model, "bert"), strict=True))


def test_outputs_that_would_take_too_much_memory_are_not_stored(monkeypatch):
    monkeypatch.setattr(block_outputs, "MOST_BYTES", 1000)
    model = tiny_model("bert", None).eval()
    outputs = BlockOutputs(model)
    with outputs.recorded():
        whole = answers(model, "bert")
    assert outputs.tried
    assert not outputs.usable
    with outputs.reused(below=2):
        assert all(torch.equal(one, two) for one, two in zip(whole, answers(model, "bert"), strict=True))
