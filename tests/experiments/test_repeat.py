"""Repeating a recipe: one folder a run, nothing done twice, nothing lost, nothing of another recipe used."""

import json
import math
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from processes import finish_together
from small import FAST
from test_resume import Crash, Trouble, crash
from warmstart.errors import RecipeError, RunError
from warmstart.evaluation.run import RunFolder
from warmstart.experiments import repeat as module
from warmstart.experiments.repeat import read_results, repeat
from warmstart.storage.locks import lock_holder, try_lock
from warmstart.tasks.classify import Classify, ClassifyOptions
from warmstart.tasks.score import Score, ScoreOptions

TWO = {"plain": {}, "hot": {"training.learning_rate": 1e-2}}


@pytest.fixture
def recipe(encoder, files):
    training = {**FAST["training"], "epochs": 2}
    return {"model": encoder, "data.train": files["train"], "data.test": files["test"], "training": training}


@pytest.fixture
def no_training(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a finished run was done again")

    return lambda: monkeypatch.setattr(module, "run_recipe", refuse)


def test_one_row_a_run_and_a_second_call_trains_nothing(recipe, tmp_path, no_training):
    rows = repeat(recipe, TWO, [0, 1], tmp_path)
    assert [(row.variant, row.seed) for row in rows] == [("plain", 0), ("plain", 1), ("hot", 0), ("hot", 1)]
    for row in rows:
        run = RunFolder(tmp_path / row.variant / f"seed-{row.seed}")
        assert row.headline == "accuracy"
        assert row.value == run.metrics["test"]["accuracy"] == pytest.approx(row.scores.mean())
        assert (row.steps, row.part, len(row.locations)) == (8, "test", 24)
        assert run.recipe.seed == row.seed
    assert RunFolder(tmp_path / "hot" / "seed-0").recipe.training.learning_rate == 1e-2
    no_training()
    assert repeat(recipe, TWO, [0, 1], tmp_path) == rows == read_results(tmp_path, list(TWO))
    assert len(read_results(tmp_path)) == 4


def test_a_run_of_another_recipe_is_refused_by_name(recipe, tmp_path):
    repeat(recipe, {"plain": {}}, [0], tmp_path)
    with pytest.raises(
        RunError, match=r"plain/seed-0 holds a run of another(.|\n)*training\.batch_size: there 16, here 8"
    ):
        repeat(recipe, {"plain": {"training.batch_size": 8}}, [0], tmp_path)
    # When a run saves itself changes no result.
    repeat(recipe, {"plain": {"checkpoints.every_minutes": 1}}, [0], tmp_path)


def test_data_that_changed_since_is_refused(recipe, files, tmp_path):
    train = tmp_path / "train.csv"
    train.write_bytes(Path(files["train"]).read_bytes())
    repeat({**recipe, "data.train": str(train)}, {"plain": {}}, [0], tmp_path / "out")
    train.write_text(train.read_text() + "the end,pos\n")
    with pytest.raises(RunError, match=r"train\.csv changed since the runs"):
        repeat({**recipe, "data.train": str(train)}, {"plain": {}}, [0], tmp_path / "out")


def test_a_run_that_was_stopped_goes_on(recipe, tmp_path):
    recipe["checkpoints"] = {"every_steps": 3}
    with pytest.raises(Crash):
        repeat(recipe, {"plain": {}}, [0], tmp_path / "a", Trouble(5, crash))
    assert read_results(tmp_path / "a") == []
    again = Trouble()
    [row] = repeat(recipe, {"plain": {}}, [0], tmp_path / "a", again)
    assert "resuming from step-000000003" in again.said
    [undisturbed] = repeat(recipe, {"plain": {}}, [0], tmp_path / "b")
    assert row.metrics == undisturbed.metrics


def test_numbers_alone_are_kept_and_the_run_still_opens(recipe, tmp_path, no_training):
    [row] = repeat(recipe, {"plain": {}}, [0], tmp_path, keep="numbers")
    run = RunFolder(row.folder)
    assert run.finished
    assert run.metrics == row.metrics
    assert run.training.steps == 8
    assert not (row.folder / "model").exists()
    no_training()
    assert repeat(recipe, {"plain": {}}, [0], tmp_path, keep="numbers") == [row]
    assert len(row.scores) == 24


def test_a_training_that_went_wrong_is_a_row_that_says_so(recipe, tmp_path, no_training):
    [row] = repeat(recipe, {"mad": {"training.learning_rate": 1e30}}, [0], tmp_path)
    assert math.isnan(row.value)
    assert "the loss is" in row.failed
    no_training()
    [again] = repeat(recipe, {"mad": {"training.learning_rate": 1e30}}, [0], tmp_path)
    assert again.failed == row.failed


def test_all_variants_are_checked_before_any_is_trained(recipe, tmp_path):
    with pytest.raises(
        RecipeError, match=r"variant wrong: training\.learning_rat is not an option; did you mean 'learning_rate'"
    ):
        repeat(recipe, {"plain": {}, "wrong": {"training.learning_rat": 1}}, [0], tmp_path)
    with pytest.raises(RecipeError, match="a name that a folder can have"):
        repeat(recipe, {"1/2": {}}, [0], tmp_path)
    with pytest.raises(RecipeError, match="all different"):
        repeat(recipe, {"plain": {}}, [1, 1], tmp_path)
    assert list(tmp_path.iterdir()) == []


HOLD = """
import sys, time
from pathlib import Path
from warmstart.storage.locks import try_lock
with try_lock(Path(sys.argv[1])) as mine:
    print(mine, flush=True)
    time.sleep(60)
"""


def test_a_claim_is_held_by_one_and_free_when_its_process_is_killed(tmp_path):
    lock = tmp_path / "some" / "lock"
    other = subprocess.Popen([sys.executable, "-c", HOLD, lock], stdout=subprocess.PIPE, text=True)
    assert other.stdout.readline().strip() == "True"
    with try_lock(lock) as mine:
        assert not mine
    assert lock_holder(lock) == f"process {other.pid} on {socket.gethostname()}"
    other.send_signal(signal.SIGKILL)
    other.wait()
    with try_lock(lock) as mine:
        assert mine
        with try_lock(lock) as twice:
            assert not twice
        assert lock_holder(lock) == f"process {os.getpid()} on {socket.gethostname()}"


WORK = """
import json, sys
from warmstart.experiments.repeat import repeat
class Say:
    def __getattr__(self, name):
        from warmstart.runtime.progress import silent
        return getattr(silent, name)
    def log(self, text):
        print(text, flush=True)
recipe, variants, seeds, folder = json.loads(sys.argv[1])
rows = repeat(recipe, variants, seeds, folder, Say())
print(json.dumps([[row.variant, row.seed, row.value] for row in rows]))
"""


def test_two_processes_share_the_work_and_each_gives_all_rows(recipe, tmp_path, commands):
    (tmp_path / "work.py").write_text(WORK)
    said = json.dumps([recipe, TWO, [0, 1, 2], str(tmp_path / "runs")])
    both = finish_together([commands / "python", tmp_path / "work.py", said], 2)
    outs = [one.stdout.splitlines() for one in both]
    assert [one.returncode for one in both] == [0, 0]
    assert outs[0][-1] == outs[1][-1]
    assert len(json.loads(outs[0][-1])) == 6
    started = [line for out in outs for line in out[:-1] if "is training it" not in line and ", seed " in line]
    assert sorted(started) == sorted(f"{name}, seed {seed}" for name in TWO for seed in (0, 1, 2))


def test_a_run_under_way_elsewhere_is_waited_for(recipe, tmp_path, monkeypatch):
    lock = tmp_path / "plain" / ".seed-0.lock"
    other = subprocess.Popen([sys.executable, "-c", HOLD, lock], stdout=subprocess.PIPE, text=True)
    assert other.stdout.readline().strip() == "True"

    def kill_then_go_on(_):
        other.kill()
        other.wait()

    monkeypatch.setattr(time, "sleep", kill_then_go_on)
    progress = Trouble()
    rows = repeat(recipe, TWO, [0], tmp_path, progress)
    assert [row.variant for row in rows] == ["plain", "hot"]
    assert f"plain, seed 0: process {other.pid} on {socket.gethostname()} is training it" in progress.said


HALF = ["a", "b"] * 10


@pytest.mark.parametrize(
    ("value", "answers", "given", "why"),
    [
        (0.5, HALF, ["a"] * 20, "every answer is 'a', which 50% of the rows have"),
        (0.52, HALF, HALF, "0.520 is hardly above 0.500, what always answering 'a' scores"),
        (0.6, HALF, HALF, ""),
        (0.9, ["a"] * 19 + ["b"], HALF, "0.900 is not above 0.950, what always answering 'a' scores"),
        (1.0, ["a"] * 3, ["a"] * 3, ""),
        (0.05, [1.0, 2.0], [1.0, 1.1], "the correlation is 0.050"),
        (-0.8, [1.0, 2.0], [1.0, 1.1], "the correlation is -0.800"),
        (math.nan, [1.0, 2.0], [1.0, 1.0], "the correlation is undefined"),
        (0.8, [1.0, 2.0], [1.0, 1.1], ""),
        (0.0, [["a"], ["b", "a"]], [[], []], "every answer is [], which 0% of the rows have"),
        (
            0.68,
            [["a"], ["a"], ["b"]],
            [["a"], ["b"], ["a"]],
            "0.680 is hardly above 0.667, what always answering ['a'] scores",
        ),
        (0.9, [["a"], ["b"]], [["a"], []], ""),
    ],
)
def test_a_run_near_chance_has_failed(value, answers, given, why):
    task, field = (Score, "score") if isinstance(given[0], float) else (Classify, "label")
    if isinstance(given[0], list):
        field = "labels"
    options = ClassifyOptions(multi_label=field == "labels") if task is Classify else ScoreOptions()
    headline = "micro_f1" if field == "labels" else "accuracy"
    assert task.why_failed(options, headline, value, answers, [{field: answer} for answer in given]) == why


@pytest.mark.parametrize(("task", "data"), [("score", "scores"), ({"name": "classify", "multi_label": True}, "many")])
def test_every_kind_of_answer_has_scores(task, data, encoder, files, tmp_path):
    training = {**FAST["training"], "epochs": 2}
    recipe = {
        "model": encoder,
        "task": task,
        "data": {"train": files[data], "label_separator": "|"},
        "training": training,
    }
    [row] = repeat(recipe, {"plain": {}}, [0], tmp_path)
    kept = pq.read_table(row.folder / "predictions.parquet").to_pydict()
    if task == "score":
        wanted = [-abs(a - b) for a, b in zip(kept["answer"], kept["score"], strict=True)]
    else:
        both = [(set(a), set(b)) for a, b in zip(kept["answer"], kept["labels"], strict=True)]
        wanted = [2 * len(a & b) / (len(a) + len(b)) for a, b in both]
    assert row.scores.tolist() == pytest.approx(wanted)
