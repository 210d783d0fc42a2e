"""A labelled corpus: every row answered or set aside, once, and the same bytes whoever answered and whatever died."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from processes import PATIENCE, one_ray, started
from small import reviews
from warmstart.cli.main import app
from warmstart.data.source import Source
from warmstart.deploy.cluster import import_ray
from warmstart.deploy.label import preflight
from warmstart.deploy.label.cluster_job import WorkerCall, _unless_failed
from warmstart.deploy.label.columns import columns_of
from warmstart.deploy.label.job import LabelJob
from warmstart.deploy.label.label_corpus import _input_columns, label
from warmstart.deploy.label.locations import Entry, Folder
from warmstart.deploy.label.manifest import finished
from warmstart.deploy.label.shards import cut
from warmstart.deploy.label.worker import ShardWorker, model_fingerprint
from warmstart.errors import DataError, DiskError, RecipeError, RunError
from warmstart.inference.predictor import Predictor

POISON = ['{"text": 7}', '{"text": "half', '{"text": "\\ud800"}', "", '{"text": " "}', "[]", '{"other": "x"}']
SIZE = 40


def corpus(folder: Path) -> Path:
    """Three files, the first with poison in it."""
    folder.mkdir(parents=True)
    good = [text for text, _ in reviews(150)]
    lines = [json.dumps({"id": number, "text": text}) for number, text in enumerate(good[:60])]
    for number, line in enumerate(POISON):
        lines.insert(number * 9, line)
    (folder / "a.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "b.csv").write_text("id,text\n" + "".join(f"{n},{text}\n" for n, text in enumerate(good[60:100])))
    pq.write_table(pa.table({"id": range(50), "text": good[100:]}), folder / "c.parquet")
    return folder


@pytest.fixture(scope="module")
def work(run, tmp_path_factory):
    folder = corpus(tmp_path_factory.mktemp("bulk") / "in")
    out = Folder(str(folder.parent / "out"))
    path = str(run.folder)
    return LabelJob(path, model_fingerprint(path), Folder(str(folder)), out, Source(("x",)))


@pytest.fixture(scope="module")
def alone(work):
    """The corpus answered in this process: the records of its shards, in order."""
    made = ShardWorker(work)
    columns = _input_columns(work)[1]
    group = cut(work, "group-00000", list(enumerate(["a.jsonl", "b.csv", "c.parquet"])), columns, SIZE)
    return group, [made("group-00000", shard) for shard in group.shards]


def parquets(out: Folder) -> dict[str, bytes]:
    return {one.name: out.read(one.name) for one in out.files() if one.name.endswith(".parquet")}


def rows(out: Folder, aside: bool) -> list[dict]:
    assert out.local is not None
    paths = sorted(path for path in out.local.rglob("*.parquet") if path.name.endswith(".aside.parquet") == aside)
    return [row for path in paths for row in pq.read_table(path).to_pylist()]


def test_every_row_is_answered_as_the_predictor_does_or_set_aside_with_its_reason(work, alone, run):
    answers, aside = rows(work.out, False), rows(work.out, True)
    ids = [f"a.jsonl:{n}" for n in range(1, 68)] + [f"b.csv:{n}" for n in range(1, 41)]
    ids += [f"c.parquet:{n}" for n in range(1, 51)]
    assert Counter(row["row"] for row in answers + aside) == Counter(ids)
    assert [row["raw"] for row in aside] == POISON
    assert "not JSON" in aside[1]["error"]
    assert "lone surrogate" in aside[2]["error"]
    wanted = Predictor.load(run.folder).predict([row["text"] for row in answers])
    assert [row["label"] for row in answers] == [one["label"] for one in wanted]
    assert [row["probability"] for row in answers] == pytest.approx([one["probability"] for one in wanted], abs=1e-6)


def test_all_files_have_one_schema(work, alone):
    schemas = {pq.read_schema(path) for path in work.out.local.rglob("*.parquet") if "aside" not in path.name}
    assert len(schemas) == 1


def test_a_shard_is_finished_while_its_files_are_as_they_were_written(work, alone):
    group, records = alone
    assert set(finished(work.out, group)) == {record["shard"] for record in records}
    name = f"group-00000/{group.shards[0].name}.parquet"
    whole = work.out.read(name)
    work.out.write(name, whole[:-1] + b"!")
    assert group.shards[0].name not in finished(work.out, group)
    work.out.write(name, whole)


class Panic(BaseException):
    """As a tokenizer's panic comes to Python."""


