"""Batched search: agreement with the naive search, and invariants."""

from __future__ import annotations

import math

import numpy as np
import pytest

from search.naive import HashEvaluator, Rules
from search.naive import search as naive_search
from zerolab.core import streams
from zerolab.rules import compiled_rules, rules
from zerolab.rules.catalogue import parse_game
from zerolab.rules.position import Position
from zerolab.rules.rules import ONGOING
from zerolab.search import search as search_module
from zerolab.search.evaluator import UniformEvaluator, new_evaluation_cache
from zerolab.search.roots import choose_actions
from zerolab.search.search import Search
from zerolab.search.search_settings import SearchSettings, mcts_settings

GAMES = ("connect_four:5x5", "othello:6x6")
MCTS = mcts_settings(400).model_copy(update={"tie_break": "random"})


def run(game, settings, evaluator, positions, key=0, threads=1):
    """Return a finished search with one tree per position."""
    slots = np.arange(len(positions))
    search = Search(game, settings, evaluator, len(positions), threads)
    search.set_root(slots, np.array([position.state for position in positions]))
    keys = streams.stream_keys(key, 0, slots, slots, streams.PLAYOUT)
    search.start_search(slots, keys, keys)
    search.run()
    return search


def some_positions(name, count, plies=6):
    """Return ongoing positions after random moves."""
    random = np.random.default_rng(5)
    positions = []
    while len(positions) < count:
        position = Position.start(name)
        for _ in range(random.integers(plies)):
            if position.outcome is None:
                position = position.play(int(random.choice(position.legal_actions)))
        if position.outcome is None:
            positions.append(position)
    return positions


FPU_INTERFACE = {
    "zero": ({"name": "zero"}, lambda node, child: 0.0),
    "parent": (
        {"name": "parent", "reduction": 0.25},
        lambda node, child: np.float32(node.value) - np.float32(0.25),
    ),
}


# Every pair needs its own set of kernels. test_values.py tests the other FPU rules.
@pytest.mark.parametrize(
    ("name", "fpu"),
    [*((name, "zero") for name in GAMES), (GAMES[0], "parent")],
)
def test_agrees_with_the_naive_search(name, fpu):
    fpu, node_fpu_value = FPU_INTERFACE[fpu]
    positions = some_positions(name, 4)
    game = positions[0].game
    settings = SearchSettings.model_validate(
        {"simulations": 60, "selection": {"name": "puct", "c": 1.3}, "fpu": fpu}
    )
    search = run(game, settings, HashEvaluator(rules.action_count(game)), positions)
    visits, values = search.root_visits_and_values(np.arange(4))
    surprises = search.search_facts(np.arange(4)).surprises
    for i, position in enumerate(positions):
        naive_rules = Rules(1.3, node_fpu_value)
        root = naive_search(position, HashEvaluator(rules.action_count(game)), 60, naive_rules)
        for action, child in root.children.items():
            assert visits[i, action] == child.visits
            assert values[i, action] == pytest.approx(-child.value, abs=1e-6)
        assert search.root_values(np.array([i]))[0] == pytest.approx(root.value, abs=1e-6)
        total = visits[i].sum()
        shares = {action: child.visits / total for action, child in root.children.items()}
        divergence = sum(
            share * math.log(share / root.children[action].prior)
            for action, share in shares.items()
            if share
        )
        assert surprises[i] == pytest.approx(divergence, abs=1e-5)


@pytest.mark.parametrize("name", GAMES)
def test_trees_do_not_influence_each_other(name):
    positions = some_positions(name, 6)
    game = positions[0].game
    settings = SearchSettings(simulations=40)
    together = run(game, settings, HashEvaluator(rules.action_count(game)), positions)
    for i, position in enumerate(positions):
        alone = run(game, settings, HashEvaluator(rules.action_count(game)), [position])
        assert (
            alone.root_visits(np.zeros(1, int))[0] == together.root_visits(np.array([i]))[0]
        ).all()


