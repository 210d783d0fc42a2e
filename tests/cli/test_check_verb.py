"""`warmstart check` as a user types it, and the same checks inside `fit`."""

import json

import pytest
from typer.testing import CliRunner

import warmstart
from warmstart.cli.main import app


@pytest.fixture
def put(tmp_path):
    def write(name, text):
        (tmp_path / name).write_text(text, encoding="utf-8")
        return str(tmp_path / name)

    return write


def call(*words):
    result = CliRunner().invoke(app, ["check", *map(str, words)])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def told(*words):
    result = call(*words, "--json")
    return result.exit_code, json.loads(result.stdout.splitlines()[-1])


def test_warnings_leave_with_zero_and_errors_with_four(put):
    odd = put("odd.csv", "text,label\nA <b>bold</b> one,x\nA plain one,y\nAnother one,x\nThe last,y\n")
    code, found = told(odd)
    assert code == 0
    assert [(one["kind"], one["line"]) for one in found["findings"]] == [("html-tag", 2)]
    assert found["rows"] == {"train": 4}
    bad = put("bad.csv", "text,label\nA one,x\nA two\n")
    assert told(bad)[0] == 4


def test_every_file_is_looked_at_past_an_error(put):
    first = put("first.csv", "text,label\na one,x\nonly one cell\n")
    second = put("second.csv", "text,label\nA &amp; B,x\nC and D,y\n")
    third = put("third.jsonl", '{"text": "E and F", "label": "x"}\nnot json\n')
    code, found = told(first, second, third)
    assert code == 4
    assert found["errors"] == 2
    places = {(one["kind"], one["file"].rpartition("/")[2], one["line"]) for one in found["findings"]}
    assert {("cells-few", "first.csv", 3), ("json", "third.jsonl", 2), ("html-entity", "second.csv", 2)} <= places


def test_a_table_sums_up(put):
    result = call(put("odd.csv", "text,label\nA one,x\nA two,X\nA one,x\n"))
    assert "warning: label-spelling" in result.stdout
    assert "train rows" in result.stdout
    assert "odd.csv:3: the labels 'X' and 'x'" in result.stderr.replace("\n", "")
    fine = call(put("fine.csv", "text,label\nA one,x\nA two,y\nA three,x\nA four,y\n"))
    assert "none" in fine.stdout


def test_ids_are_looked_at_when_named(put):
    file = put("ids.csv", "id,text,label\n1,A one,x\n2,A two,y\n1,A three,x\n3,A four,y\n")
    assert told(file)[1]["findings"] == []
    (found,) = told(file, "--id", "id")[1]["findings"]
    assert (found["kind"], found["line"]) == ("id-repeated", 4)


def test_a_recipe_and_its_test_file(put):
    put("train.csv", "text,label\nA one,x\nA two,y\nA three,x\nA four,y\n")
    put("test.csv", "text,label\nA five,x\na  FOUR,y\n")
    recipe = put("mine.yaml", "model: m\ndata: {train: train.csv, test: test.csv}\n")
    (found,) = told(recipe)[1]["findings"]
    assert (found["kind"], found["file"].rpartition("/")[2], found["line"]) == ("shared", "train.csv", 5)


def test_the_window_of_a_model(put, encoder):
    long = " ".join(["word"] * 30)
    file = put("long.csv", f"text,label\nA one,x\nA two,y\n{long},x\nA four,y\n")
    (found,) = told(file, "--model", encoder, "--max-tokens", "16")[1]["findings"]
    assert (found["kind"], found["line"], found["count"]) == ("window-cut", 4, 1)
    assert "1 of 4 rows" in found["message"]


def test_fit_keeps_the_warnings_and_stops_at_errors(put, encoder, tmp_path):
    rows = "".join(f"A text of number {number},{'xy'[number % 2]}\n" for number in range(20))
    train = put("train.csv", f"text,label\n{rows}A <i>tag</i> in it that goes on and on and on,x\n")
    quick = {"max_steps": 1, "precision": "fp32"}
    run = warmstart.fit(
        model=str(encoder), train=train, training=quick, window={"max_tokens": 12}, out=tmp_path / "run"
    )
    kinds = {finding.kind: finding.location.line for finding in run.data.findings}
    assert kinds["html-tag"] == 22
    assert "window-cut" in kinds
    test = put("test.csv", "text,label\nA fine one,x\nAnother,z\n")
    with pytest.raises(warmstart.errors.DataError, match=r"test\.csv:3: label 'z' was not seen"):
        warmstart.fit(model=str(encoder), train=train, test=test, training=quick, out=tmp_path / "stopped")
    assert not (tmp_path / "stopped").exists()
