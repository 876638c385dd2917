"""Rules interface: functions that every game provides and every search calls.

``docs/glossary.md`` defines the terms, such as *state*, *mover*, *outcome* and *plane*.

Parts
-----
A game is one short file with a NamedTuple, a call to `rules.catalogue.register_game`, and for each
part a class of static methods derived from the part's base class (``docs/add-a-game.md``).

============  ==========================  ====================  =================================
Part          Base class                  Required              Optional, with a default in the
                                                                base class
============  ==========================  ====================  =================================
play          `rules.Rules`               word_count,           check, random_action, playout
                                          action_count, start,
                                          legal, apply,
                                          outcome
encoding      `encoding.Encoding`         plane_count, encode   symmetry_count, transform,
                                                                transform_cell, transform_action;
                                                                action_places, plane_names
notation      `catalogue.Notation`        nothing               action_name, parse_action,
                                                                move_examples_text, column_label,
                                                                mover_board, state_of_mover_board,
                                                                draw_board
solver rules  `rules.SolverRules`         nothing               empty_count, max_plies, final_score,
                                                                score_bounds, score_is_distance,
                                                                solver_moves, move_ordering_score
============  ==========================  ====================  =================================

Play, encoding and solver rules run in kernels and in plain Python. Notation is for users and is
never compiled. Games whose actions are cells can inherit most methods from `rules.cells`. Outside
kernels, call the functions of `rules.compiled_rules`.

Terms of solver rules, in addition to those of ``docs/glossary.md``:

score        an integer for a finished game; its sign is the outcome for the mover, and its
             magnitude is the margin or the speed of the win
empty_count  the number of pieces that can still be placed, a measure of the remaining search

Every solver rule has a default, so every game can be solved.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from zerolab.core import streams
from zerolab.core.compiled import CompiledInterface, inlined
from zerolab.core.memory import copy_row

ONGOING = 2
WIN = 1
DRAW = 0
LOSS = -1

MAX_PLIES = 1000
"""Maximum length of a game in plies, including passes."""

Game = Any
"""NamedTuple whose type is registered as a game."""

State = NDArray[np.uint64]
"""uint64[words]"""

Mask = NDArray[np.bool_]
"""bool[actions]"""

RULES_INTERFACE = CompiledInterface("game")


@RULES_INTERFACE.declare
def word_count(game: Game) -> int:
    """Return the number of 64-bit words in a state."""
    raise AssertionError


@RULES_INTERFACE.declare
def action_count(game: Game) -> int:
    """Return the number of actions, legal or not."""
    raise AssertionError


@RULES_INTERFACE.declare
def start(game: Game, out: State) -> None:
    """Write the initial state to `out`, uint64[words]."""
    raise AssertionError


@RULES_INTERFACE.declare
def legal(game: Game, state: State, mask: Mask) -> None:
    """Write the legal actions of the mover to `mask`, bool[actions].

    An ongoing state has at least one legal action. The function is never called for finished games.
    """
    raise AssertionError


@RULES_INTERFACE.declare
def apply(game: Game, state: State, action: int, out: State) -> None:
    """Write the state after a legal action, from the next mover's point of view, to `out`.

    `out` can be the same array as `state`.
    """
    raise AssertionError


@RULES_INTERFACE.declare
def outcome(game: Game, state: State) -> int:
    """Return ONGOING, or WIN, DRAW or LOSS for the mover."""
    raise AssertionError


@RULES_INTERFACE.declare
def random_action(game: Game, state: State, random: int) -> int:
    """Return a uniformly random legal action, using 64 random bits."""
    raise AssertionError


@RULES_INTERFACE.declare
def playout(game: Game, state: State, key: int, out: State, moves: NDArray[np.int32]) -> int:
    """Play uniformly random legal actions to the end; return the outcome for the mover of `state`.

    The actions depend only on the state and the random stream `key`. `out`, uint64[words], is
    overwritten. The number of plies, followed by the actions, is written to `moves`,
    int32[1 + MAX_PLIES].
    """
    raise AssertionError


class Rules:
    """Base class of rules."""

    @staticmethod
    def check(game: Game) -> None:
        """Raise ValueError if the fields of a game are inconsistent."""

    @staticmethod
    def random_action(game, state, random):
        mask = np.empty(action_count(game), np.bool_)
        legal(game, state, mask)
        count = 0
        for action in range(mask.shape[0]):
            count += mask[action]
        remaining = streams.random_below(random, count)
        for action in range(mask.shape[0]):
            if mask[action]:
                if remaining == 0:
                    return action
                remaining -= 1
        return -1

    @staticmethod
    def playout(game, state, key, out, moves):
        copy_row(state, out)
        for ply in range(MAX_PLIES):
            result = outcome(game, out)
            if result != ONGOING:
                moves[0] = ply
                return result if ply % 2 == 0 else -result
            action = random_action(game, out, streams.random_bits(key, ply))
            apply(game, out, action, out)
            moves[1 + ply] = action
        moves[0] = MAX_PLIES
        result = outcome(game, out)
        return DRAW if result == ONGOING else result


_PLAYOUTS_PER_THREAD = 1000
"""Minimum number of playouts per additional thread; waking a thread takes about 50 microseconds."""


@inlined
def random_bits_for_ply(key, ply, previous):
    """Return 64 bits for a ply; `streams.random_below` uses only the upper 32, which are random.

    Two plies share one draw of the stream `key`; `previous` is the result for ply - 1.
    """
    return previous << np.uint64(32) if ply & 1 else streams.random_bits(key, ply >> 1)


@inlined
def outcome_if_last_ply_wins(plies):
    """Return the outcome for the mover of a position if the last of the next `plies` plies wins."""
    return WIN if plies & 1 else LOSS


@inlined
def mean_playout_outcome(game, state, count, key, out, moves):
    """Return the mean outcome of `count` playouts for the mover of `state`.

    Playout j uses the stream `fold_in(key, j)`. See `playout` for `out` and `moves`; on return,
    `moves` contains the last playout.
    """
    total = 0
    for number in range(count):
        total += playout(game, state, streams.fold_in(key, number), out, moves)
    return total / count


def threads_for_playouts(playouts: int, threads: int) -> int:
    """Return the number of threads to use for a number of playouts, at most `threads`."""
    return min(threads, 1 + playouts // _PLAYOUTS_PER_THREAD)


SOLVER_RULES_INTERFACE = CompiledInterface("game")

UNKNOWN_EMPTY_COUNT = 1 << 14
"""Result of `empty_count` for games that do not implement it, larger than any board."""


@SOLVER_RULES_INTERFACE.declare
def empty_count(game: Game, state: State) -> int:
    """Return the maximum number of pieces that can still be placed, by default UNKNOWN_EMPTY_COUNT.

    This number never increases during a game.
    """
    raise AssertionError


@SOLVER_RULES_INTERFACE.declare
def max_plies(game: Game) -> int:
    """Return an upper bound on the plies of a game, including passes; by default MAX_PLIES."""
    raise AssertionError


@SOLVER_RULES_INTERFACE.declare
def final_score(game: Game, state: State) -> int:
    """Return the score for the mover in a finished game, by default the outcome."""
    raise AssertionError


@SOLVER_RULES_INTERFACE.declare
def score_is_distance(game: Game) -> bool:
    """Return True if scores measure the speed of a win, like `win_score`; by default False."""
    raise AssertionError


@SOLVER_RULES_INTERFACE.declare
def score_bounds(game: Game, state: State) -> tuple[int, int]:
    """Return a lower and an upper bound on the final score for the mover in an ongoing game.

    By default, they are -1 and 1.
    """
    raise AssertionError


@SOLVER_RULES_INTERFACE.declare
def solver_moves(game: Game, state: State, out: NDArray[np.int16]) -> int:
    """Write to `out` the legal actions that a solver must try, best first; return their number.

    At least one of these actions must have the highest value; by default, all legal actions are
    written. `state` is ongoing, and `out` is int16[actions].
    """
    raise AssertionError


@SOLVER_RULES_INTERFACE.declare
def move_ordering_score(game: Game, state: State) -> int:
    """Return a heuristic value of a state for the player who has just moved, by default 0.

    Solvers try the children of a position in descending order of this value.
    """
    raise AssertionError


@inlined
def win_score(empty_count):
    """Return the score of a win with `empty_count` empty cells: floor(empty_count / 2) + 1.

    In games without margins, this score makes perfect players win quickly and lose slowly [Pons].
    """
    return max(empty_count, 0) // 2 + 1


class SolverRules:
    """Base class of solver rules, with defaults derived from the rules."""

    @staticmethod
    def empty_count(game, state):
        return UNKNOWN_EMPTY_COUNT

    @staticmethod
    def max_plies(game):
        return MAX_PLIES

    @staticmethod
    def final_score(game, state):
        return outcome(game, state)

    @staticmethod
    def score_is_distance(game):
        return False

    @staticmethod
    def score_bounds(game, state):
        return -1, 1

    @staticmethod
    def solver_moves(game, state, out):
        mask = np.empty(action_count(game), np.bool_)
        legal(game, state, mask)
        count = 0
        for action in range(mask.shape[0]):
            if mask[action]:
                out[count] = action
                count += 1
        return count

    @staticmethod
    def move_ordering_score(game, state):
        return 0
