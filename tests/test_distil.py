"""Distilling: a teacher answers texts once, a student learns them with its own rows, and what is stopped goes on."""

import json
import os
import signal
from contextlib import contextmanager

import pytest
import transformers

import warmstart
from small import FAST, relations, reviews, weight_bytes
from warmstart.errors import RecipeError
from warmstart.pipeline import distil
from warmstart.recipe import make_recipe
from warmstart.storage.artifacts import verify

SHORT = {"training": {**FAST["training"], "epochs": 2}, "checkpoints": {"every_steps": 3}}


class Crash(BaseException):
    """Stands for a kill: nothing that handles errors of rows handles it."""


class Trouble:
    """Progress that crashes at the so many-th step of a bar, and notes what was said."""

    def __init__(self, bar=None, step=None):
        self.wanted, self.step, self.said = bar, step, []

    @contextmanager
    def bar(self, name, total):
        self.name, self.done = name, 0
        yield self

    def advance(self, amount=1, note=""):
        self.done += amount
        if amount and self.wanted and self.name.startswith(self.wanted) and self.done >= self.step:
            raise Crash

    def log(self, text):
        self.said.append(text)


@pytest.fixture(scope="module")
def teacher(run):
    return str(run.folder)


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """Texts without labels, one of which is in the test rows, and one of which cannot be read."""
    path = tmp_path_factory.mktemp("texts") / "texts.jsonl"
    rows = [{"text": text} for text, _ in (*reviews(40, 5000), reviews(1, 1000)[0])]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in [*rows, {"text": 7}]))
    return str(path)


@pytest.fixture
def student(encoder, files, teacher, texts, tmp_path, monkeypatch):
    def call(name, progress=None, distil=None, **more):
        # Each run has a cache of its own, or it would find the answers of the one before.
        monkeypatch.setenv("WARMSTART_CACHE", str(tmp_path / f"cache-{name}"))
        stage = {"teacher": teacher, "texts": texts, "rows_per_shard": 8, **(distil or {})}
        settings = {"model": encoder, "train": files["train"], "test": files["test"], **SHORT, **more}
        shown = {"progress": progress} if progress else {}
        return warmstart.fit(out=tmp_path / name, stages=[{"distil": stage}], **settings, **shown)

    return call


def answers_in(cache):
    import pyarrow.parquet as pq

    (folder,) = [path for path in (cache / "stages").glob("distil-*") if path.is_dir()]
    verify(folder)
    return [row for path in sorted((folder / "answers").glob("*.parquet")) for row in pq.read_table(path).to_pylist()]


def test_a_student_learns_the_teachers_answers(student, run, tmp_path):
    shown = Trouble()
    done = student("run", shown, training=FAST["training"])
    assert done.metrics["test"]["accuracy"] > 0.95
    assert "64 labelled rows and 40 answers of the teacher" in shown.said
    assert any("1 texts of the teacher are in test as well, and are left out" in line for line in shown.said)
    assert "1 texts that the teacher could not read are set aside" in shown.said
    rows = answers_in(tmp_path / "cache-run")
    assert [row["text"] for row in rows][:40] == [text for text, _ in reviews(40, 5000)]
    for row, answer in zip(rows, run.predict([row["text"] for row in rows]), strict=True):
        assert json.loads(row["probabilities"]) == pytest.approx(answer["probabilities"], abs=1e-6)


def test_killed_anywhere_every_text_is_answered_once_and_the_student_is_bit_equal(student, tmp_path, monkeypatch):
    whole = student("whole")
    asked = []
    true_call = distil.label.__globals__["_Plan"]._answered
    monkeypatch.setattr(
        distil.label.__globals__["_Plan"],
        "_answered",
        lambda self, ray, name, rest, pool: (asked.append(len(rest)), true_call(self, ray, name, rest, pool))[1],
    )
    for bar, step in (("group", 8), ("group", 20), ("group", 36), ("training", 2), ("training", 8), ("testing", 3)):
        with pytest.raises(Crash):
            student("run", Trouble(bar, step))
    again = Trouble()
    done = student("run", again)
    assert asked == [6, 5, 3, 1]  # after each kill, only the shards that were not finished
    assert any("resuming from step-" in line for line in again.said) or "stages/02-finetune is finished" in str(
        again.said
    )
    assert answers_in(tmp_path / "cache-run") == answers_in(tmp_path / "cache-whole")
    assert weight_bytes(done.model) == weight_bytes(whole.model) != {}
    assert done.metrics == whole.metrics


def test_a_second_student_finds_the_answers(student, tmp_path, monkeypatch):
    student("run")
    monkeypatch.setattr("warmstart.pipeline.run_recipe.answer_texts", lambda *_: pytest.fail("answered again"))
    again = Trouble()
    (tmp_path / "cache-other").symlink_to(tmp_path / "cache-run")
    (stage,) = (path for path in (tmp_path / "cache-run" / "stages").glob("distil-*") if path.is_dir())
    unfinished = stage.with_name(f".{stage.name}.answers")
    unfinished.mkdir()  # as a kill leaves it, right after the answers are published
    student("other", again, seed=1)
    assert any("01-distil is finished" in line and "reused" in line for line in again.said)
    assert stage.is_dir()
    assert not unfinished.exists()


