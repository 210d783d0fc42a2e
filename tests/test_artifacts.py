"""A published folder is there whole or not at all, and a changed file in it is noticed."""

import pytest

from warmstart.errors import RunError
from warmstart.storage.artifacts import publish, recover, republish, verify
from warmstart.storage.files import write_json


def make(folder):
    with publish(folder, {"about": "a test"}) as staging:
        (staging / "deep").mkdir()
        (staging / "deep" / "a.bin").write_bytes(b"12345")
        write_json(staging / "b.json", {"x": 1})


def test_what_was_published_is_verified_and_says_what_it_is(tmp_path):
    make(tmp_path / "out")
    assert verify(tmp_path / "out")["about"] == "a test"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_failure_leaves_nothing(tmp_path):
    def stop_half_way():
        with publish(tmp_path / "out") as staging:
            (staging / "half").write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stop_half_way()
    assert list(tmp_path.iterdir()) == []


def test_a_published_folder_is_changed_as_a_whole(tmp_path):
    make(tmp_path / "out")
    with republish(tmp_path / "out") as staging:
        write_json(staging / "b.json", {"x": 2})
    assert verify(tmp_path / "out")["about"] == "a test"
    assert '"x": 2' in (tmp_path / "out" / "b.json").read_text()
    assert (tmp_path / "out" / "deep" / "a.bin").read_bytes() == b"12345"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_what_is_no_part_of_a_published_folder_goes_along_and_stays_free(tmp_path):
    make(tmp_path / "out")
    (tmp_path / "out" / "README.md").write_text("mine")
    with republish(tmp_path / "out") as staging:
        write_json(staging / "b.json", {"x": 2})
    (tmp_path / "out" / "README.md").write_text("mine, changed")
    assert "README.md" not in verify(tmp_path / "out")["files"]


def test_a_change_that_fails_or_is_killed_leaves_the_folder_as_it_was(tmp_path):
    make(tmp_path / "out")
    before = (tmp_path / "out" / "b.json").read_text()

    def stop_half_way():
        with republish(tmp_path / "out") as staging:
            write_json(staging / "b.json", {"x": 2})
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stop_half_way()
    verify(tmp_path / "out")
    assert (tmp_path / "out" / "b.json").read_text() == before
    (tmp_path / "out").rename(tmp_path / ".out.before")  # killed between two renames
    recover(tmp_path / "out")
    verify(tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_nothing_is_overwritten(tmp_path):
    make(tmp_path / "out")
    with pytest.raises(RunError, match="already exists"), publish(tmp_path / "out"):
        pass


@pytest.mark.parametrize("damage", ["flip", "cut", "delete", "no manifest", "other manifest"])
def test_damage_is_named(tmp_path, damage):
    make(tmp_path / "out")
    path = tmp_path / "out" / ("manifest.json" if "manifest" in damage else "deep/a.bin")
    if damage == "other manifest":
        path.write_text(path.read_text().replace("a test", "a tent"))
    elif damage in {"delete", "no manifest"}:
        path.unlink()
    else:
        path.write_bytes(b"12355" if damage == "flip" else b"123")
    with pytest.raises(RunError, match=path.name):
        verify(tmp_path / "out")
