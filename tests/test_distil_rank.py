"""A bi-encoder learns from a cross-encoder by how much one document of a query is better than another."""

import json
import math
from pathlib import Path

import pytest
import torch

import warmstart
from small import FAST, weight_bytes
from test_distil import Crash, Trouble, answers_in
from tiny import save_tiny
from warmstart.errors import RecipeError
from warmstart.plan.plan import plan
from warmstart.recipe import make_recipe
from warmstart.tasks.shared import ranking_losses as losses
from warmstart.tasks.shared.taught_rankings import logit, logit_matrix, taught_rows, teacher_logits

WORDS = ["film", "book", "food", "movie", "story", "actor"]
SHORT = {
    "training": {**FAST["training"], "epochs": 2},
    "checkpoints": {"every_steps": 3},
    "task": {"name": "rank", "fusion": "none"},
}


def document(word):
    return f"it is the {word} and very {word}"


def judged(start, count):
    """Queries, each with its own document and one of another word."""
    for number in range(start, start + count):
        word, other = WORDS[number % 6], WORDS[(number + 1 + number // 6 % 5) % 6]
        for text, label in ((word, 1), (other, 0)):
            yield {"query": f"where is {word} {number}", "document": document(text), "label": label}


def write(path, rows):
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return str(path)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Labelled rows; and pairs without labels, of which one query is a test query, and one has a single document."""
    folder = tmp_path_factory.mktemp("rank")
    pairs = [
        {"query": f"where is {WORDS[number % 6]} {number}", "document": document(WORDS[(number + step) % 6])}
        for number in range(500, 512)
        for step in (2, 0, 1)
    ]
    pairs += [{"query": "where is film 900", "document": document(word)} for word in WORDS[:2]]
    pairs += [{"query": "alone", "document": document("film")}]
    return {
        "train": write(folder / "train.jsonl", judged(0, 24)),
        "test": write(folder / "test.jsonl", judged(900, 12)),
        "texts": write(folder / "texts.jsonl", pairs),
    }


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return str(save_tiny(tmp_path_factory.mktemp("encoder"), initializer_range=0.2))


@pytest.fixture(scope="module")
def teacher(encoder, data, tmp_path_factory):
    task = {"name": "rank", "encoder": "cross"}
    out = tmp_path_factory.mktemp("teacher") / "run"
    return warmstart.fit(model=encoder, task=task, train=data["train"], test=data["test"], out=out, **FAST)


@pytest.fixture
def student(encoder, data, teacher, tmp_path, monkeypatch):
    def call(name, progress=None, distil=None, **more):
        monkeypatch.setenv("WARMSTART_CACHE", str(tmp_path / f"cache-{name}"))
        stage = {"teacher": str(teacher.folder), "texts": data["texts"], "rows_per_shard": 8, **(distil or {})}
        settings = {"model": encoder, "train": data["train"], "test": data["test"], **SHORT, **more}
        shown = {"progress": progress} if progress else {}
        return warmstart.fit(out=tmp_path / name, stages=[{"distil": stage}], **settings, **shown)

    return call


def test_the_best_document_of_a_query_stands_beside_each_other_one():
    columns = {
        "query": ["a", "a", "b", "b", "b", "c", "c", "d"],
        "document": ["1", "2", "3", "4", "5", "1", "1", "9"],
        "teacher_score": [None, None, 0.2, 0.9, 0.4, 0.5, 0.6, 0.1],
    }
    logits = teacher_logits(columns, 20)
    assert [value is None for value in logits] == [True] * 2 + [False] * 6
    for size, expected in ((1, [["3"], ["5"]]), (2, [["3", "5"]])):
        rows, notes = taught_rows(columns, logits, size)
        assert [(row.row, row.negatives) for row in rows] == [(3, others) for others in expected]
        assert rows[0].logits[:2] == pytest.approx([logit(0.9), logit(0.2)])
        assert "2 queries have one document, and are left out" in notes  # the same one twice is one
    with pytest.raises(RecipeError, match="no query has two documents"):
        taught_rows(columns, [None] * 7 + [0.1], 1)
    assert teacher_logits({**columns, "teacher_score": [None, 0.5]}, 20) == [None, 0.0]
    assert teacher_logits({"query": ["a", "a"], "teacher_similarity": [None, 0.5]}, 20) == [None, 10.0]
    assert teacher_logits({"query": ["a"]}, 20) is None


def test_margin_mse_is_the_squared_error_of_the_margins():
    scores = torch.tensor([[0.9, 0.1, 0.3, 0.2, 0.0], [0.0, 0.0, 0.5, 0.4, 0.1]])
    teacher = logit_matrix([[math.nan, math.nan], [3.0, 1.0, -2.0]])
    assert teacher.isnan().tolist() == [[True] * 5, [True, True, False, False, False]]
    by_hand = ((20 * 0.1 - 2) ** 2 + (20 * 0.4 - 5) ** 2) / 2
    assert losses.margin_mse(20)(scores[1:], teacher[1:]).item() == pytest.approx(by_hand)
    # Rows with labels keep their own loss, and every row counts the same.
    both = losses.with_teacher(losses.in_batch_negatives(20), losses.margin_mse(20))
    roles = losses.roles(["a", "b"], [["1", "2"], ["3", "4", "5"]])
    alone = losses.in_batch_negatives(20)(scores[:1], roles[:1]).item()
    assert both(scores, roles, teacher).item() == pytest.approx((alone + by_hand) / 2)
    assert both(scores[:1], roles[:1], teacher[:1]).item() == pytest.approx(alone)
    assert both(scores[1:], roles[1:], teacher[1:]).item() == pytest.approx(by_hand)


def test_margin_mse_is_that_of_sentence_transformers():
    library = pytest.importorskip("sentence_transformers.sentence_transformer.losses")
    vectors = torch.randn(3, 5, 8, generator=torch.Generator().manual_seed(0))
    margins = torch.tensor([3.0, -1.0, 0.5, 2.0, 7.0])
    theirs = library.MarginMSELoss(None).compute_loss_from_embeddings(list(vectors), margins)
    queries, best, others = vectors
    documents = torch.stack([best, others], dim=1).flatten(0, 1)
    teacher = logit_matrix([[margin, 0.0] for margin in margins.tolist()])
    assert losses.margin_mse(1)(queries @ documents.T, teacher).item() == pytest.approx(theirs.item(), rel=1e-5)


def error(scores, taught):
    """How far the margins of a student are from those of its teacher."""
    margins = (scores[:, :1] - scores) - (taught[:, :1] - taught)
    return margins.square().mean().item()


def test_a_bi_encoder_learns_the_margins_of_a_cross_encoder(student, teacher, tmp_path):
    shown = Trouble()
    training = {**FAST["training"], "epochs": 40}
    done = student("run", shown, training=training)
    assert "48 labelled rows and 37 answers of the teacher" in shown.said
    assert any("2 texts of the teacher are in test as well" in line for line in shown.said)
    rows = answers_in(tmp_path / "cache-run")
    assert len(rows) == 39
    pairs = [(row["query"], row["document"]) for row in rows[:36]]
    taught = torch.tensor([logit(row["score"]) for row in rows[:36]]).reshape(-1, 3)
    learned, plain = (
        20 * torch.tensor([answer["score"] for answer in run.predict(pairs)]).reshape(-1, 3)
        for run in (done, warmstart.fit(model=done.recipe.model, out=tmp_path / "plain", **_plain(done, training)))
    )

    assert error(learned, taught) < 0.5 * error(plain, taught)
    assert teacher.metrics["test"]["ndcg_20"] > 0.5


def test_a_bi_encoder_learns_the_margins_of_another(student, encoder, data, tmp_path):
    given = {"task": SHORT["task"], "train": data["train"], "test": data["test"]}
    large = warmstart.fit(model=encoder, out=tmp_path / "large", training=FAST["training"], **given)
    training = {**FAST["training"], "epochs": 40}
    done = student("run", distil={"teacher": str(large.folder)}, training=training)
    rows = answers_in(tmp_path / "cache-run")
    pairs = [(row["query"], row["document"]) for row in rows[:36]]
    taught = torch.tensor([row["score"] for row in rows[:36]]).reshape(-1, 3)
    assert taught.flatten().tolist() == pytest.approx([one["score"] for one in large.predict(pairs)], abs=1e-5)
    learned, plain = (
        torch.tensor([answer["score"] for answer in run.predict(pairs)]).reshape(-1, 3)
        for run in (done, warmstart.fit(model=encoder, out=tmp_path / "plain", **_plain(done, training)))
    )

    assert error(learned, taught) < 0.5 * error(plain, taught)


def _plain(run, training):
    """The same training without the teacher."""
    data = run.recipe.data
    return {"train": data.train, "test": data.test, "task": SHORT["task"], "training": training}


def test_killed_anywhere_the_student_is_bit_equal(student, tmp_path):
    whole = student("whole")
    for bar, step in (("group", 8), ("group", 24), ("training", 2), ("training", 5), ("testing", 3)):
        with pytest.raises(Crash):
            student("run", Trouble(bar, step))
    done = student("run")
    assert answers_in(tmp_path / "cache-run") == answers_in(tmp_path / "cache-whole")
    assert weight_bytes(done.model) == weight_bytes(whole.model) != {}
    assert done.metrics == whole.metrics


@pytest.mark.parametrize(
    "task",
    [
        {"loss": "triplet", "distance_metric": "euclidean"},
        {"hard_negatives": 1, "random_negatives": 1},
        {"rows": "pairs"},
    ],
)
def test_other_rows_and_losses_are_taught_too(student, data, tmp_path, task):
    rows = [json.loads(line) for line in Path(data["train"]).read_text().splitlines()]
    if task.get("rows") == "pairs":
        rows = [{"query": row["query"], "document": row["document"]} for row in rows if row["label"]]
    train = write(tmp_path / "own.jsonl", rows)
    done = student("run", train=train, test=train, task={**SHORT["task"], **task})
    assert done.metrics["test"]["ndcg_20"] > 0


def test_held_out_queries_are_not_taught(student, data, tmp_path):
    """Where training queries are held out to choose how to search, the teacher's pairs of those are left out too."""
    rows = [{"query": row["query"], "document": row["document"]} for row in judged(0, 60) if row["label"]]
    train = write(tmp_path / "pairs.jsonl", rows)
    texts = [{"query": row["query"], "document": document(word)} for row in rows for word in WORDS[:2]]
    shown = Trouble()
    stage = {"texts": write(tmp_path / "texts.jsonl", texts)}
    student("run", shown, stage, train=train, test=None, task={"name": "rank", "rows": "pairs"})
    assert "22 texts of the teacher are in the held-out rows as well, and are left out of training" in shown.said


def test_what_cannot_teach_or_be_taught_is_refused_in_words(student, encoder, data, tmp_path):
    with pytest.raises(RecipeError, match=r"a cross-encoder cannot; set encoder: bi"):
        student("run", task={"name": "rank", "encoder": "cross"})
    bi = warmstart.fit(model=encoder, train=data["train"], test=data["test"], out=tmp_path / "bi", **SHORT)
    euclidean = {**SHORT["task"], "loss": "triplet", "distance_metric": "euclidean"}
    with pytest.raises(RecipeError, match=r"a bi-encoder that compares by cosine.*set task\.distance_metric: cosine"):
        student("run", distil={"teacher": str(bi.folder)}, task=euclidean)
    alone = write(tmp_path / "alone.jsonl", [{"query": "who", "document": document("film")}])
    with pytest.raises(RecipeError, match=r"stages\.distil\.texts: no query has two documents"):
        student("run", distil={"texts": alone})


@pytest.mark.parametrize(("rows", "added"), [("labelled", 37), ("pairs", 24)])
def test_a_plan_counts_the_margins(encoder, data, teacher, tmp_path, rows, added):
    own = [json.loads(line) for line in Path(data["train"]).read_text().splitlines()]
    own = own if rows == "labelled" else [{k: row[k] for k in ("query", "document")} for row in own if row["label"]]
    train = write(tmp_path / "own.jsonl", own)
    stage = {"distil": {"teacher": str(teacher.folder), "texts": data["texts"]}}
    settings = {
        "model": encoder,
        "data.train": train,
        "data.test": data["test"],
        "task": {"name": "rank", "rows": rows},
        "training": {"epochs": 2},
    }
    (alone,) = plan(make_recipe({**settings}))
    first, second = plan(make_recipe({**settings, "stages": [stage]}))
    assert (first.stage, first.rows) == ("distil: teacher", {"texts": 39})
    assert second.rows["train"] - alone.rows["train"] == added
    assert second.flops > 1.3 * alone.flops
