"""What a layer map promises, for every architecture and every head."""

import copy
import json

import pytest
import torch
from torch import nn
from transformers import AutoModelForSequenceClassification, T5ForConditionalGeneration

from tiny import ARCHITECTURES, NoStockHead, tiny_model, tiny_tokenizer
from warmstart.errors import ModelError, RecipeError
from warmstart.models import architectures
from warmstart.models.layer_map import LayerMap

LABELS = 7  # no other size in the tiny models, so that a classifier is known by its shape
FOLLOWS_THE_BLOCKS = {
    "pooler",
    "norm",
    "final_norm",
    "final_layer_norm",
    "ln_f",
    "ln_out",
    "norm_f",
    "out_norm",
    "project_out",
}
MASKED = [
    "bert",
    "roberta",
    "distilbert",
    "albert",
    "electra",
    "deberta-v2",
    "mpnet",
    "modernbert",
    "nomic_bert",
]

every_model = pytest.mark.parametrize("head", ["sequence", "token", "span", None])
every_architecture = pytest.mark.parametrize("name", ARCHITECTURES)


def build(name, head, **changes):
    try:
        return tiny_model(name, head, num_labels=LABELS, **changes).eval()
    except NoStockHead as reason:
        pytest.skip(str(reason))


def run(model, name):
    pairs = ["who is alice?", "where is it"], ["alice lives in paris.", "the book was in tokyo"]
    stateless = {"use_cache": False} if architectures.spec_of(model.config).writes_state else {}
    return model(**tiny_tokenizer(name)(*pairs, padding=True, return_tensors="pt"), **stateless)


def backward(model, name):
    """Run once, and name the parameters that got a gradient."""
    model.zero_grad(set_to_none=True)
    outputs = [value for value in run(model, name).values() if isinstance(value, torch.Tensor)]
    sum(value.pow(2).sum() for value in outputs).backward()
    return {name for name, parameter in model.named_parameters() if parameter.grad is not None}


@every_model
@every_architecture
def test_every_parameter_is_in_exactly_one_group(name, head):
    model = build(name, head)
    layers = LayerMap.of(model)
    held = [(key, id(value)) for group in layers.groups for key, value in group.parameters.items()]
    assert sorted(held) == sorted((key, id(value)) for key, value in model.named_parameters())
    assert sum(group.num_parameters for group in layers.groups) == sum(p.numel() for p in model.parameters())
    for group in (layers.embeddings, *layers.blocks):
        assert group.parameters, group
    for group in layers.groups:
        for key in group.parameters:
            assert layers.group_of(key) is group


@every_model
@every_architecture
def test_the_head_is_what_follows_the_last_block(name, head):
    model = build(name, head)
    layers = LayerMap.of(model)
    encoder = {id(parameter) for parameter in model.base_model.parameters()}
    outside = {key for key, parameter in model.named_parameters() if id(parameter) not in encoder}
    assert outside <= set(layers.head.parameters)
    for key in layers.head.parameters.keys() - outside:
        assert FOLLOWS_THE_BLOCKS & set(key.split(".")), f"{key} is part of the encoder proper"
    if head in ("sequence", "token"):
        classifiers = [key for key, parameter in model.named_parameters() if parameter.shape[0] == LABELS]
        assert classifiers
        assert set(classifiers) <= set(layers.head.parameters)


@every_model
@every_architecture
def test_groups_are_what_a_forward_pass_runs_from_bottom_to_top(name, head):
    model = build(name, head)
    layers = LayerMap.of(model)
    events = []
    for block in layers.blocks:
        block.module.register_forward_pre_hook(lambda *_, name=block.name: events.append(("start", name)))
        block.module.register_forward_hook(lambda *_, name=block.name: events.append(("end", name)))
    for key, module in model.named_modules():
        if next(module.parameters(recurse=False), None) is not None:
            module.register_forward_pre_hook(lambda *_, key=key: events.append(("call", key)))
    run(model, name)

    started = [name for kind, name in events if kind == "start"]
    assert started == [block.name for block in layers.blocks for _ in range(block.runs)]
    assert len(started) == layers.depth == model.config.num_hidden_layers

    first = events.index(("start", "block 0"))
    last = max(index for index, (kind, _) in enumerate(events) if kind == "end")
    expected = {}
    for index, (kind, key) in enumerate(events):
        if kind == "start":
            current = key
        if kind == "call":
            place = "embeddings" if index < first else "head" if index > last else current
            expected.setdefault(key, place)
    assert {"embeddings", "block 0"} <= set(expected.values())
    assert "head" in expected.values() or not layers.head.parameters
    for key, place in expected.items():
        if key.endswith("SelfAttention.relative_attention_bias"):
            place = "embeddings"  # T5 keeps what all blocks share in the first of them
        for parameter, _ in model.get_submodule(key).named_parameters(key, recurse=False):
            assert layers.group_of(parameter).name == place, parameter


