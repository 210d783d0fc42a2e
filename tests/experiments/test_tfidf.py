"""Counted words as a baseline: answers like a run's, every kind of label, and a sample of large data."""

import csv
import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from small import reviews
from warmstart.baselines import tfidf
from warmstart.evaluation.comparison import compare, summarize
from warmstart.evaluation.run_result import RunResult
from warmstart.experiments.evidence import verdict
from warmstart.pipeline.prepare import read_rows
from warmstart.recipe import make_recipe
from warmstart.runtime.progress import silent


@pytest.fixture
def counted(files, tmp_path):
    def start(task="classify", **more):
        recipe = make_recipe({"model": "m", "task": task, "data.train": files["train"], **more})
        parts = read_rows(recipe, tmp_path / "cache", silent)
        tfidf.fit_tfidf(recipe, parts, tmp_path / "tfidf")
        return tfidf.read_tfidf(tmp_path / "tfidf", 0, recipe.task)

    return start


def test_it_answers_as_scikit_learn_does_and_looks_like_a_run(counted, files, run):
    row = counted(**{"data.test": files["test"]})
    vectors = TfidfVectorizer(sublinear_tf=True, token_pattern=r"\w+|[^\w\s]", ngram_range=(1, 2))
    texts, labels = zip(*reviews(64), strict=True)
    model = LogisticRegression(C=10.0, max_iter=1000).fit(vectors.fit_transform(texts), labels)
    asked, truth = zip(*reviews(24, start=1000), strict=True)
    wanted = model.predict(vectors.transform(asked))
    kept = pq.read_table(row.folder / "predictions.parquet")
    assert kept["label"].to_pylist() == list(wanted)
    chances = [json.loads(one)["pos"] for one in kept["probabilities"].to_pylist()]
    assert chances == pytest.approx(model.predict_proba(vectors.transform(asked))[:, 1], abs=1e-9)
    assert row.value == np.mean(wanted == np.array(truth))
    assert kept.schema.names == pq.read_schema(run.folder / "predictions.parquet").names
    assert row.headline == "accuracy"


def test_it_takes_many_labels_and_pairs(counted, files):
    row = counted(
        {"name": "classify", "multi_label": True}, **{"data.train": files["many"], "data.label_separator": "|"}
    )
    assert (row.headline, row.part) == ("micro_f1", "test")
    assert row.value > 0.5
    columns = {"text": "text", "pair": "other", "label": "label"}
    assert counted(**{"data.train": files["pairs"], "data.columns": columns}).value == 1


def test_large_data_is_sampled_and_every_label_is_heard_of(counted, tmp_path, monkeypatch):
    monkeypatch.setattr(tfidf, "MAX_ROWS", 10)
    with (tmp_path / "t.csv").open("w", newline="", encoding="utf-8") as file:
        rows = [*reviews(200), ("the actor lives in tokyo", "rare"), ("the actor lives in paris", "rare")]
        csv.writer(file).writerows([("text", "label"), *rows])
    row = counted(**{"data.train": str(tmp_path / "t.csv"), "data.split.test": 0.2})
    about = json.loads((row.folder / "tfidf.json").read_text())
    assert 10 <= about["rows"] <= 13 < about["sampled_from"]


def test_scripts_without_spaces_are_counted_by_characters(counted, tmp_path):
    text = "".join(f"映画{n}は{'とても良い' if n % 2 else 'ひどく悪い'},{n % 2}\n" for n in range(40))
    (tmp_path / "ja.csv").write_text(f"text,label\n{text}", encoding="utf-8")
    row = counted(**{"data.train": str(tmp_path / "ja.csv"), "data.split.test": 0.25})
    assert json.loads((row.folder / "tfidf.json").read_text())["counted"]["analyzer"] == "char"
    assert row.value == 1


def test_an_encoder_that_does_not_beat_it_is_said_to_first(counted, files):
    row = counted(**{"data.test": files["test"]})
    asked = [
        RunResult("recipe", seed, row.folder, "test", {}, "accuracy", value, 1, 1.0, "")
        for seed, value in enumerate((0.5, 0.6))
    ]
    both = [tfidf.read_tfidf(row.folder, seed, row.task) for seed in (0, 1)]
    said = verdict({"recipe": summarize(asked), "tfidf": summarize(both)}, [compare(both, asked)])
    assert said.startswith("The encoder is below TF-IDF with logistic regression: accuracy 0.5500 against")
