"""A table is read once, opened memory-mapped, and never believed when damaged."""

from __future__ import annotations

import json
import subprocess
import sys
import threading

import datasets
import numpy as np
import pyarrow as pa
import pytest

from warmstart.data import row_cache
from warmstart.data.arrow_files import write_arrow
from warmstart.data.findings import Findings
from warmstart.data.source import Source
from warmstart.data.table import from_rows, load
from warmstart.errors import DataError

CONTENT = 'text,label\n"a\nb",x\nc,\nd,y \n'


def opened(file, schema, folder, **options):
    findings = Findings()
    drop = options.pop("drop", ("unlabelled",))
    return load(Source((file,), **options), schema, folder, findings, drop=drop), findings


class TestLoad:
    def test_rows_know_where_they_came_from(self, put, tmp_path, classify):
        file = put("train.csv", CONTENT)
        table, findings = opened(file, classify, tmp_path / "cache")
        assert len(table) == 2
        assert table.rows.column_names == ["text", "label", "file", "line"]
        assert [str(table.location(index)) for index in range(2)] == [f"{file}:2", f"{file}:5"]
        assert list(table.column("label")) == ["x", "y "]
        assert [item.kind for item in findings] == ["unlabelled", "label-space"]

    def test_a_second_call_reads_nothing_and_tells_the_same(self, put, tmp_path, classify, monkeypatch):
        first, before = opened(put("train.csv", CONTENT), classify, tmp_path / "cache")
        monkeypatch.setattr(row_cache, "iter_rows", None)
        again, after = opened(put("train.csv", CONTENT), classify, tmp_path / "cache")
        assert again.fingerprint == first.fingerprint
        assert again.rows[:] == first.rows[:]
        assert after.as_json() == before.as_json()
        # The same bytes under another name are the same rows, and findings speak of today's name.
        renamed, later = opened(put("other.csv", CONTENT), classify, tmp_path / "cache")
        assert str(renamed.location(0)).endswith("other.csv:2")
        assert {item.location.file for item in later} == {renamed.files[0]}

    def test_the_key_knows_all_that_affects_the_rows(self, put, tmp_path, classify, many):
        file = put("a.csv", "text,label,more\na,b,c\n")
        other = put("b.csv", "text,label,more\na,b,d\n")
        kinds = [
            opened(file, classify, tmp_path),
            opened(other, classify, tmp_path),
            opened(file, classify, tmp_path, columns={"label": "more"}),
            opened(file, classify, tmp_path, columns={"pair": "more"}),
            opened(file, classify, tmp_path, drop=()),
            opened(file, classify, tmp_path, encoding="latin-1"),
            opened(file, many, tmp_path, label_separator=";"),
            opened(file, many, tmp_path, label_separator="|"),
            opened(file, classify.without_answers(), tmp_path),
        ]
        assert len({table.fingerprint for table, _ in kinds}) == len(kinds)

    @pytest.mark.parametrize("damage", ["flip", "cut", "manifest", "no rows"])
    def test_a_damaged_copy_is_read_again(self, put, tmp_path, classify, damage):
        file = put("train.csv", CONTENT)
        table, _ = opened(file, classify, tmp_path / "cache")
        expected = table.rows[:]
        folder = tmp_path / "cache" / table.fingerprint
        arrow = folder / "rows.arrow"
        content = bytearray(arrow.read_bytes())
        if damage == "flip":
            content[len(content) // 2] ^= 1
            arrow.write_bytes(content)
        elif damage == "cut":
            arrow.write_bytes(content[: len(content) // 2])
        elif damage == "manifest":
            (folder / "manifest.json").write_text("{")
        else:
            arrow.unlink()
        again, findings = opened(file, classify, tmp_path / "cache")
        assert again.rows[:] == expected
        assert findings.count("cache") == 1

    def test_a_fault_leaves_nothing_behind(self, put, tmp_path, classify):
        with pytest.raises(DataError, match=":4: found 1"):
            opened(put("a.csv", "text,label\na,b\nc,d\ne\n"), classify, tmp_path / "cache")
        assert list((tmp_path / "cache").iterdir()) == []

    def test_a_file_that_changes_while_read_is_refused(self, put, tmp_path, classify, monkeypatch):
        file = put("a.csv", "text,label\na,b\n")
        reading = row_cache.iter_rows

        def slow(*args, **options):
            yield from reading(*args, **options)
            put("a.csv", "text,label\na,b\nc,d\n")

        monkeypatch.setattr(row_cache, "iter_rows", slow)
        with pytest.raises(DataError, match="changed while being read"):
            opened(file, classify, tmp_path / "cache")

    def test_two_at_once_get_the_same_rows(self, put, tmp_path, classify):
        file = put("a.csv", "text,label\n" + "a,b\n" * 5000)
        tables = []
        work = [
            threading.Thread(target=lambda: tables.append(opened(file, classify, tmp_path / "cache")[0]))
            for _ in range(4)
        ]
        for thread in work:
            thread.start()
        for thread in work:
            thread.join()
        assert [len(table) for table in tables] == [5000] * 4
        assert [item.name for item in (tmp_path / "cache").iterdir()] == [tables[0].fingerprint]

    def test_a_hub_folder_is_stored_too(self, tmp_path, classify, monkeypatch):
        monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "hf")
        (tmp_path / "set").mkdir()
        rows = datasets.Dataset.from_dict({"text": ["a", "b"], "label": ["x", "y"]})
        rows.to_parquet(str(tmp_path / "set" / "train.parquet"))
        file = f"hub:{tmp_path / 'set'}:train"
        table, _ = opened(file, classify, tmp_path / "cache")
        assert str(table.location(1)) == f"{file}:row 2"
        assert opened(file, classify, tmp_path / "cache")[0].fingerprint == table.fingerprint


class TestSelect:
    @pytest.mark.parametrize("shuffled", [False, True])
    def test_selected_rows_come_in_the_order_asked(self, tmp_path, classify, shuffled):
        table = from_rows(({"text": f"t{i}", "label": str(i % 3)} for i in range(50_000)), classify, tmp_path)
        indices = np.arange(1, 50_000, 7)
        if shuffled:
            indices = np.random.default_rng(0).permutation(indices)[:500]
        chosen = table.select(indices)
        assert list(chosen.column("text")) == [f"t{i}" for i in indices]
        assert [values for (part,) in chosen.arrays(["line"], size=3) for values in part.to_pylist()] == [
            i + 1 for i in indices
        ]
        nested = chosen.select([5, 2])
        assert (
            [row["text"] for row in nested.rows] == list(nested.column("text")) == [f"t{indices[5]}", f"t{indices[2]}"]
        )
        assert str(nested.location(1)) == f"memory:row {indices[2] + 1}"
        assert len({table.fingerprint, chosen.fingerprint, nested.fingerprint}) == 3

    def test_none_and_too_many(self, tmp_path, classify):
        table = from_rows([{"text": "a", "label": "b"}], classify, tmp_path)
        assert list(table.select([]).column("text")) == []
        with pytest.raises(IndexError):
            table.select([1])
        with pytest.raises(DataError, match="did you mean 'label'"):
            list(table.column("labl"))


class TestFromRows:
    def test_rows_are_checked_as_a_files_are(self, tmp_path, classify):
        table = from_rows([{"text": "a", "label": np.int64(1)}, {"text": "b", "label": True}], classify, tmp_path)
        assert list(table.column("label")) == ["1", "true"]
        assert str(table.location(1)) == "memory:row 2"

    @pytest.mark.parametrize(
        ("row", "message"),
        [
            ({"text": "", "label": "x"}, "'text' is empty"),
            ({"text": 3, "label": "x"}, "'text' is int 3"),
            ({"text": "a\ud800", "label": "x"}, "lone surrogate"),
            ({"text": "a", "label": None}, "'label' is missing"),
            ({"text": "a", "label": float("nan")}, "'label' is float nan"),
            ({"text": "a"}, "has no 'label'"),
            ({"text": "a", "label": "x", "pairs": "y"}, "holds 'pairs'"),
        ],
    )
    def test_a_fault_names_its_row(self, tmp_path, classify, row, message):
        with pytest.raises(DataError, match=f"mine:row 2: .*{message}"):
            from_rows([{"text": "ok", "label": "x"}, row], classify, tmp_path, name="mine")
        assert list(tmp_path.iterdir()) == []

    def test_an_optional_column_counts_when_the_first_row_has_it(self, tmp_path, classify):
        table = from_rows([{"text": "a", "pair": "b", "label": "c"}], classify, tmp_path)
        assert table.rows.column_names == ["text", "pair", "label", "file", "line"]

    def test_no_rows(self, tmp_path, classify):
        with pytest.raises(DataError, match="no rows"):
            from_rows([], classify, tmp_path)

    def test_the_fingerprint_is_of_the_content(self, tmp_path, classify):
        prints = [
            from_rows([{"text": text, "label": "x"}], classify, tmp_path / str(number)).fingerprint
            for number, text in enumerate("aab")
        ]
        assert prints[0] == prints[1] != prints[2]


class TestWrite:
    def test_token_lists(self, tmp_path):
        batches = [{"ids": [[1, 2], []], "label": [0, 1]}, {"ids": [np.arange(3)], "label": [2]}]
        data = write_arrow(iter(batches), tmp_path / "deep" / "tokens.arrow")
        assert data[:] == {"ids": [[1, 2], [], [0, 1, 2]], "label": [0, 1, 2]}
        assert data.cache_files
        assert data.data.schema.field("ids").type == pa.list_(pa.int32())  # half the bytes of Python's own

    def test_no_batches_is_an_empty_data_set(self, tmp_path):
        data = write_arrow([], tmp_path / "a.arrow", pa.schema([("a", pa.string())]))
        assert len(data) == 0
        assert data.column_names == ["a"]


def test_memory_stays_bounded(tmp_path):
    file = tmp_path / "big.csv"
    with file.open("w", encoding="utf-8") as out:
        out.write("text,label\n")
        body = "word " * 160
        out.writelines(f"{body}{number},c{number % 7}\n" for number in range(300_000))  # 240 MB of text
    script = """
import json, sys
from pathlib import Path
import psutil
from warmstart.data.findings import Findings
from warmstart.data.source import Source
from warmstart.data.table import load
from warmstart.data.schema import Column, Schema
schema = Schema((Column("text", "text", "t"), Column("label", "label", "l", answer=True)))
# Pages of a memory-mapped file can be taken back at any time: what counts is memory of one's own.
own = lambda: psutil.Process().memory_info().rss - psutil.Process().memory_info().shared
before = own()
table = load(Source((sys.argv[1],)), schema, Path(sys.argv[2]), Findings())
labels = sum(1 for _ in table.column("label"))
print(json.dumps({"grown": own() - before, "rows": len(table), "labels": labels,
                  "mapped": len(table.rows.cache_files)}))
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(file), str(tmp_path / "cache")], capture_output=True, text=True, check=True
    )
    measured = json.loads(done.stdout)
    assert measured["rows"] == measured["labels"] == 300_000
    assert measured["mapped"] == 1
    assert measured["grown"] < 150e6