Panic.__name__ = "PanicException"


def test_a_row_that_makes_the_tokenizer_panic_is_found_and_set_aside_alone(work, alone, monkeypatch):
    made = ShardWorker(work)
    encode = made.predictor.encode

    def panics(rows):
        if any("film 3 " in row["text"] for row in rows):
            raise Panic("index out of range")
        return encode(rows)

    monkeypatch.setattr(made.predictor, "encode", panics)
    answers, aside = made._answered(alone[0].shards[0], made._read(alone[0].shards[0]))
    assert [row["error"] for row in aside if "film 3 " in row["raw"]] == ["PanicException: index out of range"]
    assert len(answers) + len(aside) == SIZE
    assert len(aside) == 6


@pytest.mark.parametrize(("kind", "kept"), [("whole", 40), ("number", 40.0), ("text", "40")])
def test_kept_columns_keep_their_type_and_none_may_hide_an_answer(work, alone, run, kind, kept):
    made = ShardWorker(LabelJob(**{**vars(work), "keep": {"id": kind}}))
    (answer, *_), _ = made._answered(alone[0].shards[-1], made._read(alone[0].shards[-1]))
    assert (answer["row"], answer["id"], "text" in answer) == ("c.parquet:41", kept, False)
    assert type(answer["id"]) is type(kept)
    with pytest.raises(RecipeError, match="--keep-column label: the output already has a column of that name"):
        columns_of(Predictor.load(run.folder).task, ["text"], {"label": "text"}, None)


def test_what_a_worker_raises_is_told_in_its_own_words(work, alone):
    row = {"group": "group-00000", **vars(alone[0].shards[0])}
    told = json.loads(WorkerCall(LabelJob(**{**vars(work), "model": "0" * 64}), None)(row)["record"])
    with pytest.raises(RunError, match=r"a worker found model .* the driver has 000000000000"):
        _unless_failed(told, work.out)
    with pytest.raises(DiskError, match="the disk is full"):
        _unless_failed({"failed": "OSError", "message": "no space", "errno": errno.ENOSPC}, work.out)
    with pytest.raises(RunError, match="a worker failed: ZeroDivisionError: by zero"):
        _unless_failed({"failed": "ZeroDivisionError", "message": "by zero", "errno": None}, work.out)


# In a process of its own: one that speaks with Ray leaves at once where its Ray dies.
LABEL = f"""
import json, sys
from warmstart.deploy.label.label_corpus import label
print(json.dumps(label(*sys.argv[1:], workers=1, cpus=2, rows_per_shard={SIZE})))
"""


