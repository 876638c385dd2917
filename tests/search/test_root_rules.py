"""Root rules: Gumbel against a naive twin, hand-computed forced playouts and pruned policies."""

from __future__ import annotations

import math

import numpy as np
import pytest

from search.naive import HashEvaluator
from search.naive_gumbel import GumbelSearch
from search.naive_gumbel import considered_visits as naive_considered_visits
from search.test_search import run, some_positions
from zerolab.core import streams
from zerolab.core.config import validate
from zerolab.core.errors import UserError
from zerolab.rules import rules
from zerolab.rules.position import Position
from zerolab.rules.rules import ONGOING, WIN
from zerolab.search import methods
from zerolab.search.evaluator import UniformEvaluator
from zerolab.search.root_rules import considered_visits
from zerolab.search.search import Search
from zerolab.search.search_settings import SearchSettings

SLOTS = np.arange(6)
KEYS = streams.stream_keys(3, 0, SLOTS, SLOTS, streams.ROOT_NOISE)


def searched(settings, positions, noise, simulations=None, evaluator_type=HashEvaluator):
    """Return a finished search of positions of one game, with or without noise."""
    slots = np.arange(len(positions))
    game = positions[0].game
    search = Search(game, settings, evaluator_type(rules.action_count(game)), len(positions))
    search.set_root(slots, np.array([position.state for position in positions]))
    flags = np.full(len(positions), noise)
    keys = streams.stream_keys(3, 0, slots, slots, streams.ROOT_NOISE)
    search.start_search(slots, keys, keys, simulations, flags)
    search.run()
    return search


def test_sequential_halving_agrees_with_published_code():
    for most in range(21):
        for simulations in (1, 2, 5, 16, 17, 50, 200):
            expected = naive_considered_visits(most, simulations)
            actual = [considered_visits(most, simulations, i) for i in range(simulations)]
            assert actual == expected, (most, simulations)


def gumbel(considered, simulations, **others):
    root = {"name": "gumbel", "considered": considered, "visit_weight": 40, "value_scale": 0.07}
    selection = {"name": "puct", "c": 1.3}
    return validate(
        SearchSettings,
        {"simulations": simulations, "root": root, "selection": selection, **others},
    )


def gumbel_noise(key):
    keys = [np.uint64(streams.fold_in(key, i)) for i in range(5)]
    uniform = [streams.uniform(action_key, 0) for action_key in keys]
    return -np.log(-np.log(uniform))


@pytest.mark.parametrize("noise", [False, True])
@pytest.mark.parametrize(
    ("considered", "simulations", "discount"),
    [(16, 5, 1.0), (4, 16, 1.0), (4, 16, 0.8), (3, 50, 1.0), (1, 7, 1.0), (5, 3, 1.0)],
)
def test_gumbel_agrees_with_the_naive_twin(noise, considered, simulations, discount):
    """Cases include one simulation per action, and fewer simulations than actions."""
    positions = some_positions("connect_four:5x5", 6, plies=20)
    search = searched(gumbel(considered, simulations, discount=discount), positions, noise)
    policies, visits = search.policies(SLOTS), search.root_visits(SLOTS)
    moves = search.choose(SLOTS, KEYS, np.zeros(6, bool))
    for i, position in enumerate(positions):
        noise_of_actions = gumbel_noise(KEYS[i]) if noise else np.zeros(5)
        twin = GumbelSearch(
            position, HashEvaluator(5), simulations, noise_of_actions, considered, 40, 0.07, 1.3,
            discount,
        )  # fmt: skip
        assert visits[i, twin.actions].tolist() == twin.visits().tolist()
        for action, share in twin.policy().items():
            assert policies[i, action] == pytest.approx(share, rel=1e-4, abs=1e-7)
        assert moves[i] == twin.move()
    assert policies.sum(axis=1) == pytest.approx(1, abs=1e-6)


