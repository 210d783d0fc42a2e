"""The supervised contrastive loss is the paper's, its batches hold pairs, and it trains the encoder alone."""

from collections import Counter

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st

import warmstart
from small import FAST, saved_weights
from test_resume import SAVES, Crash, Trouble, crash
from tiny import save_tiny, tiny_tokenizer
from warmstart.errors import DataError, RecipeError
from warmstart.pipeline.linear_probe import ProbeStart
from warmstart.recipe import make_recipe
from warmstart.training.label_batches import LabelPairBatchSampler
from warmstart.training.supervised_contrastive import contrastive_loss, count_anchors

CONTRASTIVE = {
    "training": {**FAST["training"], "epochs": 3, "loss": "supervised-contrastive"},
    "head": {"type": "linear"},
}
PROBE = {"init": "linear-probe"}
LABELS = st.lists(st.integers(0, 6), min_size=1, max_size=120)


def khosla(vectors, labels, temperature):
    """Khosla et al. 2020, eq. 2, letter by letter; the mean over the anchors that have a positive."""
    z = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    losses = []
    for i in range(len(z)):
        others = [a for a in range(len(z)) if a != i]
        positives = [p for p in others if labels[p] == labels[i]]
        total = sum(np.exp(z[i] @ z[a] / temperature) for a in others)
        if positives:
            terms = [np.log(np.exp(z[i] @ z[p] / temperature) / total) for p in positives]
            losses.append(-sum(terms) / len(positives))
    return np.mean(losses)


@pytest.mark.parametrize("temperature", [0.1, 0.5, 1.0])
def test_the_loss_is_the_papers(temperature):
    random = np.random.default_rng(3)
    vectors, labels = random.normal(size=(11, 7)), np.array([0, 1, 2, 0, 1, 0, 3, 2, 2, 2, 4])
    loss = contrastive_loss(torch.tensor(vectors), torch.tensor(labels), temperature)
    assert loss.item() == pytest.approx(khosla(vectors, labels, temperature), rel=1e-5)
    assert count_anchors(torch.tensor(labels)) == 9


@pytest.mark.parametrize("labels", [[0], [0, 1, 2]])
def test_a_batch_without_two_rows_of_a_label_gives_a_loss_and_a_gradient_of_zero(labels):
    vectors = torch.randn(len(labels), 5, requires_grad=True)
    loss = contrastive_loss(vectors, torch.tensor(labels), 0.1)
    loss.backward()
    assert loss.item() == 0
    assert torch.equal(vectors.grad, torch.zeros_like(vectors))
    assert count_anchors(torch.tensor(labels)) == 0


def test_rows_alone_with_their_label_are_only_pushed_away_from():
    vectors, labels = torch.randn(4, 5), torch.tensor([0, 0, 1, 2])
    lone = vectors.clone()
    lone[3] = -vectors[0]
    assert contrastive_loss(vectors, labels, 0.1) != contrastive_loss(lone, labels, 0.1)


@given(labels=LABELS, batch_size=st.integers(3, 40), seed=st.integers(0, 3), epoch=st.integers(0, 3))
def test_every_row_comes_once_an_epoch_and_with_one_of_its_label(labels, batch_size, seed, epoch):
    sampler = LabelPairBatchSampler(labels, batch_size, seed=seed)
    sampler.set_epoch(epoch)
    batches = list(sampler)
    assert len(batches) == len(sampler)
    assert sorted(row for batch in batches for row in batch) == list(range(len(labels)))
    assert max(map(len, batches)) <= batch_size
    assert max(map(len, batches)) - min(map(len, batches)) <= 3
    counts = Counter(labels)
    for batch in batches:
        here = Counter(labels[row] for row in batch)
        assert all(here[label] > 1 for label in here if counts[label] > 1)


@given(labels=LABELS, seed=st.integers(0, 9), epoch=st.integers(0, 3))
def test_batches_follow_from_seed_and_epoch_alone(labels, seed, epoch):
    told, untold = (LabelPairBatchSampler(labels, 8, seed=seed) for _ in range(2))
    for _ in range(epoch):
        list(untold)  # passed, not told
    told.set_epoch(epoch)
    assert list(told) == list(untold)


def test_batches_differ_between_epochs_and_seeds_and_pairs_do_too():
    labels = [row % 5 for row in range(100)]
    sampler = LabelPairBatchSampler(labels, 10)
    first, second = (sorted(map(sorted, sampler)) for _ in range(2))
    assert first != second
    assert first != sorted(map(sorted, LabelPairBatchSampler(labels, 10, seed=5)))


