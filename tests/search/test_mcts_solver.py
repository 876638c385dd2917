"""Proven values against exact solutions, and their use by a search."""

from __future__ import annotations

import numpy as np
import pytest

from search.naive import HashEvaluator
from search.test_search import run
from zerolab.core import streams
from zerolab.core.config import validate
from zerolab.oracles.solver import Solver
from zerolab.rules import python, rules
from zerolab.rules.catalogue import parse_game
from zerolab.rules.position import Position
from zerolab.rules.rules import DRAW, LOSS, ONGOING, WIN
from zerolab.search.evaluator import UniformEvaluator
from zerolab.search.search import Search
from zerolab.search.search_settings import SearchSettings

GAMES = ("gobang:3x3:3", "gobang:4x4:4", "connect_four:4x4", "othello:4x4")
FIRST = np.zeros(1, np.int64)


def settings_of(simulations, **others):
    return validate(SearchSettings, {"simulations": simulations, "proven_values": True, **others})


def random_positions(game, count, random):
    """Return states after random moves, all of them ongoing, uint64[count, words]."""
    found = []
    while len(found) < count:
        state, played = python.start(game), []
        while python.outcome(game, state) == ONGOING:
            played.append(state)
            state = python.apply(
                game, state, int(random.choice(np.flatnonzero(python.legal(game, state))))
            )
        found.append(played[random.integers(len(played))])
    return np.array(found)


def searched(game, states, settings):
    made = Search(game, settings, UniformEvaluator(rules.actions(game)), len(states))
    slots = np.arange(len(states))
    made.set_root(slots, states)
    keys = streams.streams(0, 0, slots, slots, streams.PLAYOUT)
    made.start_search(slots, keys, keys)
    made.run()
    return made


def proven_positions(made):
    """Return states, results and distances of all nodes that are proven and not finished."""
    tree = made._tree
    inside = np.arange(tree.visits.shape[1]) < tree.used[:, None]
    chosen = inside & (tree.outcome == ONGOING) & (tree.proven != ONGOING)
    columns = tree.states[chosen], tree.proven[chosen], tree.distance[chosen]
    _, first = np.unique(columns[0], axis=0, return_index=True)
    return tuple(column[first] for column in columns)


def test_proven_values_are_those_of_the_solver_in_thousands_of_positions():
    random = np.random.default_rng(1)
    compared = 0
    for name in GAMES:
        game = parse_game(name)
        made = searched(game, random_positions(game, 300, random), settings_of(700))
        states, results, distances = proven_positions(made)
        chosen = random.permutation(len(states))[:1000]
        solver = Solver(game)
        exact = [np.sign(solver.value(states[i])) for i in chosen]
        assert (results[chosen] == exact).all(), name
        assert {LOSS, DRAW, WIN} == set(results[chosen]), name
        assert (distances[chosen] > 0).all()
        compared += len(chosen)
        assert made.counts["proven"] > len(states)
    assert compared >= 3000


def exact(game, state, known):
    """Return the result for the mover and the plies of the quickest win or slowest loss."""
    key = state.tobytes()
    if key not in known:
        known[key] = python.outcome(game, state), 0
        if known[key][0] == ONGOING:
            after = [
                python.apply(game, state, a) for a in np.flatnonzero(python.legal(game, state))
            ]
            replies = [exact(game, each, known) for each in after]
            best = max(-result for result, _ in replies)
            plies = [1 + distance for result, distance in replies if -result == best]
            known[key] = best, min(plies) if best == WIN else max(plies)
    return known[key]


def test_distances_are_those_of_wins_and_losses_that_are_there():
    """A proven win may take longer than the quickest one, and so may a loss."""
    game, known = parse_game("gobang:3x3:3"), {}
    made = searched(game, random_positions(game, 300, np.random.default_rng(2)), settings_of(1000))
    states, results, distances = proven_positions(made)
    truth = np.array([exact(game, state, known) for state in states])
    assert (truth[:, 0] == results).all()
    decisive = results != DRAW
    assert decisive.sum() > 500
    longer = (distances - truth[:, 1])[decisive]
    assert (longer >= 0).all()
    assert (longer % 2 == 0).all()
    assert (longer == 0).mean() > 0.9


@pytest.mark.parametrize("name", ["gobang:3x3:3", "connect_four:4x4"])
def test_a_won_game_is_never_lost_and_ends_in_time(name):
    """The winner searches as little as one simulation a move; the loser plays at random."""
    game, random = parse_game(name), np.random.default_rng(3)
    made = searched(game, random_positions(game, 400, random), settings_of(800))
    slots = np.flatnonzero(made._tree.proven[:, 0] == WIN)
    assert len(slots) > 50
    left = made._tree.distance[:, 0].copy()
    for ply in range(16):
        keys = streams.streams(1, 0, slots, slots + ply, streams.PLAYOUT)
        if ply % 2 == 0:
            made.start_search(slots, keys, keys, 1)
            made.run()
            policies = made.policies(slots)
            actions = made.choose(slots, keys, np.ones(len(slots), bool))
            assert (policies[np.arange(len(slots)), actions] > 0).all()
        else:
            legal = [np.flatnonzero(python.legal(game, state)) for state in made.states(slots)]
            actions = np.array([random.choice(each) for each in legal])
        made.advance(slots, actions)
        left[slots] -= 1
        assert (left[slots] >= 0).all()
        over = made.outcomes(slots) != ONGOING
        assert (made.outcomes(slots)[over] == LOSS).all()
        assert ply % 2 == 0 or not over.any()
        slots = slots[~over]
    assert not len(slots)


