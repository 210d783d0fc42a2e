"""Importing warmstart and asking for help load nothing heavy, and help answers at once."""

import resource
import subprocess
import sys

import pytest

from warmstart.cli.main import VERBS

HEAVY = ("torch", "transformers", "datasets", "pandas", "sklearn", "scipy", "pyarrow", "numpy")


def loaded_by(code: str) -> set[str]:
    listed = f"{code}\nimport sys; print(*sorted(sys.modules))"
    out = subprocess.run([sys.executable, "-c", listed], capture_output=True, text=True, check=True).stdout
    return {name for name in HEAVY if name in out.split("\n")[-2].split()}


HELP = "from typer.testing import CliRunner; from warmstart.cli.main import app; r = CliRunner().invoke(app, {}); "
HELPS = [[], *([name] for name in VERBS)]


@pytest.mark.parametrize(
    "code",
    [
        "import warmstart",
        "import warmstart; warmstart.__version__",
        "import warmstart.recipe",
        "import warmstart.cli.main",
    ],
)
def test_importing_loads_nothing_heavy(code):
    assert loaded_by(code) == set()


@pytest.mark.parametrize("verb", HELPS, ids=lambda verb: " ".join(verb) or "warmstart")
def test_help_loads_nothing_heavy(verb):
    code = HELP.format([*verb, "--help"]) + "assert r.exit_code == 0 and 'Usage' in r.output"
    assert loaded_by(code) == set()


def test_help_answers_in_half_a_second():
    # The best of five, by the processor's time: the machine may be busy with other tests.
    took = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "warmstart.cli.main", "--help"], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(took) < 0.5, took


def test_public_names_are_found_when_used():
    import warmstart

    assert all(getattr(warmstart, name) is not None for name in warmstart.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = warmstart.nothing
