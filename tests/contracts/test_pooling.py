"""What pooling promises, on every architecture: the numbers NumPy gives, whatever the padding, saved and reopened."""

from contextlib import nullcontext

import numpy as np
import pytest
import torch
import transformers

from tiny import ARCHITECTURES, NoStockHead, tiny_config, tiny_model, tiny_tokenizer
from warmstart.errors import ModelError, RecipeError
from warmstart.models import hidden_states as states
from warmstart.models.architectures import spec_of
from warmstart.models.heads.pooled import PooledConfig, PooledForSequenceClassification
from warmstart.models.heads.selection import HeadChoice, head_config, is_pooled
from warmstart.models.layer_map import LayerMap
from warmstart.models.pooling import POOLINGS, SLICE_POOLINGS, Pooling, SlicePooling
from warmstart.models.precision import resolve_precision
from warmstart.training.fast_dropout import FastDropout

LAYERS = [
    *("last", 0, 2, -2, "concat-2", "sum-2", "mean-2", "max-3", "concat-all", "mean-all", "max-all", "scalar-mix"),
    *("first-2", "last-2", "concat-first-2", "sum-first-2", "mean-first-2", "max-first-1", "mean-last-2"),
]
SEVERAL_SIZES = {"opt", "awd-lstm"}
"""Their layers have states of several sizes, which have no mean."""
TEXTS = ["the film was good and the book was bad", "good", "a great story, and a boring one"]

every_architecture = pytest.mark.parametrize("name", ARCHITECTURES)


def build(name, encoder=None, **settings):
    """A tiny encoder under our own head, whose learned means have moved from where they begin."""
    torch.manual_seed(0)
    encoder = encoder or tiny_model(name, None)
    settings = {"num_labels": 3, "problem_type": "single_label_classification", **settings}
    model = PooledForSequenceClassification(PooledConfig(encoder=encoder.config, **settings), encoder).eval()
    stir(model)
    return model


def stir(module):
    with torch.no_grad():
        for key, parameter in module.named_parameters():
            if "mix." in key or "attention.query" in key:
                parameter.add_(torch.randn_like(parameter))


def batch(name, texts=TEXTS):
    return tiny_tokenizer(name)(list(texts), padding=True, return_tensors="pt")


def softmax(scores):
    powers = np.exp(scores - scores.max())
    return powers / powers.sum()


def join(states, layers, pooling):
    """The chosen layers of one text as one array of tokens, in plain NumPy."""
    blocks = states[1:]
    if layers == "scalar-mix":
        shares = softmax(pooling.mix.weights.detach().numpy())
        return pooling.mix.scale.item() * sum(share * state for share, state in zip(shares, states, strict=True))
    if layers == "last" or isinstance(layers, int):
        return states[-1 if layers == "last" else layers]
    how, *_, many = layers.split("-")
    chosen = blocks if many == "all" else blocks[: int(many)] if "first" in layers else blocks[-int(many) :]
    if how in ("concat", "first", "last"):
        return np.concatenate(chosen, axis=-1)
    return {"sum": np.sum, "mean": np.mean, "max": np.max}[how](chosen, axis=0)


def reduce(tokens, how, query=None):
    """Real tokens of one text as one vector, in plain NumPy."""
    if how == "last+max+mean":
        return np.concatenate([tokens[-1], tokens.max(axis=0), tokens.mean(axis=0)])
    if how == "attention":
        return softmax(tokens @ query / np.sqrt(len(query))) @ tokens
    return {"cls": tokens[0], "last": tokens[-1], "mean": tokens.mean(axis=0), "max": tokens.max(axis=0)}[how]


def query_of(module):
    return module.attention.query.detach().numpy() if module.attention else None


