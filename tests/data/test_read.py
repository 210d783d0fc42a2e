"""What was written is what is read; what cannot be read is refused with its line."""

from __future__ import annotations

import csv
import gzip
import io
import json

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from warmstart.data.findings import Findings
from warmstart.data.read import iter_rows
from warmstart.data.schema import Column, Schema
from warmstart.data.source import Source
from warmstart.errors import DataError, RecipeError

SCHEMA = Schema((Column("text", "text", "a text"), Column("label", "label", "a label", answer=True)))
SPICE = st.sampled_from(
    [
        '"',
        '""',
        "\n",
        "\r\n",
        "\r",
        "\t",
        ",",
        "\u2028",
        "\u2029",
        "\x85",
        "\x0b",
        "\x0c",
        "\x1c",
        "\ufeff",
        "😀",
        "é",
        "NA",
    ]
)
CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
ANY_TEXT = st.lists(st.one_of(SPICE, st.text(CHARACTERS, max_size=6)), max_size=8).map("".join).filter(str.strip)
PLAIN_TEXT = ANY_TEXT.map(lambda text: text.replace("\t", "¶").replace("\n", "¶").rstrip("\r")).filter(str.strip)
quick = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def pairs(texts):
    return st.lists(st.tuples(texts, texts), min_size=1, max_size=6)


def back(tmp_path, name, content: bytes, **options):
    path = tmp_path / name
    path.write_bytes(content)
    rows = iter_rows(Source((str(path),), **options), SCHEMA, Findings())
    return [(row["text"], row["label"]) for row in rows]


class TestRoundTrip:
    @quick
    @given(rows=pairs(ANY_TEXT), end=st.sampled_from(["\n", "\r\n"]), zipped=st.booleans())
    def test_csv(self, tmp_path, rows, end, zipped):
        out = io.StringIO(newline="")
        # QUOTE_ALL: the minimal quoting of this Python leaves a lone CR unquoted, which no reader can tell apart.
        writer = csv.writer(out, lineterminator=end, quoting=csv.QUOTE_ALL)
        writer.writerow(["text", "label"])
        writer.writerows(rows)
        content = out.getvalue().encode()
        name, content = ("a.csv.gz", gzip.compress(content, 1, mtime=0)) if zipped else ("a.csv", content)
        assert back(tmp_path, name, content) == rows

    @quick
    @given(rows=pairs(PLAIN_TEXT), end=st.sampled_from(["\n", "\r\n"]))
    def test_tsv_without_quotes(self, tmp_path, rows, end):
        content = "".join(f"{text}\t{label}{end}" for text, label in [("text", "label"), *rows])
        assert back(tmp_path, "a.tsv", content.encode()) == rows

    @quick
    @given(rows=pairs(ANY_TEXT), ascii=st.booleans(), encoding=st.sampled_from(["utf-8", "utf-16", "utf-8-sig"]))
    def test_jsonl(self, tmp_path, rows, ascii, encoding):
        lines = [json.dumps({"text": text, "label": label}, ensure_ascii=ascii) + "\n" for text, label in rows]
        assert back(tmp_path, "a.jsonl", "".join(lines).encode(encoding), encoding=encoding) == rows

    @quick
    @given(rows=pairs(ANY_TEXT))
    def test_parquet(self, tmp_path, rows):
        sink = io.BytesIO()
        columns = dict(zip(["text", "label"], map(list, zip(*rows, strict=True)), strict=True))
        pq.write_table(pa.table(columns), sink)
        assert back(tmp_path, "a.parquet", sink.getvalue()) == rows


class TestWhereRowsAre:
    def test_a_row_is_numbered_by_the_line_where_it_starts(self, put, rows_of):
        rows, _ = rows_of(put("a.csv", 'text,label\n"one\ntwo\r\nthree",x\nfour,y\n'))
        assert [(row["text"], row["line"]) for row in rows] == [("one\ntwo\r\nthree", 2), ("four", 5)]

    def test_several_files_keep_their_order_and_index(self, put, rows_of):
        files = [put("b.csv", "text,label\nb,1\n"), put("a.jsonl", '{"text": "a", "label": 1}\n')]
        rows, _ = rows_of(files)
        assert [(row["text"], row["file"], row["line"]) for row in rows] == [("b", 0, 2), ("a", 1, 1)]

    def test_an_optional_column_is_read_only_when_mapped(self, put, rows_of):
        file = put("a.csv", "text,pair,label\na,b,c\n")
        assert "pair" not in rows_of(file)[0][0]
        assert rows_of(file, columns={"pair": "pair"})[0][0]["pair"] == "b"

    def test_columns_by_number_without_a_header(self, put, rows_of):
        rows, _ = rows_of(put("a.tsv", "0\tbad\n1\tgood\n"), header=False, columns={"text": "2", "label": "1"})
        assert [(row["text"], row["label"], row["line"]) for row in rows] == [("bad", "0", 1), ("good", "1", 2)]


