"""What outlasts a power cut, and what nobody meets half done: each of these was found by `make proof-simulation`."""

import shutil

import pytest

from warmstart.deploy.label.locations import Folder
from warmstart.evaluation.records.metrics import finish_run
from warmstart.pipeline.stage_store import StoredStage, is_finished, remove_stage
from warmstart.storage import artifacts, files, folders
from warmstart.storage.artifacts import publish, recover, republish
from warmstart.storage.damages import damages
from warmstart.storage.files import atomic_file, drop_torn_line, link_or_copy, write_text
from warmstart.storage.folders import discard, make_folder
from warmstart.training.checkpoints import CheckpointStore


@pytest.fixture
def flushed(monkeypatch):
    """What was flushed, in order, by name; a rename of a folder in between is among them."""
    names = []
    flush = folders.flush

    def note(path):
        names.append(path.name)
        flush(path)

    monkeypatch.setattr(folders, "flush", note)
    monkeypatch.setattr(files, "flush", note)
    folders._flushed.clear()
    return names


@pytest.fixture
def killed(monkeypatch):
    """A kill in the middle of every deletion of a folder."""

    class Kill(BaseException):
        pass

    def half(path, ignore_errors=False):
        if path.exists():
            next(child for child in path.iterdir() if child.is_file()).unlink()
            raise Kill

    monkeypatch.setattr(shutil, "rmtree", half)
    return Kill


def test_the_name_of_a_file_is_flushed_after_its_bytes(tmp_path, flushed):
    (tmp_path / "run").mkdir()
    with atomic_file(tmp_path / "run" / "a.json") as staging:
        staging.write_text("x")
    assert len(flushed) == 2
    assert flushed[0].startswith(".a.json.")
    assert flushed[1] == "run"


def test_folders_inside_a_published_folder_are_flushed(tmp_path, flushed):
    with publish(tmp_path / "model") as staging:
        (staging / "pooling").mkdir()
        (staging / "pooling" / "config.json").write_text("{}")
    inside = flushed[flushed.index("config.json") :]
    assert inside[1] == "pooling"
    assert inside[-1] == tmp_path.name


def test_folders_made_on_the_way_are_flushed_even_if_another_process_made_them(tmp_path, flushed):
    (tmp_path / "a").mkdir()
    make_folder(tmp_path / "a" / "b" / "c")
    assert flushed[:3] == ["b", "a", tmp_path.name]
    flushed.clear()
    make_folder(tmp_path / "a" / "b" / "c")
    assert flushed == []
    shutil.rmtree(tmp_path / "a")
    make_folder(tmp_path / "a" / "b")
    assert flushed[:2] == ["a", tmp_path.name]
    with pytest.raises(FileNotFoundError):
        make_folder(tmp_path / "x" / "y", parents=False)


def test_a_linked_folder_is_flushed_and_replaces_in_one_step(tmp_path, flushed):
    (tmp_path / "a" / "below").mkdir(parents=True)
    (tmp_path / "a" / "below" / "x").write_text("new")
    link_or_copy(tmp_path / "a", tmp_path / "b")
    assert flushed[:2] == ["x", "below"]
    assert flushed[-1] == tmp_path.name
    link_or_copy(tmp_path / "a" / "below" / "x", tmp_path / "b" / "below" / "x")
    assert [path.name for path in (tmp_path / "b" / "below").iterdir()] == ["x"], "two names of one file leave no third"


def test_a_model_card_is_flushed_before_the_model_is_replaced(tmp_path, flushed):
    model = tmp_path / "model"
    with publish(model) as staging:
        (staging / "config.json").write_text("{}")
    (model / "README.md").write_text("mine")
    flushed.clear()
    with republish(model) as staging:
        write_text(staging / "more.json", "{}")
    assert "README.md" in flushed
    assert (model / "README.md").read_text() == "mine"


