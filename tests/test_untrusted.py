"""What comes from anywhere: each hostile folder or recipe is refused, its file and key named, and has no effect."""

import json
import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

import warmstart
from hostile import CASES, Case, open_it, ran, save_benign, sealed, secret
from tiny import ARCHITECTURES, save_tiny
from warmstart.cli import show
from warmstart.cli.main import _complain
from warmstart.errors import ModelError, RunError, WarmstartError
from warmstart.models.loading import load_as_saved, load_config, load_model, load_tokenizer
from warmstart.models.security import folder as untrusted
from warmstart.models.security.folder import check_folder
from warmstart.models.security.tokenizer import backtracking_risk
from warmstart.training.checkpoint_state import load_state, save_state
from warmstart.training.checkpoints import CheckpointStore

PROOF = Path(__file__).resolve().parents[1] / "proofs" / "hostile.py"


@pytest.fixture(scope="module")
def benign(tmp_path_factory):
    folder = tmp_path_factory.mktemp("benign")
    save_benign(folder)
    return folder


@pytest.mark.parametrize("kind", ["model", "recurrent", "run", "recipe"])
def test_the_benign_folders_open(benign, kind):
    open_it(kind, benign / kind)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_hostile_one_is_refused_by_name_and_runs_nothing(benign, case: Case, tmp_path):
    folder = tmp_path / "it"
    shutil.copytree(benign / case.kind, folder)
    secret(folder).write_text('{"model_type": "bert", "read": "secret"}')
    case.make(folder)
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    if case.names:
        with pytest.raises(WarmstartError) as refused:
            open_it(case.kind, folder)
        assert [name for name in case.names if name not in str(refused.value)] == [], str(refused.value)
    else:
        open_it(case.kind, folder)
    assert not ran(folder).exists()
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before


def test_there_are_sixty_or_more_and_no_name_is_there_twice():
    assert len({case.name for case in CASES}) == len(CASES) >= 60


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_architecture_opens(name, tmp_path):
    folder = str(save_tiny(tmp_path / name, name))
    load_tokenizer(folder)
    assert load_as_saved(folder).config.model_type == load_config(folder).model_type


@pytest.mark.real
@pytest.mark.parametrize("name", ["minilm", "e5-small"])
def test_real_folders_open(name, shared):
    script = shared / "weights" / "get.py"
    folder = subprocess.run([script, name], check=True, capture_output=True, text=True).stdout.strip()
    load_model(folder, "AutoModelForSequenceClassification", {"num_labels": 2}, load_tokenizer(folder))


def test_a_folder_is_read_again_only_when_it_changed(benign, tmp_path, monkeypatch):
    folder = tmp_path / "it"
    shutil.copytree(benign / "model", folder)
    reads = []
    real = untrusted.check_config
    monkeypatch.setattr(untrusted, "check_config", lambda path: (reads.append(path), real(path)))
    for _ in range(3):
        check_folder(folder)
    assert len(reads) == 1
    config = json.loads((folder / "config.json").read_text()) | {"auto_map": {"AutoConfig": "evil.C"}}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match="auto_map"):
        check_folder(folder)


def test_a_folder_may_be_reached_over_a_link(benign, tmp_path):
    (tmp_path / "link").symlink_to(benign / "model")
    load_as_saved(str(tmp_path / "link"))


@pytest.mark.parametrize(
    "pattern",
    [
        r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
        r"(?i:'s|'t|'re|'ve|'m)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r" {2,}",
    ],
)
def test_the_patterns_of_known_tokenizers_are_taken(pattern):
    assert backtracking_risk(pattern) is None


@pytest.mark.parametrize(
    "pattern", ["(a+)+", "(a*)*b", "(?:a|a)+", "((a+)b)*", "(a{2,})+", r"([a-z]+\s?){1,}", r"(x+x+)+y"]
)
def test_patterns_that_take_for_ever_are_seen(pattern):
    assert backtracking_risk(pattern)


@pytest.mark.parametrize(
    "state", ["[]", "{", '{"items": 5}', '{"tensor": "none"}', '{"items": [[1]]}', '{"a": 1, "b": 2}', '{"list": [1]}']
)
def test_a_state_of_another_shape_is_no_checkpoint(tmp_path, state):
    path = CheckpointStore(tmp_path).save(1, partial(save_state, {"a": 1}))
    (path / "state.json").write_text(state)
    with pytest.raises(RunError, match=r"state\.json"):
        load_state(path)


def test_a_manifest_without_an_identity_is_none_of_ours(tmp_path):
    path = CheckpointStore(tmp_path, {"a": 1}).save(1, partial(save_state, {"a": 1}))
    manifest = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps(sealed(manifest | {"identity": [1]})))
    with pytest.raises(RunError, match="no identity"):
        CheckpointStore(tmp_path, {"a": 1}).newest()


@pytest.mark.parametrize("data", ["{}", '{"parts": 5}', '{"parts": {"a": {"rows": "x", "files": 1}}}', "[]"])
def test_a_run_of_another_shape_is_shown_as_an_error_of_ours(run, tmp_path, data):
    shutil.copytree(run.folder, tmp_path / "run")
    (tmp_path / "run" / "data.json").write_text(data)
    with pytest.raises(RunError, match=r"data\.json"):
        show.command(str(tmp_path / "run"))


def test_a_message_holds_nothing_that_a_terminal_obeys(capsys):
    _complain("a \x1b[31mred\x1b[0m name, \ud800 and\na line, é")
    assert capsys.readouterr().err == "warmstart: a \\x1b[31mred\\x1b[0m name, \\ud800 and\na line, é\n"


def test_a_name_that_is_a_file_is_no_model(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(ModelError, match="found a file"):
        load_config(str(tmp_path / "config.json"))


class PanicException(BaseException):
    """As the tokenizers library raises it."""


def test_a_tokenizer_that_panics_on_one_text_only_is_an_error_of_ours(run):
    predictor = warmstart.load(run.folder)
    real = predictor.tokenizer

    def breaks(texts, **options):
        if isinstance(texts, list) and "boom" in texts:
            raise PanicException("index out of bounds")
        return real(texts, **options)

    predictor.tokenizer = breaks
    with pytest.raises(ModelError, match="breaks on a text: index out of bounds"):
        predictor.predict(["boom"])


def test_what_fit_writes_opens(run):
    check_folder(run.model)
    assert warmstart.load(run.folder).predict(["a good film"])


@pytest.mark.skipif(shutil.which("strace") is None, reason="no strace here, which watches what a process opens")
def test_a_sample_of_the_proof_has_no_effect():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(PROOF.parents[1] / "benchmarks"), *sys.path])}
    command = [sys.executable, PROOF, "--n", "3"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures["folders"] == 3
    assert (figures["effects"], figures["unclear"]) == (0, 0)
    assert figures["controls_seen"] == figures["controls"]
