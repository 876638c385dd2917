"""What games do to ratings: their results, or how many new positions they have reached."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from zerolab.league.players import Players
from zerolab.league.settings import LeagueSettings
from zerolab.play.reached import Reached

_SCALE = 400.0  # Elo by which a player scores ten times as much as the other one


def rate_results(
    players: Players, settings: LeagueSettings, met: NDArray[np.int64], results: NDArray[np.int8]
) -> None:
    """Update ratings, in place, by games in their order.

    `met` int64[games, 2] played them, `results` int8[games] are those of the first players.
    """
    for (first, second), result in zip(met.tolist(), results.tolist(), strict=True):
        _update(players, settings, first, second, (1 + result) / 2)


def rate_novelty(
    players: Players, settings: LeagueSettings, met: NDArray[np.int64], credits: NDArray[np.int64]
) -> None:
    """Update ratings, in place, by credits int64[games, 2] for new positions; games are even.

    New positions become fewer as a league goes on, so that means of players who played at other
    times cannot be compared. Hence games 2j and 2j + 1 are compared: their first players play a
    virtual match that the one with more credit wins, and so do their second players.
    """
    for game in range(0, len(met), 2):
        for side in range(2):
            one, other = int(met[game, side]), int(met[game + 1, side])
            difference = int(credits[game, side]) - int(credits[game + 1, side])
            if one != other:
                _update(players, settings, one, other, (1 + np.sign(difference)) / 2)


def count_games(players: Players, met: NDArray[np.int64], results: NDArray[np.int8]) -> None:
    """Add games and points to the players' records."""
    np.add.at(players.games, met, 1)
    points = (1 + results) / 2
    np.add.at(players.points, met, np.stack([points, 1 - points], axis=1))


def _update(players: Players, settings: LeagueSettings, one: int, other: int, score: float) -> None:
    """Update two ratings by the first one's score: Elo's formula [Elo1978]."""
    ratings = players.ratings
    expected = 1.0 / (1.0 + 10.0 ** ((ratings[other] - ratings[one]) / _SCALE))
    change = settings.gain * (score - expected)
    ratings[one] += change
    ratings[other] -= change


def new_positions(
    found: Reached, games: int, seen: NDArray[np.uint64]
) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Return how many new positions games have reached, int64[games], and all seen by then.

    `found` are their positions, and the first of these games has an even number. `seen` uint64[S]
    are the sorted hashes of those of all games before. Games 2j and 2j + 1, which are compared, do
    not make each other's positions old.
    """
    known, places = np.unique(found.hashes, return_inverse=True)
    at = np.searchsorted(seen, known)  # seen has many times as many
    unknown = np.append(seen, np.uint64(0))[at] != known
    unknown |= at == len(seen)
    couples = found.games // 2
    earliest = np.full(len(known), games, couples.dtype)
    np.minimum.at(earliest, places, couples)
    is_new = unknown[places] & (couples == earliest[places])
    newly = np.unique(found.games[is_new] * len(known) + places[is_new]) // max(1, len(known))
    counts = np.bincount(newly, minlength=games)
    return counts, np.insert(seen, at[unknown], known[unknown])


def credits(
    counts: NDArray[np.int64], results: NDArray[np.int8], winner_alone: bool
) -> NDArray[np.int64]:
    """Return who is credited with a game's new positions: both, or the winner; int64[games, 2]."""
    both = np.repeat(counts[:, None], 2, axis=1)
    if not winner_alone:
        return both
    return both * np.stack([results > 0, results < 0], axis=1)
