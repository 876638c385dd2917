"""Searches of independent positions, their results, and a bounded cache of results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Event
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from zerolab.core import streams
from zerolab.rules import rules
from zerolab.rules.facts import ColumnForm, SearchFacts
from zerolab.rules.rules import Game
from zerolab.search.budgets import BudgetSettings
from zerolab.search.evaluator import Evaluator, hash_states
from zerolab.search.search import Search
from zerolab.search.search_settings import SearchSettings

_FIRST_ROWS = 64


@dataclass(frozen=True, eq=False)
class PositionResults(SearchFacts):
    """Search results of N positions; values are for the side to move."""

    visits: Annotated[NDArray[np.int32], ColumnForm("int32", "action")]
    """int32[N, actions]: visit counts of root actions."""
    full: Annotated[NDArray[np.bool_], ColumnForm("bool", "position")]
    """bool[N]: True for full searches (see `SimulationAllowance`)."""
    greedy_move_weights: Annotated[NDArray[np.uint32], ColumnForm("uint32", "action")]
    """uint32[N, actions]: move weights for playing a move of maximum weight."""
    sampled_move_weights: Annotated[NDArray[np.uint32], ColumnForm("uint32", "action")]
    """uint32[N, actions]: move weights for sampling a move in proportion to its weight."""

    def write_rows(self, rows: Any, results: PositionResults) -> None:
        """Write results into the given rows."""
        for name, new in results.columns().items():
            getattr(self, name)[rows] = new


def empty_results(position_count: int, action_count: int) -> PositionResults:
    """Return uninitialised results for `position_count` positions."""
    table = position_count, action_count
    facts = {
        name: np.empty(table if form.entry_per == "action" else position_count, np.float32)
        for name, form in SearchFacts.column_forms().items()
    }
    return PositionResults(
        **facts,
        visits=np.empty(table, np.int32),
        full=np.empty(position_count, np.bool_),
        greedy_move_weights=np.empty(table, np.uint32),
        sampled_move_weights=np.empty(table, np.uint32),
    )


class ResultCache:
    """Cache of up to `capacity` results by position; the oldest result is replaced first.

    Memory is allocated as the cache fills up.
    """

    def __init__(self, capacity: int, actions: int) -> None:
        self._capacity = capacity
        self._actions = actions
        self._results = empty_results(min(capacity, _FIRST_ROWS), actions)
        self._rows: dict[bytes, int] = {}
        self._keys: list[bytes] = []
        self._next = 0

    def __len__(self) -> int:
        return len(self._rows)

    def find_rows(self, keys: Sequence[bytes]) -> NDArray[np.int64]:
        """Return the cache rows of positions, int64[n]; -1 if not cached."""
        return np.array([self._rows.get(key, -1) for key in keys], np.int64)

    def read(self, rows: NDArray[np.int64]) -> PositionResults:
        """Return copies of the results in the given rows."""
        return self._results.take(rows)

    def add(self, keys: Sequence[bytes], results: PositionResults) -> None:
        """Store the results of distinct new positions."""
        stored_keys = keys[-self._capacity :] if self._capacity else ()
        rows = np.array([self._assign_row(key) for key in stored_keys], np.int64)
        self._grow()
        self._results.write_rows(
            rows, results.take(np.arange(len(keys) - len(stored_keys), len(keys)))
        )

    def _assign_row(self, key: bytes) -> int:
        """Return a row for a new position: an unused row, or that of the oldest result."""
        row = self._next
        self._next = (row + 1) % self._capacity
        if row == len(self._keys):
            self._keys.append(key)
        else:
            del self._rows[self._keys[row]]
            self._keys[row] = key
        self._rows[key] = row
        return row

    def _grow(self) -> None:
        rows = len(self._results.full)
        if len(self._keys) > rows:
            larger = empty_results(min(self._capacity, 2 * len(self._keys)), self._actions)
            larger.write_rows(np.arange(rows), self._results)
            self._results = larger


class PositionSearch:
    """Search of independent positions in the trees of one `Search`. Not thread-safe.

    Random streams depend on the seed, the iteration and the position. The result of a position is
    therefore independent of other positions and of the number of trees, provided that evaluator
    outputs do not depend on the batch (docs/decisions/0002).
    """

    def __init__(
        self,
        game: Game,
        settings: SearchSettings,
        evaluator: Evaluator,
        budget: BudgetSettings,
        seed: int,
        iteration: int,
        slots: int,
        threads: int = 1,
    ) -> None:
        """Create `slots` trees; up to `threads` threads share the playouts of a batch."""
        self._actions = rules.action_count(game)
        self._seed = seed
        self._iteration = iteration
        self._slots = slots
        self.search = Search(game, settings, evaluator, slots, threads)
        self._budget = budget.new_budget(settings, slots, self._actions)
        self._full = np.zeros(slots, np.bool_)
        self._searched = np.zeros(slots, np.int64)

    def search_states(self, states: NDArray[np.uint64], stop: Event) -> PositionResults:
        """Search n ongoing states, uint64[n, words], and return their results.

        Once `stop` is set, the searches end early and the returned results are incomplete.
        """
        count = len(states)
        results = empty_results(count, self._actions)
        # Some slots may stay unused, so that all rounds have about the same number of positions.
        rounds = -(-count // self._slots)
        free = np.arange(-(-count // max(1, rounds)))
        begun = finished = 0
        while finished < count and not stop.is_set():
            slots = free[: count - begun]
            if slots.size:
                self._begin(slots, states, begun)
                begun += len(slots)
            free = self._extend_unfinished(self.search.step())
            if free.size:
                results.write_rows(self._searched[free], self._results(free))
                finished += len(free)
        return results

    def _begin(self, slots: NDArray[np.int64], states: NDArray[np.uint64], first: int) -> None:
        """Begin to search consecutive states, starting at row `first`."""
        rows = np.arange(first, first + len(slots))
        self._searched[slots] = rows
        hashes = np.empty(len(rows), np.uint64)
        hash_states(states[rows], hashes)
        # Stream keys must be non-negative int64 values.
        positions = (hashes >> np.uint64(1)).astype(np.int64)
        playouts, noise, budget = (
            streams.stream_keys(
                self._seed, self._iteration, positions, np.zeros_like(positions), purpose
            )
            for purpose in (
                streams.SERVICE_PLAYOUT,
                streams.SERVICE_NOISE,
                streams.SERVICE_BUDGET,
            )
        )
        self.search.set_root(slots, states[rows])
        simulations, full = self._budget.initial_allowance(slots, budget)
        self._full[slots] = full
        self.search.start_search(slots, playouts, noise, simulations, full)

    def _extend_unfinished(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Extend finished searches as the budget requires; return the slots not extended."""
        if not (slots.size and self._budget.may_extend):
            return slots
        more = self._budget.grant_more(slots, self.search)
        extended = more > 0
        if extended.any():
            self.search.extend(slots[extended], more[extended])
        return slots[~extended]

    def _results(self, slots: NDArray[np.int64]) -> PositionResults:
        sample = np.ones(len(slots), np.bool_)
        return PositionResults(
            **self.search.search_facts(slots).columns(),
            visits=self.search.root_visits(slots),
            full=self._full[slots],
            greedy_move_weights=self.search.move_weights(slots, ~sample).astype(np.uint32),
            sampled_move_weights=self.search.move_weights(slots, sample).astype(np.uint32),
        )
