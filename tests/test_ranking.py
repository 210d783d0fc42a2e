"""The parts of ranking by themselves: losses, who is set against whom, the closest vectors, the measures."""

import pickle

import datasets
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from tiny import tiny_config, tiny_tokenizer
from warmstart.models.bi_encoder import BiEncoder
from warmstart.models.heads.pooled import build_encoder
from warmstart.tasks.rank import Rank, RankOptions
from warmstart.tasks.shared import metrics, negatives
from warmstart.tasks.shared import ranking_losses as ranking
from warmstart.tasks.shared.nearest_neighbours import Neighbours
from warmstart.tasks.shared.relevant_pairs import text_key


def vectors(count, seed=0, width=8):
    return F.normalize(torch.randn(count, width, generator=torch.Generator().manual_seed(seed)), dim=-1)


def test_the_losses_are_those_of_sentence_transformers():
    losses = pytest.importorskip("sentence_transformers.sentence_transformer.losses")
    queries, documents, others = vectors(6, 1), vectors(6, 2), vectors(6, 3)
    both = torch.stack([documents, others], dim=1).reshape(-1, 8)
    roles = ranking.roles(range(6), [(f"d{n}", f"n{n}") for n in range(6)])
    theirs = losses.MultipleNegativesRankingLoss(None, scale=20.0)
    expected = theirs.compute_loss_from_embeddings([queries, documents, others], None)
    torch.testing.assert_close(ranking.in_batch_negatives(20.0)(queries @ both.T, roles), expected)
    cosine = losses.TripletDistanceMetric.COSINE
    theirs = losses.TripletLoss(None, distance_metric=cosine, triplet_margin=0.3)
    expected = theirs.compute_loss_from_embeddings([queries, documents, others], None)
    torch.testing.assert_close(ranking.triplet(0.3)(queries @ both.T, roles), expected)
    theirs = losses.TripletLoss(None, distance_metric=losses.TripletDistanceMetric.EUCLIDEAN, triplet_margin=1.0)
    expected = theirs.compute_loss_from_embeddings([3 * queries, documents, others], None)
    torch.testing.assert_close(ranking.triplet(1.0)(ranking.negative_distances(3 * queries, both), roles), expected)


def test_a_triplet_by_euclidean_distance_is_the_formula_of_sentence_bert():
    """max(‖a - p‖ - ‖a - n‖ + ε, 0), with ε = 1 by default, of vectors of any length."""
    task = Rank(RankOptions(loss="triplet", distance_metric="euclidean", rows="triplets"))
    queries = torch.tensor([[0.0, 0.0], [1.0, 1.0]])
    documents = torch.tensor([[3.0, 4.0], [0.0, 5.5], [1.0, 1.0], [1.0, 9.0]])  # each with its negative
    labels = ranking.roles([0, 1], [("a", "b"), ("c", "d")])
    loss = task.loss()({"queries": queries, "documents": documents}, labels)
    assert loss.item() == pytest.approx(((5 - 5.5 + 1) + 0) / 2)
    queries.requires_grad_()
    task.loss()({"queries": queries, "documents": documents}, labels).backward()
    assert torch.isfinite(queries.grad).all()  # though a query and its document are the same


def test_the_closest_by_euclidean_distance_are_not_those_by_inner_product():
    documents = np.array([[10.0, 10.0], [1.0, 0.0], [0.0, 3.0]], dtype=np.float32)
    query = np.array([[1.0, 1.0]], dtype=np.float32)
    scores, places = Neighbours(documents, "euclidean").closest(query, top=2)
    assert places.tolist() == [[1, 2]]
    assert scores[0].tolist() == pytest.approx([-1, -(5**0.5)])
    assert Neighbours(documents).closest(query, top=1)[1].tolist() == [[0]]


def test_a_document_that_is_relevant_elsewhere_in_the_batch_is_hidden():
    # Query a has two documents, x and y; y is also query b's, and x a careless negative of a's second row.
    roles = ranking.roles(["a", "a", "b"], [("x", "n"), ("y", "x"), ("y",)])
    own, negative, other, hidden = ranking.OWN, ranking.NEGATIVE, ranking.OTHER, ranking.HIDDEN
    assert roles.tolist() == [
        [own, negative, hidden, hidden, hidden],
        [hidden, other, own, hidden, hidden],
        [other, other, hidden, other, own],
    ]


