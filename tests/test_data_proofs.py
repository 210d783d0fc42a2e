"""A small sample of the proofs: every planted fault is caught in every format, and texts come back as written."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path += [str(ROOT / "proofs"), str(ROOT / "benchmarks")]

import clean  # noqa: E402
import faults  # noqa: E402
import plants  # noqa: E402
import readers  # noqa: E402
from warmstart.data.fault_kinds import FAULT_KINDS  # noqa: E402


@pytest.mark.parametrize("planted", plants.PLANTS, ids=lambda plant: f"{plant.kind}-{plant.formats[0]}")
def test_a_planted_fault_is_reported_at_its_line(planted, tmp_path):
    for format in planted.formats:
        assert faults.prove(planted, format, 0, tmp_path / "sheet") == (True, True), format


def test_files_without_a_fault_have_no_finding(tmp_path):
    assert faults.clean(tmp_path / "sheet") == 0


def test_every_kind_with_a_location_is_planted():
    left = set(FAULT_KINDS) - {plant.kind for plant in plants.PLANTS}
    # What belongs to a whole file, the machine, the split or the encoder, not to a line of a file.
    assert left == {
        *(
            "no-file",
            "no-format",
            "compression",
            "bomb",
            "sheet",
            "parquet",
            "hub",
            "changed",
            "disk",
            "encoding-name",
            "delimited",
        ),
        *(
            "column-types",
            "column-unknown",
            "column-unread",
            "part-empty",
            "cache",
            "held-out",
            "fraction",
            "window-cut",
            "entity-inside",
            "negatives",
        ),
        *("single-sentence", "delimiter", "empty", "cell-error", "cell-format"),
    }


def test_texts_come_back_as_written():
    sent, equal = readers.prove(200)
    assert sent >= 200
    assert dict(equal) == dict.fromkeys(("csv", "tsv", "jsonl", "parquet"), sent)


@pytest.mark.real
def test_a_real_file_has_no_error(tmp_path):
    path = clean.SHARED / "data" / "open" / "banking77" / "banking_data" / "test.csv"
    if not path.is_file():
        pytest.skip(f"needs {path}")
    findings = clean.findings_of(path, {"label": "category"}, tmp_path)
    assert findings
    assert all(finding.severity != "error" for finding in findings)