FAULTS = [
    ("a.csv", "text,label\na,b\nc\n", {}, ":3: found 1 cells, expected 2"),
    ("a.csv", "text,label\na,b\nc,d,e\n", {}, ":3: found 3 cells.*--extra-columns ignore"),
    ("a.csv", "text,label\na,b\nc\n", {"extra_columns": "ignore"}, ":3: found 1 cells"),
    ("a.csv", "text,label\na,b\n\nc,d\n", {}, ":3: a blank line"),
    ("a.tsv", "text\tlabel\na\tb\n\nc\td\n", {}, ":3: a blank line"),
    ("a.csv", 'text,label\na,b\n"c,d\ne,f\ng,h\n', {}, ":3: a quoted cell.*never closed"),
    ("a.csv", 'text,label\n"a"x,b\n', {}, ":2: text follows a closing quote"),
    ("a.csv", "text,label\na\rb,c\n", {}, ":2: a carriage return stands alone"),
    ("a.csv", "text,label\na,b\r\r\n", {}, ":2: a carriage return stands alone"),
    ("a.csv", "text,label\ra,b\r", {}, ":1: a carriage return stands alone"),
    ("a.tsv", "text\tlabel\na\tb\r", {}, ":2: the file ends in a carriage return"),
    ("a.csv", "text,text,label\na,b,c\n", {}, ":1: the header names 'text' more than once"),
    ("a.csv", "txt,label\na,b\n", {}, ":1: no column 'text'.*'txt', 'label'.*Did you mean 'txt'"),
    ("a.csv", "a,b\n", {"columns": {"text": "1", "label": "2"}}, "--no-header"),
    ("a.csv", "a,b\n", {"header": False}, "no column 'text'.*'1', '2'"),
    ("a.csv", "a,b\nc,d\n", {}, "no column 'text'.*, nor 'label' for 'label'.*: --text NAME --label NAME"),
    ("a.csv", "text,label\n ,b\n", {}, ":2: 'text' is only whitespace"),
    ("a.csv", "text,label\n,b\n", {}, ":2: 'text' is empty"),
    ("a.csv", "text,label\na,b\nc,\n", {}, ":3: no answer in 'label'.*--drop unlabelled"),
    ("a.csv", "text,label\na\0b,c\n", {}, ":2: 'text' has a NUL character at position 2"),
    ("a.csv", b"text,label\nab,c\ncaf" + b"\xe9,x\n", {}, r":3: byte 0xE9 at column 4 .*--encoding cp1252"),
    ("a.csv", "text,label\na,b\n".encode("utf-16"), {}, ":1: .*--encoding utf-16"),
    ("a.csv", "text,label\na,b\n".encode("utf-16-le"), {}, "NUL characters in the header.*utf-16-le"),
    ("a.csv", "text,label\na,b\n".encode("utf-8-sig"), {"encoding": "latin-1"}, ":1: .*--encoding utf-8"),
    ("a.csv", "text,label\na,b\n", {"encoding": "utf-16"}, "utf-16-le or utf-16-be"),
    ("a.csv", "text,label\na,b\n", {"encoding": "klingon"}, "no encoding 'klingon'"),
    ("a.csv", gzip.compress(b"text,label\na,b\n", mtime=0), {}, "rename the file"),
    ("a.csv.gz", gzip.compress(b"text,label\n" + b"a,b\n" * 99, mtime=0)[:-9], {}, "cannot be unpacked"),
    ("a.csv.gz", b"text,label\na,b\n", {}, "cannot be unpacked"),
    ("a.csv", "", {}, "no rows"),
    ("a.csv", "text,label\n", {}, "no rows.*--no-header"),
    ("a.xls", "text,label\na,b\n", {}, "--format conll, csv, json, jsonl, ods, parquet, qrels, tsv, txt, xlsx"),
    (
        "a.jsonl",
        '{"text": "a", "label": 1}\n{"text": "b", "text": "c", "label": 1}\n',
        {},
        ":2: the key 'text' occurs twice",
    ),
    ("a.jsonl", '{"text": "a", "label": 1}\n{"text": "b" "label": 1}\n', {}, ":2: not JSON at column 14"),
    ("a.jsonl", '[{"text": "a", "label": 1}]\n', {}, ":1: found a JSON list"),
    ("a.jsonl", '{"text": "a", "label": 1}\n\n{"text": "b", "label": 1}\n', {}, ":2: a blank line"),
    ("a.jsonl", '{"txt": "a", "label": 1}\n', {}, ":1: no column 'text'.*Did you mean 'txt'"),
    ("a.jsonl", '{"text": null, "label": 1}\n', {}, ":1: 'text' is null"),
    ("a.jsonl", '{"text": 3, "label": 1}\n', {}, ":1: 'text' is int 3"),
    ("a.jsonl", '{"text": "a", "label": null}\n', {}, ":1: no answer"),
    ("a.jsonl", '{"text": "a"}\n', {}, ":1: no answer"),
    ("a.jsonl", '{"text": "a", "label": NaN}\n', {}, ":1: 'label' is float nan"),
    ("a.jsonl", '{"text": "a", "label": {"x": 1}}\n', {}, ":1: 'label' is dict"),
    ("a.jsonl", '{"text": "a\\ud800", "label": 1}\n', {}, r":1: 'text' has a lone surrogate \(U\+D800\) at position 2"),
    ("a.jsonl", '{"text": "a\\u0000", "label": 1}\n', {}, ":1: 'text' has a NUL"),
    ("a.jsonl", "[" * 100_000 + "\n", {}, ":1: "),
    ("a.parquet", b"PAR1 not really", {}, "not readable as Parquet"),
]


