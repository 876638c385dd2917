"""Leagues that are cheap: results that a model draws, and games of plain MCTS."""

from __future__ import annotations

import numpy as np

from zerolab.league.league import LeagueState
from zerolab.league.league_settings import LeagueSettings
from zerolab.league.playing import random_move_probability
from zerolab.league.population import draw_pairs, first_generation

OPTIMUM = 0.7


def without_games(seed, strength, generations=20, **changes):
    """Return a league of 1,500 games a generation, their results drawn by Bradley and Terry.

    `strength` gives the Elo of parameters float64[N, n].
    """
    given = {"game": "none", "seed": seed, "parameters": ("check", "c"), **changes}
    settings = LeagueSettings.model_validate(given)
    state, random = LeagueState(first_generation(settings)), np.random.default_rng(seed)
    while numbers := state.next_games(settings, generations * settings.generation):
        met = draw_pairs(state.population, settings, numbers)
        elo = strength(state.population.values[met])
        expected = 1 / (1 + 10 ** ((elo[:, 1] - elo[:, 0]) / 400))
        won = random.random(len(met)) < expected
        state.rate(settings, met, np.where(won, 1, -1).astype(np.int8))
    return settings, state


def distance(state, generation=-1):
    """Return the mean distance of the active players' first parameter from the optimum."""
    active = state.population.active[generation]
    return random_move_probability(state.population.values[active, 0], OPTIMUM).mean() / 2
