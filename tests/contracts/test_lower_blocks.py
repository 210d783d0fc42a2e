"""The lowest blocks left out, for every architecture: given what they return, the blocks above compute the same."""

import pytest
import torch

from tiny import ARCHITECTURES, tiny_model, tiny_tokenizer
from warmstart.errors import ModelError
from warmstart.models.layer_map import LayerMap
from warmstart.models.lower_blocks import LowerBlocks

REFUSED = {
    "albert": "share a block",
    "xlnet": r"see a batch of \(2, 9\) tokens as \(9, 2\)",
    "longformer": r"see a batch of \(2, 9\) tokens as \(2, 16\)",
    "t5": "give each other more than states",
    "mt5": "give each other more than states",
    "awd-lstm": "give each other more than states",
    "rwkv": "give each other more than states",
    "xlstm": "give each other more than states",
}
"""Architectures whose blocks cannot be left out, and why."""


@pytest.mark.parametrize("name", ARCHITECTURES)
@torch.inference_mode()
def test_a_model_goes_on_from_given_states(name):
    model = tiny_model(name, None).eval()
    batch = dict(tiny_tokenizer(name)(["who is alice?", "where is it now ?"], padding=True, return_tensors="pt"))
    if name in REFUSED:
        with pytest.raises(ModelError, match=REFUSED[name]):
            read(LowerBlocks(model, 2), batch)
        return
    blocks = LowerBlocks(model, 2)
    states, whole = read(blocks, batch)
    computed = []
    handles = [
        module.register_forward_hook(lambda *_, number=number: computed.append(number))
        for number, group in enumerate(LayerMap.of(model).blocks)
        for module in group.module.children()
    ]
    with blocks.replaced(states):
        torch.testing.assert_close(blocks.last_states(batch), whole)
    assert set(computed) == {2}
    with blocks.replaced(states + torch.randn_like(states)):
        assert not torch.allclose(blocks.last_states(batch), whole, atol=1e-3)
    for handle in handles:
        handle.remove()
    assert not any("forward" in vars(group.module) for group in LayerMap.of(model).blocks)
    assert torch.equal(blocks.last_states(batch), whole)


def read(blocks, batch):
    """What the highest of the blocks returns, and what the model does in the end."""
    with blocks.recorded() as states:
        whole = blocks.last_states(batch)
    return states[0], whole


def test_more_blocks_than_there_are():
    with pytest.raises(ModelError, match="found 4 blocks to leave out; this model has 3"):
        LowerBlocks(tiny_model("bert", None), 4)
