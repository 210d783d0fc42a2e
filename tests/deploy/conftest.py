"""A run with an export, for all that answers with one."""

import shutil

import pytest


@pytest.fixture(scope="session")
def exported(run, tmp_path_factory):
    """A copy of the finished tiny run with its export, in whole numbers too."""
    import warmstart

    folder = tmp_path_factory.mktemp("exported") / "run"
    shutil.copytree(run.folder, folder)
    warmstart.export(folder, int8=True, max_drop=100)
    return folder
