"""Soft labels in every way that files hold them; what cannot be a distribution is refused with its line."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from warmstart.data.findings import Findings
from warmstart.data.read import iter_rows
from warmstart.data.source import Source
from warmstart.data.table import from_rows, load
from warmstart.errors import DataError, RecipeError
from warmstart.tasks.classify import Classify
from warmstart.tasks.score import Score, ScoreOptions
from warmstart.tasks.shared.classify_options import ClassifyOptions

SCHEMA = Classify.schema(ClassifyOptions())
MANY = Classify.schema(ClassifyOptions(multi_label=True))
WANTED = [("a", "pos", {"pos": 0.75, "neg": 0.25}), ("b", "neg", {"pos": 0.25, "neg": 0.75})]


def read(path, columns, schema=SCHEMA, **options):
    rows = list(iter_rows(Source((str(path),), columns=columns, **options), schema, Findings()))
    return [(row["text"], row["label"], by_label(row["probabilities"])) for row in rows]


def by_label(distribution):
    return {item["label"]: item["probability"] for item in distribution}


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_a_column_for_each_label(suffix, tmp_path):
    rows = [{"text": "a", "pos": 0.75, "neg": 0.25}, {"text": "b", "pos": 0.25, "neg": 0.75}]
    path = tmp_path / f"rows.{suffix}"
    if suffix == "csv":
        path.write_text("text,pos,neg\na,0.75,0.25\nb,0.25,0.75\n")
    elif suffix == "jsonl":
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    else:
        pq.write_table(pa.Table.from_pylist(rows), path)
    assert read(path, {"probabilities": ["pos", "neg"]}) == WANTED


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_a_mapping_in_a_cell(suffix, tmp_path):
    path = tmp_path / f"rows.{suffix}"
    if suffix == "csv":
        cells = ['"{""pos"": 0.75, ""neg"": 0.25}"', '"{""pos"": 0.25, ""neg"": 0.75}"']
        path.write_text(f"text,soft\na,{cells[0]}\nb,{cells[1]}\n")
    else:
        rows = [{"text": text, "soft": soft} for text, _, soft in WANTED]
        if suffix == "jsonl":
            path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        else:
            pq.write_table(pa.Table.from_pylist(rows), path)
    assert read(path, {"probabilities": "soft"}) == WANTED


@pytest.mark.parametrize(
    ("header", "cells", "columns", "options"),
    [
        ("votes", ["pos|pos|neg|pos", "neg|pos|neg|neg"], "votes", {"label_separator": "|"}),
        ("votes", ['"[""pos"",""pos"",""pos"",""neg""]"', '"{""pos"": 1, ""neg"": 3}"'], "votes", {}),
        ("one,two,three,four,five", ["pos,neg,pos,,pos", ",neg,neg,pos,neg"], "one,two,three,four,five", {}),
    ],
)
def test_votes_of_annotators_are_shares(header, cells, columns, options, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(f"text,{header}\na,{cells[0]}\nb,{cells[1]}\n")
    names = columns.split(",")
    assert read(path, {"votes": names if names[1:] else names[0]}, **options) == WANTED


def test_a_label_of_its_own_is_the_hard_answer(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text('text,gold,soft\na,neg,"{""pos"": 0.75, ""neg"": 0.25}"\n')
    assert read(path, {"label": "gold", "probabilities": "soft"}) == [("a", "neg", {"pos": 0.75, "neg": 0.25})]


def test_labels_by_themselves_need_not_sum_to_one(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("text,pos,film\na,0.9,0.8\nb,0.1,0.25\n")
    rows = read(path, {"probabilities": ["pos", "film"]}, MANY)
    assert [labels for _, labels, _ in rows] == [["pos", "film"], []]
    assert rows[0][2] == {"pos": 0.9, "film": 0.8}
    with pytest.raises(RecipeError, match="'votes', which this task does not read"):
        read(path, {"votes": "pos"}, MANY)


def test_a_number_of_several_is_their_mean(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": "a", "votes": [1, 5, 5]}\n{"text": "b", "votes": {"2": 1, "3": 1}}\n')
    schema = Score.schema(ScoreOptions())
    rows = list(iter_rows(Source((str(path),), columns={"votes": "votes"}), schema, Findings()))
    assert [row["label"] for row in rows] == [pytest.approx(11 / 3), 2.5]
    path.write_text('{"text": "a", "votes": ["much"]}\n')
    with pytest.raises(DataError, match=r"rows\.jsonl:1: .*'much'.*Expected numbers"):
        list(iter_rows(Source((str(path),), columns={"votes": "votes"}), schema, Findings()))


@pytest.mark.parametrize(
    ("cells", "kind", "said"),
    [
        ("0.5,0.25", "probability-sum", r"sum to 0\.75.*as votes"),
        ("1.5,-0.5", "probability-range", "of 'pos' is 1.5"),
        ("much,0.5", "probability-form", "of 'pos' is 'much'"),
        ("0.5,", "probability-form", "'neg' is empty, and 'pos' is not"),
        (",", "answer-missing", "no answer in 'pos'"),
    ],
)
def test_what_is_no_distribution_is_refused_with_its_line(cells, kind, said, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(f"text,pos,neg\na,0.75,0.25\nb,{cells}\n")
    with pytest.raises(DataError, match=rf"rows\.csv:3: .*{said}") as caught:
        read(path, {"probabilities": ["pos", "neg"]})
    assert caught.value.kind == kind


def test_rounded_probabilities_are_divided_by_their_sum(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": "a", "soft": {"x": 0.33, "y": 0.33, "z": 0.33}}\n')
    ((_, label, soft),) = read(path, {"probabilities": "soft"})
    assert label == "x"  # the first by name, of three alike
    assert sum(soft.values()) == pytest.approx(1)


def test_both_ways_at_once_are_refused(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("text,a,b\n")
    with pytest.raises(RecipeError, match="probabilities and votes, which are the same"):
        read(path, {"probabilities": "a", "votes": "b"})


def test_stored_rows_are_the_same_and_so_are_those_of_python(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("text,one,two\na,pos,pos\nb,neg,pos\n")
    table = load(Source((str(path),), columns={"votes": ["one", "two"]}), SCHEMA, tmp_path, findings := Findings())
    other = from_rows(
        [{"text": "a", "votes": ["pos", "pos"]}, {"text": "b", "votes": ["neg", "pos"]}], SCHEMA, tmp_path
    )
    for rows in (table, other):
        assert list(rows.column("label")) == ["pos", "neg"]
        assert [by_label(soft) for soft in rows.column("probabilities")] == [{"pos": 1.0}, {"neg": 0.5, "pos": 0.5}]
    assert [(finding.kind, finding.location.line) for finding in findings] == [("label-tie", 3)]
