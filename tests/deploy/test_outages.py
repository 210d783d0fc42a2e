"""Faults of the world are waited out, faults of the data are set aside, and what is finished is read again."""

import json
import shutil
import threading
import time
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from small import reviews
from warmstart.cli.main import app
from warmstart.data.source import Source
from warmstart.deploy.label.attempts import AttemptCounter, deadly_rows
from warmstart.deploy.label.job import LabelJob
from warmstart.deploy.label.label_corpus import _input_columns
from warmstart.deploy.label.locations import Folder
from warmstart.deploy.label.manifest import close, close_group, finished
from warmstart.deploy.label.retries import retried
from warmstart.deploy.label.shards import PLAN, cut, settle, write_group
from warmstart.deploy.label.verification import corpus_damages
from warmstart.deploy.label.views import _compare, look_around
from warmstart.deploy.label.worker import ShardWorker, model_fingerprint
from warmstart.errors import DataError, DiskError, OutageError, RunError

GROUP = "group-00000"
ABOUT = {"model": "x"}


@pytest.fixture
def work(run, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    lines = [json.dumps({"text": text}) for text, _ in reviews(40)]
    (folder / "a.jsonl").write_text("\n".join(lines) + "\n")
    pq.write_table(
        pa.table({"text": [text for text, _ in reviews(40)]}), folder / "b.parquet", write_page_checksum=True
    )
    out = tmp_path / "out"
    out.mkdir()
    path = str(run.folder)
    source = Source(("x",))
    return LabelJob(path, model_fingerprint(path), Folder(str(folder), 30), Folder(str(out), 30), source)


def planned(work, names=("a.jsonl", "b.parquet")):
    return cut(work, GROUP, list(enumerate(names)), _input_columns(work)[1], 20)


def labelled(work):
    """The corpus labelled in this process, with all manifests."""
    group = planned(work)
    settle(work.out, {**ABOUT, "groups": {GROUP: [file["file"] for file in group.files]}, "left_out": []})
    write_group(work.out, group)
    worker = ShardWorker(work)
    for shard in group.shards:
        worker(GROUP, shard)
    close_group(work.out, group, finished(work.out, group), ABOUT)
    close(work.out, [GROUP], ABOUT)
    return group


def away(folder, seconds):
    """Rename a folder away, and back after some seconds."""
    hidden = folder.with_name(f"{folder.name}-away")
    folder.rename(hidden)
    timer = threading.Timer(seconds, lambda: hidden.rename(folder))
    timer.start()
    return timer


@pytest.mark.parametrize("which", ["folder", "out"])
def test_no_row_is_lost_while_a_folder_is_away(work, which):
    group = planned(work)
    settle(work.out, ABOUT)
    work = replace(work, out=replace(work.out, anchor=PLAN))
    worker = ShardWorker(work)
    timer = away(getattr(work, which).local, 7)
    record = worker(GROUP, group.shards[0])
    timer.join()
    assert (record["answered"], record["set_aside"]) == (20, 0)
    assert finished(work.out, group)


def test_an_output_that_is_away_is_not_made_anew(work):
    settle(work.out, ABOUT)
    out = Folder(work.out.uri, 0, PLAN)
    timer = away(out.local, 0.5)
    with pytest.raises(OutageError, match="is not there"):
        out.write("group-00000/x.parquet", b"x")
    assert not out.local.exists()
    timer.join()


def test_a_fault_that_lasts_ends_with_a_code_of_its_own():
    def fails():
        raise ConnectionError("refused")

    began = time.monotonic()
    with pytest.raises(OutageError, match=r"s3://x: refused; retried for 0.6 s \(--retry-timeout\)") as raised:
        retried(fails, "s3://x", 0.6, lambda error: isinstance(error, OSError))
    assert raised.value.exit_code == 74
    assert time.monotonic() - began >= 0.6
    with pytest.raises(DiskError, match="No space left"):
        retried(lambda: (_ for _ in ()).throw(OSError(28, "No space left")), "x", 0, lambda error: True)


def test_a_row_that_kills_workers_is_found_by_halves_and_others_live():
    attempts, deaths = AttemptCounter(), 0

    def answer(part):
        if 13 in part:
            raise SystemExit

    for _ in range(50):
        try:
            assert list(deadly_rows(attempts, "shard", range(20), answer)) == [13]
            break
        except SystemExit:
            deaths += 1
    assert deaths <= 5 + 3


@pytest.mark.parametrize(("damage", "aside"), [("footer", 0), ("page", 40)])
def test_a_damaged_parquet_file_is_set_aside_as_a_file_or_stops(work, damage, aside):
    path = work.folder.local / "b.parquet"
    data = bytearray(path.read_bytes())
    if damage == "footer":
        path.write_bytes(data[:-6])
    else:
        data[40] ^= 1
        path.write_bytes(data)
    group = labelled(work)
    manifest = json.loads(work.out.read("manifest.json"))
    assert list(manifest["bad_files"]) == ["b.parquet"]
    assert (manifest["answered"], manifest["set_aside"]) == (40, aside)
    stop = LabelJob(**{**vars(work), "on_bad_file": "stop"})
    with pytest.raises(DataError, match=r"b\.parquet: not readable"):
        [ShardWorker(stop)(GROUP, shard) for shard in (planned(stop), group)[1].shards]


def test_a_group_is_not_closed_over_files_that_the_driver_does_not_see(work):
    group = planned(work)
    settle(work.out, ABOUT)
    worker = ShardWorker(work)
    for shard in group.shards:
        worker(GROUP, shard)
    (work.out.local / GROUP / f"{group.shards[1].name}.parquet").unlink()
    with pytest.raises(RunError, match="1 of 4 shards are not there as workers wrote them"):
        close_group(work.out, group, finished(work.out, group), ABOUT)


def test_another_place_on_another_machine_is_noticed(work, tmp_path):
    here, there = work.out, Folder(str(tmp_path / "elsewhere"))
    here.write(".t.probe", b"t")
    assert look_around(here, work.folder, "a.jsonl", "t", "node")["error"] == ""
    view = look_around(there, work.folder, "a.jsonl", "t", "other")
    with pytest.raises(RunError, match=r"the machine 10\.0\.0\.9 does not see what this one sees"):
        _compare("10.0.0.9", view, here, 1, ("t", "other"))
    blind = {"read": "t", "size": 1, "error": ""}
    with pytest.raises(RunError, match=r"is another place on the machine 10\.0\.0\.9"):
        _compare("10.0.0.9", blind, Folder(here.uri), 1, ("t", "other"))


def test_every_damage_to_a_labelled_corpus_is_named(work):
    labelled(work)
    assert corpus_damages(work.out, work.folder) == []
    for entry in work.out.files():
        path = work.out.local / entry.name
        whole = path.read_bytes()
        for broken in (whole[:-1], whole[:9] + bytes([whole[9] ^ 1]) + whole[10:], None):
            if broken is None:
                path.unlink()
            else:
                path.write_bytes(broken)
            assert any(line.startswith(f"{entry.name}:") for line in corpus_damages(work.out)), entry.name
        path.write_bytes(whole)
    (work.out.local / "more.parquet").write_bytes(b"x")
    assert corpus_damages(work.out) == ["more.parquet: no manifest lists it"]
    (work.out.local / "more.parquet").unlink()
    (work.folder.local / "a.jsonl").write_text("more\n")
    (work.folder.local / "c.jsonl").write_text("new\n")
    (work.folder.local / "b.parquet").unlink()
    lines = corpus_damages(work.out, Folder(work.folder.uri))
    assert [line.split(":")[0] for line in lines] == ["input a.jsonl", "input b.parquet", "input c.jsonl"]
    found = CliRunner().invoke(app, ["verify", work.out.uri, "--file", work.folder.uri])
    assert found.exit_code == 6
    assert "input c.jsonl: is new" in found.output


def test_verify_names_each_damaged_file_of_a_run(run, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(run.folder, folder)
    assert verified(folder) == []
    (folder / "report.html").write_text("written later")
    (folder / "model" / "README.md").write_text("edited")
    assert verified(folder) == []
    whole = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    damaged = [path for path in whole if path.name not in {"README.md", "report.html"}]
    assert {"metrics.json", "recipe.yaml", "predictions.parquet", "run.json"} <= {path.name for path in damaged}
    for path in damaged:
        path.write_bytes(whole[path] + b" ")
        assert any(str(path) in line for line in verified(folder)), path
        path.unlink()
        assert any(str(path) in line for line in verified(folder)), path
        path.write_bytes(whole[path])
    shutil.rmtree(folder / "model")
    assert [line.partition(" is missing")[0] for line in verified(folder)] == [str(folder / "model" / "manifest.json")]


def test_verify_names_a_file_that_was_put_into_a_model(run, tmp_path):
    shutil.copytree(run.folder / "model", tmp_path / "model")
    (tmp_path / "model" / "adapter_config.json").write_text("{}")
    assert verified(tmp_path / "model") == [f"{tmp_path}/model/adapter_config.json: no manifest lists it"]


def verified(folder):
    """What `verify` names; nothing where its exit code is 0."""
    found = CliRunner().invoke(app, ["verify", str(folder), "--json"])
    damages = json.loads(found.stdout)["damages"]
    assert found.exit_code == (6 if damages else 0)
    return damages
