"""The interface that every game fulfils and every search reads.

Glossary
--------
game     a NamedTuple that fixes the rules, such as ``Othello(rows=6, columns=6)``
state    uint64[words]: a position, always seen by the player to move; opaque outside the game
action   an int in [0, actions); what it means is the game's business
ply      one action by one player; the mover alternates on every ply, a pass included
mover    the player to move
outcome  ONGOING, or the finished game's result for the mover: WIN, DRAW or LOSS
value    a real number in [-1, 1]: the outcome the mover expects
policy   a probability for every action; a prior is the policy before search
cell     a square of the board, row * columns + column, row 0 at the top
plane    one number for every cell: what a network sees; a game has one or more planes

The functions below run inside kernels and in plain Python alike. A game is one file: a NamedTuple
and a class derived from `Rules` whose static methods implement them (see ``docs/add-a-game.md``).
"""

from __future__ import annotations

import string
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zerolab.core import streams
from zerolab.core.compiled import CompiledInterface

ONGOING = 2
WIN = 1
DRAW = 0
LOSS = -1

MANY = 1 << 14
"""More stones than any game puts: what `remaining` answers where a game does not say."""

MOST_PLIES = 1000
"""No game lasts longer, a pass counted as a ply."""

Game = Any
"""A game is any NamedTuple whose type is registered."""

State = NDArray[np.uint64]
Mask = NDArray[np.bool_]

GAMES = CompiledInterface("game")


@GAMES.function
def words(game: Game) -> int:
    """Return the length of a state."""
    raise AssertionError


@GAMES.function
def actions(game: Game) -> int:
    """Return the number of actions, legal or not."""
    raise AssertionError


@GAMES.function
def planes(game: Game) -> int:
    """Return the number of planes that `encode` fills."""
    raise AssertionError


@GAMES.function
def symmetries(game: Game) -> int:
    """Return the number of symmetries of the rules, the identity (number 0) included."""
    raise AssertionError


@GAMES.function
def start(game: Game, out: State) -> None:
    """Write the first position."""
    raise AssertionError


@GAMES.function
def legal(game: Game, state: State, mask: Mask) -> None:
    """Write for each action whether the mover may choose it, `mask` being bool[actions].

    An ongoing state has at least one legal action; finished ones are never asked.
    """
    raise AssertionError


@GAMES.function
def apply(game: Game, state: State, action: int, out: State) -> None:
    """Write the state after a legal action, seen by the next mover; `out` may be `state`."""
    raise AssertionError


@GAMES.function
def outcome(game: Game, state: State) -> int:
    """Return ONGOING, WIN, DRAW or LOSS for the mover."""
    raise AssertionError


@GAMES.function
def encode(game: Game, state: State, out: NDArray[np.float32]) -> None:
    """Write the planes of a state into float32[planes, cells].

    Plane 0 holds +1 for the mover's stones and -1 for the other player's; boards are drawn from it.
    """
    raise AssertionError


@GAMES.function
def transform(game: Game, state: State, symmetry: int, out: State) -> None:
    """Write the image of a state under a symmetry; `out` must not be `state`."""
    raise AssertionError


@GAMES.function
def transform_cell(game: Game, symmetry: int, cell: int) -> int:
    """Return where a symmetry moves a cell."""
    raise AssertionError


@GAMES.function
def transform_action(game: Game, symmetry: int, action: int) -> int:
    """Return what an action becomes under a symmetry."""
    raise AssertionError


@GAMES.function
def random_action(game: Game, state: State, random: int) -> int:
    """Return a uniformly drawn legal action from 64 random bits."""
    raise AssertionError


@GAMES.function
def playout(game: Game, state: State, key: int, out: State, moves: NDArray[np.int32]) -> int:
    """Play uniformly at random to the end; return the outcome for the mover of `state`.

    Every ply is uniform over the legal actions, and all of them depend on the state and the stream
    `key` alone. `out` is overwritten; `moves` is int32[1 + MOST_PLIES] and receives the number of
    plies, then the actions.
    """
    raise AssertionError


# The rest is what exact solvers ask. Every game answers by default; a game that says more is solved
# sooner, and tells how high or how fast it is won.


@GAMES.function
def remaining(game: Game, state: State) -> int:
    """Return how many stones can still be put at most; it never grows in the course of a game."""
    raise AssertionError


@GAMES.function
def score(game: Game, state: State) -> int:
    """Return the mover's final score in a finished game: its sign is the outcome.

    Where only winning counts, a win is worth more the more cells are left empty, so that perfect
    players win fast and lose slowly: half the empty cells, rounded down, plus one.
    """
    raise AssertionError


@GAMES.function
def score_is_distance(game: Game) -> bool:
    """Return whether scores tell how fast a game was won, rather than how high."""
    raise AssertionError


@GAMES.function
def score_bounds(game: Game, state: State) -> tuple[int, int]:
    """Return the lowest and highest score that an ongoing game can end with for the mover."""
    raise AssertionError


@GAMES.function
def solver_moves(game: Game, state: State, out: NDArray[np.int16]) -> int:
    """Write legal actions of an ongoing state one of which has the highest value; return how many.

    Of the rest it must be certain that none is better. Those worth trying first come first.
    """
    raise AssertionError


@GAMES.function
def move_ordering_score(game: Game, state: State) -> int:
    """Return how good a state looks for the player who has just moved; solvers try high ones first.

    It may be wrong, and is compared among states that follow the same one.
    """
    raise AssertionError


class Rules:
    """Base of a game's rules: what can be derived from the rest is derived here."""

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
        out[:] = state
        for ply in range(MOST_PLIES):
            result = outcome(game, out)
            if result != ONGOING:
                moves[0] = ply
                return result if ply % 2 == 0 else -result
            action = random_action(game, out, streams.bits(key, ply))
            apply(game, out, action, out)
            moves[1 + ply] = action
        moves[0] = MOST_PLIES
        result = outcome(game, out)
        return DRAW if result == ONGOING else result

    @staticmethod
    def remaining(game, state):
        return MANY

    @staticmethod
    def score(game, state):
        return outcome(game, state)

    @staticmethod
    def score_is_distance(game):
        return False

    @staticmethod
    def score_bounds(game, state):
        return -1, 1

    @staticmethod
    def solver_moves(game, state, out):
        mask = np.empty(actions(game), np.bool_)
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

    @staticmethod
    def check(game: Game) -> None:
        """Raise ValueError where the fields of a game contradict each other."""

    @staticmethod
    def column_label(game: Game, column: int) -> str:
        """Return what stands above a column of a printed board: a letter, counted from a."""
        return string.ascii_lowercase[column]

    @staticmethod
    def describe_action(game: Game, action: int) -> str:
        """Return an action's name for people."""
        return str(action)

    @classmethod
    def parse_action(cls, game: Game, text: str) -> int | None:
        """Return the action that a text names, or None; an action's number always works."""
        is_number = text.isdecimal() and len(text) < 10  # Python refuses to read very long ones
        return int(text) if is_number and int(text) < actions(game) else None
