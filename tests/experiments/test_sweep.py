"""A sweep: every trial once, none lost, none of another sweep; chosen by dev, with the best recipe at the end."""

import errno
import io
import json
import os
import signal
import time
from collections import Counter
from pathlib import Path

import pytest
from safetensors.torch import load_file

import warmstart
from small import FAST
from test_resume import Crash, Trouble, crash
from warmstart.errors import BusyError, RecipeError, RunError, TrainingError
from warmstart.experiments import sweep as module
from warmstart.experiments.sweep import SweepWorker, begin_sweep
from warmstart.experiments.sweep_journal import FILE, Journal
from warmstart.experiments.sweep_results import read_sweep
from warmstart.experiments.sweep_workers import run_sweep
from warmstart.pipeline.run_recipe import run_recipe
from warmstart.recipe import absolute, load_recipe, load_sweep, make_recipe, shipped_sweeps
from warmstart.recipe.sweep import seconds

SEARCH = {"training.learning_rate": {"low": 1e-5, "high": 1e-2, "log": True}, "training.batch_size": [8, 16]}


@pytest.fixture
def recipe(encoder, files):
    training = {**FAST["training"], "epochs": 3}
    data = {"data.train": files["train"], "data.dev": files["test"], "data.split.test": 0}
    return make_recipe({"model": encoder, "training": training, "checkpoints.every_steps": 2, **data})


@pytest.fixture
def asked(recipe):
    def ask(**changes):
        return load_sweep(None, {"search": SEARCH, "trials": 3, "sampler": "random", **changes}, recipe)

    return ask


@pytest.fixture
def quick(monkeypatch):
    """Trials that train nothing: their value is their rate."""
    calls = []

    def pretend(recipe, place, progress=None, **_):
        calls.append(int(place.name))
        (place / "model").mkdir(parents=True)
        (place / "recipe.yaml").write_text(absolute(recipe).yaml())
        metrics = {"dev": {"accuracy": recipe.training.learning_rate}, "test": {"accuracy": 0.5}}
        (place / "metrics.json").write_text(json.dumps(metrics))

    monkeypatch.setattr(module, "run_recipe", pretend)
    return calls


def test_the_best_recipe_is_written_and_its_model_alone_is_kept(asked, tmp_path, monkeypatch):
    found = run_sweep(*asked(trials=2), tmp_path / "s")
    assert [one.state for one in found.trials] == ["complete"] * 2
    assert found.metric == "accuracy"
    assert found.best.value == max(one.value for one in found.trials)
    assert (
        load_recipe(tmp_path / "s" / "best.yaml").training.learning_rate
        == found.best.settings["training.learning_rate"]
    )
    kept = [path.parent.name for path in (tmp_path / "s" / "trials").glob("*/model")]
    assert kept == [str(found.best.number)]
    assert warmstart.load(found.run.folder).predict(["a good film"])
    assert (tmp_path / "s" / "history.svg").is_file()
    journal = (tmp_path / "s" / FILE).read_bytes()
    read_sweep(tmp_path / "s")
    assert (tmp_path / "s" / FILE).read_bytes() == journal  # looking changes nothing
    monkeypatch.setattr(module, "run_recipe", crash)
    assert run_sweep(*asked(trials=2), tmp_path / "s") == found  # and nothing is trained


def test_a_trial_killed_in_the_middle_goes_on_and_ends_the_same(asked, tmp_path):
    alone = run_sweep(*asked(trials=1), tmp_path / "alone")
    with pytest.raises(Crash):
        run_sweep(*asked(trials=1), tmp_path / "killed", Trouble(3, crash))
    assert [one.state for one in read_sweep(tmp_path / "killed").trials] == ["running"]
    second = Trouble()
    found = run_sweep(*asked(trials=1), tmp_path / "killed", second)
    assert sum(line.startswith("resuming from") for line in second.said) == 1
    assert [(one.number, one.value, one.settings) for one in found.trials] == [
        (one.number, one.value, one.settings) for one in alone.trials
    ]