@every_model
@every_architecture
def test_frozen_groups_get_no_gradient_and_the_others_do(name, head):
    model = build(name, head)
    layers = LayerMap.of(model)
    layers.unfreeze()
    used = backward(model, name)
    for group in (layers.embeddings, *layers.blocks):
        assert used & group.parameters.keys(), group
    if head is not None:
        assert used & layers.head.parameters.keys()
    for n in range(1, len(layers.groups)):
        learning = {key for group in layers.groups[n:] for key in group.parameters}
        layers.freeze_to(n)
        assert sum(group.num_trainable for group in layers.groups[:n]) == 0
        if used & learning:
            assert backward(model, name) == used & learning


@every_architecture
def test_freeze_leaves_the_head_and_unfreeze_everything(name):
    model = build(name, "token" if name != "opt" else "sequence")
    layers = LayerMap.of(model)
    layers.freeze()
    assert [group.num_trainable for group in layers.groups] == [0] * (len(layers.groups) - 1) + [
        layers.head.num_parameters
    ]
    layers.freeze_to(-2)
    assert layers.blocks[-1].num_trainable == layers.blocks[-1].num_parameters
    assert layers.embeddings.num_trainable == 0
    layers.freeze_to(len(layers.groups))
    assert not any(parameter.requires_grad for parameter in model.parameters())
    layers.unfreeze()
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_freezing_beyond_the_last_group_is_an_error():
    with pytest.raises(RecipeError, match=r"group 9: this model has 5"):
        LayerMap.of(tiny_model("bert")).freeze_to(9)


@every_architecture
def test_prints_as_a_table_of_all_layers(name):
    layers = LayerMap.of(build(name, None))
    layers.freeze_to(1)
    lines = str(layers).splitlines()
    for group in layers.groups:
        line = next(line for line in lines if f" {group.name} " in line)
        assert f" {group.num_parameters:,} " in line
        assert f" {group.num_trainable:,} " in line
    assert f" {type(layers.blocks[0].module).__name__}" in str(layers)
    rows = json.loads(json.dumps(layers.as_rows()))
    assert [row["layer"] for row in rows] == [group.name for group in layers.groups]
    assert sum(row["share"] for row in rows) == pytest.approx(1)
    assert rows[0]["trainable"] == 0 < rows[1]["trainable"] == rows[1]["parameters"]


@pytest.mark.parametrize("name", MASKED)
def test_a_tied_output_matrix_is_counted_once_in_the_embeddings(name):
    model = tiny_model(name, "masked")
    layers = LayerMap.of(model)
    output, words = model.get_output_embeddings().weight, model.get_input_embeddings().weight
    assert output is words
    holders = [group.name for group in layers.groups for p in group.parameters.values() if p is words]
    assert holders == ["embeddings"]
    names = [key for key, p in model.named_parameters(remove_duplicate=False) if p is words]
    assert len(names) > 1
    assert {layers.group_of(key).name for key in names} == {"embeddings"}
    assert layers.head.parameters  # the transform below the tied matrix, and its bias


@pytest.mark.parametrize(("groups", "runs"), [(1, [6]), (2, [3, 3]), (4, [2, 1, 2, 1])])
def test_albert_has_one_block_for_each_set_of_weights(groups, runs):
    model = tiny_model("albert", num_hidden_layers=6, num_hidden_groups=groups)
    layers = LayerMap.of(model)
    assert [block.runs for block in layers.blocks] == runs
    calls = [0] * groups
    for index, block in enumerate(layers.blocks):
        block.module.register_forward_hook(lambda *_, i=index: calls.__setitem__(i, calls[i] + 1))
    run(model, "albert")
    assert calls == runs
    assert layers.depth == 6


def test_a_block_listed_twice_is_one_group_run_twice():
    shared, own = nn.Linear(4, 4), nn.Linear(4, 4)
    model = nn.ModuleDict({"embed": nn.Embedding(9, 4), "blocks": nn.ModuleList([shared, shared, own])})
    layers = LayerMap.of(model)
    assert [(block.module, block.runs) for block in layers.blocks] == [(shared, 2), (own, 1)]
    assert layers.group_of("blocks.1.weight") is layers.blocks[0]


