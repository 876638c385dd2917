"""Settings per tree: a batch of many players searches as each of them would alone."""

from __future__ import annotations

import numpy as np
import pytest

from search.naive import DetailedHashEvaluator
from search.test_search import run, some_positions
from zerolab.core import streams
from zerolab.core.errors import UserError
from zerolab.search.evaluator import UniformEvaluator
from zerolab.search.per_tree import PerTreeSettings
from zerolab.search.search import Search
from zerolab.search.search_settings import SearchSettings

TREES = 6
EVALUATOR = DetailedHashEvaluator(5)
POSITIONS = some_positions("connect_four:5x5", TREES, plies=24)
DIFFERENT = (
    np.array([0.5, 3.09, 8.0, 1.3, 0.77, 2.0]),
    np.array([-1.0, 0.709, 0.1, 0.3, -0.25, 1.0]),
    np.array([0.383, -0.5, 1.0, -1.0, 0.0, 0.1]),
)


def settings(c=1.3, fpu=0.0, draw_value=0.0):
    chosen = {"c": c}, {"name": "fixed", "value": fpu}
    selection, urgency = {"name": "puct", **chosen[0]}, chosen[1]
    return SearchSettings.model_validate(
        {"simulations": 80, "selection": selection, "fpu": urgency, "draw_value": draw_value}
    )


def run_per_tree(per_tree):
    slots = np.arange(TREES)
    made = Search(POSITIONS[0].game, settings(), EVALUATOR, TREES, per_tree=per_tree)
    made.set_root(slots, np.array([position.state for position in POSITIONS]))
    keys = streams.streams(0, 0, slots, slots, streams.PLAYOUT)
    made.start_search(slots, keys, keys)
    made.run()
    return made


def found(search, tree):
    """Return all nodes of a tree, bit for bit."""
    used = int(search._tree.used[tree])
    return search._memory.forest.nodes[tree, :used].tobytes()


@pytest.mark.parametrize("values", [(3.09, 0.709, 0.383), (0.5, -1.0, -0.5)])
def test_equal_settings_of_all_trees_give_the_bits_of_one_for_all(values):
    alone = run(POSITIONS[0].game, settings(*values), EVALUATOR, POSITIONS)
    together = run_per_tree(PerTreeSettings(*(np.full(TREES, value) for value in values)))
    for tree in range(TREES):
        assert found(together, tree) == found(alone, tree)


def test_each_tree_is_searched_as_it_is_alone():
    together = run_per_tree(PerTreeSettings(*DIFFERENT))
    for tree, values in enumerate(zip(*DIFFERENT, strict=True)):
        if values[2] == 0:
            continue  # alone, the nodes would have no draws
        alone = run(POSITIONS[0].game, settings(*values), EVALUATOR, POSITIONS)
        assert found(together, tree) == found(alone, tree)
        others = (found(alone, other) for other in range(TREES) if other != tree)
        mixed = (found(together, other) for other in range(TREES) if other != tree)
        assert sum(map(bytes.__ne__, others, mixed)) >= TREES - 2  # the settings do matter


def test_settings_may_change_between_searches():
    per_tree = PerTreeSettings(*(np.full(TREES, value) for value in (9.0, -1.0, 0.9)))
    search = run_per_tree(per_tree)
    for array, values in zip(per_tree, DIFFERENT, strict=True):
        array[:] = values
    slots = np.arange(TREES)
    search.set_root(slots, np.array([position.state for position in POSITIONS]))
    search.start_search(slots, *np.zeros((2, TREES), np.uint64))
    search.run()
    fresh = run_per_tree(PerTreeSettings(*DIFFERENT))
    for mine, others in zip(search.root_actions(slots), fresh.root_actions(slots), strict=True):
        assert (mine == others).all()


def test_what_does_not_fit_is_refused():
    per_tree = PerTreeSettings(c=np.ones(1), fpu=np.zeros(1))
    game, uniform = POSITIONS[0].game, UniformEvaluator(5)
    with pytest.raises(ValueError, match=r'selection = "uct" .* expected "puct"'):
        Search(game, SearchSettings(selection="uct"), uniform, 1, per_tree=per_tree)
    with pytest.raises(ValueError, match=r'fpu = "zero" .* expected "fixed"'):
        Search(game, SearchSettings(), uniform, 1, per_tree=per_tree)
    with pytest.raises(UserError, match="expected a network with"):
        Search(game, settings(), uniform, 1, per_tree=PerTreeSettings(draw_value=np.zeros(1)))