@pytest.mark.parametrize("where", ["_record", "_run_trial"])
def test_a_kill_before_or_after_the_run_loses_nothing_and_repeats_nothing(where, asked, quick, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(SweepWorker, where, lambda *_: crash())
        with pytest.raises(Crash):
            run_sweep(*asked(), tmp_path)
    found = run_sweep(*asked(), tmp_path)
    assert [one.state for one in found.trials] == ["complete"] * 3
    assert sorted(quick) == [0, 1, 2]


def test_a_kill_between_two_settings_draws_the_same(asked, quick, tmp_path):
    alone = run_sweep(*asked(), tmp_path / "alone")
    begin_sweep(*asked(), tmp_path / "killed")
    journal = Journal(tmp_path / "killed", load_sweep(tmp_path / "killed" / "sweep.yaml")[0])
    both, journal.sweep = journal.sweep, journal.sweep.model_copy(update={"search": {"training.batch_size": [8, 16]}})
    assert list(journal.settings(journal.open(journal.begin()))) == ["training.batch_size"]
    journal.sweep = both
    found = run_sweep(*asked(), tmp_path / "killed")
    assert [one.settings for one in found.trials] == [one.settings for one in alone.trials]


def test_workers_share_the_trials_and_one_that_is_killed_loses_none(asked, quick, tmp_path, monkeypatch):
    """Two processes; a third is killed while it holds a trial."""
    log, fast = tmp_path / "log", module.run_recipe

    def slow(recipe, place, *rest, **more):
        time.sleep(0.05)
        fast(recipe, place, *rest, **more)
        with log.open("a") as file:
            file.write(f"{place.name}\n")

    def fork(work):
        child = os.fork()
        if not child:
            work()
            os._exit(0)
        return child

    monkeypatch.setattr(module, "PAUSE", 0.02)
    begin_sweep(*asked(trials=12), tmp_path / "s")
    monkeypatch.setattr(module, "run_recipe", lambda *_, **__: time.sleep(60))
    killed = fork(lambda: SweepWorker(tmp_path / "s").run())
    while not (tmp_path / "s" / "trials" / ".0.lock").exists():
        time.sleep(0.01)
    monkeypatch.setattr(module, "run_recipe", slow)
    others = [fork(lambda: SweepWorker(tmp_path / "s").run()) for _ in range(2)]
    time.sleep(0.3)
    os.kill(killed, signal.SIGKILL)
    assert [os.waitpid(one, 0)[1] for one in (killed, *others)] == [signal.SIGKILL, 0, 0]
    assert Counter(log.read_text().split()) == {str(number): 1 for number in range(12)}
    assert [one.state for one in read_sweep(tmp_path / "s").trials] == ["complete"] * 12


def test_a_trial_is_pruned_by_its_dev_score_which_is_reported_once_an_epoch(asked, tmp_path, monkeypatch):
    search = {"training.learning_rate": [3e-3, 1e-9]}
    given = asked(search=search, trials=2, sampler="grid", pruner="median")
    reported = []

    def report(journal, trial, epoch, value):
        reported.append((trial.number, epoch))
        return trial.number == 1 and epoch == 2

    monkeypatch.setattr(Journal, "report", report)
    found = run_sweep(*given, tmp_path)
    assert [one.state for one in found.trials] == ["complete", "pruned"]
    assert reported == [(0, 1), (0, 2), (1, 1), (1, 2)]
    assert "pruned after epoch 2 with 0." in found.trials[1].reason
    assert (tmp_path / "trials" / "1" / "pruned.txt").read_text().strip() == found.trials[1].reason


def test_an_epoch_that_is_trained_again_is_not_reported_again(asked, tmp_path):
    given = asked(trials=1, pruner="median")
    with pytest.raises(Crash):
        run_sweep(*given, tmp_path, Trouble(9, crash))
    run_sweep(*given, tmp_path)
    entries = [json.loads(line) for line in (tmp_path / FILE).read_text().splitlines()]
    assert [one["step"] for one in entries if "intermediate_value" in one] == [1, 2]


def test_the_median_pruner_prunes_what_is_below_it(asked, tmp_path):
    begin_sweep(*asked(trials=7, pruner="median"), tmp_path)
    journal = Journal(tmp_path, load_sweep(tmp_path / "sweep.yaml")[0])
    for value in (0.5, 0.6, 0.7, 0.8, 0.9):
        trial = journal.open(journal.begin())
        assert not journal.report(trial, 1, value)
        journal.tell(trial.number, value, "COMPLETE")
    good, bad = journal.open(journal.begin()), journal.open(journal.begin())
    assert not journal.report(good, 1, 0.75)
    assert journal.report(bad, 1, 0.65)


def test_hyperband_reads_what_is_reported(asked, tmp_path):
    begin_sweep(*asked(trials=7, pruner="hyperband"), tmp_path)
    journal = Journal(tmp_path, load_sweep(tmp_path / "sweep.yaml")[0])
    for number in range(12):
        trial = journal.open(journal.begin())
        given_up = [journal.report(trial, epoch, 1 - number / 12) for epoch in range(1, 10)]
        journal.tell(number, None if any(given_up) else 1 - number / 12, "PRUNED" if any(given_up) else "COMPLETE")
    assert {one.state.name for one in journal.trials()} == {"COMPLETE", "PRUNED"}
    assert journal.best().number == 0


def test_the_lowest_can_be_the_best(asked, quick, tmp_path):
    found = run_sweep(*asked(metric="accuracy", direction="minimize"), tmp_path)
    assert found.best.value == min(one.value for one in found.trials)


def test_a_metric_that_is_not_measured_is_refused(asked, quick, tmp_path):
    with pytest.raises(RecipeError, match=r"metric: acuracy is not measured on dev; did you mean 'accuracy'"):
        run_sweep(*asked(metric="acuracy"), tmp_path)


def test_measuring_on_the_way_changes_no_weight(recipe, tmp_path):
    told = []
    plain = run_recipe(recipe, tmp_path / "plain")
    seen = run_recipe(recipe, tmp_path / "seen", measured=lambda epoch, value: told.append(epoch))
    assert told == [1, 2] == [one["epoch"] for one in seen.training.measured]
    ours, theirs = (load_file(run.model / "model.safetensors") for run in (plain, seen))
    assert all((ours[name] == theirs[name]).all() for name in ours)


def test_settings_that_cannot_be_trained_fail_with_their_reason(asked, quick, tmp_path, monkeypatch):
    fast = module.run_recipe

    def fail(recipe, place, *rest, **more):
        if recipe.training.batch_size == 8:
            raise TrainingError("the loss is nan")
        fast(recipe, place, *rest, **more)

    monkeypatch.setattr(module, "run_recipe", fail)
    found = run_sweep(
        *asked(search={"training.batch_size": [8, 16], "training.learning_rate": [1e-3]}, sampler="grid"),
        tmp_path / "a",
    )
    assert {one.settings["training.batch_size"]: (one.state, one.reason) for one in found.trials} == {
        8: ("failed", "the loss is nan"),
        16: ("complete", ""),
    }
    with pytest.raises(RunError, match=r"no trial has a value to choose by\. trial 0: the loss is nan"):
        run_sweep(*asked(search={"training.batch_size": [8]}, sampler="grid"), tmp_path / "b")


def test_a_stage_that_another_worker_makes_is_waited_for(asked, quick, tmp_path, monkeypatch):
    fast, calls = module.run_recipe, []

    def busy(*args, **more):
        calls.append(1)
        if len(calls) == 1:
            raise BusyError("process 7 is training this stage")
        fast(*args, **more)

    monkeypatch.setattr(module, "PAUSE", 0.01)
    monkeypatch.setattr(module, "run_recipe", busy)
    assert run_sweep(*asked(), tmp_path).finished
    assert quick == [0, 1, 2]


def test_a_grid_is_every_combination_once(asked, quick, tmp_path):
    search = {
        "training.learning_rate": ["5e-5", "3e-5"],
        "training.batch_size": {"low": 8, "high": 24, "step": 8},
        "head.layers": ["last"],
    }
    given = asked(search=search, sampler="grid", trials=None)
    found = run_sweep(*given, tmp_path / "s")
    drawn = {tuple(one.settings.values()) for one in found.trials}
    assert drawn == {(rate, batch, "last") for rate in (5e-5, 3e-5) for batch in (8, 16, 24)}
    assert len(found.trials) == 6
    assert found.importances["training.learning_rate"] > 0.9  # which the value is
    assert (tmp_path / "s" / "importance.svg").is_file()


def test_more_trials_go_on_and_another_search_is_refused_with_the_differences(asked, quick, tmp_path):
    run_sweep(*asked(sampler="tpe"), tmp_path)
    assert len(run_sweep(*asked(sampler="tpe", trials=5), tmp_path).trials) == 5
    with pytest.raises(
        RunError, match=r"another sweep:\n  search.training.batch_size: there \[8, 16\], here \[8, 32\]"
    ):
        run_sweep(*asked(search={**SEARCH, "training.batch_size": [8, 32]}, sampler="tpe"), tmp_path)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("")
    with pytest.raises(RunError, match="no sweep"):
        run_sweep(*asked(), tmp_path / "other")


def test_no_trial_begins_when_the_time_is_up(asked, quick, tmp_path, monkeypatch):
    begin_sweep(*asked(), tmp_path)
    SweepWorker(tmp_path, deadline=time.time() - 1).run()
    assert quick == []
    SweepWorker(tmp_path, deadline=time.time() + 60).run()
    assert quick == [0, 1, 2]
    assert [seconds(text) for text in ("90m", "2h", "1h30m", "45s")] == [5400, 7200, 5400, 45]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"search": {"training.learning_rat": [1]}},
            r"search: training\.learning_rat is not an option; did you mean 'learning_rate'",
        ),
        (
            {"search": {"training.learning_rate": [-1]}},
            r"training\.learning_rate: found -1; input should be greater than 0",
        ),
        ({"search": {"training.learning_rate": 1}}, r"search\.training\.learning_rate: found 1, expected choices"),
        ({"search": {"training.learning_rate": {"low": 1, "hi": 2}}}, r"hi is not an option; did you mean 'high'"),
        ({"search": {"training.learning_rate": {"low": 2, "high": 1}}}, "expected low below high"),
        ({"search": {"training.learning_rate": []}}, "one or more choices"),
        ({"search": {"data.split.dev": [0.1]}}, "changes the rows that trials are measured on"),
        ({"sampler": "grid"}, "a grid needs a list of choices, or a range with a step"),
        ({"timeout": "soon"}, "expected a time such as 90m, 2h or 1h30m"),
        ({"pruner": "median", "metric": "macro_f1"}, "leave metric out"),
        ({"direction": "minimize"}, "minimize needs a metric"),
        ({"trails": 3}, "trails is not an option; did you mean 'trials'"),
    ],
)
def test_what_makes_no_sense_is_refused(changes, message, asked):
    with pytest.raises(RecipeError, match=message):
        asked(**changes)


