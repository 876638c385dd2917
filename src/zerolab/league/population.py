"""Population of a league: parameters, ratings, pairing and reproduction."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from zerolab.core import streams
from zerolab.core.compiled import kernel
from zerolab.league.league_settings import LeagueSettings
from zerolab.play.game_files import ReachedPositions

NO_PARENT = -1
"""Parent number of players in the first generation."""
COLUMN_NAMES = ("values", "sigmas", "ratings", "games", "points", "generations", "parents")
"""Arrays of a `Population` with one row per player."""
_INTEGERS = ("games", "generations", "parents")

_MIN_GAMES = 20
"""Number of games before a rating is trusted, since children begin with a parent's rating."""


@dataclass
class Population:
    """All P past and active players of a league, with n parameters each."""

    values: NDArray[np.float64]
    """float64[P, n]: parameters, in the order of `LeagueSettings.parameters`."""
    sigmas: NDArray[np.float64]
    """float64[P, n]: standard deviations of the mutations of each player's children."""
    ratings: NDArray[np.float64]
    """float64[P]: Elo ratings."""
    games: NDArray[np.int64]
    """int64[P]: number of games."""
    points: NDArray[np.float64]
    """float64[P]: wins plus half of the draws."""
    generations: NDArray[np.int64]
    """int64[P]: generation of each player, from 0."""
    parents: NDArray[np.int64]
    """int64[P]: number of the parent, NO_PARENT for the first players."""
    active: list[NDArray[np.int64]] = field(default_factory=list)
    """Numbers of the active players of each generation, in descending order of rating."""

    @property
    def generation(self) -> int:
        """Number of the newest generation."""
        return len(self.active) - 1

    def newest_players(self) -> NDArray[np.int64]:
        """Return the numbers of the players in the newest generation."""
        return np.flatnonzero(self.generations == self.generation)


def check_population(population: Population, parameter_count: int) -> None:
    """Raise ValueError if the arrays of a population do not fit together.

    The file with the arrays may come from an unknown source.
    """
    count, generations = len(population.ratings), len(population.active)
    for name in COLUMN_NAMES:
        column = getattr(population, name)
        is_matrix = name in ("values", "sigmas")
        if column.shape != ((count, parameter_count) if is_matrix else (count,)):
            raise ValueError(f"{name} has the shape {column.shape}")
        if column.dtype != (np.int64 if name in _INTEGERS else np.float64):
            raise ValueError(f"{name} has the type {column.dtype}")
        if not np.isfinite(column).all():
            raise ValueError(f"{name} is not finite")
    for active in population.active:
        numbers = np.unique(active)
        if active.dtype != np.int64:
            raise ValueError(f"active has the type {active.dtype}")
        if len(numbers) < max(2, len(active)) or numbers[0] < 0 or numbers[-1] >= count:
            raise ValueError("its active players are not distinct players")
    ages = population.generations
    if not generations or ages.min() < 0 or ages.max() != generations - 1:
        raise ValueError("its generations do not match its active players")
    parents = population.parents
    if population.games.min() < 0 or parents.min() < NO_PARENT or parents.max() >= count:
        raise ValueError("its games or parents are out of range")


def first_generation(settings: LeagueSettings) -> Population:
    """Return the first generation, with uniformly distributed parameters and sigmas.

    Sigmas are at most half of the parameter range. [Clausen2021] uses the same distributions.
    """
    low, span = range_starts_and_lengths(settings)
    count = settings.active
    draws = np.array([_generator(settings, n).random((2, len(low))) for n in range(count)])
    return Population(
        low + span * draws[:, 0],
        0.5 * span * draws[:, 1],
        np.full(count, settings.first_rating),
        np.zeros(count, np.int64),
        np.zeros(count),
        np.zeros(count, np.int64),
        np.full(count, NO_PARENT),
        [np.arange(count)],
    )


