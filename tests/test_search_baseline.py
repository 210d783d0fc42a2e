"""A search that costs nothing is measured before training, and a trained encoder never searches worse than it."""

import json

import pytest
from typer.testing import CliRunner

import warmstart
from small import FAST
from tiny import save_tiny
from warmstart.cli.main import app
from warmstart.errors import RecipeError
from warmstart.evaluation.records.search_baseline import SearchScores, read_fusion, read_search_baseline
from warmstart.evaluation.training_warnings import training_warnings
from warmstart.inference.search import Index
from warmstart.inference.searchers import VectorSearcher, WordSearcher
from warmstart.pipeline import search_baseline
from warmstart.tasks.shared.bm25 import Bm25, without_spaces
from warmstart.tasks.shared.fusion import reciprocal_rank_fusion

ITEMS = [f"ξ{number}" for number in range(60)]
"""Words that the tiny vocabulary does not know: an encoder cannot tell them apart, BM25 can."""
SHORT = {"training": {**FAST["training"], "epochs": 1, "max_steps": 2}, "window": {"max_tokens": 32}}


def pairs(items):
    return [{"query": f"where is {item}", "document": f"it is the film {item}"} for item in items]


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return str(save_tiny(tmp_path_factory.mktemp("encoder")))


def fit(encoder, folder, train=60, task=None, **settings):
    files = {"train": pairs(ITEMS[:train]), "test": pairs(f"π{number}" for number in range(20))}
    paths = {name: write(folder / f"{name}.jsonl", rows) for name, rows in files.items()}
    options = {"name": "rank", "rows": "pairs", **(task or {})}
    return warmstart.fit(model=encoder, task=options, out=folder / "run", **{**paths, **SHORT, **settings})


class Lines:
    """Progress that keeps what is logged."""

    def __init__(self):
        from warmstart.runtime.progress import silent

        self.lines, self.bar = [], silent.bar

    def log(self, text):
        self.lines.append(text)


def saved_fusion(run):
    return json.loads((run.model / "warmstart.json").read_text())["options"]["fusion"]


@pytest.fixture(scope="module")
def chosen(encoder, tmp_path_factory):
    progress = Lines()
    return fit(encoder, tmp_path_factory.mktemp("chosen"), progress=progress), progress.lines


def test_bm25_is_taken_where_it_is_better_on_held_out_queries(chosen):
    run, lines = chosen
    before, choice = read_search_baseline(run.folder), read_fusion(run.folder)
    assert before.sentence in lines
    assert before.sentence.startswith("before training, on 12 held-out training queries: ndcg_20 of the encoder as it")
    assert before.scores.bm25 == 1.0 > before.scores.encoder
    assert choice.chosen == saved_fusion(run) == "bm25-only"
    assert choice.sentence in lines
    assert choice.scores.bm25 == 1.0 > choice.scores.fused
    assert run.metrics["test"]["ndcg_20"] == 1.0
    assert run.data.parts["train"].rows == 48
    assert [finding.kind for finding in run.data.findings].count("held-out") == 1
    assert not training_warnings(run)


def test_the_choice_is_used_by_a_search_and_by_an_evaluation(chosen):
    run, _ = chosen
    documents = ["it is the film ξ3", "a story", "it is the film ξ4"]
    [hits] = Index.of(warmstart.load(run.folder), documents, ids=["a", "b", "c"]).search(["Where is Ξ4"])
    assert hits[0]["id"] == "c"
    assert [hit["id"] for hit in hits] == ["c", "a"]  # the story shares no word


def test_the_model_still_opens_as_a_bi_encoder_and_its_card_says_what_it_lacks_then(chosen):
    run, _ = chosen
    library = pytest.importorskip("sentence_transformers")
    vectors = library.SentenceTransformer(str(run.model)).encode(["where is the film", "it is the film"])
    [answer] = run.predict([("where is the film", "it is the film")])
    assert answer["score"] == pytest.approx(float(vectors[0] @ vectors[1]), abs=1e-6)
    page = run.report().read_text()
    assert "ranks the documents by BM25 instead" in (run.model / "README.md").read_text()
    assert "the encoder before training" in page
    assert "12 held-out training queries" in page
    assert "Documents are searched by BM25 alone (task.fusion: bm25-only)" in page


