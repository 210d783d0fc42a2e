"""Which sockets each verb opens: none for local use. What serves, or runs on Ray, is looked at where it is tested."""

import json
import subprocess
import sys
from pathlib import Path

from warmstart.cli.main import VERBS

CHECKPOINT = Path(__file__).parent / "samples" / "tensorflow" / "tiny"
ELSEWHERE = {"serve"}
"""Verbs that listen, each looked at in tests/deploy/."""

LISTED = """
import json, socket, sys

seen = []

def note(event, args):
    if event == "socket.__new__" and args[1] != socket.AF_UNIX or event in ("socket.getaddrinfo", "socket.connect"):
        seen.append([event, str(args[1:])])

sys.addaudithook(note)
from typer.testing import CliRunner
from warmstart.cli.main import app

opened = {}
for words in json.loads(sys.argv[1]):
    done = CliRunner().invoke(app, words)
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, (words, done.output)
    opened.setdefault(words[0], []).extend(seen)
    seen.clear()
print(json.dumps(opened))
"""


def test_no_verb_opens_a_socket_for_local_use(encoder, files, tmp_path):
    run, other, quick = tmp_path / "run", tmp_path / "other", ["--max-steps", "2", "--precision", "fp32"]
    fit = ["fit", files["train"], "--model", encoder, "--test", files["test"], "--dev", files["test"], *quick]
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        f"model: {encoder}\ndata: {{train: {files['train']}, dev: {files['test']}}}\n"
        "training: {max_steps: 2, precision: fp32}\n"
    )
    study = tmp_path / "study"
    study.mkdir()
    (study / "study.yaml").write_text(
        "title: One method\nsubject: own\nmethods: {own: {recipe: {training.max_steps: 2}}}\nsizes: {all: {seeds: 1}}\n"
        f"sets: {{films: {{train: {files['train']}, test: {files['test']}, sizes: [all]}}}}\n"
    )
    pool = tmp_path / "pool.csv"
    pool.write_text("text\na good film\na boring plot\n")
    verbs = [
        [*fit, "--out", run],
        [*fit, "--out", other, "--set", "seed=1"],
        ["plan", recipe],
        ["check", files["train"]],
        ["predict", run, "a good film"],
        ["predict", run, "--file", files["test"], "--out", tmp_path / "answers.parquet"],
        ["export", run],
        ["predict", run, "a good film", "--engine", "onnx"],
        ["predict", run, "a good film", "--engine", "openvino"],
        ["evaluate", run],
        ["compare", run, other],
        ["diagnose", run, "--explain", "1"],
        ["ask", run, pool, "--rows", "1", "--out", tmp_path / "to-label.csv"],
        ["shrink", run, "--remove", "0", "--out", tmp_path / "small"],
        ["inspect", run, "layers"],
        ["import", CHECKPOINT, "--lower-case", "--out", tmp_path / "imported"],
        ["features", files["test"], "--model", encoder, "--out", tmp_path / "vectors.npy"],
        ["stages"],
        ["sweep", recipe, "--search", "training.learning_rate=1e-4,1e-3", "--out", tmp_path / "sweep"],
        ["scout", files["train"], "--models", encoder, "--out", tmp_path / "scout"],
        ["study", study, "--model", encoder, "--work", tmp_path / "work"],
        ["report", run],
        ["show", run],
        ["verify", run],
        ["doctor"],
    ]
    assert {words[0] for words in verbs} | ELSEWHERE >= set(VERBS)
    commands = json.dumps([[str(word) for word in words] for words in verbs])
    done = subprocess.run([sys.executable, "-c", LISTED, commands], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    opened = json.loads(done.stdout.splitlines()[-1])
    assert {verb: sockets for verb, sockets in opened.items() if sockets} == {}


def test_a_socket_would_be_seen():
    code = LISTED.replace("opened = {}", "socket.create_server(('127.0.0.1', 0)).close(); opened = {'made': seen}")
    done = subprocess.run([sys.executable, "-c", code, "[]"], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["made"]
