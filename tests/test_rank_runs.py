"""Runs of rank: what is learned is found again, and the folder opens in the libraries that rank."""

import json
import os
import signal
from contextlib import contextmanager

import numpy as np
import pytest
import torch
import transformers
from typer.testing import CliRunner

import warmstart
from small import FAST
from tiny import save_tiny
from warmstart.cli.main import app
from warmstart.errors import DataError, RecipeError, StoppedError
from warmstart.evaluation.run_result import read_result
from warmstart.evaluation.statistics import difference_over_rows, over_rows
from warmstart.inference.search import Index
from warmstart.report.run_facts import read_facts

WORDS = ["film", "book", "food", "movie", "story", "actor", "plot", "paris", "london", "tokyo", "alice", "bob"]
LEARN = {
    "training": {**FAST["training"], "lr_schedule": "constant", "weight_decay": 0, "epochs": 99, "max_steps": 60},
    "window": {"max_tokens": 64},
}
FEW = {"training.max_steps": 6}
KINDS = {
    "bi": {},
    "triplet": {"task.loss": "triplet", "task.hard_negatives": 1, "task.pooling": "cls"},
    "margin": {"task.loss": "margin", "task.chunk_size": 16},
    "euclidean": {"task.loss": "triplet", "task.distance_metric": "euclidean", "task.hard_negatives": 1},
    "cross": {"task.encoder": "cross", **FEW},
}


def document(word):
    return f"it is the {word} and very {word}"


def rows(start=0, count=4):
    """Queries with their own document and one of another word."""
    for number in range(start, start + count * len(WORDS)):
        word, other = WORDS[number % 12], WORDS[(number * 5 + 3) % 12]
        query = f"where is {word} {number}"
        yield query, document(word), 1
        if other != word:
            yield query, document(other), 0


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    """Ten times the usual first weights: a tiny network as drawn by default learns slowly."""
    return str(save_tiny(tmp_path_factory.mktemp("encoder"), initializer_range=0.2))


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rank")
    for name, start in {"train": 0, "test": 100}.items():
        lines = [f"{query},{text},{label}\n" for query, text, label in rows(start)]
        (folder / f"{name}.csv").write_text("query,document,label\n" + "".join(lines))
        pairs = [f"{query},{text}\n" for query, text, label in rows(start) if label]
        (folder / f"{name}-pairs.csv").write_text("query,document\n" + "".join(pairs))
        queries = list(dict.fromkeys(query for query, _, _ in rows(start)))
        (folder / f"{name}.queries.tsv").write_text("".join(f"q{n}\t{query}\n" for n, query in enumerate(queries)))
        qrels = [f"q{queries.index(query)} 0 {text.split()[3]} {label}\n" for query, text, label in rows(start)]
        (folder / f"{name}.qrels").write_text("".join(qrels))
    unjudged = ["the bad", "an actor and a bad plot", "not good"]
    documents = [*((word, document(word)) for word in WORDS), *((f"x{n}", text) for n, text in enumerate(unjudged))]
    (folder / "docs.tsv").write_text("".join(f"{key}\t{text}\n" for key, text in documents))
    return folder


@pytest.fixture(scope="module")
def runs(encoder, tables, tmp_path_factory):
    made = {}

    def make(name):
        if name not in made:
            made[name] = warmstart.fit(
                model=encoder,
                task="rank",
                train=str(tables / "train.csv"),
                test=str(tables / "train.csv"),
                out=tmp_path_factory.mktemp("runs") / "run",
                **{**LEARN, **KINDS[name]},
            )
        return made[name]

    return make


@pytest.mark.parametrize("name", ["bi", "triplet", "margin", "euclidean"])
def test_the_relevant_document_comes_first(runs, name):
    found = runs(name).metrics["test"]
    assert next(iter(found)) == "ndcg_20"
    assert found["mrr"] > 0.9


def test_a_query_counts_once_however_many_documents_it_has(runs, tables):
    result = read_result(runs("bi").folder, "", 0)
    queries = {query for query, _, _ in rows()}
    assert len(queries) < len(result.scores) == len(list(rows()))
    estimate = over_rows(result.scores)
    assert estimate.count == len(queries)
    assert estimate.mean == pytest.approx(result.value)
    assert difference_over_rows(result.scores, result.scores * 0.5).count == len(queries)
    shown = read_facts(runs("bi").folder).scores[0].estimate
    assert shown is not None
    assert shown.count == len(queries)


