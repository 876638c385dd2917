"""Root rules: Gumbel against a naive twin, forced playouts and pruned policies by hand."""

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
from zerolab.search.root_rules import considered_visits
from zerolab.search.search import Search
from zerolab.search.search_settings import SearchSettings

SLOTS = np.arange(6)
KEYS = streams.streams(3, 0, SLOTS, SLOTS, streams.ROOT_NOISE)


def searched(settings, positions, noise, simulations=None):
    """Search positions of one game with noise or without."""
    slots = np.arange(len(positions))
    game = positions[0].game
    made = Search(game, settings, HashEvaluator(rules.actions(game)), len(positions))
    made.set_root(slots, np.array([position.state for position in positions]))
    flags = np.full(len(positions), noise)
    keys = streams.streams(3, 0, slots, slots, streams.ROOT_NOISE)
    made.start_search(slots, keys, keys, simulations, flags)
    made.run()
    return made


def test_sequential_halving_is_that_of_the_published_code():
    for most in range(21):
        for simulations in (1, 2, 5, 16, 17, 50, 200):
            expected = naive_considered_visits(most, simulations)
            own = [considered_visits(most, simulations, i) for i in range(simulations)]
            assert own == expected, (most, simulations)


def gumbel(considered, simulations, **others):
    root = {"name": "gumbel", "considered": considered, "visit_weight": 40, "value_scale": 0.07}
    selection = {"name": "puct", "c": 1.3}
    return validate(
        SearchSettings,
        {"simulations": simulations, "root": root, "selection": selection, **others},
    )


def gumbel_noise(key):
    folded = [np.uint64(streams.fold(key, i)) for i in range(5)]
    uniform = [streams.uniform(each, 0) for each in folded]
    return -np.log(-np.log(uniform))


@pytest.mark.parametrize("noise", [False, True])
@pytest.mark.parametrize(
    ("considered", "simulations", "discount"),
    [(16, 5, 1.0), (4, 16, 1.0), (4, 16, 0.8), (3, 50, 1.0), (1, 7, 1.0), (5, 3, 1.0)],
)
def test_gumbel_agrees_with_a_naive_twin(noise, considered, simulations, discount):
    """Among them one simulation per action, and fewer simulations than actions."""
    positions = some_positions("connect_four:5x5", 6, plies=20)
    made = searched(gumbel(considered, simulations, discount=discount), positions, noise)
    policies, visits = made.policies(SLOTS), made.visits(SLOTS)
    moves = made.choose(SLOTS, KEYS, np.zeros(6, bool))
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


def test_gumbel_looks_once_at_every_action_where_it_has_one_simulation_for_each():
    position = Position.start("connect_four:5x5")
    made = searched(gumbel(16, 5), [position] * 6, True)
    assert (made.visits(SLOTS) == 1).all()
    assert len(set(made.choose(SLOTS, KEYS, np.ones(6, bool)))) > 1


def test_a_line_begins_with_what_gumbel_chooses():
    made = searched(gumbel(4, 8), some_positions("connect_four:5x5", 6), False)
    chosen = made.choose(SLOTS, KEYS, np.zeros(6, np.bool_))
    assert [made.result(slot).principal_variation[0] for slot in SLOTS] == chosen.tolist()
    assert (chosen != made.visits(SLOTS).argmax(axis=1)).any()


def test_moves_without_gumbel_noise_can_be_sampled_from_the_policy():
    position = Position.start("connect_four:5x5")
    made = searched(gumbel(4, 16), [position], False)
    keys = streams.streams(1, 0, np.arange(2000), np.arange(2000), streams.ARENA_MOVE)
    slots = np.zeros(2000, np.int64)
    chosen = made.choose(slots, keys, np.ones(2000, bool))
    shares = np.bincount(chosen, minlength=5) / 2000
    assert shares == pytest.approx(made.policies(slots[:1])[0], abs=0.05)


def test_gumbel_searches_bare_roots_and_plans_ahead():
    position = Position.start("connect_four:5x5")
    made = searched(gumbel(4, 16), [position], True)
    made.start_search(SLOTS[:1], KEYS[:1], KEYS[:1], 8)
    made.run()
    assert made.visits(SLOTS[:1]).sum() == 8
    made.advance(SLOTS[:1], np.array([2]))
    assert made._tree.used[0] == 1
    with pytest.raises(ValueError, match="plans all simulations"):
        made.extend(SLOTS[:1], 8)


def test_gumbel_and_dirichlet_noise_exclude_each_other():
    mixed = validate(SearchSettings, {"root": "gumbel", "noise": {"fraction": 0.25}})
    with pytest.raises(ValueError, match=r"noise\.fraction = 0\.25: search\.root = .gumbel. draws"):
        mixed.check_self_play()


