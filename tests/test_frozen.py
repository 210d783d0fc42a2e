"""A head trained on cached features: the whole model is saved, answers as if run end to end, and resumes bit-equal."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import warmstart
from small import FAST, saved_weights
from test_resume import SAVES, Crash, Trouble, crash, same
from tiny import save_tiny, tiny_model, tiny_tokenizer
from warmstart.errors import RecipeError
from warmstart.models.heads.bilstm import BiLSTM
from warmstart.models.heads.pooled import PooledConfig, PooledForSequenceClassification
from warmstart.models.pooling import Pooling
from warmstart.pipeline import finetune
from warmstart.recipe import make_recipe
from warmstart.training.train import train

LEARN = {"training": {"learning_rate": 1e-2, "epochs": 20, "batch_size": 8, "precision": "fp32"}}
CHOICES = {
    "linear": {"pooling": "mean"},
    "mlp": {"type": "mlp", "layers": "concat-2", "pooling": "last+max+mean"},
    "bilstm": {"type": "bilstm", "pooling": "mean"},
    "attention": {"pooling": "attention"},
    "two-layer bilstm": {"type": "bilstm", "bilstm_layers": 2},
}


def fit(encoder, files, out, choice, **more):
    parts = {"train": files["train"], "test": files["test"], **LEARN, **more}
    return warmstart.fit(model=encoder, out=out, layers={"freeze": "encoder"}, head=CHOICES[choice], **parts)


@pytest.mark.parametrize("choice", CHOICES)
def test_the_head_learns_and_the_encoder_stays(encoder, files, tmp_path, choice, monkeypatch):
    seen = {}

    def spy(job, *rest):
        result = train(job, *rest)
        batch = job.task.collate([job.rows[index] for index in range(8)], job.tokenizer)
        seen.update(model=job.model.eval(), batch=batch)
        return result

    monkeypatch.setattr(finetune, "train", spy)
    run = fit(encoder, files, tmp_path / "run", choice)
    assert run.metrics["test"]["accuracy"] > 0.8
    before, after = load_file(f"{encoder}/model.safetensors"), saved_weights(run.model)
    kept = {name.removeprefix("encoder."): one for name, one in after.items() if name.startswith("encoder.")}
    assert kept
    for name, tensor in kept.items():
        assert torch.equal(tensor, before[name])
    # The saved model, from text to answer, gives what the head gave on the features it learned from.
    with torch.no_grad():
        logits = seen["model"](**{name: one for name, one in seen["batch"].items() if name != "labels"}).logits
    lines = [line.split(",")[0] for line in Path(files["train"]).read_text().splitlines()[1:9]]
    answers = warmstart.load(run.folder).predict(lines)
    found = [list(answer["probabilities"].values()) for answer in answers]
    np.testing.assert_allclose(found, logits.double().softmax(dim=-1).numpy(), atol=1e-5)
    assert not (tmp_path / "run" / ".work").exists()


def test_the_encoder_is_run_once_however_many_epochs(encoder, files, tmp_path, monkeypatch):
    counts = []
    original = PooledForSequenceClassification._states

    def counted(self, ids, mask, types):
        counts.append((len(ids), self.training, torch.is_grad_enabled()))
        return original(self, ids, mask, types)

    monkeypatch.setattr(PooledForSequenceClassification, "_states", counted)
    fit(encoder, files, tmp_path / "run", "linear", data={"split": {"test": 0}})
    train_rows, test_rows = 64, 24
    assert sum(count for count, _, _ in counts) == train_rows + test_rows
    assert not any(training or grad for _, training, grad in counts)


@pytest.mark.parametrize("choice", ["mlp", "bilstm"])
def test_a_crash_does_not_change_the_model(encoder, files, tmp_path, choice):
    more = {"training": {"learning_rate": 1e-2, "epochs": 4, "batch_size": 8, "precision": "fp32"}, **SAVES}
    straight = fit(encoder, files, tmp_path / "straight", choice, **more)
    with pytest.raises(Crash):
        fit(encoder, files, tmp_path / "broken", choice, progress=Trouble(14, crash), **more)
    trouble = Trouble()
    same(straight, fit(encoder, files, tmp_path / "broken", choice, progress=trouble, **more))
    assert "resuming from" in str(trouble.said)


def test_scores_too(encoder, files, tmp_path):
    run = fit(encoder, {"train": files["scores"], "test": files["scores"]}, tmp_path / "run", "mlp", task="score")
    assert run.metrics["test"]["pearson"] > 0.8


def test_slices_are_kept_as_one_vector(encoder, files, tmp_path):
    window = {"method": "slices", "max_tokens": 8}
    run = fit(encoder, files, tmp_path / "run", "mlp", window=window)
    assert run.metrics["test"]["accuracy"] > 0.8
    for choice in ("bilstm", "attention"):
        with pytest.raises(RecipeError, match="stores one vector of a text in slices"):
            fit(encoder, files, tmp_path / "other", choice, window=window)
    with pytest.raises(RecipeError, match="stores one vector of a text in slices"):
        fit(encoder, files, tmp_path / "other", "linear", window={**window, "slice_pooling": "attention"})


@pytest.mark.parametrize("name", ["roberta", "xlnet", "gpt2", "t5", "opt", "longformer", "modernbert", "deberta-v2"])
def test_any_architecture(files, tmp_path, name):
    folder = str(save_tiny(tmp_path / "encoder", name))
    quick = {"training": {"max_steps": 2, "batch_size": 8, "precision": "fp32"}}
    for choice in ("mlp", "bilstm"):
        run = fit(folder, files, tmp_path / choice, choice, **quick)
        assert run.training.steps == 2


def test_a_head_without_a_frozen_encoder(encoder, files, tmp_path):
    run = warmstart.fit(
        model=encoder, train=files["train"], test=files["test"], out=tmp_path / "run", head={"type": "bilstm"}, **FAST
    )
    assert run.metrics["test"]["accuracy"] > 0.8
    fresh = set(run.training.new_parameters)
    assert {"classifier.weight", "bilstm.lstm.weight_ih_l0", "bilstm.lstm.weight_hh_l0_reverse"} <= fresh
    with pytest.raises(RecipeError, match="type: bilstm"):
        warmstart.fit(model=str(run.model), train=files["train"], out=tmp_path / "next", head={"type": "mlp"}, **FAST)


@pytest.mark.parametrize("head", ["linear", "mlp", "bilstm"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_never_counts(head, side):
    torch.manual_seed(0)
    encoder = tiny_model("bert", None)
    config = PooledConfig(encoder=encoder.config, head_type=head, pooling="last+max+mean", num_labels=3)
    model = PooledForSequenceClassification(config, encoder).eval()
    tokenizer = tiny_tokenizer()
    tokenizer.padding_side = side
    texts = ["good", "the film was good and the book was bad"]
    batch = tokenizer(texts, padding=True, return_tensors="pt")
    states = torch.randn(2, batch["input_ids"].shape[1], 32)
    mask = batch["attention_mask"]
    with torch.no_grad():
        together = model(states=states, attention_mask=mask).logits
        for row in range(2):
            alone = states[row][mask[row].bool()][None]
            single = model(states=alone, attention_mask=torch.ones(alone.shape[:2])).logits
            torch.testing.assert_close(together[row : row + 1], single)


def test_a_bilstm_reads_both_ways():
    torch.manual_seed(0)
    lstm = BiLSTM(8)
    states = torch.randn(1, 5, 8)
    changed = states.clone()
    changed[0, 2] += 1
    with torch.no_grad():
        one, two = (lstm(given, torch.ones(1, 5))[0] for given in (states, changed))
    assert not any(torch.equal(a, b) for a, b in zip(one, two, strict=True))
    with pytest.raises(RecipeError, match="even size"):
        BiLSTM(7)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("size", [8, 6])
@pytest.mark.parametrize("side", ["left", "right"])
def test_the_final_state_of_each_direction_is_that_of_an_lstm_of_torch(layers, size, side):
    """Each text is read alone by torch.nn.LSTM, whose `h_n` are the states after the last step of each direction."""
    torch.manual_seed(0)
    model = BiLSTM(8, size, layers).eval()
    reference = torch.nn.LSTM(8, size // 2, num_layers=layers, bidirectional=True)
    reference.load_state_dict(model.lstm.state_dict())
    pooling = Pooling("last", "final", hidden_size=8, num_layers=1, state_size=size)
    texts = [torch.randn(length, 8) for length in (5, 1, 7)]
    states, mask = torch.full((3, 7, 8), 1e3), torch.zeros(3, 7, dtype=torch.long)
    for row, text in enumerate(texts):
        place = slice(7 - len(text), 7) if side == "left" else slice(0, len(text))
        states[row, place], mask[row, place] = text, 1
    with torch.no_grad():
        vectors = pooling.pool(model(states, mask), mask)
        for vector, text in zip(vectors, texts, strict=True):
            _, (final, _) = reference(text[:, None])
            assert final.shape == (2 * layers, 1, size // 2)
            torch.testing.assert_close(vector, torch.cat([final[-2, 0], final[-1, 0]]))
    # What the stock token holds: at the first one, the forward direction has read nothing else.
    changed = states.clone()
    changed[2, 3] += 1
    with torch.no_grad():
        first, again = (Pooling("last", "cls", 8, 1).pool(model(each, mask), mask)[2] for each in (states, changed))
        moved = pooling.pool(model(changed, mask), mask)[2] != vectors[2]
    assert moved.all()
    if layers == 1:
        assert torch.equal(first[: size // 2], again[: size // 2])


def test_a_bilstm_reads_the_final_states_unless_said_and_has_as_many_layers_as_said(encoder, files, tmp_path):
    quick = {"training": {"max_steps": 2, "batch_size": 8, "precision": "fp32"}}
    head = {"type": "bilstm", "bilstm_layers": 2, "bilstm_size": 48}
    run = warmstart.fit(model=encoder, train=files["train"], out=tmp_path / "run", head=head, **quick)
    opened = warmstart.load(run.folder).engine.model
    assert opened.config.pooling == "final"
    lstm = opened.bilstm.lstm
    assert (lstm.num_layers, lstm.hidden_size, lstm.input_size, lstm.dropout) == (2, 24, 32, opened.config.dropout)
    assert opened.classifier.in_features == 48
    # as `h_n` of torch gives them, from the text on
    inputs = tiny_tokenizer()(["the film was good", "bad"], padding=True, return_tensors="pt")
    with torch.no_grad():
        logits = opened(**inputs).logits
        for row, mask in enumerate(inputs["attention_mask"].bool()):
            alone = {name: one[row : row + 1, mask] for name, one in inputs.items()}
            _, (final, _) = lstm(opened.encoder(**alone).last_hidden_state)
            expected = opened.classifier(torch.cat([final[-2], final[-1]], dim=-1))
            torch.testing.assert_close(logits[row : row + 1], expected, atol=1e-5, rtol=1e-5)
    kept = warmstart.fit(model=str(run.model), train=files["train"], out=tmp_path / "kept", head=head, **quick)
    assert kept.training.new_parameters == []
    other = {"type": "bilstm", "bilstm_layers": 1}
    with pytest.raises(RecipeError, match="type: bilstm, bilstm_layers: 2, bilstm_size: 48"):
        warmstart.fit(model=str(run.model), train=files["train"], out=tmp_path / "no", head=other, **quick)
    with pytest.raises(RecipeError, match=r"head\.pooling: found final.*but head\.type is mlp; set head\.type: bilstm"):
        warmstart.fit(
            model=encoder, train=files["train"], out=tmp_path / "no", head={"type": "mlp", "pooling": "final"}, **quick
        )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"head": {"type": "mlp", "bilstm_layers": 2}}, "bilstm_layers: found 2, but type is mlp; set type: bilstm"),
        ({"head": {"bilstm_size": 768}}, "bilstm_size: found 768, but type is auto; set type: bilstm"),
        ({"head": {"type": "bilstm", "bilstm_size": 7}}, r"head\.bilstm_size: found 7"),
        ({"layers": {"freeze": "encoder", "unfreeze": "gradual"}}, "leave unfreeze out"),
        ({"layers": {"freeze": "encoder", "lora": {}}}, "leave lora out"),
        ({"layers": {"freeze": "encoder", "reinit_top": 1}}, "leave reinit_top out"),
        ({"layers.freeze": "encoder", "head.layers": "scalar-mix"}, "scalar-mix would train their mix"),
        ({"layers": {"freeze": "all"}}, r"layers\.freeze: found 'all'; expected an integer of 0 or more, or encoder"),
        ({"layers": {"freeze": -1}}, "expected an integer of 0 or more, or encoder"),
        ({"layers": {"freeze": True}}, "expected an integer of 0 or more, or encoder"),
    ],
)
def test_what_does_not_go_together_is_refused(settings, message):
    with pytest.raises(RecipeError, match=message):
        make_recipe({"model": "m", "data.train": "t.csv", **settings})
