"""Who plays whom in a tournament, and which games are played together.

A leg is up to twenty games of a pair; it is what is stored at once. Batches of legs are chosen so
that few players are busy at a time, each in many games: then the batches of their networks are
large, and only those networks need memory.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import NamedTuple

GAMES_PER_LEG = 20
"""Part of the format of stored tournaments."""

_BLOCKS_PER_THREAD = 3  # with fewer, threads would wait long for the last one


class Leg(NamedTuple):
    """Some games of two players; in games of even number `first` moves first."""

    first: str
    second: str
    """Comes after `first` in alphabetical order, so that a pair has one name only."""
    part: int
    """Games 20 * part and the following ones."""

    @property
    def stage(self) -> str:
        """The name under which the games are stored, beside `part`."""
        return f"{self.first} vs {self.second}"

    def numbers(self, games: int) -> range:
        """Return the numbers of its games, of `games` that the pair plays."""
        return range(self.part * GAMES_PER_LEG, min(games, (self.part + 1) * GAMES_PER_LEG))

    def colours(self, number: int) -> tuple[str, str]:
        """Return who moves first and second in a game."""
        return (self.first, self.second) if number % 2 == 0 else (self.second, self.first)

    def stream(self, number: int) -> int:
        """Return what a game's random streams are keyed by.

        It depends on the two names and the number alone. Games 2j and 2j + 1 have neighbouring
        ones, an even and an odd one.
        """
        names = f"{self.first}\n{self.second}".encode()
        pair = int.from_bytes(hashlib.blake2b(names, digest_size=8).digest(), "little")
        return (pair >> 3 << 1) + number


def round_robin(players: Iterable[str], games: int) -> list[Leg]:
    """Return all legs in which everybody plays `games` games against everybody else."""
    parts = range(-(-games // GAMES_PER_LEG))
    return [Leg(*pair, part) for part in parts for pair in combinations(sorted(players), 2)]


class Turn(NamedTuple):
    """A game of a leg."""

    leg: Leg
    number: int


def batches(legs: Sequence[Leg], games: int, lanes: int, threads: int) -> list[list[Turn]]:
    """Deal the games of some legs to batches, each of which one thread plays.

    Players are divided into teams, and the pairs of two teams are a block, of about twice as many
    games as a thread has `lanes`. Where there are few blocks, threads share each of them. Games 2j
    and 2j + 1 of a pair stay together.
    """
    blocks: dict[tuple[int, int], list[Leg]] = {}
    team = _teams(legs, games, lanes)
    for leg in legs:
        blocks.setdefault((team[leg.first], team[leg.second]), []).append(leg)
    shares = threads if len(blocks) < _BLOCKS_PER_THREAD * threads else 1
    dealt = [_deal(block, games, shares) for _, block in sorted(blocks.items())]
    return [batch for block in dealt for batch in block if batch]


def _teams(legs: Sequence[Leg], games: int, lanes: int) -> dict[str, int]:
    players = sorted({player for leg in legs for player in (leg.first, leg.second)})
    size = max(2, math.ceil(math.sqrt(2 * lanes / games)))
    if len(players) <= 2 * size:
        size = len(players)
    return {player: number // size for number, player in enumerate(players)}


def _deal(block: Sequence[Leg], games: int, shares: int) -> list[list[Turn]]:
    """Deal pairs of games to as many batches, all pairs of players going on together."""
    twos = sorted((number, leg) for leg in block for number in leg.numbers(games)[::2])
    return [
        [Turn(leg, number) for first, leg in twos[share::shares] for number in (first, first + 1)]
        for share in range(shares)
    ]
