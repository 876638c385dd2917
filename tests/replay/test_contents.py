"""What stays in the window, in which order, when equal positions are merged and old ones leave."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerolab.replay.window import Contents
from zerolab.replay.window_rules import Iterations, Newest, NoMerging, PowerLaw, Slow

SIZES = (
    Iterations(iterations=2),
    Slow(first=5, final=9, begin=2, end=4),
    PowerLaw(c=6, alpha=0.5, beta=0.5),
)


def positions(ids, iteration):
    """Return columns of positions, whose `values` tell when and where they were played."""
    return {
        "states": np.array(ids, np.uint64).reshape(-1, 1),
        "policies": np.full((len(ids), 2), iteration, np.float16),
        "values": np.arange(len(ids), dtype=np.float32) + 100 * iteration,
    }


def shown(contents):
    """Return (state, value) of the rows, the oldest first."""
    states, values = contents.columns["states"], contents.columns["values"]
    return [(int(states[slot, 0]), float(values[slot])) for slot in contents.order]


class Naive:
    """The window as a list of [state, value, iteration], the oldest first."""

    def __init__(self, size, weight):
        self.size, self.weight = size, weight
        self.rows, self.iteration, self.total = [], 0, 0

    def add(self, columns):
        self.iteration += 1
        self.total += len(columns["states"])
        self.merged = 0
        for (state,), value in zip(columns["states"].tolist(), columns["values"], strict=True):
            old = [row for row in self.rows if row[0] == state] if self.weight else []
            for row in old:
                self.merged += 1
                self.rows.remove(row)
            kept = (1 - self.weight) * old[0][1] + self.weight * value if old else value
            self.rows.append([state, kept, self.iteration])
        oldest = self.size.oldest(self.iteration)
        self.rows = [row for row in self.rows if row[2] >= oldest]
        limit = self.size.positions(self.iteration, self.total)
        self.rows = self.rows if limit is None else self.rows[-limit:]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("weight", [0, 0.8])
@given(played=st.lists(st.lists(st.integers(0, 14), max_size=12), min_size=1, max_size=8))
def test_contents_equal_a_plain_list(size, weight, played):
    contents = Contents(size, Newest(weight=weight) if weight else NoMerging())
    naive = Naive(size, weight)
    for iteration, ids in enumerate(played, 1):
        columns = positions(ids, iteration)
        contents.add(columns)
        naive.add(columns)
        found = shown(contents)
        assert [state for state, _ in found] == [row[0] for row in naive.rows]
        np.testing.assert_allclose([x for _, x in found], [row[1] for row in naive.rows], 1e-5)
        assert contents.merged == naive.merged
        assert contents.total == naive.total
        assert contents.fresh == sum(row[2] == iteration for row in naive.rows)


@pytest.mark.parametrize("size", SIZES)
@given(played=st.lists(st.lists(st.integers(0, 14), max_size=12), min_size=1, max_size=8))
def test_a_window_filled_from_the_first_iteration_needed_is_the_same(size, played):
    whole = Contents(size, NoMerging())
    for iteration, ids in enumerate(played, 1):
        whole.add(positions(ids, iteration))
    counts = [len(ids) for ids in played]
    first = size.first_needed(len(played), sum(counts), lambda each: counts[each - 1])
    later = Contents(size, NoMerging())
    later.skip(first - 1, sum(counts[: first - 1]))
    for iteration in range(first, len(played) + 1):
        later.add(positions(played[iteration - 1], iteration))
    assert shown(later) == shown(whole)
    assert (later.iteration, later.total, later.fresh) == (
        whole.iteration,
        whole.total,
        whole.fresh,
    )


def test_an_opening_that_is_played_again_and_again_never_leaves():
    contents = Contents(Slow(first=3, final=3, begin=1, end=2), Newest())
    for iteration in range(1, 6):
        contents.add(positions([7, 100 + iteration, 200 + iteration], iteration))
    assert [state for state, _ in shown(contents)] == [7, 105, 205]


def test_memory_does_not_grow_once_the_window_is_full():
    contents = Contents(Iterations(iterations=3), NoMerging())
    capacities = []
    for iteration in range(1, 20):
        contents.add(positions(range(1000), iteration))
        capacities.append(contents.columns["states"].shape[0])
    assert capacities[-1] == capacities[4] <= 6000
