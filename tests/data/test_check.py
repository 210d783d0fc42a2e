"""Rows that could be read are checked: what is odd is reported with its location and count, what is fine is not."""

import copy

import pytest

from warmstart.data.check_tables import check_tables, finding_of, stop_at_error
from warmstart.data.findings import Finding, Findings, from_json
from warmstart.data.source import Source
from warmstart.data.table import from_rows, load
from warmstart.errors import DataError, Location


@pytest.fixture
def findings_of(put, tmp_path, classify):
    """Check files by part, and give the findings by kind."""

    def check(schema=classify, columns=None, **contents):
        findings = Findings()
        tables = {
            part: load(Source((put(f"{part}.csv", text),), columns=columns or {}), schema, tmp_path / "cache", findings)
            for part, text in contents.items()
        }
        check_tables(tables, schema, findings)
        return {finding.kind: finding for finding in findings}

    return check


def rows(*pairs: tuple[str, str]) -> str:
    return "text,label\n" + "".join(f'"{text}",{label}\n' for text, label in pairs)


PLAIN = [(f"the {word} one", label) for word in ("first", "second", "third", "last") for label in ("pos",)]
CLEAN = [*PLAIN, ("a river", "neg"), ("a lake", "neg")]


def test_clean_rows_have_no_findings(findings_of):
    assert findings_of(train=rows(*CLEAN), test=rows(("some sea", "pos"), ("an ocean", "neg"))) == {}


@pytest.mark.parametrize(
    "text",
    [
        "👩\u200d👩\u200d👧 a family",
        "می\u200cخواهم",
        "a \u2067שלום\u2069 b",
        "café, naïve, Ångström",
        "３月のライオン",
        "5 < 6 and a > b",
        "R&D; AT&T",
        "C:\\new\\table",
        "Na",
        "nil desperandum",
    ],
)
def test_what_is_intended_is_not_reported(findings_of, text):
    findings = findings_of(train=rows((text, "pos"), *CLEAN))
    assert set(findings) <= {"text-na"} if text == "Na" else findings == {}


def test_a_kind_is_reported_once_with_its_first_locations_and_its_count(findings_of):
    odd = [(f"<br />{number} bad tags", "neg") for number in range(5)]
    findings = findings_of(train=rows(*CLEAN, *odd))
    assert set(findings) == {"html-tag"}
    finding = findings["html-tag"]
    assert (finding.location.line, finding.count, finding.severity) == (8, 5, "warning")
    assert finding.message.count("train.csv:") == 2
    assert "train.csv:9" in finding.message


def test_labels_that_are_nearly_one(findings_of):
    findings = findings_of(train=rows(*CLEAN, ("x y", "Pos"), ("z y", "ｐｏｓ"), ("u v", "neg")))
    assert (findings["label-spelling"].location.line, findings["label-width"].location.line) == (8, 9)
    assert "'Pos' and 'pos' (1 and 4 rows)" in findings["label-spelling"].message


def test_the_same_text_again_names_the_first(findings_of):
    findings = findings_of(train=rows(("A lake", "neg"), *CLEAN, ("a river", "neg"), ("A  RIVER", "pos")))
    assert {kind: (finding.location.line, finding.count) for kind, finding in findings.items()} == {
        "duplicate-near": (8, 1),
        "duplicate": (9, 1),
        "label-conflict": (10, 1),
    }
    assert "repeats the text and answer of" in findings["duplicate"].message
    assert "train.csv:7" in findings["duplicate"].message


def test_parts_are_compared(findings_of):
    test = rows(("the first one", "neg"), ("a sea", "neg"), ("an ocean", "odd"))
    findings = findings_of(train=rows(*CLEAN, ("rare", "seldom"), ("rarer", "seldom")), test=test)
    assert (findings["shared-conflict"].location.file[-8:], findings["shared-conflict"].location.line) == (
        "test.csv",
        2,
    )
    assert (findings["label-unseen"].severity, findings["label-unseen"].location.line) == ("error", 4)
    assert (findings["label-untested"].location.file[-9:], findings["label-untested"].location.line) == ("train.csv", 2)
    assert findings["label-untested"].count == 2


def test_scores(findings_of, score):
    numbers = rows(*((f"text {number} here", f"{number % 5}") for number in range(40)), ("far away", "99"))
    assert {kind: finding.location.line for kind, finding in findings_of(schema=score, train=numbers).items()} == {
        "score-outlier": 42
    }
    assert set(findings_of(schema=score, train=rows(("a b", "1"), ("c d", "1")))) == {"score-same"}


def test_an_error_stops_with_its_location(classify, tmp_path):
    findings = Findings()
    tables = {
        "train": from_rows([{"text": "a b", "label": "x"}, {"text": "c d", "label": "y"}], classify, tmp_path / "a"),
        "test": from_rows([{"text": "e f", "label": "z"}], classify, tmp_path / "b", "test"),
    }
    check_tables(tables, classify, findings)
    with pytest.raises(DataError, match=r"^test:row 1: label 'z' was not seen in training") as caught:
        stop_at_error(findings)
    assert caught.value.kind == "label-unseen"


@pytest.mark.parametrize(
    ("location", "text"),
    [
        (Location("a:1.csv", 17), "a:1.csv:17: odd"),
        (Location("b.parquet", 3, "row "), "b.parquet:row 3: odd"),
        (Location("b.parquet"), "b.parquet: odd"),
        (None, "odd"),
    ],
)
def test_a_refusal_carries_its_location_and_becomes_a_finding(location, text):
    error = copy.copy(DataError("odd", "json", location=location, column="text"))  # as processes send it
    assert str(error) == text
    assert (error.problem, error.kind, error.column) == ("odd", "json", "text")
    assert (error.path, error.line) == ((location.file, location.line or None) if location else (None, None))
    finding = finding_of(error)
    assert finding == Finding("json", "error", "odd", location or Location(""))
    assert from_json([finding.as_json()]) == (finding,)


@pytest.mark.parametrize("location", [Location("a:1.csv", 17), Location("b c.parquet", 3, "row "), Location("c.csv")])
def test_a_location_is_read_back_from_its_text(location):
    assert Location.parse(str(location)) == location
