"""Streams: every token is read once an epoch, in order, and predicts the one that is read after it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmstart.tasks.shared.masking import IGNORED
from warmstart.training.streams import StreamBatchSampler, StreamRows


def make(lengths, batch_size, bptt=7, backward=False, seed=0):
    """Documents whose tokens are all different."""
    ends = np.cumsum(lengths)
    documents = [{"input_ids": list(range(end - n, end))} for n, end in zip(lengths, ends, strict=True)]
    rows = StreamRows(documents, bptt, backward)
    return rows, StreamBatchSampler(rows, batch_size, seed=seed)


def read(rows, sampler):
    """The tokens and labels of each stream over an epoch, in the order in which they are read."""
    streams = [[] for _ in range(sampler.streams)]
    firsts = []
    for step in sampler:
        pieces = rows.__getitems__(step)
        assert len(pieces) == sampler.streams
        firsts.append({piece["is_first"] for piece in pieces})
        for stream, piece in zip(streams, pieces, strict=True):
            both = list(zip(piece["input_ids"], piece["labels"], strict=True))
            stream += reversed(both) if rows.backward else both
    assert firsts == [{True}, *[{False}] * (len(firsts) - 1)]
    return streams


@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=12),
    batch_size=st.integers(1, 6),
    bptt=st.integers(2, 12),
    backward=st.booleans(),
    epoch=st.integers(0, 3),
)
def test_every_token_once_and_its_label_is_the_next(lengths, batch_size, bptt, backward, epoch):
    rows, sampler = make(lengths, batch_size, bptt, backward)
    sampler.set_epoch(epoch)
    streams = read(rows, sampler)
    joined = [pair for stream in (reversed(streams) if backward else streams) for pair in stream]
    tokens = [token for token, _ in joined]
    assert sorted(tokens) == list(range(sum(lengths)))
    assert [label for _, label in joined] == [*tokens[1:], IGNORED]
    # Documents stay whole, whatever their order.
    starts = np.cumsum([0, *lengths])
    for start, length in zip(starts, lengths, strict=False):
        place = tokens.index(start + length - 1 if backward else start)
        expected = list(range(start, start + length))
        assert tokens[place : place + length] == (expected[::-1] if backward else expected)


def test_an_epoch_has_the_same_number_of_steps_of_lengths_about_bptt():
    rows, sampler = make([50_000], 4, bptt=70)
    lengths = []
    for epoch in range(3):
        sampler.set_epoch(epoch)
        widths = [len(rows.__getitems__(step[:1])[0]["input_ids"]) for step in sampler]
        assert len(widths) == len(sampler)
        lengths.append(widths)
    assert lengths[0] != lengths[1]
    every = np.concatenate(lengths)
    assert every.mean() == pytest.approx(70, abs=3)
    assert np.std(every[every > 50]) == pytest.approx(5, abs=1)
    assert (every < 50).mean() == pytest.approx(0.05, abs=0.03)


def test_documents_come_in_another_order_in_each_epoch_and_in_the_same_one_again():
    def order(epoch):
        rows, sampler = make([5] * 20, 2)
        sampler.set_epoch(epoch)
        return read(rows, sampler)

    assert order(0) == order(0)
    assert order(0) != order(1)
