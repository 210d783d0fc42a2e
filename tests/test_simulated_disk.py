"""The simulated disk of `make proof-simulation` loses what was not synced, and nothing else."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "proofs"))

from simulated_disk import KEEPS_ALL, ROOT, Disk, Outcome

LOSES_ALL = Outcome(lambda change: False, lambda file: "old")


@pytest.fixture
def disk():
    disk = Disk()
    disk.mkdir(f"{ROOT}/a")
    disk.sync(disk.root)
    return disk


def test_a_name_lasts_once_its_folder_was_synced(disk):
    file = disk.create(f"{ROOT}/a/new")
    disk.write(file, 0, b"bytes")
    disk.sync(file)
    assert disk.after(LOSES_ALL).files() == {}
    disk.sync(disk.folder(f"{ROOT}/a"))
    assert disk.after(LOSES_ALL).files() == {f"{ROOT}/a/new": b"bytes"}


def test_a_rename_that_was_not_synced_leaves_the_old_file(disk):
    for name, data in (("new", b"new"), (".staging", b"newer")):
        file = disk.create(f"{ROOT}/a/{name}")
        disk.write(file, 0, data)
        disk.sync(file)
    disk.sync(disk.folder(f"{ROOT}/a"))
    disk.rename(f"{ROOT}/a/.staging", f"{ROOT}/a/new")
    assert disk.after(LOSES_ALL).files() == {f"{ROOT}/a/new": b"new", f"{ROOT}/a/.staging": b"newer"}
    assert disk.after(KEEPS_ALL).files() == {f"{ROOT}/a/new": b"newer"}


@pytest.mark.parametrize(
    ("content", "left"),
    [
        ("new", b"old 1234"),
        ("old", b"old "),
        ("torn", b"old 12"),
        ("zeros", b"old \0\0\0\0"),
        ("hole", b"old \0\x0034"),
    ],
)
def test_bytes_that_were_not_synced_may_be_torn(disk, content, left):
    file = disk.create(f"{ROOT}/a/log")
    disk.write(file, 0, b"old ")
    for node in (file, disk.folder(f"{ROOT}/a")):
        disk.sync(node)
    disk.write(file, 4, b"1234")
    cut = Outcome(lambda change: True, lambda file: content)
    assert disk.after(cut).files() == {f"{ROOT}/a/log": left}


def test_two_names_of_one_file_stay_two_names(disk):
    disk.create(f"{ROOT}/a/x")
    disk.link(f"{ROOT}/a/x", f"{ROOT}/a/y")
    copy = disk.after(KEEPS_ALL)
    assert copy.file(f"{ROOT}/a/x") is copy.file(f"{ROOT}/a/y")
    assert copy.file(f"{ROOT}/a/x").links == 2
    copy.rename(f"{ROOT}/a/x", f"{ROOT}/a/y")
    assert sorted(copy.files()) == [f"{ROOT}/a/x", f"{ROOT}/a/y"], "as POSIX has it"
