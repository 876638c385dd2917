"""Root noise: effects on visits, and discounting of inherited visits."""

from __future__ import annotations

import numpy as np
import pytest

from search.naive import HashEvaluator
from search.test_search import check_tree, some_positions
from zerolab.core import streams
from zerolab.core.config import validate
from zerolab.core.errors import UserError
from zerolab.rules import compiled_rules
from zerolab.rules.catalogue import parse_game
from zerolab.rules.rules import ONGOING
from zerolab.search import roots
from zerolab.search.methods import fpu_for_kernels
from zerolab.search.puct import Puct, ZeroFpu
from zerolab.search.search import Search
from zerolab.search.search_settings import SearchSettings

GAME = parse_game("connect_four:5x5")
ACTIONS = 5
SLOTS = np.arange(60)


class CachingEvaluator(HashEvaluator):
    """Hash evaluator that caches its slow pseudo-random outputs."""

    def __init__(self):
        super().__init__(ACTIONS)
        self.cached = {}

    def evaluate(self, states):
        answers = [self.cached.get(state.tobytes()) for state in states]
        for i, answer in enumerate(answers):
            if answer is None:
                priors, values = super().evaluate(states[i : i + 1])
                answers[i] = self.cached[states[i].tobytes()] = priors[0], values[0]
        return np.array([p for p, _ in answers]), np.array([v for _, v in answers], np.float32)


EVALUATOR = CachingEvaluator()


def settings_with(**noise):
    return SearchSettings.model_validate(
        {"simulations": 60, "noise": {"fraction": 0.25, "concentration": 5, **noise}}
    )


def searched(settings, noise_keys, search=None):
    """Run the given search, or a new search from the initial position."""
    if search is None:
        search = Search(GAME, settings, EVALUATOR, len(SLOTS))
        search.set_root(SLOTS, np.repeat(compiled_rules.start(GAME)[None], len(SLOTS), axis=0))
    search.start_search(SLOTS, noise_keys, noise_keys)
    search.run()
    return search


def keys_of(numbers):
    return streams.stream_keys(1, 0, numbers, np.zeros_like(numbers), streams.ROOT_NOISE)


EQUAL, DIFFERENT = keys_of(np.zeros_like(SLOTS)), keys_of(SLOTS)


def second_search(settings):
    """Search again after the most visited move, with different noise in every tree."""
    search = searched(settings, EQUAL)
    move = search.root_visits(SLOTS[:1]).argmax()
    search.advance(SLOTS, np.full(len(SLOTS), move))
    return searched(settings, DIFFERENT, search)


def shares_of(search):
    visits = search.root_visits(SLOTS)
    return visits / visits.sum(axis=1, keepdims=True)


def spread(shares):
    """Return the mean total variation distance from the mean distribution."""
    return 0.5 * np.abs(shares - shares.mean(axis=0)).sum(axis=1).mean()


def test_noise_shifts_visits_towards_favoured_actions():
    assert spread(shares_of(searched(settings_with(fraction=0), DIFFERENT))) < 1e-12
    assert spread(shares_of(searched(settings_with(), EQUAL))) < 1e-12
    search = searched(settings_with(), DIFFERENT)
    shares, priors = shares_of(search), search.root_priors(SLOTS)
    assert spread(shares) > 0.04
    favoured, visit_changes = priors - priors.mean(axis=0), shares - shares.mean(axis=0)
    assert np.corrcoef(favoured.ravel(), visit_changes.ravel())[0, 1] > 0.5


