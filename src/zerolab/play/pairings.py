"""Pairings: the games to play, their random openings, and which of them one thread plays.

A block is up to twenty games of a pair, which a tournament stores in one step. Batches of blocks
keep few agents busy at a time, each in many games, so that the batches of their networks are large
and only those networks need memory.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.core import streams
from zerolab.core.compiled import kernel
from zerolab.core.errors import UserError
from zerolab.rules import python, rules
from zerolab.rules.catalogue import game_name
from zerolab.rules.rules import ONGOING, Game

GAMES_PER_BLOCK = 20
"""Part of the format of stored tournaments."""

_CELLS_PER_THREAD = 3  # with fewer, threads would wait long for the last one


class Pairing(NamedTuple):
    """A game to play."""

    number: int
    """Number of the game, unique among those of its agents."""
    first: str
    second: str
    """The agents by name. One that plays both sides has a single game slot for both."""
    stream: int
    """Key of its random streams, beside (seed, iteration, ply)."""
    opening: tuple[int, ...] = ()
    """Actions played before the agents choose."""
    plies: int | None = None
    """Largest number of plies after the opening; None: until the game ends."""
    stride: int = 0
    """Difference in number and stream to the game that follows in its place; 0: none follows. That
    game has no opening, and the plies that this one leaves."""

    def following(self, played: int) -> Pairing | None:
        """Return the game that follows this one, which ended after `played` plies; None if none."""
        left = None if self.plies is None else self.plies - (played - len(self.opening))
        if not self.stride or left == 0:
            return None
        number, stream = self.number + self.stride, self.stream + self.stride
        return self._replace(number=number, stream=stream, opening=(), plies=left)


def colours_in_turn(first: str, second: str, numbers: Iterable[int]) -> list[Pairing]:
    """Return games of two agents; `first` moves first in those of even number."""
    return [
        Pairing(number, *((second, first) if number % 2 else (first, second)), number)
        for number in numbers
    ]


class Block(NamedTuple):
    """Some games of a pair of agents; `first` moves first in those of even number."""

    first: str
    second: str
    """Follows `first` in alphabetical order, so that a pair has only one name."""
    part: int
    """Index of the block: games from 20 * part on."""

    @classmethod
    def of(cls, one: str, other: str, number: int) -> Block:
        """Return the block of a game between two agents."""
        return cls(min(one, other), max(one, other), number // GAMES_PER_BLOCK)

    @property
    def stage(self) -> str:
        """The stage under which the games are stored, beside `part`."""
        return f"{self.first} vs {self.second}"

    def numbers(self, games: int) -> range:
        """Return the numbers of its games, if the pair plays `games` in all."""
        return range(self.part * GAMES_PER_BLOCK, min(games, (self.part + 1) * GAMES_PER_BLOCK))

    def pairings(self, numbers: Iterable[int]) -> list[Pairing]:
        """Return games of these numbers.

        Their streams depend on the two names and the number alone. Those of games 2j and 2j + 1
        are 2k and 2k + 1.
        """
        names = f"{self.first}\n{self.second}".encode()
        pair = int.from_bytes(hashlib.blake2b(names, digest_size=8).digest(), "little")
        games = colours_in_turn(self.first, self.second, numbers)
        return [game._replace(stream=(pair >> 3 << 1) + game.number) for game in games]


def round_robin(agents: Iterable[str], games: int) -> list[Block]:
    """Return all blocks of a tournament in which every pair of agents plays `games` games."""
    parts = range(-(-games // GAMES_PER_BLOCK))
    return [Block(*pair, part) for part in parts for pair in combinations(sorted(agents), 2)]


def thread_batches(
    blocks: Sequence[Block], games: int, slots: int, threads: int
) -> list[list[Pairing]]:
    """Divide the games of some blocks into batches, each of which one thread plays.

    Agents are divided into teams. The pairs of two teams are a cell, with about twice as many games
    as a thread has `slots`. If cells are few, each is divided among the threads. Games 2j and
    2j + 1 of a pair stay together.
    """
    cells: dict[tuple[int, int], list[Block]] = {}
    team = _teams(blocks, games, slots)
    for block in blocks:
        cells.setdefault((team[block.first], team[block.second]), []).append(block)
    parts = threads if len(cells) < _CELLS_PER_THREAD * threads else 1
    dealt = [_deal(cell, games, parts) for _, cell in sorted(cells.items())]
    return [batch for cell in dealt for batch in cell if batch]


def _teams(blocks: Sequence[Block], games: int, slots: int) -> dict[str, int]:
    agents = sorted({agent for block in blocks for agent in (block.first, block.second)})
    size = max(2, math.ceil(math.sqrt(2 * slots / games)))
    if len(agents) <= 2 * size:
        size = len(agents)
    return {agent: number // size for number, agent in enumerate(agents)}


def _deal(cell: Sequence[Block], games: int, parts: int) -> list[list[Pairing]]:
    """Deal pairs of games to `parts` batches, so that all pairs of agents progress together."""
    twos = sorted((number, block) for block in cell for number in block.numbers(games)[::2])
    return [
        [
            game
            for number, block in twos[part::parts]
            for game in block.pairings((number, number + 1))
        ]
        for part in range(parts)
    ]


@kernel
def _draw_opening(game, key, actions):
    """Write random actions from the start, int64[plies]; return how many leave the game ongoing."""
    state = np.empty(rules.words(game), np.uint64)
    rules.start(game, state)
    for ply in range(actions.shape[0]):
        actions[ply] = rules.random_action(game, state, streams.bits(key, ply))
        rules.apply(game, state, actions[ply], state)
        if rules.outcome(game, state) != rules.ONGOING:
            return ply
    return actions.shape[0]


def random_opening(game: Game, plies: int, key: np.uint64) -> tuple[int, ...]:
    """Return `plies` uniformly random actions, fewer where the next one would end the game."""
    actions = np.empty(plies, np.int64)
    return tuple(actions[: _draw_opening(game, key, actions)].tolist())


_TRIES = 1000
_SAMPLES = 400
_MIN_OPEN = 20
"""Samples that must leave the game ongoing: if one opening in twenty does, a thousand tries
practically never fail to find one."""


@kernel
def _draw_openings(game, keys, openings):
    """Draw legal actions uniformly, starting again where the game ends; return success."""
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
    game: Game, games: Sequence[Pairing], plies: int, seed: int, iteration: int = 0
) -> list[Pairing]:
    """Return the games with random openings of `plies` plies each.

    Games of the streams 2j and 2j + 1 share one, which depends on (seed, iteration, j). Raises
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
    """Return int64[n, plies]: actions that leave the game ongoing, one row per stream uint64[n].

    Raises UserError where games are too short for `plies` random plies.
    """
    openings = np.empty((len(keys), plies), np.int64)
    if not _draw_openings(game, keys, openings):
        raise _too_long_error(game, plies, "fewer")
    return openings


def check_openings(game: Game, plies: int) -> None:
    """Raise UserError unless there are random openings of `plies` plies for any number of games."""
    if not plies:
        return
    numbers = np.arange(_SAMPLES)
    keys = streams.streams(0, 0, numbers, np.zeros_like(numbers), streams.ARENA_OPENING)
    longest = min(plies, python.max_plies(game))
    lengths = sorted(len(random_opening(game, longest, key)) for key in keys)
    if plies > (most := lengths[-_MIN_OPEN]):
        raise _too_long_error(game, plies, f"at most {most}")


def _too_long_error(game: Game, plies: int, expected: str) -> UserError:
    return UserError(
        f"openings of {plies} plies: {game_name(game)} is nearly always over by then; expected"
        f" {expected}"
    )
