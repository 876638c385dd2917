"""Random openings, which make the games of deterministic players differ."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from zerolab.core import streams
from zerolab.core.compiled import kernel
from zerolab.core.errors import UserError
from zerolab.play.random_starts import random_opening
from zerolab.play.schedule import ScheduledGame
from zerolab.rules import host
from zerolab.rules import interface as rules
from zerolab.rules.catalogue import game_name
from zerolab.rules.interface import ONGOING, Game

_TRIES = 1000
_SAMPLES = 400
_LEAST_OPEN = 20
"""Of the samples, those that leave a game open: where one opening in twenty does, there is hardly
ever one that is not found in so many tries."""


@kernel
def _draw_openings(game, keys, openings):
    """Draw uniformly among legal actions, again from the start where the game has ended."""
    state = np.empty(rules.words(game), np.uint64)
    for i in range(keys.shape[0]):
        found = False
        for attempt in range(_TRIES):
            key = streams.fold(keys[i], attempt)
            rules.start(game, state)
            found = True
            for ply in range(openings.shape[1]):
                action = rules.random_action(game, state, streams.bits(key, ply))
                rules.apply(game, state, action, state)
                openings[i, ply] = action
                if rules.outcome(game, state) != ONGOING:
                    found = False
                    break
            if found:
                break
        if not found:
            return False
    return True


def with_openings(
    game: Game, games: Sequence[ScheduledGame], plies: int, seed: int, iteration: int = 0
) -> list[ScheduledGame]:
    """Return the games with random openings of `plies` plies each.

    Games of the streams 2j and 2j + 1 have the same one, which (seed, iteration, j) decide. Raises
    UserError where games are too short for `plies` random plies.
    """
    if not plies:
        return list(games)
    pairs = np.array([each.stream // 2 for each in games], np.int64)
    keys = streams.streams(seed, iteration, pairs, np.zeros_like(pairs), streams.ARENA_OPENING)
    drawn = random_openings(game, plies, keys).tolist()
    return [
        each._replace(opening=tuple(opening)) for each, opening in zip(games, drawn, strict=True)
    ]


def random_openings(game: Game, plies: int, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return int64[n, plies]: for each stream uint64[n] the actions that lead to an ongoing game.

    Raises UserError where games are too short for `plies` random plies.
    """
    openings = np.empty((len(keys), plies), np.int64)
    if not _draw_openings(game, keys, openings):
        raise _too_long(game, plies, "fewer")
    return openings


def check_openings(game: Game, plies: int) -> None:
    """Raise UserError unless there are random openings of `plies` plies for any number of games."""
    if not plies:
        return
    numbers = np.arange(_SAMPLES)
    keys = streams.streams(0, 0, numbers, np.zeros_like(numbers), streams.ARENA_OPENING)
    longest = min(plies, host.longest(game))
    lengths = sorted(len(random_opening(game, longest, key)) for key in keys)
    if plies > (most := lengths[-_LEAST_OPEN]):
        raise _too_long(game, plies, f"at most {most}")


def _too_long(game: Game, plies: int, expected: str) -> UserError:
    return UserError(
        f"openings of {plies} plies: {game_name(game)} is nearly always over by then; expected"
        f" {expected}"
    )
