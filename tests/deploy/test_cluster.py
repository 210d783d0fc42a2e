"""Starting Ray: what it raises becomes one line that says what to do, whatever its class is."""

from types import SimpleNamespace

import pytest

from warmstart.deploy import cluster
from warmstart.errors import ClusterError


class SlowRay:
    """A Ray that does not start, and raises what Ray does then."""

    def __init__(self, error: Exception, failures: int = cluster.TRIES) -> None:
        self.error, self.failures, self.calls = error, failures, []

    def is_initialized(self) -> bool:
        return False

    def init(self, **options: object) -> None:
        self.calls.append("init")
        if self.calls.count("init") <= self.failures:
            raise self.error

    def get_runtime_context(self):
        return SimpleNamespace(gcs_address="")

    def shutdown(self) -> None:
        self.calls.append("shutdown")


@pytest.fixture
def ray(monkeypatch):
    def use(*arguments):
        slow = SlowRay(*arguments)
        monkeypatch.setattr(cluster, "import_ray", lambda own: slow)
        return slow

    return use


@pytest.mark.parametrize("error", [Exception, RuntimeError, ValueError])
def test_a_ray_that_does_not_start_is_one_line(ray, error):
    slow = ray(error("The current node timed out during startup.\nThis could happen"))
    message = r"^Ray did not start on this machine in 3 attempts: The current node timed out during startup\. This"
    with pytest.raises(ClusterError, match=message), cluster.connected():
        pass
    assert slow.calls == ["init", "shutdown"] * cluster.TRIES


def test_a_cluster_that_does_not_answer_is_named(ray, monkeypatch):
    monkeypatch.setattr(cluster, "_check_head", lambda address: None)
    slow = ray(Exception("timed out"))
    message = r"^--ray 10.0.0.1:6379: timed out\. Expected the address"
    with pytest.raises(ClusterError, match=message), cluster.connected("10.0.0.1:6379"):
        pass
    assert slow.calls == ["init", "shutdown"]


def test_a_ray_that_starts_late_is_used(ray):
    slow = ray(Exception("timed out"), 1)
    with cluster.connected() as module:
        assert module is slow
    assert slow.calls == ["init", "shutdown", "init", "shutdown"]
