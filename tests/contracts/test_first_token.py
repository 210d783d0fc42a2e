"""The last block computed for the first token alone: the same loss and gradients, in every architecture."""

import pytest
import torch

from tiny import ARCHITECTURES, NoStockHead, tiny_model
from warmstart.models.architectures import spec_of
from warmstart.models.first_token import first_token_only
from warmstart.models.heads.pooled import PooledConfig, PooledForSequenceClassification
from warmstart.models.layer_map import LayerMap

IDS = torch.arange(4 * 9).view(4, 9) % 40 + 5
MASK = (torch.arange(9) < torch.tensor([[9], [5], [9], [7]])).long()


@pytest.fixture(params=ARCHITECTURES)
def model(request):
    try:
        model = tiny_model(request.param, "sequence", 2).train()
    except NoStockHead as reason:
        pytest.skip(str(reason))
    for module in model.modules():
        for name in ("p", "dropout", "dropout_prob", "attn_dropout"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)
    return model


def gradients(model):
    model.zero_grad()
    outputs = model(input_ids=IDS, attention_mask=MASK, labels=torch.tensor([0, 1, 1, 0]))
    outputs.loss.backward()
    return outputs.logits.detach(), {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def hooks(model):
    return sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules())


def test_a_pooled_head_reads_all_tokens():
    config = PooledConfig(encoder=tiny_model("bert").config, pooling="mean", num_labels=2)
    with first_token_only(PooledForSequenceClassification(config).train()) as used:
        assert not used


def test_loss_and_gradients_are_the_same(model):
    if not spec_of(model.config).first_token_block:
        with first_token_only(model) as used:
            assert not used
        return
    logits, expected = gradients(model)
    lengths = []
    handle = (
        LayerMap.of(model)
        .blocks[-1]
        .module.output.register_forward_hook(lambda module, args, output: lengths.append(output.shape[1]))
    )
    with first_token_only(model) as used:
        assert used
        shortened, computed = gradients(model)
        with pytest.raises(RuntimeError, match="no hidden states to give"):
            model(input_ids=IDS, output_hidden_states=True)
        assert model.eval()(input_ids=IDS, output_hidden_states=True).hidden_states[-1].shape[1] == 9
    handle.remove()
    assert lengths[0] == 1
    torch.testing.assert_close(shortened, logits, atol=1e-6, rtol=1e-5)
    assert computed.keys() == expected.keys()
    for name in expected:
        torch.testing.assert_close(computed[name], expected[name], atol=1e-6, rtol=1e-5, msg=name)
    before = hooks(model)
    with first_token_only(model):
        assert hooks(model) == before + 5
    assert hooks(model) == before
