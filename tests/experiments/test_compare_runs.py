"""Comparing runs: the numbers by another way, and what cannot be compared."""

import json
import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats
from typer.testing import CliRunner

import warmstart
from warmstart.cli.main import app
from warmstart.errors import RunError
from warmstart.evaluation.records.files import write_record
from warmstart.evaluation.records.training import TrainingRecord, WindowRecord
from warmstart.recipe import make_recipe


@pytest.fixture
def made(tmp_path):
    """Finished runs that never were: for each name and seed, which rows are right."""

    def make(name, right, seed=0, test="test.csv", truth=None, headline="accuracy"):
        folder = tmp_path / name
        stage = folder / "stages" / "01-finetune"
        stage.mkdir(parents=True)
        recipe = make_recipe({"model": "m", "data.train": "train.csv", "seed": seed})
        (folder / "recipe.yaml").write_text(recipe.yaml())
        window = WindowRecord(max_tokens=8)
        write_record(TrainingRecord(3, 1.0, "fp32", window, [], [], [], [], []), stage / "history.json")
        truth = truth or ["a", "b"] * (len(right) // 2)
        given = [one if good else "ab"[one == "a"] for one, good in zip(truth, right, strict=True)]
        places = [f"{test}:{number}" for number in range(len(right))]
        pq.write_table(pa.table({"row": places, "answer": truth, "label": given}), folder / "predictions.parquet")
        (folder / "metrics.json").write_text(
            json.dumps({"test": {headline: float(np.mean(right)), "rows": len(right)}})
        )
        return folder

    return make


def draw(share, seed, count=400):
    return (np.random.default_rng(seed).random(count) < share).tolist()


def test_two_models_are_compared_by_row_and_the_numbers_are_those_by_hand(made):
    first, second = draw(0.7, 1), draw(0.8, 2)
    found = warmstart.compare([made("a", first), made("b", second)])
    [one] = found.comparisons
    a, b = np.array(first, float), np.array(second, float)
    assert one.difference == pytest.approx((b - a).mean())
    won, lost = int(((b == 1) & (a == 0)).sum()), int(((b == 0) & (a == 1)).sum())
    assert (one.won, one.lost) == (won, lost)
    assert one.effect == won / (won + lost)
    tail = stats.binom.cdf(min(won, lost) - 1, won + lost, 0.5) + stats.binom.pmf(min(won, lost), won + lost, 0.5) / 2
    assert one.mcnemar == pytest.approx(2 * tail)
    # Swapping the two answers of a row at random, and drawing rows with replacement, by numpy alone.
    chance = np.random.default_rng(7)
    swapped = chance.choice([-1, 1], size=(20_000, len(a))) @ (b - a)
    assert one.p == pytest.approx((np.abs(swapped) >= abs((b - a).sum()) - 1e-9).mean(), abs=0.01)
    drawn = (b - a)[chance.integers(0, len(a), size=(20_000, len(a)))].mean(axis=1)
    assert (one.interval.low, one.interval.high) == pytest.approx(np.percentile(drawn, [2.5, 97.5]), abs=0.005)
    assert "over test rows; one model each, and other seeds may differ" in one.sentence()
    assert one.significant == (one.p <= 0.05)


def test_runs_of_several_seeds_are_paired_by_seed(made, tmp_path):
    shares = {"a": [0.70, 0.72, 0.69], "b": [0.80, 0.79, 0.83]}
    values = {name: [] for name in shares}
    for name, each in shares.items():
        for seed, share in enumerate(each):
            right = draw(share, 10 * seed + len(values) + ord(name))
            made(f"{name}/seed-{seed}", right, seed)
            values[name].append(np.mean(right))
    [one] = warmstart.compare([tmp_path / "a", tmp_path / "b"]).comparisons
    difference = np.array(values["b"]) - np.array(values["a"])
    assert one.difference == pytest.approx(difference.mean())
    assert one.seeds.p == pytest.approx(stats.ttest_rel(values["b"], values["a"]).pvalue)
    low, high = stats.t.interval(0.95, 2, loc=difference.mean(), scale=stats.sem(difference))
    assert (one.seeds.low, one.seeds.high) == pytest.approx((low, high))
    assert one.p == max(one.seeds.p, one.rows.p)
    assert math.isnan(one.mcnemar)
    assert "over seeds; 3 seeds each" in one.sentence()


def test_seeds_that_differ_are_paired_in_order(made, tmp_path):
    for seed in (0, 1):
        made(f"a/seed-{seed}", draw(0.7, seed), seed)
        made(f"b/seed-{seed + 5}", draw(0.7, seed + 50), seed + 5)
    [one] = warmstart.compare([tmp_path / "a", tmp_path / "b"]).comparisons
    assert one.seeds.count == 2


def test_many_runs_are_corrected_and_a_file_may_stand_elsewhere(made):
    runs = [made("a", draw(0.6, 1)), made("b", draw(0.8, 2), test="/data/test.csv"), made("c", draw(0.62, 3))]
    better, other = warmstart.compare(runs).comparisons
    assert better.p_corrected == pytest.approx(min(1, 2 * better.p))
    assert better.significant
    assert not other.significant


def test_runs_measured_on_different_rows_are_refused_by_a_row(made):
    right = draw(0.7, 1)
    a = made("a", right)
    with pytest.raises(RunError, match=r"other\.csv:0 \(a\) there, test\.csv:0 \(a\) here"):
        warmstart.compare([a, made("b", right, test="other.csv")])
    changed = ["b", "b", *["a", "b"] * 199]
    with pytest.raises(RunError, match=r"test\.csv:0 \(b\) there, test\.csv:0 \(a\) here"):
        warmstart.compare([a, made("c", right, truth=changed)])
    with pytest.raises(RunError, match="were evaluated on 200 and 400 rows"):
        warmstart.compare([a, made("d", right[:200])])
    with pytest.raises(RunError, match="d2 by macro_f1 on test rows"):
        warmstart.compare([a, made("d2", right, headline="macro_f1")])


def test_what_is_no_run_is_refused(made, tmp_path):
    a = made("a", draw(0.7, 1))
    with pytest.raises(RunError, match="expected two or more"):
        warmstart.compare([a])
    with pytest.raises(RunError, match="is given twice"):
        warmstart.compare([a, a])
    with pytest.raises(RunError, match="no run, and no folder of runs"):
        warmstart.compare([a, tmp_path])
    (made("b", draw(0.7, 1)) / "metrics.json").unlink()
    with pytest.raises(RunError, match="is not finished"):
        warmstart.compare([a, tmp_path / "b"])


def test_the_verb_says_it_in_a_table_in_words_and_in_json(made):
    runs = [str(made("a", draw(0.6, 1))), str(made("b", draw(0.8, 2)))]
    found = CliRunner().invoke(app, ["compare", *runs])
    assert found.exit_code == 0, found.output
    assert "is better than" in found.output
    told = json.loads(CliRunner().invoke(app, ["compare", *runs, "--json"]).output)
    assert (told["headline"], told["reference"]) == ("accuracy", runs[0])
    [one] = told["comparisons"]
    assert one["significant"]
    assert one["over"] == "rows"
    assert one["low"] < one["difference"] < one["high"]