class TestFaults:
    @pytest.mark.parametrize(("name", "content", "options", "message"), FAULTS)
    def test_a_fault_is_named_with_its_line(self, put, rows_of, name, content, options, message):
        with pytest.raises(DataError, match=f"(?s){message}") as caught:
            rows_of(put(name, content), **options)
        assert name in str(caught.value)

    def test_a_folder_or_a_missing_file(self, tmp_path, rows_of):
        with pytest.raises(DataError, match="is a folder"):
            rows_of(str(tmp_path))
        with pytest.raises(DataError, match="no such file"):
            rows_of(str(tmp_path / "no.csv"))

    def test_a_bad_byte_far_into_the_file(self, put, rows_of):
        content = "text,label\n" + "häuser,x\n" * 50_000
        with pytest.raises(DataError, match=":50002: byte 0xFF at column 3"):
            rows_of(put("a.csv", content.encode() + b"ok\xff,x\n"))

    @pytest.mark.parametrize("value", ["x", "nan", "inf", "1_000", "1e999", "3,5"])
    def test_a_number_must_be_finite(self, put, rows_of, score, value):
        with pytest.raises(DataError, match=r":3: 'label' is .* Expected a"):
            rows_of(put("a.tsv", f"text\tlabel\na\t1\nb\t{value}\n"), schema=score)

    @pytest.mark.parametrize("value", ["NaN", "Infinity", "true", "[1]", "1e999", "9" * 400])
    def test_a_json_number_must_be_one(self, put, rows_of, score, value):
        with pytest.raises(DataError, match=":1: 'label' is "):
            rows_of(put("a.jsonl", f'{{"text": "a", "label": {value}}}\n'), schema=score)

    def test_a_column_the_task_does_not_have(self, put, rows_of):
        with pytest.raises(RecipeError, match=r"'labl'.*did you mean 'label'"):
            rows_of(put("a.csv", "text,label\na,b\n"), columns={"labl": "x"})

    def test_impossible_sources(self):
        for files, options in [((), {}), ("a.csv", {}), (("hub:a:b", "c.csv"), {}), (("a",), {"label_separator": ""})]:
            with pytest.raises(RecipeError):
                Source(files, **options)