def test_a_file_is_read_with_its_lines_and_from_its_folder(encoder, files, tmp_path):
    path = tmp_path / "sweep.yaml"
    start = f"recipe:\n  model: {encoder}\n  data: {{train: {files['train']}, dev: dev.csv}}\n"
    path.write_text(f"{start}search:\n  training.batch_size: [8]\n  training.learning_rate: [5e-5, 2e-5]\n")
    given, recipe = load_sweep(path)
    assert given.search["training.learning_rate"] == [5e-5, 2e-5]
    assert recipe.data.dev == str(tmp_path / "dev.csv")
    path.write_text(f"{start}search:\n  training.batch_size: [8]\n  training.learning_rat: [5e-5]\n")
    with pytest.raises(
        RecipeError,
        match=r"sweep\.yaml:6: search: training\.learning_rat is not an option; did you mean 'learning_rate'",
    ):
        load_sweep(path)
    path.write_text(start.replace(", dev: dev.csv", "") + "search: {training.batch_size: [8]}\n")
    with pytest.raises(RecipeError, match=r"no dev rows to choose by; set data\.dev, or data\.split\.dev: 0\.1"):
        load_sweep(path)


@pytest.mark.parametrize("name", shipped_sweeps())
def test_a_shipped_sweep_is_whole_but_for_its_recipe(name, recipe):
    given, _ = load_sweep(name, recipe=recipe)
    assert shipped_sweeps()[name].read_text().startswith("# ")
    assert (name, given.wanted) == ("published-grid", 12)


