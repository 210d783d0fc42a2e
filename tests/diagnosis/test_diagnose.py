"""`warmstart diagnose` on small runs: what it finds, what it records, and what predictions then are."""

import csv
import json
import random
import shutil

import numpy as np
import pytest
import torch
import transformers
from typer.testing import CliRunner

import warmstart
from small import FAST, reviews
from warmstart.cli.main import app
from warmstart.diagnosis.confidence import ConfidenceOptions
from warmstart.diagnosis.diagnose import DiagnosisOptions, diagnose
from warmstart.diagnosis.label_errors import (
    SHARE_EXPONENT,
    LabelErrorSearch,
    assign_folds,
    correct_for_shares,
    regression_probabilities,
    suspects,
)
from warmstart.errors import ModelError, RecipeError, RunError
from warmstart.evaluation.records.files import as_json
from warmstart.evaluation.run import RunFolder
from warmstart.report.error_sections import explanations
from warmstart.report.run_facts import read_facts
from warmstart.storage.artifacts import recover, verify

ODD = 5
"""Every such test row has the label of the others."""


def call(*words, code=0):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, result.output
    return result


@pytest.fixture(scope="module")
def made(encoder, tmp_path_factory):
    """A run whose test and dev rows hold wrong labels, and a further column that tells where."""
    folder = tmp_path_factory.mktemp("diagnosed")
    for name, start, count in (("train", 0, 160), ("dev", 400, 60), ("test", 200, 120)):
        rows = [("text", "label", "source")]
        for number, (text, label) in enumerate(reviews(count, start=start)):
            odd = name != "train" and number % ODD == 0
            rows.append((text, {"pos": "neg", "neg": "pos"}[label] if odd else label, "old form" if odd else "web"))
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(rows)
    files = {name: str(folder / f"{name}.csv") for name in ("train", "dev", "test")}
    return warmstart.fit(model=encoder, out=folder / "run", **files, **FAST).folder


def test_what_the_rows_are_like_is_recorded(made):
    diagnosis = diagnose(RunFolder(made), DiagnosisOptions(explain=1))
    counts = diagnosis.class_balance.counts
    assert {part: sum(numbers) for part, numbers in counts.items()} == {"train": 160, "dev": 60, "test": 120}
    assert sorted(diagnosis.class_balance.labels) == ["neg", "pos"]
    lengths = diagnosis.lengths
    assert {part: sum(numbers) for part, numbers in lengths.counts.items()} == {"train": 160, "dev": 60, "test": 120}
    assert lengths.edges[-2] <= lengths.longest
    points = diagnosis.embedding_map
    assert (points.part, points.available, len(points.x)) == ("test", 120, 120)
    assert 0 < sum(points.explained) <= 1.0001
    assert sum(points.wrong) == sum(sum(row) for row in diagnosis.confusion.counts) - sum(
        row[index] for index, row in enumerate(diagnosis.confusion.counts)
    )
    weights = diagnosis.mistakes[0].words.weights
    assert "".join(word for word, _ in weights) == diagnosis.mistakes[0].text
    assert max(abs(weight) for _, weight in weights) == 1
    assert RunFolder(made).diagnosis == diagnosis, "read back as it was written"


@pytest.fixture
def run(made, tmp_path):
    """A copy of it that may be changed."""
    shutil.copytree(made, tmp_path / "run")
    return RunFolder(tmp_path / "run")


def test_it_says_where_a_run_errs(run):
    diagnosis = diagnose(run, DiagnosisOptions(slice_by=["source"]))
    assert json.loads((run.folder / "diagnosis.json").read_text("utf-8")) == as_json(diagnosis)
    assert RunFolder(run.folder).diagnosis == diagnosis
    assert (diagnosis.part, diagnosis.task, diagnosis.rows, diagnosis.notes) == ("test", "classify", 120, [])
    counts = diagnosis.confusion.counts
    assert diagnosis.confusion.labels == ["neg", "pos"]
    assert sum(map(sum, counts)) == 120
    assert counts[0][1] + counts[1][0] == 24
    worst = diagnosis.slices[0]
    assert (worst.by, worst.name, worst.rows, worst.significant) == ("source", "old form", 24, True)
    assert not any(one.significant for one in diagnosis.slices if one.by != "source")
    [first, *_] = diagnosis.mistakes
    assert first.row.rpartition(":")[0].endswith("test.csv")
    line = int(first.row.rpartition(":")[2])
    assert (line - 2) % ODD == 0
    assert first.text.startswith(f"the film {200 + line - 2} ")
    assert {first.truth, first.prediction} == {"pos", "neg"}
    assert first.confidence > 0.9
    assert diagnosis.tables[0]["title"] == "Confusions"


