"""Rows that refer to their texts by id: every id has its text, or the error names the line."""

from dataclasses import replace

import pytest

from warmstart import tasks
from warmstart.data.findings import Findings
from warmstart.data.read import iter_rows
from warmstart.data.source import Source
from warmstart.data.table import from_rows, load
from warmstart.errors import DataError, RecipeError

SCHEMA = tasks.schema_of("rank", {})
QUERIES = "id\ttext\nq1\twhere is it\nq2\twho was there\n"
DOCUMENTS = '{"id": "d1", "text": "in paris"}\n{"id": 7, "text": "alice"}\n{"id": "d9", "text": "nobody asked"}\n'


@pytest.fixture
def source(tmp_path):
    def make(rows, name="rows.qrels", queries=QUERIES, documents=DOCUMENTS, **more):
        for file, text in {name: rows, "queries.tsv": queries, "documents.jsonl": documents}.items():
            (tmp_path / file).write_text(text)
        texts = {part: Source((str(tmp_path / file),)) for part, file in FILES.items()}
        return Source((str(tmp_path / name),), **{**texts, **more})

    return make


FILES = {"queries": "queries.tsv", "documents": "documents.jsonl"}


def test_judgements_get_their_texts(source):
    rows = list(iter_rows(source("q1 0 d1 1\nq2\t0\t7\t0\n q1 Q0 7 -1 \n\n"), SCHEMA, Findings()))
    assert [(row["query"], row["document"], row["label"], row["line"]) for row in rows] == [
        ("where is it", "in paris", 1, 1),
        ("who was there", "alice", 0, 2),
        ("where is it", "alice", -1, 3),
    ]
    assert [(row["query_id"], row["document_id"]) for row in rows] == [("q1", "d1"), ("q2", "7"), ("q1", "7")]


def test_a_table_of_ids_is_joined_too(source):
    table = source("qid,label,document_id\nq2,3,d1\n", "rows.csv", columns={"query_id": "qid"})
    [row] = iter_rows(table, SCHEMA, Findings())
    assert (row["query"], row["document"], row["label"]) == ("who was there", "in paris", 3)


def test_the_collection_comes_with_the_rows_and_counts_in_their_fingerprint(source, tmp_path):
    table = load(source("q1 0 d1 1\n"), SCHEMA, tmp_path / "cache", Findings())
    assert list(table.documents.column("text")) == ["in paris", "alice", "nobody asked"]
    assert list(table.select([0]).documents.column("id")) == ["d1", "7", "d9"]
    other = source("q1 0 d1 1\n", documents=DOCUMENTS.replace("paris", "london"))
    changed = load(other, SCHEMA, tmp_path / "cache", Findings())
    assert changed.fingerprint != table.fingerprint
    assert list(changed.column("document")) == ["in london"]


@pytest.mark.parametrize(
    ("rows", "more", "kind", "message"),
    [
        ("q1 0 d1 1\nq1 0 d2 1\n", {}, "id-unknown", r"rows.qrels:2: document 'd2' is not in .*documents.jsonl"),
        ("q3 0 d1 1\n", {}, "id-unknown", r"rows.qrels:1: query 'q3' is not in .*queries.tsv. Expected"),
        ("q1 0 d1 1\nq1 d1 1\n", {}, "qrels-parts", r"rows.qrels:2: found 3 parts, expected 4"),
        ("q1 0 d1 0.5\n", {}, "relevance", r"rows.qrels:1: 'label' is str '0.5'. Expected a whole number"),
        ("q1 0 d1 yes\n", {}, "number", r"rows.qrels:1: 'label' is str 'yes'"),
        ("q1 0 d1 1\n\nq1 0 d1 1\n", {}, "blank-line", r"rows.qrels:2: a blank line"),
        ("", {}, "no-rows", r"rows.qrels: no rows"),
        (
            "q1 0 d1 1\n",
            {"queries": QUERIES + "q1\tagain\n"},
            "id-twice",
            r"queries.tsv:4: the id 'q1' is already used at .*:2",
        ),
        ("q1 0 d1 1\n", {"queries": "id\ttext\nq1\t \n"}, "text-blank", r"queries.tsv:2: 'text' is only whitespace"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_line(source, rows, more, kind, message):
    with pytest.raises(DataError, match=message) as error:
        list(iter_rows(source(rows, **more), SCHEMA, Findings()))
    assert error.value.kind == kind


def test_judgements_without_texts_say_what_to_type(source):
    with pytest.raises(RecipeError, match=r"data.documents: .* --set data.documents=documents.tsv"):
        list(iter_rows(replace(source("q1 0 d1 1\n"), documents=None), SCHEMA, Findings()))


def test_rows_without_labels_are_all_relevant_only_when_that_is_said(tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_text("query,document\nwhere,there\n")
    with pytest.raises(DataError, match=r"no column 'label' .*rows: pairs"):
        list(iter_rows(Source((str(path),)), SCHEMA, Findings()))
    pairs = tasks.schema_of("rank", {"rows": "pairs"})
    table = load(Source((str(path),)), pairs, tmp_path / "cache", Findings())
    assert list(table.column("label")) == [1]
    memory = from_rows([{"query": "where", "document": "there"}] * 2, pairs, tmp_path / "memory")
    assert list(memory.column("label")) == [1, 1]


def test_a_query_with_nothing_to_find_is_told(tmp_path):
    from warmstart.data.check_tables import check_tables

    path = tmp_path / "rows.csv"
    path.write_text("query,document,label\na,one,1\nb,two,0\nb,three,0\nc,two,-1\n")
    findings = Findings()
    check_tables({"train": load(Source((str(path),)), SCHEMA, tmp_path / "cache", findings)}, SCHEMA, findings)
    [finding] = [finding for finding in findings if finding.kind == "query-alone"]
    assert str(finding.location) == f"{path}:3"
    assert finding.message.startswith("no row names a relevant document for 'b'; 2 times in all, next at")
