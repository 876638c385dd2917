"""The rules interface: the functions that every game provides and every search calls.

Glossary
--------
game      a NamedTuple that determines the rules, such as ``Othello(rows=6, columns=6)``
state     uint64[words]: a position, always seen by the player to move; opaque outside the game
action    an int in [0, actions), whose meaning is up to the game
ply       one action by one player; the mover alternates on every ply, a pass included
mover     the player to move
outcome   ONGOING, or the result of the finished game for the mover: WIN, DRAW or LOSS
value     a real number in [-1, 1]: the outcome that the mover expects
policy    a probability for every action; the prior is the policy before the search
playout   a game played to the end by random moves
cell      a square of the board, row * columns + column, row 0 at the top
plane     one number for every cell; a network sees one or more planes
symmetry  a permutation of the cells that maps positions to positions of the same value

Parts
-----
A game is one short file: a NamedTuple, a class of static methods for each part, derived from the
base class of the part, and a call of `rules.catalogue.register_game` (``docs/add-a-game.md``).

========  ====================  =====================  ===========================================
Part      Base class            Required               Optional: the base class has a default
========  ====================  =====================  ===========================================
play      `rules.Rules`         words, actions,        check, random_action, playout
                                start, legal, apply,
                                outcome
encoding  `encoding.Encoding`   planes, encode         symmetries, transform, transform_cell,
                                                       transform_action; actions_over,
                                                       plane_names
notation  `catalogue.Notation`  nothing                action_name, parse_action, column_label,
                                                       board, draw
hints     `hints.SolverHints`   nothing                empties, max_plies, score, score_bounds,
                                                       score_is_distance, solver_moves,
                                                       move_ordering_score
========  ====================  =====================  ===========================================

Play, encoding and hints run in kernels and in plain Python; notation is for people and is never
compiled. Games whose actions are cells inherit most of it from `rules.squares`. Outside
kernels, call the functions of `rules.python`.
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
"""The length of the longest games in plies, passes included."""

Game = Any
"""A NamedTuple whose type is registered as a game."""

State = NDArray[np.uint64]
"""uint64[words]"""

Mask = NDArray[np.bool_]
"""bool[actions]"""

GAMES = CompiledInterface("game")


@GAMES.function
def words(game: Game) -> int:
    """Return the number of 64-bit words of a state."""
    raise AssertionError


@GAMES.function
def actions(game: Game) -> int:
    """Return the number of actions, legal or not."""
    raise AssertionError


@GAMES.function
def start(game: Game, out: State) -> None:
    """Write the first position into `out`, uint64[words]."""
    raise AssertionError


@GAMES.function
def legal(game: Game, state: State, mask: Mask) -> None:
    """Write into `mask`, bool[actions], whether the mover may choose each action.

    At least one action of an ongoing state is legal. Never called for finished games.
    """
    raise AssertionError


@GAMES.function
def apply(game: Game, state: State, action: int, out: State) -> None:
    """Write the state after a legal action, seen by the next mover; `out` may be `state`."""
    raise AssertionError


@GAMES.function
def outcome(game: Game, state: State) -> int:
    """Return ONGOING, or WIN, DRAW or LOSS for the mover."""
    raise AssertionError


@GAMES.function
def random_action(game: Game, state: State, random: int) -> int:
    """Return a legal action, chosen uniformly by 64 random bits."""
    raise AssertionError


@GAMES.function
def playout(game: Game, state: State, key: int, out: State, moves: NDArray[np.int32]) -> int:
    """Play uniformly random legal actions to the end; return the outcome for the mover of `state`.

    The actions depend only on the state and the random stream `key`. `out`, uint64[words], is
    overwritten. `moves`, int32[1 + MAX_PLIES], receives the number of plies, then the actions.
    """
    raise AssertionError


class Rules:
    """Base of a game's rules."""

    @staticmethod
    def check(game: Game) -> None:
        """Raise ValueError if the fields of a game contradict each other."""

    @staticmethod
    def random_action(game, state, random):
        mask = np.empty(actions(game), np.bool_)
        legal(game, state, mask)
        count = 0
        for action in range(mask.shape[0]):
            count += mask[action]
        chosen = streams.below(random, count)
        for action in range(mask.shape[0]):
            if mask[action]:
                if chosen == 0:
                    return action
                chosen -= 1
        return -1

    @staticmethod
    def playout(game, state, key, out, moves):
        copy_row(state, out)
        for ply in range(MAX_PLIES):
            result = outcome(game, out)
            if result != ONGOING:
                moves[0] = ply
                return result if ply % 2 == 0 else -result
            action = random_action(game, out, streams.bits(key, ply))
            apply(game, out, action, out)
            moves[1 + ply] = action
        moves[0] = MAX_PLIES
        result = outcome(game, out)
        return DRAW if result == ONGOING else result


_PLAYOUTS_PER_THREAD = 1000
"""Fewest playouts that are worth a thread, which takes about 50 microseconds to wake."""


@inlined
def playout_bits(key, ply, previous):
    """Return 64 bits for a ply, of which the upper 32 are random: `streams.below` uses no others.

    Two plies share one draw of the stream `key`; `previous` is the result for ply - 1.
    """
    return previous << np.uint64(32) if ply & 1 else streams.bits(key, ply >> 1)


@inlined
def win_after(plies):
    """Return the outcome for the first mover if the last of `plies` plies wins."""
    return WIN if plies & 1 else LOSS


@inlined
def mean_playout(game, state, count, key, out, moves):
    """Return the mean outcome of `count` playouts for the mover of `state`.

    Playout j uses the stream `fold(key, j)`. `out` and `moves` are as for `rules.playout`;
    `moves` keeps the last playout.
    """
    total = 0
    for number in range(count):
        total += playout(game, state, streams.fold(key, number), out, moves)
    return total / count


def threads_for_playouts(playouts: int, threads: int) -> int:
    """Return how many of `threads` threads are worth waking for a number of playouts."""
    return min(threads, 1 + playouts // _PLAYOUTS_PER_THREAD)
