"""The messy export of the tutorial: the messages alone lead from the first command to rows that can be trained on."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from warmstart.cli.main import app

SCRIPT = Path(__file__).resolve().parents[1] / "proofs" / "messy_export.py"
ROWS = 6000
MISSPELT = {"Kate": "Karte", "Katre": "Karte", "karte": "Karte", "Ueberweisung": "Überweisung", "Kredti": "Kredit"}


@pytest.fixture(scope="module")
def export(tmp_path_factory):
    file = tmp_path_factory.mktemp("export") / "export.csv"
    subprocess.run([sys.executable, SCRIPT, file, "--rows", str(ROWS)], check=True)
    return file


def errors_of(file, options, monkeypatch, tmp_path):
    """The exit code of `check`, and what it says of errors and warnings."""
    monkeypatch.setenv("WARMSTART_CACHE", str(tmp_path / "cache"))
    done = CliRunner().invoke(app, ["check", str(file), *options])
    return done.exit_code, done.stderr


def test_each_message_names_the_option_that_comes_next(export, monkeypatch, tmp_path):
    options: list[str] = []
    names = {"--text": "Nachricht", "--label": "Thema"}
    for expected in (["--encoding", "cp1252"], ["--delimiter", ";"], ["--text", "Nachricht", "--label", "Thema"]):
        code, messages = errors_of(export, options, monkeypatch, tmp_path)
        assert code == 4
        advice = re.findall(r"(--(?:encoding|delimiter|text|label)) '?([^\s']+)", messages)
        assert [part for option, value in advice for part in (option, names.get(option, value))] == expected
        options += expected
    code, messages = errors_of(export, options, monkeypatch, tmp_path)
    assert code == 4
    advice = sorted(set(re.findall(r"--drop (\w+)", messages)))
    assert advice == ["empty", "unlabelled"]
    for option in advice:
        options += ["--drop", option]
    code, messages = errors_of(export, options, monkeypatch, tmp_path)
    assert code == 0
    misspelt = re.findall(r"the label '(\w+)' .* perhaps a misspelling of '(\w+)'", messages)
    misspelt += re.findall(r"the labels '(\w+)' and '(\w+)' .* are nearly the same", messages)
    text = export.read_text("cp1252")
    assert dict(misspelt) == {wrong: right for wrong, right in MISSPELT.items() if f";{wrong};" in text}
    assert len(misspelt) >= 4
    assert 87 < float(re.search(r"([\d.]+)% of the rows have the label 'Karte'", messages)[1]) < 89


def test_the_export_is_the_same_each_time_and_is_as_messy_as_it_says(export, tmp_path):
    again = tmp_path / "again.csv"
    subprocess.run([sys.executable, SCRIPT, again, "--rows", str(ROWS)], check=True)
    assert again.read_bytes() == export.read_bytes()
    lines = export.read_text("cp1252").splitlines()
    assert len(lines) == ROWS + 1
    assert lines.count(";;;") == 6
    with pytest.raises(UnicodeDecodeError):
        export.read_text("utf-8")