@every_architecture
def test_vectors_are_what_numpy_computes(name):
    model = build(name)
    inputs = batch(name)
    with torch.no_grad():
        states = model.encoder(**inputs, output_hidden_states=True).hidden_states
    first_size, size, last_size = (state.shape[-1] for state in (states[0], states[1], states[-1]))
    for layers in LAYERS:
        for name in POOLINGS:
            options = {"layers": layers, "pooling": name, "hidden_size": size, "num_layers": 3}
            options |= {"first_hidden_size": first_size, "last_hidden_size": last_size}
            joined = str(layers).startswith(("sum", "mean", "max", "scalar-mix")) and "first" not in str(layers)
            if last_size != size and joined:
                with pytest.raises(RecipeError, match="expected one layer, last or concat-N"):
                    Pooling(**options)
                continue
            pooling = Pooling(**options)
            stir(pooling)
            with torch.no_grad():
                vectors = pooling(states, inputs["attention_mask"])
            assert vectors.shape == (len(TEXTS), pooling.output_size)
            for row, mask in enumerate(inputs["attention_mask"].bool()):
                real = [state[row][mask].numpy() for state in states]
                expected = reduce(join(real, layers, pooling), name, query_of(pooling))
                np.testing.assert_allclose(vectors[row].numpy(), expected, atol=1e-5, err_msg=f"{layers}, {name}")


@pytest.mark.parametrize("name", POOLINGS)
@pytest.mark.parametrize("layers", LAYERS)
def test_padding_does_not_count_on_whichever_side_it_is(layers, name):
    torch.manual_seed(0)
    lengths, longest = [5, 1, 8], 8
    pooling = Pooling(layers, name, hidden_size=6, num_layers=3)
    stir(pooling)
    texts = [torch.randn(4, length, 6) for length in lengths]
    found = []
    for side in ("left", "right"):
        states, mask = torch.full((4, 3, longest, 6), 1e4), torch.zeros(3, longest, dtype=torch.long)
        for row, text in enumerate(texts):
            place = slice(longest - lengths[row], longest) if side == "left" else slice(0, lengths[row])
            states[:, row, place], mask[row, place] = text, 1
        found.append(pooling(tuple(states), mask))
    alone = torch.cat([pooling(tuple(text[:, None])) for text in texts])
    for vectors in found:
        torch.testing.assert_close(vectors, alone, atol=1e-5, rtol=1e-5)


@every_architecture
@pytest.mark.parametrize("pooling", ["cls", "last+max+mean", "attention"])
def test_a_text_does_not_notice_its_neighbours(name, pooling):
    model = build(name, layers="concat-2", pooling=pooling)
    with torch.no_grad():
        together = model(**batch(name)).logits
        alone = torch.cat([model(**batch(name, [text])).logits for text in TEXTS])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-5)


@every_architecture
def test_saved_and_opened_by_the_auto_class_it_gives_the_same_logits(name, tmp_path):
    layers = "concat-all" if name in SEVERAL_SIZES else "scalar-mix"
    model = build(name, layers=layers, pooling="attention", slice_pooling="attention")
    model.save_pretrained(tmp_path)
    opened = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    assert isinstance(opened, PooledForSequenceClassification)
    slices = torch.tensor([2, 1])
    with torch.no_grad():
        assert torch.equal(opened(**batch(name)).logits, model(**batch(name)).logits)
        assert torch.equal(opened(**batch(name), slices=slices).logits, model(**batch(name), slices=slices).logits)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json", "model.safetensors"]
    assert str(tmp_path) not in (tmp_path / "config.json").read_text()


@every_architecture
def test_the_layer_map_shows_the_encoders_layers_and_gradients_reach_all_of_them(name):
    bare = LayerMap.of(tiny_model(name, None))
    model = build(name, layers="concat-all" if name in SEVERAL_SIZES else "scalar-mix", pooling="attention")
    layers = LayerMap.of(model)
    for below, above in zip(bare.groups[:-1], layers.groups[:-1], strict=True):
        assert [f"encoder.{key}" for key in below.parameters] == list(above.parameters)
    assert {"classifier.weight", "pooling.attention.query"} <= set(layers.head.parameters)
    assert not any("pooler" in key for key in layers.head.parameters)
    model(**batch(name), labels=torch.tensor([0, 1, 2])).loss.backward()
    for group in layers.groups:
        moved = [
            key for key, value in group.parameters.items() if value.grad is not None and value.grad.abs().sum() > 0
        ]
        assert moved, group
    assert {"classifier.weight", "pooling.attention.query"} <= {
        key for key, value in layers.head.parameters.items() if value.grad.abs().sum() > 0
    }


