"""Game results: scores, effective numbers of games, counts by pair, and synthetic tournaments.

Deterministic players repeat their games, and a repeated game adds no evidence of strength. All
games determine scores and ratings, but intervals, likelihoods of superiority and sequential tests
use the effective number of games, which is the effective sample size [Kish1965]: the number of
independent games with the same information. docs/decisions/0100-repeated-games.md explains the
choice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from zerolab.core.errors import UserError
from zerolab.report.table import Z95, Interval, wilson_interval


class MatchScore(NamedTuple):
    """Result of a match from the point of view of one player."""

    wins: int
    draws: int
    losses: int

    @property
    def game_count(self) -> int:
        """Number of games."""
        return sum(self)

    @property
    def score_rate(self) -> float:
        """Points per game; a draw counts half. 0.5 if there are no games."""
        return (self.wins + 0.5 * self.draws) / self.game_count if self.game_count else 0.5

    def interval(self, effective_games: float, z: float = Z95) -> Interval:
        """Return the score rate with its Wilson interval, at 95 % by default.

        `effective_games` is the effective number of games; see `EffectiveScore`.
        """
        return wilson_interval(self.score_rate, effective_games, z)


class EffectiveScore(NamedTuple):
    """Effective numbers of won, drawn and lost games [Kish1965].

    The effective number for N games is N^2 / sum(c^2), where the sum is over the distinct games and
    c is the number of games with the same players, colours, actions and result. If identical games
    count as a single observation, the variance of the mean result is that of N^2 / sum(c^2)
    independent games. Without repetitions, the number equals N; n distinct games, each repeated
    equally often, count as n. Games with unknown actions count as different.
    """

    wins: float
    draws: float
    losses: float

    def total(self, score: MatchScore) -> float:
        """Return the effective number of all games, whose score is `score`."""
        return combined_effective_games(score, self)

    def decisive(self, score: MatchScore) -> float:
        """Return the effective number of decisive games; `score` is the score of all games."""
        return combined_effective_games(score[::2], self[::2])


def combined_effective_games(counts: Sequence[int], effective: Sequence[float]) -> float:
    """Return the effective number of games in the union of disjoint sets of games.

    `counts` and `effective` are the number and the effective number of games in each set.
    """
    squares = sum(n * n / each for n, each in zip(counts, effective, strict=True) if n)
    return sum(counts) ** 2 / squares if squares else 0.0


Matrix = NDArray[np.float64]


class RatedGame(Protocol):
    """A finished game, such as a `zerolab.store.games.GameRecord`."""

    @property
    def first(self) -> str:
        """Name of the player who moved first."""

    @property
    def second(self) -> str:
        """Name of the player who moved second."""

    @property
    def actions(self) -> Hashable:
        """Moves of the game, which identify repeated games; None if unknown."""

    @property
    def result(self) -> int:
        """Result for the player who moved first: 1, 0 or -1."""


class GameResult(NamedTuple):
    """Result of a game, with its moves if they are known; the moves in PGN files are not read."""

    first: str
    """Name of the player who moved first."""
    second: str
    """Name of the player who moved second."""
    result: int
    """Result for the player who moved first: 1, 0 or -1."""
    actions: Hashable = None
    """Moves of the game, which identify repeated games; None if unknown."""


_GameT = TypeVar("_GameT", bound=RatedGame)


def distinct_games(games: Iterable[_GameT]) -> list[_GameT]:
    """Return the games in order, without repetitions.

    Of games with the same players, colours, actions and result, only the first is returned.
    Games with unknown actions are all returned.
    """
    keys: set[Hashable] = set()
    distinct = []
    for game in games:
        key = repetition_key(game)
        if key is None or key not in keys:
            keys.add(key)
            distinct.append(game)
    return distinct


def repetition_key(game: RatedGame) -> Hashable:
    """Return a key shared by a game and its repetitions; None if its actions are unknown.

    Games with the same moves differ if one ended early, for example by resignation.
    """
    return None if game.actions is None else (game.first, game.second, game.actions, game.result)


def effective_game_count(games: Iterable[RatedGame]) -> float:
    """Return the effective number of games; see `EffectiveScore`."""
    played = list(games)
    squares = sum(_squared_repetitions(played).values())
    return len(played) ** 2 / squares if squares else 0.0


def effective_score_of(player: str, games: Iterable[RatedGame]) -> EffectiveScore:
    """Return the effective numbers of games that a player won, drew and lost.

    The player must have played in all `games`.
    """
    played = list(games)
    squares: Counter[int] = Counter()
    for (first, _, result), square in _squared_repetitions(played).items():
        squares[result if first == player else -result] += square
    score = score_of(player, played)
    return EffectiveScore(
        *(
            n * n / squares[outcome] if n else 0.0
            for n, outcome in zip(score, (1, 0, -1), strict=True)
        )
    )


def _squared_repetitions(games: Iterable[RatedGame]) -> Counter[tuple[str, str, int]]:
    """Return the sum of c^2 over the distinct games, by players and result.

    c is the number of times that the distinct game was played.
    """
    repetitions: Counter[Hashable] = Counter()
    squares: Counter[tuple[str, str, int]] = Counter()
    for game in games:
        key = repetition_key(game)
        earlier = repetitions[key] if key is not None else 0
        squares[game.first, game.second, game.result] += 2 * earlier + 1  # (c + 1)^2 - c^2
        repetitions[key] += 1
    return squares


def outcome_for(player: str, game: RatedGame) -> int:
    """Return the result of a game for one of its players: 1, 0 or -1."""
    return game.result if game.first == player else -game.result


def score_of(player: str, games: Iterable[RatedGame]) -> MatchScore:
    """Return the score of a player over `games`, in all of which it must have played."""
    outcomes = [outcome_for(player, game) for game in games]
    return MatchScore(outcomes.count(1), outcomes.count(0), outcomes.count(-1))


class Tally(NamedTuple):
    """Results counted by ordered pair: entry [i, j] counts games in which i moved first.

    Counts can be fractions: ratings scale them to effective numbers of games.
    """

    players: tuple[str, ...]
    wins: Matrix
    """float64[n, n]: wins of the first player."""
    draws: Matrix
    """float64[n, n]: drawn games."""
    losses: Matrix
    """float64[n, n]: losses of the first player."""

    @property
    def game_counts(self) -> Matrix:
        """Symmetric float64[n, n]: games between two players in either order."""
        played = self.wins + self.draws + self.losses
        return played + played.T


_MAX_PLAYERS = 1_000
"""Largest number of players that can be rated.

