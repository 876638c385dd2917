"""Starting, extending and interrupting searches: simulations, noise, discounts and ties."""

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
KEYS = streams.stream_keys(2, 0, SLOTS, SLOTS, streams.PLAYOUT)


def prepared(settings, evaluator=None, name="connect_four:5x5"):
    """Return an unstarted search of four positions, and the positions."""
    positions = some_positions(name, 4)
    search = Search(positions[0].game, settings, evaluator or HashEvaluator(5), 4)
    search.set_root(SLOTS, np.array([position.state for position in positions]))
    return search, positions


def test_discount_agrees_with_the_naive_search():
    settings = SearchSettings.model_validate(
        {"simulations": 60, "discount": 0.9, "selection": {"name": "puct", "c": 1.3}}
    )
    search, positions = prepared(settings)
    search.start_search(SLOTS, KEYS, KEYS)
    search.run()
    visits, values = search.root_visits_and_values(SLOTS)
    for i, position in enumerate(positions):
        root = naive_search(position, HashEvaluator(5), 60, Rules(1.3, discount=0.9))
        for action, child in root.children.items():
            assert visits[i, action] == child.visits
            assert values[i, action] == pytest.approx(-0.9 * child.value, abs=1e-6)


def test_faster_wins_have_higher_discounted_values():
    position = Position.start("connect_four:5x5")
    for move in ("0", "0", "1", "1"):
        position = position.play(move)
    # Column 2 threatens to win in column 3 two plies later, unless the opponent blocks it.
    search = Search(
        position.game, SearchSettings(simulations=400, discount=0.8), HashEvaluator(5), 1
    )
    search.set_root(SLOTS[:1], position.play("2").play("4").state[None])
    search.start_search(SLOTS[:1], KEYS[:1], KEYS[:1])
    search.run()
    _, values = search.root_visits_and_values(SLOTS[:1])
    assert values[0, 3] == np.float32(0.8)
    assert (np.delete(values[0], 3) < 0.64 + 1e-6).all()


@pytest.mark.parametrize("discount", [0, -0.5, 1.01])
def test_discount_outside_its_range_is_refused(discount):
    with pytest.raises(UserError, match="discount"):
        validate(SearchSettings, {"discount": discount})


def test_simulations_and_noise_can_differ_between_trees():
    noisy = SearchSettings.model_validate({"simulations": 30, "noise": {"fraction": 0.25}})
    search, positions = prepared(noisy)
    simulations = np.array([5, 30, 17, 60], np.int32)
    search.start_search(SLOTS, KEYS, KEYS, simulations, np.array([True, False, True, False]))
    search.run()
    assert (search.root_visits(SLOTS).sum(axis=1) == simulations).all()
    priors = search.root_priors(SLOTS)
    raw, _ = HashEvaluator(5).evaluate(np.array([position.state for position in positions]))
    shares = raw / raw.sum(axis=1, keepdims=True)
    assert (np.abs(priors - shares).max(axis=1) > 1e-3).tolist() == [True, False, True, False]


def test_extended_searches_equal_uninterrupted_ones():
    search, _ = prepared(SearchSettings(simulations=50))
    search.start_search(SLOTS, KEYS, KEYS)
    search.run()
    whole = search.root_visits(SLOTS), search.root_values(SLOTS)
    search, _ = prepared(SearchSettings(simulations=20))
    search.start_search(SLOTS, KEYS, KEYS)
    search.run()
    search.extend(SLOTS[1:3], np.array([30, 10], np.int32))
    search.run()
    assert (search.root_visits(SLOTS).sum(axis=1) == [20, 50, 30, 20]).all()
    search.extend(np.array([0, 2, 3]), np.array([30, 20, 30], np.int32))
    search.run()
    assert (search.root_visits(SLOTS) == whole[0]).all()
    assert (search.root_values(SLOTS) == whole[1]).all()


def test_extended_searches_draw_new_playouts():
    settings = SearchSettings.model_validate({"simulations": 8, "leaf_evaluator": "playout"})
    search, _ = prepared(settings, HashEvaluator(17), "othello:4x4")
    search.start_search(SLOTS, KEYS, KEYS)
    before = search._search_state.playout_key.copy()
    search.run()
    search.extend(SLOTS, 8)
    search.run()
    search.extend(SLOTS, 8)
    assert len({*before, *search._search_state.playout_key}) == 8


@pytest.mark.parametrize("simulations", [0, np.array([3, 0, 1, 2])])
def test_search_without_simulations_is_refused(simulations):
    search, _ = prepared(SearchSettings())
    with pytest.raises(ValueError, match="at least 1"):
        search.start_search(SLOTS, KEYS, KEYS, simulations)


def test_policies_are_visit_shares_and_moves_follow_them():
    search, _ = prepared(SearchSettings(simulations=40))
    search.start_search(SLOTS, KEYS, KEYS)
    search.run()
    policies = search.policies(SLOTS)
    assert policies.dtype == np.float32
    assert (policies == (search.root_visits(SLOTS) / 40).astype(np.float32)).all()
    chosen = search.choose(SLOTS, KEYS, np.zeros(4, bool))
    assert (policies[SLOTS, chosen] == policies.max(axis=1)).all()
    assert np.isnan(search.root_draw_probabilities(SLOTS)).all()


