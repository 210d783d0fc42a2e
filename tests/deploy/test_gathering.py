"""Requests that come while a batch is computed are computed as the next one."""

import asyncio
import time

import pytest

from warmstart.deploy.serve.dynamic_batching import DynamicBatcher


def asked(count: int, compute, most: int = 64) -> list:
    """What so many who ask for one number each are told."""

    async def whole() -> list:
        batcher = DynamicBatcher(compute, len, most)
        return await asyncio.gather(*(batcher.submit([one]) for one in range(count)), return_exceptions=True)

    return asyncio.run(whole())


def test_all_who_wait_are_answered_together_and_each_gets_its_own():
    sizes: list[int] = []

    def squares(numbers: list[int]) -> list[int]:
        sizes.append(len(numbers))
        time.sleep(0.02)
        return [one * one for one in numbers]

    assert asked(150, squares) == [[one * one] for one in range(150)]
    assert sizes == [64, 64, 22]


def test_what_is_heavier_than_a_batch_goes_alone():
    sizes: list[int] = []

    def same(numbers: list[int]) -> list[int]:
        sizes.append(len(numbers))
        return numbers

    async def whole() -> list:
        batcher = DynamicBatcher(same, len, 4)
        return await asyncio.gather(batcher.submit([1] * 9), batcher.submit([2]), batcher.submit([3, 3]))

    assert asyncio.run(whole()) == [[1] * 9, [2], [3, 3]]
    assert sizes == [9, 3]


def test_a_fault_reaches_those_of_its_batch_alone():
    def odd(numbers: list[int]) -> list[int]:
        if 1 in numbers:
            raise ValueError("one")
        return numbers

    found = asked(4, odd, most=2)
    assert found[2:] == [[2], [3]]
    assert [str(one) for one in found[:2]] == ["one", "one"]


@pytest.mark.parametrize("most", [1, 7])
def test_who_gives_up_is_no_harm_to_others(most):
    async def whole() -> list:
        batcher = DynamicBatcher(lambda numbers: numbers, len, most)
        tasks = [asyncio.create_task(batcher.submit([one])) for one in range(20)]
        await asyncio.sleep(0)
        for task in tasks[::3]:
            task.cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    found = asyncio.run(whole())
    assert [one for index, one in enumerate(found) if index % 3] == [[one] for one in range(20) if one % 3]