def test_gumbel_visits_every_action_once_with_enough_simulations():
    position = Position.start("connect_four:5x5")
    search = searched(gumbel(16, 5), [position] * 6, True)
    assert (search.root_visits(SLOTS) == 1).all()
    assert len(set(search.choose(SLOTS, KEYS, np.ones(6, bool)))) > 1


def test_principal_variation_starts_with_the_gumbel_choice():
    search = searched(gumbel(4, 8), some_positions("connect_four:5x5", 6), False)
    chosen = search.choose(SLOTS, KEYS, np.zeros(6, np.bool_))
    assert [search.result(slot).principal_variation[0] for slot in SLOTS] == chosen.tolist()
    assert (chosen != search.root_visits(SLOTS).argmax(axis=1)).any()


def test_moves_without_gumbel_noise_are_sampled_from_the_policy():
    position = Position.start("connect_four:5x5")
    search = searched(gumbel(4, 16), [position], False)
    keys = streams.stream_keys(1, 0, np.arange(2000), np.arange(2000), streams.MATCH_MOVE)
    slots = np.zeros(2000, np.int64)
    chosen = search.choose(slots, keys, np.ones(2000, bool))
    shares = np.bincount(chosen, minlength=5) / 2000
    assert shares == pytest.approx(search.policies(slots[:1])[0], abs=0.05)


@pytest.mark.parametrize("key", ["visit_weight", "value_scale"])
def test_gumbel_factors_that_would_overflow_are_refused(key):
    for value in (1e300, 1_000_001, -1):
        with pytest.raises(UserError, match=rf"root\.{key}"):
            validate(SearchSettings, {"root": {"name": "gumbel", key: value}})
    root = {"name": "gumbel", "visit_weight": 1e6, "value_scale": 1e6}
    start = Position.start("connect_four:5x5")
    search = searched(validate(SearchSettings, {"simulations": 20, "root": root}), [start], False)
    assert search.policies(SLOTS[:1]).sum() == pytest.approx(1)


def visits_and_move_weights(tie_break):
    """Return root visits and move weights, summed over 500 Gumbel searches with equal scores."""
    slots, start = np.arange(500), Position.start("connect_four:5x5")
    settings = gumbel(2, 2, tie_break=tie_break)
    search = searched(settings, [start] * 500, False, evaluator_type=UniformEvaluator)
    weights = search.move_weights(slots, np.zeros(500, np.bool_))
    return search.root_visits(slots).sum(axis=0), weights.sum(axis=0)


def test_gumbel_breaks_ties_as_set():
    visits, weights = visits_and_move_weights("first")
    assert visits.tolist() == [500, 500, 0, 0, 0]
    assert weights.tolist() == [500, 0, 0, 0, 0]
    visits, weights = visits_and_move_weights("random")
    assert visits == pytest.approx(500 * 0.4, abs=4.5 * np.sqrt(500 * 0.4 * 0.6))
    assert weights == pytest.approx(500 * 0.2, abs=4.5 * np.sqrt(500 * 0.2 * 0.8))


def test_gumbel_starts_from_unexpanded_roots_and_cannot_be_extended():
    position = Position.start("connect_four:5x5")
    search = searched(gumbel(4, 16), [position], True)
    search.start_search(SLOTS[:1], KEYS[:1], KEYS[:1], 8)
    search.run()
    assert search.root_visits(SLOTS[:1]).sum() == 8
    search.advance(SLOTS[:1], np.array([2]))
    assert search._tree.node_count[0] == 1
    with pytest.raises(ValueError, match="plans all simulations"):
        search.extend(SLOTS[:1], 8)


def test_gumbel_and_dirichlet_noise_exclude_each_other():
    mixed = validate(SearchSettings, {"root": "gumbel", "noise": {"fraction": 0.25}})
    with pytest.raises(ValueError, match=r"noise\.fraction = 0\.25: search\.root = .gumbel. draws"):
        mixed.check_self_play()


