"""Searches of positions that know neither games nor each other."""

from __future__ import annotations

from threading import Event

import numpy as np
from numpy.typing import NDArray

from zerolab.core import streams
from zerolab.play.service.answers import Answers, empty_answers
from zerolab.rules import interface as rules
from zerolab.rules.interface import Game
from zerolab.search.budgets.interface import BudgetSettings
from zerolab.search.cache import hash_states
from zerolab.search.interface import Evaluator
from zerolab.search.search import Search
from zerolab.search.settings import SearchSettings


class PositionSearch:
    """Searches positions in the slots of one search, each in a tree of its own; one thread's.

    All that is random in the search of a position is keyed by the seed, the iteration and the
    position. So an answer depends neither on other positions nor on slots, as far as the evaluator
    answers equally in every batch (docs/decisions/0002).
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
        """Make `slots` trees; `threads` may share the playouts of a batch of leaves."""
        self._actions = rules.actions(game)
        self._seed = seed
        self._iteration = iteration
        self._slots = slots
        self.search = Search(game, settings, evaluator, slots, threads)
        self._budget = budget.new_budget(settings, slots, self._actions)
        self._full = np.zeros(slots, np.bool_)
        self._searched = np.zeros(slots, np.int64)

    def run(self, states: NDArray[np.uint64], stop: Event) -> Answers:
        """Search ongoing states uint64[n, words]; if `stop` is set, end early without answers."""
        count = len(states)
        answers = empty_answers(count, self._actions)
        # As many at once as let all rounds be about equally full.
        rounds = -(-count // self._slots)
        free = np.arange(-(-count // max(1, rounds)))
        begun = finished = 0
        while finished < count and not stop.is_set():
            taken = free[: count - begun]
            if taken.size:
                self._begin(taken, states, begun)
                begun += len(taken)
            free = self._settled(self.search.step())
            if free.size:
                answers.put(self._searched[free], self._found(free))
                finished += len(free)
        return answers

    def _begin(self, slots: NDArray[np.int64], states: NDArray[np.uint64], first: int) -> None:
        """Begin with the states from `first` on."""
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

    def _settled(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the finished searches with which the budget is content; the others go on."""
        if not (slots.size and self._budget.may_extend):
            return slots
        more = self._budget.more(slots, self.search)
        unsettled = more > 0
        if unsettled.any():
            self.search.extend(slots[unsettled], more[unsettled])
        return slots[~unsettled]

    def _found(self, slots: NDArray[np.int64]) -> Answers:
        visits, values = self.search.root_actions(slots)
        drawn = np.ones(len(slots), np.bool_)
        return Answers(
            policies=self.search.policies(slots),
            visits=visits,
            root_values=self.search.root_values(slots),
            root_draws=self.search.root_draws(slots),
            action_values=np.where(visits > 0, values, np.float32(np.nan)),
            full=self._full[slots],
            best=self.search.move_weights(slots, ~drawn).astype(np.uint32),
            sampled=self.search.move_weights(slots, drawn).astype(np.uint32),
        )
