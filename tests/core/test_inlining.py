"""Helpers without reference counts: whatever a helper of another package does, nothing is lost."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from numba.core.registry import cpu_target
from numba.core.runtime import _nrt_python, rtsys

from zerolab.core.compiled import inlined, kernel

pytestmark = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="about compiled code")


@inlined
def copied(out, state):
    out[:] = state
    out[1:] = out[:-1]


@inlined
def _push(todo, item):
    todo.append(item)


@inlined
def listed(out, state):
    steps = [1, 2]
    todo = [state]
    for _ in range(9):
        _push(todo, state + 1)
    out[0] = todo[9][0] + steps[1]


@inlined
def looked_up(out, state):
    table = {1: 2}
    table[3] = 4
    out[0] = table[1] + table[3] + state[0]


@inlined
def _items(array):
    for row in range(len(array)):
        yield array[row]


@inlined
def _sum_of_new(size):
    return np.full(size, 1000).sum()  # takes the place of what was freed too early


@inlined
def yielded(out, state):
    for item in _items(state + 1):
        out[0] += item + 0 * _sum_of_new(len(state))


@inlined
def imaginary(out, state):
    part = state.imag
    out[0] = part[0]


@inlined
def refused(out, state):
    if state[0] < 0:
        raise ValueError("negative", state[0])
    out[0] = state[0]


@pytest.mark.parametrize(
    ("helper", "expected", "lost"),
    [
        (copied, [3, 3, 5], 0),
        (listed, [6, 0, 0], 0),
        (looked_up, [9, 0, 0], 0),
        (yielded, [18, 0, 0], 1),  # as many as numba itself loses with a generator
        (imaginary, [0, 0, 0], 0),
        (refused, [3, 0, 0], 0),
    ],
)  # fmt: skip
def test_helpers_of_all_kinds_read_right_and_lose_no_memory(helper, expected, lost):
    @kernel
    def call(out, state):
        helper(out, state)

    state = np.array([3, 5, 7])
    call(np.zeros(3, np.int64), state)  # compiles
    rtsys.initialize(cpu_target.target_context)
    _nrt_python.memsys_enable_stats()
    before, out = rtsys.get_allocation_stats(), np.zeros(3, np.int64)
    call(out, state)
    after = rtsys.get_allocation_stats()
    _nrt_python.memsys_disable_stats()
    assert out.tolist() == expected
    assert (after.alloc - before.alloc) - (after.free - before.free) == lost
