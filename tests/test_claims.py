"""A run's folder belongs to one fit at a time: a second one ends at once and says who has it."""

import os
import signal
import socket
import subprocess
import sys

import pytest

import warmstart
from processes import finish, started
from small import FAST
from test_resume import Trouble
from warmstart.errors import BusyError, RunError
from warmstart.pipeline.claim import LOCK

TRAIN = {"training": {**FAST["training"], "epochs": 2}, "checkpoints": {"every_steps": 3}}

HOLD = """
import sys
from pathlib import Path
from warmstart.pipeline.claim import claimed
with claimed(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def settings(encoder, files, tmp_path):
    return {"model": encoder, "train": files["train"], "test": files["test"], "out": tmp_path / "run", **TRAIN}


def holding(folder):
    """A process that claims a folder, until a line comes."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    return started([sys.executable, "-c", HOLD, folder], **pipes)


def command(settings):
    train, test, out, model = (str(settings[name]) for name in ("train", "test", "out", "model"))
    return [
        "-m",
        "warmstart.cli.main",
        "fit",
        train,
        "--test",
        test,
        "--model",
        model,
        "--task",
        "classify",
        "--out",
        out,
    ]


def test_a_second_fit_ends_at_once_and_the_first_is_not_disturbed(settings, tmp_path):
    ends = []

    def second():
        with pytest.raises(BusyError) as error:
            warmstart.fit(**settings)
        ends.append((str(error.value), finish([sys.executable, *command(settings)])))

    run = warmstart.fit(**settings, progress=Trouble(step=4, what=second))
    [(message, done)] = ends
    holder = f"process {os.getpid()} on {socket.gethostname()}"
    assert message == (
        f"{settings['out']}: {holder} is training into it; wait until it has ended, or choose another folder with --out"
    )
    assert (done.returncode, done.stderr) == (6, f"warmstart: {message}\n")
    undisturbed = warmstart.fit(**{**settings, "out": tmp_path / "undisturbed"})
    assert run.metrics == undisturbed.metrics
    one, two = (each.model / "model.safetensors" for each in (run, undisturbed))
    assert one.read_bytes() == two.read_bytes()
    assert not (run.folder / LOCK).exists(), "a finished run keeps no name of a machine"
    with pytest.raises(RunError, match="finished run"):
        warmstart.fit(**settings)


def test_the_claim_of_a_killed_process_is_free_at_once(settings):
    with holding(settings["out"]) as other:
        assert other.stdout.readline() == "held\n"
        with pytest.raises(BusyError, match=f"process {other.pid} on "):
            warmstart.fit(**settings)
        other.send_signal(signal.SIGKILL)
        other.wait()
        assert (settings["out"] / LOCK).is_file()
        assert warmstart.fit(**settings).metrics


def test_several_processes_of_one_training_end_together_where_another_has_the_folder(settings):
    """That they share a claim where it is free is seen in test_torchrun.py, whose trainings would refuse each other."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
    with holding(settings["out"]) as other:
        assert other.stdout.readline() == "held\n"
        refused = finish([*launcher, *command(settings)])
        assert refused.returncode
        assert f"process {other.pid} on " in refused.stderr
        other.communicate("\n")
    assert not settings["out"].exists(), "a claim leaves nothing behind"


def test_a_folder_that_is_no_run_is_not_touched(settings):
    settings["out"].mkdir()
    (settings["out"] / "letter.txt").write_text("mine")
    with pytest.raises(RunError, match="no run"):
        warmstart.fit(**settings)
    assert [path.name for path in settings["out"].iterdir()] == ["letter.txt"]