def gumbel_at_tree_of_puct(considered, simulations):
    """Return a search with PUCT, and Gumbel's root rule with a state for the same tree."""
    start = Position.start("connect_four:4x4")
    puct = validate(SearchSettings, {"simulations": 12, "proven_values": True})
    search = run(start.game, puct, HashEvaluator(4), [start])
    root = gumbel(considered, simulations).root.build()
    state = search._search_state._replace(
        requested_simulations=np.array([simulations]),
        root_rule_state=methods.empty_root_rule_state(root, 1, 4),
    )
    return search, root, state


def test_gumbel_avoids_proven_losses():
    """The root rule is called from Python, on a tree that another root rule has searched."""
    search, root, state = gumbel_at_tree_of_puct(4, 4)
    tree = search._tree
    weights = np.zeros(4, np.int64)
    for lost in range(4):
        tree.proven_result[0, 1:5] = np.where(np.arange(4) == lost, WIN, ONGOING)
        tree.visits[0, :5] = [1, 0, 0, 0, 0]
        methods.prepare_root(root, tree, state, None, 0)
        state.root_rule_state.noisy_logits[0, lost] = 100  # the best move except for the proof
        chosen = methods.descent_start(root, search._methods, tree, state, 0)
        assert chosen in {1, 2, 3, 4} - {1 + lost}
        for most in (0, 1, 3):
            tree.visits[0, 1:5] = np.where(np.arange(4) == lost, most, min(most, 1))
            methods.write_move_weights(root, search._methods, tree, state, 0, False, weights)
            assert weights.sum() == 1
            assert weights[lost] == 0


class PriorsEvaluator:
    """Evaluator with constant priors and values of 0."""

    def __init__(self, priors):
        self.priors = np.array(priors, np.float32)

    def evaluate(self, states):
        return np.tile(self.priors, (len(states), 1)), np.zeros(len(states), np.float32)


@pytest.mark.parametrize("considered", [2, 3, 16])
def test_other_actions_take_the_place_of_proven_losses(considered):
    position = Position.start("connect_four:6x7")
    for move in (0, 3, 0, 3, 6, 3):
        position = position.play(move)
    # All moves but column 3 lose at once, and two of them have higher priors.
    evaluator = PriorsEvaluator([5, 4, 0.3, 3.9, 0.2, 3, 2])
    settings = gumbel(considered, 100, proven_values=True)
    search = Search(position.game, settings, evaluator, 1)
    search.set_root(SLOTS[:1], position.state[None])
    search.start_search(SLOTS[:1], KEYS[:1], KEYS[:1], noise=np.zeros(1, np.bool_))
    search.run()
    visits = search.root_visits(SLOTS[:1])[0]
    assert visits[3] > 70
    assert (np.delete(visits, 3) < 10).all()


@pytest.mark.parametrize(
    ("visits", "lost", "expected"),
    [
        ([2, 2, 0, 0], [], 1),
        ([2, 2, 0, 0], [1], 0),
        ([2, 2, 0, 0], [0, 1], 3),
        ([3, 2, 0, 0], [1], 3),
        ([2, 2, 1, 0], [0, 1], 2),
        ([7, 1, 1, 1], [1, 2, 3], 0),
    ],
)
def test_gumbel_chooses_the_closest_number_of_visits_among_unproven_actions(visits, lost, expected):
    """Sequential halving gives the next simulation to an action with half of the visits so far."""
    search, root, state = gumbel_at_tree_of_puct(2, 100)
    tree = search._tree
    state.root_rule_state.noisy_logits[0] = [100, 200, 300, 400]
    tree.visits[0, :5] = [1 + sum(visits), *visits]
    tree.value[0, 1:5] = 0
    tree.proven_result[0, 1:5] = [WIN if action in lost else ONGOING for action in range(4)]
    assert methods.descent_start(root, search._methods, tree, state, 0) == 1 + expected


FORCED = {
    "simulations": 60,
    "selection": {"name": "puct", "c": 1.3},
    "noise": {"fraction": 0.25, "concentration": 5},
    "root": {"name": "puct", "forced_playouts": 4},
}


