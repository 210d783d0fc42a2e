"""Rows are asked for, labelled and trained on: what comes back is added to the training rows and to no other part."""

import csv
import json
import xml.etree.ElementTree as ET

import pytest
from typer.testing import CliRunner

import warmstart
from small import FAST, reviews
from warmstart.cli.main import app
from warmstart.errors import DataError, RecipeError
from warmstart.evaluation.run import RunFolder

TRUTH = dict(reviews(200, start=2000))
OTHER = "alice lives in tokyo"


def call(*words, code=0):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, result.output
    return result


def table(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write(path, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return path


@pytest.fixture
def pool(tmp_path):
    """Rows like those the run knows, one like none of them, one of its training rows, and a near-duplicate."""
    texts = [*list(TRUTH)[:30], OTHER, reviews(1)[0][0], f"{OTHER.upper()} !"]
    return write(tmp_path / "pool.csv", [("id", "text"), *((f"r{n}", text) for n, text in enumerate(texts))])


def test_asked_rows_come_back_and_are_trained_on(run, pool, files, tmp_path):
    out = tmp_path / "to-label.csv"
    told = call("ask", run.folder, pool, "--rows", 5, "--out", out)
    assert "fill in the column 'label'" in told.output
    rows = table(out)
    assert list(rows[0]) == ["id", "text", "label", "row", "predicted_label", "predicted_probability"]
    assert len(rows) == 5
    assert {row["label"] for row in rows} == {""}
    shown = [float(row["predicted_probability"]) for row in rows]
    # Of two labels, the probability tells the margin: all are among the ten rows that the model is least sure of.
    least = sorted(answer["probability"] for answer in run.predict([row["text"] for row in table(pool)]))
    assert shown[0] == pytest.approx(least[0], abs=1e-5)
    assert max(shown) <= least[11] + 1e-5  # two are passed over
    assert all(row["row"] == f"{pool}:{int(row['id'][1:]) + 2}" for row in rows)

    again = ["fit", run.folder / "recipe.yaml", "--add", out, "--out", tmp_path / "again", "--max-steps", 1]
    refused = call(*again, code=1).exception
    assert isinstance(refused, DataError)
    assert f"{out}:2" in str(refused)
    assert "no answer in 'label'" in str(refused)

    labelled = [(row["text"], TRUTH.get(row["text"], "neg")) for row in rows]
    write(out, [("text", "label"), *labelled])
    call(*again)
    parts = RunFolder(tmp_path / "again").data.parts
    assert parts["train"].rows == 64 + 5
    assert parts["train"].files[-1] == str(out)
    assert parts["test"].fingerprint == run.data.parts["test"].fingerprint


def test_what_is_known_and_near_duplicates_are_passed_over(run, pool):
    asked = warmstart.ask(run.folder, str(pool), 40)
    texts = [row["text"].lower().strip(" !") for row in asked.rows]
    assert texts.count(OTHER) == 1
    assert reviews(1)[0][0] not in texts
    assert (len(texts), asked.pool, asked.near_duplicates) == (31, 33, 2)


def test_added_rows_are_never_held_out(encoder, files, tmp_path, monkeypatch):
    added = write(tmp_path / "added.jsonl.csv", [("text", "label"), *list(TRUTH.items())[:20]])
    fast = {"training": {"max_steps": 1, "precision": "fp32"}}
    first = warmstart.fit(model=encoder, train=files["train"], out=tmp_path / "one", **fast)
    second = warmstart.fit(tmp_path / "one" / "recipe.yaml", add=str(added), out=tmp_path / "two")
    parts = second.data.parts
    assert parts["test"].fingerprint == first.data.parts["test"].fingerprint
    assert parts["train"].rows == first.data.parts["train"].rows + 20
    verdict = warmstart.compare([first.folder, second.folder])
    assert verdict is not None  # the test rows are the same, so the two can be compared row by row
    more = write(tmp_path / "more.csv", [("text", "label"), *list(TRUTH.items())[20:24]])
    monkeypatch.chdir(tmp_path)
    # A path is taken from here, not from the recipe's folder; what was added before stays.
    call("fit", "two/recipe.yaml", "--add", "more.csv", "--out", "three")
    assert RunFolder("three").data.parts["train"].files[1:] == [str(added), str(more)]
    assert RunFolder("three").data.parts["train"].rows == parts["train"].rows + 4
    told = json.loads(call("check", tmp_path / "two" / "recipe.yaml", "--json").stdout)
    assert told["rows"]["train"] == 64 + 20


@pytest.mark.parametrize("strategy", ["entropy", "coverage", "mixed", "random"])
def test_every_strategy_chooses_rows_of_the_pool(strategy, run, pool, tmp_path):
    asked = warmstart.ask(run.folder, str(pool), 4, strategy, out=tmp_path / "rows.jsonl")
    assert asked.strategy == strategy
    assert len(asked.rows) == 4
    written = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text("utf-8").splitlines()]
    assert [row["label"] for row in written] == [None] * 4
    assert ("predicted_label" in written[0]) == (strategy in ("entropy", "mixed"))


def test_an_ensemble_is_asked_where_its_members_disagree(encoder, files, pool, run, tmp_path):
    with pytest.raises(RecipeError, match="holds one model"):
        warmstart.ask(run.folder, str(pool), 2, "disagreement")
    fields = {"train": files["train"], "test": files["test"], "seeds": 2, "select": "ensemble", **FAST}
    several = warmstart.fit(model=encoder, out=tmp_path / "several", **fields)
    for strategy in ("disagreement", "coverage"):
        assert len(warmstart.ask(several.folder, str(pool), 3, strategy).rows) == 3


def test_label_studio_gets_texts_and_labels_and_no_prediction(run, pool, tmp_path):
    out = tmp_path / "tasks.json"
    told = json.loads(call("ask", run.folder, pool, "--rows", 3, "--out", out, "--json").stdout)
    assert told["out"] == [str(out), str(tmp_path / "tasks.xml")]
    assert told["rows"] == 3
    tasks = json.loads(out.read_text("utf-8"))
    assert [set(task["data"]) for task in tasks] == [{"id", "text", "row"}] * 3
    view = ET.parse(tmp_path / "tasks.xml").getroot()
    assert view.find("Text").attrib == {"name": "text", "value": "$text"}
    assert (view.find("Choices").get("name"), view.find("Choices").get("toName")) == ("label", "text")
    assert [choice.get("value") for choice in view.iter("Choice")] == ["neg", "pos"]
    # As Label Studio exports them in JSON-MIN.
    export = tmp_path / "export.json"
    export.write_text(json.dumps([{**task["data"], "label": "pos", "annotator": 1} for task in tasks]), "utf-8")
    recipe = run.folder / "recipe.yaml"
    call("fit", recipe, "--add", export, "--out", tmp_path / "next", "--max-steps", 1)
    assert RunFolder(tmp_path / "next").data.parts["train"].rows == 64 + 3


def test_what_cannot_be_asked_is_refused(run, pool, files, tmp_path):
    def problem(*words):
        return str(call("ask", run.folder, *words, code=1).exception)

    out = ("--out", tmp_path / "out.csv")
    assert "did you mean 'margin'" in problem(pool, "--strategy", "margins", *out)
    assert "--out" in problem(pool)
    assert "have a value in 'label'" in problem(files["test"], *out)
    assert "--strategy: works only without --dry-run" in problem(pool, "--dry-run", "--strategy", "margin")
    assert "no column 'text'" in problem(write(tmp_path / "odd.csv", [("body",), ("a film",)]), *out)
    assert f"{tmp_path / 'blank.csv'}:3" in problem(write(tmp_path / "blank.csv", [("text",), ("a",), (" ",)]), *out)
    assert "--rows 100" in problem(files["train"], "--dry-run")


def test_some_rows_of_a_pool_may_be_labelled(run, tmp_path):
    half = write(tmp_path / "half.csv", [("text", "label"), ("a good film", "pos"), ("an old film", "")])
    asked = warmstart.ask(run.folder, str(half))
    assert [row["text"] for row in asked.rows] == ["an old film"]
    assert asked.labelled == 1


def test_a_dry_run_tells_what_asking_saves(run, tmp_path):
    file = write(tmp_path / "labelled.csv", [("text", "label"), *TRUTH.items()])
    told = json.loads(call("ask", run.folder, file, "--dry-run", "--rows", 20, "--seeds", 2, "--json").stdout)
    assert (told["pool"], told["test"], told["seeds"]) == (160, 40, 2)
    assert {one["strategy"] for one in told["results"]} >= {"margin", "random", "coverage"}
    assert told["verdict"]
    assert "p (Holm)" in call("ask", run.folder, file, "--dry-run", "--rows", 20, "--seeds", 2).output