class TestFindings:
    def test_a_byte_order_mark_is_skipped_and_noted(self, put, rows_of):
        rows, findings = rows_of(put("a.csv", '\ufeff"text",label\na,b\n'))
        assert rows[0]["text"] == "a"
        assert [finding.kind for finding in findings] == ["bom"]

    def test_blank_lines_at_the_end_are_noted(self, put, rows_of):
        for name, content in [("a.csv", "text,label\na,b\n\n\r\n"), ("a.jsonl", '{"text": "a", "label": 1}\n\n \n')]:
            rows, findings = rows_of(put(name, content))
            assert len(rows) == 1
            assert [(item.kind, item.count) for item in findings if item.kind != "line-ends"] == [("blank-end", 2)]

    def test_mixed_line_ends_are_noted(self, put, rows_of):
        for name, cell in [("a.csv", ","), ("a.tsv", "\t")]:
            rows, findings = rows_of(put(name, f"text{cell}label\na{cell}b\r\nc{cell}d\n"))
            assert [row["label"] for row in rows] == ["b", "d"]
            assert findings.count("line-ends") == 1

    def test_unlabelled_rows_are_dropped_only_on_request_and_counted(self, put, rows_of):
        content = "text,label\n" + "a,b\n" + "c,  \n" * 30
        rows, findings = rows_of(put("a.csv", content), drop=("unlabelled",))
        assert len(rows) == 1
        assert findings.count("unlabelled") == 30
        assert [item.location.line for item in findings][:3] == [3, 4, 5]
        assert len(findings) == 21
        assert list(findings)[-1].count == 10
        again = Findings()
        again.extend(findings)
        assert again.as_json() == findings.as_json()

    def test_blank_lines_and_rows_without_text_are_dropped_only_on_request(self, put, rows_of):
        file = put("a.csv", "Nachricht,label\na,b\n\n,\nc,d\n")
        with pytest.raises(DataError, match=r":3: a blank line between rows.*--drop empty"):
            rows_of(file, columns={"text": "Nachricht"})
        rows, findings = rows_of(file, drop=("empty",), columns={"text": "Nachricht"})
        assert [row["text"] for row in rows] == ["a", "c"]
        blank, empty = findings
        assert (blank.location.line, blank.message) == (3, "no text; the row was dropped")
        assert (empty.location.line, empty.message) == (4, "no text in 'Nachricht'; the row was dropped")

    def test_all_rows_unlabelled_is_an_error(self, put, rows_of):
        with pytest.raises(DataError, match=r"all 1 rows were dropped.*'labl'"):
            rows_of(put("a.jsonl", '{"text": "a"}\n'), drop=("unlabelled",), columns={"label": "labl"})

    def test_extra_cells_are_counted_when_ignored(self, put, rows_of):
        rows, findings = rows_of(put("a.csv", "text,label\na,b,c\nd,e\n"), extra_columns="ignore")
        assert [row["text"] for row in rows] == ["a", "d"]
        assert [(item.kind, item.location.line) for item in findings] == [("extra-cells", 2)]

    def test_labels_are_kept_to_the_letter(self, put, rows_of):
        names = ["NA", "null", "nan", "None", "0", "01", " spaced "]
        rows, findings = rows_of(put("a.csv", "text,label\n" + "".join(f"a,{name}\n" for name in names)))
        assert [row["label"] for row in rows] == names
        assert [(item.kind, item.location.line) for item in findings] == [("label-space", 8)]


