"""Several columns of a file as one list of texts: in the order in which they are named, in every format."""

import csv
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from warmstart.data.findings import Findings
from warmstart.data.read import iter_rows
from warmstart.data.schema import Column, Schema
from warmstart.data.source import Source
from warmstart.data.table import load
from warmstart.errors import DataError, RecipeError
from warmstart.recipe import make_recipe

SCHEMA = Schema(
    (
        Column("text", "text", "the text"),
        Column("endings", "texts", "what to choose from"),
        Column("label", "choice", "which", answer=True),
    )
)
ROWS = [
    {"text": "a", "two": "y", "one": "x", "three": "z", "label": 2},
    {"text": "b", "two": "y", "one": "x", "three": "", "label": 0},
]
COLUMNS = {"endings": ["one", "two", "three"]}


def write(path):
    if path.suffix == ".jsonl":
        path.write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    elif path.suffix == ".json":
        path.write_text(json.dumps(ROWS))
    elif path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), path)
    else:
        text = io.StringIO()
        writer = csv.DictWriter(text, list(ROWS[0]), delimiter="\t" if path.suffix == ".tsv" else ",")
        writer.writeheader()
        writer.writerows(ROWS)
        path.write_text(text.getvalue())
    return str(path)


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "json", "parquet"])
def test_columns_are_gathered_in_their_order_and_the_last_may_be_empty(suffix, tmp_path):
    source = Source((write(tmp_path / f"rows.{suffix}"),), columns=COLUMNS)
    rows = list(iter_rows(source, SCHEMA, Findings()))
    assert [row["endings"] for row in rows] == [["x", "y", "z"], ["x", "y"]]
    assert [row["label"] for row in rows] == [2, 0]


@pytest.mark.parametrize(
    ("line", "columns", "message"),
    [
        ("b,x,,z,0", COLUMNS, r"rows\.csv:2: 'endings' is empty"),
        ("b,,,,0", COLUMNS, r"rows\.csv:2: 'endings' is list \[\]\. Expected a list of texts"),
        ("b,x,y,z,0", {"endings": ["one", "tow"]}, r"no column 'tow' for 'endings'.*Did you mean 'two'"),
    ],
)
def test_a_gap_and_a_column_that_is_not_there_are_refused(line, columns, message, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(f"text,one,two,three,label\n{line}\n")
    with pytest.raises(DataError, match=message):
        list(iter_rows(Source((str(path),), columns=columns), SCHEMA, Findings()))


def test_only_a_list_of_texts_can_be_several_columns(tmp_path):
    source = Source((write(tmp_path / "rows.csv"),), columns={**COLUMNS, "text": ["one", "two"]})
    with pytest.raises(RecipeError, match=r"data\.columns\.text: found \['one', 'two'\], expected one column"):
        list(iter_rows(source, SCHEMA, Findings()))


def test_a_list_in_one_column_and_one_column_in_a_list_are_kept_apart(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": "a", "endings": ["x", "y"], "label": 0}\n')
    plain = load(Source((str(path),)), SCHEMA, tmp_path / "cache", Findings())
    assert list(plain.column("endings")) == [["x", "y"]]
    with pytest.raises(DataError, match=r"rows\.jsonl:1: 'endings' is list"):
        load(Source((str(path),), columns={"endings": ["endings"]}), SCHEMA, tmp_path / "cache", Findings())


def test_a_recipe_names_them_by_number_too():
    values = {"model": "m", "data.train": "t.csv", "data.header": False, "data.columns": {"endings": [2, 3], "text": 1}}
    assert make_recipe(values).data.columns == {"endings": ["2", "3"], "text": "1"}


@pytest.mark.parametrize(("label", "number"), [("1", 1), (1, 1), ("1.0", 1), ("y", 1), ("z", 2)])
def test_a_choice_is_a_number_or_the_text_itself(label, number, tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"text": "a", "endings": ["x", "y", "z"], "label": label}) + "\n")
    [row] = iter_rows(Source((str(path),)), SCHEMA, Findings())
    assert row["label"] == number


@pytest.mark.parametrize(
    ("label", "message"), [("w", "is not among"), ("x", "occurs more than once"), (-1, "whole number")]
)
def test_a_choice_that_is_none_of_the_texts_is_refused(label, message, tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"text": "a", "endings": ["x", "y", "x"], "label": label}) + "\n")
    with pytest.raises(DataError, match=rf"rows\.jsonl:1: 'label' is .*{message}"):
        list(iter_rows(Source((str(path),)), SCHEMA, Findings()))
