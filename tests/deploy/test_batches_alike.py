"""Batches of like length: every feature once, within a budget of tokens, whatever the lengths."""

from hypothesis import given
from hypothesis import strategies as st

from warmstart.inference.batching import group_by_length

LENGTHS = st.lists(st.integers(1, 300), max_size=60)
SLICED = st.lists(st.lists(st.integers(1, 50), min_size=1, max_size=6), max_size=40)


@given(LENGTHS, st.integers(1, 16), st.integers(1, 1000))
def test_every_text_is_in_one_batch_within_the_budget(lengths, most, budget):
    batches = list(group_by_length([{"input_ids": list(range(length))} for length in lengths], most, budget))
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or (len(batch) <= most and len(batch) * max(lengths[i] for i in batch) <= budget)


@given(SLICED, st.integers(1, 16), st.integers(1, 500))
def test_slices_count_each(texts, most, budget):
    features = [{"input_ids": [list(range(length)) for length in text]} for text in texts]
    for batch in group_by_length(features, most, budget):
        rows = sum(len(texts[index]) for index in batch)
        longest = max(max(texts[index]) for index in batch)
        assert len(batch) == 1 or (rows <= most and rows * longest <= budget)


def test_no_text_is_no_batch():
    assert list(group_by_length([])) == []
