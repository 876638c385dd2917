"""An exact solver for every game: alpha-beta over the rules interface."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.oracles import kernels
from zerolab.oracles.interface import ILLEGAL, NotSolvedError, Oracle
from zerolab.oracles.table import empty_table
from zerolab.rules import hints, host
from zerolab.rules import interface as rules
from zerolab.rules.interface import ONGOING, Game, State

MEMORY = 256
"""Default size of the transposition table in mebibytes."""

_NODES_PER_CALL = 500_000
_SYMMETRIC_PLIES = 8
"""In the opening, equal positions under symmetry are common enough to look for."""

_PLIES = 128


class Budget(NamedTuple):
    """How long one position may be searched; None means without limit."""

    nodes: int | None = None
    seconds: float | None = None


UNLIMITED = Budget()


class SolverProgress(NamedTuple):
    """How far the search of a position has come."""

    nodes: int
    seconds: float
    move: int
    """The index of the move under search."""
    moves: int
    """The number of moves that are searched one after the other."""


class _Watch:
    """Reports the progress of the search of one position; ends it when its budget is spent."""

    def __init__(
        self, budget: Budget, report: Callable[[SolverProgress], None], first_node: int, moves: int
    ) -> None:
        self.move = 0
        self._moves = moves
        self._budget = budget
        self._report = report
        self._first_node = first_node
        self._began = perf_counter()

    def allows(self, node: int) -> int:
        """Return how many more nodes may be searched before the next check."""
        left = (
            _NODES_PER_CALL
            if self._budget.nodes is None
            else self._budget.nodes - self._spent(node)
        )
        return min(_NODES_PER_CALL, left)

    def check(self, node: int) -> None:
        """Report; raise NotSolvedError if the budget of nodes or seconds is spent."""
        nodes, seconds = self._spent(node), perf_counter() - self._began
        self._report(SolverProgress(nodes, seconds, self.move, self._moves))
        out_of_nodes = self._budget.nodes is not None and nodes >= self._budget.nodes
        if out_of_nodes or (self._budget.seconds is not None and seconds >= self._budget.seconds):
            raise NotSolvedError(f"not solved within {nodes:,} nodes and {seconds:.1f} s")

    def _spent(self, node: int) -> int:
        return node - self._first_node


class Solver(Oracle):
    """Finds exact values by alpha-beta with a transposition table, symmetries and ordered moves.

    A sequence of null-window tests, as in MTD(f) [Plaat1996], raises the lower or lowers the upper
    bound of a value until they meet. The table is kept between positions. Values are scores, see
    `rules.hints`.
    """

    def __init__(
        self,
        game: Game,
        memory: int = MEMORY,
        budget: Budget = UNLIMITED,
        report: Callable[[SolverProgress], None] = lambda _: None,
    ) -> None:
        """Use a table of `memory` MiB; call `report` a few times per second during searches."""
        self.game = game
        self.budget = budget
        """For each position; it may be changed between two of them."""
        self._report = report
        self._table = empty_table(rules.words(game), memory)
        self._stack = kernels.empty_stack(_PLIES, rules.words(game), rules.actions(game))
        empties = host.empties(game, host.start(game))
        self._symmetric_from = (
            empties if empties == hints.UNKNOWN_EMPTIES else empties - _SYMMETRIC_PLIES
        )

    @property
    def nodes(self) -> int:
        """The number of positions searched so far, in all searches together."""
        return int(self._stack.registers[kernels.NODES])

    def value(self, state: State) -> int:
        """Return the value of an ongoing or finished state for its mover.

        Raises NotSolvedError when the budget is spent.
        """
        return self._value(state, 0, self._watch(1))

    def action_values(self, states: NDArray[np.uint64]) -> NDArray[np.int32]:
        """See `Oracle.action_values`; the budget is for each state."""
        values = np.full((len(states), rules.actions(self.game)), ILLEGAL, np.int32)
        for state, row in zip(states, values, strict=True):
            actions = self._ordered_actions(state)
            watch = self._watch(len(actions))
            guess = 0
            for watch.move, action in enumerate(actions):
                after = host.apply(self.game, state, action)
                row[action] = -self._value(after, -guess, watch)
                guess = int(row.max())
        return values

    def _watch(self, moves: int) -> _Watch:
        return _Watch(self.budget, self._report, self.nodes, moves)

    def _ordered_actions(self, state: State) -> list[int]:
        """Return the legal actions, promising ones first, by which the others profit."""
        actions = np.flatnonzero(host.legal(self.game, state))
        after = [host.apply(self.game, state, int(action)) for action in actions]
        scores = [host.move_ordering_score(self.game, each) for each in after]
        return [int(action) for action in actions[np.argsort(scores, kind="stable")[::-1]]]

    def _value(self, state: State, guess: int, watch: _Watch) -> int:
        """Return the value; `guess` is where to start looking for it."""
        if host.outcome(self.game, state) != ONGOING:
            return host.score(self.game, state)
        low, high = host.score_bounds(self.game, state)
        if hints.score_is_distance(self.game):
            return self._narrow_from_both_ends(state, low, high, watch)
        return self._search_from(guess, state, low, high, watch)

    def _narrow_from_both_ends(self, state: State, low: int, high: int, watch: _Watch) -> int:
        """Test for the fastest win and the fastest loss in turn, then for slower ones.

        Tests for fast wins and losses are shallow, so this amounts to iterative deepening: what
        the shallow tests leave in the table orders the moves of the deeper ones.
        """
        for_win = True
        while low < high:
            bound = high if for_win else low + 1
            found = self._test(state, bound, watch)
            low, high = (max(low, found), high) if found >= bound else (low, min(high, found))
            for_win = not for_win
        return low

    def _search_from(self, guess: int, state: State, low: int, high: int, watch: _Watch) -> int:
        """Move away from a guess in steps that double (exponential search)."""
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
        """Return a lower bound of the value that is at least `bound`, or an upper bound below."""
        watch.check(self.nodes)
        kernels.start_test(self._stack, state, bound)
        while not kernels.run_test(
            self.game, self._table, self._stack, self._symmetric_from, watch.allows(self.nodes)
        ):
            if self._stack.registers[kernels.PLY] == len(self._stack.states) - 1:
                self._stack = kernels.grown_stack(self._stack, 2 * len(self._stack.states))
            watch.check(self.nodes)
        return int(self._stack.registers[kernels.VALUE])
