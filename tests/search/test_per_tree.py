"""Per-tree settings: trees in a batch equal trees searched alone."""

from __future__ import annotations

import numpy as np
import pytest

from search.naive import DetailedHashEvaluator
from search.test_search import run, some_positions
from zerolab.core import streams
from zerolab.core.errors import UserError
from zerolab.search.evaluator import UniformEvaluator
from zerolab.search.search import Search
from zerolab.search.search_settings import PerTreeSettings, SearchSettings

TREES = 6
EVALUATOR = DetailedHashEvaluator(5)
POSITIONS = some_positions("connect_four:5x5", TREES, plies=24)
DIFFERENT = (
    np.array([0.5, 3.09, 8.0, 1.3, 0.77, 2.0]),
    np.array([-1.0, 0.709, 0.1, 0.3, -0.25, 1.0]),
    np.array([0.383, -0.5, 1.0, -1.0, 0.0, 0.1]),
)


def settings(c=1.3, fpu=0.0, draw_value=0.0):
    return SearchSettings.model_validate(
        {
            "simulations": 80,
            "selection": {"name": "puct", "c": c},
            "fpu": {"name": "fixed", "value": fpu},
            "draw_value": draw_value,
        }
    )


def run_per_tree(per_tree):
    slots = np.arange(TREES)
    search = Search(POSITIONS[0].game, settings(), EVALUATOR, TREES, per_tree=per_tree)
    search.set_root(slots, np.array([position.state for position in POSITIONS]))
    keys = streams.stream_keys(0, 0, slots, slots, streams.PLAYOUT)
    search.start_search(slots, keys, keys)
    search.run()
    return search


def node_bytes(search, tree):
    """Return the bytes of all used nodes of a tree."""
    used = int(search._tree.node_count[tree])
    return search._memory.forest.nodes[tree, :used].tobytes()


@pytest.mark.parametrize("values", [(3.09, 0.709, 0.383), (0.5, -1.0, -0.5)])
def test_equal_per_tree_settings_are_bitwise_equal_to_shared_settings(values):
    alone = run(POSITIONS[0].game, settings(*values), EVALUATOR, POSITIONS)
    together = run_per_tree(PerTreeSettings(*(np.full(TREES, value) for value in values)))
    for tree in range(TREES):
        assert node_bytes(together, tree) == node_bytes(alone, tree)


def test_each_tree_equals_its_search_alone():
    together = run_per_tree(PerTreeSettings(*DIFFERENT))
    for tree, values in enumerate(zip(*DIFFERENT, strict=True)):
        if values[2] == 0:
            continue  # a search without a draw value stores no draws
        alone = run(POSITIONS[0].game, settings(*values), EVALUATOR, POSITIONS)
        assert node_bytes(together, tree) == node_bytes(alone, tree)
        others = (node_bytes(alone, other) for other in range(TREES) if other != tree)
        mixed = (node_bytes(together, other) for other in range(TREES) if other != tree)
        assert sum(map(bytes.__ne__, others, mixed)) >= TREES - 2  # settings change the other trees


def test_settings_can_change_between_searches():
    per_tree = PerTreeSettings(*(np.full(TREES, value) for value in (9.0, -1.0, 0.9)))
    search = run_per_tree(per_tree)
    for array, values in zip(per_tree, DIFFERENT, strict=True):
        array[:] = values
    slots = np.arange(TREES)
    search.set_root(slots, np.array([position.state for position in POSITIONS]))
    search.start_search(slots, *np.zeros((2, TREES), np.uint64))
    search.run()
    fresh = run_per_tree(PerTreeSettings(*DIFFERENT))
    for actual, expected in zip(
        search.root_visits_and_values(slots), fresh.root_visits_and_values(slots), strict=True
    ):
        assert (actual == expected).all()


def test_incompatible_search_settings_are_refused():
    per_tree = PerTreeSettings(c=np.ones(1), fpu=np.zeros(1))
    game, uniform = POSITIONS[0].game, UniformEvaluator(5)
    with pytest.raises(ValueError, match=r'selection = "uct" .* expected "puct"'):
        Search(game, SearchSettings(selection="uct"), uniform, 1, per_tree=per_tree)
    with pytest.raises(ValueError, match=r'fpu = "zero" .* expected "fixed"'):
        Search(game, SearchSettings(), uniform, 1, per_tree=per_tree)
    with pytest.raises(UserError, match="expected a network with"):
        Search(game, settings(), uniform, 1, per_tree=PerTreeSettings(draw_value=np.zeros(1)))
