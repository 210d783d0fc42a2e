"""Schemas and a one-call reader, shared by the tests of `warmstart.data`."""

from __future__ import annotations

from pathlib import Path

import pytest

from warmstart.data.findings import Findings
from warmstart.data.read import iter_rows
from warmstart.data.schema import Column, Schema
from warmstart.data.source import Source

TEXT = Column("text", "text", "the text to classify")
PAIR = Column("pair", "text", "the second text", required=False)
LABEL = Column("label", "label", "its class", answer=True)


@pytest.fixture(scope="session")
def classify():
    return Schema((TEXT, PAIR, LABEL))


@pytest.fixture(scope="session")
def score():
    return Schema((TEXT, PAIR, Column("label", "number", "its score", answer=True)))


@pytest.fixture(scope="session")
def many():
    return Schema((TEXT, PAIR, Column("label", "labels", "its labels", answer=True)))


@pytest.fixture
def put(tmp_path):
    """Write bytes or text to a file of this name, and give its path as text."""

    def write(name: str, content: str | bytes) -> str:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)

    return write


@pytest.fixture
def rows_of(classify):
    """Read a file and give its rows and findings."""

    def rows(file, schema=classify, drop=(), **options):
        findings = Findings()
        source = Source((file,) if isinstance(file, str) else tuple(file), **options)
        return list(iter_rows(source, schema, findings, drop=drop)), findings

    return rows


@pytest.fixture(scope="session")
def shared_data():
    folder = Path(__file__).resolve().parents[2].parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"needs the real data in {folder}")
    return folder
