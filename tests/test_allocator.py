"""Memory that a training step frees is there for the next one."""

import resource
import sys

import pytest
import torch

from warmstart.runtime.allocator import keep_large_blocks

FLOATS = 24 << 20
"""Of a block of 96 megabytes, which glibc gives back to the system by default."""


def faults(blocks):
    """How many pages the system hands out while blocks are filled and freed, one after the other."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(blocks):
        torch.ones(FLOATS)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator")
def test_freed_blocks_are_kept_within_it_and_given_back_after():
    usual = faults(4)
    with keep_large_blocks() as kept:
        if not kept:
            pytest.skip("another C library than glibc")
        faults(1)  # asks the system for a block once
        again = faults(4)
    assert again < usual / 10
    assert faults(4) > usual / 2