def test_gumbel_plays_a_proven_win_and_avoids_proven_losses():
    position = Position.start("connect_four:4x4")
    for move in ("0", "1", "0", "1", "0", "1"):
        position = position.play(move)
    settings = gumbel(16, 40, proven_values=True)
    made = run(position.game, settings, HashEvaluator(4), [position])
    best = position.parse("0")
    assert made.policies(SLOTS[:1])[0, best] == 1
    assert made.choose(SLOTS[:1], KEYS[:1], np.zeros(1, bool))[0] == best
    made = run(position.game, settings, HashEvaluator(4), [position.play("3")])
    assert made.choose(SLOTS[:1], KEYS[:1], np.zeros(1, bool))[0] == position.parse("1")


FORCED = {
    "simulations": 60,
    "selection": {"name": "puct", "c": 1.3},
    "noise": {"fraction": 0.25, "concentration": 5},
    "root": {"name": "puct", "forced_playouts": 4},
}


def test_visited_children_of_noisy_roots_get_their_forced_playouts():
    positions = some_positions("connect_four:5x5", 6, plies=10)
    made = searched(validate(SearchSettings, FORCED), positions, True)
    visits, priors = made.visits(SLOTS), made.root_priors(SLOTS)
    owed = np.floor(np.sqrt(4 * priors * 59))
    assert (visits[visits > 0] >= owed[visits > 0]).all()
    plain = searched(
        validate(SearchSettings, {**FORCED, "root": {"name": "puct"}}), positions, True
    )
    assert (plain.visits(SLOTS) < np.minimum(owed, visits)).any()
    quiet = searched(validate(SearchSettings, FORCED), positions, False)
    assert (quiet.policies(SLOTS) == (quiet.visits(SLOTS) / 60).astype(np.float32)).all()


def pruned_by_hand(visits, values, priors, c, k, lost=()):
    """Return the visits that a policy keeps [Wu2019, Section 3.2]; the root has no other visits.

    Actions that are `lost` are no measure for others, and keep nothing.
    """
    total = sum(visits)

    def score(action, count):
        return values[action] + c * priors[action] * math.sqrt(total + 1) / (1 + count)

    open_visits = [0 if action in lost else count for action, count in enumerate(visits)]
    best = int(np.argmax(open_visits))
    kept = list(open_visits)
    for action in range(len(visits)):
        if action != best and action not in lost:
            for _ in range(int(math.sqrt(k * priors[action] * total))):
                if kept[action] > 1 and score(action, kept[action] - 1) < score(best, kept[best]):
                    kept[action] -= 1
            kept[action] = kept[action] if kept[action] > 1 else 0
    return kept


def test_policies_are_pruned_of_forced_playouts_and_never_of_the_best_move():
    positions = some_positions("connect_four:5x5", 6, plies=10)
    made = searched(validate(SearchSettings, FORCED), positions, True)
    visits, values = made.root_actions(SLOTS)
    priors, policies = made.root_priors(SLOTS), made.policies(SLOTS)
    changed = 0
    for i in range(6):
        kept = pruned_by_hand(visits[i].tolist(), values[i], priors[i], 1.3, 4)
        assert policies[i] == pytest.approx(np.array(kept) / sum(kept))
        assert kept[visits[i].argmax()] == visits[i].max()
        changed += sum(kept) < 60
    assert changed > 2
    assert (made.visits(SLOTS).sum(axis=1) == 60).all()


def test_moves_proven_to_lose_are_no_measure_of_forced_playouts():
    positions = some_positions("connect_four:4x4", 1000, plies=13)
    made = searched(validate(SearchSettings, {**FORCED, "proven_values": True}), positions, True)
    tree, slots = made._tree, np.arange(1000)
    visits, values = made.root_actions(slots)
    priors, policies = made.root_priors(slots), made.policies(slots)
    compared = 0
    for i in np.flatnonzero(tree.proven[:, 0] == ONGOING):
        first, count = tree.first_child[i, 0], tree.children[i, 0]
        children = slice(first, first + count)
        lost = set(tree.action[i, children][tree.proven[i, children] == WIN].tolist())
        if visits[i].argmax() in lost:
            kept = pruned_by_hand(visits[i].tolist(), values[i], priors[i], 1.3, 4, lost)
            assert policies[i] == pytest.approx(np.array(kept) / sum(kept))
            compared += 1
    assert compared > 0


def test_forced_playouts_need_noise():
    quiet = validate(SearchSettings, {"root": {"name": "puct", "forced_playouts": 2}})
    with pytest.raises(ValueError, match=r"forced_playouts = 2\.0 has no effect without"):
        quiet.check_self_play()


def test_an_unknown_root_rule_is_explained():
    with pytest.raises(UserError, match="gumbel"):
        validate(SearchSettings, {"root": "gumble"})
