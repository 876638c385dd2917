"""Exact solver for every game, and the selection of an oracle for a game."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib.util import find_spec
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.core.errors import MissingExtraError, SlowFallbackWarning
from zerolab.oracles import alpha_beta
from zerolab.oracles.alpha_beta import empty_transposition_table
from zerolab.oracles.oracle import (
    BITBULLY_GAME,
    ILLEGAL_VALUE,
    BitBullyOracle,
    NotSolvedError,
    Oracle,
)
from zerolab.rules import compiled_rules, rules
from zerolab.rules.catalogue import game_name
from zerolab.rules.position import Position
from zerolab.rules.rules import ONGOING, Game, State

DEFAULT_TABLE_MIB = 256
"""Default size of the transposition table in mebibytes."""

_NODES_PER_CALL = 500_000
_SYMMETRIC_PLIES = 8
"""Number of initial plies in which symmetric positions are common enough to be worth detecting."""

_PLIES = 128


class SolverBudget(NamedTuple):
    """Limits on the search of a position; None means no limit."""

    nodes: int | None = None
    seconds: float | None = None


UNLIMITED_BUDGET = SolverBudget()


class SolverProgress(NamedTuple):
    """Progress of the search of a position."""

    node_count: int
    """Number of nodes searched."""
    seconds: float
    """Elapsed time in seconds."""
    move_index: int
    """Index of the current move."""
    move_count: int
    """Number of moves to search."""


class _Watch:
    """Watch that reports a search's progress and stops the search once its budget is used up."""

    def __init__(
        self,
        budget: SolverBudget,
        report: Callable[[SolverProgress], None],
        first_node: int,
        move_count: int,
    ) -> None:
        self.move_index = 0
        self._move_count = move_count
        self._budget = budget
        self._report = report
        self._first_node = first_node
        self._start_time = perf_counter()

    def allowed_nodes(self, node: int) -> int:
        """Return the number of nodes that can be searched before the next check."""
        if self._budget.nodes is None:
            return _NODES_PER_CALL
        return min(_NODES_PER_CALL, self._budget.nodes - (node - self._first_node))

    def check(self, node: int) -> None:
        """Report progress; raise NotSolvedError if the budget of nodes or seconds is exceeded."""
        nodes, seconds = node - self._first_node, perf_counter() - self._start_time
        self._report(SolverProgress(nodes, seconds, self.move_index, self._move_count))
        is_out_of_nodes = self._budget.nodes is not None and nodes >= self._budget.nodes
        is_late = self._budget.seconds is not None and seconds >= self._budget.seconds
        if is_out_of_nodes or is_late:
            raise NotSolvedError(f"not solved within {nodes:,} nodes and {seconds:.1f} s")


