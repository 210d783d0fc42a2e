"""Every task, found by scanning, is diagnosed: with its rows and without, and as JSON that others can read."""

import json

import pytest

from contracts.test_every_task import CASES, fit
from tiny import save_tiny
from warmstart.diagnosis.diagnose import diagnose
from warmstart.evaluation.records.files import as_json

OWN = {"score": "Residuals", "choose": "Position", "relate": "Direction", "tag": "Kinds of error"}
OWN |= {"span": "First word", "rank": "First relevant document", "classify many": "Labels"}
"""A table that a task has beside what all have."""


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return str(save_tiny(tmp_path_factory.mktemp("encoder"), "bert"))


@pytest.mark.parametrize("name", CASES)
def test_every_task_is_diagnosed(name, encoder, tmp_path):
    run = fit(encoder, name, tmp_path / "run", **{"training.max_steps": 2})
    rows = {"train": CASES[name].rows, "test": CASES[name].rows}
    diagnosis = diagnose(run, rows=rows)
    assert json.loads((run.folder / "diagnosis.json").read_text("utf-8")) == as_json(diagnosis)
    assert run.diagnosis == diagnosis
    task = name.partition(" ")[0]
    assert (diagnosis.part, diagnosis.task, diagnosis.rows) == ("test", task, len(CASES[name].rows))
    assert all("not available" not in note for note in diagnosis.notes)
    tables = diagnosis.tables or ()
    titles = {table["title"] for table in tables}
    assert {title for key, title in OWN.items() if key in {name, task}} <= titles
    for table in tables:
        assert table["rows"]
        assert len(set(table["columns"])) == len(table["columns"]), "a row is shown by the names of its columns"
        assert all(len(row) == len(table["columns"]) for row in table["rows"])
    for mistake in diagnosis.mistakes or ():
        assert mistake.text
        assert mistake.row.startswith("test:row ")
    if diagnosis.confusion and task != "tag":
        assert sum(map(sum, diagnosis.confusion.counts)) == diagnosis.rows
    alone = diagnose(run)
    assert "Python" in alone.notes[0]
    assert all(mistake.text is None for mistake in alone.mistakes or ())