def next_generation(players: Population, settings: LeagueSettings) -> Population:
    """Return the population with a new generation of mutated children of the best players.

    Children inherit the ratings of their parents. The new active players are those with the highest
    ratings; ties go to younger players.
    """
    best = _ranked(players.ratings)[: settings.parents]
    parents = np.repeat(best, settings.children)
    first = len(players.ratings)
    mutants = [
        mutate(players.values[parent], players.sigmas[parent], settings, first + child)
        for child, parent in enumerate(parents.tolist())
    ]
    count = len(parents)
    ratings = np.concatenate([players.ratings, players.ratings[parents]])
    return Population(
        np.concatenate([players.values, [values for values, _ in mutants]]),
        np.concatenate([players.sigmas, [sigmas for _, sigmas in mutants]]),
        ratings,
        np.concatenate([players.games, np.zeros(count, np.int64)]),
        np.concatenate([players.points, np.zeros(count)]),
        np.concatenate([players.generations, np.full(count, players.generation + 1)]),
        np.concatenate([players.parents, parents]),
        [*players.active, _ranked(ratings)[: settings.active]],
    )


def mutate(
    values: NDArray[np.float64], sigmas: NDArray[np.float64], settings: LeagueSettings, number: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the mutated parameters and sigmas, float64[n] each, of child `number`.

    Self-adaptive Gaussian mutation [Baeck1993], as in [Clausen2021]: sigma_i' = sigma_i * exp(tau_0
    * N + tau * N_i) with tau_0 = 1 / sqrt(2n) and tau = 1 / sqrt(2 * sqrt(n)); x_i' = x_i +
    sigma_i' * N'_i, wrapped around the range of x_i.
    """
    low, span = range_starts_and_lengths(settings)
    n = len(values)
    draws = _generator(settings, number).standard_normal(2 * n + 1)
    common = draws[0] / math.sqrt(2 * n)
    specific = draws[1 : n + 1] / math.sqrt(2 * math.sqrt(n))
    new_sigmas = sigmas * np.exp(common + specific)
    new_values = values + new_sigmas * draws[n + 1 :]
    return low + np.mod(new_values - low, span), new_sigmas


def range_starts_and_lengths(
    settings: LeagueSettings,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the lower ends and the lengths of the parameter ranges, float64[n] each."""
    ends = np.array([getattr(settings.ranges, name) for name in settings.parameters])
    return ends[:, 0], ends[:, 1] - ends[:, 0]


def draw_pairs(players: Population, settings: LeagueSettings, numbers: range) -> NDArray[np.int64]:
    """Return the first and second players of the games with the given numbers, int64[games, 2].

    One player is drawn from the newest generation, the other from all active players, and the
    colours are random. A pair depends only on the seed, the game number and the set of active
    players. [Clausen2021] does not specify how players are paired.
    """
    pairs = np.empty((len(numbers), 2), np.int64)
    games = np.array(numbers)
    keys = streams.stream_keys(settings.seed, 0, games, np.zeros_like(games), streams.LEAGUE_PAIR)
    _draw_pairs(keys, players.newest_players(), players.active[-1], pairs)
    return pairs


@kernel
def _draw_pairs(keys, newest_players, active, pairs):
    for i in range(keys.shape[0]):
        key = keys[i]
        one = newest_players[
            streams.random_below(streams.random_bits(key, 0), newest_players.shape[0])
        ]
        other = one
        attempt = 1
        while other == one:
            other = active[streams.random_below(streams.random_bits(key, attempt), active.shape[0])]
            attempt += 1
        side = streams.random_below(streams.random_bits(key, attempt), 2)
        pairs[i, side] = one
        pairs[i, 1 - side] = other


def ranking(players: Population) -> NDArray[np.int64]:
    """Return the active players in descending order of rating, int64[active].

    Players with fewer than 20 games come after all others, and players without games last. Ties,
    which are common because ratings are inherited, go to the player with more games.
    """
    active = players.active[-1]
    games = players.games[active]
    experience = np.where(games == 0, 2, games < _MIN_GAMES)
    return active[np.lexsort((-active, -games, -players.ratings[active], experience))]