def test_calibration_halves_the_error_and_changes_no_label(run):
    text = "the film 1 was good and very great"
    [before] = warmstart.load(run.folder).predict([text])
    options = DiagnosisOptions(confidence=ConfidenceOptions(calibrate=True))
    calibration = diagnose(run, options).calibration
    assert calibration.fitted_on == "dev"
    assert calibration.after.ece < calibration.before.ece / 2
    assert calibration.stored == calibration.temperature > 1
    verify(run.model)
    [after] = warmstart.load(run.folder).predict([text])
    assert after["label"] == before["label"]
    assert after["probability"] < before["probability"]
    model = transformers.AutoModelForSequenceClassification.from_pretrained(run.model).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(run.model)
    with torch.no_grad():
        logits = model(**tokenizer(text, return_tensors="pt")).logits[0]
    plain = (logits / calibration.temperature).softmax(-1)
    assert list(after["probabilities"].values()) == pytest.approx(plain.tolist(), abs=1e-5)
    again = diagnose(run).calibration
    assert (again.before, again.stored) == (calibration.before, calibration.stored)


def test_a_kill_while_the_model_is_exchanged_loses_nothing(run):
    run.model.rename(run.folder / ".model.before")
    with pytest.raises(ModelError):
        warmstart.load(run.folder)
    recover(run.model)
    assert warmstart.load(run.folder).predict(["good"])
    assert not (run.folder / ".model.before").exists()


def test_a_temperature_that_cannot_be_is_refused(run):
    about = json.loads((run.model / "warmstart.json").read_text("utf-8"))
    from warmstart.tasks.shared.saved_task import SavedTask

    for wrong in (0, -1, "1", True, 1e9, None):
        (run.model / "warmstart.json").write_text(json.dumps({**about, "temperature": wrong}), "utf-8")
        with pytest.raises(ModelError, match="temperature"):
            SavedTask.read(run.model)


def test_answers_are_held_back_and_say_so(run, tmp_path):
    told = json.loads(call("diagnose", run.folder, "--abstain", "0.5", "--json").stdout)
    [one] = told["thresholds"]
    assert one["abstain"] == 0.5
    texts = ["the film 1 was good and very great", "paris"]
    answers = [json.loads(line) for line in call("predict", run.folder, *texts, "--json").stdout.splitlines()]
    least = sorted(answer["probability"] for answer in answers)[1]
    out = tmp_path / "answers.parquet"
    call("predict", run.folder, *texts, "--min-confidence", least, "--out", out)
    import pyarrow.parquet as pq

    rows = pq.read_table(out).to_pylist()
    assert sorted((row["label"] is None, row["answered"]) for row in rows) == [(False, True), (True, False)]
    assert all(row["probability"] for row in rows)
    shown = call("predict", run.folder, *texts, "--min-confidence", 1.0, "--json").stdout.splitlines()
    assert [json.loads(line)["label"] for line in shown] == [None, None]


def test_the_first_mistakes_are_explained_by_words_of_their_own(run):
    told = call("diagnose", run.folder, "--explain", "2").output
    assert "words behind the prediction" in told
    first, second, third = RunFolder(run.folder).diagnosis.mistakes[:3]
    for mistake in (first, second):
        assert mistake.words.words
        assert all(word in mistake.text for word in mistake.words.words)
    assert third.words is None
    section = explanations(read_facts(run.folder))
    _, *shown = section.blocks
    assert len(shown) == 2
    assert "".join(word for word, _ in shown[0].words) == first.text
    assert max(abs(shade) for _, shade in shown[0].words) == 10


def test_the_screen_shows_it_in_short(run):
    told = call("diagnose", run.folder, "--slice-by", "source", "--target-precision", "0.7").output
    for words in ("Worst slices", "source: old form", "Most confident mistakes", "calibration error", "precision 0.7"):
        assert words in told


def test_what_cannot_be_is_refused(run):
    assert "--target-precision 1.5" in str(call("diagnose", run.folder, "--target-precision", "1.5", code=1).exception)
    assert "features" in str(call("diagnose", run.folder, "--cv-model", "guessed", code=1).exception)
    assert "nosuch" in str(call("diagnose", run.folder, "--slice-by", "nosuch", code=1).exception)


def test_without_its_files_a_run_is_diagnosed_all_the_same(run):
    recipe = (run.folder / "recipe.yaml").read_text("utf-8")
    (run.folder / "recipe.yaml").write_text(recipe.replace("test.csv", "gone.csv"), "utf-8")
    diagnosis = diagnose(RunFolder(run.folder))
    assert "not available" in diagnosis.notes[0]
    assert diagnosis.mistakes[0].text is None
    assert diagnosis.calibration is not None


