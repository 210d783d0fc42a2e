"""Choices of a study: of several methods, the one that is best on dev rows, seed by seed."""

import csv

import pytest

from warmstart.errors import RecipeError
from warmstart.recipe.study import load_study
from warmstart.studies.cells import Cell, StudyPart, measurements
from warmstart.studies.choices import chosen
from warmstart.studies.figures import KeptResult
from warmstart.studies.measure import StudyRunner
from warmstart.studies.page import write_study_page

STUDY = """
title: A grid
subject: grid
data: data
recipe: {window.max_tokens: 16, layers.freeze: encoder, head.init: linear-probe, data.split.dev: 0.5}
sets: {films: {train: rows.csv, test: rows.csv, sizes: [all]}}
sizes: {all: {seeds: 2}}
methods:
  first: {recipe: {head.pooling: cls}}
  mean: {recipe: {head.pooling: mean}}
choices: {grid: [first, mean]}
"""


@pytest.fixture
def study(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "study.yaml").write_text(STUDY)
    with (tmp_path / "data" / "rows.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("text", "label"))
        writer.writerows((f"a {word} film number {n}", word) for n in range(8) for word in ("good", "bad"))
    return tmp_path


def kept(method, seed, dev, value):
    numbers = {"headline": "accuracy", "value": value, "steps": 0, "seconds": 1.0, "failed": ""}
    return KeptResult(method, seed, None, "test", {}, dev=dev, cpu_seconds=2.0, **numbers)


def test_the_best_on_dev_rows_is_taken_whatever_it_has_on_test_rows():
    results = [kept("a", 0, 0.9, 0.5), kept("b", 0, 0.8, 0.7), kept("a", 1, 0.6, 0.5), kept("b", 1, 0.8, 0.7)]
    taken = chosen({"grid": ["a", "b"]}, [*results, kept("c", 0, 1.0, 1.0)])
    assert [(one.variant, one.seed, one.value, one.cpu_seconds) for one in taken] == [
        ("grid", 0, 0.5, 4.0),
        ("grid", 1, 0.7, 4.0),
    ]
    assert chosen({"grid": ["a", "b"]}, results[:3]) == taken[:1], "b is not measured with seed 1 yet"


def test_a_choice_is_written_beside_what_it_was_made_from_and_costs_no_training(study, encoder):
    runner = StudyRunner(load_study(study)[0], study, str(encoder), study / "work")
    part = StudyPart(methods=("grid",))
    assert {one.method for one in measurements(runner.study, part)} == {"first", "mean"}
    runner.run(part)
    assert not runner.errors
    results = runner.results(StudyPart())
    rows = results[Cell("films", "all")]
    assert [row.variant for row in rows].count("grid") == 2
    for grid in (row for row in rows if row.variant == "grid"):
        tried = [row for row in rows if row.seed == grid.seed and row.variant != "grid"]
        assert grid.dev == max(row.dev for row in tried)
        assert grid.value in {row.value for row in tried if row.dev == grid.dev}
    write_study_page(runner.study, study, results, study / "page.md", "warmstart study")
    assert "| grid |" in (study / "page.md").read_text()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[first, mean]", "[first, meen]", "choices.grid: meen is not known; did you mean 'mean'"),
        ("{grid: [", "{mean: [", "choices: mean is a method or a peer"),
        ("[first, mean]", "[first]", "choices.grid"),
    ],
)
def test_a_choice_of_what_is_not_there_is_refused(study, old, new, message):
    path = study / "study.yaml"
    path.write_text(path.read_text().replace(old, new).replace("subject: grid", "subject: first"))
    with pytest.raises(RecipeError, match=message):
        load_study(study)
