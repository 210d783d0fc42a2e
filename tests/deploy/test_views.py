"""Before a corpus is labelled, every machine is asked what it sees; machines and storage may fail at that very time."""

from types import SimpleNamespace

import pytest

from warmstart.deploy.label.locations import Folder
from warmstart.deploy.label.views import check_same_view
from warmstart.errors import ClusterError, RunError

NODE = 56 * "a"
AWAY = {"read": "", "size": None, "error": "no such bucket"}
"""What a machine says that cannot reach the storage."""


class LostError(Exception):
    """What Ray raises of a machine that is lost."""


def small_ray(*answers, leaves=False):
    """A Ray of one machine, which looks around in this process.

    Args:
        answers: What the first looks give: a view, or an error; later ones are real.
        leaves: Whether the machine has left the cluster after the first.
    """
    looks = []

    def nodes():
        alive = not (leaves and looks)
        return [{"NodeID": NODE, "Alive": alive, "Resources": {"CPU": 1}, "NodeManagerAddress": "10.0.0.7"}]

    def get(call):
        looks.append(call)
        answer = answers[len(looks) - 1] if len(looks) <= len(answers) else call()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def remote(function):
        start = SimpleNamespace(remote=lambda *arguments: lambda: function(*arguments))
        return SimpleNamespace(options=lambda **_: start)

    return SimpleNamespace(nodes=nodes, get=get, remote=remote, exceptions=SimpleNamespace(RayError=LostError))


@pytest.fixture
def places(tmp_path):
    for name in ("in", "out"):
        (tmp_path / name).mkdir()
    (tmp_path / "in" / "a.csv").write_text("text\ngood\n")
    return Folder(str(tmp_path / "out"), 1), Folder(str(tmp_path / "in"), 1)


def test_a_machine_that_sees_the_same_is_taken_and_nothing_is_left_behind(places):
    check_same_view(small_ray(), *places, "a.csv")
    assert places[0].files() == []


def test_a_machine_that_dies_while_it_looks_around_does_not_end_the_job(places):
    check_same_view(small_ray(LostError("the node died"), leaves=True), *places, "a.csv")


def test_a_machine_that_is_there_and_does_not_answer_is_named(places):
    with pytest.raises(ClusterError, match=r"10\.0\.0\.7 did not answer .*run the same command again"):
        check_same_view(small_ray(LostError("no worker")), *places, "a.csv")


def test_storage_that_was_away_while_a_machine_looked_is_looked_at_again(places):
    check_same_view(small_ray(AWAY), *places, "a.csv")


def test_a_machine_that_still_does_not_see_it_is_refused(places):
    with pytest.raises(RunError, match=r"10\.0\.0\.7 does not see what this one sees \(no such bucket\)"):
        check_same_view(small_ray(AWAY, AWAY), *places, "a.csv")
