"""How many different positions self-play has seen: the measures of [Clausen2021, Fig. 9].

Positions are those in which a move was made, so final ones are left out. They are told apart by 64
bits of their hash: in 10 million positions two are taken for one with a probability of 3e-6.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.core.errors import UserError, quoted
from zerolab.rules import host
from zerolab.rules import interface as rules
from zerolab.rules.catalogue import parse_game
from zerolab.rules.interface import Game
from zerolab.search.cache import hash_states
from zerolab.store.games import GameRecord
from zerolab.store.run_folder import RunFolder

STAGE = "selfplay"


class Diversity(NamedTuple):
    """The positions of some games."""

    name: str
    games: int
    positions: int
    """Positions of all games, repeated ones counted as often as they occur."""
    distinct: int
    positions_by_ply: list[int]
    distinct_by_ply: list[int]
    """Different positions of each ply; one that occurs at two plies counts at both."""
    new_by_game: NDArray[np.int64]
    """int64[games]: positions of each game that no game before it had."""
    seconds: float
    """Wall clock of self-play; 0 if it is not known."""

    @property
    def per_game(self) -> float:
        """Distinct positions per game."""
        return self.distinct / self.games if self.games else 0.0

    @property
    def per_hour(self) -> float | None:
        """Distinct positions per hour of self-play; None if its time is not known."""
        return self.distinct / self.seconds * 3600 if self.seconds else None

    def within(self, games: int) -> int:
        """Return the distinct positions of the first so many games."""
        return int(self.new_by_game[:games].sum())

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values; what is new by game is summed up to each game."""
        return {
            "run": self.name,
            "games": self.games,
            "positions": self.positions,
            "distinct": self.distinct,
            "distinct_per_game": self.per_game,
            "distinct_per_hour": self.per_hour,
            "wall_seconds": self.seconds,
            "positions_by_ply": self.positions_by_ply,
            "distinct_by_ply": self.distinct_by_ply,
            "distinct_by_games": np.cumsum(self.new_by_game).tolist(),
        }


def run_diversity(path: Path) -> Diversity:
    """Measure the self-play of a run, of all iterations that are finished by now.

    Raises UserError where the folder is no run, or a damaged one.
    """
    run = RunFolder.open(path)
    config = run.config.get("game")
    if not isinstance(config, str):
        raise UserError(f"{path}: game = {quoted(config)}: expected the name of a game")
    lines = [line for line in run.metrics() if line.get("stage") == STAGE]
    games = [run.games.games(int(line["iteration"]), STAGE) for line in lines]
    seconds = sum(float(line.get("wall_seconds", 0.0)) for line in lines)
    return diversity(str(path), parse_game(config), games, seconds)


def diversity(
    name: str, game: Game, parts: Iterable[Sequence[GameRecord]], seconds: float = 0.0
) -> Diversity:
    """Measure games, such as those of each iteration, in their order; the records must be legal."""
    hashes, plies, numbers = [np.empty(0, np.uint64)], [np.empty(0, int)], [np.empty(0, int)]
    games = 0
    for part in parts:
        for ply, (playing, found) in enumerate(_positions(game, part)):
            hashes.append(found)
            plies.append(np.full(len(found), ply))
            numbers.append(games + playing)
        games += len(part)
    return _counted(name, games, seconds, *map(np.concatenate, (hashes, plies, numbers)))


def _counted(
    name: str,
    games: int,
    seconds: float,
    hashes: NDArray[np.uint64],
    plies: NDArray[np.int64],
    numbers: NDArray[np.int64],
) -> Diversity:
    """Count positions, given the hash, ply and game of each."""
    order = np.lexsort((plies, numbers))
    _, first = np.unique(hashes[order], return_index=True)
    last = int(plies.max()) + 1 if len(plies) else 0
    by_ply = [hashes[plies == ply] for ply in range(last)]
    return Diversity(
        name=name,
        games=games,
        positions=len(hashes),
        distinct=len(first),
        positions_by_ply=[len(each) for each in by_ply],
        distinct_by_ply=[len(np.unique(each)) for each in by_ply],
        new_by_game=np.bincount(numbers[order][first], minlength=games),
        seconds=seconds,
    )


def _positions(
    game: Game, records: Sequence[GameRecord]
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.uint64]]]:
    """Yield, ply by ply, which games have a move there and the hashes of their positions."""
    states = np.empty((len(records), rules.words(game)), np.uint64)
    states[:] = host.start(game)
    lengths = np.array([len(record.actions) for record in records], np.int64)
    for ply in range(int(lengths.max(initial=0))):
        playing = np.flatnonzero(lengths > ply)
        hashes = np.empty(len(playing), np.uint64)
        hash_states(states[playing], hashes)
        yield playing, hashes
        actions = np.array([records[at].actions[ply] for at in playing.tolist()], np.int64)
        host.apply_batch(game, states, playing, actions)
