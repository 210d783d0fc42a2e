"""Every architecture can lose attention heads of each block and opens in transformers; or says that it cannot."""

import pytest
import torch
import transformers

from tiny import ARCHITECTURES, NoStockHead, tiny_model
from warmstart.errors import ModelError
from warmstart.models.fewer_heads import choose_heads, prune_heads, removable_heads
from warmstart.models.switches import HeadsOff

ABLE = {"eurobert": [2, 3], "gte": [1, 2, 3], "llama": [2], "mt5": [1, 2, 3], "nomic_bert": [1, 2, 3], "t5": [1, 2, 3]}
"""Architectures whose configs say the size of a head, with how many of 4 can be removed; Llama's share two keys."""
SAME_HEADS = {"t5", "mt5"}
"""Architectures of which every block loses the same heads, since all add the same position bias."""
IMPORTANCE = [[0.4, 0.1, 0.3, 0.2], [0.1, 0.2, 0.3, 0.4], [0.3, 0.4, 0.1, 0.2]]
IDS = torch.tensor([[5, 6, 7, 8, 9, 10], [11, 12, 13, 14, 15, 16]])


@pytest.mark.parametrize("head", [None, "sequence", "token"])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_model_with_fewer_heads_answers_as_with_these_off(name, head, tmp_path):
    try:
        model = tiny_model(name, head).eval()
    except NoStockHead as reason:
        pytest.skip(str(reason))
    if name not in ABLE:
        with pytest.raises(
            ModelError, match=f"the config of {name} cannot say .* eurobert, gte, llama, mt5, nomic_bert"
        ):
            prune_heads(model, {block: [0] for block in range(3)})
        return
    assert removable_heads(model) == ABLE[name]
    for count in ABLE[name]:
        heads = choose_heads(model, IMPORTANCE, count)
        with HeadsOff(model, heads), torch.no_grad():
            expected = model(input_ids=IDS)[0]
        smaller = tiny_model(name, head)
        smaller.load_state_dict(model.state_dict())
        prune_heads(smaller, heads)
        smaller.save_pretrained(tmp_path / str(count))
        opened = opened_plainly(tmp_path / str(count), name, head).eval()
        assert opened.config.num_attention_heads == 4 - count
        assert opened.num_parameters() < model.num_parameters()
        with torch.no_grad():
            assert torch.allclose(opened(input_ids=IDS)[0], expected, atol=1e-4)


def opened_plainly(folder, name, head):
    """The folder as plain transformers opens it."""
    if head is None and name in SAME_HEADS:  # AutoModel would add a decoder
        return getattr(transformers, ARCHITECTURES[name].classes[None]).from_pretrained(folder)
    kinds = {None: "AutoModel", "sequence": "AutoModelForSequenceClassification"}
    kind = kinds.get(head, "AutoModelForTokenClassification")
    return getattr(transformers, kind).from_pretrained(folder)


def test_the_least_important_heads_of_each_block_are_chosen():
    assert choose_heads(tiny_model("gte", None), IMPORTANCE, 2) == {0: [1, 3], 1: [0, 1], 2: [2, 3]}
    # Heads 0 and 1 share one key, 2 and 3 the other: one of each goes.
    assert choose_heads(tiny_model("llama", None), IMPORTANCE, 2) == {0: [1, 3], 1: [0, 2], 2: [0, 2]}
    assert choose_heads(tiny_model("t5", None), IMPORTANCE, 2) == {0: [1, 2], 1: [1, 2], 2: [1, 2]}


def test_a_number_of_heads_that_the_config_cannot_say_is_refused():
    with pytest.raises(ModelError, match=r"found 1 heads to remove .* a block has 4, and its config allows to remove"):
        choose_heads(tiny_model("llama", None), IMPORTANCE, 1)
    with pytest.raises(ModelError, match="the same of each block"):
        prune_heads(tiny_model("t5", None), {0: [0], 1: [1], 2: [0]})
    with pytest.raises(ModelError, match="as many of each"):
        prune_heads(tiny_model("gte", None), {0: [0], 1: [1], 2: [0, 1]})
