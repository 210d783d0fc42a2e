"""CoNLL files: sentences as text with spans, whatever the scheme; anything else is an error at its line."""

import gzip

import pytest

from warmstart.errors import DataError
from warmstart.tasks.tag import Tag, TagOptions

SCHEMA = Tag.schema(TagOptions())
BIO = "Angela B-PER\nMerkel I-PER\nvisited O\nParis B-LOC\n\nNo O\none O\n\nOslo B-LOC\n"
ROWS = [
    ("Angela Merkel visited Paris", [(0, 13, "PER"), (22, 27, "LOC")], 1),
    ("No one", [], 6),
    ("Oslo", [(0, 4, "LOC")], 9),
]


@pytest.fixture
def tagged(rows_of, put):
    """Rows of a CoNLL file as text, entities and line, and its findings by kind."""

    def read(content, name="a.conll", **options):
        rows, findings = rows_of(put(name, content), SCHEMA, **options)
        plain = [
            (row["text"], [(one["start"], one["end"], one["label"]) for one in row["entities"]], row["line"])
            for row in rows
        ]
        return plain, {one.kind: one for one in findings}

    return read


def test_a_sentence_is_a_row_with_the_places_of_its_words(rows_of, put):
    [row, *_], _ = rows_of(put("a.conll", BIO), SCHEMA)
    spans = [(word["start"], word["end"]) for word in row["words"]]
    assert [row["text"][start:end] for start, end in spans] == ["Angela", "Merkel", "visited", "Paris"]


@pytest.mark.parametrize(
    ("scheme", "content"),
    [
        ("BIO", BIO),
        ("BIO", BIO.replace(" ", "\t")),
        ("BIO", BIO.replace("\n", "\r\n")),
        ("BIO", BIO.replace("\n\n", "\n\t\n").replace(" ", "\t")),
        ("BIO", BIO.replace(" ", "  NN  ")),
        ("BIO", BIO.rstrip()),
        ("IOB1", BIO.replace("B-", "I-")),
        ("IOBES", BIO.replace("I-PER", "E-PER").replace("B-LOC", "S-LOC")),
        ("BILOU", BIO.replace("I-PER", "L-PER").replace("B-LOC", "U-LOC")),
    ],
)
def test_every_scheme_and_form_gives_the_same_rows(tagged, scheme, content):
    rows, findings = tagged(content)
    assert rows == ROWS
    assert findings["tag-read"].message == f"the tags are {scheme}"
    assert set(findings) == {"tag-read"}


def test_it_is_read_from_gzip_and_from_columns_by_number(tagged, put, rows_of):
    content = "1 Angela B-PER x\n2 sang O x\n"
    rows, _ = tagged(content, columns={"words": "2", "entities": "3"})
    assert rows == [("Angela sang", [(0, 6, "PER")], 1)]
    rows, _ = tagged(gzip.compress(BIO.encode()), "a.conll.gz")
    assert rows == ROWS
    rows, _ = tagged(BIO, "a.txt", format="conll")
    assert rows == ROWS


def test_with_tabs_a_word_may_hold_spaces(tagged):
    rows, _ = tagged("New York\tB-LOC\nis\tO\n")
    assert rows == [("New York is", [(0, 8, "LOC")], 1)]


def test_lines_that_begin_a_document_are_no_sentences(tagged):
    rows, findings = tagged("-DOCSTART- -X- O\n\n" + "a NN B-X\n\n" + "-DOCSTART- O\n" + "b NN O\n")
    assert rows == [("a", [(0, 1, "X")], 3), ("b", [], 6)]
    assert (findings["document"].location.line, findings["document"].count) == (1, 2)


def test_a_predictor_reads_words_without_tags(rows_of, put):
    rows, _ = rows_of(put("a.conll", "Angela\nsang\n\nNo\n"), SCHEMA.without_answers())
    assert [row["text"] for row in rows] == ["Angela sang", "No"]


def test_a_redundant_b_in_iob1_and_words_that_start_alike_are_reported(tagged):
    _, findings = tagged("a I-X\nb O\n\n" * 150 + "a O\nc B-X\n")
    assert (findings["tag-stray"].location.line, findings["tag-stray"].severity) == (452, "warning")
    _, findings = tagged("en:a O\nen:b B-X\n" * 10)
    assert "'en:'" in findings["word-start"].message


