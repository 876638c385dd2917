"""The population of a league: parameters, ratings, pairing and reproduction."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from zerolab.core import streams
from zerolab.core.compiled import kernel
from zerolab.league.league_settings import LeagueSettings
from zerolab.play.game_files import ReachedPositions

NOBODY = -1
"""The parent of the first players."""

_MIN_GAMES = 20
"""Games that a player, who inherits its rating, needs before it can be the best."""


@dataclass
class Population:
    """All players of a league, past and active, by number: P of them with n parameters each."""

    values: NDArray[np.float64]
    """float64[P, n]: the parameters, in the order of `LeagueSettings.parameters`."""
    sigmas: NDArray[np.float64]
    """float64[P, n]: standard deviations of their children's mutations."""
    ratings: NDArray[np.float64]
    """float64[P]: Elo."""
    games: NDArray[np.int64]
    """int64[P]"""
    points: NDArray[np.float64]
    """float64[P]: wins and half the draws."""
    generations: NDArray[np.int64]
    """int64[P]: counted from 0."""
    parents: NDArray[np.int64]
    """int64[P]: the number of the parent, NOBODY for the first players."""
    active: list[NDArray[np.int64]] = field(default_factory=list)
    """Numbers of the active players of each generation so far, the highest rating first."""

    @property
    def generation(self) -> int:
        """The number of the newest generation."""
        return len(self.active) - 1

    def newest(self) -> NDArray[np.int64]:
        """Return the numbers of the players of the newest generation."""
        return np.flatnonzero(self.generations == self.generation)


def first_generation(settings: LeagueSettings) -> Population:
    """Return the first generation: parameters uniform in their ranges, sigmas up to half of them.

    [Clausen2021] draws both so.
    """
    low, span = ranges(settings)
    count = settings.active
    draws = np.array([_generator(settings, n).random((2, len(low))) for n in range(count)])
    return Population(
        low + span * draws[:, 0],
        0.5 * span * draws[:, 1],
        np.full(count, settings.first_rating),
        np.zeros(count, np.int64),
        np.zeros(count),
        np.zeros(count, np.int64),
        np.full(count, NOBODY),
        [np.arange(count)],
    )


def next_generation(players: Population, settings: LeagueSettings) -> Population:
    """Return the population with a new generation: mutants of the best, who inherit ratings.

    The active ones are then those with the highest ratings; of equal ones the younger come first.
    """
    best = _ranked(players.ratings)[: settings.parents]
    parents = np.repeat(best, settings.children)
    first = len(players.ratings)
    born = [
        mutant(players.values[parent], players.sigmas[parent], settings, first + child)
        for child, parent in enumerate(parents.tolist())
    ]
    count = len(parents)
    ratings = np.concatenate([players.ratings, players.ratings[parents]])
    return Population(
        np.concatenate([players.values, [values for values, _ in born]]),
        np.concatenate([players.sigmas, [sigmas for _, sigmas in born]]),
        ratings,
        np.concatenate([players.games, np.zeros(count, np.int64)]),
        np.concatenate([players.points, np.zeros(count)]),
        np.concatenate([players.generations, np.full(count, players.generation + 1)]),
        np.concatenate([players.parents, parents]),
        [*players.active, _ranked(ratings)[: settings.active]],
    )


def mutant(
    values: NDArray[np.float64], sigmas: NDArray[np.float64], settings: LeagueSettings, number: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the parameters and sigmas, float64[n] each, of the child `number`.

    Self-adaptive Gaussian mutation [Baeck1993], as in [Clausen2021]: sigma_i' = sigma_i * exp(tau_0
    * N + tau * N_i) with tau_0 = 1 / sqrt(2n) and tau = 1 / sqrt(2 * sqrt(n)); x_i' = x_i +
    sigma_i' * N'_i, wrapped around the range of x_i.
    """
    low, span = ranges(settings)
    n = len(values)
    draws = _generator(settings, number).standard_normal(2 * n + 1)
    common = draws[0] / math.sqrt(2 * n)
    own = draws[1 : n + 1] / math.sqrt(2 * math.sqrt(n))
    changed = sigmas * np.exp(common + own)
    moved = values + changed * draws[n + 1 :]
    return low + np.mod(moved - low, span), changed


def ranges(settings: LeagueSettings) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the lower ends and the lengths of the parameters' ranges, float64[n] each."""
    ends = np.array([getattr(settings.ranges, name) for name in settings.parameters])
    return ends[:, 0], ends[:, 1] - ends[:, 0]


