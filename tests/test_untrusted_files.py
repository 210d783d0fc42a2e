"""Data files from anywhere: each hostile spreadsheet or archive is refused by name or read without following it."""

import resource
import shutil
import time

import pytest
from typer.testing import CliRunner

from hostile import Case, open_it, save_data, secret
from hostile_files import FILE_CASES
from warmstart.cli.main import app
from warmstart.errors import DataError

SECONDS, MEGABYTES = 20, 600
"""What one case may take; far more than it does, and far less than a bomb that goes off."""


@pytest.fixture(scope="module")
def benign(tmp_path_factory):
    folder = tmp_path_factory.mktemp("benign") / "data"
    save_data(folder)
    return folder


def test_the_benign_files_are_read(benign):
    open_it("data", benign)


@pytest.mark.parametrize("case", FILE_CASES, ids=lambda case: case.name)
def test_a_hostile_file_is_refused_by_name_and_takes_little(benign, case: Case, tmp_path):
    folder = tmp_path / "it"
    shutil.copytree(benign, folder)
    secret(folder).write_text("text,label\nsecret,secret\n")
    case.make(folder)
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    started, peak = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if case.names:
        with pytest.raises(DataError) as refused:
            open_it("data", folder)
        assert [name for name in case.names if name not in str(refused.value)] == [], str(refused.value)
    else:
        open_it("data", folder)
    assert time.process_time() - started < SECONDS
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < MEGABYTES << 10
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before


def test_no_name_is_there_twice():
    assert len({case.name for case in FILE_CASES}) == len(FILE_CASES) >= 50


def test_the_command_line_refuses_with_a_message_and_no_traceback(tmp_path):
    names = ("a billion laughs in sheet1.xml", "elements nested deep in an .ods", "a zip of two files")
    for case in [case for case in FILE_CASES if case.name in names]:
        folder = tmp_path / case.name
        folder.mkdir()
        case.make(folder)
        [file] = folder.iterdir()
        done = CliRunner().invoke(app, ["check", str(file)])
        assert done.exit_code == 4
        assert f"error {file}: " in done.stderr