class TestKinds:
    def test_json_labels_take_their_json_spelling(self, put, rows_of):
        values = ["1", "true", "false", "1.0", "2.5", '"1"']
        content = "".join(f'{{"text": "a", "label": {value}}}\n' for value in values)
        rows, findings = rows_of(put("a.jsonl", content))
        assert [row["label"] for row in rows] == ["1", "true", "false", "1.0", "2.5", "1"]
        assert findings.count("label-types") == 3

    def test_labels_from_a_list_or_a_separated_cell(self, put, rows_of, many):
        file = put("a.jsonl", '{"text": "a", "label": ["x", 1]}\n{"text": "b", "label": []}\n')
        assert [row["label"] for row in rows_of(file, schema=many)[0]] == [["x", "1"], []]
        file = put("a.csv", "text,label\na,x;y\nb,\nc,z\n")
        rows = rows_of(file, schema=many, label_separator=";")[0]
        assert [row["label"] for row in rows] == [["x", "y"], [], ["z"]]
        with pytest.raises(DataError, match=r":2: .*data\.label_separator"):
            rows_of(file, schema=many)
        with pytest.raises(DataError, match=r":2: .*empty label"):
            rows_of(put("b.csv", "text,label\na,x;;y\n"), schema=many, label_separator=";")

    def test_null_labels_are_unlabelled_but_an_empty_list_is_an_answer(self, put, rows_of, many):
        file = put("a.jsonl", '{"text": "a", "label": null}\n{"text": "b", "label": []}\n')
        rows, findings = rows_of(file, schema=many, drop=("unlabelled",))
        assert [row["line"] for row in rows] == [2]
        assert findings.count("unlabelled") == 1

    @pytest.mark.parametrize(
        ("array", "labels"),
        [
            (pa.array(["x", "y"]), ["x", "y"]),
            (pa.array(["x", "y"]).dictionary_encode(), ["x", "y"]),
            (pa.array([1, 0], pa.int8()), ["1", "0"]),
            (pa.array([True, False]), ["true", "false"]),
        ],
    )
    def test_parquet_labels(self, tmp_path, rows_of, array, labels):
        file = str(tmp_path / "a.parquet")
        pq.write_table(pa.table({"unread": [1, 2], "label": array, "text": ["a", "b"]}), file)
        rows, _ = rows_of(file)
        assert [(row["text"], row["label"], row["line"]) for row in rows] == [("a", labels[0], 1), ("b", labels[1], 2)]

    def test_a_parquet_column_with_a_dot_in_its_name(self, tmp_path, rows_of):
        file = str(tmp_path / "a.parquet")
        pq.write_table(pa.table({"a.b": ["x"], "a": [{"b": "nested"}], "label": ["y"]}), file)
        assert rows_of(file, columns={"text": "a.b"})[0][0]["text"] == "x"

    def test_parquet_faults(self, tmp_path, rows_of, many):
        file = str(tmp_path / "a.parquet")
        pq.write_table(pa.table({"label": [1.0, None], "text": ["a", "b"]}), file)
        with pytest.raises(DataError, match="'label' holds double"):
            rows_of(file)
        pq.write_table(pa.table({"label": [["x"], ["y", "z"]], "text": ["a", None]}), file)
        with pytest.raises(DataError, match=r"a\.parquet:row 2: 'text' is null"):
            rows_of(file, schema=many)


class TestHub:
    @pytest.fixture
    def folder(self, tmp_path, monkeypatch):
        monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "hf")
        features = datasets.Features(
            {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["neg", "pos"])}
        )
        rows = datasets.Dataset.from_dict({"text": ["a", "b", "c"], "label": [1, 0, -1]}, features=features)
        (tmp_path / "set").mkdir()
        rows.to_parquet(str(tmp_path / "set" / "train.parquet"))
        return tmp_path / "set"

    def test_class_numbers_become_names_and_minus_one_no_label(self, folder, rows_of):
        rows, findings = rows_of(f"hub:{folder}:train", drop=("unlabelled",))
        assert [(row["text"], row["label"], row["line"]) for row in rows] == [("a", "pos", 1), ("b", "neg", 2)]
        assert findings.count("unlabelled") == 1
        with pytest.raises(DataError, match="train:row 3: no answer"):
            rows_of(f"hub:{folder}:train")
        assert len(rows_of(f"hub:{folder}:train[:2]")[0]) == 2

    def test_a_class_number_without_a_name_is_refused(self, folder, rows_of):
        file = folder / "train.parquet"
        table = pq.read_table(file)
        pq.write_table(table.set_column(1, table.schema.field("label"), pa.array([1, -2, 0])), file)
        with pytest.raises(DataError, match="train"):
            rows_of(f"hub:{folder}:train")

    def test_what_cannot_be_loaded_is_a_data_error(self, folder, rows_of):
        for file in [f"hub:{folder}:nope", f"hub:{folder}", "hub:"]:
            with pytest.raises(DataError, match="hub:"):
                rows_of(file)


