"""What the games of a tournament say, before and beside ratings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.agents.interface import FORFEIT
from zerolab.ratings.results import distinct_games, score_of
from zerolab.ratings.score import Score
from zerolab.store.games import GameRecord

Floats = NDArray[np.float64]


class PairResult(NamedTuple):
    """All games of two players."""

    first: str
    """The one whose name comes first in the alphabet, not the one who moves first."""
    second: str
    score: Score
    """From the view of `first`."""
    distinct: Score
    """The same with every different game counted once: without noise, play repeats itself."""
    led: int
    """Distinct games in which `first` moved first."""


class Overview(NamedTuple):
    """A tournament in numbers."""

    games: int
    distinct: int
    """Different games; equal moves of another pair or with other colours count again."""
    moving_first: Score
    """From the view of the players who moved first."""
    forfeits: dict[str, int]
    """How many games each player gave up; those who gave up none are left out."""


def overview(games: Sequence[GameRecord]) -> Overview:
    """Count games, different ones, first players' results and forfeits."""
    forfeits = Counter(_mover(game) for game in games if game.actions[-1:] == (FORFEIT,))
    results = [game.result for game in games]
    moving_first = Score(results.count(1), results.count(0), results.count(-1))
    return Overview(
        len(games), len(distinct_games(games)), moving_first, dict(sorted(forfeits.items()))
    )


def _mover(game: GameRecord) -> str:
    """Return who made the last move of a game, or gave it up."""
    return game.first if len(game.actions) % 2 == 1 else game.second


def pair_results(games: Sequence[GameRecord]) -> list[PairResult]:
    """Return the results of every pair that met, in alphabetical order."""
    pairs: dict[tuple[str, str], list[GameRecord]] = {}
    for game in games:
        pairs.setdefault((min(game[1:3]), max(game[1:3])), []).append(game)
    return [_pair_result(*names, met) for names, met in sorted(pairs.items())]


def _pair_result(first: str, second: str, games: Sequence[GameRecord]) -> PairResult:
    distinct = distinct_games(games)
    led = sum(game.first == first for game in distinct)
    return PairResult(first, second, score_of(first, games), score_of(first, distinct), led)


def cross_table(players: Sequence[str], pairs: Sequence[PairResult]) -> Floats:
    """Return float64[n, n]: points a game of player i against j, NaN where they have not met."""
    number = {name: i for i, name in enumerate(players)}
    table = np.full((len(players), len(players)), np.nan)
    for pair in pairs:
        i, j = number[pair.first], number[pair.second]
        table[i, j], table[j, i] = pair.score.score_rate, 1.0 - pair.score.score_rate
    return table
