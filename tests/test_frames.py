"""Rows in memory: frames, data sets, dicts and pairs of lists train the same model as the file with the same rows."""

import datasets
import pandas as pd
import pytest

import warmstart
from warmstart.errors import DataError, RecipeError

TEXTS = [f"{word} film number {number}" for number in range(12) for word in ("good", "bad")]
LABELS = ["pos", "neg"] * 12
QUICK = {"quick": True, "window": {"max_tokens": 16}, "data": {"split": {"test": 0.25}}}


def frame(kind):
    columns = {"Nachricht": TEXTS, "Thema": LABELS, "Nr": list(range(24))}
    classes = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["neg", "pos"])})
    return {
        "pandas": lambda: (pd.DataFrame(columns), {"text": "Nachricht", "label": "Thema"}),
        "dicts": lambda: ([{"text": text, "label": label} for text, label in zip(TEXTS, LABELS, strict=True)], {}),
        "lists": lambda: ((TEXTS, LABELS), {}),
        "series": lambda: ((pd.Series(TEXTS), pd.Series(LABELS)), {}),
        "datasets": lambda: (datasets.Dataset.from_dict({"text": TEXTS, "label": LABELS}).cast(classes), {}),
    }[kind]()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("WARMSTART_CACHE", str(tmp_path / "cache"))


def fit(encoder, tmp_path, name, train, **columns):
    return warmstart.fit(model=encoder, train=train, out=tmp_path / name, **columns, **QUICK)


def test_rows_in_memory_train_the_model_of_the_file(encoder, tmp_path, cache):
    file = tmp_path / "rows.parquet"
    pd.DataFrame({"text": TEXTS, "label": LABELS}).to_parquet(file)
    expected = fit(encoder, tmp_path, "file", str(file)).predict(TEXTS)
    for kind in ("pandas", "dicts", "lists", "series", "datasets"):
        train, columns = frame(kind)
        run = fit(encoder, tmp_path, kind, train, **columns)
        assert run.predict(TEXTS) == expected, kind
        assert run.data.parts["train"].rows == 18


@pytest.mark.parametrize(
    ("train", "error", "message"),
    [
        (pd.DataFrame({"text": ["a", None, "b"], "label": ["x", "y", "x"]}), DataError, "row 2: 'text' is null"),
        (pd.DataFrame({"text": ["a", 3], "label": ["x", "y"]}), DataError, "train: a column has values of several"),
        ((["a", "b"], ["x"]), DataError, "found 2 texts and 1 labels"),
        (pd.DataFrame({"Text": ["a"], "label": ["x"]}), DataError, "no column 'text'.* Did you mean 'Text'"),
        ([], DataError, "no rows"),
        (7, RecipeError, "found int, expected a file, a pandas or Polars data frame"),
        (datasets.DatasetDict({"train": datasets.Dataset.from_dict({"text": ["a"]})}), RecipeError, "pass one split"),
    ],
)
def test_what_is_wrong_with_them_is_named(encoder, tmp_path, cache, train, error, message):
    with pytest.raises(error, match=message):
        fit(encoder, tmp_path, "run", train)