@every_architecture
def test_the_spec_shows_what_the_stock_head_reads(name):
    try:
        tiny_model(name, "sequence")
    except NoStockHead:
        made = head_config(tiny_config(name), HeadChoice(), reused=False)
        assert is_pooled(made)
        assert made.pooling == "mean"
        assert spec_of(made).stock_poolings == {}
        return
    inputs = batch(name)
    for pooling in spec_of(tiny_config(name)).stock_poolings:
        config = head_config(tiny_config(name), HeadChoice("last", pooling), reused=False)
        model = transformers.AutoModelForSequenceClassification.from_config(config).eval()
        assert not is_pooled(model.config)
        seen = {}
        model.base_model.register_forward_hook(lambda *call, seen=seen: seen.update(states=call[2][0]))
        logits = model(**inputs).logits
        [gradient] = torch.autograd.grad(logits.sum(), seen["states"])
        for row, mask in enumerate(inputs["attention_mask"].bool()):
            real = mask.nonzero().flatten().tolist()
            read = gradient[row].abs().sum(-1).nonzero().flatten().tolist()
            assert read == {"cls": real[:1], "last": real[-1:], "mean": real, "last+max+mean": real}[pooling]


@pytest.mark.parametrize(
    ("name", "choice", "expected"),
    [
        ("bert", HeadChoice(), None),
        ("bert", HeadChoice("last", "cls"), None),
        ("bert", HeadChoice(-1, "cls"), None),
        ("bert", HeadChoice("concat-1", "cls"), None),
        ("bert", HeadChoice(2), ("2", "cls")),
        ("bert", HeadChoice("last", "mean"), ("last", "mean")),
        ("bert", HeadChoice(slice_pooling="max"), ("last", "cls")),
        ("gpt2", HeadChoice("last", "last"), None),
        ("gpt2", HeadChoice("mean-2"), ("mean-2", "last")),
        ("gpt2", HeadChoice("last", "cls"), ("last", "cls")),
        ("modernbert", HeadChoice("last", "mean"), None),
        ("modernbert", HeadChoice("last", "max"), ("last", "max")),
        ("eurobert", HeadChoice("scalar-mix"), ("scalar-mix", "mean")),
        ("t5", HeadChoice("last", "cls"), ("last", "cls")),
    ],
)
def test_a_stock_head_is_used_wherever_it_fits(name, choice, expected):
    made = head_config(tiny_config(name), choice, reused=False)
    assert (is_pooled(made) and (made.layers, made.pooling)) == (expected or False)


STOCK_DENSE = {
    "albert": "albert.pooler",
    "bert": "bert.pooler.dense",
    "deberta": "pooler.dense",
    "deberta-v2": "pooler.dense",
    "distilbert": "pre_classifier",
    "eurobert": "dense",
    "gte": "gte.pooler.dense",
    "nomic_bert": "nomic_bert.pooler.dense",
    "xlnet": "sequence_summary.summary",
}
"""The layer of each stock sequence head before its last one, where it is not `classifier.dense`."""