@pytest.mark.parametrize("concentration", [1e-4, 1e-3, 5e-3])
def test_noise_of_tiny_concentrations_favours_one_action(concentration):
    slots, starts = np.arange(500), np.repeat(compiled_rules.start(GAME)[None], 500, axis=0)
    settings = settings_with(concentration=concentration).model_copy(update={"simulations": 1})
    search = Search(GAME, settings, EVALUATOR, len(slots))
    search.set_root(slots, starts)
    search.start_search(slots, keys_of(slots), keys_of(slots))
    search.run()
    plain = EVALUATOR.evaluate(starts[:1])[0][0]
    gains = search.root_priors(slots) - 0.75 * plain / plain.sum()
    assert gains.sum(axis=1) == pytest.approx(0.25, abs=1e-6)
    assert (gains.max(axis=1) > 0.2499).mean() > 0.95
    favoured = np.bincount(gains.argmax(axis=1), minlength=ACTIONS)
    assert favoured == pytest.approx(100, abs=4.5 * np.sqrt(500 * 0.2 * 0.8))


@pytest.mark.parametrize("concentration", [0, 1e-5, 1e7])
def test_concentrations_outside_their_range_are_refused(concentration):
    with pytest.raises(UserError, match=r"noise\.concentration"):
        validate(SearchSettings, {"noise": {"concentration": concentration}})


def effect_of_noise(weight):
    """Return the mean distance between root visits under two noise draws."""
    states = [position.state for position in some_positions("connect_four:5x5", 30)]
    search = Search(GAME, settings_with(inherited_visits=weight), EVALUATOR, len(SLOTS))
    search.set_root(SLOTS, np.repeat(states, 2, axis=0))
    searched(search.settings, EQUAL, search)
    search.advance(SLOTS, search.root_visits(SLOTS).argmax(axis=1))
    ongoing = SLOTS[search.root_outcomes(SLOTS) == ONGOING]
    search.start_search(ongoing, DIFFERENT[ongoing], DIFFERENT[ongoing])
    search.run()
    shares = shares_of(search)[ongoing]
    return 0.5 * np.abs(shares[0::2] - shares[1::2]).sum(axis=1).mean()


def test_inherited_visits_damp_the_noise():
    inherited, discounted, discarded = (effect_of_noise(weight) for weight in (1, 0.5, 0))
    assert inherited < discounted < discarded
    assert inherited < 0.85 * discarded


def test_discarded_visits_leave_an_unexpanded_root():
    settings = settings_with(inherited_visits=0)
    search = second_search(settings)
    bare = Search(GAME, settings, EVALUATOR, len(SLOTS))
    bare.set_root(SLOTS, search.root_states(SLOTS))
    searched(settings, DIFFERENT, bare)
    assert (search.root_visits(SLOTS) == bare.root_visits(SLOTS)).all()
    assert (search.root_values(SLOTS) == bare.root_values(SLOTS)).all()


def test_visits_are_inherited_without_noise_at_any_weight():
    inherited, discarded = (
        second_search(settings_with(fraction=0, inherited_visits=weight)) for weight in (1, 0)
    )
    assert (inherited.root_visits(SLOTS) == discarded.root_visits(SLOTS)).all()
    assert inherited.root_visits(SLOTS).sum() > 60 * len(SLOTS)


@pytest.mark.parametrize("weight", [0.05, 0.3, 0.5, 0.99, 1.0])
def test_discounted_trees_shrink_and_keep_their_means(weight):
    search = searched(settings_with(fraction=0), DIFFERENT)
    tree = search._tree
    before = search.root_visits_and_values(SLOTS), search.root_values(SLOTS), tree.node_count.copy()
    roots.scale_visits(Puct(), fpu_for_kernels(ZeroFpu()), tree, SLOTS, weight)
    visits, values = search.root_visits_and_values(SLOTS)
    (former_visits, former_values), root_values, used = before
    assert (tree.visits[:, 0] == 1 + int(weight * 60)).all()
    assert np.abs(visits - weight * former_visits).max() <= 1
    assert (values == np.where(visits > 0, former_values, 0)).all()
    assert (search.root_values(SLOTS) == root_values).all()
    assert (tree.node_count <= used).all()
    for b in SLOTS[:5]:
        check_tree(search, b)
    searched(settings_with(fraction=0), DIFFERENT, search)
    assert (search.root_visits(SLOTS).sum(axis=1) == int(weight * 60) + 60).all()
    for b in SLOTS[:5]:
        check_tree(search, b)
