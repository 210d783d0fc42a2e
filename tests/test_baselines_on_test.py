"""Baselines are measured on test rows, too: what a user compares with the model's score was measured on its rows."""

import csv

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.svm import LinearSVC

import warmstart
from warmstart.models.tfidf import predict_others
from warmstart.pipeline import baselines_on_test

WORDS = {"good": ("fine", "great", "lovely"), "bad": ("poor", "weak", "dull"), "odd": ("strange", "weird", "queer")}


@pytest.fixture
def rows(tmp_path):
    """Files of training and test rows: each label has words of its own."""
    paths = {}
    for part, count in (("train", 20), ("test", 8)):
        paths[part] = tmp_path / f"{part}.csv"
        with paths[part].open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["text", "label"])
            for number in range(count):
                for label, words in WORDS.items():
                    writer.writerow([f"a {words[number % 3]} film number {number} {part}", label])
    return paths


def fit(encoder, rows, out, **fields):
    head = {"init": "linear-probe", "pooling": "mean"}
    return warmstart.fit(model=encoder, **rows, out=out, head=head, training={"max_steps": 2}, **fields)


def test_a_probe_scores_on_test_rows_what_a_run_of_it_alone_scores(encoder, rows, tmp_path):
    run = fit(encoder, rows, tmp_path / "run")
    quick = warmstart.fit(
        model=encoder,
        **rows,
        out=tmp_path / "quick",
        head={"init": "linear-probe", "pooling": "mean"},
        layers={"freeze": "encoder"},
    )
    probe = run.training.linear_probe
    assert probe.on_test.value == quick.metrics["test"]["accuracy"]
    assert probe.on_test.low <= probe.on_test.value <= probe.on_test.high
    assert (probe.on_test.rows, probe.on_test.of_rows) == (24, 24)
    assert f"{probe.on_test.value:.3f} on 24 test rows; " in probe.score
    assert "test rows" not in probe.sentence, "which is said before training"
    assert quick.training.linear_probe.on_test is None, "it is the model itself"
    assert probe.tfidf.on_test.value == 1.0
    assert "24 test rows" in run.report(tmp_path / "report.html").read_text()


def test_of_many_test_rows_some_are_answered(encoder, rows, tmp_path, monkeypatch):
    monkeypatch.setattr(baselines_on_test, "MOST", 10)
    probe = fit(encoder, rows, tmp_path / "run").training.linear_probe
    assert (probe.on_test.rows, probe.on_test.of_rows) == (10, 24)
    assert "on 10 of 24 test rows" in probe.score
    assert "on 10 of 24 test rows" in probe.tfidf.score


def test_without_test_rows_there_is_cross_validation_alone(encoder, rows, tmp_path):
    probe = fit(encoder, {"train": rows["train"]}, tmp_path / "run", data={"split": {"test": 0}}).training.linear_probe
    assert probe.on_test is None
    assert probe.tfidf.on_test is None
    assert "test rows" not in probe.score


def test_tfidf_predicts_other_texts_as_scikit_learn_does():
    texts = [f"a {word} film {number}" for number in range(5) for words in WORDS.values() for word in words]
    targets = [label for _ in range(5) for label, words in enumerate(WORDS.values()) for _ in words]
    others = ["a fine film", "a dull film", "a weird film"]
    outputs = predict_others(texts, np.array(targets), "logistic", 3, others)
    counts = TfidfVectorizer(sublinear_tf=True, token_pattern=r"\w+|[^\w\s]", ngram_range=(1, 2))
    model = LinearSVC(random_state=0).fit(counts.fit_transform(texts), targets)
    assert outputs == pytest.approx(model.decision_function(counts.transform(others)), abs=1e-4)
