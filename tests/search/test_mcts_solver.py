"""Proven values: agreement with exact solutions, and use in search."""

from __future__ import annotations

import numpy as np
import pytest

from search.naive import HashEvaluator
from search.test_search import run
from zerolab.core import streams
from zerolab.core.config import validate
from zerolab.oracles.solver import Solver
from zerolab.rules import compiled_rules, rules
from zerolab.rules.catalogue import parse_game
from zerolab.rules.position import Position
from zerolab.rules.rules import DRAW, LOSS, ONGOING, WIN
from zerolab.search.evaluator import UniformEvaluator
from zerolab.search.search import Search
from zerolab.search.search_settings import SearchSettings

# Terminal positions are losses for the mover in Connect Four, and also wins in Othello.
GAMES = ("connect_four:4x4", "othello:4x4")
FIRST = np.zeros(1, np.int64)


def settings_of(simulations, **others):
    return validate(SearchSettings, {"simulations": simulations, "proven_values": True, **others})


def random_positions(game, count, random):
    """Return ongoing states after random moves, uint64[count, words]."""
    states = []
    while len(states) < count:
        state, visited = compiled_rules.start(game), []
        while compiled_rules.outcome(game, state) == ONGOING:
            visited.append(state)
            state = compiled_rules.apply(
                game, state, int(random.choice(np.flatnonzero(compiled_rules.legal(game, state))))
            )
        states.append(visited[random.integers(len(visited))])
    return np.array(states)


def searched(game, states, settings):
    search = Search(game, settings, UniformEvaluator(rules.action_count(game)), len(states))
    slots = np.arange(len(states))
    search.set_root(slots, states)
    keys = streams.stream_keys(0, 0, slots, slots, streams.PLAYOUT)
    search.start_search(slots, keys, keys)
    search.run()
    return search


def proven_positions(search):
    """Return states, results and distances of all proven nodes with ongoing games."""
    tree = search._tree
    inside = np.arange(tree.visits.shape[1]) < tree.node_count[:, None]
    chosen = inside & (tree.outcome == ONGOING) & (tree.proven_result != ONGOING)
    columns = tree.states[chosen], tree.proven_result[chosen], tree.proven_distance[chosen]
    _, first = np.unique(columns[0], axis=0, return_index=True)
    return tuple(column[first] for column in columns)


def test_proven_values_agree_with_the_solver():
    random = np.random.default_rng(1)
    compared = 0
    for name in GAMES:
        game = parse_game(name)
        search = searched(game, random_positions(game, 300, random), settings_of(700))
        states, results, distances = proven_positions(search)
        chosen = random.permutation(len(states))[:1000]
        solver = Solver(game)
        exact = [np.sign(solver.value(states[i])) for i in chosen]
        assert (results[chosen] == exact).all(), name
        assert {LOSS, DRAW, WIN} == set(results[chosen]), name
        assert (distances[chosen] > 0).all()
        compared += len(chosen)
        assert search.work_counts["proven"] > len(states)
    assert compared == 2000


def exact(game, state, known):
    """Return the result for the side to move and the plies to the fastest win or slowest loss."""
    key = state.tobytes()
    if key not in known:
        known[key] = compiled_rules.outcome(game, state), 0
        if known[key][0] == ONGOING:
            successors = [
                compiled_rules.apply(game, state, a)
                for a in np.flatnonzero(compiled_rules.legal(game, state))
            ]
            replies = [exact(game, successor, known) for successor in successors]
            best = max(-result for result, _ in replies)
            plies = [1 + distance for result, distance in replies if -result == best]
            known[key] = best, min(plies) if best == WIN else max(plies)
    return known[key]


def test_proven_distances_are_upper_bounds_of_exact_distances():
    """A proof can find a longer win than the fastest one, and overrate a loss accordingly."""
    game, known = parse_game("connect_four:4x4"), {}
    states = random_positions(game, 400, np.random.default_rng(2))
    late = [state for state in states if compiled_rules.empty_count(game, state) <= 8]
    search = searched(game, np.array(late), settings_of(1000))
    states, results, distances = proven_positions(search)
    truth = np.array([exact(game, state, known) for state in states])
    assert (truth[:, 0] == results).all()
    decisive = results != DRAW
    assert decisive.sum() > 500
    longer = (distances - truth[:, 1])[decisive]
    assert (longer >= 0).all()
    assert (longer % 2 == 0).all()
    assert (longer == 0).mean() > 0.9