Rating 1,000 players takes 150 MB and two seconds; the time grows with the cube of the number.
"""


def tally(games: Iterable[RatedGame]) -> Tally:
    """Count results by pair, including repeated games; players are in alphabetical order.

    Games of a player against itself are ignored. Raises ValueError for results other than 1, 0
    and -1, and UserError for more than 1,000 players.
    """
    played = [game for game in games if game.first != game.second]
    players = tuple(sorted({name for game in played for name in (game.first, game.second)}))
    n = len(players)
    if n > _MAX_PLAYERS:
        raise UserError(
            f"{n:,} players: expected at most {_MAX_PLAYERS:,}, since rating compares every pair"
        )
    index = {name: i for i, name in enumerate(players)}
    first = np.array([index[game.first] for game in played], np.int64)
    second = np.array([index[game.second] for game in played], np.int64)
    results = np.array([game.result for game in played], np.int64)
    if not np.isin(results, (1, 0, -1)).all():
        raise ValueError("expected results of 1, 0 or -1")
    cells = ((1 - results) * n + first) * n + second
    counts = np.bincount(cells, minlength=3 * n * n).astype(np.float64).reshape(3, n, n)
    return Tally(players, *counts)


def effective_games_by_pair(counts: Tally, games: Iterable[RatedGame]) -> Matrix:
    """Return symmetric float64[n, n]: the effective number of games between two players.

    `counts` is the tally of the same games.
    """
    index = {name: i for i, name in enumerate(counts.players)}
    squares = np.zeros_like(counts.wins)
    for (first, second, _), square in _squared_repetitions(games).items():
        if first != second:
            squares[index[first], index[second]] += square
    return counts.game_counts**2 / np.maximum(squares + squares.T, 1.0)


def tally_of_scores(scores: Mapping[tuple[str, str], MatchScore]) -> Tally:
    """Return counts by pair from the scores of first players against second players."""
    players = tuple(sorted({name for pair in scores for name in pair}))
    index = {name: i for i, name in enumerate(players)}
    counts = np.zeros((3, len(players), len(players)))
    for (first, second), score in scores.items():
        counts[:, index[first], index[second]] = score
    return Tally(players, *counts)


def connected_groups(game_tally: Tally) -> list[list[str]]:
    """Return the groups of players connected by games, largest first."""
    game_counts = game_tally.game_counts
    remaining = set(range(len(game_tally.players)))
    groups: list[list[str]] = []
    while remaining:
        group = frontier = {min(remaining)}
        while frontier:
            opponents = set(np.flatnonzero(game_counts[sorted(frontier)].any(axis=0)).tolist())
            frontier = opponents - group
            group = group | frontier
        remaining -= group
        groups.append([game_tally.players[i] for i in sorted(group)])
    return sorted(groups, key=len, reverse=True)


_MAX_NAMES = 5
"""Largest number of players per group that an error message lists."""


def require_comparable(game_tally: Tally) -> None:
    """Raise UserError unless there are at least two players and games connect all of them."""
    if not game_tally.players:
        raise UserError("no finished game between two players: expected at least one")
    groups = connected_groups(game_tally)
    if len(groups) > 1:
        listed = []
        for group in groups:
            others = len(group) - _MAX_NAMES
            more = f" and {others} more" if others > 0 else ""
            listed.append(", ".join(group[:_MAX_NAMES]) + more)
        raise UserError(
            f"the players cannot be compared, since they form {len(groups)} groups without a game"
            f" between them: {'; '.join(listed)}"
        )


def synthetic_tournament(
    random: np.random.Generator,
    players: int,
    games: int,
    spread: float = 200.0,
    advantage: float = 35.0,
    draw_elo: float = 97.3,
) -> tuple[dict[str, float], list[GameResult]]:
    """Return random strengths in Elo, by player, and random results of a round robin.

    Strengths are normal with standard deviation `spread`, shifted to a mean of 0. Results follow
    the model of `zerolab.ratings.bayes` with the first-move advantage `advantage` and the draw
    parameter `draw_elo`, both in Elo. Every pair plays `games` games, half with each colour;
    `games` must be even.
    """
    strengths = random.normal(0.0, spread, players)
    strengths -= strengths.mean()
    first, second = np.nonzero(~np.eye(players, dtype=bool))
    first, second = (np.repeat(side, games // 2) for side in (first, second))
    lead = strengths[first] - strengths[second] + advantage
    wins = 1 / (1 + 10 ** ((draw_elo - lead) / 400))
    losses = 1 / (1 + 10 ** ((draw_elo + lead) / 400))
    uniform = random.random(len(lead))
    outcomes = np.where(uniform < wins, 1, np.where(uniform < wins + losses, -1, 0))
    names = [f"player {i}" for i in range(players)]
    results = [
        GameResult(names[i], names[j], outcome)
        for i, j, outcome in zip(first, second, outcomes.tolist(), strict=True)
    ]
    return dict(zip(names, strengths.tolist(), strict=True)), results
