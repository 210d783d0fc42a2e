"""Plain text files: documents between blank lines or one a line, nothing lost, each with its first line."""

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmstart.data.findings import Findings
from warmstart.data.read import iter_rows
from warmstart.data.schema import Column, Schema
from warmstart.data.source import Source
from warmstart.errors import DataError

SCHEMA = Schema((Column("text", "text", "a document"),))


def rows(path, **options):
    return [(row["line"], row["text"]) for row in iter_rows(Source((str(path),), **options), SCHEMA, Findings())]


def test_a_document_stands_between_blank_lines(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_bytes("\n\none\r\n two\r\n \t\nthree\u2028four\n\n\n".encode())
    assert rows(path) == [(3, "one\n two"), (6, "three\u2028four")]
    assert rows(path, document="line") == [(3, "one"), (4, " two"), (6, "three\u2028four")]


def test_gzip_and_another_encoding(tmp_path):
    path = tmp_path / "texts.txt.gz"
    path.write_bytes(gzip.compress("日本\n\n語".encode("shift_jis")))
    assert rows(path, encoding="shift_jis") == [(1, "日本"), (3, "語")]
    with pytest.raises(DataError, match=r"texts\.txt\.gz:1: byte 0x93 at column 1 is not utf-8"):
        rows(path)


@given(st.lists(st.lists(st.text("ab\u3000 é", min_size=1).filter(str.strip), min_size=1), min_size=1), st.booleans())
def test_no_character_is_lost(tmp_path_factory, given_documents, by_line):
    path = tmp_path_factory.mktemp("txt") / "texts.txt"
    path.write_text("\n\n".join("\n".join(lines) for lines in given_documents), encoding="utf-8")
    wanted = [line for lines in given_documents for line in lines]
    texts = [text for _, text in rows(path, document="line" if by_line else "paragraph")]
    assert texts == (wanted if by_line else ["\n".join(lines) for lines in given_documents])


def test_a_file_without_text_and_a_task_with_labels_are_refused(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text(" \n\n", encoding="utf-8")
    with pytest.raises(DataError, match="no rows"):
        rows(path)
    path.write_text("good\n", encoding="utf-8")
    labelled = Schema((*SCHEMA.columns, Column("label", "label", "what is learned", answer=True)))
    with pytest.raises(DataError, match="a txt file has no column 'label'"):
        list(iter_rows(Source((str(path),)), labelled, Findings()))
