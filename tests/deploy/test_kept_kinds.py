"""A column that is kept beside the answers keeps its type."""

import pyarrow as pa
import pytest

from warmstart.deploy.label.kept_kinds import as_kind, asked_kinds, kinds_in_rows, kinds_in_schema


def test_the_kind_is_that_of_the_parquet_file_unless_text_is_asked_for():
    schema = pa.schema(
        {"id": pa.int32(), "big": pa.uint64(), "score": pa.float32(), "new": pa.bool_(), "day": pa.date32()}
    )
    kinds = kinds_in_schema(schema, asked_kinds(["id", "big", "score", "new", "day"]))
    assert kinds == {"id": "whole", "big": "text", "score": "number", "new": "yes", "day": "text"}
    assert kinds_in_schema(schema, asked_kinds(["id=text"])) == {"id": "text"}


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2, None], "whole"),
        ([1, 2.5], "number"),
        ([True, False], "yes"),
        ([1, True], "text"),
        ([1, "2"], "text"),
        (["1"], "text"),
        ([1 << 63], "text"),
        ([{"a": 1}], "text"),
        ([None], "text"),
        ([], "text"),
    ],
)
def test_the_kind_of_a_jsonl_column_is_that_of_its_first_rows(values, kind):
    assert kinds_in_rows([{"x": value} for value in values], asked_kinds(["x"])) == {"x": kind}


def test_a_value_that_does_not_fit_says_what_to_type():
    assert as_kind("id", 7, "whole") == (7, "")
    assert as_kind("id", 7, "number") == (7.0, "")
    assert as_kind("id", None, "whole") == (None, "")
    assert as_kind("id", [1, "ä"], "text") == ('[1, "ä"]', "")
    kept, error = as_kind("id", "A7", "whole")
    assert kept is None
    assert "'id' is \"A7\"" in error
    assert "--keep-column id=text" in error
