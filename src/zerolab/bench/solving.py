"""The exact solver on one core: positions visited per second, and seconds per solution."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from time import perf_counter

import numpy as np

from zerolab.bench.measure import Measurement, in_turns
from zerolab.bench.trees import RulesWalk
from zerolab.oracles.solver import Solver
from zerolab.rules import host
from zerolab.rules.catalogue import parse_game
from zerolab.rules.interface import ONGOING, Game, State

_STARTS = ("connect_four:4x4", "connect_four:5x5", "othello:4x4", "gobang:5x5:4", "gobang:6x6:4")
_LATE = ("othello:6x6", 16, 20)
"""A game, the empty cells of random positions, and how many of them are solved."""


def measure_solving(rounds: int) -> Iterator[Measurement]:
    """Measure first positions by their value, and late ones by the values of all moves."""
    for name in _STARTS:
        game = parse_game(name)
        yield _measure(_Values(game), RulesWalk(name), f"solve/{name}", rounds)
    name, empty, count = _LATE
    states = _late_states(parse_game(name), empty, count)
    subject = _Moves(parse_game(name), states)
    yield _measure(subject, RulesWalk(name), f"solve/{name}, {empty} empty, every move", rounds)


def _measure(subject: _Values | _Moves, limit: RulesWalk, name: str, rounds: int) -> Measurement:
    rate, best = in_turns(subject.solve, limit.walk, rounds)
    seconds = statistics.median(subject.seconds[1:])
    note = f"{seconds:.3g} s each"
    return Measurement(name, "positions/s", rate, best, "rules without a search", note=note)


class _Values:
    """The value of a game's first position, from an empty table."""

    def __init__(self, game: Game) -> None:
        self._game = game
        self.seconds: list[float] = []

    def solve(self) -> float:
        """Solve; return the positions visited."""
        began = perf_counter()
        solver = Solver(self._game)
        solver.value(host.start(self._game))
        self.seconds.append(perf_counter() - began)
        return float(solver.nodes)


class _Moves:
    """The values of all moves in several positions, each from an empty table."""

    def __init__(self, game: Game, states: list[State]) -> None:
        self._game = game
        self._states = states
        self.seconds: list[float] = []

    def solve(self) -> float:
        """Solve all positions; return the positions visited."""
        began, nodes = perf_counter(), 0
        for state in self._states:
            solver = Solver(self._game)
            solver.action_values(state[None])
            nodes += solver.nodes
        self.seconds.append((perf_counter() - began) / len(self._states))
        return float(nodes)


def _late_states(game: Game, empty: int, count: int) -> list[State]:
    """Return `count` ongoing states with that many empty cells, from random games."""
    random = np.random.default_rng(1)
    states: list[State] = []
    while len(states) < count:
        state = host.start(game)
        while host.outcome(game, state) == ONGOING and host.empties(game, state) > empty:
            legal = np.flatnonzero(host.legal(game, state))
            state = host.apply(game, state, int(random.choice(legal)))
        if host.outcome(game, state) == ONGOING:
            states.append(state)
    return states