class InterruptedEvaluator(HashEvaluator):
    """Evaluator that raises an exception in some of its calls, numbered from 1."""

    def __init__(self, interrupted=()):
        super().__init__(5)
        self.interrupted = interrupted
        self.number = 0

    def evaluate(self, states):
        self.number += 1
        if self.number in self.interrupted:
            raise KeyboardInterrupt
        return super().evaluate(states)


def started(leaves, cache, interrupted=()):
    """Return a search of four positions, which has been interrupted if `interrupted` says so."""
    settings = SearchSettings(simulations=30, leaves_per_step=leaves, cache=cache)
    search, positions = prepared(settings, InterruptedEvaluator(interrupted))
    search.start_search(SLOTS, KEYS, KEYS)
    if interrupted:
        with pytest.raises(KeyboardInterrupt):
            search.run()
    return search, positions


def require_same_results(search, undisturbed, trees=SLOTS):
    assert (search.root_visits(trees) == undisturbed.root_visits(trees)).all()
    assert (search.root_values(trees) == undisturbed.root_values(trees)).all()
    assert (search.root_priors(trees) == undisturbed.root_priors(trees)).all()


LEAVES_AND_CACHE = pytest.mark.parametrize(("leaves", "cache"), [(1, 0), (1, 4096), (6, 4096)])


@LEAVES_AND_CACHE
def test_interrupted_search_continues_as_if_undisturbed(leaves, cache):
    undisturbed, _ = started(leaves, cache)
    undisturbed.run()
    search, _ = started(leaves, cache, (1, 4, 5))
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            search.run()
    search.run()
    require_same_results(search, undisturbed)
    assert search.work_counts == undisturbed.work_counts
    assert search.evaluator.calls == undisturbed.evaluator.calls


@LEAVES_AND_CACHE
@pytest.mark.parametrize("replaced", [SLOTS, SLOTS[1:3]], ids=["all trees", "two trees"])
@pytest.mark.parametrize("sets_root", [False, True])
def test_interrupted_search_can_be_replaced(leaves, cache, replaced, sets_root):
    """The other trees continue."""
    undisturbed, _ = started(leaves, cache)
    undisturbed.run()
    search, _ = started(leaves, cache, (4,))
    if sets_root:
        search.set_root(replaced, search.root_states(replaced))
    search.start_search(replaced, KEYS[replaced], KEYS[replaced])
    search.run()
    require_same_results(search, undisturbed)


@LEAVES_AND_CACHE
def test_interrupted_trees_advance_to_unexpanded_roots(leaves, cache):
    search, positions = started(leaves, cache, (4,))
    moves = np.array([position.legal_actions[-1] for position in positions])
    search.advance(SLOTS, moves)
    search.start_search(SLOTS, KEYS, KEYS)
    search.run()
    undisturbed, _ = started(leaves, cache)
    undisturbed.set_root(SLOTS, search.root_states(SLOTS))
    undisturbed.start_search(SLOTS, KEYS, KEYS)
    undisturbed.run()
    require_same_results(search, undisturbed)


@pytest.mark.parametrize("sets_root", [False, True])
def test_interrupted_search_ends_with_its_tree(sets_root):
    search, positions = started(6, 4096, (4,))
    if sets_root:
        search.set_root(SLOTS, search.root_states(SLOTS))
    else:
        search.advance(SLOTS, np.array([position.legal_actions[-1] for position in positions]))
    assert not search.is_active
    search.run()
    assert (search.root_visits(SLOTS) == 0).all()


def test_interrupted_search_cannot_be_extended():
    search, _ = started(6, 4096, (4,))
    with pytest.raises(ValueError, match="the last step was interrupted"):
        search.extend(SLOTS, 1)


COLUMNS, SIMULATIONS, TREES = 8, 5, 720


def visits_of_mcts(trees=TREES, key=0):
    """Return root visits of plain MCTS with random ties, int32[trees, COLUMNS].

    The search has fewer simulations than the board has columns.
    """
    start = Position.start("connect_four:8x8")
    settings = mcts_settings(SIMULATIONS).model_copy(update={"tie_break": "random"})
    search = run(start.game, settings, UniformEvaluator(COLUMNS), [start] * trees, key)
    return search.root_visits(np.arange(trees))


def test_random_ties_visit_all_actions_equally_often():
    visits = visits_of_mcts()
    assert visits.max() == 1
    tried = visits.sum(axis=0)
    share = SIMULATIONS / COLUMNS
    deviation = np.sqrt(TREES * share * (1 - share))
    assert tried == pytest.approx(TREES * share, abs=4.5 * deviation)


def test_random_ties_depend_only_on_their_stream():
    visits = visits_of_mcts(9)
    assert (visits_of_mcts(3) == visits[:3]).all()
    assert (visits_of_mcts(9, key=1) != visits).any()
    assert len(np.unique(visits, axis=0)) > 3


def test_first_tie_break_never_visits_the_last_columns():
    """Evaluation opponents therefore need random tie-breaks."""
    start, settings = Position.start("connect_four:8x8"), SearchSettings(simulations=SIMULATIONS)
    visits = run(start.game, settings, UniformEvaluator(COLUMNS), [start]).root_visits(SLOTS[:1])[0]
    assert visits.tolist() == [1] * SIMULATIONS + [0] * (COLUMNS - SIMULATIONS)
