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
    """All games of two agents."""

    first: str
    """The one whose name comes first in the alphabet, not the one who moves first."""
    second: str
    score: Score
    """From the view of `first`."""
    distinct: Score
    """The same with repeated games counted once: deterministic agents repeat themselves."""
    led: int
    """Distinct games in which `first` moved first."""

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of the score rate, from the distinct games.

        A repeated game neither narrows nor moves it, so where lines of play are repeated unequally
        often the score rate of all games may lie outside.
        """
        return self.distinct.interval()


class Overview(NamedTuple):
    """A tournament in numbers."""

    games: int
    distinct: int
    """Different games; equal moves of another pair or with other colours count again."""
    moving_first: Score
    """From the view of the agents who moved first."""
    forfeits: dict[str, int]
    """How many games each agent gave up; those who gave up none are left out."""


def overview(games: Sequence[GameRecord]) -> Overview:
    """Count games, different ones, first agents' results and forfeits."""
    forfeits = Counter(game.last_mover for game in games if game.actions[-1:] == (FORFEIT,))
    results = [game.result for game in games]
    moving_first = Score(results.count(1), results.count(0), results.count(-1))
    return Overview(
        len(games), len(distinct_games(games)), moving_first, dict(sorted(forfeits.items()))
    )


def pair_results(games: Sequence[GameRecord]) -> list[PairResult]:
    """Return the results of every pair that met, in alphabetical order."""
    pairs: dict[tuple[str, str], list[GameRecord]] = {}
    for game in games:
        pairs.setdefault((min(game[1:3]), max(game[1:3])), []).append(game)
    return [pair_result(*names, met) for names, met in sorted(pairs.items())]


def pair_result(first: str, second: str, games: Sequence[GameRecord]) -> PairResult:
    """Return the result of a pair's games from the view of `first`."""
    distinct = distinct_games(games)
    led = sum(game.first == first for game in distinct)
    return PairResult(first, second, score_of(first, games), score_of(first, distinct), led)


def cross_table(agents: Sequence[str], pairs: Sequence[PairResult]) -> Floats:
    """Return float64[n, n]: points per game of agent i against j, NaN where they have not met."""
    number = {name: i for i, name in enumerate(agents)}
    table = np.full((len(agents), len(agents)), np.nan)
    for pair in pairs:
        i, j = number[pair.first], number[pair.second]
        table[i, j], table[j, i] = pair.score.score_rate, 1.0 - pair.score.score_rate
    return table