def test_a_choice_of_ones_own_holds_nothing_out(encoder, tmp_path):
    run = fit(encoder, tmp_path, task={"fusion": "bm25"})
    assert saved_fusion(run) == "bm25"
    assert read_fusion(run.folder) is None
    assert read_search_baseline(run.folder).held_out.part == "train"
    assert run.data.parts["train"].rows == 60
    documents = [row["document"] for row in pairs(ITEMS[:9])]
    rankings = [
        next(searcher.rank(["where is ξ5"], 100)).best
        for searcher in (VectorSearcher(run.predictor, documents), WordSearcher(documents))
    ]
    scores = reciprocal_rank_fusion(rankings)
    [hits] = Index.of(run.predictor, documents).search(["where is ξ5"], top=4)
    assert [hit["id"] for hit in hits] == sorted(scores, key=lambda at: (-scores[at], at))[:4]
    assert [hit["score"] for hit in hits] == [scores[hit["id"]] for hit in hits]
    assert run.metrics["test"]["ndcg_20"] > read_search_baseline(run.folder).scores.encoder


def test_few_queries_are_all_trained_on_and_dev_rows_are_asked_for(encoder, tmp_path):
    progress = Lines()
    run = fit(encoder, tmp_path, train=49, progress=progress)
    assert run.data.parts["train"].rows == 49
    assert read_fusion(run.folder).scores is None
    assert saved_fusion(run) == "none"
    assert any("dev rows (data.dev, data.split.dev) would allow the choice" in line for line in progress.lines)
    assert any("is below the 1.000 of BM25 on 49 training queries" in warning for warning in training_warnings(run))


def test_dev_rows_decide_and_no_training_row_is_held_out(encoder, tmp_path):
    dev = write(tmp_path / "dev.jsonl", pairs(f"δ{number}" for number in range(15)))
    run = fit(encoder, tmp_path, dev=dev)
    assert run.data.parts["train"].rows == 60
    assert read_search_baseline(run.folder).held_out == read_fusion(run.folder).held_out
    assert read_fusion(run.folder).held_out.part == "dev"
    assert saved_fusion(run) == "bm25-only"


@pytest.mark.parametrize("kind", ["bi", "cross"])
def test_given_candidates_are_measured_but_not_fused(encoder, tmp_path, kind):
    every = pairs(ITEMS)
    rows = [
        {**row, "document": document, "label": label}
        for at, row in enumerate(every)
        for document, label in ((row["document"], 1), (every[at - 1]["document"], 0))
    ]
    train = write(tmp_path / "rows.jsonl", rows)
    task = {"name": "rank", "encoder": kind}
    run = warmstart.fit(model=encoder, task=task, train=train, out=tmp_path / "run", **SHORT)
    before = read_search_baseline(run.folder)
    assert before.scores.bm25 == 1.0
    assert before.scores.encoder is not None
    assert before.scores.fused is None
    assert before.held_out.documents == before.held_out.of_documents
    assert read_fusion(run.folder) is None