def test_a_folder_put_back_is_flushed_before_the_other_is_deleted(tmp_path, flushed, killed):
    for name in ("model", ".model.before"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").write_text(name)
    with pytest.raises(killed):
        recover(tmp_path / "model")
    assert flushed == [tmp_path.name]


def test_what_is_discarded_is_out_of_sight_before_it_is_deleted(tmp_path, flushed, killed):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x").write_text("x")
    with pytest.raises(killed):
        discard(tmp_path / "a")
    assert flushed == [tmp_path.name]
    assert [path.name for path in tmp_path.glob("[!.]*")] == []


def test_a_stage_that_was_removed_halfway_is_not_taken_for_finished(tmp_path, killed):
    folder = tmp_path / "scratch-1"
    with publish(folder) as staging:
        (staging / "weights").write_text("x")
    write_text(tmp_path / "scratch-1.json", "{}")
    with pytest.raises(killed):
        remove_stage(StoredStage(folder, "scratch", {}, "2026-01-01"))
    assert not is_finished(folder)


def test_what_a_killed_process_published_is_flushed_before_a_run_is_called_finished(tmp_path, flushed):
    with publish(tmp_path / "stages" / "01-finetune"):
        pass
    flushed.clear()
    finish_run({}, tmp_path)
    assert "stages" in flushed[:-1]


def test_what_killed_workers_wrote_is_flushed_before_a_corpus_is_called_finished(tmp_path, flushed):
    out = Folder(str(tmp_path))
    out.write("group/records/a.json", b"{}")
    flushed.clear()
    out.settle("group", "group/records")
    assert flushed == ["group", "records"]


def test_old_checkpoints_are_whole_or_gone(tmp_path, killed):
    store = CheckpointStore(tmp_path / "checkpoints", keep_last=1)
    write = lambda folder: (folder / "weights").write_text("x")  # noqa: E731
    store.save(1, write)
    with pytest.raises(killed):
        store.save(2, write)
    assert [path.name for path in store.folder.glob("step-*")] == ["step-000000002"]
    assert damages(tmp_path) == []


@pytest.mark.parametrize("damaged", [True, False])
def test_a_skipped_checkpoint_never_costs_a_later_one(tmp_path, damaged):
    store = CheckpointStore(tmp_path, {"seed": 1}, keep_last=1)
    store.save(2, lambda folder: (folder / "weights").write_text("2"))
    if damaged:
        (tmp_path / "step-000000002" / "weights").write_text("x")
    store.save(1, lambda folder: (folder / "weights").write_text("1"))  # it was skipped, so the training began anew
    assert store.newest() == (tmp_path / "step-000000001", [])


def test_a_checkpoint_that_is_whole_is_not_removed_to_be_written_again(tmp_path):
    store = CheckpointStore(tmp_path, {"seed": 1})
    path = store.save(2, lambda folder: (folder / "weights").write_text("2"))
    before = path.stat().st_ino
    store.save(2, lambda folder: (folder / "weights").write_text("2"))
    assert path.stat().st_ino == before
    (path / "weights").write_text("x")
    store.save(2, lambda folder: (folder / "weights").write_text("2"))
    assert store.newest() == (path, [])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'{"a": 1}\n\0\0\0\0\0"b": 2}\n', b'{"a": 1}\n'),
        (b"\0\0\0\n", b""),
        (b'{"a": 1}\n{"b": 2}\n\0\0\n{"c": 3}\n', b'{"a": 1}\n{"b": 2}\n'),
        (b"a" * 40 + b"\n" + b"b" * 40, b"a" * 40 + b"\n"),
        (b"a" * 40, b""),
    ],
)
def test_an_append_with_a_hole_is_dropped(tmp_path, monkeypatch, before, after):
    monkeypatch.setattr(files, "TAIL", 16 if b"\0" not in before else 1 << 20)
    path = tmp_path / "journal"
    path.write_bytes(before)
    drop_torn_line(path)
    assert path.read_bytes() == after


def test_a_file_system_that_cannot_flush_folders_is_put_up_with(tmp_path, monkeypatch):
    def refuse(path):
        if path.is_dir():
            raise OSError(22, "Invalid argument")

    monkeypatch.setattr(folders, "flush", refuse)
    write_text(tmp_path / "a", "x")
    with publish(tmp_path / "b"):
        pass
    assert artifacts.verify(tmp_path / "b")["files"] == {}
