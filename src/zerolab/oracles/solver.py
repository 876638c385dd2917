"""An exact solver for every game: alpha-beta over the rules interface."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.oracles import kernels
from zerolab.oracles.interface import ILLEGAL, NotSolvedError
from zerolab.oracles.table import empty_table
from zerolab.rules import host
from zerolab.rules import interface as rules
from zerolab.rules.interface import MANY, ONGOING, Game, State

MEMORY = 256
"""Mebibytes of bounds kept, unless told otherwise."""

_STEP = 500_000
_SYMMETRIC_PLIES = 8
_PLIES = 128


class Budget(NamedTuple):
    """How long one position may be searched; None is without limit."""

    nodes: int | None = None
    seconds: float | None = None


UNLIMITED = Budget()


class Solving(NamedTuple):
    """How far the search of a position has come."""

    nodes: int
    seconds: float
    move: int
    """The number of the move under search, from 0."""
    moves: int
    """How many moves are searched one after the other."""


class _Watch:
    """Tells how far the search of one position has come, and ends it when its budget is spent."""

    def __init__(
        self, budget: Budget, report: Callable[[Solving], None], first_node: int, moves: int
    ) -> None:
        self.move = 0
        self._moves = moves
        self._budget = budget
        self._report = report
        self._first_node = first_node
        self._began = perf_counter()

    def allows(self, node: int) -> int:
        """Return how many more nodes may be searched before the next check."""
        left = _STEP if self._budget.nodes is None else self._budget.nodes - self._spent(node)
        return min(_STEP, left)

    def check(self, node: int) -> None:
        """Report; raise NotSolvedError if the budget of nodes or seconds is spent."""
        nodes, seconds = self._spent(node), perf_counter() - self._began
        self._report(Solving(nodes, seconds, self.move, self._moves))
        out_of_nodes = self._budget.nodes is not None and nodes >= self._budget.nodes
        if out_of_nodes or (self._budget.seconds is not None and seconds >= self._budget.seconds):
            raise NotSolvedError(f"not solved within {nodes:,} nodes and {seconds:.1f} s")

    def _spent(self, node: int) -> int:
        return node - self._first_node


class Solver:
    """Finds exact values by alpha-beta with a table of positions, symmetries and sorted moves.

    The value of a position is cornered by tests with a null window (Plaat et al. 1996, MTD(f)):
    from a first guess on, each test moves the lower or the upper bound. What is learnt about one
    position serves the next ones. See `interface.score` for what the values mean.
    """

    def __init__(
        self,
        game: Game,
        memory: int = MEMORY,
        budget: Budget = UNLIMITED,
        report: Callable[[Solving], None] = lambda _: None,
    ) -> None:
        """Take `memory` mebibytes; tell `report` a few times a second how far a search has come."""
        self.game = game
        self._budget = budget
        self._report = report
        self._table = empty_table(rules.words(game), memory)
        self._path = kernels.empty_path(_PLIES, rules.words(game), rules.actions(game))
        cells = host.remaining(game, host.start(game))
        self._symmetric_from = cells if cells == MANY else cells - _SYMMETRIC_PLIES

    @property
    def nodes(self) -> int:
        """How many positions were visited so far, all searches taken together."""
        return int(self._path.control[kernels.NODES])

    def value(self, state: State) -> int:
        """Return the value of an ongoing or finished state for its mover.

        Raises NotSolvedError when the budget is spent.
        """
        return self._value(state, 0, self._watch(1))

    def action_values(self, states: NDArray[np.uint64]) -> NDArray[np.int32]:
        """See `Oracle.action_values`; the budget is for each state."""
        values = np.full((len(states), rules.actions(self.game)), ILLEGAL, np.int32)
        for state, row in zip(states, values, strict=True):
            actions = self._by_promise(state)
            watch = self._watch(len(actions))
            guess = 0
            for watch.move, action in enumerate(actions):
                after = host.apply(self.game, state, action)
                row[action] = -self._value(after, -guess, watch)
                guess = int(row.max())
        return values

    def _watch(self, moves: int) -> _Watch:
        return _Watch(self._budget, self._report, self.nodes, moves)

    def _by_promise(self, state: State) -> list[int]:
        """Return the legal actions, those that look best first: the others profit from them."""
        actions = np.flatnonzero(host.legal(self.game, state))
        after = [host.apply(self.game, state, int(action)) for action in actions]
        promises = [host.move_ordering_score(self.game, each) for each in after]
        return [int(action) for action in actions[np.argsort(promises, kind="stable")[::-1]]]

    def _value(self, state: State, guess: int, watch: _Watch) -> int:
        """Corner the value with tests, each of which moves its lower or upper bound."""
        if host.outcome(self.game, state) != ONGOING:
            return host.score(self.game, state)
        low, high = host.score_bounds(self.game, state)
        if rules.score_is_distance(self.game):
            return self._close_in(state, low, high, watch)
        return self._gallop(state, low, high, guess, watch)

    def _close_in(self, state: State, low: int, high: int, watch: _Watch) -> int:
        """Look for the fastest win and the fastest loss in turns, then for slower ones.

        A test for a fast win or loss ends early in every line, so that this is iterative deepening
        on the value's window; what the shallow tests leave in the table sorts the deeper ones.
        """
        for_win = True
        while low < high:
            bound = high if for_win else low + 1
            found = self._test(state, bound, watch)
            low, high = (max(low, found), high) if found >= bound else (low, min(high, found))
            for_win = not for_win
        return low

    def _gallop(self, state: State, low: int, high: int, guess: int, watch: _Watch) -> int:
        """Leave the guess in growing steps."""
        bound, stride = min(max(guess, low + 1), high), 1
        went_up = None
        while low < high:
            found = self._test(state, bound, watch)
            is_higher = found >= bound
            low, high = (max(low, found), high) if is_higher else (low, min(high, found))
            stride = 2 * stride if is_higher == went_up else 1
            went_up = is_higher
            bound = min(high, low + stride) if is_higher else max(low + 1, high - stride + 1)
        return low

    def _test(self, state: State, bound: int, watch: _Watch) -> int:
        """Return a lower bound of the value that is at least `bound`, or an upper one below it."""
        watch.check(self.nodes)
        kernels.begin(self._path, state, bound)
        while not kernels.proceed(
            self.game, self._table, self._path, self._symmetric_from, watch.allows(self.nodes)
        ):
            if self._path.control[kernels.PLY] == len(self._path.states) - 1:
                self._path = kernels.grown_path(self._path, 2 * len(self._path.states))
            watch.check(self.nodes)
        return int(self._path.control[kernels.VALUE])
