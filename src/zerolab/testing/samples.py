"""Positions from random games, and how a check reports what is wrong in one of them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from zerolab.rules import host
from zerolab.rules import interface as rules
from zerolab.rules.interface import MOST_PLIES, ONGOING, Game, State

_GAMES = 8


class Sample(NamedTuple):
    """A position of a random game, and the actions that led to it."""

    game: Game
    state: State  # uint64[words], read only
    outcome: int
    history: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.game} after the actions {list(self.history)}"


def require(condition: object, where: Sample | Game, complaint: str) -> None:
    """Raise AssertionError unless `condition` holds, naming the position or the game."""
    if not condition:
        raise AssertionError(f"{where}: {complaint}")


@lru_cache(maxsize=64, typed=True)
def random_games(game: Game) -> tuple[tuple[Sample, ...], ...]:
    """Return a few random games, each from start to end; always the same ones."""
    return tuple(tuple(_random_game(game, seed)) for seed in range(_GAMES))


def positions(game: Game) -> Iterator[Sample]:
    """Yield every position of the random games."""
    for played in random_games(game):
        yield from played


def ongoing_positions(game: Game) -> Iterator[Sample]:
    """Yield the positions of the random games that are not finished."""
    return (sample for sample in positions(game) if sample.outcome == ONGOING)


def _random_game(game: Game, seed: int) -> Iterator[Sample]:
    random = np.random.default_rng(seed)
    state = host.start(game)
    sample = Sample(game, state, host.outcome(game, state), ())
    yield sample
    while sample.outcome == ONGOING:
        require(len(sample.history) < MOST_PLIES, game, f"no end after {MOST_PLIES} random actions")
        mask = np.zeros(rules.actions(game), np.bool_)
        host.write_legal(game, sample.state, mask)
        choices = np.flatnonzero(mask)
        require(len(choices), sample, "the game is ongoing, but no action is legal")
        action = int(random.choice(choices))
        state = host.apply(game, sample.state, action)
        sample = Sample(game, state, host.outcome(game, state), (*sample.history, action))
        yield sample


def evenly_spaced(game: Game, count: int) -> list[Sample]:
    """Return about `count` ongoing positions, from the start of the game to its end."""
    ongoing = list(ongoing_positions(game))
    return ongoing[:: max(1, len(ongoing) // count)]


def unwritten_state(game: Game) -> State:
    """Return a state, uint64[words], full of bits that rules must overwrite."""
    return np.full(rules.words(game), 0xDEAD_BEEF_DEAD_BEEF, np.uint64)