def test_a_document_that_a_row_of_another_batch_says_is_relevant_is_hidden():
    texts = [[[1, 5], [1, 7]], [[1, 6], [1, 8]], [[1, 5], [1, 8]], [[1, 6], [1, 9], [1, 7]]]
    rows = datasets.Dataset.from_dict({"input_ids": texts, "labels": [1.0] * 4})
    task = Rank(RankOptions())
    task.read_training_rows(rows)
    batch = task.collate(rows.to_list()[:2], tiny_tokenizer("bert"))
    # By the third row, the second document is relevant to the first query too; the negative of the last is no such row.
    assert batch["labels"].tolist() == [[ranking.OWN, ranking.HIDDEN], [ranking.OTHER, ranking.OWN]]
    scores = torch.tensor([[0.5, 0.9], [0.1, 0.4]])
    expected = -torch.log_softmax(20 * scores[1], dim=0)[1] / 2  # the first query has nothing to be confused with
    torch.testing.assert_close(ranking.in_batch_negatives(20.0)(scores, batch["labels"]), expected)


def test_the_same_relevance_is_known_in_a_worker_of_the_data_loader():
    task = Rank(RankOptions())
    task.read_training_rows(datasets.Dataset.from_dict({"input_ids": [[[1, 5], [1, 7]], [[1, 5], [1, 8]]]}))
    other = pickle.loads(pickle.dumps(task)).relevant_pairs  # noqa: S301
    assert set(other.documents_of(text_key([1, 5]))) == {text_key([1, 7]), text_key([1, 8])}
    assert other.documents_of(text_key([1, 7])) == []


def test_a_given_negative_that_another_row_says_is_relevant_is_left_out():
    columns = {
        "query": ["a", "a", "b"],
        "document": ["x", "y", "z"],
        "negative": ["y", "n", "x"],
        "label": [1, 1, 1],
    }
    rows, texts, notes = negatives.arrange(columns, negatives.Wanted(1, 0), lambda texts, side: None, seed=0)
    assert (rows, texts) == ([0, 1, 2], [[], ["n"], ["x"]])
    assert notes[1].startswith("1 negatives are left out")


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=8))
def test_no_query_is_ever_set_against_a_document_that_a_row_says_is_relevant(rows):
    roles = ranking.roles([q for q, _, _ in rows], [(d, n) for _, d, n in rows])
    flat = [document for _, d, n in rows for document in (d, n)]
    relevant = {(q, d) for q, d, _ in rows}
    for number, (query, _, _) in enumerate(rows):
        assert (roles[number] == ranking.OWN).nonzero().tolist() == [[2 * number]]
        for place, document in enumerate(flat):
            if place != 2 * number:
                assert (roles[number, place] == ranking.HIDDEN) == ((query, document) in relevant)
    for loss in (ranking.in_batch_negatives(20.0), ranking.triplet(0.2), ranking.batch_all(0.2)):
        assert torch.isfinite(loss(torch.randn(roles.shape), roles))


def test_every_document_of_the_batch_must_be_a_margin_away():
    roles = ranking.roles([0, 1], [("a",), ("b", "c")])
    scores = torch.tensor([[0.9, 0.8, 0.1], [0.1, 0.9, 0.2]])
    torch.testing.assert_close(ranking.batch_all(0.2)(scores, roles), torch.tensor(0.1))


def test_a_cross_encoders_margin_is_kept_within_each_group():
    scores, relevant = torch.tensor([3.0, 2.5, 0.0, 5.0, 1.0]), torch.tensor([1.0, 0, 0, 1, 0])
    torch.testing.assert_close(ranking.grouped_margin(1.0)(scores, relevant), torch.tensor(0.5 / 3))


@pytest.mark.parametrize("name", ["bert", "xlnet"])
def test_a_large_batch_in_chunks_has_the_gradients_of_the_whole(name):
    """With the padding on either side."""
    torch.manual_seed(0)
    encoder = build_encoder(tiny_config(name, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, dropout=0.0))
    tokenizer = tiny_tokenizer(name)
    texts = [word for n in range(9) for word in (f"who is {n}", f"the good story of alice {n} in paris " * (1 + n % 3))]
    batch = {**tokenizer(texts, padding=True, return_tensors="pt"), "texts": torch.full((9,), 2)}
    roles = ranking.roles(range(9), [(f"d{n}",) for n in range(9)])
    found = []
    for chunk_size in (None, 4, 1):
        model = BiEncoder(encoder, chunk_size=chunk_size).train()
        model.zero_grad()
        outputs = model(**batch)
        loss = ranking.in_batch_negatives(20.0)(outputs.queries @ outputs.documents.T, roles)
        loss.backward()
        found.append([loss.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)])
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            torch.testing.assert_close(one, two, atol=1e-5, rtol=1e-4)


