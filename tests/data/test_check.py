"""Rows that could be read are looked at: what is odd is told with its place and number, what is fine is not."""

import pytest

from warmstart.data.check import check, finding_of, stop_at_error
from warmstart.data.findings import Findings
from warmstart.data.source import Source
from warmstart.data.table import from_rows, load
from warmstart.errors import DataError


@pytest.fixture
def looked(put, tmp_path, classify):
    """Check files by part, and give the findings by kind."""

    def look(schema=classify, columns=None, **contents):
        findings = Findings()
        tables = {
            part: load(Source((put(f"{part}.csv", text),), columns=columns or {}), schema, tmp_path / "cache", findings)
            for part, text in contents.items()
        }
        check(tables, schema, findings)
        return {finding.kind: finding for finding in findings}

    return look


def rows(*pairs: tuple[str, str]) -> str:
    return "text,label\n" + "".join(f'"{text}",{label}\n' for text, label in pairs)


PLAIN = [(f"the {word} one", label) for word in ("first", "second", "third", "last") for label in ("pos",)]
CLEAN = [*PLAIN, ("a river", "neg"), ("a lake", "neg")]


def test_clean_rows_have_no_findings(looked):
    assert looked(train=rows(*CLEAN), test=rows(("some sea", "pos"), ("an ocean", "neg"))) == {}


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
def test_what_is_meant_is_not_told(looked, text):
    found = looked(train=rows((text, "pos"), *CLEAN))
    assert set(found) <= {"text-na"} if text == "Na" else found == {}


def test_a_kind_is_told_once_with_its_first_place_and_its_number(looked):
    odd = [(f"<br />{number} bad tags", "neg") for number in range(5)]
    found = looked(train=rows(*CLEAN, *odd))
    assert set(found) == {"html-tag"}
    told = found["html-tag"]
    assert (told.line, told.count, told.severity) == (8, 5, "warning")
    assert told.message.count("train.csv:") == 2
    assert "train.csv:9" in told.message


def test_labels_that_are_nearly_one(looked):
    found = looked(train=rows(*CLEAN, ("x y", "Pos"), ("z y", "ｐｏｓ"), ("u v", "neg")))
    assert (found["label-spelling"].line, found["label-width"].line) == (8, 9)
    assert "'Pos' and 'pos' (1 and 4 rows)" in found["label-spelling"].message


def test_the_same_text_again_names_the_first(looked):
    found = looked(train=rows(("A lake", "neg"), *CLEAN, ("a river", "neg"), ("A  RIVER", "pos")))
    assert {kind: (one.line, one.count) for kind, one in found.items()} == {
        "duplicate-near": (8, 1),
        "duplicate": (9, 1),
        "label-conflict": (10, 1),
    }
    assert "train.csv:7 again" in found["duplicate"].message


def test_parts_are_compared(looked):
    test = rows(("the first one", "neg"), ("a sea", "neg"), ("an ocean", "odd"))
    found = looked(train=rows(*CLEAN, ("rare", "seldom"), ("rarer", "seldom")), test=test)
    assert (found["shared-conflict"].file[-8:], found["shared-conflict"].line) == ("test.csv", 2)
    assert (found["label-unseen"].severity, found["label-unseen"].line) == ("error", 4)
    assert (found["label-untested"].file[-9:], found["label-untested"].line) == ("train.csv", 2)
    assert found["label-untested"].count == 2


def test_scores(looked, score):
    numbers = rows(*((f"text {number} here", f"{number % 5}") for number in range(40)), ("far away", "99"))
    assert {kind: one.line for kind, one in looked(schema=score, train=numbers).items()} == {"score-outlier": 42}
    assert set(looked(schema=score, train=rows(("a b", "1"), ("c d", "1")))) == {"score-same"}


def test_an_error_stops_with_its_place(classify, tmp_path):
    findings = Findings()
    tables = {
        "train": from_rows([{"text": "a b", "label": "x"}, {"text": "c d", "label": "y"}], classify, tmp_path / "a"),
        "test": from_rows([{"text": "e f", "label": "z"}], classify, tmp_path / "b", "test"),
    }
    check(tables, classify, findings)
    with pytest.raises(DataError, match=r"^test:row 1: label 'z' was not seen in training") as caught:
        stop_at_error(findings)
    assert caught.value.kind == "label-unseen"


@pytest.mark.parametrize(
    ("message", "place"),
    [
        ("a:1.csv:17: odd", ("a:1.csv", 17, "", "odd")),
        ("a:1.csv:17:4: odd", ("a:1.csv", 17, "", "4: odd")),
        ("b.parquet:row 3: odd", ("b.parquet", 3, "row ", "odd")),
        ("b.parquet: odd", ("b.parquet", 0, "", "odd")),
        ("elsewhere: odd", ("", 0, "", "elsewhere: odd")),
    ],
)
def test_a_refusal_becomes_a_finding(message, place):
    found = finding_of(DataError(message, "json"), ["a:1.csv", "b.parquet"])
    assert (found.file, found.line, found.unit, found.message) == place
    assert (found.kind, found.severity) == ("json", "error")