@pytest.mark.parametrize("leaves", [1, 6])
@pytest.mark.parametrize("deduplicate", [True, False])
@pytest.mark.parametrize("cache", [0, 8, 4096])
def test_deduplication_and_cache_change_only_the_work(deduplicate, cache, leaves):
    positions = [Position.start("connect_four:5x5")] * 5 + some_positions("connect_four:5x5", 5)
    game = positions[0].game
    plain = run(
        game,
        SearchSettings(simulations=50, deduplicate=False, cache=0, leaves_per_step=leaves),
        HashEvaluator(5),
        positions,
    )
    evaluator = HashEvaluator(5)
    settings = SearchSettings(
        simulations=50, deduplicate=deduplicate, cache=cache, leaves_per_step=leaves
    )
    saving = run(game, settings, evaluator, positions)
    slots = np.arange(10)
    assert (plain.root_visits(slots) == saving.root_visits(slots)).all()
    assert (plain.root_values(slots) == saving.root_values(slots)).all()
    counts = saving.work_counts
    assert counts["evaluated"] == sum(evaluator.calls)
    assert (counts["deduplicated"] > 0) == deduplicate
    if cache != 8:  # a small cache can evict states before they recur
        assert (counts["cached"] > 0) == (cache > 0)
    leaves = sum(counts[kind] for kind in ("evaluated", "deduplicated", "cached", "terminal"))
    assert leaves == counts["simulations"] + 10  # including the unexpanded roots
    if deduplicate or cache > 100:
        assert counts["evaluated"] < plain.work_counts["evaluated"]


def test_means_of_many_simulations_are_exact():
    """A position near a win, whose tree is small: unexpanded nodes are ends of games."""
    (position,) = some_positions("connect_four:5x5", 1, plies=12)
    search = run(
        position.game, SearchSettings(simulations=300_000), UniformEvaluator(5), [position]
    )
    tree = search._tree
    visits, outcomes = tree.visits[0], tree.outcome[0]
    totals = np.zeros(tree.node_count[0])
    for node in reversed(range(1, len(totals))):
        if outcomes[node] != ONGOING:
            totals[node] = float(outcomes[node]) * visits[node]
        totals[tree.parent[0, node]] -= totals[node]
    means = totals / np.maximum(visits[: len(totals)], 1)
    assert means[0] > 0.9
    assert (visits > 100_000).sum() > 1
    assert tree.value[0, : len(means)] == pytest.approx(means, abs=1e-4)


def test_empty_entries_of_the_cache_are_not_read(monkeypatch):
    positions = some_positions(GAMES[0], 3)
    game = positions[0].game
    settings = SearchSettings(simulations=60, cache=64)

    def root_of(search):
        return search.root_visits_and_values(np.arange(3))

    def poisoned_cache(*arguments):
        cache = new_evaluation_cache(*arguments)
        cache.states.fill(np.uint64(2**64 - 1))
        cache.values.fill(np.nan)
        cache.priors.fill(np.nan)
        return cache

    expected = root_of(run(game, settings, HashEvaluator(5), positions))
    monkeypatch.setattr(search_module, "new_evaluation_cache", poisoned_cache)
    np.testing.assert_equal(root_of(run(game, settings, HashEvaluator(5), positions)), expected)


@pytest.mark.parametrize("simulations", [1, 2, 77, 2500])
def test_simulations_equal_root_visits(simulations):
    game = parse_game("othello:6x6")
    search = run(
        game,
        SearchSettings(simulations=simulations),
        UniformEvaluator(37),
        [Position.start(game)],
    )
    visits = search.root_visits(np.zeros(1, int))[0]
    assert visits.sum() == simulations
    assert search.work_counts["simulations"] == simulations


@pytest.mark.parametrize("name", GAMES)
def test_only_legal_actions_are_visited(name):
    positions = some_positions(name, 20, plies=14)
    game = positions[0].game
    search = run(
        game, SearchSettings(simulations=9), HashEvaluator(rules.action_count(game)), positions
    )
    for i, position in enumerate(positions):
        visits = search.root_visits(np.array([i]))[0]
        assert visits[~position.legal_mask].sum() == 0
        assert visits.sum() == 9