def flipped(count, every):
    """Rows of which some have the other label, and those."""
    rows = reviews(count)
    wrong = set(random.Random(0).sample(range(count), count // every))
    return [
        (text, {"pos": "neg", "neg": "pos"}[label] if n in wrong else label) for n, (text, label) in enumerate(rows)
    ], wrong


def test_a_run_told_of_files_beside_it_is_diagnosed_from_anywhere(encoder, tmp_path, monkeypatch):
    with (tmp_path / "some.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "label"), *reviews(80)])
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    run = warmstart.fit(model=encoder, train="some.csv", out="run", training={"max_steps": 2, "precision": "fp32"})
    assert run.metrics["test"]["accuracy"] < 1
    monkeypatch.chdir(tmp_path / "elsewhere")
    mistakes = diagnose(RunFolder("../run")).mistakes
    assert mistakes
    assert all(one.text.startswith("the film") for one in mistakes)


def test_flipped_labels_are_found_by_unseen_answers():
    rows, wrong = flipped(200, 10)
    labels = [label for _, label in rows]
    rng = np.random.default_rng(0)
    truth = np.array([number % 2 for number in range(200)])
    vectors = rng.normal(0, 1, (200, 8)) + 3 * truth[:, None]
    fold = assign_folds(labels, [text for text, _ in rows], 5)
    found, scores = suspects(labels, ["neg", "pos"], regression_probabilities(vectors, labels, ["neg", "pos"], fold), 5)
    assert len(wrong & set(found)) / len(found) > 0.8
    assert len(wrong & set(np.argsort(scores)[: len(wrong)].tolist())) / len(wrong) > 0.8


def test_equal_texts_are_in_one_fold():
    texts = [f"text {number // 3}" for number in range(60)]
    fold = assign_folds(["a", "b"] * 30, texts, 4)
    assert {len({fold[i] for i in range(60) if texts[i] == text}) for text in texts} == {1}
    with pytest.raises(RecipeError, match="folds"):
        assign_folds(["a", "b"], ["one", "two"], 3)


def test_missed_rare_labels_are_found_among_a_majority():
    """Of 1,000 rows 12% are rare, and a quarter of those are labelled as the majority."""
    drawn = np.random.default_rng(0)
    truth = ["rare"] * 120 + ["usual"] * 880
    vectors = drawn.normal(size=(1000, 8)) + np.where(np.arange(1000) < 120, 1.0, -0.25)[:, None]
    missed = set(range(30))
    labels = ["usual" if row in missed else label for row, label in enumerate(truth)]
    names = ["rare", "usual"]
    raw = regression_probabilities(vectors, labels, names, assign_folds(labels, range(1000), 5))

    def precision(exponent):
        listed = suspects(labels, names, correct_for_shares(raw, labels, names, exponent), 5)[0]
        return len(missed & set(listed)) / len(listed)

    assert precision(SHARE_EXPONENT) > precision(0) + 0.1


def test_labels_with_the_same_share_are_left_as_they_are():
    raw = np.array([[0.7, 0.3], [0.0, 0.0]])
    assert correct_for_shares(raw, ["a", "b"], ["a", "b"]) == pytest.approx(raw)


@pytest.mark.parametrize("how", ["features", "finetuned"])
def test_label_errors_of_a_run_are_told_with_their_line(how, encoder, tmp_path):
    rows, wrong = flipped(240, 30)
    path = tmp_path / "train.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "label"), *rows])
    test = tmp_path / "test.csv"
    with test.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "label"), *reviews(40, start=400)])
    training = {**FAST["training"], **({} if how == "finetuned" else {"max_steps": 2})}
    run = warmstart.fit(model=encoder, train=str(path), test=str(test), out=tmp_path / "run", training=training)
    errors = diagnose(run, DiagnosisOptions(label_errors=LabelErrorSearch(how, 2))).label_errors
    assert errors.checked == 240
    assert errors.rows
    first = errors.rows[0]
    line = int(first.row.rpartition(":")[2])
    assert rows[line - 2] == (first.text, first.label)
    assert first.suggested != first.label
    if how == "finetuned":
        lines = {int(row.row.rpartition(":")[2]) - 2 for row in errors.rows}
        assert wrong <= lines
        assert diagnose(run).label_errors == errors  # recorded, and nothing is trained again


def test_a_run_without_measured_rows_is_refused(run):
    for path in run.folder.glob("predictions*"):
        path.unlink()
    with pytest.raises(RunError, match="nothing was measured"):
        diagnose(run)
