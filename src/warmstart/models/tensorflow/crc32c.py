"""CRC-32C (Castagnoli), the checksum of TensorFlow's files, over arrays of bytes at the speed of NumPy.

The bytes are divided into lanes that are read side by side; the checksums of neighbouring lanes are then joined, two
and two. That of a lane followed by another is the first one advanced by as many zero bytes as the other is long, which
is a linear map over bits, combined with that of the other.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

POLYNOMIAL = 0x82F63B78
MASK_DELTA = 0xA282EAD8
LANE = 1 << 12
"""Bytes of a lane, a power of two."""

Bits = npt.NDArray[np.uint32]


def _advanced(states: Bits, zeros: int) -> Bits:
    """Checksums after some zero bytes more."""
    for _ in range(8 * zeros):
        states = np.where(states & 1, (states >> 1) ^ np.uint32(POLYNOMIAL), states >> 1).astype(np.uint32)
    return states


_ONE, _TWO = (_advanced(np.arange(256**count, dtype=np.uint32), count) for count in (1, 2))
"""What each byte, and each pair of bytes, does to an empty checksum."""


def crc32c(data: bytes | memoryview) -> int:
    """The checksum of some bytes."""
    array = np.frombuffer(data, dtype=np.uint8)
    lanes = len(array) // LANE
    state = 0xFFFFFFFF
    if lanes:
        state = _read_lanes(array[: lanes * LANE].view("<u2").reshape(lanes, -1), state)
    for byte in array[lanes * LANE :].tolist():
        state = (state >> 8) ^ int(_ONE[(state ^ byte) & 0xFF])
    return state ^ 0xFFFFFFFF


def unmask(masked: int) -> int:
    """The checksum that TensorFlow stores rotated, with a constant added."""
    rotated = (masked - MASK_DELTA) & 0xFFFFFFFF
    return ((rotated >> 17) | (rotated << 15)) & 0xFFFFFFFF


def _read_lanes(lanes: npt.NDArray[np.uint16], state: int) -> int:
    """The state after all lanes, one after the other, from a state before the first."""
    states = np.zeros(len(lanes), dtype=np.uint32)
    states[0] = state
    for column in np.ascontiguousarray(lanes.T):
        states = (states >> np.uint32(16)) ^ _TWO[(states ^ column) & np.uint32(0xFFFF)]
    advance = _advanced(np.uint32(1) << np.arange(32, dtype=np.uint32), 1)
    for _ in range(LANE.bit_length() - 1):
        advance = _apply(advance, advance)
    while len(states) > 1:
        if len(states) % 2:  # an empty lane in front changes nothing
            states = np.concatenate([np.zeros(1, dtype=np.uint32), states])
        states = _apply(advance, states[0::2]) ^ states[1::2]
        advance = _apply(advance, advance)
    return int(states[0])


def _apply(linear: Bits, values: Bits) -> Bits:
    """A linear map over bits, given by what becomes of each of 32, applied to values."""
    mapped = np.zeros_like(values)
    for bit in range(32):
        mapped ^= np.where((values >> np.uint32(bit)) & np.uint32(1), linear[bit], np.uint32(0))
    return mapped
