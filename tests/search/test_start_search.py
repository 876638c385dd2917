"""Numbers of simulations, root noise, extended searches, and ties."""

from __future__ import annotations

import numpy as np
import pytest

from search.naive import HashEvaluator, Rules
from search.naive import search as naive_search
from search.test_search import run, some_positions
from zerolab.core import streams
from zerolab.core.config import validate
from zerolab.core.errors import UserError
from zerolab.rules.position import Position
from zerolab.search.evaluator import UniformEvaluator
from zerolab.search.search import Search
from zerolab.search.search_settings import SearchSettings, mcts_settings

SLOTS = np.arange(4)
KEYS = streams.streams(2, 0, SLOTS, SLOTS, streams.PLAYOUT)


def prepared(settings, evaluator=None):
    """Return a search of four positions of Connect Four 5x5 that has not begun."""
    positions = some_positions("connect_four:5x5", 4)
    made = Search(positions[0].game, settings, evaluator or HashEvaluator(5), 4)
    made.set_root(SLOTS, np.array([position.state for position in positions]))
    return made, positions


def test_a_discount_makes_a_value_smaller_with_every_ply():
    settings = SearchSettings.model_validate(
        {"simulations": 60, "discount": 0.9, "selection": {"name": "puct", "c": 1.3}}
    )
    made, positions = prepared(settings)
    made.start_search(SLOTS, KEYS, KEYS)
    made.run()
    visits, values = made.root_actions(SLOTS)
    for i, position in enumerate(positions):
        root = naive_search(position, HashEvaluator(5), 60, Rules(1.3, discount=0.9))
        for action, child in root.children.items():
            assert visits[i, action] == child.visits
            assert values[i, action] == pytest.approx(-0.9 * child.value, abs=1e-6)


def test_of_two_wins_the_quicker_is_worth_more():
    position = Position.start("connect_four:5x5")
    for move in ("0", "0", "1", "1"):
        position = position.play(move)
    # Column 2 threatens to win in column 3: a win in three plies, unless the opponent blocks it.
    made = Search(position.game, SearchSettings(simulations=400, discount=0.8), HashEvaluator(5), 1)
    made.set_root(SLOTS[:1], position.play("2").play("4").state[None])
    made.start_search(SLOTS[:1], KEYS[:1], KEYS[:1])
    made.run()
    _, values = made.root_actions(SLOTS[:1])
    assert values[0, 3] == np.float32(0.8)
    assert (np.delete(values[0], 3) < 0.64 + 1e-6).all()


@pytest.mark.parametrize("discount", [0, -0.5, 1.01])
def test_a_discount_lies_above_0_and_at_most_at_1(discount):
    with pytest.raises(UserError, match="discount"):
        validate(SearchSettings, {"discount": discount})


def test_searches_may_differ_in_their_simulations_and_noise():
    noisy = SearchSettings.model_validate({"simulations": 30, "noise": {"fraction": 0.25}})
    made, positions = prepared(noisy)
    wanted = np.array([5, 30, 17, 60], np.int32)
    made.start_search(SLOTS, KEYS, KEYS, wanted, np.array([True, False, True, False]))
    made.run()
    assert (made.visits(SLOTS).sum(axis=1) == wanted).all()
    priors = made.root_priors(SLOTS)
    raw, _ = HashEvaluator(5).evaluate(np.array([position.state for position in positions]))
    shares = raw / raw.sum(axis=1, keepdims=True)
    assert (np.abs(priors - shares).max(axis=1) > 1e-3).tolist() == [True, False, True, False]


def test_a_search_goes_on_where_it_ended():
    made, _ = prepared(SearchSettings(simulations=50))
    made.start_search(SLOTS, KEYS, KEYS)
    made.run()
    whole = made.visits(SLOTS), made.root_values(SLOTS)
    made, _ = prepared(SearchSettings(simulations=20))
    made.start_search(SLOTS, KEYS, KEYS)
    made.run()
    made.extend(SLOTS[1:3], np.array([30, 10], np.int32))
    made.run()
    assert (made.visits(SLOTS).sum(axis=1) == [20, 50, 30, 20]).all()
    made.extend(np.array([0, 2, 3]), np.array([30, 20, 30], np.int32))
    made.run()
    assert (made.visits(SLOTS) == whole[0]).all()
    assert (made.root_values(SLOTS) == whole[1]).all()


def test_a_search_that_goes_on_draws_other_playouts():
    settings = SearchSettings.model_validate({"simulations": 8, "leaf_evaluator": "playout"})
    made, _ = prepared(settings)
    made.start_search(SLOTS, KEYS, KEYS)
    before = made._state.playout_key.copy()
    made.run()
    made.extend(SLOTS, 8)
    made.run()
    made.extend(SLOTS, 8)
    assert len({*before, *made._state.playout_key}) == 8


@pytest.mark.parametrize("simulations", [0, np.array([3, 0, 1, 2])])
def test_a_search_has_simulations(simulations):
    made, _ = prepared(SearchSettings())
    with pytest.raises(ValueError, match="at least 1"):
        made.start_search(SLOTS, KEYS, KEYS, simulations)


def test_policies_are_the_shares_of_visits_and_moves_follow_them():
    made, _ = prepared(SearchSettings(simulations=40))
    made.start_search(SLOTS, KEYS, KEYS)
    made.run()
    policies = made.policies(SLOTS)
    assert policies.dtype == np.float32
    assert (policies == (made.visits(SLOTS) / 40).astype(np.float32)).all()
    chosen = made.choose(SLOTS, KEYS, np.zeros(4, bool))
    assert (policies[SLOTS, chosen] == policies.max(axis=1)).all()
    assert np.isnan(made.root_draws(SLOTS)).all()


CELLS, SIMULATIONS, TREES = 36, 25, 720


def visits_of_mcts(tie_break, trees=TREES, key=0):
    """Return the root visits of plain MCTS with fewer simulations than there are cells."""
    start = Position.start("gobang:6x6:4")
    settings = mcts_settings(SIMULATIONS).model_copy(update={"tie_break": tie_break})
    made = run(start.game, settings, UniformEvaluator(CELLS), [start] * trees, key)
    return made.visits(np.arange(trees))


def test_at_random_every_action_is_tried_equally_often():
    visits = visits_of_mcts("random")
    assert visits.max() == 1
    tried = visits.sum(axis=0)
    share = SIMULATIONS / CELLS
    deviation = np.sqrt(TREES * share * (1 - share))
    assert tried == pytest.approx(TREES * share, abs=4.5 * deviation)


def test_random_ties_depend_on_their_stream_alone():
    visits = visits_of_mcts("random", 9)
    assert (visits_of_mcts("random", 3) == visits[:3]).all()
    assert (visits_of_mcts("random", 9, key=1) != visits).any()
    assert len(np.unique(visits, axis=0)) == 9


def test_lowest_first_never_tries_the_last_cells():
    """Opponents should therefore break ties at random."""
    tried = visits_of_mcts("first", 20).sum(axis=0)
    assert tried.tolist() == [20] * SIMULATIONS + [0] * (CELLS - SIMULATIONS)
