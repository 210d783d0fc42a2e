"""choose and relate from the command line: fit, predict, evaluate and check, and faults with their line."""

import json

import pytest
from typer.testing import CliRunner

from small import relations, riddles
from warmstart.cli.main import app

QUICK = ["--max-steps", "2", "--batch-size", "8", "--precision", "fp32", "--max-tokens", "48"]


def call(*words, code=0):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code or code is None, result.output
    return result


def lines(result):
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_choose_from_columns(encoder, tmp_path):
    path = tmp_path / "riddles.csv"
    rows = [row for row in riddles(40) if len(row["endings"]) == 3]
    cells = [[row["text"], *row["endings"], str(row["label"])] for row in rows]
    path.write_text("q,a,b,c,label\n" + "".join(f"{','.join(row)}\n" for row in cells))
    columns = ["--text", "q", *(word for name in "abc" for word in ("--column", f"endings={name}"))]
    run = tmp_path / "run"
    call("fit", path, "--model", encoder, "--task", "choose", *columns, "--out", run, *QUICK)
    assert "it was good" in call("predict", run, "the film", "it was good", "it was bad").output
    [answer] = lines(call("predict", run, "the film", "good", "bad", "--json"))
    assert answer["ending"] == ["good", "bad"][answer["label"]]
    told = lines(call("evaluate", run, path, "--json"))[-1]
    assert told["metrics"]["rows"] == len(rows)
    answers = lines(call("predict", run, "--file", path))
    assert [answers[0][name] for name in "abc"] == rows[0]["endings"]
    assert answers[0]["label"] == cells[0][-1]
    assert len(answers) == len(rows)


def test_relate_by_marks_and_by_places(encoder, tmp_path):
    path, run = tmp_path / "pairs.jsonl", tmp_path / "run"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in relations(30)))
    call("fit", path, "--model", encoder, "--task", "relate", "--out", run, *QUICK)
    [marked] = lines(call("predict", run, "<e1>alice</e1> loved <e2>bob</e2>", "--json"))
    places = tmp_path / "places.jsonl"
    places.write_text('{"text": "alice loved bob", "first": [0, 5], "second": [12, 15]}\n')
    columns = ["--column", "first=first", "--column", "second=second"]
    [placed] = lines(call("predict", run, "--file", places, *columns))
    assert placed["label"] == marked["label"]
    assert placed["probabilities"] == pytest.approx(marked["probabilities"])
    assert "macro_f1" in call("evaluate", run, "--json").stdout


@pytest.mark.parametrize(
    ("task", "row", "kind"),
    [
        ("relate", {"text": "<e1>a</e1> b", "label": "x"}, "mark-missing"),
        ("relate", {"text": "<e1>a</e1> <e2></e2>", "label": "x"}, "mark-empty"),
        ("choose", {"text": "a", "endings": ["x", "y"], "label": 2}, "choice-past"),
        ("choose", {"text": "a", "endings": ["x", "y"], "label": "z"}, "choice"),
        ("choose", {"text": "a", "endings": ["x"], "label": 0}, "choice-few"),
    ],
)
def test_check_names_the_line(task, row, kind, tmp_path):
    path = tmp_path / "rows.jsonl"
    good = relations(1) if task == "relate" else riddles(1)
    path.write_text("".join(f"{json.dumps(one)}\n" for one in [*good, row]))
    [told] = lines(call("check", path, "--task", task, "--json", code=None))
    [error] = [one for one in told["findings"] if one["severity"] == "error"]
    assert (error["kind"], error["line"]) == (kind, 2)