@pytest.mark.parametrize("failing", [1, 4, 9])
def test_an_entry_that_fails_half_way_is_not_written_twice(asked, quick, tmp_path, monkeypatch, failing):
    class Failing(io.FileIO):
        def write(self, data):
            nonlocal failing
            failing -= 1
            if failing == 0:
                super().write(bytes(data)[: len(data) // 2])
                raise OSError(errno.EIO, "Input/output error")
            return super().write(data)

    opened = Path.open

    def open_to_fail(path, mode="r", *rest, **more):
        return Failing(path, "ab") if path.name == FILE and mode == "ab" else opened(path, mode, *rest, **more)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", open_to_fail)
        with pytest.raises(OSError, match="Input/output"):
            run_sweep(*asked(), tmp_path)
    ended = run_sweep(*asked(), tmp_path)
    assert [one.state for one in ended.trials] == ["complete"] * 3
    assert sorted(quick) == [0, 1, 2]


def test_a_half_written_entry_is_cut_off(asked, quick, tmp_path):
    run_sweep(*asked(trials=1), tmp_path)
    path = tmp_path / FILE
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"op_code": 4, "wor')
    assert len(read_sweep(tmp_path).trials) == 1
    assert len(run_sweep(*asked(trials=2), tmp_path).trials) == 2


def test_an_entry_with_a_hole_is_cut_off(asked, quick, tmp_path):
    run_sweep(*asked(trials=1), tmp_path)
    path = tmp_path / FILE
    path.write_bytes(path.read_bytes() + bytes(60) + b'": 4, "wor"}\n')  # a power cut lost the first half
    assert len(read_sweep(tmp_path).trials) == 1
    assert len(run_sweep(*asked(trials=2), tmp_path).trials) == 2


def test_two_processes_may_set_up_a_sweep_at_once(asked, tmp_path, monkeypatch):
    sweep, recipe = asked()
    (tmp_path / "s").mkdir()
    listed = Path.iterdir

    def after_another_process(path):
        monkeypatch.setattr(Path, "iterdir", listed)
        begin_sweep(sweep, recipe, path)
        return listed(path)

    monkeypatch.setattr(Path, "iterdir", after_another_process)
    begin_sweep(sweep, recipe, tmp_path / "s")
    assert (tmp_path / "s" / module.SWEEP).is_file()


def test_a_kill_while_the_folder_is_set_up_is_gone_on_from(asked, quick, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(module, "write_text", lambda *_: crash())
        with pytest.raises(Crash):
            run_sweep(*asked(trials=1), tmp_path / "s")
    assert len(run_sweep(*asked(trials=1), tmp_path / "s").trials) == 1


def test_weights_that_a_kill_left_are_removed_at_the_end(asked, quick, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(module, "remove_weights", lambda *_: crash())
        with pytest.raises(Crash):
            run_sweep(*asked(trials=2), tmp_path)
    found = run_sweep(*asked(trials=2), tmp_path)
    assert [path.parent.name for path in (tmp_path / "trials").glob("*/model")] == [str(found.best.number)]
