"""Simulated leagues whose results are drawn from a Bradley-Terry model."""

from __future__ import annotations

import numpy as np

from zerolab.league.league import LeagueState
from zerolab.league.league_settings import LeagueSettings
from zerolab.league.playing import random_move_probability
from zerolab.league.population import draw_pairs, first_generation

OPTIMUM = 0.7


def simulated_league(seed, strength, generations=20, **changes):
    """Return the settings and final state of a league with simulated results.

    `strength` maps parameters float64[N, n] to Elo ratings.
    """
    data = {"game": "none", "seed": seed, "parameters": ("check", "c"), **changes}
    settings = LeagueSettings.model_validate(data)
    state, random = LeagueState(first_generation(settings)), np.random.default_rng(seed)
    while numbers := state.next_game_numbers(settings, generations * settings.generation):
        pairs = draw_pairs(state.population, settings, numbers)
        elo = strength(state.population.values[pairs])
        expected = 1 / (1 + 10 ** ((elo[:, 1] - elo[:, 0]) / 400))
        won = random.random(len(pairs)) < expected
        state.rate_games(settings, pairs, np.where(won, 1, -1).astype(np.int8))
    return settings, state


def distance(state, generation=-1):
    """Return the mean distance of the active players' first parameter from `OPTIMUM`."""
    active = state.population.active[generation]
    return random_move_probability(state.population.values[active, 0], OPTIMUM).mean() / 2
