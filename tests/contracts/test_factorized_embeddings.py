"""Embeddings of full rank lose nothing when they are factorized; those that would are refused by name."""

import pytest
import torch
from transformers import AutoModel, AutoModelForSequenceClassification

from tiny import ARCHITECTURES, tiny_model
from warmstart.errors import ModelError
from warmstart.models.factorized_embeddings import (
    ApproximatedEmbeddings,
    check_embedding_size,
    factorize_embeddings,
    main_directions,
)

ABLE = ("deberta", "deberta-v2")
IDS = torch.tensor([[5, 6, 7, 8, 9, 10], [11, 12, 13, 14, 15, 16]])


def outputs(model):
    with torch.no_grad():
        return model(input_ids=IDS)[0]


def of_rank(model, rank):
    """The model, with token, position and type embeddings in a space of so many dimensions."""
    embeddings = [one for one in model.modules() if isinstance(one, torch.nn.Embedding) and one.num_embeddings > 16]
    space = torch.randn(rank, embeddings[0].embedding_dim, generator=torch.Generator().manual_seed(1))
    for one in embeddings:
        if one.embedding_dim == space.shape[1]:
            one.weight.data = one.weight.data[:, :rank] @ space
    return model


@pytest.mark.parametrize("types", [0, 2])
@pytest.mark.parametrize("name", ABLE)
def test_nothing_is_lost_with_as_many_directions_as_ranks(name, types, tmp_path):
    model = of_rank(tiny_model(name, type_vocab_size=types).eval(), 8)
    expected = outputs(model)
    factorize_embeddings(model, main_directions(model, 8 + types))
    model.save_pretrained(tmp_path)
    opened = AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    assert opened.config.embedding_size == opened.get_input_embeddings().embedding_dim == 8 + types
    assert torch.allclose(outputs(opened), expected, atol=1e-4)
    factorize_embeddings(opened, main_directions(opened, 8 + types - 1))  # once more, from a projection
    assert opened.get_input_embeddings().embedding_dim == 8 + types - 1


@pytest.mark.parametrize("name", ABLE)
def test_fewer_directions_give_the_projected_embeddings(name, tmp_path):
    model = tiny_model(name, None).eval()
    directions = main_directions(model, 12, tokens=range(5, 40))
    whole = outputs(model)
    with ApproximatedEmbeddings(model, directions):
        expected = outputs(model)
    assert torch.equal(outputs(model), whole)
    assert not torch.allclose(expected, whole, atol=1e-3)
    factorize_embeddings(model, directions)
    assert torch.allclose(outputs(model), expected, atol=1e-5)
    model.save_pretrained(tmp_path)
    assert torch.allclose(outputs(AutoModel.from_pretrained(tmp_path).eval()), expected, atol=1e-5)


@pytest.mark.parametrize("name", [name for name in ARCHITECTURES if name not in ABLE])
def test_other_architectures_are_refused_by_name(name):
    with pytest.raises(ModelError, match=f"the embeddings of {name} cannot .* of deberta and deberta-v2 can"):
        check_embedding_size(tiny_model(name, None), 8)


def test_a_size_that_is_not_smaller_and_a_language_model_are_refused():
    with pytest.raises(ModelError, match="found 32; the embeddings have 32 numbers each, expected 1 to 31"):
        check_embedding_size(tiny_model("deberta-v2"), 32)
    with pytest.raises(ModelError, match="language modelling head"):
        check_embedding_size(tiny_model("deberta-v2", "masked"), 8)