def _ranked(ratings: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return player numbers in descending order of rating; ties go to younger players."""
    return np.lexsort((-np.arange(len(ratings)), -ratings))


def _generator(settings: LeagueSettings, number: int) -> np.random.Generator:
    return streams.numpy_generator(settings.seed, number, streams.LEAGUE_PLAYER)


_SCALE = 400.0  # Elo difference at which the expected scores have a ratio of 10


def rate_by_results(
    players: Population,
    settings: LeagueSettings,
    pairs: NDArray[np.int64],
    results: NDArray[np.int8],
) -> None:
    """Update ratings in place with the results of games, in order.

    `pairs`, int64[games, 2], are the players, and `results`, int8[games], are from the first
    players' point of view.
    """
    for (first, second), result in zip(pairs.tolist(), results.tolist(), strict=True):
        _update(players, settings, first, second, (1 + result) / 2)


def rate_by_novelty(
    players: Population,
    settings: LeagueSettings,
    pairs: NDArray[np.int64],
    credits: NDArray[np.int64],
) -> None:
    """Update ratings in place with credits for new positions, int64[games, 2].

    New positions become rarer as a league progresses, so credits are not comparable over time.
    Therefore, games 2j and 2j + 1 are compared only with each other: their first players play a
    virtual game, which the player with more credit wins, and their second players play another. The
    number of games must be even.
    """
    for game in range(0, len(pairs), 2):
        for side in range(2):
            one, other = int(pairs[game, side]), int(pairs[game + 1, side])
            difference = int(credits[game, side]) - int(credits[game + 1, side])
            if one != other:
                _update(players, settings, one, other, (1 + np.sign(difference)) / 2)


def update_totals(players: Population, pairs: NDArray[np.int64], results: NDArray[np.int8]) -> None:
    """Add games and points to the totals of the players, in place."""
    np.add.at(players.games, pairs, 1)
    points = (1 + results) / 2
    np.add.at(players.points, pairs, np.stack([points, 1 - points], axis=1))


def _update(
    players: Population, settings: LeagueSettings, one: int, other: int, score: float
) -> None:
    """Update two ratings in place with the score of player `one`, using Elo's formula [Elo1978]."""
    ratings = players.ratings
    expected = 1.0 / (1.0 + 10.0 ** ((ratings[other] - ratings[one]) / _SCALE))
    change = settings.gain * (score - expected)
    ratings[one] += change
    ratings[other] -= change


def count_new_positions(
    positions: ReachedPositions, games: int, seen: NDArray[np.uint64]
) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Return the number of new positions per game, int64[games], and the updated `seen`.

    `positions` are the positions of the games; the first game must have an even number. `seen`,
    uint64[S], are the sorted hashes of the positions in all earlier games. Games 2j and 2j + 1 are
    compared with each other, so a new position that both reach counts for both.
    """
    hashes, indices = np.unique(positions.hashes, return_inverse=True)
    at = np.searchsorted(seen, hashes)  # `seen` is much larger than `hashes`
    unseen = np.append(seen, np.uint64(0))[at] != hashes
    unseen |= at == len(seen)
    game_pairs = positions.game_indices // 2
    earliest = np.full(len(hashes), games, game_pairs.dtype)
    np.minimum.at(earliest, indices, game_pairs)
    is_new = unseen[indices] & (game_pairs == earliest[indices])
    keys = np.unique(positions.game_indices[is_new] * len(hashes) + indices[is_new])
    counts = np.bincount(keys // max(1, len(hashes)), minlength=games)
    return counts, np.insert(seen, at[unseen], hashes[unseen])


def novelty_credits(
    counts: NDArray[np.int64], results: NDArray[np.int8], winner_only: bool
) -> NDArray[np.int64]:
    """Return credits for new positions, int64[games, 2], for both players or only the winner."""
    both = np.repeat(counts[:, None], 2, axis=1)
    if not winner_only:
        return both
    return both * np.stack([results > 0, results < 0], axis=1)