class PeakedEvaluator:
    """Evaluator with all prior mass on one action."""

    def __init__(self, actions, action, weight=1.0):
        self.priors = np.zeros(actions, np.float32)
        self.priors[action] = weight

    def evaluate(self, states):
        return np.repeat(self.priors[None], len(states), 0), np.zeros(len(states), np.float32)


def test_first_simulation_follows_the_prior():
    start = Position.start("connect_four:6x7")
    search = run(start.game, SearchSettings(simulations=1), PeakedEvaluator(7, 4), [start])
    assert search.root_visits(np.zeros(1, int))[0].argmax() == 4


@pytest.mark.parametrize("weight", [np.nan, np.inf, 0.0])
def test_invalid_priors_become_uniform(weight):
    start = Position.start("connect_four:6x7")
    search = run(start.game, SearchSettings(simulations=1), PeakedEvaluator(7, 4, weight), [start])
    assert search.root_priors(np.zeros(1, int))[0] == pytest.approx(1 / 7)


def test_illegal_priors_are_masked_and_others_renormalised():
    position = Position.start("othello:6x6")
    evaluator = HashEvaluator(37)
    search = run(position.game, SearchSettings(simulations=1), evaluator, [position])
    priors, raw = (
        search.root_priors(np.zeros(1, int))[0],
        evaluator.evaluate(position.state[None])[0],
    )
    expected = np.where(position.legal_mask, raw[0], 0)
    assert priors == pytest.approx(expected / expected.sum(), rel=1e-5)


WINS_IN_ONE = [
    ("connect_four:6x7", "0 1 0 1 0 2", "0"),
    ("connect_four:4x4:3", "0 1 1 2 3 2", "2"),
]


@pytest.mark.parametrize(("name", "moves", "best"), WINS_IN_ONE)
@pytest.mark.parametrize("settings", [SearchSettings(), MCTS], ids=["puct", "mcts"])
def test_finds_a_win_and_its_value(name, moves, best, settings):
    position = Position.start(name)
    for move in moves.split():
        position = position.play(move)
    uniform = UniformEvaluator(rules.action_count(position.game))
    search = run(position.game, settings, uniform, [position])
    visits, values = search.root_visits_and_values(np.zeros(1, int))
    assert visits[0].argmax() == position.parse_action(best)
    assert values[0, position.parse_action(best)] == 1.0


def test_search_blocks_a_win():
    position = Position.start("connect_four:6x7")
    for move in ("0", "3", "1", "4", "6", "5"):
        position = position.play(move)
    search = run(position.game, SearchSettings(simulations=800), UniformEvaluator(7), [position])
    assert search.root_visits(np.zeros(1, int))[0].argmax() == 2


def tree_of(search, b):
    columns = search._tree._asdict().items()
    return {name: column[b] for name, column in columns if np.ndim(column) > 1}


def check_tree(search, b):
    """Check visit sums, parent links and prior sums."""
    tree, used = tree_of(search, b), search._tree.node_count[b]
    assert tree["parent"][0] == -1
    for node in range(used):
        first, count = tree["first_child"][node], tree["child_count"][node]
        if first == 0:
            continue
        children = slice(first, first + count)
        assert (tree["parent"][children] == node).all()
        assert first + count <= used
        assert tree["visits"][node] == 1 + tree["visits"][children].sum()
        assert tree["prior"][children].sum() == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("name", GAMES)
def test_subtree_of_the_played_move_is_kept(name):
    game = parse_game(name)
    evaluator = HashEvaluator(rules.action_count(game))
    search = run(game, SearchSettings(simulations=50), evaluator, [Position.start(game)] * 3)
    slots = np.arange(3)
    positions = [Position.start(game)] * 3
    for ply in range(8):
        visits = search.root_visits(slots)
        inherited = visits.max(axis=1)
        actions = visits.argmax(axis=1)
        search.advance(slots, actions)
        positions = [p.play(int(a)) for p, a in zip(positions, actions, strict=True)]
        if positions[0].outcome is not None:
            break
        for b in slots:
            check_tree(search, b)
            assert (search.root_states(np.array([b]))[0] == positions[b].state).all()
        assert (search._tree.visits[slots, 0] == inherited).all()
        keys = streams.stream_keys(1, 0, slots, slots + ply, streams.PLAYOUT)
        search.start_search(slots, keys, keys)
        search.run()
        assert (search.root_visits(slots).sum(axis=1) == inherited - 1 + 50).all()
    assert ply >= 3