def kill_a_worker(driver: subprocess.Popen[str], out: Path) -> set[str]:
    """SIGKILL a worker that has answered something, after a look at where Ray listens, which is given."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and driver.poll() is None:
        if next(out.rglob("records/*.json"), None):
            children = psutil.Process(driver.pid).children(recursive=True)
            heard = {ip for one in children for ip in _listens(one)}
            for one in filter(_works, children):
                os.kill(one.pid, signal.SIGKILL)
                return heard
        time.sleep(0.005)
    raise AssertionError(f"no worker was there to be killed; the driver left with {driver.poll()}")


def _listens(process: psutil.Process) -> set[str]:
    try:
        return {one.laddr.ip for one in process.net_connections("inet") if one.status == psutil.CONN_LISTEN}
    except psutil.Error:
        return set()


def _works(process: psutil.Process) -> bool:
    try:
        return "MapWorker" in " ".join(process.cmdline())
    except psutil.Error:
        return False


def test_ray_gives_the_same_bytes_though_a_worker_is_killed(work, alone, run, tmp_path):
    out = tmp_path / "out"
    source = str(work.folder.local)
    with one_ray(), started([sys.executable, "-c", LABEL, run.folder, source, out], stdout=subprocess.PIPE) as driver:
        heard = kill_a_worker(driver, out)
        manifest = json.loads(driver.communicate(timeout=PATIENCE)[0].splitlines()[-1])
    assert heard <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
    assert (manifest["rows"], manifest["answered"], manifest["set_aside"]) == (157, 150, 7)
    assert parquets(Folder(str(out))) == parquets(work.out)
    # All is done: it is told again without a Ray, and another job in its place is refused.
    assert label(run.folder, source, out, workers=1, cpus=2, rows_per_shard=SIZE) == manifest
    with pytest.raises(RunError, match="begun with rows_per_shard 40, now it is 50"):
        label(run.folder, source, out, workers=1, cpus=2, rows_per_shard=50)


def test_what_cannot_be_is_refused_before_anything_starts(work, run, tmp_path, monkeypatch):
    source, out = str(work.folder.local), tmp_path / "out"
    with pytest.raises(RunError, match=r"found 1 CPU on this machine, 1 worker"):
        label(run.folder, source, out, cpus=1)
    with pytest.raises(RunError, match=r"3 worker.* need 4: .*set --workers 1"):
        label(run.folder, source, out, workers=3, cpus=2)
    with pytest.raises(RunError, match="nobody answers there"):
        label(run.folder, source, out, address="127.0.0.1:9")
    with pytest.raises(RunError, match="is inside the folder that is labelled"):
        label(run.folder, source, Path(source) / "out", cpus=2)
    with pytest.raises(DataError, match="no column 'body' for 'text'"):
        label(run.folder, Source((source,), {"text": "body"}), out, cpus=2)
    with pytest.raises(RecipeError, match=r"--keep-column ids: a.jsonl has no such column; did you mean 'id'"):
        label(run.folder, source, out, cpus=2, keep=["ids"])
    with pytest.raises(RecipeError, match="--engine auto: copies of a model would differ"):
        label(run.folder, source, out, cpus=2, engine="auto")
    with pytest.raises(DiskError, match=r"free, about .* needed"):
        preflight.check_out(Folder(str(out)), [Entry("a.jsonl", 1 << 60, 0)])
    monkeypatch.setattr(preflight, "free_memory", lambda: 1 << 28)
    with pytest.raises(RunError, match="free memory on this machine, 1 worker"):
        label(run.folder, source, out, cpus=2)


def test_a_ray_that_was_not_told_to_keep_to_itself_is_not_started(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", object())
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with pytest.raises(RunError, match=r"set .*RAY_AUTH_MODE=token.* before this process starts"):
        import_ray(own=True)
    assert os.environ["RAY_AUTH_MODE"] == "disabled"


def test_a_cluster_without_room_is_refused():
    with pytest.raises(RunError, match="found 0 GPUs in the cluster, 2 workers need 2"):
        preflight.check_cluster({"CPU": 4, "memory": 1e12}, 2, 1, 1, 10)
    with pytest.raises(RunError, match="free memory on the cluster"):
        preflight.check_cluster({"CPU": 4, "memory": 10}, 2, 1, 0, 10)
    assert preflight.check_cluster({"CPU": 9, "memory": 1e12}, None, 2, 0, 10) == 4


def test_the_command_line_says_what_belongs_together(run):
    def said(*arguments):
        return CliRunner().invoke(app, ["predict", str(run.folder), *arguments])

    assert "works only with --file or --ray" in str(said("a text", "--keep-column", "id").exception)
    assert "works only with --ray" in str(said("a text", "--workers", "2").exception)
    assert "is named like a file" in str(said("--ray", "local", "--file", "a", "--out", "b.csv").exception)
    assert "give --file and --out" in str(said("a text", "--ray", "local").exception)
