"""A student learns its teacher's vectors too: computed once, matched in training, and nothing of it is kept."""

import json

import pyarrow.parquet as pq
import pytest
import torch
import transformers
from torch import nn
from torch.nn import functional as F

import warmstart
from small import FAST, reviews, weight_bytes
from test_distil import SHORT, Crash, Trouble, answers_in
from tiny import save_tiny
from warmstart.errors import RecipeError
from warmstart.inference.features import Extractor
from warmstart.tasks.rank import Rank
from warmstart.tasks.score import Score, ScoreOptions
from warmstart.tasks.shared.rank_options import RankOptions
from warmstart.tasks.shared.teacher_vectors import check_matching
from warmstart.training.matched_vectors import PROJECTION, matched_vectors, matching_loss, projection


@pytest.fixture(scope="module")
def narrow(tmp_path_factory):
    """An encoder of another width than the teacher's."""
    return str(save_tiny(tmp_path_factory.mktemp("narrow"), hidden_size=16, intermediate_size=32))


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    path = tmp_path_factory.mktemp("texts") / "texts.jsonl"
    rows = [{"text": text} for text, _ in (*reviews(40, 5000), reviews(1, 1000)[0])]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in [{"text": 7}, *rows]))
    return str(path)


@pytest.fixture
def student(narrow, files, run, texts, tmp_path, monkeypatch):
    def call(name, progress=None, match="both", **more):
        monkeypatch.setenv("WARMSTART_CACHE", str(tmp_path / f"cache-{name}"))
        stage = {"teacher": str(run.folder), "texts": texts, "rows_per_shard": 8, "match": match}
        settings = {"model": narrow, "train": files["train"], "test": files["test"], **SHORT, **more}
        shown = {"progress": progress} if progress else {}
        return warmstart.fit(out=tmp_path / name, stages=[{"distil": stage}], **settings, **shown)

    return call


def test_the_distance_is_that_of_vectors_of_length_one():
    torch.manual_seed(0)
    states, mask = torch.randn(3, 4, 6), torch.tensor([[1, 1, 1, 0], [1, 1, 1, 1], [1, 0, 0, 0]])
    teacher = torch.randn(3, 6)
    vectors = torch.stack([row[: int(count)].mean(0) for row, count in zip(states, mask.sum(1), strict=True)])
    by_hand = (2 - 2 * F.cosine_similarity(vectors, teacher)).tolist()
    assert matching_loss(nn.Module(), states, mask, teacher).item() == pytest.approx(sum(by_hand) / 3, rel=1e-5)
    teacher[1] = torch.nan  # a labelled row
    assert matching_loss(nn.Module(), states, mask, teacher).item() == pytest.approx(
        (by_hand[0] + by_hand[2]) / 3, rel=1e-5
    )


def test_a_projection_is_there_while_a_model_is_trained(narrow):
    model = transformers.AutoModelForSequenceClassification.from_pretrained(narrow)
    names, state = set(model.state_dict()), torch.get_rng_state()
    with projection(model, 32, seed=0):
        assert set(model.state_dict()) - names == {f"{PROJECTION}.weight"}
        assert model.get_submodule(PROJECTION).weight.shape == (32, 16)
    assert set(model.state_dict()) == names
    assert torch.equal(torch.get_rng_state(), state)
    with projection(model, 16, seed=0):
        assert set(model.state_dict()) == names
    inputs = {"input_ids": torch.tensor([[2, 5, 3]]), "teacher_vector": torch.ones(1, 16)}
    with matched_vectors(model, inputs) as matched:
        model(**inputs)
    assert [tuple(state.shape) for state in matched.states] == [(1, 3, 16)]


def test_a_student_comes_closer_to_the_teachers_vectors(student, encoder, run):
    texts = [text for text, _ in reviews(24, 1000)]  # of the test rows
    taught = torch.tensor(Extractor.load(run.folder).vectors(texts))

    def cosine(match):
        done = student(match, match=match, model=encoder, training={**FAST["training"], "epochs": 8})
        return F.cosine_similarity(torch.tensor(Extractor.load(done.folder).vectors(texts)), taught).mean().item()

    both, logits = cosine("both"), cosine("logits")
    assert 1 - both < 0.5 * (1 - logits), (both, logits)