FAULTS = [
    ("a B-X\nb\n", 2, "cells-few", "found 1 columns, expected 2 as in line 1"),
    ("a B-X\n\nNew York B-X\n", 3, "cells-many", "separate all columns by tabs"),
    ("a B-X\n# a comment\n", 2, "cells-many", "If the line is a comment"),
    ("# text = a\na B-X O O\n", 1, "tag", "If the line is a comment"),
    ("a\nb\n", 1, "cells-few", "found 1 column, expected 2 or more"),
    ("a\tB-X\n\tO\n", 2, "word-empty", "leave the line blank"),
    ("a B-X\nb X\n", 2, "tag", "'X' is not a tag"),
    ("a B-X\nb NN\n", 2, "tag", "--column entities="),
    ("a B-X\nb B\n", 2, "tag-type", "'B' has no type"),
    ("a B-X\nb I-\n", 2, "tag-type", "Write one, as I-NAME"),
    (BIO * 2 + "a O\nb I-X\n", 20, "tag-scheme", "found I-X after O, but the file's other tags are BIO"),
    (BIO * 2 + "a B-X\nb E-X\n", 20, "tag-scheme", "found E-X is not a tag of BIO"),
    (
        BIO.replace("B-LOC", "S-LOC") + "\na E-X\n",
        3,
        "tag-scheme",
        "found O after I-PER, but the file's other tags are IOBES",
    ),
]


@pytest.mark.parametrize(("content", "line", "kind", "message"), FAULTS)
def test_a_fault_names_its_line(tagged, content, line, kind, message):
    with pytest.raises(DataError) as caught:
        tagged(content)
    assert f"a.conll:{line}: " in str(caught.value)
    assert message in str(caught.value)
    assert (caught.value.kind, caught.value.line) == (kind, line)


def test_columns_that_are_no_numbers_and_other_tasks_are_refused(tagged, rows_of, put, classify):
    with pytest.raises(DataError, match="--column words=1"):
        tagged(BIO, columns={"entities": "tag"})
    with pytest.raises(DataError, match="a CoNLL file has no 'label'"):
        rows_of(put("a.conll", BIO), classify)


@pytest.mark.real
@pytest.mark.parametrize(
    ("file", "scheme", "sentences", "entities"),
    [
        ("measure-only/conll2003_en/eng.testb", "IOB1", 3453, 5648),
        ("open/wnut17/wnut17train.conll", "BIO", 3394, 1975),
        ("open/wikiann_en/dev", "BIO", 10000, 14146),
    ],
)
def test_real_files_hold_what_is_published_of_them(rows_of, shared_data, file, scheme, sentences, entities):
    rows, findings = rows_of(str(shared_data / file), SCHEMA, format="conll")
    assert len(rows) == sentences
    assert sum(len(row["entities"]) for row in rows) == entities
    assert next(one.message for one in findings if one.kind == "tag-read") == f"the tags are {scheme}"


JSON_FAULTS = [
    ('{"start": 0, "end": 99, "label": "X"}', "entity-place", "but the text has 14 characters"),
    ('{"start": 4, "end": 5, "label": "X"}', "entity-place", "only whitespace"),
    ('{"start": 5, "end": 5, "label": "X"}', "entities-form", "the end after the start"),
    ('{"start": 5, "end": 7}', "entities-form", "has no label"),
    ('{"from": 5, "to": 7, "label": "X"}', "entities-form", "expected a range"),
    ('{"start": 0, "end": 4, "label": "X", "name": "Oslo"}', "entity-name", "'Oslo' should be at 0 to 4, but there is"),
    ('{"start": 0, "end": 9, "label": "X"}, {"span": [5, 9], "type": "Y"}', "entity-overlap", "0 to 9 and 5 to 9"),
]


@pytest.mark.parametrize(("entities", "kind", "message"), JSON_FAULTS)
def test_spans_are_compared_with_the_text(rows_of, put, entities, kind, message):
    good = '{"text": "Bonn liegt so.", "entities": [{"span": [0, 4], "type": "X", "name": "Bonn"}]}\n'
    bad = f'{{"text": "Bonn liegt so.", "entities": [{entities}]}}\n'
    with pytest.raises(DataError) as caught:
        rows_of(put("a.jsonl", good + bad), SCHEMA)
    assert "a.jsonl:2: " in str(caught.value)
    assert message in str(caught.value)
    assert caught.value.kind == kind


def test_json_rows_have_spans_in_the_usual_forms(rows_of, put):
    content = (
        '[{"text": "Bonn und Ulm", "entities": [{"name": "Ulm", "span": [9, 12], "type": "LOC"}, '
        '{"start": 0, "end": 4, "label": "LOC", "text": "Bonn"}]}, {"text": "nichts", "entities": []}]'
    )
    rows, _ = rows_of(put("a.json", content), SCHEMA)
    assert [[(one["start"], one["end"]) for one in row["entities"]] for row in rows] == [[(0, 4), (9, 12)], []]