class Solver(Oracle):
    """Exact alpha-beta solver with a transposition table, symmetries and move ordering.

    A sequence of null-window tests, as in MTD(f) [Plaat1996], raises the lower bound or lowers the
    upper bound on a value until they are equal. The table is kept between positions. Values are
    scores as defined in `rules.rules`.
    """

    def __init__(
        self,
        game: Game,
        memory_mib: int = DEFAULT_TABLE_MIB,
        budget: SolverBudget = UNLIMITED_BUDGET,
        report: Callable[[SolverProgress], None] = lambda _: None,
    ) -> None:
        """Use a table of `memory_mib` MiB; call `report` a few times per second during searches."""
        self.game = game
        self.budget = budget
        """Budget for each position; it can be changed between positions."""
        self._report = report
        self._table = empty_transposition_table(rules.word_count(game), memory_mib)
        self._stack = alpha_beta.empty_stack(
            _PLIES, rules.word_count(game), rules.action_count(game)
        )
        empties = compiled_rules.empty_count(game, compiled_rules.start(game))
        self._min_symmetric_empties = (
            empties if empties == rules.UNKNOWN_EMPTY_COUNT else empties - _SYMMETRIC_PLIES
        )

    @property
    def node_count(self) -> int:
        """Total number of positions searched so far."""
        return int(self._stack.scalars[alpha_beta.NODES])

    def value(self, state: State) -> int:
        """Return the value of an ongoing or finished state for the side to move.

        Raises NotSolvedError if the budget is exceeded.
        """
        return self._value(state, 0, self._watch(1))

    def action_values(self, states: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Return int32[n, actions]: exact values; the budget applies to each state separately."""
        values = np.full((len(states), rules.action_count(self.game)), ILLEGAL_VALUE, np.int32)
        for state, row in zip(states, values, strict=True):
            actions = self._ordered_actions(state)
            watch = self._watch(len(actions))
            guess = 0
            for watch.move_index, action in enumerate(actions):
                child = compiled_rules.apply(self.game, state, action)
                row[action] = -self._value(child, -guess, watch)
                guess = int(row.max())
        return values

    def _watch(self, move_count: int) -> _Watch:
        if self.budget.seconds is not None and not self.node_count:
            self._compile()
        return _Watch(self.budget, self._report, self.node_count, move_count)

    def _compile(self) -> None:
        """Search one node, so that compilation time does not count towards the budget."""
        state = compiled_rules.start(self.game)
        self._ordered_actions(state)
        alpha_beta.start_null_window_test(self._stack, state, 1)
        alpha_beta.run_null_window_test(
            self.game, self._table, self._stack, self._min_symmetric_empties, 1
        )

    def _ordered_actions(self, state: State) -> list[int]:
        """Return the legal actions, most promising first: early results speed up later searches."""
        actions = np.flatnonzero(compiled_rules.legal(self.game, state))
        children = [compiled_rules.apply(self.game, state, int(action)) for action in actions]
        scores = [compiled_rules.move_ordering_score(self.game, child) for child in children]
        return [int(action) for action in actions[np.argsort(scores, kind="stable")[::-1]]]

    def _value(self, state: State, guess: int, watch: _Watch) -> int:
        """Return the value of a state; the search may start from `guess`."""
        if compiled_rules.outcome(self.game, state) != ONGOING:
            return compiled_rules.final_score(self.game, state)
        low, high = compiled_rules.score_bounds(self.game, state)
        if rules.score_is_distance(self.game):
            return self._narrow_from_both_ends(state, low, high, watch)
        return self._search_from(guess, state, low, high, watch)

    def _narrow_from_both_ends(self, state: State, low: int, high: int, watch: _Watch) -> int:
        """Test alternately for the fastest win and the fastest loss, then for slower ones.

        Tests for fast wins and losses are shallow, so this is a form of iterative deepening. The
        table entries of shallow tests order the moves in deeper tests.
        """
        is_win_test = True
        while low < high:
            bound = high if is_win_test else low + 1
            result = self._test(state, bound, watch)
            low, high = (max(low, result), high) if result >= bound else (low, min(high, result))
            is_win_test = not is_win_test
        return low

    def _search_from(self, guess: int, state: State, low: int, high: int, watch: _Watch) -> int:
        """Search with doubling steps away from a guess (exponential search)."""
        bound, stride = min(max(guess, low + 1), high), 1
        was_higher = None
        while low < high:
            result = self._test(state, bound, watch)
            is_higher = result >= bound
            low, high = (max(low, result), high) if is_higher else (low, min(high, result))
            stride = 2 * stride if is_higher == was_higher else 1
            was_higher = is_higher
            bound = min(high, low + stride) if is_higher else max(low + 1, high - stride + 1)
        return low

    def _test(self, state: State, bound: int, watch: _Watch) -> int:
        """Return a lower bound if the value is at least `bound`, otherwise an upper bound."""
        watch.check(self.node_count)
        alpha_beta.start_null_window_test(self._stack, state, bound)
        while not alpha_beta.run_null_window_test(
            self.game,
            self._table,
            self._stack,
            self._min_symmetric_empties,
            watch.allowed_nodes(self.node_count),
        ):
            if self._stack.scalars[alpha_beta.PLY] == len(self._stack.states) - 1:
                self._stack = alpha_beta.grown_stack(self._stack, 2 * len(self._stack.states))
            watch.check(self.node_count)
        return int(self._stack.scalars[alpha_beta.VALUE])


def is_solved_by_bitbully(game: Game, generic: bool = False) -> bool:
    """Return whether `oracle_for` returns BitBully's oracle, which has no budget."""
    return game == BITBULLY_GAME and not generic and find_spec("bitbully") is not None


def oracle_for(
    game: Game,
    budget: SolverBudget = UNLIMITED_BUDGET,
    *,
    memory_mib: int = DEFAULT_TABLE_MIB,
    generic: bool = False,
    report: Callable[[SolverProgress], None] = lambda _: None,
) -> Oracle:
    """Return the fastest oracle for a game, or the built-in solver if `generic` is True.

    The built-in solver searches each position within `budget`, has a table of `memory_mib` MiB and
    calls `report` a few times per second. Faster oracles ignore these arguments. If a faster oracle
    is not installed, the function issues a SlowFallbackWarning and returns the built-in solver.
    """
    if not generic and game == BITBULLY_GAME:
        try:
            return BitBullyOracle()
        except MissingExtraError as error:
            note = f"{error}; using the built-in solver instead, which is fast only late in a game"
            warnings.warn(note, SlowFallbackWarning, stacklevel=2)
    return Solver(game, memory_mib, budget, report)


class Solution(NamedTuple):
    """A solved position."""

    position: Position
    value: int
    """Score for the player to move under perfect play, as defined by `Oracle`."""
    move_values: dict[str, int]
    """Values of all legal moves by name; empty if the game is over."""
    node_count: int
    """Number of positions searched; 0 for oracles that do not count positions."""
    seconds: float
    """Time taken, in seconds."""

    @property
    def best_moves(self) -> list[str]:
        """Names of the moves with the highest value."""
        return [move for move, value in self.move_values.items() if value == self.value]

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        position = self.position
        return {
            "game": game_name(position.game),
            "played": [position.action_name(action) for action in position.history],
            "mover": "first" if position.first_to_move else "second",
            "value": self.value,
            "moves": self.move_values,
            "best": self.best_moves,
            "nodes": self.node_count,
            "seconds": round(self.seconds, 3),
        }


def solve_position(
    position: Position,
    budget: SolverBudget = UNLIMITED_BUDGET,
    *,
    memory_mib: int = DEFAULT_TABLE_MIB,
    generic: bool = False,
    report: Callable[[SolverProgress], None] = lambda _: None,
) -> Solution:
    """Solve a position; the parameters are the same as those of `oracle_for`.

    Raises NotSolvedError if the budget is exceeded.
    """
    start_time = perf_counter()
    if position.outcome is not None:
        return Solution(
            position, compiled_rules.final_score(position.game, position.state), {}, 0, 0.0
        )
    oracle = oracle_for(
        position.game, budget, memory_mib=memory_mib, generic=generic, report=report
    )
    values = oracle.action_values(position.state[None])[0]
    move_values = {
        position.action_name(action): int(values[action]) for action in position.legal_actions
    }
    node_count = oracle.node_count if isinstance(oracle, Solver) else 0
    seconds = perf_counter() - start_time
    return Solution(position, max(move_values.values()), move_values, node_count, seconds)
