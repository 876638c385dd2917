"""The table of bounds: never another position's, never wider than what was kept."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from zerolab.core.compiled import kernel
from zerolab.oracles import alpha_beta as tables


@kernel
def _store(table, state, low, high, move, effort):
    tables.store(table, state, low, high, move, effort)


@kernel
def _probe(table, state):
    return tables.probe(table, state)


_BOUND = st.integers(-64, 64)
_NOTES = st.lists(
    st.tuples(
        st.integers(0, 40), _BOUND, st.integers(0, 20), st.integers(0, 64), st.integers(1, 40)
    ),
    max_size=60,
)


@given(_NOTES)
def test_what_is_found_was_kept_for_that_very_state(notes):
    table = tables.empty_table(2, 0)
    assert len(table.bounds) == 2  # one pair: every state collides with every other
    kept: dict[int, list[tuple[int, int, int]]] = {}
    for number, middle, width, move, effort in notes:
        state = np.array([number, 7], np.uint64)
        _store(table, state, middle - width, middle, move, effort)
        kept.setdefault(number, []).append((middle - width, middle, move))
        found = _probe(table, state)
        assert found.low >= middle - width
        assert found.high <= middle
        for other in range(42):
            known = _probe(table, np.array([other, 7], np.uint64))
            if known.effort:
                lows, highs, moves = zip(*kept[other], strict=True)
                assert known.low in lows
                assert known.high in highs
                assert known.move in moves
            else:
                assert (known.low, known.high) == (tables.LOWEST, tables.HIGHEST)
                assert known.move == tables.NO_MOVE


def test_the_larger_effort_stays():
    table = tables.empty_table(2, 0)
    for number, effort in [(1, 30), (2, 3), (3, 5), (4, 1)]:
        _store(table, np.array([number, 0], np.uint64), 0, 1, 9, effort)
    assert _probe(table, np.array([1, 0], np.uint64)).effort == 30
    assert _probe(table, np.array([4, 0], np.uint64)).effort == 1  # and the latest


def test_memory_is_bounded():
    for words, mebibytes in [(2, 1), (2, 100), (3, 64), (5, 7)]:
        table = tables.empty_table(words, mebibytes)
        used = table.keys.nbytes + table.bounds.nbytes
        assert mebibytes << 19 <= used <= mebibytes << 20