@pytest.mark.real
class TestRealFiles:
    def test_tab_separated_without_header(self, shared_data, rows_of):
        file = str(shared_data / "measure-only/rt-polarity/train.tsv")
        rows, _ = rows_of(file, header=False, columns={"label": "1", "text": "2"})
        assert len(rows) == 9596
        assert {row["label"] for row in rows} == {"0", "1"}

    def test_scores_with_cells_to_spare(self, shared_data, rows_of, score):
        file = str(shared_data / "measure-only/stsb/sts-train.csv")
        options = {"format": "tsv", "header": False, "columns": {"text": "6", "pair": "7", "label": "5"}}
        rows, findings = rows_of(file, schema=score, extra_columns="ignore", **options)
        assert len(rows) == 5749
        assert findings.count("extra-cells") > 0
        with pytest.raises(DataError, match="--extra-columns ignore"):
            rows_of(file, schema=score, **options)

    def test_json_lines_with_unlabelled_rows(self, shared_data, rows_of):
        file = str(shared_data / "open/boolq/combined.jsonl.gz")
        rows, findings = rows_of(
            file, columns={"text": "question", "pair": "passage", "label": "label"}, drop=("unlabelled",)
        )
        assert {row["label"] for row in rows} == {"true", "false"}
        with gzip.open(file) as lines:
            assert len(rows) + findings.count("unlabelled") == sum(1 for _ in lines)

    def test_quoted_cells(self, shared_data, rows_of):
        rows, _ = rows_of(str(shared_data / "open/banking77/banking_data/train.csv"), columns={"label": "category"})
        assert len(rows) == 10003
        assert len({row["label"] for row in rows}) == 77

    def test_long_texts_compressed(self, shared_data, rows_of):
        file = str(shared_data / "measure-only/imdb/train.csv.gz")
        rows, _ = rows_of(file, columns={"text": "review", "label": "sentiment"})
        assert len(rows) == 25000


class TestUnreadColumns:
    """A column that the task could read, but that no option names."""

    CSV = "text,pair,label\na,b,c\n"

    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("a.csv", CSV),
            ("a.tsv", CSV.replace(",", "\t")),
            ("a.jsonl", '{"text": "a", "pair": "b", "label": "c"}\n'),
            ("a.json", '[{"text": "a", "pair": "b", "label": "c"}]'),
        ],
    )
    def test_are_reported_once_for_each_file(self, put, rows_of, name, content):
        path = put(name, content)
        rows, findings = rows_of(path)
        assert "pair" not in rows[0]
        (finding,) = findings
        assert (finding.kind, finding.severity, finding.location.file) == ("column-unread", "warning", path)
        assert "--pair pair (data.columns.pair)" in finding.message

    def test_of_parquet_and_spreadsheets_are_reported(self, tmp_path, rows_of):
        import openpyxl

        pq.write_table(pa.table({"text": ["a"], "pair": ["b"], "label": ["c"]}), tmp_path / "a.parquet")
        book = openpyxl.Workbook()
        for row in (("text", "pair", "label"), ("a", "b", "c")):
            book.active.append(row)
        book.save(tmp_path / "a.xlsx")
        for name in ("a.parquet", "a.xlsx"):
            assert [finding.kind for finding in rows_of(str(tmp_path / name))[1]] == ["column-unread"], name

    def test_are_none_where_the_column_is_named_or_fills_another(self, put, rows_of):
        path = put("a.csv", self.CSV)
        for columns in ({"pair": "pair"}, {"text": "pair"}, {"pair": "text"}):
            assert not list(rows_of(path, columns=columns)[1]), columns

    def test_are_none_in_a_file_without_header(self, put, rows_of):
        columns = {"text": "1", "label": "3"}
        assert not list(rows_of(put("a.csv", self.CSV), header=False, columns=columns)[1])

    def test_are_no_ids_and_none_of_a_file_to_be_answered(self, put, classify):
        path = put("a.csv", "text,pair,id,label\na,b,1,c\n")
        schema = Schema((*classify, Column("id", "label", "the id of the row", required=False)))
        for read, expected in ((schema, ["'pair'"]), (schema.without_answers(), [])):
            findings = Findings()
            list(iter_rows(Source((path,)), read, findings))
            assert [finding.message.split()[2] for finding in findings] == expected
