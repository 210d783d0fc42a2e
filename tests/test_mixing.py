"""Several tasks take turns as the formula says, a batch of one task at a time, each row once before any comes again."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warmstart.errors import RecipeError
from warmstart.training.task_sampling import (
    SAMPLINGS,
    MultiTaskBatchSampler,
    MultiTaskRows,
    steps_per_task,
    task_shares,
)

SIZES = [6400, 1600, 100]


def mixed(sizes, sampling="square-root", temperature=3.0):
    parts = {
        f"task {number}": [{"input_ids": [1] * (row % 7 + 1), "row": row} for row in range(size)]
        for number, size in enumerate(sizes)
    }
    return MultiTaskRows(parts, sampling, temperature)


@pytest.mark.parametrize(
    ("sampling", "wanted"),
    [
        ("proportional", [6400, 1600, 100]),
        ("square-root", [80, 40, 10]),
        ("temperature", [6400**0.25, 1600**0.25, 100**0.25]),
        ("uniform", [1, 1, 1]),
    ],
)
def test_shares_are_those_of_the_formula(sampling, wanted):
    assert task_shares(SIZES, sampling, temperature=4) == pytest.approx([one / sum(wanted) for one in wanted])


def test_annealed_goes_from_proportional_to_nearly_uniform():
    for epoch, power in enumerate([1.0, 0.8, 0.6, 0.4, 0.2]):
        wanted = [size**power for size in SIZES]
        found = task_shares(SIZES, "annealed", epoch=epoch, epochs=5)
        assert found == pytest.approx([one / sum(wanted) for one in wanted])
    assert task_shares(SIZES, "annealed", epochs=1) == task_shares(SIZES, "proportional")
    assert task_shares(SIZES, "annealed", epoch=1, epochs=1.5) == pytest.approx(task_shares(SIZES, "temperature", 5))


def test_another_word_is_refused():
    with pytest.raises(RecipeError, match="did you mean 'square-root'"):
        mixed([3], "squareroot")


@given(
    parts=st.lists(st.floats(1e-6, 1), min_size=1, max_size=6),
    more=st.integers(0, 100),
)
def test_turns_are_shares_rounded_and_none_is_left_out(parts, more):
    parts = [one / sum(parts) for one in parts]
    steps = len(parts) + more
    found = steps_per_task(parts, steps)
    assert sum(found) == steps
    assert min(found) >= 1
    if all(part * steps >= 1 for part in parts):
        assert all(abs(count - part * steps) < 1 for count, part in zip(found, parts, strict=True))


@given(
    sizes=st.lists(st.integers(4, 60), min_size=1, max_size=4),
    batch=st.integers(1, 9),
    sampling=st.sampled_from(SAMPLINGS),
    by_length=st.booleans(),
    processes=st.integers(1, 3),
    seed=st.integers(0, 3),
)
@settings(max_examples=100, deadline=None)
def test_batches_are_of_one_task_and_rows_come_again_only_after_all_others(
    sizes, batch, sampling, by_length, processes, seed
):
    rows = mixed(sizes, sampling)

    def make(process):
        options = {"by_length": by_length, "epochs": 3, "seed": seed}
        return MultiTaskBatchSampler(rows, batch, num_processes=processes, process_index=process, **options)

    samplers = [make(process) for process in range(processes)]
    seen = Counter()
    for epoch in range(3):
        steps = list(zip(*samplers, strict=True))
        assert len(steps) == len(samplers[0])
        counted = Counter()
        for step in steps:
            features = [feature for part in step for feature in rows.__getitems__(part)]
            (task,) = {feature["task"] for feature in features}
            counted[task] += 1
            seen.update(row for part in step for row in part)
            assert [rows.locate(feature["row"])[0] for feature in features] == [task] * len(features)
            own = [seen[row] for row in range(*rows.starts[rows.names.index(task) :][:2])]
            assert max(own) - min(own) <= 1
        assert [counted[name] for name in rows.names] == samplers[0].steps_per_task(epoch)
        again = make(0)
        again.set_epoch(epoch)  # as a training does that goes on here
        assert list(again) == [step[0] for step in steps]


def test_proportional_sees_every_row_once_an_epoch():
    rows = mixed([64, 32, 16], "proportional")
    for _ in range(2):
        found = [row for batch in MultiTaskBatchSampler(rows, 16) for row in batch]
        assert sorted(found) == list(range(112))


def test_a_row_knows_its_task_and_its_number_there():
    rows = mixed([5, 3])
    assert [rows.locate(rows[index]["row"]) for index in (0, 4, 5, 7)] == [
        ("task 0", 0),
        ("task 0", 4),
        ("task 1", 0),
        ("task 1", 2),
    ]