def test_the_closest_come_first_and_of_equal_ones_the_earlier():
    documents = np.eye(4, dtype=np.float32)[[0, 1, 1, 2]]
    scores, places = Neighbours(documents).closest(np.eye(4, dtype=np.float32)[[1, 3]], top=9)
    assert places[0].tolist() == [1, 2, 0, 3]
    assert scores[0].tolist() == [1, 1, 0, 0]
    assert places[1].tolist() == [0, 1, 2, 3]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 6), st.integers(0, 1)), min_size=2, max_size=20))
def test_what_a_row_is_set_against_is_never_known_to_be_relevant(rows):
    queries, documents, labels = ([str(one) for one in column] for column in zip(*rows, strict=True))
    known = negatives.KnownRelevance.from_rows(queries, documents, [float(label) for label in labels])
    rows = [row for row, label in enumerate(labels) if label == "1"]
    close = negatives.mined(
        known, rows, 3, vectors(len(known.queries)).numpy(), vectors(len(known.documents), 1).numpy()
    )
    drawn = negatives.judged(known, rows, 2, seed=7)
    assert drawn == negatives.judged(known, rows, 2, seed=7)
    for row, mined, judged in zip(rows, close, drawn, strict=True):
        relevant = known.relevant[known.query_of[row]]
        assert not relevant & {*mined, *judged}
        assert len(set(mined)) == len(mined) == min(3, len(known.documents) - len(relevant))
        zeros = {
            d for q, d, label in zip(queries, documents, labels, strict=True) if q == queries[row] and label == "0"
        }
        assert {known.documents[one] for one in judged} <= zeros
    for row, own, taken in zip(rows, negatives.random(known, rows, 3, 7, drawn), drawn, strict=True):
        others = {*range(len(known.documents))} - known.relevant[known.query_of[row]] - {*taken}
        assert {*own} <= others
        assert len({*own}) == len(own) == min(3, len(others))


def test_random_negatives_are_drawn_evenly_from_what_is_not_relevant():
    texts = [f"d{n}" for n in range(6)]
    known = negatives.KnownRelevance.from_rows(["a"] * 2 + ["b"] * 4, texts, [1.0] * 6)
    drawn = [negatives.random(known, [0], 2, seed, [[3]])[0] for seed in range(300)]
    assert drawn[0] == negatives.random(known, [0], 2, 0, [[3]])[0]
    counts = np.bincount(np.array(drawn).ravel(), minlength=6)  # of 2, 4 and 5: two of three each time
    assert counts[[0, 1, 3]].tolist() == [0, 0, 0]
    assert counts[[2, 4, 5]].min() > 150


def test_measures_of_a_ranking():
    found = metrics.ranking(
        {"a": {"x": 1, "y": 0}, "b": {"z": 2}}, {"a": {"x": 0.1, "y": 0.9}, "b": {"z": 1.0, "o": 0.5}}
    )
    assert found == pytest.approx(
        {
            "ndcg_20": (1 / np.log2(3) + 1) / 2,
            "ndcg_10": (1 / np.log2(3) + 1) / 2,
            "map": 0.75,
            "mrr": 0.75,
            "recall_100": 1,
        }
    )


def test_where_any_order_is_as_good_a_ranking_has_no_measure():
    found = metrics.ranking({"a": {"x": 1}, "b": {"y": 0}}, {"a": {"x": 0.1}, "b": {"y": 0.9}})
    assert all(np.isnan(value) for value in found.values())


def test_queries_without_a_relevant_document_are_left_out():
    with_them = metrics.ranking({"a": {"x": 1, "y": 0}, "b": {"y": 0}}, {"a": {"x": 1.0, "y": 0.9}, "b": {"y": 0.9}})
    assert with_them["mrr"] == 1
