"""What is to be played: schedules of games, and which games of a tournament one thread plays.

A block is up to twenty games of a pair; it is what a tournament stores at once. Batches of blocks
are chosen so that few agents are busy at a time, each in many games: then the batches of their
networks are large, and only those networks need memory.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import NamedTuple

GAMES_PER_BLOCK = 20
"""Part of the format of stored tournaments."""

_CELLS_PER_THREAD = 3  # with fewer, threads would wait long for the last one


class ScheduledGame(NamedTuple):
    """A game that is to be played."""

    number: int
    """What distinguishes its record from those of other games of its agents."""
    first: str
    second: str
    """The agents by name. One that plays both sides has one slot of its player for the game."""
    stream: int
    """What its random streams are keyed by, beside (seed, iteration, ply)."""
    opening: tuple[int, ...] = ()
    """Actions that are played before the agents choose."""
    plies: int | None = None
    """Most plies after the opening; None: until the game ends."""
    stride: int = 0
    """How much larger the numbers of the game are that follows in its place; 0 for none. It is
    played without an opening and has the plies that this one leaves."""

    def following(self, played: int) -> ScheduledGame | None:
        """Return the game that follows once this one is over after `played` plies, if one does."""
        left = None if self.plies is None else self.plies - (played - len(self.opening))
        if not self.stride or left == 0:
            return None
        number, stream = self.number + self.stride, self.stream + self.stride
        return self._replace(number=number, stream=stream, opening=(), plies=left)


def colours_in_turn(first: str, second: str, numbers: Iterable[int]) -> list[ScheduledGame]:
    """Return games of two agents; in those of even number `first` moves first."""
    return [
        ScheduledGame(number, *((second, first) if number % 2 else (first, second)), number)
        for number in numbers
    ]


class Block(NamedTuple):
    """Some games of a pair of agents; in those of even number `first` moves first."""

    first: str
    second: str
    """Comes after `first` in alphabetical order, so that a pair has one name only."""
    part: int
    """Games 20 * part and the following ones."""

    @classmethod
    def of(cls, one: str, other: str, number: int) -> Block:
        """Return the block of a game between two agents."""
        return cls(min(one, other), max(one, other), number // GAMES_PER_BLOCK)

    @property
    def stage(self) -> str:
        """The name under which the games are stored, beside `part`."""
        return f"{self.first} vs {self.second}"

    def numbers(self, games: int) -> range:
        """Return the numbers of its games, of `games` that the pair plays."""
        return range(self.part * GAMES_PER_BLOCK, min(games, (self.part + 1) * GAMES_PER_BLOCK))

    def scheduled(self, numbers: Iterable[int]) -> list[ScheduledGame]:
        """Return games of these numbers.

        Their streams depend on the two names and the number alone. Games 2j and 2j + 1 have
        neighbouring ones, an even and an odd one.
        """
        names = f"{self.first}\n{self.second}".encode()
        pair = int.from_bytes(hashlib.blake2b(names, digest_size=8).digest(), "little")
        games = colours_in_turn(self.first, self.second, numbers)
        return [game._replace(stream=(pair >> 3 << 1) + game.number) for game in games]


def round_robin(agents: Iterable[str], games: int) -> list[Block]:
    """Return all blocks in which every agent plays `games` games against every other one."""
    parts = range(-(-games // GAMES_PER_BLOCK))
    return [Block(*pair, part) for part in parts for pair in combinations(sorted(agents), 2)]


def batches(
    blocks: Sequence[Block], games: int, slots: int, threads: int
) -> list[list[ScheduledGame]]:
    """Divide the games of some blocks into batches, each of which one thread plays.

    Agents are divided into teams, and the pairs of two teams are a cell, of about twice as many
    games as a thread has `slots`. Where there are few cells, each of them is divided among the
    threads. Games 2j and 2j + 1 of a pair stay together.
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


def _deal(cell: Sequence[Block], games: int, parts: int) -> list[list[ScheduledGame]]:
    """Deal pairs of games to as many batches, all pairs of agents progressing together."""
    twos = sorted((number, block) for block in cell for number in block.numbers(games)[::2])
    return [
        [
            game
            for number, block in twos[part::parts]
            for game in block.scheduled((number, number + 1))
        ]
        for part in range(parts)
    ]
