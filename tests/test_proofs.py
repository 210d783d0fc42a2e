"""A small sample of each proof holds, and ends with its line of JSON."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def prove(name: str, n: int) -> dict:
    env = {**os.environ, "PYTHONPATH": f"{ROOT / 'benchmarks'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    command = [sys.executable, ROOT / "proofs" / f"{name}.py", "--n", str(n)]
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    if "unshare" in done.stderr and "not permitted" in done.stderr:
        pytest.skip("this machine allows no mount namespace of one's own")
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict = json.loads(done.stdout.splitlines()[-1])
    return found


def test_killed_runs_end_bit_equal():
    found = prove("kill", 4)
    assert found["bit_equal"] == found["runs"] == 4
    assert found["more_bit_equal"] == found["more_runs"] == 3
    assert found["left_without_a_valid_checkpoint"] == 0


def test_no_corruption_is_silent():
    found = prove("corrupt", 40)
    assert found["tried"] > 30
    assert found["silent"] == 0


def test_rows_come_in_the_same_order_after_a_resume():
    found = prove("order", 6)
    assert found == {"cases": 6, "equal": 6, "workers_agree": True, "every_row_once_an_epoch": True}


def test_a_full_disk_is_said_and_gone_on_from():
    found = prove("full_disk", 2)
    assert found == {"sizes": 2, "clear": 2, "resumed_bit_equal": 2, "read_only_code": 9}


def test_intervals_hold_the_truth_and_tests_seldom_claim_what_is_not():
    found = prove("intervals", 100)
    # Four standard errors of a share of 5% in a hundred, as the full size is for `make proof-statistics`.
    assert all(share >= 0.86 for share in found["coverage"].values())
    assert all(share <= 0.14 for share in found["false_positives"].values())


def test_a_killed_sweep_loses_no_trial_and_repeats_none():
    found = prove("sweep", 2)
    assert found["workers_killed"] > 0
    assert {name: found[name] for name in ("lost", "done_twice", "told_twice")} == {
        "lost": 0,
        "done_twice": 0,
        "told_twice": 0,
    }
    assert found["as_left_alone"] == found["trials"] == 4
    assert found["best_bit_equal"]
