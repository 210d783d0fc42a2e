"""Each strategy chooses what it says, near-duplicates are passed over, and a simulation tells a gain from none."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warmstart.active_learning.dry_run import summarize
from warmstart.active_learning.near_duplicates import KnownTexts
from warmstart.active_learning.simulation import LabelledSet, LearningCurve, full_accuracy, round_sizes, simulate
from warmstart.active_learning.strategies import STRATEGIES, Pool, choose_rows

PROBABILITIES = np.array([[0.9, 0.05, 0.05], [0.5, 0.49, 0.01], [0.4, 0.3, 0.3], [0.7, 0.2, 0.1]])


def test_margin_looks_at_two_labels_and_entropy_at_all():
    pool = Pool(4, PROBABILITIES)
    assert choose_rows("margin", pool, 2) == [1, 2]
    assert choose_rows("entropy", pool, 9) == [2, 3, 1, 0]


def test_labels_that_are_independent_are_unsure_one_by_one():
    pool = Pool(3, np.array([[0.99, 0.98], [0.99, 0.52], [0.3, 0.3]]), multi_label=True)
    assert choose_rows("margin", pool, 1) == [1]
    assert choose_rows("entropy", pool, 1) == [2]


def test_models_disagree_where_each_is_sure_of_another_label():
    sure = np.array([[[0.99, 0.01], [0.5, 0.5]], [[0.01, 0.99], [0.5, 0.5]]])
    assert choose_rows("disagreement", Pool(2, members=sure), 1) == [0]


def test_coverage_goes_where_nothing_is_labelled():
    angles = np.radians([0, 1, 2, 90, 91, 180])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    pool = Pool(6, vectors=vectors, labelled=vectors[:1])
    assert choose_rows("coverage", pool, 2) == [5, 3]
    assert sorted(choose_rows("coverage", pool, 9)) == list(range(6))


def test_mixed_spreads_what_is_unsure():
    margins = np.array([[0.5, 0.5], [0.5, 0.5], [0.51, 0.49], [0.52, 0.48], [0.9, 0.1]])
    vectors = np.array([[1.0, 0.0], [1.0, 0.01], [1.0, 0.02], [0.0, 1.0], [-1.0, 0.0]])
    chosen = choose_rows("mixed", Pool(5, margins, vectors=vectors), 2)
    assert chosen[1] == 3
    assert 4 not in chosen


@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(max_examples=15)
@given(count=st.integers(1, 12), seed=st.integers(0, 5))
def test_no_row_is_chosen_twice_or_against_its_refusal(strategy, count, seed):
    random = np.random.default_rng(seed)
    members = random.dirichlet(np.ones(3), (2, 9))
    pool = Pool(9, members[0], members, random.normal(size=(9, 4)), random.normal(size=(2, 4)))
    chosen = choose_rows(strategy, pool, count, lambda row: row % 3 > 0, seed)
    assert len(chosen) == len(set(chosen)) <= count
    assert set(chosen) <= {row for row in range(9) if row % 3}
    assert chosen == choose_rows(strategy, pool, count, lambda row: row % 3 > 0, seed)
    assert len(chosen) == min(count, 6)


def test_near_duplicates_differ_in_case_punctuation_and_a_tenth_of_the_words():
    text = "my card has not arrived yet and it is now two weeks since i ordered it online"
    words = text.split()
    known = KnownTexts([text, "!!!"])
    assert known.has_near_duplicate("My card has NOT arrived yet, and it is now two weeks since I ordered it online!")
    assert known.has_near_duplicate(" ".join([*words, "please"]))
    assert not known.has_near_duplicate(" ".join(words[:10]))
    assert not known.has_near_duplicate("where is the card")
    assert known.has_near_duplicate("!!!")
    assert not known.has_near_duplicate("???")


@given(st.lists(st.text(alphabet="ab c", max_size=8), max_size=8), st.text(alphabet="ab c", max_size=8))
def test_a_lookup_by_rare_words_misses_no_near_duplicate(texts, text):
    def words(one):
        return set(one.split()) or {""}

    near = any(len(words(text) & words(one)) / len(words(text) | words(one)) >= 0.9 for one in texts)
    assert KnownTexts(texts).has_near_duplicate(text) == near


def test_rounds_grow_to_all_rows():
    assert round_sizes(10, 35) == [10, 20, 30, 35]
    assert round_sizes(50, 20) == [20]
    assert np.diff(round_sizes(10, 1000))[-2] > 100


def test_rows_to_a_target_are_read_between_rounds():
    curve = LearningCurve([100, 200], [0.5, 0.7])
    assert (curve.rows_to(0.4), curve.rows_to(0.6), curve.rows_to(0.8)) == (100, 150, float("inf"))


def test_asking_pays_where_rare_labels_decide_and_all_strategies_end_alike():
    random = np.random.default_rng(0)
    labels = np.where(random.random(500) < 0.06, "rare", "usual")
    vectors = random.normal(0, 0.35, (500, 6)).astype(np.float32)
    vectors[labels == "rare", 0] += 1
    data = LabelledSet(vectors[:300], labels[:300], vectors[300:], labels[300:])
    sizes = round_sizes(20, 300)
    curves = {strategy: simulate(data, strategy, sizes, 1) for strategy in STRATEGIES}
    assert {curve.rows[-1] for curve in curves.values()} == {300}
    assert {curve.accuracy[-1] for curve in curves.values()} == {full_accuracy(data)}
    assert sum(curves["margin"].accuracy) >= sum(curves["random"].accuracy)


def test_a_dry_run_says_what_is_saved_and_that_nothing_is():
    def curve(rows):
        return LearningCurve([rows], [1.0])

    def curves(by_margin):
        noise = (100, 110, 95, 104, 99)
        others = {strategy: [curve(300 + one) for one in noise] for strategy in STRATEGIES}
        return {**others, "margin": [curve(by_margin + one) for one in noise]}

    saved = summarize(curves(50), [1.0] * 5, (800, 200), "a learner")
    assert saved.results[0].strategy == "margin"
    assert saved.results[0].saves
    assert "margin reaches 95% of the accuracy" in saved.verdict
    nothing = summarize(curves(300), [1.0] * 5, (800, 200), "a learner")
    assert nothing.verdict.startswith("Asking saves nothing that can be shown here")
    worse = summarize(curves(900), [1.0] * 5, (800, 200), "a learner")
    assert worse.verdict.startswith("Asking saves nothing")
