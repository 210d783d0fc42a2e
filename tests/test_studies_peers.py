"""Peers of the studies read a job and write an answer for each test row, with what it took."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

PEERS = Path(__file__).resolve().parents[1] / "studies" / "peers"
RED = ["a red apple", "the red rose", "red wine", "red hot"]
BLUE = ["a blue sky", "the blue sea", "blue ink", "blue ice"]


@pytest.fixture
def job(monkeypatch):
    monkeypatch.syspath_prepend(PEERS)
    import job

    return job


def write(path, columns, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([columns, *rows])
    return str(path)


def asked(folder, columns, train, test, **changes):
    """A job file."""
    fields = {
        "train": write(folder / "train.csv", columns, train),
        "test": write(folder / "test.csv", columns, test),
        "task": "classify",
        "model": "no/such/encoder",
        "seed": 3,
        "max_tokens": 32,
        "out": str(folder / "new" / "out.json"),
        **changes,
    }
    path = folder / "job.json"
    path.write_text(json.dumps({key: value for key, value in fields.items() if value is not None}))
    return path


def test_a_job_is_read_with_its_rows(job, tmp_path):
    rows = [("one, two", "drei\nvier", "4.5"), ('"five"', "sechs", "NA")]
    found = job.read_job(asked(tmp_path, ("text", "pair", "label"), rows, rows[:1], task="score"))
    assert found.train == job.Rows(["one, two", '"five"'], ["drei\nvier", "sechs"], ["4.5", "NA"])
    assert found.test.numbers == [4.5]
    assert (found.task, found.model, found.seed, found.max_tokens) == ("score", "no/such/encoder", 3, 32)


def test_single_texts_have_no_pairs(job, tmp_path):
    found = job.read_job(asked(tmp_path, ("label", "text"), [("x", "one")], [("x", "two")]))
    assert found.train == job.Rows(["one"], None, ["x"])


@pytest.mark.parametrize(
    ("changes", "columns", "said"),
    [
        ({"task": "tag"}, ("text", "label"), "task is 'tag', expected one of classify, score"),
        ({"seed": None}, ("text", "label"), "no 'seed'"),
        ({}, ("text", "intent"), "train.csv, line 1: no column 'label', only text, intent"),
    ],
)
def test_a_job_that_cannot_be_done_is_refused(job, tmp_path, changes, columns, said):
    path = asked(tmp_path, columns, [("one", "x")], [("two", "x")], **changes)
    with pytest.raises(SystemExit, match=said):
        job.read_job(path)


def test_answers_are_written_and_read_back(job, tmp_path):
    work = job.read_job(asked(tmp_path, ("text", "label"), [("one", "x")], [("two", "x"), ("three", "é")]))
    job.write_result(work, {"answers": ["é", "x"], "seconds": 0.5})
    assert json.loads(work.out.read_text(encoding="utf-8")) == {"answers": ["é", "x"], "seconds": 0.5}
    assert [path.name for path in work.out.parent.iterdir()] == ["out.json"]


@pytest.mark.parametrize(
    ("task", "answers", "said"),
    [
        ("classify", ["x"], "1 answers for 2 test rows"),
        ("classify", ["x", 1], "test row 2 is 1, expected a label as text"),
        ("score", [1.0, float("nan")], "test row 2 is nan, expected a finite number"),
    ],
)
def test_wrong_answers_are_not_written(job, tmp_path, task, answers, said):
    work = job.read_job(asked(tmp_path, ("text", "label"), [("one", "1")], [("two", "1"), ("three", "2")], task=task))
    with pytest.raises(SystemExit, match=said):
        job.write_result(work, {"answers": answers})
    assert not work.out.exists()


def test_tfidf_tells_labels_apart_and_says_what_it_took(tmp_path):
    train = [(text, "red") for text in RED] + [(text, "blue") for text in BLUE]
    path = asked(tmp_path, ("text", "label"), train, [("blue paint", "blue"), ("red paint", "red"), ("red", "red")])
    subprocess.run([sys.executable, PEERS / "tfidf_lr.py", path], check=True)
    found = json.loads((tmp_path / "new" / "out.json").read_text())
    assert found["answers"] == ["blue", "red", "red"]
    assert list(found) == ["answers", "seconds", "cpu_seconds", "versions", "notes"]
    assert 0 < found["seconds"] < 60
    assert found["cpu_seconds"] >= 0
    assert list(found["versions"]) == ["scikit-learn"]


def test_tfidf_scores_pairs_by_both_texts(job, tmp_path):
    import tfidf_lr

    train = [("paint", text, "5") for text in RED] + [("paint", text, "0") for text in BLUE]
    test = [("paint", "red", "5"), ("paint", "blue", "0")]
    work = job.read_job(asked(tmp_path, ("text", "pair", "label"), train, test, task="score"))
    (red, blue), _ = tfidf_lr.answer(work)
    assert red > 3 > 2 > blue


def test_bm25_ranks_the_documents_of_a_query(job, tmp_path):
    import bm25_peer

    rows = [("red paint", text, "1") for text in RED] + [("red paint", text, "0") for text in BLUE]
    work = job.read_job(asked(tmp_path, ("query", "document", "label"), rows, rows, task="rank"))
    scores, _ = bm25_peer.answer(work)
    assert min(scores[: len(RED)]) > max(scores[len(RED) :])
    job.write_result(work, {"answers": scores})