@every_architecture
def test_every_layer_is_read_as_the_stock_head_reads_the_last_one(name):
    """The last layer through our pooler and its weights gives what the stock head gives; others have the same head."""
    spec = spec_of(tiny_config(name))
    lower = head_config(tiny_config(name), HeadChoice(2), reused=False)
    assert lower.head_type == ("pooler" if spec.stock_dense else "linear")
    if spec.stock_dense is None:
        return
    [pooling, *_] = spec.stock_poolings
    config = head_config(tiny_config(name), HeadChoice("last", pooling), reused=False)
    config.num_labels = 3
    stock = transformers.AutoModelForSequenceClassification.from_config(config).eval()
    choice = head_config(tiny_config(name), HeadChoice(2, pooling), reused=False)
    ours = PooledForSequenceClassification(
        PooledConfig(
            encoder=config,
            pooling=pooling,
            head_type="pooler",
            pooler_activation=choice.pooler_activation,
            num_labels=3,
        )
    ).eval()
    ours.encoder.load_state_dict(stock.base_model.state_dict(), strict=False)
    dense = stock.get_submodule(STOCK_DENSE.get(name, "classifier.dense"))
    last = [layer for layer in stock.modules() if isinstance(layer, torch.nn.Linear) and layer.out_features == 3][-1]
    with torch.no_grad():
        for layer in (dense, last):  # of a visible size, so that the activation counts
            layer.weight.normal_()
            layer.bias.normal_()
    ours.pooler.load_state_dict(dense.state_dict())
    ours.classifier.load_state_dict(last.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(ours(**batch(name)).logits, stock(**batch(name)).logits, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "attribute"), [("bert", "hidden_dropout_prob"), ("distilbert", "seq_classif_dropout"), ("gpt2", None)]
)
def test_every_layer_has_the_dropout_of_the_stock_head(name, attribute):
    config = tiny_config(name)
    if attribute:
        setattr(config, attribute, 0.37)
    assert head_config(config, HeadChoice(2), reused=False).dropout == (0.37 if attribute else 0)


def test_layers_are_refused_that_the_encoder_has_not():
    with pytest.raises(RecipeError, match="'first-4'; this encoder has 3 blocks: set concat-all"):
        Pooling("first-4", "mean", hidden_size=6, num_layers=3)
    for layers in ("first", "first-0", "mean-first-all", "first-all", "last-"):
        with pytest.raises(RecipeError, match="expected last, scalar-mix"):
            Pooling(layers, "mean", hidden_size=6, num_layers=3)


@pytest.mark.parametrize("how", SLICE_POOLINGS)
def test_slices_become_one_vector_a_document(how):
    torch.manual_seed(0)
    pooling = SlicePooling(how, 6)
    stir(pooling)
    vectors, counts = torch.randn(7, 6), [2, 1, 4]
    found = pooling(vectors, torch.tensor(counts)).detach().numpy()
    for row, part in enumerate(torch.split(vectors, counts)):
        np.testing.assert_allclose(found[row], reduce(part.numpy(), how, query_of(pooling)), atol=1e-6)
    with pytest.raises(ValueError, match="add up to 7 rows"):
        pooling(vectors, torch.tensor([2, 1]))


@pytest.mark.parametrize("how", SLICE_POOLINGS)
def test_one_slice_a_document_is_a_document_without_slices(how):
    model = build("bert", slice_pooling=how)
    with torch.no_grad():
        with_slices = model(**batch("bert"), slices=torch.ones(3, dtype=torch.long)).logits
        torch.testing.assert_close(with_slices, model(**batch("bert")).logits)


def gradients(model, rows=TEXTS * 3, counts=(4, 1, 4)):
    """The loss of documents of several slices, and the gradient of every parameter."""
    model.zero_grad()
    labels = torch.arange(len(counts)) % 3
    loss = model(**batch("bert", rows), slices=torch.tensor(counts), labels=labels).loss
    loss.backward()
    return loss.detach(), {key: value.grad.clone() for key, value in model.named_parameters() if value.grad is not None}


@pytest.mark.parametrize("how", SLICE_POOLINGS)
@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_slices_in_chunks_give_the_same_loss_and_gradients(how, size):
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    model = build(
        "bert", tiny_model("bert", None, **still), slice_pooling=how, dropout=0.0, layers="scalar-mix"
    ).train()
    model.config.slice_chunk_size = 100
    whole, expected = gradients(model)
    model.config.slice_chunk_size = size
    loss, found = gradients(model)
    torch.testing.assert_close(loss, whole, atol=1e-6, rtol=0)
    assert found.keys() == expected.keys()
    for key in found:
        torch.testing.assert_close(found[key], expected[key], atol=1e-6, rtol=0)


