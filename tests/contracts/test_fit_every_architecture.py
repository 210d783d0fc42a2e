"""`fit` trains every architecture, under a stock head where it has one, and what it writes opens in transformers."""

import pytest
import torch
import transformers

import warmstart
from tiny import ARCHITECTURES, save_tiny
from warmstart.models.loading import load_config, load_model, load_tokenizer, max_tokens_of


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_fit_and_open_elsewhere(name, files, tmp_path):
    encoder = str(save_tiny(tmp_path / "encoder", name))
    run = warmstart.fit(
        model=encoder,
        train=files["pairs"],
        pair="other",
        out=tmp_path / "run",
        training={"max_steps": 2, "batch_size": 8},
    )
    pairs = [("the good film", "it was pos"), ("a very long and boring story", "it was neg and not pos")]
    answers = run.predict(pairs)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(run.model).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(run.model)
    for pair, answer in zip(pairs, answers, strict=True):  # the shorter one was padded, and must not notice
        with torch.no_grad():
            chances = model(**tokenizer(*pair, return_tensors="pt")).logits[0].softmax(-1)
        expected = float(chances[model.config.label2id["pos"]])
        assert answer["probabilities"]["pos"] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_widest_window_is_one_the_encoder_takes(name, tmp_path):
    encoder = str(save_tiny(tmp_path, name))
    tokenizer, config = load_tokenizer(encoder), load_config(encoder)
    tokens = max_tokens_of(config, tokenizer)
    assert tokens <= 512
    kept = {"num_labels": 2}
    model = load_model(encoder, "AutoModelForSequenceClassification", kept, tokenizer).model.eval()
    ids = torch.full((1, tokens), 9)
    with torch.no_grad():
        assert model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits.isfinite().all()
