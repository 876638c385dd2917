"""Results of games: scores, distinct games, counts by pair, and synthetic tournaments.

Deterministic players repeat their games, and a repeated game is no new evidence of strength. So
ratings, likelihoods of superiority and sequential tests use distinct games: of those with the same
players, colours and actions only the first one counts.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from zerolab.core.errors import UserError
from zerolab.report.interval import Z95, wilson


class Score(NamedTuple):
    """The result of a match for one side."""

    wins: int
    draws: int
    losses: int

    @property
    def games(self) -> int:
        """The number of games."""
        return sum(self)

    @property
    def score_rate(self) -> float:
        """Points per game, a draw counting half; 0.5 without games."""
        return (self.wins + 0.5 * self.draws) / self.games if self.games else 0.5

    def interval(self, z: float = Z95) -> tuple[float, float]:
        """Return Wilson's interval of the score rate, 95 % by default.

        It assumes independent games: of a match, use the score of the distinct games
        (`distinct_games`).
        """
        return wilson(self.score_rate, self.games, z)


IntMatrix = NDArray[np.int64]


class RatedGame(Protocol):
    """A finished game as ratings read it, such as a `zerolab.store.games.GameRecord`."""

    @property
    def first(self) -> str:
        """The player who moved first."""

    @property
    def second(self) -> str:
        """The player who moved second."""

    @property
    def actions(self) -> Hashable:
        """The moves, which identify repeated games; None if unknown."""

    @property
    def result(self) -> int:
        """1, 0 or -1 for the player who moved first."""


class GameResult(NamedTuple):
    """The result of a game, as from a PGN file."""

    first: str
    second: str
    result: int
    actions: Hashable = None


GameT = TypeVar("GameT", bound=RatedGame)


def distinct_games(games: Iterable[GameT]) -> list[GameT]:
    """Return the games without repetitions, in their order.

    Games with the same first player, second player and actions count once. Games with unknown
    actions all count.
    """
    seen: set[Hashable] = set()
    kept = []
    for game in games:
        key = identity(game)
        if key is None or key not in seen:
            seen.add(key)
            kept.append(game)
    return kept


def identity(game: RatedGame) -> Hashable:
    """Return a key shared by a game and its repetitions; None where actions are unknown."""
    return None if game.actions is None else (game.first, game.second, game.actions)


def outcome_for(player: str, game: RatedGame) -> int:
    """Return 1, 0 or -1 for a player of the game."""
    return game.result if game.first == player else -game.result


def score_of(player: str, games: Iterable[RatedGame]) -> Score:
    """Return the score of a player in its games, repeated ones included."""
    own = [outcome_for(player, game) for game in games]
    return Score(own.count(1), own.count(0), own.count(-1))


class Tally(NamedTuple):
    """Results counted by ordered pair: entry [i, j] counts games in which i moved first."""

    players: tuple[str, ...]
    wins: IntMatrix
    """int64[n, n]: games that the first player won."""
    draws: IntMatrix
    """int64[n, n]: games that were drawn."""
    losses: IntMatrix
    """int64[n, n]: games that the first player lost."""

    @property
    def meetings(self) -> IntMatrix:
        """int64[n, n], symmetric: games between two players in either order."""
        played = self.wins + self.draws + self.losses
        return played + played.T


_MAX_PLAYERS = 1_000
"""Ratings of that many take 150 MB and two seconds; time grows with the cube of the number."""


def tally(games: Iterable[RatedGame]) -> Tally:
    """Count results, including those of repeated games; players are in alphabetical order.

    Games of a player against itself are left out. Raises ValueError for a result other than 1, 0
    and -1, UserError for more than 1,000 players.
    """
    between = [game for game in games if game.first != game.second]
    players = tuple(sorted({name for game in between for name in (game.first, game.second)}))
    if len(players) > _MAX_PLAYERS:
        raise UserError(
            f"the games are of {len(players):,} players: expected at most {_MAX_PLAYERS:,}, since"
            " every pair of them is compared"
        )
    number = {name: i for i, name in enumerate(players)}
    pairs = np.array([(number[game.first], number[game.second]) for game in between], np.int64)
    results = np.array([game.result for game in between], np.int64)
    if not np.isin(results, (1, 0, -1)).all():
        raise ValueError("a result is 1, 0 or -1")
    wins, draws, losses = (
        _count(len(players), pairs.reshape(-1, 2)[results == each]) for each in (1, 0, -1)
    )
    return Tally(players, wins, draws, losses)


def _count(players: int, pairs: NDArray[np.int64]) -> IntMatrix:
    cells = np.bincount(pairs[:, 0] * players + pairs[:, 1], minlength=players * players)
    return cells.reshape(players, players).astype(np.int64)


def connected_groups(counted: Tally) -> list[list[str]]:
    """Return the groups of players connected by games, the largest first."""
    meetings = counted.meetings
    left = set(range(len(counted.players)))
    found: list[list[str]] = []
    while left:
        reached = frontier = {min(left)}
        while frontier:
            met = set(np.flatnonzero(meetings[sorted(frontier)].any(axis=0)).tolist())
            frontier = met - reached
            reached = reached | frontier
        left -= reached
        found.append([counted.players[i] for i in sorted(reached)])
    return sorted(found, key=len, reverse=True)


def require_comparable(counted: Tally) -> None:
    """Raise UserError unless games connect all players, at least two."""
    if not counted.players:
        raise UserError("no finished game between two players: expected at least one")
    separate = connected_groups(counted)
    if len(separate) > 1:
        named = "; ".join(_list_names(group) for group in separate)
        raise UserError(
            f"the players are in {len(separate)} groups without a game between them, so they"
            f" cannot be compared: {named}"
        )


_MAX_NAMES = 5
"""Players of a group that an error names."""


def _list_names(group: list[str]) -> str:
    others = len(group) - _MAX_NAMES
    return ", ".join(group[:_MAX_NAMES]) + (f" and {others} more" if others > 0 else "")


def synthetic_tournament(
    random: np.random.Generator,
    players: int,
    games: int,
    spread: float = 200.0,
    advantage: float = 35.0,
    draw_elo: float = 97.3,
) -> tuple[dict[str, float], list[GameResult]]:
    """Draw normal strengths, their mean 0, and the results of an even number of games per pair.

    Results follow the model of `zerolab.ratings.bayes`. Returns the Elo of every player, and the
    results.
    """
    strengths = random.normal(0.0, spread, players)
    strengths -= strengths.mean()
    first, second = np.nonzero(~np.eye(players, dtype=bool))
    first, second = (np.repeat(side, games // 2) for side in (first, second))
    lead = strengths[first] - strengths[second] + advantage
    wins = 1 / (1 + 10 ** ((draw_elo - lead) / 400))
    losses = 1 / (1 + 10 ** ((draw_elo + lead) / 400))
    drawn = random.random(len(lead))
    outcomes = np.where(drawn < wins, 1, np.where(drawn < wins + losses, -1, 0))
    names = [f"player {i}" for i in range(players)]
    results = [
        GameResult(names[i], names[j], outcome)
        for i, j, outcome in zip(first, second, outcomes.tolist(), strict=True)
    ]
    return dict(zip(names, strengths.tolist(), strict=True)), results
