"""Row storage and merging, compared with a plain dictionary."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zerolab.replay import rows as table
from zerolab.replay.rows import Merger, RowPool
from zerolab.replay.window_rules import MERGINGS, MeanMerging, NewestMerging


def some_rows(ids, seed=0, dtype=np.float16):
    """Return random rows with states derived from `ids` and some missing facts."""
    random = np.random.default_rng(seed)
    ids = np.array(ids, np.uint64)
    replies = random.random((len(ids), 3)).astype(dtype)
    replies[random.random(len(ids)) < 0.3] = np.nan
    action_values = random.uniform(-1, 1, (len(ids), 3)).astype(dtype)
    action_values[random.random((len(ids), 3)) < 0.3] = np.nan
    return {
        "states": np.stack([ids * 7, ids // 2], axis=1),
        "reply_policies": replies,
        "action_values": action_values,
        "values": random.uniform(-1, 1, len(ids)).astype(np.float32),
    }


class NaiveMerger:
    """Plain merging in a dictionary from states to float64 rows."""

    def __init__(self, share):
        self.share = share
        self.rows, self.counts = {}, {}

    def add(self, rows):
        for number in range(len(rows["states"])):
            key = tuple(rows["states"][number].tolist())
            new = {name: np.array(rows[name][number], np.float64) for name in rows}
            self.counts[key] = count = self.counts.get(key, 0) + 1
            old = self.rows.get(key, new)
            self.rows[key] = {
                name: self._merged(old[name], new[name], count) if count > 1 else new[name]
                for name in new
            }

    def _merged(self, old, new, count):
        mean = (1 - self.share(count)) * old + self.share(count) * new
        return np.where(np.isnan(old), new, np.where(np.isnan(new), old, mean))

    def remove(self, key):
        del self.rows[key], self.counts[key]


def rows_by_state(rows, slots):
    """Return the columns of some rows as {state: {name: value}}."""
    return {
        tuple(rows.columns["states"][slot].tolist()): {
            name: column[slot] for name, column in rows.columns.items()
        }
        for slot in slots
    }


MERGERS = {
    "newest": (NewestMerging(), lambda _: 0.8),
    "half": (NewestMerging(weight=0.5), lambda _: 0.5),
    "only the newest": (NewestMerging(weight=1), lambda _: 1),
    "mean": (MeanMerging(), lambda count: 1 / count),
}


@pytest.mark.parametrize("name", MERGERS)
@given(
    parts=st.lists(st.lists(st.integers(0, 12), max_size=20), min_size=1, max_size=5),
    removed=st.lists(st.sets(st.integers(0, 12)), min_size=5, max_size=5),
)
@settings(max_examples=30)
def test_merged_rows_equal_a_plain_dictionary(name, parts, removed):
    merging, share = MERGERS[name]
    rows, naive, live = RowPool(), NaiveMerger(share), set()
    merger = Merger(merging, rows)
    for seed, (part, removed_ids) in enumerate(zip(parts, removed, strict=False)):
        new = some_rows(part, seed, np.float32)
        slots = merger.add(new)
        naive.add(new)
        live |= set(slots.tolist())
        merged = rows_by_state(rows, live)
        assert merged.keys() == naive.rows.keys()
        assert len(live) == len(merged)
        for state, row in merged.items():
            for column, value in row.items():
                np.testing.assert_allclose(value, naive.rows[state][column], atol=1e-5)
        removed_slots = [slot for slot in live if rows.columns["states"][slot][1] in removed_ids]
        for slot in removed_slots:
            naive.remove(tuple(rows.columns["states"][slot].tolist()))
        merger.remove(np.array(removed_slots, np.int32))
        rows.free(np.array(removed_slots, np.int32))
        live -= set(removed_slots)


def test_merged_rows_are_rounded_once():
    """The mean of ten rows is exact up to a single rounding to float16."""
    rows = RowPool()
    values = np.linspace(0, 1, 10, dtype=np.float16)
    states = np.zeros((10, 1), np.uint64)
    slots = Merger(MeanMerging(), rows).add({"states": states, "values": values})
    assert set(slots.tolist()) == {slots[0]}
    assert rows.columns["values"][slots[0]] == np.float16(values.astype(np.float64).mean())


def test_weighted_merging_agrees_with_hand_computed_values():
    rows = RowPool()
    merger = Merger(NewestMerging(weight=0.75), rows)
    states = np.zeros((1, 1), np.uint64)
    for value in (1, -1, 1):
        (slot,) = merger.add({"states": states, "values": np.array([value], np.float32)})
    assert rows.columns["values"][slot] == 0.25 * (0.25 * 1 - 0.75) + 0.75


def test_all_mergings_are_registered():
    assert list(MERGINGS) == ["none", "newest", "mean"]
    assert [kind().is_active for kind in MERGINGS.values()] == [False, True, True]


@pytest.mark.parametrize("weight", [0, -0.1, 1.5, float("nan")])
def test_weight_outside_its_range_is_refused(weight):
    with pytest.raises(ValueError, match="weight"):
        NewestMerging(weight=weight)


@given(
    ids=st.lists(st.integers(0, 30), unique=True, max_size=30),
    removed_ids=st.sets(st.integers(0, 30)),
)
def test_remaining_table_entries_are_found_after_removals(ids, removed_ids):
    """Nearly all states collide in a table of this size."""
    states = np.array(ids, np.uint64).reshape(-1, 1)
    small = np.full(32, -1, np.int32)
    slots = np.arange(len(ids), dtype=np.int32)
    table.insert_rows(small, states, slots)
    removed_slots = np.array(
        [n for n, state_id in enumerate(ids) if state_id in removed_ids], np.int32
    )
    table.remove_rows(small, states, removed_slots)
    remaining_slots = np.setdiff1d(slots, removed_slots)
    owners = np.empty(len(remaining_slots), np.int32)
    assert (
        table.find_or_insert_rows(small, states, states[remaining_slots], removed_slots, owners)
        == 0
    )
    assert owners.tolist() == remaining_slots.tolist()
    assert (small >= 0).sum() == len(remaining_slots)


def test_free_slots_are_reused_and_rows_never_move():
    rows = RowPool()
    ids = np.arange(3000)
    first = rows.allocate(3000, {"ids": ids})
    rows.write(first, {"ids": ids})
    assert first.tolist() == ids.tolist()
    rows.free(first[100:200])
    capacity = rows.capacity
    second = rows.allocate(capacity - 2900, {"ids": ids})
    assert rows.capacity == capacity
    assert set(first[100:200].tolist()) <= set(second.tolist())
    third = rows.allocate(1, {"ids": ids})
    assert rows.capacity > capacity
    assert third[0] >= capacity
    assert (rows.columns["ids"][first[:100]] == ids[:100]).all()
    assert (rows.columns["ids"][first[200:]] == ids[200:]).all()