def test_a_batch_has_as_many_labels_as_it_has_room_for():
    many = [row % 20 for row in range(160)]  # 20 labels, each with 4 pairs, and room for 4 pairs in a batch
    assert all(len({many[row] for row in batch}) == 4 for batch in LabelPairBatchSampler(many, 8))
    uneven = [0] * 100 + [1] * 20 + [2] * 10
    batches = list(LabelPairBatchSampler(uneven, 32))
    assert len(batches) == 5
    assert all({uneven[row] for row in batch} == {0, 1, 2} for batch in batches)


@given(labels=LABELS, processes=st.integers(2, 4), seed=st.integers(0, 3))
def test_each_process_has_pairs_of_its_own(labels, processes, seed):
    counts = Counter(labels)
    groups = sum(max(count // 2, 1) for count in counts.values())

    def make(index):
        return LabelPairBatchSampler(labels, 8, seed=seed, num_processes=processes, process_index=index)

    if groups < processes:
        with pytest.raises(DataError, match="cannot be shared"):
            make(0)
        return
    parts = [list(make(index)) for index in range(processes)]
    assert {len(part) for part in parts} == {len(make(0))}
    batches = [batch for part in parts for batch in part]
    assert all(batches)
    assert sorted(row for batch in batches for row in batch) == list(range(len(labels)))
    for batch in batches:
        here = Counter(labels[row] for row in batch)
        assert all(here[label] > 1 for label in here if counts[label] > 1)


@pytest.fixture(scope="module")
def fit(encoder, files):
    def call(out, **more):
        settings = {**CONTRASTIVE, **SAVES, **more}
        return warmstart.fit(**{"model": encoder, "train": files["train"], "test": files["test"], **settings}, out=out)

    return call


@pytest.fixture(scope="module")
def whole(fit, tmp_path_factory):
    return fit(tmp_path_factory.mktemp("contrastive") / "run")


def checkpoint(run, step):
    return (run.folder / "checkpoints" / f"step-{step:09d}" / "tensors.safetensors").read_bytes()


def test_the_encoder_is_trained_and_the_classifier_is_not(whole, fit, tmp_path):
    """A learning rate of next to nothing leaves the weights as they were."""
    start = saved_weights(
        fit(tmp_path / "start", training={**CONTRASTIVE["training"], "learning_rate": 1e-30, "max_steps": 1}).model
    )
    end = saved_weights(whole.model)
    classifier = {name for name in end if "classifier" in name}
    assert len(classifier) == 2
    assert all(torch.equal(start[name], end[name]) for name in classifier)
    moved = [name for name in end if ".layer." in name and not torch.equal(start[name], end[name])]
    assert len(moved) > 30


def test_a_classifier_that_starts_from_a_probe_keeps_the_solution(fit, tmp_path):
    """With or without steps that move the encoder; the head is linear without being asked for."""
    training = CONTRASTIVE["training"]
    short, long = (
        saved_weights(fit(tmp_path / f"{rate}", training={**training, "learning_rate": rate}, head=PROBE).model)
        for rate in (1e-30, 3e-3)
    )
    assert all(torch.equal(short[name], long[name]) for name in short if "classifier" in name)
    assert not all(torch.equal(short[name], long[name]) for name in short)


def test_texts_of_a_label_come_closer(fit, tmp_path):
    """From the loss of vectors that are all alike, nearly to the least: two labels, each on a side of its own."""
    training = {**CONTRASTIVE["training"], "temperature": 1.0, "epochs": 12}
    run = fit(tmp_path / "run", training=training, trainer={"logging_steps": 8})
    losses = [entry["loss"] for entry in run.training.history if "loss" in entry]
    assert losses[0] == pytest.approx(np.log(15), abs=0.05)
    least = np.log(7 * np.e + 8 / np.e) - 1
    assert least - 1e-3 < losses[-1] < least + 0.2


def test_a_refitted_classifier_tells_the_tuned_vectors_apart(fit, files, tmp_path, monkeypatch):
    def turned_round(start, folder):
        with torch.no_grad():
            for parameter in start.writer.model.classifier.parameters():
                parameter.neg_()

    monkeypatch.setattr(ProbeStart, "begin", turned_round)  # the probe alone is right on all rows
    training = {**CONTRASTIVE["training"], "temperature": 1.0, "epochs": 12}
    first_token = {**PROBE, "pooling": "cls"}  # whose vectors say little before they are tuned
    stale, refitted = (
        fit(tmp_path / f"{refit}", training=training, head={**first_token, "refit": refit}, test=files["train"])
        for refit in (False, True)
    )
    assert refitted.metrics["test"]["accuracy"] == 1 > stale.metrics["test"]["accuracy"]


@pytest.mark.parametrize("steps", [(8,), (4, 9)])
def test_a_crash_goes_on_to_the_bit(whole, fit, tmp_path, steps):
    for step in steps:
        with pytest.raises(Crash):
            fit(tmp_path / "run", progress=Trouble(step, crash))
    again = Trouble()
    run = fit(tmp_path / "run", progress=again)
    assert again.said[0].startswith("resuming from")
    one, two = saved_weights(run.model), saved_weights(whole.model)
    assert all(torch.equal(one[name], two[name]) for name in two)
    assert checkpoint(run, 12) == checkpoint(whole, 12)
    assert run.training.history == whole.training.history


def test_an_accumulated_batch_without_a_pair_does_not_dilute_the_loss(fit, tmp_path):
    """Two batches: three rows of a label and another row, and two rows that have no company."""
    texts, labels = [f"the film {row}" for row in range(6)], ["a", "a", "a", "b", "c", "d"]
    (tmp_path / "train.csv").write_text("text,label\n" + "".join(map("{},{}\n".format, texts, labels)))
    model = str(save_tiny(tmp_path / "encoder", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0))
    training = {**CONTRASTIVE["training"], "batch_size": 4, "max_steps": 1, "learning_rate": 1e-30}
    trainer = {"gradient_accumulation_steps": 2, "logging_steps": 1}
    data = {"train": str(tmp_path / "train.csv"), "test": None, "data.split.test": 0}
    run = fit(tmp_path / "run", model=model, training=training, trainer=trainer, **data)
    rows = max(LabelPairBatchSampler([0, 0, 0, 1, 2, 3], 4), key=len)
    inputs = tiny_tokenizer()([texts[row] for row in rows], padding=True, return_tensors="pt")
    vectors = transformers.AutoModelForSequenceClassification.from_pretrained(run.model).features(**inputs)
    expected = contrastive_loss(vectors, torch.tensor([max(row - 2, 0) for row in rows]))
    assert run.training.history[0]["loss"] == pytest.approx(expected.item(), rel=1e-4)


REFUSED = {
    "a stock head": ({"head": {"type": "auto"}}, r"training\.loss: .*set head\.type: linear"),
    "an mlp": ({"head": {"type": "mlp"}}, r"set head\.type: linear"),
    "learned pooling": ({"head": {"type": "linear", "pooling": "attention"}}, r"leave head\.pooling: attention"),
    "unfreezing": ({"layers": {"unfreeze": "gradual"}}, r"layers\.unfreeze: gradual starts with the head.*set all"),
    "all layers": ({"layers": {"freeze": 4}}, r"layers\.freeze leaves no layer below the head"),
    "the encoder": ({"layers": {"freeze": "encoder"}}, r"layers\.freeze leaves no layer below the head"),
    "weights": ({"task": {"name": "classify", "class_weight": "balanced"}}, r"leave task\.class_weight out"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_loss_cannot_train_is_refused_before_training(fit, tmp_path, case):
    more, message = REFUSED[case]
    with pytest.raises(RecipeError, match=message):
        fit(tmp_path / "run", **more)
    assert not (tmp_path / "run" / "model").exists()


@pytest.mark.parametrize(
    ("task", "train"), [({"name": "classify", "multi_label": True}, "many"), ({"name": "score"}, "scores")]
)
def test_a_task_without_one_label_a_row_is_refused(fit, files, tmp_path, task, train):
    with pytest.raises(RecipeError, match=rf"training\.loss: .* {task['name']} does not give each row one label"):
        fit(tmp_path / "run", task=task, train=files[train], test=None, **{"data.label_separator": "|"})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"temperature": 0.5}, r"temperature: found 0\.5, but loss is auto; set loss: supervised-contrastive"),
        ({"loss": "supervised-contrastive", "temperature": 0}, "greater than 0"),
        ({"loss": "supervised-contrastive", "r_drop": 1.0}, r"r_drop: found 1\.0.*leave one of them out"),
        ({"loss": "supervised-contrastive", "label_smoothing": 0.1}, r"label_smoothing: found 0\.1"),
        ({"loss": "supervised-contrastive", "batch_tokens": 99}, "batch_tokens: found 99.*by label"),
        ({"loss": "supervised-contrastive", "batching": "random"}, "batching: found random.*by label"),
        ({"loss": "supervised-contrastive", "early_stopping_patience": 2}, "early_stopping_patience: found 2"),
        ({"loss": "supervised-contrastive", "batch_size": 3}, "batch_size: found 3.*expected 4 or more"),
        ({"supcon": True}, r"training\.loss: supervised-contrastive"),
    ],
)
def test_fields_that_do_not_go_together_are_refused(values, message):
    with pytest.raises(RecipeError, match=message):
        make_recipe({"model": "m", "data.train": "t.csv", "training": values})


def test_several_tasks_at_once_refuse_it():
    stage = {"multitask": {"with": ["other.yaml"], "training": {"loss": "supervised-contrastive"}}}
    with pytest.raises(RecipeError, match=r"training\.loss: found supervised-contrastive; multi-task training"):
        make_recipe({"model": "m", "data.train": "t.csv", "stages": [stage]})