def test_a_bi_encoder_opens_in_sentence_transformers_with_its_window_and_pooling(runs):
    library = pytest.importorskip("sentence_transformers")
    run = runs("triplet")
    other = library.SentenceTransformer(str(run.model))
    texts = ["where is the film", document("film"), "a very long story " * 50]
    theirs = other.encode(texts)
    assert other.max_seq_length == 64
    assert np.abs(np.linalg.norm(theirs, axis=1) - 1).max() < 1e-6
    for query, text in [(0, 1), (1, 2), (2, 0)]:
        [answer] = run.predict([(texts[query], texts[text])])
        assert answer["score"] == pytest.approx(float(theirs[query] @ theirs[text]), abs=1e-6)
    plain = transformers.AutoModel.from_pretrained(run.model)
    assert sum(p.numel() for p in plain.parameters()) >= sum(p.numel() for p in run.predictor.engine.model.parameters())


def test_a_bi_encoder_by_euclidean_distance_scores_as_in_sentence_transformers(runs):
    library = pytest.importorskip("sentence_transformers")
    run = runs("euclidean")
    other = library.SentenceTransformer(str(run.model))
    query, texts = "where is film 7", [document(word) for word in WORDS]
    theirs = other.similarity(other.encode([query]), other.encode(texts))[0]
    assert other.similarity_fn_name == "euclidean"
    assert [answer["score"] for answer in run.predict([(query, text) for text in texts])] == pytest.approx(
        theirs.tolist(), abs=1e-4
    )
    [found] = Index.of(run.predictor, texts, ids=WORDS).search([query], top=3)
    assert [one["id"] for one in found] == [WORDS[index] for index in theirs.argsort(descending=True)[:3]]
    assert [one["score"] for one in found] == pytest.approx(theirs.sort(descending=True).values[:3].tolist(), abs=1e-4)


def test_a_cross_encoder_opens_in_sentence_transformers_and_in_transformers(runs):
    library = pytest.importorskip("sentence_transformers")
    run = runs("cross")
    pairs = [("where is film", document("film")), ("where is film", document("book")), ("a", "the story " * 90)]
    ours = [answer["score"] for answer in run.predict(pairs)]
    other = library.CrossEncoder(str(run.model), max_length=64)
    assert other.predict(pairs).tolist() == pytest.approx(ours, abs=1e-6)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(run.model).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(run.model)
    inputs = tokenizer(*zip(*pairs, strict=True), truncation=True, max_length=64, padding=True, return_tensors="pt")
    with torch.no_grad():
        assert model(**inputs).logits.sigmoid().flatten().tolist() == pytest.approx(ours, abs=1e-6)


def test_a_search_gives_what_comparing_with_every_document_gives(runs):
    predictor = runs("bi").predictor
    documents = [document(word) for word in WORDS]
    index = Index.of(predictor, documents, ids=WORDS)
    for query in ("where is film 7", "alice"):
        [found] = index.search([query], top=5)
        scores = {text: predictor.predict([(query, text)])[0]["score"] for text in documents}
        best = sorted(documents, key=lambda text: -scores[text])[:5]
        assert [one["document"] for one in found] == best
        assert [one["id"] for one in found] == [WORDS[documents.index(text)] for text in best]
        assert [one["score"] for one in found] == pytest.approx([scores[text] for text in best], abs=1e-5)
    assert index.search([]) == []
    assert len(index.search(["alice"], top=99)[0]) == len(documents)


def test_a_cross_encoder_cannot_search(runs):
    with pytest.raises(RecipeError, match="gives no vectors"):
        Index.of(runs("cross").predictor, ["a"])


