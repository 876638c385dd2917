"""Searches of positions outside any game, their results, and a bounded cache of them."""

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
    """Results of the searches of N positions; values are those of the players to move."""

    visits: Annotated[NDArray[np.int32], ColumnForm("int32", "action")]
    """int32[N, actions]"""
    full: Annotated[NDArray[np.bool_], ColumnForm("bool", "position")]
    """bool[N]: whether the search was full (see `Allowance`)."""
    best: Annotated[NDArray[np.uint32], ColumnForm("uint32", "action")]
    """uint32[N, actions]: weights of moves, to play one of the highest."""
    sampled: Annotated[NDArray[np.uint32], ColumnForm("uint32", "action")]
    """uint32[N, actions]: weights of moves, to draw one in proportion."""

    def put(self, rows: Any, results: PositionResults) -> None:
        """Write results into some rows."""
        for name, new in results.columns().items():
            getattr(self, name)[rows] = new


def empty_results(count: int, actions: int) -> PositionResults:
    """Return uninitialised results of `count` positions."""
    table = count, actions
    facts = {
        name: np.empty(table if form.per == "action" else count, np.float32)
        for name, form in SearchFacts.forms().items()
    }
    return PositionResults(
        **facts,
        visits=np.empty(table, np.int32),
        full=np.empty(count, np.bool_),
        best=np.empty(table, np.uint32),
        sampled=np.empty(table, np.uint32),
    )


class ResultCache:
    """Results by position; beyond `most`, the oldest one makes room.

    Memory grows with what is stored.
    """

    def __init__(self, most: int, actions: int) -> None:
        self._most = most
        self._actions = actions
        self._results = empty_results(min(most, _FIRST_ROWS), actions)
        self._rows: dict[bytes, int] = {}
        self._keys: list[bytes] = []
        self._next = 0

    def __len__(self) -> int:
        return len(self._rows)

    def find(self, keys: Sequence[bytes]) -> NDArray[np.int64]:
        """Return the rows of positions, int64[n]; -1 where there is no result."""
        return np.array([self._rows.get(key, -1) for key in keys], np.int64)

    def read(self, rows: NDArray[np.int64]) -> PositionResults:
        """Return copies of results."""
        return self._results.rows(rows)

    def add(self, keys: Sequence[bytes], results: PositionResults) -> None:
        """Store the results of distinct new positions."""
        kept = keys[-self._most :] if self._most else ()
        rows = np.array([self._take(key) for key in kept], np.int64)
        self._grow()
        self._results.put(rows, results.rows(np.arange(len(keys) - len(kept), len(keys))))

    def _take(self, key: bytes) -> int:
        """Return the row for a new position: a free one, or that of the oldest result."""
        row = self._next
        self._next = (row + 1) % self._most
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
            wider = empty_results(min(self._most, 2 * len(self._keys)), self._actions)
            wider.put(np.arange(rows), self._results)
            self._results = wider


class PositionSearch:
    """Searches positions in the trees of one search; used by one thread.

    The random streams of a search are keyed by the seed, the iteration and the position. So its
    result depends neither on other positions nor on trees, if the evaluator's outputs do not depend
    on the batch (docs/decisions/0002).
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
        """Make `slots` trees; up to `threads` threads share the playouts of a batch of leaves."""
        self._actions = rules.actions(game)
        self._seed = seed
        self._iteration = iteration
        self._slots = slots
        self.search = Search(game, settings, evaluator, slots, threads)
        self._budget = budget.new_budget(settings, slots, self._actions)
        self._full = np.zeros(slots, np.bool_)
        self._searched = np.zeros(slots, np.int64)

    def run(self, states: NDArray[np.uint64], stop: Event) -> PositionResults:
        """Search ongoing states uint64[n, words]; once `stop` is set, end early without results."""
        count = len(states)
        results = empty_results(count, self._actions)
        # The largest number of trees for which all rounds are about equally full.
        rounds = -(-count // self._slots)
        free = np.arange(-(-count // max(1, rounds)))
        begun = finished = 0
        while finished < count and not stop.is_set():
            taken = free[: count - begun]
            if taken.size:
                self._begin(taken, states, begun)
                begun += len(taken)
            free = self._decided(self.search.step())
            if free.size:
                results.put(self._searched[free], self._found(free))
                finished += len(free)
        return results

    def _begin(self, slots: NDArray[np.int64], states: NDArray[np.uint64], first: int) -> None:
        """Begin the searches of the states from `first` on."""
        rows = np.arange(first, first + len(slots))
        self._searched[slots] = rows
        hashes = np.empty(len(rows), np.uint64)
        hash_states(states[rows], hashes)
        # 63 bits, since streams are keyed by non-negative integers.
        positions = (hashes >> np.uint64(1)).astype(np.int64)
        playouts, noise, budget = (
            streams.streams(
                self._seed, self._iteration, positions, np.zeros_like(positions), purpose
            )
            for purpose in (
                streams.SERVICE_PLAYOUT,
                streams.SERVICE_NOISE,
                streams.SERVICE_BUDGET,
            )
        )
        self.search.set_root(slots, states[rows])
        simulations, full = self._budget.begin(slots, budget)
        self._full[slots] = full
        self.search.start_search(slots, playouts, noise, simulations, full)

    def _decided(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Extend finished searches to which the budget gives more; return the others."""
        if not (slots.size and self._budget.may_extend):
            return slots
        more = self._budget.more(slots, self.search)
        extended = more > 0
        if extended.any():
            self.search.extend(slots[extended], more[extended])
        return slots[~extended]

    def _found(self, slots: NDArray[np.int64]) -> PositionResults:
        drawn = np.ones(len(slots), np.bool_)
        return PositionResults(
            **self.search.facts(slots).columns(),
            visits=self.search.visits(slots),
            full=self._full[slots],
            best=self.search.move_weights(slots, ~drawn).astype(np.uint32),
            sampled=self.search.move_weights(slots, drawn).astype(np.uint32),
        )