def test_deberta_v2_puts_what_feeds_its_blocks_below_them():
    layers = LayerMap.of(tiny_model("deberta-v2", None))
    assert layers.group_of("encoder.rel_embeddings.weight") is layers.embeddings
    assert layers.group_of("encoder.LayerNorm.weight") is layers.embeddings
    assert layers.group_of("encoder.conv.conv.weight") is layers.blocks[0]
    assert layers.blocks[0].modules == ("encoder.layer.0", "encoder.conv")
    assert not layers.head.parameters


def test_a_lone_parameter_of_the_encoder_belongs_to_the_embeddings():
    layers = LayerMap.of(tiny_model("xlnet", "sequence"))
    assert layers.group_of("transformer.mask_emb") is layers.embeddings


def test_a_network_of_lstm_layers_is_mapped_like_any_other():
    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(20, 8)
            self.layers = nn.ModuleList(nn.LSTM(8, 8) for _ in range(3))
            self.dropouts = nn.ModuleList(nn.Dropout() for _ in range(3))
            self.classifier = nn.Linear(8, 2)

    layers = LayerMap.of(Recurrent())
    assert layers.embeddings.modules == ("words",)
    assert [block.type for block in layers.blocks] == ["LSTM"] * 3
    assert layers.head.modules == ("classifier",)


@pytest.mark.parametrize("name", ["bert", "deberta-v2", "t5"])
def test_a_wrapped_encoder_is_mapped_as_it_is_without_the_wrapper(name):
    encoder = tiny_model(name, None)
    wrapped = nn.ModuleDict({"extra": nn.Linear(4, 32), "inner": encoder})
    bare, layers = LayerMap.of(encoder), LayerMap.of(wrapped)
    for below, above in zip(bare.groups[:-1], layers.groups[:-1], strict=True):
        assert [f"inner.{key}" for key in below.parameters] == list(above.parameters)
    assert {"extra.weight", "extra.bias"} <= set(layers.head.parameters)


def test_two_encoders_in_one_model_are_refused():
    encoder = tiny_model("bert", None)
    with pytest.raises(ModelError, match=r"holds 2 encoders \(query, passage\)"):
        LayerMap.of(nn.ModuleDict({"query": encoder, "passage": copy.deepcopy(encoder)}))


@pytest.mark.parametrize("decoder_layers", [3, 2])
def test_a_decoder_is_never_taken_for_a_head(decoder_layers):
    config = tiny_model("t5", None).config
    config.num_decoder_layers = decoder_layers
    for model in (AutoModelForSequenceClassification.from_config(config), T5ForConditionalGeneration(config)):
        with pytest.raises(
            ModelError, match=r"encoder\.block \(3 x T5Block\).*decoder\.block .*\n.*\n.*T5EncoderModel"
        ):
            LayerMap.of(model)


def test_blocks_cut_off_behind_the_configurations_back_are_noticed():
    model = tiny_model("bert")
    del model.bert.encoder.layer[2]
    with pytest.raises(ModelError, match=r"encoder\.layer \(2 x BertLayer\)(.|\n)*of 3 blocks(.|\n)*set config"):
        LayerMap.of(model)
    model.config.num_hidden_layers = 2
    assert LayerMap.of(model).depth == 2


def test_a_model_without_blocks_is_refused_with_what_was_found():
    with pytest.raises(ModelError, match=r"Sequential holds its blocks(.|\n)*no ModuleList of modules of one class"):
        LayerMap.of(nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 2)))


def test_the_row_that_the_error_asks_for_makes_the_model_mappable(monkeypatch):
    model = tiny_model("bert", None)
    model.config.model_type = "two-towers"
    model.encoder.other = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
    with pytest.raises(ModelError) as caught:
        LayerMap.of(model)
    row = "ARCHITECTURES['two-towers'] = ArchitectureSpec(blocks='encoder.layer')"
    assert row in str(caught.value)
    monkeypatch.setitem(
        architectures.ARCHITECTURES, "two-towers", architectures.ArchitectureSpec(blocks="encoder.layer")
    )
    layers = LayerMap.of(model)
    assert [block.type for block in layers.blocks] == ["BertLayer"] * 3
    assert layers.group_of("encoder.other.0.weight") is layers.head


def test_an_unknown_parameter_name_brings_the_nearest():
    with pytest.raises(ModelError, match=r"did you mean 'classifier\.weight'"):
        LayerMap.of(tiny_model("bert")).group_of("clasifier.weight")