@pytest.mark.parametrize("dropout", [nullcontext, FastDropout])
def test_a_chunk_run_again_drops_the_same_numbers(dropout, monkeypatch):
    model = build("bert").train()
    model.config.slice_chunk_size = 2
    torch.manual_seed(1)
    with dropout():
        loss, found = gradients(model)
    monkeypatch.setattr(states, "checkpoint", lambda run, *inputs, **_: run(*inputs))
    torch.manual_seed(1)
    with dropout():
        once, expected = gradients(model)
    assert torch.equal(loss, once)
    for key in found:
        torch.testing.assert_close(found[key], expected[key], atol=1e-6, rtol=0)


def test_what_is_held_for_the_gradients_grows_with_a_chunk_and_not_with_the_document():
    model = build("bert").train()

    def held(rows, size):
        """The most numbers held for gradients at any one time between forward and backward."""
        model.config.slice_chunk_size = size
        total = 0

        def count(tensor):
            nonlocal total
            total += tensor.numel()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
            model(**batch("bert", TEXTS * rows), slices=torch.tensor([3 * rows]), labels=torch.tensor([0]))
        return total

    assert held(8, 4) < held(8, 100) / 20
    assert held(16, 4) < held(8, 100) / 10


@pytest.mark.parametrize(
    ("kind", "labels"),
    [
        ("single_label_classification", torch.tensor([0, 1, 2])),
        ("multi_label_classification", torch.tensor([[1.0, 0, 0], [0, 1, 1], [0, 0, 0]])),
        ("regression", torch.tensor([0.5, -1.0, 2.0])),
    ],
)
def test_the_loss_is_that_of_the_stock_heads(kind, labels):
    model = build("bert", problem_type=kind, num_labels=1 if kind == "regression" else 3)
    stock = tiny_model("bert", num_labels=model.num_labels).eval()
    stock.config.problem_type = kind
    stock.classifier.register_forward_hook(lambda *_: model(**batch("bert")).logits)
    assert torch.equal(model(**batch("bert"), labels=labels).loss, stock(**batch("bert"), labels=labels).loss)


def test_only_the_last_hidden_state_is_asked_for_where_it_is_enough():
    for layers, asked in {"last": False, -1: False, "concat-2": True}.items():
        model, seen = build("bert", layers=str(layers)), {}
        real = model.encoder.forward
        model.encoder.forward = lambda *a, real=real, seen=seen, **k: (seen.update(k), real(*a, **k))[1]
        model(**batch("bert"))
        assert seen["output_hidden_states"] is asked


def test_precision_knows_the_encoder_inside():
    config = PooledConfig(encoder=tiny_config("deberta"))
    assert resolve_precision("auto", config) == "fp32"
    with pytest.raises(ModelError, match="deberta runs in fp32 only"):
        resolve_precision("bf16", config)


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("layers", ["scalar-mix", "concat-2", "mean-all", "max-2"])
def test_half_precision_gives_nearly_the_same(layers, pooling):
    model = build("bert", layers=layers, pooling=pooling)
    with torch.no_grad():
        exact = model(**batch("bert"), slices=torch.tensor([2, 1])).logits
        with torch.autocast("cpu", dtype=torch.bfloat16):
            half = model(**batch("bert"), slices=torch.tensor([2, 1])).logits
    torch.testing.assert_close(half.float(), exact, atol=0.05, rtol=0.05)


@pytest.mark.parametrize(
    ("layers", "said"),
    [("concat", "as concat-4"), ("concat-0", "as concat-4"), ("mean-9", "has 3 blocks: set mean-all"), (4, "0 to 3")],
)
def test_layers_that_are_not_there_are_refused(layers, said):
    with pytest.raises(RecipeError, match=said):
        Pooling(layers, "mean", hidden_size=6, num_layers=3)
    with pytest.raises(RecipeError, match="did you mean 'mean'"):
        Pooling("last", "meen", hidden_size=6, num_layers=3)
