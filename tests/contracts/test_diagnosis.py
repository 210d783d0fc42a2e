"""Every task, found by scanning, is diagnosed: with its rows at hand and without, and as JSON that others can read."""

import json

import pytest

from contracts.test_every_task import CASES, fit
from tiny import save_tiny
from warmstart.diagnosis.diagnose import diagnose

OWN = {"score": "Residuals", "choose": "Position", "relate": "Direction", "tag": "Kinds of error"}
OWN |= {"span": "First word", "rank": "First right document", "classify many": "Labels"}
"""A table that a task has beside what all have."""


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return str(save_tiny(tmp_path_factory.mktemp("encoder"), "bert"))


@pytest.mark.parametrize("name", CASES)
def test_every_task_is_diagnosed(name, encoder, tmp_path):
    run = fit(encoder, name, tmp_path / "run", **{"training.max_steps": 2})
    rows = {"train": CASES[name].rows, "test": CASES[name].rows}
    said = diagnose(run, rows=rows)
    assert json.loads((run.folder / "diagnosis.json").read_text("utf-8")) == said
    task = name.partition(" ")[0]
    assert (said["part"], said["task"], said["rows"]) == ("test", task, len(CASES[name].rows))
    assert all("not at hand" not in note for note in said["notes"])
    titles = {table["title"] for table in said.get("tables", ())}
    assert {title for key, title in OWN.items() if key in {name, task}} <= titles
    for table in said.get("tables", ()):
        assert table["rows"]
        assert all(len(row) == len(table["columns"]) for row in table["rows"])
    for one in said.get("mistakes", ()):
        assert one["text"]
        assert one["row"].startswith("test:row ")
    if "confusion" in said and task != "tag":
        assert sum(map(sum, said["confusion"]["counts"])) == said["rows"]
    alone = diagnose(run)
    assert "Python" in alone["notes"][0]
    assert all(one["text"] is None for one in alone.get("mistakes", ()))