def draw_pairs(players: Population, settings: LeagueSettings, numbers: range) -> NDArray[np.int64]:
    """Return the first and second players of games of the newest generation, int64[games, 2].

    One player is drawn from the newest generation, the other one from all that are active, and who
    begins by a coin. A pair depends on the game's number and on who is active alone. [Clausen2021]
    does not say how players are matched.
    """
    drawn = np.empty((len(numbers), 2), np.int64)
    games = np.array(numbers)
    keys = streams.streams(settings.seed, 0, games, np.zeros_like(games), streams.LEAGUE_PAIR)
    _draw_pairs(keys, players.newest(), players.active[-1], drawn)
    return drawn


@kernel
def _draw_pairs(keys, newest, active, drawn):
    for i in range(keys.shape[0]):
        key = keys[i]
        one = newest[streams.below(streams.bits(key, 0), newest.shape[0])]
        other = one
        attempt = 1
        while other == one:
            other = active[streams.below(streams.bits(key, attempt), active.shape[0])]
            attempt += 1
        side = streams.below(streams.bits(key, attempt), 2)
        drawn[i, side] = one
        drawn[i, 1 - side] = other


def ranking(players: Population) -> NDArray[np.int64]:
    """Return the active players by rating, int64[active].

    Those with few games come after all others, and those with none at the end. Of equal ratings,
    which mutants inherit, that of more games comes first.
    """
    active = players.active[-1]
    games = players.games[active]
    untried = np.where(games == 0, 2, games < _MIN_GAMES)
    return active[np.lexsort((-active, -games, -players.ratings[active], untried))]


def _ranked(ratings: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return players by rating; of equal ones the younger comes first."""
    return np.lexsort((-np.arange(len(ratings)), -ratings))


def _generator(settings: LeagueSettings, number: int) -> np.random.Generator:
    return streams.generator(settings.seed, number, streams.LEAGUE_PLAYER)


_SCALE = 400.0  # Elo by which a player scores ten times as much as the other one


def rate_results(
    players: Population, settings: LeagueSettings, met: NDArray[np.int64], results: NDArray[np.int8]
) -> None:
    """Update ratings, in place, by games in their order.

    `met` int64[games, 2] played them, `results` int8[games] are those of the first players.
    """
    for (first, second), result in zip(met.tolist(), results.tolist(), strict=True):
        _update(players, settings, first, second, (1 + result) / 2)


def rate_novelty(
    players: Population,
    settings: LeagueSettings,
    met: NDArray[np.int64],
    credits: NDArray[np.int64],
) -> None:
    """Update ratings, in place, by credits int64[games, 2] for new positions; games are even.

    New positions become rarer in the course of a league, so that means over different times are not
    comparable. Hence games 2j and 2j + 1 are compared: their first players play a virtual match,
    won by the one with more credit, and so do their second players.
    """
    for game in range(0, len(met), 2):
        for side in range(2):
            one, other = int(met[game, side]), int(met[game + 1, side])
            difference = int(credits[game, side]) - int(credits[game + 1, side])
            if one != other:
                _update(players, settings, one, other, (1 + np.sign(difference)) / 2)


def count_games(players: Population, met: NDArray[np.int64], results: NDArray[np.int8]) -> None:
    """Add games and points to the players' records."""
    np.add.at(players.games, met, 1)
    points = (1 + results) / 2
    np.add.at(players.points, met, np.stack([points, 1 - points], axis=1))


def _update(
    players: Population, settings: LeagueSettings, one: int, other: int, score: float
) -> None:
    """Update two ratings by the score of the first player: Elo's formula [Elo1978]."""
    ratings = players.ratings
    expected = 1.0 / (1.0 + 10.0 ** ((ratings[other] - ratings[one]) / _SCALE))
    change = settings.gain * (score - expected)
    ratings[one] += change
    ratings[other] -= change


def new_positions(
    found: ReachedPositions, games: int, seen: NDArray[np.uint64]
) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Return the number of new positions of each game, int64[games], and all positions seen.

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


def novelty_credits(
    counts: NDArray[np.int64], results: NDArray[np.int8], winner_alone: bool
) -> NDArray[np.int64]:
    """Return the credit for new positions, int64[games, 2]: for both players or the winner."""
    both = np.repeat(counts[:, None], 2, axis=1)
    if not winner_alone:
        return both
    return both * np.stack([results > 0, results < 0], axis=1)