def test_visited_children_of_noisy_roots_get_forced_playouts():
    positions = some_positions("connect_four:5x5", 6, plies=10)
    search = searched(validate(SearchSettings, FORCED), positions, True)
    visits, priors = search.root_visits(SLOTS), search.root_priors(SLOTS)
    forced = np.floor(np.sqrt(4 * priors * 59))
    assert (visits[visits > 0] >= forced[visits > 0]).all()
    plain = searched(
        validate(SearchSettings, {**FORCED, "root": {"name": "puct"}}), positions, True
    )
    assert (plain.root_visits(SLOTS) < np.minimum(forced, visits)).any()
    quiet = searched(validate(SearchSettings, FORCED), positions, False)
    assert (quiet.policies(SLOTS) == (quiet.root_visits(SLOTS) / 60).astype(np.float32)).all()


def pruned_by_hand(visits, values, priors, c, k, lost=()):
    """Return visits after policy target pruning [Wu2019, Section 3.2].

    Actions in `lost` lose all their visits and are never the best action.
    """
    total = sum(visits)

    def score(action, count):
        return values[action] + c * priors[action] * math.sqrt(total + 1) / (1 + count)

    open_visits = [0 if action in lost else count for action, count in enumerate(visits)]
    best = int(np.argmax(open_visits))
    pruned = list(open_visits)
    for action in range(len(visits)):
        if action != best and action not in lost:
            for _ in range(int(math.sqrt(k * priors[action] * total))):
                if pruned[action] > 1 and score(action, pruned[action] - 1) < score(
                    best, pruned[best]
                ):
                    pruned[action] -= 1
            pruned[action] = pruned[action] if pruned[action] > 1 else 0
    return pruned


def test_policy_pruning_removes_forced_playouts_but_spares_the_best_move():
    positions = some_positions("connect_four:5x5", 6, plies=10)
    search = searched(validate(SearchSettings, FORCED), positions, True)
    visits, values = search.root_visits_and_values(SLOTS)
    priors, policies = search.root_priors(SLOTS), search.policies(SLOTS)
    changed = 0
    for i in range(6):
        pruned = pruned_by_hand(visits[i].tolist(), values[i], priors[i], 1.3, 4)
        assert policies[i] == pytest.approx(np.array(pruned) / sum(pruned))
        assert pruned[visits[i].argmax()] == visits[i].max()
        changed += sum(pruned) < 60
    assert changed > 2
    assert (search.root_visits(SLOTS).sum(axis=1) == 60).all()


def test_policy_pruning_ignores_proven_losses():
    positions = some_positions("connect_four:4x4", 1000, plies=13)
    search = searched(validate(SearchSettings, {**FORCED, "proven_values": True}), positions, True)
    tree, slots = search._tree, np.arange(1000)
    visits, values = search.root_visits_and_values(slots)
    priors, policies = search.root_priors(slots), search.policies(slots)
    compared = 0
    for i in np.flatnonzero(tree.proven_result[:, 0] == ONGOING):
        first, count = tree.first_child[i, 0], tree.child_count[i, 0]
        children = slice(first, first + count)
        lost = set(tree.action[i, children][tree.proven_result[i, children] == WIN].tolist())
        if visits[i].argmax() in lost:
            pruned = pruned_by_hand(visits[i].tolist(), values[i], priors[i], 1.3, 4, lost)
            assert policies[i] == pytest.approx(np.array(pruned) / sum(pruned))
            compared += 1
    assert compared > 0


def test_forced_playouts_need_noise():
    quiet = validate(SearchSettings, {"root": {"name": "puct", "forced_playouts": 2}})
    with pytest.raises(ValueError, match=r"forced_playouts = 2\.0 has no effect without"):
        quiet.check_self_play()


def test_unknown_root_rule_is_refused():
    with pytest.raises(UserError, match="gumbel"):
        validate(SearchSettings, {"root": "gumble"})