def test_proven_wins_are_played_out_within_their_distance():
    """The winner searches one simulation per move; the loser plays at random."""
    game, random = parse_game("connect_four:4x4"), np.random.default_rng(3)
    search = searched(game, random_positions(game, 400, random), settings_of(800))
    slots = np.flatnonzero(search._tree.proven_result[:, 0] == WIN)
    assert len(slots) > 50
    remaining = search._tree.proven_distance[:, 0].copy()
    for ply in range(16):
        keys = streams.stream_keys(1, 0, slots, slots + ply, streams.PLAYOUT)
        if ply % 2 == 0:
            search.start_search(slots, keys, keys, 1)
            search.run()
            policies = search.policies(slots)
            actions = search.choose(slots, keys, np.ones(len(slots), bool))
            assert (policies[np.arange(len(slots)), actions] > 0).all()
        else:
            legal = [
                np.flatnonzero(compiled_rules.legal(game, state))
                for state in search.root_states(slots)
            ]
            actions = np.array([random.choice(choices) for choices in legal])
        search.advance(slots, actions)
        remaining[slots] -= 1
        assert (remaining[slots] >= 0).all()
        finished = search.root_outcomes(slots) != ONGOING
        assert (search.root_outcomes(slots)[finished] == LOSS).all()
        assert ply % 2 == 0 or not finished.any()
        slots = slots[~finished]
    assert not len(slots)


def test_fastest_win_has_all_policy_mass():
    position = Position.start("connect_four:4x4")
    for move in ("1", "0", "1", "0", "1", "0"):
        position = position.play(move)
    search = run(position.game, settings_of(200, discount=0.9), UniformEvaluator(4), [position])
    best = position.parse_action("1")
    assert search._tree.proven_result[0, 0] == WIN
    assert search._tree.proven_distance[0, 0] == 1
    assert search.root_values(FIRST)[0] == np.float32(0.9)
    assert search.policies(FIRST)[0, best] == 1
    for sample in (False, True):
        keys = np.array([5], np.uint64)
        assert search.choose(FIRST, keys, np.array([sample]))[0] == best
    assert search.work_counts["simulations"] < 200
    result = search.result(0)
    assert result.principal_variation == (best,)
    assert result.best_action == best


def test_lost_root_plays_the_slowest_loss():
    """Only moves that delay the loss longest have policy mass."""
    position = Position.start("connect_four:4x4")
    solver = Solver(position.game)
    random = np.random.default_rng(0)
    states = random_positions(position.game, 500, random)
    search = searched(position.game, states, settings_of(1000))
    lost = np.flatnonzero(search._tree.proven_result[:, 0] == LOSS)
    assert len(lost) > 10
    policies = search.policies(lost)
    for b, policy in zip(lost, policies, strict=True):
        children = slice(1, 1 + search._tree.child_count[b, 0])
        distances = search._tree.proven_distance[b, children]
        actions = search._tree.action[b, children]
        assert (search._tree.proven_result[b, children] == WIN).all()
        assert (policy[actions] > 0).tolist() == (distances == distances.max()).tolist()
        assert solver.value(states[b]) < 0


def search_with_proofs(proven, simulations=30):
    """Return a search of Connect Four 4x4 with the given proofs at the root's children."""
    position = Position.start("connect_four:4x4")
    search = run(position.game, settings_of(simulations), HashEvaluator(4), [position])
    search._tree.proven_result[0, 1:5] = proven
    search._tree.proven_distance[0, 1:5] = 3
    return search


def test_lost_actions_have_no_policy_mass():
    visits = search_with_proofs([ONGOING] * 4).root_visits(FIRST)[0]
    search = search_with_proofs([WIN, ONGOING, DRAW, WIN])
    expected = visits * [0, 1, 1, 0]
    assert search.policies(FIRST)[0] == pytest.approx(expected / expected.sum())
    keys = np.arange(200).astype(np.uint64)
    slots = np.zeros(200, np.int64)
    assert set(search.choose(slots, keys, np.ones(200, bool))) <= {1, 2}