def test_judgements_by_id_are_measured_among_all_documents(encoder, tables, tmp_path):
    """Their texts lie in files of their own, and documents that nobody judged can be found too."""
    run = warmstart.fit(
        model=encoder,
        task="rank",
        train={"file": str(tables / "train.qrels"), "queries": str(tables / "train.queries.tsv")},
        test={"file": str(tables / "test.qrels"), "queries": str(tables / "test.queries.tsv")},
        out=tmp_path / "run",
        **{"data.documents": str(tables / "docs.tsv"), "data.header": False, **LEARN},
    )
    assert run.metrics["test"]["mrr"] > 0.5
    given = warmstart.load(run.folder)
    import pyarrow.parquet as pq

    kept = pq.read_table(run.folder / "predictions.parquet").to_pylist()
    documents = dict(line.split("\t") for line in (tables / "docs.tsv").read_text().splitlines())
    queries = dict(line.split("\t") for line in (tables / "test.queries.tsv").read_text().splitlines())
    judged = [line.split() for line in (tables / "test.qrels").read_text().splitlines()]
    index = Index.of(given, list(documents.values()), list(documents))
    found = dict(zip(queries, index.search(list(queries.values())), strict=True))
    for row, (query, _, key, label) in zip(kept, judged, strict=True):
        assert row["rank"] == [one["id"] for one in found[query]].index(key) + 1
        assert row["answer"] == int(label)
        assert row["row"].startswith(str(tables / "test.qrels"))
    result = CliRunner().invoke(app, ["evaluate", str(run.folder), str(tables / "test.qrels"), "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["metrics"] == run.metrics["test"]


def test_pairs_alone_are_measured_among_all_documents(encoder, tables, tmp_path):
    """A cross-encoder too, which reads every pair, and learns from documents that were found to be close."""
    settings = {**LEARN, **FEW, "task": {"name": "rank", "rows": "pairs", "encoder": "cross", "hard_negatives": 2}}
    run = warmstart.fit(
        model=encoder,
        train=str(tables / "train-pairs.csv"),
        test=str(tables / "test-pairs.csv"),
        out=tmp_path / "run",
        **settings,
    )
    assert 0 < run.metrics["test"]["ndcg_20"] <= 1
    notes = [finding.message for finding in run.data.findings if finding.kind == "negatives"]
    assert notes[0].startswith("48 of 48")


def test_pairs_are_learned_with_random_negatives(encoder, tables, tmp_path):
    task = {"name": "rank", "rows": "pairs", "loss": "triplet", "random_negatives": 2}
    train = str(tables / "train-pairs.csv")
    run = warmstart.fit(model=encoder, task=task, train=train, test=train, out=tmp_path / "run", **LEARN)
    assert run.metrics["test"]["mrr"] > 0.6  # by chance, among 12 documents: 0.26
    notes = [finding.message for finding in run.data.findings if finding.kind == "negatives"]
    assert notes[1].startswith("96 negatives were drawn at random")


def test_triplets(encoder, tmp_path):
    table = [
        {"query": query, "document": text, "negative": document(WORDS[(n // 2 + 5) % 12])}
        for n, (query, text, label) in enumerate(rows(count=3))
        if label
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table))
    task = {"name": "rank", "rows": "triplets", "loss": "triplet"}
    run = warmstart.fit(model=encoder, task=task, train=str(tmp_path / "rows.jsonl"), out=tmp_path / "run", **LEARN)
    assert run.metrics["test"]["mrr"] > 0.3


class StopAt:
    """Progress that sends SIGTERM at a step of the training."""

    def __init__(self, step):
        self.step, self.done = step, 0

    @contextmanager
    def bar(self, name, total):
        self.training, self.done = name == "training", 0
        yield self

    def advance(self, amount=1, note=""):
        self.done += amount
        if self.training and self.done == self.step:
            os.kill(os.getpid(), signal.SIGTERM)

    def log(self, text):
        pass


def test_a_stopped_run_finds_the_same_negatives_and_goes_on_to_the_same_bits(encoder, tables, tmp_path):
    def fit(out, **more):
        settings = {**LEARN, **FEW, "task.hard_negatives": 1, "task.chunk_size": 16, **more}
        return warmstart.fit(model=encoder, task="rank", train=str(tables / "train.csv"), out=out, **settings)

    whole = fit(tmp_path / "whole")
    with pytest.raises(StoppedError):
        fit(tmp_path / "stopped", progress=StopAt(4))
    again = fit(tmp_path / "stopped")
    files = [run.model / "model.safetensors" for run in (whole, again)]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert whole.metrics == again.metrics


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"task.encoder": "cross", "task.loss": "triplet"}, "expected bce or margin"),
        ({"task.rows": "pairs", "task.loss": "triplet"}, "set hard_negatives: 1"),
        ({"task.rows": "pairs", "task.encoder": "cross"}, "set hard_negatives: 1"),
        ({"task.distance_metric": "euclidean"}, "expected encoder: bi and loss: triplet or margin"),
        ({"window.method": "slices"}, "window.method: found slices"),
        ({"layers.unfreeze": "gradual"}, "this model has none"),
        ({"training.r_drop": 1.0}, "two passes"),
        ({"head.pooling": "cls"}, "this task has none"),
    ],
)
def test_what_cannot_be_is_said_before_training(encoder, tables, tmp_path, options, told):
    settings = {**LEARN, **options}
    with pytest.raises(RecipeError, match=told):
        warmstart.fit(model=encoder, task="rank", train=str(tables / "train.csv"), out=tmp_path / "run", **settings)
    assert not (tmp_path / "run").exists()


def test_a_text_alone_is_refused(runs):
    with pytest.raises(DataError, match="a query and a document"):
        runs("bi").predict(["where is the film"])