def test_moves_start_unexpanded_roots_without_tree_reuse():
    game = parse_game("connect_four:5x5")
    settings = SearchSettings(simulations=30, reuse_tree=False)
    search = run(game, settings, HashEvaluator(5), [Position.start(game)])
    search.advance(np.zeros(1, int), np.array([2]))
    assert search._tree.node_count[0] == 1
    assert (search.root_states(np.zeros(1, int))[0] == Position.start(game).play(2).state).all()


def test_fresh_noise_is_added_only_at_roots():
    game = parse_game("connect_four:6x7")
    noisy = SearchSettings.model_validate(
        {"simulations": 40, "noise": {"fraction": 0.25, "concentration": 10}}
    )
    slots = np.arange(400)
    evaluator = HashEvaluator(7)
    starts = np.repeat(compiled_rules.start(game)[None], 400, axis=0)
    search = Search(game, noisy, evaluator, 400)
    search.set_root(slots, starts)
    for ply in range(2):
        keys = streams.stream_keys(7, 0, slots, np.full(400, ply), streams.ROOT_NOISE)
        search.start_search(slots, keys, keys)
        search.run()
        clean = evaluator.evaluate(search.root_states(slots[:1]))[0][0]
        clean = clean / clean.sum()
        priors = search.root_priors(slots)
        noise = (priors - 0.75 * clean) / 0.25
        assert priors.sum(axis=1) == pytest.approx(1, abs=1e-4)
        assert noise.min() > -1e-4
        # Dirichlet distribution with concentration 10: mean m = 1/7, variance m (1 - m) / 11.
        assert noise.mean(axis=0) == pytest.approx(1 / 7, abs=0.03)
        assert noise.var(axis=0).mean() == pytest.approx(6 / 49 / 11, rel=0.15)
        search.advance(slots, np.full(400, 3))


def test_uct_visits_every_action_before_revisiting():
    start = Position.start("connect_four:8x8")
    for simulations in (8, 9, 16):
        settings = MCTS.model_copy(update={"simulations": simulations})
        search = run(start.game, settings, UniformEvaluator(8), [start])
        visits = search.root_visits(np.zeros(1, int))[0]
        assert visits.min() >= 1
        assert visits.sum() == simulations


def test_playouts_depend_only_on_their_stream():
    positions = some_positions("othello:4x4", 3)
    settings = SearchSettings.model_validate({"simulations": 200, "leaf_evaluator": "playout"})
    first, repeated, other = (
        run(positions[0].game, settings, UniformEvaluator(17), positions, key) for key in (1, 1, 2)
    )
    slots = np.arange(3)
    assert (first.root_visits(slots) == repeated.root_visits(slots)).all()
    assert (first.root_visits(slots) != other.root_visits(slots)).any()


def test_sampled_actions_follow_the_visits():
    visits = np.tile(np.array([[10, 0, 30, 60]], np.int32), (20_000, 1))
    numbers = np.arange(20_000)
    keys = streams.stream_keys(3, 1, numbers, numbers * 0, streams.SELF_PLAY_MOVE)
    chosen = choose_actions(visits, keys, np.ones(20_000, bool))
    shares = np.bincount(chosen, minlength=4) / 20_000
    assert shares == pytest.approx([0.1, 0, 0.3, 0.6], abs=0.015)


def test_most_visited_action_is_chosen_with_random_ties():
    visits = np.tile(np.array([[5, 20, 0, 20]], np.int32), (2000, 1))
    numbers = np.arange(2000)
    keys = streams.stream_keys(3, 1, numbers, numbers * 0, streams.MATCH_MOVE)
    chosen = choose_actions(visits, keys, np.zeros(2000, bool))
    assert set(chosen) == {1, 3}
    assert np.mean(chosen == 1) == pytest.approx(0.5, abs=0.05)
