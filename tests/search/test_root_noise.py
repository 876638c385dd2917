"""Effects of root noise on visits, and the fate of inherited visits."""

from __future__ import annotations

import numpy as np
import pytest

from search.naive import HashEvaluator
from search.test_search import check_tree, some_positions
from zerolab.core import streams
from zerolab.rules import python
from zerolab.rules.catalogue import parse_game
from zerolab.rules.rules import ONGOING
from zerolab.search import roots
from zerolab.search.puct import Zero
from zerolab.search.search import Search
from zerolab.search.search_settings import SearchSettings

GAME = parse_game("connect_four:5x5")
ACTIONS = 5
SLOTS = np.arange(60)


class Remembering(HashEvaluator):
    """Looks every state up after the first time, since it is slow to make priors up."""

    def __init__(self):
        super().__init__(ACTIONS)
        self.known = {}

    def evaluate(self, states):
        answers = [self.known.get(state.tobytes()) for state in states]
        for i, answer in enumerate(answers):
            if answer is None:
                priors, values = super().evaluate(states[i : i + 1])
                answers[i] = self.known[states[i].tobytes()] = priors[0], values[0]
        return np.array([p for p, _ in answers]), np.array([v for _, v in answers], np.float32)


EVALUATOR = Remembering()


def settings_with(**noise):
    return SearchSettings.model_validate(
        {"simulations": 60, "noise": {"fraction": 0.25, "concentration": 5, **noise}}
    )


def searched(settings, noise_keys, made=None):
    """Search the roots of a search, by default of new trees at the first position."""
    if made is None:
        made = Search(GAME, settings, EVALUATOR, len(SLOTS))
        made.set_root(SLOTS, np.repeat(python.start(GAME)[None], len(SLOTS), axis=0))
    made.start_search(SLOTS, noise_keys, noise_keys)
    made.run()
    return made


def keys_of(numbers):
    return streams.streams(1, 0, numbers, np.zeros_like(numbers), streams.ROOT_NOISE)


EQUAL, DIFFERENT = keys_of(np.zeros_like(SLOTS)), keys_of(SLOTS)


def second_search(settings):
    """Continue equal trees from the most visited reply, each with its own noise."""
    made = searched(settings, EQUAL)
    reply = made.visits(SLOTS[:1]).argmax()
    made.advance(SLOTS, np.full(len(SLOTS), reply))
    return searched(settings, DIFFERENT, made)


def shares_of(made):
    visits = made.visits(SLOTS)
    return visits / visits.sum(axis=1, keepdims=True)


def spread(shares):
    """Return the mean total variation distance from the mean distribution."""
    return 0.5 * np.abs(shares - shares.mean(axis=0)).sum(axis=1).mean()


def test_noise_moves_visits_towards_the_actions_it_favours():
    assert spread(shares_of(searched(settings_with(fraction=0), DIFFERENT))) < 1e-12
    assert spread(shares_of(searched(settings_with(), EQUAL))) < 1e-12
    made = searched(settings_with(), DIFFERENT)
    shares, priors = shares_of(made), made.root_priors(SLOTS)
    assert spread(shares) > 0.04
    favoured, visited = priors - priors.mean(axis=0), shares - shares.mean(axis=0)
    assert np.corrcoef(favoured.ravel(), visited.ravel())[0, 1] > 0.5


def effect_of_noise(weight):
    """Return the distance between root visits under two draws of noise, over many positions."""
    states = [position.state for position in some_positions("connect_four:5x5", 30)]
    made = Search(GAME, settings_with(inherited_visits=weight), EVALUATOR, len(SLOTS))
    made.set_root(SLOTS, np.repeat(states, 2, axis=0))
    searched(made.settings, EQUAL, made)
    made.advance(SLOTS, made.visits(SLOTS).argmax(axis=1))
    ongoing = SLOTS[made.outcomes(SLOTS) == ONGOING]
    made.start_search(ongoing, DIFFERENT[ongoing], DIFFERENT[ongoing])
    made.run()
    shares = shares_of(made)[ongoing]
    return 0.5 * np.abs(shares[0::2] - shares[1::2]).sum(axis=1).mean()


def test_inherited_visits_damp_the_noise():
    kept, discounted, discarded = (effect_of_noise(weight) for weight in (1, 0.5, 0))
    assert kept < discounted < discarded
    assert kept < 0.85 * discarded


def test_discarded_visits_leave_a_bare_root():
    settings = settings_with(inherited_visits=0)
    made = second_search(settings)
    bare = Search(GAME, settings, EVALUATOR, len(SLOTS))
    bare.set_root(SLOTS, made.states(SLOTS))
    searched(settings, DIFFERENT, bare)
    assert (made.visits(SLOTS) == bare.visits(SLOTS)).all()
    assert (made.root_values(SLOTS) == bare.root_values(SLOTS)).all()


def test_without_noise_visits_are_inherited_whatever_the_weight():
    kept, discarded = (
        second_search(settings_with(fraction=0, inherited_visits=weight)) for weight in (1, 0)
    )
    assert (kept.visits(SLOTS) == discarded.visits(SLOTS)).all()
    assert kept.visits(SLOTS).sum() > 60 * len(SLOTS)


@pytest.mark.parametrize("weight", [0.05, 0.3, 0.5, 0.99, 1.0])
def test_discounted_trees_are_smaller_trees_of_the_same_means(weight):
    made = searched(settings_with(fraction=0), DIFFERENT)
    tree = made._tree
    before = made.root_actions(SLOTS), made.root_values(SLOTS), tree.used.copy()
    roots.scale_visits(Zero(), tree, SLOTS, weight)
    visits, values = made.root_actions(SLOTS)
    (former_visits, former_values), root_values, used = before
    assert (tree.visits[:, 0] == 1 + int(weight * 60)).all()
    assert np.abs(visits - weight * former_visits).max() <= 1
    assert (values == np.where(visits > 0, former_values, 0)).all()
    assert (made.root_values(SLOTS) == root_values).all()
    assert (tree.used <= used).all()
    for b in SLOTS[:5]:
        check_tree(made, b)
    searched(settings_with(fraction=0), DIFFERENT, made)
    assert (made.visits(SLOTS).sum(axis=1) == int(weight * 60) + 60).all()
    for b in SLOTS[:5]:
        check_tree(made, b)
