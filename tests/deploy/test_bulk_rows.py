"""A corpus cut into shards: every row is in one shard, whatever the format and the text, and a broken one alone is."""

import csv
import gzip
import io
import json
from dataclasses import replace
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warmstart.data.findings import Findings
from warmstart.data.read import iter_rows
from warmstart.data.schema import Column, Schema
from warmstart.data.source import FileColumn, Source
from warmstart.deploy.label.job import LabelJob
from warmstart.deploy.label.locations import Entry, Folder, split
from warmstart.deploy.label.records import parquet_records, text_records
from warmstart.deploy.label.shards import check_unchanged, choose, cut, grouped, read_group, settle, write_group
from warmstart.errors import DataError, RecipeError, RunError

TEXTS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=12), min_size=1, max_size=25)
COLUMNS = (FileColumn(Column("text", "text", "the text"), "text"),)


def as_csv(texts):
    held = io.StringIO()
    csv.writer(held, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows([["n", "text"], *enumerate(texts)])
    return held.getvalue().encode()


def as_jsonl(texts):
    return "".join(
        json.dumps({"n": n, "text": text}, ensure_ascii=False) + "\n" for n, text in enumerate(texts)
    ).encode()


def as_parquet(texts):
    held = io.BytesIO()
    pq.write_table(pa.table({"n": range(len(texts)), "text": pa.array(texts, pa.string())}), held, row_group_size=7)
    return held.getvalue()


def gzipped(write):
    return lambda texts: gzip.compress(write(texts))


MARK = b"\xef\xbb\xbf"
FORMATS = {
    "a.csv": as_csv,
    "marked.csv": lambda texts: MARK + as_csv(texts),
    "a.csv.gz": gzipped(as_csv),
    "a.jsonl": as_jsonl,
    "marked.jsonl": lambda texts: MARK + as_jsonl(texts),
    "a.jsonl.gz": gzipped(as_jsonl),
    "a.parquet": as_parquet,
}


def read(folder, shard, source):
    if shard.file.endswith(".parquet"):
        return list(parquet_records(folder, shard.file, shard.first, shard.rows, ["text"]))
    records = text_records(folder, shard.file, source, shard.start)
    return [next(records) for _ in range(shard.rows)]


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=40, deadline=None)
@given(texts=TEXTS, size=st.integers(1, 30))
def test_every_row_is_in_one_shard_as_it_was_written(name, texts, size):
    with TemporaryDirectory() as path:
        folder, source = Folder(path), Source((name,))
        folder.write(name, FORMATS[name](texts))
        group = cut(LabelJob("", "", folder, folder, source), "group-00000", [(0, name)], COLUMNS, size)
        assert [shard.first for shard in group.shards] == list(range(0, len(texts), size))
        records = [record for shard in group.shards for record in read(folder, shard, source)]
        assert [record.item["text"] for record in records] == texts


BROKEN = {
    "a.jsonl": ['{"n": 1, "text"', "[1]", "", '{"n": 1, "n": 2, "text": ""}', "\xff"],
    "a.csv": ["only one cell", "1,2,3", "", '1,"text" more', '1,"never closed', "1,\xff"],
}


@pytest.mark.parametrize("name", BROKEN)
@settings(max_examples=60, deadline=None)
@given(data=st.data(), size=st.integers(1, 9))
def test_a_broken_row_takes_no_other_along(name, data, size):
    rows = data.draw(st.lists(st.sampled_from([None, *BROKEN[name]]), min_size=1, max_size=12))
    good = '{{"n": {0}, "text": "good {0}"}}' if name == "a.jsonl" else "{0},good {0}"
    lines = [good.format(n) if row is None else row for n, row in enumerate(rows)]
    if rows.count('1,"never closed') > 1:
        return  # the second quote closes the first: then they are one row, and nobody can tell
    with TemporaryDirectory() as path:
        folder, source = Folder(path), Source((name,))
        head = "" if name == "a.jsonl" else "n,text\n"
        folder.write(name, (head + "".join(f"{line}\n" for line in lines)).encode("latin-1"))
        group = cut(LabelJob("", "", folder, folder, source), "group-00000", [(0, name)], COLUMNS, size)
        records = [record for shard in group.shards for record in read(folder, shard, source)]
        if '1,"text" more' in rows and '1,"never closed' in rows:
            return
        assert len(records) == len(rows)
        for n, (row, record) in enumerate(zip(rows, records, strict=True)):
            assert (record.item or {}).get("text") == (f"good {n}" if row is None else None)
            assert bool(record.error) == (row is not None)


def trained_on(path, name, source):
    """The texts that training reads before it refuses the file, and what it says then."""
    texts = []
    try:
        for row in iter_rows(replace(source, files=(f"{path}/{name}",)), Schema((OPTIONAL,)), Findings()):
            texts.append(row["text"])
    except DataError as error:
        return texts, error
    return texts, None


