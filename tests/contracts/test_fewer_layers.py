"""Every architecture can be cut down to some of its blocks, saved and opened again; or says that it cannot."""

import pytest
import torch

from tiny import ARCHITECTURES, tiny_model
from warmstart.errors import RecipeError
from warmstart.models.fewer_layers import chosen_layers, keep_layers
from warmstart.models.layer_map import LayerMap

FIXED = {"albert", "awd-lstm", "recurrent_gemma"}
"""Architectures whose blocks are one, run several times, or differ by their place."""


@pytest.mark.parametrize("choice", ["lowest", "spread"])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_model_with_fewer_blocks_opens_as_it_was_saved(name, choice, tmp_path):
    model = tiny_model(name, None).eval()
    whole = [group.module for group in LayerMap.of(model).blocks]
    if name in FIXED:
        with pytest.raises(RecipeError, match=f"the blocks of {name} are not a list of which some can be removed"):
            keep_layers(model, 2, choice)
        return
    kept = keep_layers(model, 2, choice)
    assert [group.module for group in LayerMap.of(model).blocks] == [whole[number] for number in kept]
    model.save_pretrained(tmp_path)
    opened = type(model).from_pretrained(tmp_path).eval()
    assert opened.config.num_hidden_layers == 2
    ids = torch.tensor([[5, 6, 7, 8, 9, 10]])
    with torch.no_grad():
        assert torch.equal(model(input_ids=ids)[0], opened(input_ids=ids)[0])


def test_layers_are_spread_from_the_first_to_the_last():
    assert chosen_layers(12, 6, "spread") == [0, 2, 4, 7, 9, 11]  # as DistilBERT takes them from BERT
    assert chosen_layers(12, 3, "spread") == [0, 6, 11]
    assert chosen_layers(12, 3, "lowest") == [0, 1, 2]
    assert chosen_layers(6, 1, "spread") == [0]
    assert chosen_layers(6, 6, "spread") == list(range(6))
