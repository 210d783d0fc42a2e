"""Faults of the machine around a command: each has a code of its own and one line that says what to do."""

import errno
import json
import os
import shutil
import socket
import subprocess
import sys
import time

import pytest
import transformers
from safetensors.torch import load_file, save_file

import warmstart
from processes import finish
from warmstart.deploy import cluster
from warmstart.errors import ClusterError, DiskError, ModelError, RecipeError
from warmstart.models.loading import load_model, load_tokenizer
from warmstart.models.security.tokenizer import MAX_ADDED_TOKENS
from warmstart.storage.artifacts import disk_errors
from warmstart.training.settings import check_trainer_options

WARMSTART = [sys.executable, "-m", "warmstart.cli.main"]


def test_a_name_that_is_too_long_is_a_fault_of_the_path_and_not_of_warmstart(files, encoder):
    done = finish([*WARMSTART, "fit", files["train"], "--model", encoder, "--task", "classify", "--out", "x" * 300])
    assert done.returncode == 9
    assert done.stderr.startswith("warmstart: xxx")
    assert done.stderr.endswith("…: the name is longer than the file system allows; choose a shorter one\n")
    assert len(done.stderr) < 250


def test_a_path_that_the_locale_cannot_write_says_how_to_set_it(files, encoder, tmp_path):
    ascii_only = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = finish(
        [*WARMSTART, "fit", files["train"], "--model", encoder, "--task", "classify", "--out", tmp_path / "bücher"],
        env=ascii_only,
    )
    assert done.returncode == 12
    hint = "this locale has no characters beyond ASCII; set PYTHONUTF8=1, or LC_ALL=C.UTF-8"
    assert any(line.endswith(hint) for line in done.stderr.splitlines())


def test_a_cache_that_cannot_be_written_is_blamed_and_not_the_writable_out(tmp_path, monkeypatch):
    monkeypatch.setenv("WARMSTART_CACHE", str(tmp_path / "home" / "cache"))
    denied = PermissionError(errno.EACCES, "Permission denied", str(tmp_path / "home" / "cache" / "rows"))
    with pytest.raises(DiskError) as error, disk_errors(tmp_path / "out"):
        raise denied
    assert str(error.value).startswith(f"{tmp_path / 'home' / 'cache' / 'rows'}: there is no permission to write here")
    assert "WARMSTART_CACHE" in str(error.value)
    own = PermissionError(errno.EACCES, "Permission denied", str(tmp_path / "out" / "model"))
    with pytest.raises(DiskError, match=f"^{tmp_path / 'out'}: there"), disk_errors(tmp_path / "out"):
        raise own


def test_a_dead_head_of_a_cluster_is_one_line_before_ray_starts(monkeypatch):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for address in (f"127.0.0.1:{port}", f"ray://127.0.0.1:{port}"):
        began = time.monotonic()
        message = f"^--ray {address}: no Ray head answers there"
        with pytest.raises(ClusterError, match=message) as error, cluster.connected(address):
            pass
        assert error.value.exit_code == 11
        assert time.monotonic() - began < 15


def test_a_head_that_dies_later_ends_the_process_with_one_line():
    script = (
        "import socket, time\n"
        "from warmstart.deploy.head_watch import watched\n"
        "with socket.create_server(('127.0.0.1', 0)) as head:\n"
        "    port = head.getsockname()[1]\n"
        "    with watched(f'127.0.0.1:{port}', gone_seconds=1):\n"
        "        pass\n"  # a watch that is over does not end anything
        "    guard = watched(f'127.0.0.1:{port}', gone_seconds=1)\n"
        "    guard.__enter__()\n"
        "    time.sleep(4)\n"
        "    print('alive', flush=True)\n"
        "time.sleep(60)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=50, check=False)
    assert (done.returncode, done.stdout) == (ClusterError.exit_code, "alive\n")
    assert done.stderr.count("\n") == 2
    assert "warmstart: the Ray head at 127.0.0.1:" in done.stderr
    assert "run the same command to resume once a head runs" in done.stderr


def test_weights_that_are_not_numbers_are_refused_at_opening(encoder, files, tmp_path):
    run = warmstart.fit(
        model=encoder, train=files["train"], test=files["test"], out=tmp_path / "run", training={"max_steps": 1}
    )
    for value, name in ((float("nan"), "bert.encoder.layer.0.output.dense.weight"), (float("inf"), "classifier.bias")):
        model = tmp_path / f"damaged-{value}"
        shutil.copytree(run.model, model)
        (model / "manifest.json").unlink()
        weights = load_file(model / "model.safetensors")
        weights[name].view(-1)[0] = value
        save_file(weights, model / "model.safetensors", metadata={"format": "pt"})
        with pytest.raises(ModelError, match=f"{name} has values that are NaN or infinite"):
            load_model(str(model), "AutoModelForSequenceClassification", {}, load_tokenizer(str(model)))


def test_sharding_that_would_not_happen_is_refused(monkeypatch):
    for options in ({"fsdp": "full_shard"}, {"fsdp": True}, {"fsdp_config": {"version": 2}}):
        with pytest.raises(RecipeError, match=r"^trainer\.fsdp(_config)?: set training\.fsdp: true instead"):
            check_trainer_options(options)
    with pytest.raises(RecipeError, match=r"^trainer\.deepspeed: cannot be set: .*; leave it out"):
        check_trainer_options({"deepspeed": "zero3.json"})
    monkeypatch.setenv("ACCELERATE_USE_DEEPSPEED", "true")
    with pytest.raises(RecipeError, match=r"start with torchrun, and set training\.fsdp: true"):
        check_trainer_options({})


@pytest.mark.parametrize("file", ["tokenizer.json", "tokenizer_config.json", "added_tokens.json"])
def test_too_many_added_tokens_are_refused_before_a_library_reads_them(encoder, tmp_path, monkeypatch, file):
    model = tmp_path / "model"
    shutil.copytree(encoder, model)
    path = model / file
    values = json.loads(path.read_text()) if path.is_file() else {}
    about = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": False}
    tokens = {str(1000 + n): {"content": f"token{n}", **about} for n in range(MAX_ADDED_TOKENS + 1)}
    if file == "tokenizer.json":
        values["added_tokens"] = [{"id": int(number), **token} for number, token in tokens.items()]
    elif file == "tokenizer_config.json":
        values["added_tokens_decoder"] = tokens
    else:
        values = {token["content"]: int(number) for number, token in tokens.items()}
    path.write_text(json.dumps(values))
    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", None)  # it would take minutes for 500,000
    with pytest.raises(ModelError, match=f"{file}.*expected at most {MAX_ADDED_TOKENS:,} added tokens"):
        load_tokenizer(str(model))
