"""What can be known without torch is refused without it: within a second of CPU, with the same exit code as before."""

import os
import resource
import subprocess
import sys

import pytest

from warmstart import tasks
from warmstart.models.suggestions import suggest_encoders
from warmstart.tasks.shared.required_columns import required_columns

LIMIT = 1.0
"""Seconds of CPU with the bytecode warm."""
SLACK = 2.0
"""How much slower this machine may be while other tests run beside this one."""
REFUSALS = [
    (["fit", "rows.csv"], 3, "--model sentence-transformers/all-MiniLM-L6-v2"),
    (["fit", "nowhere.csv", "--model", "m"], 4, "nowhere.csv: no such file"),
    (["fit", "rows.csv", "--model", "m", "--label", "wrong"], 4, "rows.csv:1: no column 'wrong'"),
    (["fit", "german.csv", "--model", "m"], 4, "pass --delimiter ';'"),
    (["fit", "rows.csv", "--model", "m", "--encoding", "klingon"], 4, "no encoding 'klingon'"),
    (["fit", "rows.csv", "--model", "./nowhere"], 5, "./nowhere: there is no such folder"),
    (["fit", "rows.csv", "--model", "no/such"], 5, "HF_HUB_OFFLINE is set"),
    (["fit", "rows.csv", "--model", "m", "--set", "nokey=3"], 3, "nokey is not an option"),
    (["fit", "rows.csv", "--model", "m", "--out", "full"], 6, "full holds files that are no run"),
    (["fit", "rows.csv", "--model", "m", "--task", "nosuch"], 3, "'nosuch' is not a task"),
    (["check", "nowhere.csv"], 4, "nowhere.csv: no such file"),
    (["predict", "nowhere", "hello"], 5, "nowhere: no such folder"),
    (["predict", "nowhere", "--file", "rows.csv", "--out", "rows.csv"], 3, "the file exists"),
    (["evaluate", "nowhere"], 5, "nowhere: no such folder"),
    (["serve", "nowhere"], 5, "nowhere: no such folder"),
    (["export", "nowhere"], 5, "nowhere: no such folder"),
    (["report", "nowhere"], 6, "nowhere is no run"),
    (["diagnose", "nowhere"], 6, "nowhere is no run"),
    (["compare", "nowhere", "nowhere2"], 6, "nowhere: no such folder"),
    (["show", "nowhere"], 5, "nowhere: there is no such folder"),
    (["verify", "nowhere"], 6, "nowhere: found no manifest.json"),
    (["features", "rows.csv", "--model", "./nowhere", "--out", "v.npy"], 5, "./nowhere: there is no such folder"),
    (["scout", "rows.csv", "--models", "./nowhere"], 5, "./nowhere: there is no such folder"),
    (["plan", "rows.csv"], 3, "no model"),
    (["study", "nowhere"], 3, "there is no studies/nowhere/study.yaml"),
    (["sweep", "nowhere.yaml"], 3, "nowhere.yaml: no such file"),
    (["--help"], 0, ""),
    (["--version"], 0, ""),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("refusals")
    (folder / "rows.csv").write_text("text,label\nwhat is it that you have,x\nthe other of the two,y\n")
    (folder / "german.csv").write_text("text;label\nHallo;x\n")
    (folder / "full").mkdir()
    (folder / "full" / "other").touch()
    return folder


def typed(words, folder):
    """Exit code, output and seconds of CPU of a command."""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "hub"), "COLUMNS": "300"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "warmstart.cli.main", *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.parametrize(("words", "code", "message"), REFUSALS, ids=lambda value: str(value)[:40])
def test_a_refusal_takes_no_torch_and_no_second(words, code, message, folder):
    done, _ = typed(words, folder)
    assert done.returncode == code, done.stderr
    assert message in done.stderr + done.stdout
    assert "Traceback" not in done.stderr
    _, seconds = typed(words, folder)  # the bytecode is warm now
    assert seconds < LIMIT * SLACK


@pytest.mark.parametrize("name", tasks.names())
def test_the_columns_known_early_are_those_of_the_task(name):
    early = required_columns(name)
    if early is None:
        pytest.skip("left to the task")
    late = tasks.schema_of(name, {})
    assert [(one.name, one.meaning, one.answer, one.required) for one in early] == [
        (one.name, one.meaning, one.answer, one.required) for one in late
    ]


@pytest.mark.parametrize(
    ("text", "language", "name"),
    [
        ("What is the best way to do this, and how can you help me with it?", "English", "all-MiniLM-L6-v2"),
        ("Meine Karte ist weg und ich brauche bitte sofort eine neue", "not English", "multilingual"),
        ("カードをなくしました。どうすればいいですか", "Japanese", "multilingual"),
        ("카드를 잃어버렸어요", "Korean", "multilingual"),
    ],
)
def test_encoders_are_suggested_by_the_language(text, language, name):
    spoken, suggestions = suggest_encoders([text] * 3)
    assert spoken == language
    assert all(name.split("-")[0] in one.name for one in suggestions)
