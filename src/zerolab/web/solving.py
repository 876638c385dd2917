"""Exact scores of moves within a time limit.

The solver runs in a separate process, because some oracles hold the interpreter lock, and solving
can be cancelled only by ending the process.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from functools import lru_cache
from typing import Any

import numpy as np
from pebble import ProcessExpired, ProcessPool

from zerolab.core.errors import UserError
from zerolab.core.processes import process_pool
from zerolab.evaluation.puzzles import Puzzle, make_puzzle
from zerolab.oracles.oracle import ILLEGAL_VALUE, NotSolvedError, Oracle
from zerolab.oracles.solver import Solver, SolverBudget, oracle_for
from zerolab.rules import compiled_rules
from zerolab.rules.catalogue import game_name, parse_game
from zerolab.rules.position import Position
from zerolab.web.requests import BusyError, Client, Quota

MAX_SOLVING_SECONDS = 60.0
_MEMORY = 64  # size of each solver's table in MiB
_MAX_SOLVED = 5000  # maximum number of positions whose scores are cached
_MAX_WAITING, _MAX_PER_ADDRESS, _MAX_PER_PAGE = 40, 16, 8
_GRACE = 30.0  # additional seconds for compiling a solver and noticing the time limit


class SolverEndedError(BusyError):
    """Error when the process ends while solving a position, for example because memory runs out."""


MoveScores = dict[str, int]
"""Exact scores of the legal moves by name, for the side to move, on the oracle's scale."""


class SolverProcess:
    """Process that solves one position at a time, with a cache of recent scores."""

    def __init__(self) -> None:
        self._solved: OrderedDict[tuple[str, bytes], MoveScores] = OrderedDict()
        self._lock = threading.Lock()
        self._pool: ProcessPool | None = None
        self._quota = Quota("solutions", _MAX_WAITING, _MAX_PER_ADDRESS, _MAX_PER_PAGE)

    async def solve(self, client: Client, position: Position, seconds: float) -> MoveScores:
        """Return the exact score of every legal move.

        Raises NotSolvedError if the time limit of `seconds` is exceeded, UserError if the game is
        over, BusyError if too many positions of the client are waiting, and SolverEndedError if
        the process ends.
        """
        if position.outcome is not None:
            raise UserError("the game is over: expected a position with legal moves")
        key = game_name(position.game), position.state.tobytes()
        if key in self._solved:
            self._solved.move_to_end(key)
            return self._solved[key]
        with self._quota.hold(client):
            scores = await self._solve(position, min(seconds, MAX_SOLVING_SECONDS))
        self._solved[key] = scores
        if len(self._solved) > _MAX_SOLVED:
            self._solved.popitem(last=False)
        return scores

    async def make_puzzle(
        self, client: Client, position: Position, seconds: float
    ) -> Puzzle | None:
        """Return a position as a puzzle, or None if it is not one; raise errors like `solve`."""
        with self._quota.hold(client):
            puzzle: Puzzle | None = await self._run(_puzzle, position, seconds)
        return puzzle

    @property
    def is_busy(self) -> bool:
        """True if a position is being solved or is waiting."""
        return self._quota.in_use > 0

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._stop()

    def _stop(self) -> None:
        if self._pool is not None:
            self._pool.stop()  # type: ignore[no-untyped-call]
            self._pool.join(timeout=5)
            self._pool = None

    async def _solve(self, position: Position, seconds: float) -> MoveScores:
        scores = await self._run(_action_scores, position, seconds)
        return {
            position.action_name(action): scores[action]
            for action in position.legal_actions
            if scores[action] != ILLEGAL_VALUE
        }

    async def _run(
        self, function: Callable[[Position, float], Any], position: Position, seconds: float
    ) -> Any:
        """Run a function in the process and return its result; raise errors like `solve`."""
        pool = await asyncio.to_thread(self._running)
        arguments = function, game_name(position.game), position.history, position.state.tobytes()
        future = pool.schedule(_call, args=[*arguments, seconds], timeout=seconds + _GRACE)
        try:
            return await asyncio.wrap_future(future)
        except TimeoutError:
            raise NotSolvedError(f"not solved within {seconds:.0f} s") from None
        except (ProcessExpired, BrokenProcessPool):
            raise SolverEndedError("the solver ended unexpectedly: try again") from None

    def _running(self) -> ProcessPool:
        """Return the pool, starting it if necessary, which takes a while."""
        with self._lock:
            if self._pool is not None and not self._pool.active:  # its process died while idle
                self._stop()
            if self._pool is None:
                self._pool = process_pool(1, __name__)
            bool(self._pool.active)  # reading it starts the pool
            return self._pool


def _call(
    function: Callable[[Position, float], Any],
    game: str,
    history: tuple[int, ...],
    state: bytes,
    seconds: float,
) -> Any:
    """Call a function with a position, in the solver process."""
    position = Position(parse_game(game), np.frombuffer(state, np.uint64), history)
    return function(position, seconds)


def _action_scores(position: Position, seconds: float) -> list[int]:
    """Return the exact scores of all actions."""
    oracle = oracle_with_time_limit(game_name(position.game), seconds)
    scores: list[int] = oracle.action_values(position.state[None])[0].tolist()
    return scores


def _puzzle(position: Position, seconds: float) -> Puzzle | None:
    """Return a position as a puzzle, or None if it is not one."""
    return make_puzzle(position, oracle_with_time_limit(game_name(position.game), seconds))


def oracle_with_time_limit(game: str, seconds: float) -> Oracle:
    """Return a game's oracle, with a time limit per position if it is the built-in solver."""
    oracle = _oracle(game)
    if isinstance(oracle, Solver):
        oracle.budget = SolverBudget(seconds=seconds)
    return oracle


@lru_cache(maxsize=2)
def _oracle(game: str) -> Oracle:
    """Return a game's compiled oracle, which keeps its table for later positions."""
    parsed_game = parse_game(game)
    oracle = oracle_for(parsed_game, SolverBudget(nodes=1), memory_mib=_MEMORY)
    with suppress(NotSolvedError):
        oracle.action_values(compiled_rules.start(parsed_game)[None])
    return oracle
