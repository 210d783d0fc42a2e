"""The AWD-LSTM computes what the papers say: against formulas written out here, and its own whole pass."""

import numpy as np
import pytest
import torch
import transformers

from warmstart.models.recurrent.awd_lstm import AwdLstmModel
from warmstart.models.recurrent.config import AwdLstmConfig
from warmstart.models.recurrent.documents import pool_documents
from warmstart.models.recurrent.dropouts import EmbeddingDropout, VariationalDropout, WeightDropLSTM
from warmstart.models.recurrent.heads import AwdLstmForSequenceClassification
from warmstart.models.recurrent.language_model import AwdLstmForCausalLM

NO_DROPOUT = {"dropout_multiplier": 0.0}
both_directions = pytest.mark.parametrize("direction", ["forward", "backward"])


def config(**changes):
    sizes = {"vocab_size": 60, "embedding_size": 8, "hidden_size": 12, "num_hidden_layers": 3, "num_labels": 3}
    return AwdLstmConfig(**{**sizes, **changes})


def build(cls, seed=0, **changes):
    torch.manual_seed(seed)
    return cls(config(**changes))


def tokens(rows=3, length=23, seed=0):
    return torch.randint(1, 60, (rows, length), generator=torch.Generator().manual_seed(seed))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def reference(model, ids):
    """The states of the last layer for one text, from the LSTM's equations (Merity et al. 2018, section 2)."""
    weights = {name: tensor.double().numpy() for name, tensor in model.state_dict().items()}
    inputs = weights["embeddings.weight"][ids]
    for layer in range(model.config.num_hidden_layers):
        w, u, b, c = (weights[f"layers.{layer}.{name}_l0"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
        hidden = cell = np.zeros(u.shape[1])
        outputs = []
        for x in inputs:
            i, f, g, o = np.split(w @ x + b + u @ hidden + c, 4)
            cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
            hidden = sigmoid(o) * np.tanh(cell)
            outputs.append(hidden)
        inputs = np.array(outputs)
    return inputs


@both_directions
def test_states_are_those_of_the_equations(direction):
    model = build(AwdLstmModel, direction=direction).eval()
    ids = tokens()
    with torch.no_grad():
        states = model(ids).last_hidden_state.numpy()
    for row, own in zip(ids.numpy(), states, strict=True):
        expected = reference(model, row) if direction == "forward" else reference(model, row[::-1])[::-1]
        np.testing.assert_allclose(own, expected, atol=1e-6)


@both_directions
def test_carried_state_is_that_of_one_long_pass(direction):
    model = build(AwdLstmModel, direction=direction).eval()
    ids, pieces, state = tokens(2, 31), [], None
    cuts = [ids[:, :10], ids[:, 10:11], ids[:, 11:]]
    with torch.no_grad():
        for piece in cuts if direction == "forward" else reversed(cuts):
            outputs = model(piece, state=state)
            state = outputs.state
            pieces.append(outputs.last_hidden_state)
        whole = model(ids)
    joined = torch.cat(pieces if direction == "forward" else pieces[::-1], dim=1)
    torch.testing.assert_close(joined, whole.last_hidden_state, atol=1e-6, rtol=0)
    for own, expected in zip(state, whole.state, strict=True):
        torch.testing.assert_close(own, expected, atol=1e-6, rtol=0)


@both_directions
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_is_not_read(direction, side):
    model = build(AwdLstmModel, direction=direction).eval()
    ids, mask = tokens(2, 9), torch.ones(2, 9, dtype=torch.long)
    mask[1, :4] = 0
    ids[1, :4] = 0
    if side == "right":
        ids, mask = ids.flip(1), mask.flip(1)
    with torch.no_grad():
        states = model(ids, mask).last_hidden_state
        alone = model(ids[1:, mask[1].bool()]).last_hidden_state
    torch.testing.assert_close(states[1, mask[1].bool()], alone[0], atol=1e-6, rtol=0)


@both_directions
def test_a_document_in_pieces_has_the_vector_of_one_pass(direction):
    model = build(AwdLstmModel, direction=direction).eval()
    ids, lengths = tokens(4, 29), [29, 1, 10, 14]
    mask = torch.tensor([[1] * length + [0] * (29 - length) for length in lengths])
    with torch.no_grad():
        vectors = pool_documents(model, ids, mask, piece=5, max_gradient_tokens=10)
        for row, length in enumerate(lengths):
            states = model(ids[row : row + 1, :length]).last_hidden_state[0]
            last = states[-1] if direction == "forward" else states[0]
            expected = torch.cat([last, states.amax(0), states.mean(0)])
            torch.testing.assert_close(vectors[row], expected, atol=1e-6, rtol=0)
        left = pool_documents(model, ids.roll(7, 1), torch.roll(mask, 7, 1), piece=5, max_gradient_tokens=10)[2]
        torch.testing.assert_close(left, vectors[2], atol=1e-6, rtol=0)


def test_gradients_are_those_of_truncated_back_propagation():
    """Of the last pieces alone: earlier ones give their states and maxima as constants."""
    model = build(AwdLstmModel, **NO_DROPOUT).train()
    ids, piece, kept = tokens(1, 23), 5, 2
    weight = torch.randn(24, generator=torch.Generator().manual_seed(1))
    (pool_documents(model, ids, None, piece, max_gradient_tokens=kept * piece) @ weight).sum().backward()
    own = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    model.zero_grad()
    with torch.no_grad():
        before = model(ids[:, :15])
    after = model(ids[:, 15:], state=before.state).last_hidden_state
    states = torch.cat([before.last_hidden_state, after], dim=1)[0]
    (torch.cat([states[-1], states.amax(0), states.mean(0)]) @ weight).backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(own[name], parameter.grad, atol=1e-6, rtol=1e-5, msg=name)
    model.zero_grad()
    (pool_documents(model, ids, None, piece, max_gradient_tokens=100) @ weight).sum().backward()
    assert not torch.allclose(own["embeddings.weight"], model.embeddings.weight.grad)


def test_variational_dropout_has_one_mask_for_all_tokens_of_a_text():
    torch.manual_seed(0)
    dropped = VariationalDropout(0.3).train()(torch.ones(50, 7, 200))
    assert torch.equal(dropped, dropped[:, :1].expand_as(dropped))
    assert dropped.unique().tolist() == pytest.approx([0, 1 / 0.7])
    assert (dropped == 0).float().mean().item() == pytest.approx(0.3, abs=0.02)
    assert not torch.equal(dropped[0], dropped[1])


def test_embedding_dropout_zeroes_words_wherever_they_occur():
    torch.manual_seed(0)
    embedding = EmbeddingDropout(2000, 6, padding=None, p=0.3).train()
    ids = torch.arange(2000).repeat(2, 1)
    dropped = embedding(ids)
    assert torch.equal(dropped[0], dropped[1])
    gone = (dropped[0] == 0).all(1)
    assert gone.float().mean().item() == pytest.approx(0.3, abs=0.04)
    torch.testing.assert_close(dropped[0][~gone], embedding.weight[~gone] / 0.7)
    assert torch.equal(embedding.eval()(ids)[0], embedding.weight)


def test_weight_dropout_draws_one_mask_for_a_sequence_and_leaves_the_weights():
    torch.manual_seed(0)
    layer = WeightDropLSTM(5, 64, p=0.4).train()
    weights = layer.weight_hh_l0.detach().clone()
    states = torch.randn(2, 6, 5)
    torch.manual_seed(1)
    read, _ = layer(states)
    read[:, -1].sum().backward()
    # A weight that was dropped gets no gradient at any of the steps, so the mask is the same at all of them.
    gradient = layer.weight_hh_l0.grad
    assert (gradient == 0).float().mean().item() == pytest.approx(0.4, abs=0.03)
    torch.manual_seed(1)
    mask = torch.nn.functional.dropout(torch.ones_like(weights), 0.4)
    plain = torch.nn.LSTM(5, 64, batch_first=True)
    plain.load_state_dict({**layer.state_dict(), "weight_hh_l0": weights * mask})
    torch.testing.assert_close(read, plain(states)[0])
    assert torch.equal(layer.weight_hh_l0, weights)
    assert not torch.equal(layer(states)[0], layer(states)[0])
    layer.eval()
    assert torch.equal(layer(states)[0], layer(states)[0])


def test_dropout_is_where_the_paper_has_it():
    model = build(AwdLstmForCausalLM, dropout_multiplier=2.0)
    encoder = model.awd_lstm
    shares = [encoder.embeddings.p, encoder.input_dropout.p, encoder.layers[0].p, encoder.hidden_dropout.p]
    assert [*shares, model.output_dropout.p] == pytest.approx([0.04, 0.5, 0.4, 0.3, 0.2])


def test_regularization_is_the_papers():
    model = build(AwdLstmForCausalLM, **NO_DROPOUT).train()
    ids = tokens()
    outputs = model(ids)
    states = model.awd_lstm(ids).last_hidden_state
    expected = 2 * states.pow(2).mean() + (states[:, 1:] - states[:, :-1]).pow(2).mean()
    torch.testing.assert_close(outputs.regularization, expected)
    assert model.eval()(ids).regularization is None


def test_weights_are_tied_and_stay_so_when_saved(tmp_path):
    model = build(AwdLstmForCausalLM)
    assert model.decoder.weight is model.awd_lstm.embeddings.weight
    model.save_pretrained(tmp_path)
    opened = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    assert opened.decoder.weight is opened.awd_lstm.embeddings.weight
    assert torch.equal(opened(tokens()).logits, model.eval()(tokens()).logits)
    untied = build(AwdLstmForCausalLM, tie_word_embeddings=False)
    assert untied.decoder.weight is not untied.awd_lstm.embeddings.weight


@both_directions
def test_targets_are_scored_as_by_the_logits(direction):
    model = build(AwdLstmForCausalLM, direction=direction, bptt=5).eval()
    ids = tokens(2, 17)
    ahead = torch.full_like(ids, -100)
    if direction == "forward":
        ahead[:, :-1] = ids[:, 1:]
    else:
        ahead[:, 1:] = ids[:, :-1]
    with torch.no_grad():
        scored = model(ids, targets=ahead)
        outputs = model(ids, labels=ids)
    losses = torch.nn.functional.cross_entropy(outputs.logits.flatten(0, 1), ahead.flatten(), reduction="none")
    torch.testing.assert_close(scored.target_losses.flatten(), losses)
    torch.testing.assert_close(outputs.loss, losses.sum() / 32)
    known = ahead != -100
    right = outputs.logits.argmax(2) == ahead
    assert torch.equal((scored.target_ranks == 0) & known, right)


def test_the_classifier_is_two_blocks_over_the_pooled_vector():
    model = build(AwdLstmForSequenceClassification).eval()
    names = [type(module).__name__ for module in [*model.hidden, *model.classifier]]
    assert names == ["BatchNorm", "Dropout", "Linear"] * 2
    assert [model.hidden[0].num_features, model.classifier[0].num_features] == [24, 50]


def test_a_batch_of_one_document_can_be_learned_from():
    model = build(AwdLstmForSequenceClassification).train()
    model(tokens(1, 9), labels=torch.tensor([1])).loss.backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
    assert model.hidden[0].num_batches_tracked == 0
