"""Transposition table: bounds belong to the probed position and are never looser than stored."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from zerolab.core.compiled import kernel
from zerolab.oracles import alpha_beta as tables


@kernel
def _store(table, state, low, high, move, log2_nodes):
    tables.store_entry(table, state, low, high, move, log2_nodes)


@kernel
def _probe(table, state):
    return tables.probe_table(table, state)


_BOUND = st.integers(-64, 64)
_ENTRIES = st.lists(
    st.tuples(
        st.integers(0, 40), _BOUND, st.integers(0, 20), st.integers(0, 64), st.integers(1, 40)
    ),
    max_size=60,
)


@given(_ENTRIES)
def test_probed_bounds_were_stored_for_that_state(entries):
    table = tables.empty_transposition_table(2, 0)
    assert len(table.packed_entries) == 2  # a single pair, so all states collide
    stored_bounds: dict[int, list[tuple[int, int, int]]] = {}
    for number, middle, width, move, log2_nodes in entries:
        state = np.array([number, 7], np.uint64)
        _store(table, state, middle - width, middle, move, log2_nodes)
        stored_bounds.setdefault(number, []).append((middle - width, middle, move))
        probed = _probe(table, state)
        assert probed.low >= middle - width
        assert probed.high <= middle
        for other in range(42):
            probed_other = _probe(table, np.array([other, 7], np.uint64))
            if probed_other.log2_nodes:
                lows, highs, moves = zip(*stored_bounds[other], strict=True)
                assert probed_other.low in lows
                assert probed_other.high in highs
                assert probed_other.cutoff_move in moves
            else:
                assert (probed_other.low, probed_other.high) == (
                    tables.LOWEST_VALUE,
                    tables.HIGHEST_VALUE,
                )
                assert probed_other.cutoff_move == tables.NO_MOVE


def test_entry_with_larger_effort_is_kept():
    table = tables.empty_transposition_table(2, 0)
    for number, log2_nodes in [(1, 30), (2, 3), (3, 5), (4, 1)]:
        _store(table, np.array([number, 0], np.uint64), 0, 1, 9, log2_nodes)
    assert _probe(table, np.array([1, 0], np.uint64)).log2_nodes == 30
    assert _probe(table, np.array([4, 0], np.uint64)).log2_nodes == 1  # the latest entry


def test_memory_is_bounded():
    for words, mebibytes in [(2, 1), (2, 100), (3, 64), (5, 7)]:
        table = tables.empty_transposition_table(words, mebibytes)
        used = table.states.nbytes + table.packed_entries.nbytes
        assert mebibytes << 19 <= used <= mebibytes << 20
