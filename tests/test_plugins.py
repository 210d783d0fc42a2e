"""Names that other packages add: listed without importing anything, imported when used, refused when ambiguous."""

import importlib
import subprocess
import sys

import pytest

from warmstart import tasks
from warmstart.errors import PluginError, RecipeError
from warmstart.inference.engines.opening import FORMATS
from warmstart.models.pooling import Pooling
from warmstart.runtime import plugins
from warmstart.training.schedules import SCHEDULES


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install a package: its module's source, and its entry points by group."""

    def installed(name, source, points):
        (tmp_path / f"{name}.py").write_text(source)
        about = tmp_path / f"{name}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        groups = "".join(
            f"[warmstart.{kind}]\n" + "".join(f"{key} = {value}\n" for key, value in entries.items())
            for kind, entries in points.items()
        )
        (about / "entry_points.txt").write_text(groups)
        importlib.invalidate_caches()
        plugins._registered.cache_clear()

    monkeypatch.syspath_prepend(str(tmp_path))
    yield installed
    plugins._registered.cache_clear()


def test_names_of_ours_are_those_of_the_tables():
    assert plugins.built_in_names("schedules") == tuple(SCHEDULES)
    assert all(Pooling("last", name, 4, 2).output_size in (4, 12) for name in plugins.built_in_names("poolings"))
    assert plugins.built_in_names("engines") == tuple(FORMATS)
    assert plugins.built_in_names("tasks") == tasks.names()


def test_listing_names_imports_nothing(install):
    install("broken_plugin", "raise RuntimeError('imported')", {"schedules": {"one-cycle": "broken_plugin:factor"}})
    assert plugins.names("schedules") == (*SCHEDULES, "one-cycle")
    plugins.check("schedules", "one-cycle", "training.lr_schedule")
    code = (
        "from warmstart.runtime import plugins; plugins.names('tasks'); import sys; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_registered_object_is_imported_when_its_name_is_used(install):
    install("my_plugin", "def factor(place, low): return 0.5", {"schedules": {"half": "my_plugin:factor"}})
    assert plugins.load("schedules", "half", SCHEDULES)(0.0, 1.0) == 0.5
    assert plugins.load("schedules", "linear", SCHEDULES) is SCHEDULES["linear"]


def test_a_built_in_name_cannot_be_replaced(install):
    install("shadow_plugin", "factor = None", {"schedules": {"linear": "shadow_plugin:factor"}})
    assert plugins.names("schedules") == tuple(SCHEDULES)
    with pytest.raises(PluginError, match=r"'linear' .*schedules of shadow_plugin has the name of a built-in"):
        plugins.load("schedules", "linear", SCHEDULES)


def test_a_name_registered_twice_is_refused(install):
    for name in ("first_plugin", "second_plugin"):
        install(name, "factor = None", {"schedules": {"half": f"{name}:factor"}})
    with pytest.raises(PluginError, match="of first_plugin and second_plugin: two packages register this name"):
        plugins.load("schedules", "half", SCHEDULES)


@pytest.mark.parametrize("source", ["import no_such_package", "1 / 0", "other = 1"])
def test_an_import_that_fails_names_the_package(install, source):
    install("broken_plugin", source, {"schedules": {"half": "broken_plugin:factor"}})
    sys.modules.pop("broken_plugin", None)
    with pytest.raises(PluginError, match=r"'half' .* of broken_plugin cannot be imported from broken_plugin:factor: "):
        plugins.load("schedules", "half", SCHEDULES)


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(RecipeError, match=r"training.lr_schedule: found 'liner'; did you mean 'linear'"):
        plugins.check("schedules", "liner", "training.lr_schedule")