OPTIONAL = Column("text", "text", "the text", required=False)
LINES = {
    "a.csv": st.lists(st.text('a,"\r\t ', max_size=6), max_size=8),
    "a.tsv": st.lists(st.text('a,"\r\t ', max_size=6), max_size=8),
    "a.jsonl": st.lists(
        st.sampled_from(['{"text": "a"}', '{"text": "b"} ', '{"text"', "[1]", '{"a": 1, "a": 2}']), min_size=1
    ),
}


@pytest.mark.parametrize("name", LINES)
@settings(max_examples=150, deadline=None)
@given(data=st.data(), end=st.sampled_from(["\n", "\r\n", ""]))
def test_training_and_labelling_read_the_same_rows_and_name_the_same_fault(name, data, end):
    lines = data.draw(LINES[name])
    if any(not line.strip("\r") for line in lines):
        return  # blank lines at the end are no fault in training
    head = [] if name == "a.jsonl" else ["text,n" if name == "a.csv" else "text\tn"]
    with TemporaryDirectory() as path:
        folder, source = Folder(path), Source((name,), columns={"text": "text"})
        folder.write(name, ("\n".join([*head, *lines]) + end).encode())
        texts, error = trained_on(path, name, source)
        records = list(text_records(folder, name, source))
    broken = next((number for number, record in enumerate(records) if record.error), len(records))
    assert [record.item["text"] for record in records[:broken]][: len(texts)] == texts
    if error is not None and error.kind != "no-rows":
        assert broken == len(texts)
        assert records[broken].error == error.problem
    else:
        assert broken == len(records) == len(texts)


def test_text_that_is_not_utf8_in_parquet_is_a_fault_of_its_row_only(tmp_path):
    column = pa.array([b"good", b"\xff", b"fine"], pa.binary())
    pq.write_table(pa.table({"text": pa.Array.from_buffers(pa.string(), 3, column.buffers())}), tmp_path / "a.parquet")
    records = list(parquet_records(Folder(str(tmp_path)), "a.parquet", 0, 3, ["text"]))
    assert [record.item and record.item["text"] for record in records] == ["good", None, "fine"]
    assert "'text' holds bytes that are not UTF-8" in records[1].error


@given(st.lists(st.text(min_size=1), unique=True, min_size=1), st.integers(1, 9))
def test_every_file_is_in_one_group(names, size):
    groups = grouped(names, size)
    assert [file for _, files in groups for file in files] == list(enumerate(names))
    assert all(len(files) <= size for _, files in groups)


def test_a_plan_comes_back_and_a_changed_file_is_named(tmp_path):
    folder, out = Folder(str(tmp_path / "in")), Folder(str(tmp_path / "out"))
    folder.write("a.jsonl", as_jsonl(["one", "two"]))
    group = cut(LabelJob("", "", folder, folder, Source(("a.jsonl",))), "group-00000", [(0, "a.jsonl")], COLUMNS, 1)
    write_group(out, group)
    assert read_group(out, "group-00000") == group
    check_unchanged(folder, group)
    folder.write("a.jsonl", as_jsonl(["one", "two", "three"]))
    with pytest.raises(RunError, match=r"a\.jsonl was changed .*bytes is"):
        check_unchanged(folder, group)


def test_another_job_in_the_same_place_is_refused_with_what_differs(tmp_path):
    out = Folder(str(tmp_path))
    settle(out, {"model": "a", "rows_per_shard": 10})
    settle(out, {"model": "a", "rows_per_shard": 10})
    with pytest.raises(RunError, match=r"begun with rows_per_shard 10, now it is 20"):
        settle(out, {"model": "a", "rows_per_shard": 20})


def test_hidden_files_are_left_out_by_name_and_unknown_ones_refused():
    entries = [Entry(name, 1, 0) for name in ("_SUCCESS", "a/b.jsonl", ".x/c.jsonl")]
    chosen, left_out = choose(entries, Source(("x",)), "x")
    assert ([one.name for one in chosen], left_out) == (["a/b.jsonl"], ["_SUCCESS", ".x/c.jsonl"])
    with pytest.raises(DataError, match=r"not that of a known format"):
        choose([Entry("notes.md", 1, 0)], Source(("x",)), "x")
    with pytest.raises(RecipeError, match="found format conll"):
        choose([Entry("a.conll", 1, 0)], Source(("x",)), "x")


def test_a_uri_is_read_and_written_as_a_folder_is(tmp_path):
    place = Folder(f"file://{tmp_path}/out")
    place.write("group/a.parquet", b"whole")
    assert place.read("group/a.parquet") == b"whole" == (tmp_path / "out" / "group" / "a.parquet").read_bytes()
    assert [one.name for one in place.files()] == ["group/a.parquet"]
    folder, names = split(f"file://{tmp_path}/out/group/a.parquet")
    assert (folder.uri, names) == (f"file://{tmp_path}/out/group", ["a.parquet"])
    place.remove("group/a.parquet")
    assert place.read("group/a.parquet") is None
