"""Budgets compared with plain searches of equal length and with hand-computed values."""

from __future__ import annotations

import math

import numpy as np
import pytest
from pydantic import ValidationError

from search.naive import HashEvaluator
from zerolab.agents.network_players import SearchPlayer
from zerolab.core import streams
from zerolab.rules import rules
from zerolab.rules.catalogue import parse_game
from zerolab.search.budgets import KlGainSettings, PlayoutCapSettings, kl_divergence
from zerolab.search.search import Search
from zerolab.search.search_settings import SearchSettings

GAME = parse_game("connect_four:4x4")
ACTIONS = rules.action_count(GAME)


def test_divergence_by_hand():
    """Divergence in bits over the common support, with both policies renormalised."""
    former = np.array([[0.5, 0.5, 0, 0], [0.25, 0.75, 0, 0], [0.2, 0, 0.2, 0], [1, 0, 0, 0]])
    current = np.array([[0.5, 0.5, 0, 0], [0.5, 0.25, 0.25, 0], [0.6, 0.2, 0.2, 0], [0, 1, 0, 0]])
    second = 0.25 * math.log2(0.25 / (2 / 3)) + 0.75 * math.log2(0.75 / (1 / 3))
    third = 0.5 * math.log2(0.5 / 0.75) + 0.5 * math.log2(0.5 / 0.25)
    assert kl_divergence(former, current) == pytest.approx([0, second, third, 0])


def visits_and_priors_after(slots, states, simulations):
    """Return the visits and priors of an uninterrupted search, both [len(slots), actions]."""
    search = Search(GAME, SearchSettings(simulations=simulations), HashEvaluator(ACTIONS), 4)
    search.set_root(slots, states)
    search.start_search(slots, *np.zeros((2, len(slots)), np.uint64))
    search.run()
    return search.root_visits(slots), search.root_priors(slots)


def simulations_to_settle(slot, state, settings):
    """Return the simulations until the policy settles, using a new search for every length."""
    former, spent = None, 0
    while True:
        spent = min(spent + settings.every, settings.most)
        visits, priors = (array[0] for array in visits_and_priors_after(slot, state, spent))
        current = visits / visits.sum()
        if former is None:
            former = np.where(visits > 0, priors, 0)
            former = former / former.sum()
        gain = sum(
            p * math.log2(p / q)
            for p, q in zip(former, current / current[former > 0].sum(), strict=True)
            if p > 0
        )  # fmt: skip
        settled = gain <= 0 or math.log2(gain) <= settings.threshold
        if (settled and spent >= settings.least) or spent >= settings.most:
            return spent
        former = current


@pytest.mark.parametrize("least", [10, 45])
def test_settling_agrees_with_new_searches(least):
    """Every move has the simulations and visit counts of the plain twin."""
    settings = KlGainSettings(every=10, least=least, most=85, threshold=-7.0)
    player = SearchPlayer(
        GAME, "a", SearchSettings(simulations=7), HashEvaluator(ACTIONS), budget=settings
    )
    slots = np.arange(4)
    player.start(4)
    states = np.zeros((4, rules.word_count(GAME)), np.uint64)
    search = Search(GAME, SearchSettings(), HashEvaluator(ACTIONS), 4)
    for slot in slots:  # one position per opening move
        search.set_root(slots[slot : slot + 1], player.search.root_states(slots[slot : slot + 1]))
    search.advance(slots, slots)
    states[:] = search.root_states(slots)
    player.search.set_root(slots, states)
    player.choose(slots, states, np.zeros(4, np.uint64))
    times = [simulations_to_settle(slots[:1], states[slot : slot + 1], settings) for slot in slots]
    assert player.search.root_visits(slots).sum(axis=1).tolist() == times
    assert len(set(times)) > 1
    assert min(times) >= least
    for slot, spent in enumerate(times):
        expected, _ = visits_and_priors_after(slots[:1], states[slot : slot + 1], spent)
        assert (player.search.root_visits(slots[slot : slot + 1]) == expected).all()


def test_playout_caps_draw_full_searches_from_streams():
    search = SearchSettings(simulations=50)
    budget = PlayoutCapSettings(share=0.25, simulations=5).new_budget(search, 1, ACTIONS)
    count = 20_000
    keys = streams.stream_keys(1, 2, np.arange(count), np.zeros(count), streams.SELF_PLAY_BUDGET)
    simulations, full = budget.initial_allowance(np.zeros(count, np.int64), keys)
    assert full.mean() == pytest.approx(0.25, abs=0.012)  # four standard deviations
    assert (simulations == np.where(full, 50, 5)).all()
    halves = [
        budget.initial_allowance(np.zeros(count // 2, np.int64), half) for half in np.split(keys, 2)
    ]
    assert (np.concatenate([half.is_full_search for half in halves]) == full).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"least": 60, "most": 50, "every": 10}, "least = 60 .* most = 50"),
        ({"least": 10, "most": 50, "every": 60}, "every = 60 .* most = 50"),
    ],
)
def test_inconsistent_simulation_limits_are_refused(settings, message):
    with pytest.raises(ValidationError, match=message):
        KlGainSettings.model_validate(settings)