def test_unvisited_actions_use_priors_if_all_visited_actions_lose():
    search = search_with_proofs([WIN, ONGOING, ONGOING, WIN])
    search._tree.visits[0, 2:4] = 0
    priors = search.root_priors(FIRST)[0] * [0, 1, 1, 0]
    assert search.policies(FIRST)[0] == pytest.approx(priors / priors.sum(), rel=1e-5)
    chosen = search.choose(FIRST, np.array([1], np.uint64), np.array([False]))
    assert chosen[0] == priors.argmax()


def test_selection_avoids_lost_actions():
    search = search_with_proofs([ONGOING] * 4)
    best = int(search.root_visits(FIRST)[0].argmax())
    search._tree.proven_result[0, 1 + best] = WIN
    before = search.root_visits(FIRST)[0]
    keys = np.array([7], np.uint64)
    search.start_search(FIRST, keys, keys, 100)
    search.run()
    gained = search.root_visits(FIRST)[0] - before
    assert gained[best] == 0
    assert gained.sum() == 100


def test_simulations_end_at_proven_draws():
    search = search_with_proofs([ONGOING] * 4)
    tree = search._tree
    best = 1 + int(search.root_visits(FIRST)[0].argmax())
    below = slice(tree.first_child[0, best], tree.first_child[0, best] + tree.child_count[0, best])
    before = tree.visits[0, best], tree.visits[0, below].copy()
    assert before[1].any()
    tree.proven_result[0, best] = DRAW
    keys = np.array([7], np.uint64)
    search.start_search(FIRST, keys, keys, 100)
    search.run()
    tree = search._tree
    assert tree.visits[0, best] > before[0]
    assert (tree.visits[0, below] == before[1]).all()


def test_proven_root_is_not_searched():
    search = search_with_proofs([ONGOING] * 4)
    search._tree.proven_result[0, 0] = DRAW
    keys = np.array([7], np.uint64)
    search.start_search(FIRST, keys, keys, 100)
    assert search.step().tolist() == [0]
    assert search.work_counts["simulations"] == 30
    search.extend(FIRST, 50)
    assert search.step().tolist() == [0]


def test_proofs_survive_moves_and_visit_discounting():
    game = parse_game("connect_four:4x4")
    states = random_positions(game, 200, np.random.default_rng(4))
    search = searched(
        game, states, settings_of(300, noise={"fraction": 0.25, "inherited_visits": 0.5})
    )
    known = {
        state.tobytes(): proof for state, *proof in zip(*proven_positions(search), strict=True)
    }
    unproven = np.flatnonzero(search._tree.proven_result[:, 0] == ONGOING)
    actions = search.root_visits(unproven).argmax(axis=1)
    search.advance(unproven, actions)
    keys = streams.stream_keys(1, 0, unproven, unproven, streams.PLAYOUT)
    ongoing = search.root_outcomes(unproven) == ONGOING
    search.start_search(unproven[ongoing], keys[ongoing], keys[ongoing], 1)
    compared = 0
    tree = search._tree
    for b in unproven[ongoing]:
        for node in range(tree.node_count[b]):
            if tree.outcome[b, node] == ONGOING and tree.proven_result[b, node] != ONGOING:
                proof = known[tree.states[b, node].tobytes()]
                assert [tree.proven_result[b, node], tree.proven_distance[b, node]] == proof
                assert tree.value[b, node] == proof[0]
                compared += 1
    assert compared > 100


def test_proven_values_change_nothing_without_reachable_ends():
    game = parse_game("connect_four:4x4")
    evaluator = HashEvaluator(4)
    off = run(game, SearchSettings(simulations=12), evaluator, [Position.start(game)])
    on = run(game, settings_of(12), evaluator, [Position.start(game)])
    for field in ("visits", "value", "prior", "first_child"):
        assert (getattr(off._tree, field) == getattr(on._tree, field)).all()
    assert "proven" not in off.work_counts
    assert on.work_counts == off.work_counts | {"proven": 0}
