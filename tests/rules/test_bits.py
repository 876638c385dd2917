"""Vectors of four words and the n-th set bit, compared with Python integers."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from zerolab.core.compiled import kernel
from zerolab.rules import bits as lanes
from zerolab.rules.bits import isolate_nth_bit, isolate_nth_bit_portably

WORD = st.integers(0, 2**64 - 1)
FOUR = st.lists(WORD, min_size=4, max_size=4)
SHIFTS = st.lists(st.integers(0, 63), min_size=4, max_size=4)


@kernel
def _operate(one: Any, two: Any, steps: Any, out: Any) -> Any:
    a = one[0], one[1], one[2], one[3]
    b = two[0], two[1], two[2], two[3]
    s = steps[0], steps[1], steps[2], steps[3]
    results = (
        lanes.shift_lanes_left(a, s),
        lanes.shift_lanes_right(a, s),
        lanes.and_lanes(a, b),
        lanes.or_lanes(a, b),
        lanes.broadcast_lanes(one[0]),
    )
    for row in range(5):
        for lane in range(4):
            out[row, lane] = results[row][lane]
    out[5, 0] = lanes.or_reduce(a)


@kernel
def _nth_bits(word: Any, out: Any) -> None:
    for n in range(out.shape[1]):
        out[0, n] = isolate_nth_bit(word, n)
        out[1, n] = isolate_nth_bit_portably(word, n)


@given(FOUR, FOUR, SHIFTS)
def test_lane_operations_agree_with_integers(
    one: list[int], two: list[int], steps: list[int]
) -> None:
    out = np.zeros((6, 4), np.uint64)
    _operate(*(np.array(each, np.uint64) for each in (one, two, steps)), out)
    expected = [
        [(a << s) % 2**64 for a, s in zip(one, steps, strict=True)],
        [a >> s for a, s in zip(one, steps, strict=True)],
        [a & b for a, b in zip(one, two, strict=True)],
        [a | b for a, b in zip(one, two, strict=True)],
        [one[0]] * 4,
    ]
    assert out[:5].tolist() == expected
    assert int(out[5, 0]) == one[0] | one[1] | one[2] | one[3]


@given(WORD)
def test_both_nth_bit_functions_find_every_set_bit(word: int) -> None:
    bits = [1 << i for i in range(64) if word >> i & 1]
    out = np.zeros((2, len(bits)), np.uint64)
    _nth_bits(np.uint64(word), out)
    assert out.tolist() == [bits, bits]
