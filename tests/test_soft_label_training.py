"""Learning from soft labels: the loss, the metrics, and that what `predict` writes can be learned from."""

import json

import pytest
import torch
from torch.nn import functional as F

import warmstart
from processes import finish
from small import FAST, reviews
from warmstart.errors import DataError, RecipeError
from warmstart.tasks.shared import metrics
from warmstart.tasks.shared.soft_labels import soft_cross_entropy

SCORES = torch.tensor([[2.0, -1.0, 0.5], [0.0, 1.0, 3.0]])


def test_certain_rows_have_the_ordinary_loss_at_any_temperature():
    certain = F.one_hot(torch.tensor([1, 2]), 3).double()
    for temperature in (1.0, 4.0):
        assert soft_cross_entropy(SCORES, certain, temperature) == F.cross_entropy(SCORES, torch.tensor([1, 2]))


def test_the_loss_is_least_at_the_labels_themselves_whatever_the_temperature():
    soft = torch.tensor([[0.7, 0.2, 0.1]])
    for temperature in (0.5, 1.0, 3.0):
        scores = soft.log().requires_grad_()
        soft_cross_entropy(scores, soft, temperature).backward()
        assert scores.grad.abs().max() < 1e-6
        off = SCORES[:1].clone().requires_grad_()
        soft_cross_entropy(off, soft, temperature).backward()
        assert off.grad.abs().max() > 0.01


def test_a_temperature_is_the_papers():
    soft, temperature = torch.tensor([[0.7, 0.2, 0.1], [0.3, 0.3, 0.4]]), 3.0
    softer = (soft.log() / temperature).softmax(dim=1)
    wanted = temperature**2 * F.cross_entropy(SCORES / temperature, softer)
    assert soft_cross_entropy(SCORES, soft, temperature) == pytest.approx(wanted.item())


def test_distances_of_distributions():
    same = metrics.distributions([[0.7, 0.3]], [[0.7, 0.3]])
    assert same == {"brier": 0.0, "kl": pytest.approx(0.0)}
    other = metrics.distributions([[1.0, 0.0]], [[0.5, 0.5]])
    assert other == {"brier": pytest.approx(0.5), "kl": pytest.approx(0.6931, abs=1e-4)}
    assert metrics.distributions([[1.0, 1.0]], [[1.0, 0.5]], single=False) == {"brier": pytest.approx(0.125)}


def write(path, rows):
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return str(path)


def voted(count, start=0):
    """Rows that four of five annotators agree on."""
    other = {"pos": "neg", "neg": "pos"}
    return [{"text": text, "votes": [label] * 4 + [other[label]]} for text, label in reviews(count, start)]


@pytest.fixture(scope="module")
def soft_run(encoder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("soft")
    data = {"train": write(folder / "train.jsonl", voted(64)), "test": write(folder / "test.jsonl", voted(24, 1000))}
    columns = {"data": {**data, "columns": {"votes": "votes"}}}
    return warmstart.fit(model=encoder, out=folder / "run", **columns, **FAST)


def test_a_model_learns_the_probabilities_not_only_the_label(soft_run):
    values = soft_run.metrics["test"]
    assert values["accuracy"] > 0.95
    assert values["kl"] < 0.1
    probabilities = [answer["probability"] for answer in soft_run.predict([text for text, _ in reviews(24, 1000)])]
    assert 0.7 < sum(probabilities) / len(probabilities) < 0.9  # four of five, not all


def test_what_predict_writes_is_learned_from_as_it_is(soft_run, encoder, tmp_path, commands):
    texts = write(tmp_path / "texts.jsonl", [{"text": text} for text, _ in reviews(40, 2000)])
    for out in ("soft.csv", "soft.jsonl", "soft.parquet"):
        assert (
            finish(
                [commands / "warmstart", "predict", soft_run.folder, "--file", texts, "--out", tmp_path / out]
            ).returncode
            == 0
        )
        data = {"data.train": str(tmp_path / out), "data.columns.probabilities": "probabilities"}
        short = {"training": {"epochs": 1, "precision": "fp32"}}
        run = warmstart.fit(model=encoder, out=tmp_path / f"run-{out}", **data, **short)
        assert "kl" in run.metrics["test"]


def test_several_labels_can_be_soft_too(encoder, tmp_path):
    rows = [{"text": text, "soft": {label: 0.9, "film": 0.6}} for text, label in reviews(48)]
    rows = [{**row, "soft": {"pos": 0.1, "neg": 0.1, **row["soft"]}} for row in rows]
    data = {"train": write(tmp_path / "train.jsonl", rows), "columns": {"probabilities": "soft"}}
    run = warmstart.fit(
        model=encoder, task={"name": "classify", "multi_label": True}, data=data, out=tmp_path / "run", **FAST
    )
    assert run.metrics["test"]["brier"] < 0.1


def test_an_unknown_label_is_refused_at_its_line(soft_run, encoder, tmp_path):
    train = write(tmp_path / "train.jsonl", voted(16))
    test = write(tmp_path / "test.jsonl", [*voted(4, 100), {"text": "odd", "votes": ["pos", "pos", "mixed"]}])
    data = {"train": train, "test": test, "columns": {"votes": "votes"}}
    with pytest.raises(DataError, match=r"test\.jsonl:5: label 'mixed' was not seen in training"):
        warmstart.fit(model=encoder, data=data, out=tmp_path / "run", **FAST)


def test_what_needs_hard_labels_says_so(encoder, tmp_path):
    data = {"train": write(tmp_path / "train.jsonl", voted(16)), "columns": {"votes": "votes"}}
    options = {"head": {"type": "linear"}, "training": {"loss": "supervised-contrastive"}}
    with pytest.raises(RecipeError, match="does not give each row one label here"):
        warmstart.fit(model=encoder, data=data, out=tmp_path / "run", **options)
    task = {"name": "classify", "multi_label": True, "temperature": 2}
    with pytest.raises(RecipeError, match=r"temperature: found 2.* with multi_label: true"):
        warmstart.fit(model=encoder, task=task, data=data, out=tmp_path / "run")