def test_the_quickest_win_is_worth_most_and_has_the_whole_policy():
    position = Position.start("gobang:3x3:3")
    for move in ("a1", "b1", "a2", "b2"):
        position = position.play(move)
    made = run(position.game, settings_of(200, discount=0.9), UniformEvaluator(9), [position])
    best = position.parse("a3")
    assert made._tree.proven[0, 0] == WIN
    assert made._tree.distance[0, 0] == 1
    assert made.root_values(FIRST)[0] == np.float32(0.9)
    assert made.policies(FIRST)[0, best] == 1
    for sample in (False, True):
        keys = np.array([5], np.uint64)
        assert made.choose(FIRST, keys, np.array([sample]))[0] == best
    assert made.counts["simulations"] < 200
    result = made.result(0)
    assert result.principal_variation == (best,)
    assert result.best_action == best


def test_a_lost_root_plays_the_slowest_loss():
    """The opponent threatens twice in Connect Four: every move loses, one of them later."""
    position = Position.start("connect_four:4x4")
    solver = Solver(position.game)
    random = np.random.default_rng(0)
    states = random_positions(position.game, 500, random)
    made = searched(position.game, states, settings_of(2500))
    lost = np.flatnonzero(made._tree.proven[:, 0] == LOSS)
    assert len(lost) > 10
    policies = made.policies(lost)
    for b, policy in zip(lost, policies, strict=True):
        children = slice(1, 1 + made._tree.children[b, 0])
        distances = made._tree.distance[b, children]
        actions = made._tree.action[b, children]
        assert (made._tree.proven[b, children] == WIN).all()
        assert (policy[actions] > 0).tolist() == (distances == distances.max()).tolist()
        assert solver.value(states[b]) < 0


def hand_made(proven, simulations=30):
    """Return a search of Connect Four 4x4 whose root's children have got these proofs."""
    position = Position.start("connect_four:4x4")
    made = run(position.game, settings_of(simulations), HashEvaluator(4), [position])
    made._tree.proven[0, 1:5] = proven
    made._tree.distance[0, 1:5] = 3
    return made


def test_lost_actions_have_no_share_unless_all_are_lost():
    visits = hand_made([ONGOING] * 4).visits(FIRST)[0]
    made = hand_made([WIN, ONGOING, DRAW, WIN])
    expected = visits * [0, 1, 1, 0]
    assert made.policies(FIRST)[0] == pytest.approx(expected / expected.sum())
    keys = np.arange(200).astype(np.uint64)
    slots = np.zeros(200, np.int64)
    assert set(made.choose(slots, keys, np.ones(200, bool))) <= {1, 2}


def test_where_every_visited_action_loses_the_priors_of_the_others_decide():
    made = hand_made([WIN, ONGOING, ONGOING, WIN])
    made._tree.visits[0, 2:4] = 0
    priors = made.root_priors(FIRST)[0] * [0, 1, 1, 0]
    assert made.policies(FIRST)[0] == pytest.approx(priors / priors.sum(), rel=1e-5)
    chosen = made.choose(FIRST, np.array([1], np.uint64), np.array([False]))
    assert chosen[0] == priors.argmax()


def test_selection_avoids_what_is_lost():
    made = hand_made([ONGOING] * 4)
    best = int(made.visits(FIRST)[0].argmax())
    made._tree.proven[0, 1 + best] = WIN
    before = made.visits(FIRST)[0]
    keys = np.array([7], np.uint64)
    made.start_search(FIRST, keys, keys, 100)
    made.run()
    gained = made.visits(FIRST)[0] - before
    assert gained[best] == 0
    assert gained.sum() == 100


def test_a_proven_root_is_not_searched():
    made = hand_made([ONGOING] * 4)
    made._tree.proven[0, 0] = DRAW
    keys = np.array([7], np.uint64)
    made.start_search(FIRST, keys, keys, 100)
    assert made.step().tolist() == [0]
    assert made.counts["simulations"] == 30
    made.extend(FIRST, 50)
    assert made.step().tolist() == [0]


def test_proofs_survive_moves_and_discounts_of_visits():
    game = parse_game("connect_four:4x4")
    states = random_positions(game, 200, np.random.default_rng(4))
    made = searched(
        game, states, settings_of(300, noise={"fraction": 0.25, "inherited_visits": 0.5})
    )
    known = {state.tobytes(): proof for state, *proof in zip(*proven_positions(made), strict=True)}
    open_ = np.flatnonzero(made._tree.proven[:, 0] == ONGOING)
    actions = made.visits(open_).argmax(axis=1)
    made.advance(open_, actions)
    keys = streams.streams(1, 0, open_, open_, streams.PLAYOUT)
    ongoing = made.outcomes(open_) == ONGOING
    made.start_search(open_[ongoing], keys[ongoing], keys[ongoing], 1)
    found = 0
    tree = made._tree
    for b in open_[ongoing]:
        for node in range(tree.used[b]):
            if tree.outcome[b, node] == ONGOING and tree.proven[b, node] != ONGOING:
                proof = known[tree.states[b, node].tobytes()]
                assert [tree.proven[b, node], tree.distance[b, node]] == proof
                assert tree.value[b, node] == proof[0]
                found += 1
    assert found > 100


def test_without_ends_in_reach_and_switched_off_searches_are_the_same():
    game = parse_game("connect_four:4x4")
    evaluator = HashEvaluator(4)
    off = run(game, SearchSettings(simulations=12), evaluator, [Position.start(game)])
    on = run(game, settings_of(12), evaluator, [Position.start(game)])
    for field in ("visits", "value", "prior", "first_child"):
        assert (getattr(off._tree, field) == getattr(on._tree, field)).all()
    assert "proven" not in off.counts
    assert on.counts == off.counts | {"proven": 0}
