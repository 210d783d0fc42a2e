"""A run of every format opens, a later one is refused with what to do, and a damaged record by file and key."""

import json
import shutil
from pathlib import Path

import pytest

from warmstart.errors import RunError
from warmstart.evaluation.records.format_version import FORMAT_VERSION
from warmstart.evaluation.run import RunFolder
from warmstart.evaluation.run_result import read_result
from warmstart.report.run_facts import read_facts

SAMPLES = sorted((Path(__file__).parent.parent / "samples").glob("run-format-*"), key=lambda path: path.name)


@pytest.fixture
def copy(tmp_path):
    return Path(shutil.copytree(SAMPLES[-1], tmp_path / "run"))


def test_there_is_a_sample_of_every_format():
    assert [path.name for path in SAMPLES] == [f"run-format-{version}" for version in range(1, FORMAT_VERSION + 1)]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_a_run_of_every_format_opens(sample):
    run = RunFolder(sample)
    assert run.finished
    assert run.recipe.task.name == "classify"
    assert run.metrics["test"]["rows"] == 24
    assert 0 <= run.metrics["test"]["accuracy"] <= 1
    assert {name: part.rows for name, part in run.data.parts.items()} == {"train": 65, "dev": 24, "test": 24}
    [leaked] = [finding for finding in run.data.findings if finding.kind == "shared"]
    assert leaked.location.line == 66
    assert run.environment["versions"]["torch"]
    assert run.training.steps == 108
    assert run.training.window.train.rows == 65
    assert run.training.history[-1]["loss"] > 0
    [forgotten] = run.forgetting.values()
    assert [point.step for point in forgotten.seen] == [0, 54, 108]
    assert [variant.variant for variant in run.evidence.variants] == ["recipe", "plain", "tfidf"]
    assert run.evidence.selected.how == "best"
    assert sum(map(sum, run.diagnosis.confusion.counts)) == 24
    assert run.diagnosis.calibration.temperature > 0


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_a_report_has_the_facts_of_a_run_of_every_format(sample):
    facts, result = read_facts(sample), read_result(sample, "sample", 0)
    assert [part.part for part in facts.scores] == ["test", "dev"]
    assert facts.scores[0].value == result.value == pytest.approx(result.scores.mean())
    assert facts.evidence.verdict


def test_a_run_of_a_later_format_is_refused_with_what_to_do(copy):
    (copy / "run.json").write_text(json.dumps({"format_version": FORMAT_VERSION + 1}))
    with pytest.raises(
        RunError,
        match=rf"found a run of format version {FORMAT_VERSION + 1}.*version {FORMAT_VERSION}: pip install --upgrade",
    ):
        RunFolder(copy)


def test_a_run_without_a_format_version_is_one_of_the_first(copy):
    (copy / "run.json").unlink()
    assert RunFolder(copy).metrics == RunFolder(SAMPLES[-1]).metrics


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("run.json", {"format_version": "new"}, r"run\.json: format_version: found 'new'"),
        ("metrics.json", {"test": {"accuracy": "high"}}, r"metrics\.json: test\.accuracy: found 'high'"),
        ("data.json", {"findings": [{"kind": "shared"}]}, r"data\.json: findings\.0: found .*expected a finding with"),
        ("data.json", {"parts": {"train": {"rows": 3}}}, r"data\.json: parts\.train\.files: found nothing"),
        ("evidence.json", {"verdict": None}, r"evidence\.json: verdict: found None"),
        ("diagnosis.json", {"slices": "none"}, r"diagnosis\.json: slices: found 'none'"),
        ("stages/01-finetune/history.json", {"steps": "many"}, r"history\.json: steps: found 'many'"),
    ],
)
def test_a_damaged_record_is_refused_by_file_and_key(copy, file, change, message):
    values = json.loads((copy / file).read_text())
    (copy / file).write_text(json.dumps({**values, **change}))
    with pytest.raises(RunError, match=message):
        read_all(copy)


def read_all(folder):
    run = RunFolder(folder)
    return run.metrics, run.data, run.evidence, run.diagnosis, run.training