@pytest.mark.parametrize(("choice", "kept"), [("lowest", [0, 1]), ("spread", [0, 2])])
def test_a_student_may_be_the_teachers_own_layers(student, run, choice, kept):
    done = student(choice, model=str(run.model), layers={"num_layers": 2, "layer_choice": choice})
    config = transformers.AutoConfig.from_pretrained(done.model)
    assert config.num_hidden_layers == 2
    assert done.metrics["test"]["accuracy"] > 0.8
    plain = transformers.AutoModelForSequenceClassification.from_pretrained(done.model)
    assert len(plain.base_model.encoder.layer) == 2


def test_a_number_is_learned_from_numbers(encoder, files, texts, tmp_path, monkeypatch):
    monkeypatch.setenv("WARMSTART_CACHE", str(tmp_path / "cache"))
    teacher = warmstart.fit(model=encoder, task="score", train=files["scores"], out=tmp_path / "teacher", **FAST)
    stage = {"teacher": str(teacher.folder), "texts": texts}
    student = warmstart.fit(
        model=encoder, task="score", train=files["scores"], out=tmp_path / "run", stages=[{"distil": stage}], **FAST
    )
    assert student.metrics["test"]["pearson"] > 0.8


def tagged(count, start=0):
    """Texts with a name in each."""
    rows = []
    for number in range(start, start + count):
        name = ("alice", "bob")[number % 2]
        text = f"the film {number} where {name} lives in paris"
        places = [(text.index(word), word, label) for word, label in ((name, "PER"), ("paris", "LOC"))]
        entities = [{"start": at, "end": at + len(word), "label": label} for at, word, label in places]
        rows.append({"text": text, "entities": entities})
    return rows


@pytest.mark.parametrize(("task", "make"), [("tag", tagged), ("relate", relations)])
def test_entities_and_relations_are_learned_from_a_teacher(task, make, encoder, tmp_path, monkeypatch):
    monkeypatch.setenv("WARMSTART_CACHE", str(tmp_path / "cache"))

    def write(name, rows):
        (tmp_path / name).write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        return str(tmp_path / name)

    data = {"train": write("train.jsonl", make(36)), "test": write("test.jsonl", make(12, 500))}
    teacher = warmstart.fit(model=encoder, task=task, **data, out=tmp_path / "teacher", **FAST)
    texts = write("texts.jsonl", [{"text": row["text"]} for row in make(30, 900)])
    stage = {"teacher": str(teacher.folder), "texts": texts}
    shown = Trouble()
    student = warmstart.fit(
        model=encoder, task=task, **data, out=tmp_path / "run", stages=[{"distil": stage}], progress=shown, **SHORT
    )
    assert "36 labelled rows and 30 answers of the teacher" in shown.said
    assert student.metrics["test"]["rows"] == 12


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"distil": {"texts": "nowhere.csv"}}, r"stages\.distil\.texts: nowhere\.csv is missing"),
        ({"task": "score"}, "is of task classify, expected score"),
        ({"layers": {"num_layers": 9}}, "found 9, but the encoder has 3 blocks"),
    ],
)
def test_what_cannot_be_distilled_is_refused_in_words(student, change, said, files):
    if change.get("task") == "score":
        change = {**change, "train": files["scores"], "test": files["scores"]}
    with pytest.raises(RecipeError, match=said):
        student("run", **change)


def test_a_task_that_cannot_be_distilled_names_those_that_can(teacher, texts):
    stage = {"distil": {"teacher": teacher, "texts": texts}}
    recipe = make_recipe({"model": "m", "task": "span", "data.train": "t.json", "stages": [stage]})
    with pytest.raises(RecipeError, match=r"span cannot be distilled; classify, .*score.* can"):
        distil.distil_identity(recipe.stages[0].distil, recipe)


def test_a_teacher_of_other_labels_is_refused(student, tmp_path, encoder):
    rows = "".join(f"{json.dumps({'text': text, 'label': label.upper()})}\n" for text, label in reviews(16))
    (tmp_path / "other.jsonl").write_text(rows)
    with pytest.raises(RecipeError, match=r"only the teacher has \['neg', 'pos'\]; only the data has \['NEG', 'POS'\]"):
        student("run", train=str(tmp_path / "other.jsonl"), test=None)


def test_a_signal_while_the_teacher_answers_leaves_what_is_finished(student, tmp_path):
    class Stop(Trouble):
        def advance(self, amount=1, note=""):
            self.done += amount
            if self.name.startswith("group") and self.done >= 16:
                os.kill(os.getpid(), signal.SIGINT)

    # Where the tests were started in the background, SIGINT is ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            student("run", Stop())
    finally:
        signal.signal(signal.SIGINT, before)
    student("run")
    assert len(answers_in(tmp_path / "cache-run")) == 41