def test_a_run_that_was_killed_before_its_choice_was_saved_makes_the_same_choice(encoder, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(search_baseline, "republish", None)
        with pytest.raises(TypeError):
            fit(encoder, tmp_path)
    monkeypatch.setattr(search_baseline, "_measure", None)
    run = fit(encoder, tmp_path)
    assert saved_fusion(run) == read_fusion(run.folder).chosen == "bm25-only"
    assert run.metrics["test"]["ndcg_20"] == 1.0


def test_a_large_collection_is_sampled_with_all_judged_documents(encoder, tmp_path, monkeypatch):
    monkeypatch.setattr(search_baseline, "MAX_DOCUMENTS", 20)
    run = fit(encoder, tmp_path)
    held = read_search_baseline(run.folder).held_out
    assert (held.queries, held.documents, held.of_documents) == (12, 20, 60)
    assert "among 20 of 60 documents" in read_search_baseline(run.folder).sentence
    assert read_search_baseline(run.folder).scores.bm25 == 1.0


def test_a_cross_encoder_cannot_be_fused(encoder, tmp_path):
    with pytest.raises(RecipeError, match="expected none, or encoder: bi"):
        fit(encoder, tmp_path, task={"encoder": "cross", "fusion": "bm25", "hard_negatives": 1})


@pytest.mark.parametrize(
    ("encoder", "bm25", "fused", "best"),
    [
        (0.5, 0.4, 0.6, "bm25"),
        (0.5, 0.5, 0.5, "none"),
        (0.5, 0.7, 0.6, "bm25-only"),
        (0.6, 0.4, 0.5, "none"),
        (0.2, 0.6, 0.6, "bm25"),
        (0.2, 0.6, None, "none"),
    ],
)
def test_the_best_is_chosen_and_of_equals_the_simplest(encoder, bm25, fused, best):
    assert SearchScores(encoder, bm25, fused).best == best


def test_fused_ranks():
    scores = reciprocal_rank_fusion([[7, 3], [3]])
    assert scores == {7: pytest.approx(1 / 61), 3: pytest.approx(1 / 62 + 1 / 61)}


def test_bm25_counts_words_whatever_their_case_and_rare_ones_more():
    index = Bm25(["The cat sat.", "the dog", "the Cat and the dog", "…"])
    assert index.counts == "words"
    best, scores = index.closest("CAT, the?", 10)
    assert best == [0, 2, 1]
    assert scores[3] == 0
    assert index.closest("zebra", 10)[0] == index.closest("…", 10)[0] == []
    assert Bm25(["…", "!"]).closest("a", 10)[0] == []


@pytest.mark.parametrize("texts", [["喉が渇く", "幻覚"], ["喉 が 渇く", "見え ない もの"], ["ผู้ป่วยมีไข้", "ปวดหัว"]])
def test_bm25_counts_characters_where_words_are_not_separated(texts):
    """Texts that were split into words already are joined again, since a query may be split otherwise."""
    assert without_spaces(texts)
    index = Bm25(texts)
    assert index.counts == "characters"
    assert index.closest(texts[1].replace(" ", "")[:3], 1)[0] == [1]


def test_texts_with_spaces_are_counted_by_words_even_with_a_foreign_name():
    assert not without_spaces(["The city of Tokyo (東京) is large", "안녕하세요 여러분"])
    assert not without_spaces(["123"])


def test_the_command_line_shows_both_records(encoder, tmp_path):
    files = [write(tmp_path / f"{name}.jsonl", pairs(items)) for name, items in {"a": ITEMS, "b": ["π1", "π2"]}.items()]
    fit = ["fit", files[0], "--model", encoder, "--task", "rank", "--set", "task.rows=pairs", "--test", files[1]]
    short = ["--epochs", "1", "--max-tokens", "32", "--out"]
    done = CliRunner().invoke(app, [*fit, *short, str(tmp_path / "run"), "--json"])
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert result["search_baseline"]["scores"]["bm25"] == 1.0
    assert result["fusion"]["chosen"] == "bm25-only"
    shown = CliRunner().invoke(app, [*fit, *short, str(tmp_path / "shown")])
    assert "search baseline" in shown.output
    assert "bm25-only: on 12 held-out training queries" in " ".join(shown.output.split())
    hits = CliRunner().invoke(app, ["predict", str(tmp_path / "run"), "where is ξ7", "--documents", docs(tmp_path)])
    assert "it is the film ξ7" in hits.output


def docs(folder):
    lines = [f"{number},{row['document']}\n" for number, row in enumerate(pairs(ITEMS))]
    (folder / "docs.csv").write_text("id,text\n" + "".join(lines))
    return str(folder / "docs.csv")