def test_a_student_of_another_width_learns_vectors_by_a_projection_that_is_thrown_away(student, run, tmp_path):
    shown = Trouble()
    done = student("run", shown, training={**FAST["training"], "epochs": 20})
    assert done.metrics["test"]["accuracy"] > 0.95
    assert "64 labelled rows and 40 answers of the teacher" in shown.said
    answers = answers_in(tmp_path / "cache-run")
    asked = [row["text"] for row in answers]
    assert torch.tensor([row["vector"] for row in answers]).numpy() == pytest.approx(
        Extractor.load(run.folder).vectors(asked), abs=1e-5
    )
    names = transformers.AutoModelForSequenceClassification.from_pretrained(done.model).state_dict()
    assert not any(PROJECTION in name for name in names)


def test_vectors_stand_beside_their_own_texts(student, run, tmp_path, monkeypatch):
    """What is trained on is, row by row, the teacher's vector of the very text."""
    seen = []
    from warmstart.training import trainer

    true_collate = trainer.collate

    def collate(job, epochs, features):
        batch = true_collate(job, epochs, features)
        texts = {tuple(job.tokenizer(text)["input_ids"]): text for text, _ in (*reviews(64), *reviews(40, 5000))}
        tokens = [texts[tuple(feature["input_ids"])] for feature in features]
        seen.extend(zip(tokens, batch["teacher_vector"], strict=True))
        return batch

    monkeypatch.setattr(trainer, "collate", collate)
    student("run")
    taught = {text: vector for text, vector in seen if not vector.isnan().any()}
    assert len(taught) == 40
    vectors = Extractor.load(run.folder).vectors(list(taught))
    assert torch.stack(list(taught.values())).numpy() == pytest.approx(vectors, abs=1e-5)
    assert {text for text, vector in seen if vector.isnan().all()} == {text for text, _ in reviews(64)}


def test_vectors_change_what_is_learned(student):
    assert weight_bytes(student("both").model) != weight_bytes(student("logits", match="logits").model)


def test_killed_anywhere_a_student_of_vectors_is_bit_equal(student, tmp_path):
    whole = student("whole")
    for bar, step in (("group", 8), ("group", 24), ("training", 2), ("training", 8), ("testing", 3)):
        with pytest.raises(Crash):
            student("run", Trouble(bar, step))
    done = student("run")
    assert answers_in(tmp_path / "cache-run") == answers_in(tmp_path / "cache-whole")
    assert weight_bytes(done.model) == weight_bytes(whole.model) != {}
    assert done.metrics == whole.metrics


def test_a_stock_head_and_an_equal_width_need_no_projection(student, encoder, run):
    done = student("run", model=str(run.model), layers={"num_layers": 2})
    assert done.metrics["test"]["accuracy"] > 0.8
    pooled = student("pooled", model=encoder, head={"pooling": "mean"}, training={**SHORT["training"], "r_drop": 0.5})
    assert pooled.metrics["test"]["rows"] == 24


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"window": {"method": "slices", "max_tokens": 16}}, "slices reads a text in several parts"),
        ({"layers": {"freeze": "encoder"}}, "leaves nothing that could learn a vector"),
    ],
)
def test_what_has_no_vector_is_refused_in_words(student, change, said):
    with pytest.raises(RecipeError, match=said):
        student("run", **change)


def test_answers_without_vectors_have_no_such_column(student, tmp_path):
    student("run", match="logits")
    (folder,) = (tmp_path / "cache-run" / "stages").glob("distil-*/answers")
    assert "vector" not in pq.read_schema(next(folder.glob("*.parquet"))).names


def test_numbers_and_vectors_are_learned_together(encoder, texts, tmp_path, monkeypatch):
    monkeypatch.setenv("WARMSTART_CACHE", str(tmp_path / "cache"))
    data = {}
    for part, rows in (("train", reviews(64)), ("test", reviews(60, 1000))):
        lines = [json.dumps({"text": text, "label": float(label == "pos")}) for text, label in rows]
        (tmp_path / f"{part}.jsonl").write_text("\n".join(lines))
        data[part] = str(tmp_path / f"{part}.jsonl")
    teacher = warmstart.fit(model=encoder, task="score", **data, out=tmp_path / "teacher", **FAST)
    stage = {"distil": {"teacher": str(teacher.folder), "texts": texts, "match": "both"}}
    done = warmstart.fit(model=encoder, task="score", **data, out=tmp_path / "run", stages=[stage], **FAST)
    assert done.metrics["test"]["pearson"] > 0.8


def test_tasks_without_a_vector_for_each_text_are_refused():
    with pytest.raises(RecipeError, match="rank has not one vector a text, as classify and score have; set logits"):
        check_matching(Rank(RankOptions()), slices=False, frozen=False)
    with pytest.raises(RecipeError, match="these are pairs; set logits"):
        check_matching(Score(ScoreOptions(), pair=True), slices=False, frozen=False)
