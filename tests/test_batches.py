"""Batches hold every row once, in an order of seed and epoch alone, with little padding and parts alike in length."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from warmstart.data.arrow_files import write_arrow
from warmstart.errors import DataError, RecipeError
from warmstart.training.batches import LengthGroupedBatchSampler, RandomBatchSampler, grouping_lengths, row_lengths

LENGTHS = np.random.default_rng(0).gamma(2, 20, 3000).astype(int) + 3


def padding(lengths, batches):
    padded = sum(len(batch) * max(lengths[row] for row in batch) for batch in batches)
    return 1 - sum(lengths) / padded


def steps(make, epoch=0, processes=1):
    """The parts of each step, one a process."""
    samplers = [make(num_processes=processes, process_index=process) for process in range(processes)]
    for sampler in samplers:
        sampler.set_epoch(epoch)
    return list(zip(*samplers, strict=True))


@given(
    lengths=st.lists(st.integers(1, 30), min_size=4, max_size=150),
    batch=st.integers(1, 9),
    tokens=st.sampled_from([None, "random", 30, 64, 300]),
    processes=st.integers(1, 4),
    seed=st.integers(0, 3),
)
@settings(max_examples=150, deadline=None)
def test_every_row_once_and_as_many_steps_as_were_said(lengths, batch, tokens, processes, seed):
    def make(**more):
        if tokens == "random":
            return RandomBatchSampler(len(lengths), batch, seed=seed, **more)
        return LengthGroupedBatchSampler(lengths, batch, batch_tokens=tokens, seed=seed, **more)

    for epoch in range(3):
        found = steps(make, epoch, processes)
        assert len(found) == len(make(num_processes=processes))
        assert sorted(row for step in found for part in step for row in part) == list(range(len(lengths)))
        for step in found:
            sizes = sorted(map(len, step))
            assert sizes[0] >= 1
            assert sizes[-1] - sizes[0] <= 1
            if isinstance(tokens, int) and len(lengths) % processes == 0:
                assert all(len(part) * max(lengths[row] for row in part) <= tokens for part in step)
        if not isinstance(tokens, int):
            assert all(sum(map(len, step)) == batch * processes for step in found[:-1])


def test_a_pass_moves_on_to_the_next_epoch_and_an_epoch_can_be_chosen():
    sampler = LengthGroupedBatchSampler(LENGTHS, seed=3)
    first, second = list(sampler), list(sampler)
    assert first != second
    sampler.set_epoch(0)
    assert list(sampler) == first
    assert list(LengthGroupedBatchSampler(LENGTHS, seed=4)) != first


def test_random_batches_are_those_of_a_plain_trainer():
    order = torch.randperm(len(LENGTHS), generator=torch.Generator().manual_seed(7 + 2))
    sampler = RandomBatchSampler(len(LENGTHS), 32, seed=7)
    sampler.set_epoch(2)
    assert [row for batch in sampler for row in batch] == order.tolist()


@pytest.mark.parametrize("tokens", [None, 2048])
def test_little_is_padding(tokens):
    assert padding(LENGTHS, LengthGroupedBatchSampler(LENGTHS, batch_tokens=tokens)) < 0.05
    assert padding(LENGTHS, RandomBatchSampler(len(LENGTHS))) > 0.5


@pytest.mark.parametrize("tokens", [None, 2048])
def test_rows_meet_others_in_the_next_epoch(tokens):
    sampler = LengthGroupedBatchSampler(LENGTHS, batch_tokens=tokens)
    first, second = ({frozenset(batch) for batch in sampler} for _ in range(2))
    assert len(first & second) <= 1  # the step of the longest row may hold nothing else


def test_the_steps_come_in_no_order_of_length():
    means = [np.mean(LENGTHS[batch]) for batch in LengthGroupedBatchSampler(LENGTHS)]
    assert abs(np.corrcoef(means, range(len(means)))[0, 1]) < 0.3


def test_processes_have_parts_of_like_length():
    longest = [
        [max(LENGTHS[part]) for part in step]
        for step in steps(lambda **of: LengthGroupedBatchSampler(LENGTHS, 16, **of), 0, 2)
    ]
    assert np.mean([max(pair) / min(pair) for pair in longest]) < 1.05


def test_what_cannot_be_is_refused():
    with pytest.raises(
        RecipeError, match=r"training\.batch_tokens: found 9, but a row has 12 tokens; set at least that"
    ):
        LengthGroupedBatchSampler([3, 12], batch_tokens=9)
    with pytest.raises(DataError, match="1 rows cannot be shared by 2 processes; start at most 1"):
        RandomBatchSampler(1, num_processes=2)


def test_lengths_of_rows_and_of_rows_in_slices(tmp_path):
    flat = [[1] * n for n in (3, 0, 5, 2)]
    rows = write_arrow([{"input_ids": flat[:3]}, {"input_ids": flat[3:]}], tmp_path / "flat.arrow")
    assert row_lengths(rows).tolist() == [3, 0, 5, 2]
    assert row_lengths(rows.select([2, 0])).tolist() == [5, 3]
    sliced = write_arrow([{"input_ids": [[[1, 2], [3]], [[4]], [[5, 6, 7], [8], [9]]]}], tmp_path / "sliced.arrow")
    assert row_lengths(sliced).tolist() == [4, 1, 9]
    assert row_lengths([{"input_ids": [1, 2]}, {"input_ids": [[1], [2, 3]]}]).tolist() == [2, 4]


def test_rows_are_grouped_by_their_tokens_or_as_they_say(tmp_path):
    columns = {"input_ids": [[1], [1, 2], [1]], "length": [2, 2, 1]}
    rows = write_arrow([columns], tmp_path / "rows.arrow")
    assert grouping_lengths(rows).tolist() == grouping_lengths(list(rows)).tolist() == [2, 2, 1]
    assert grouping_lengths(rows.select_columns(["input_ids"])).tolist() == [1, 2, 1]
