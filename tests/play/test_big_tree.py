"""Self-play with one transposition tree over whole games and search policies as priors."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from search.naive import HashEvaluator
from zerolab.play.search_service import ServiceSettings, ThreadSearchService
from zerolab.play.selfplay_modes import BigTree, BigTreeSelfPlay, play_with_service
from zerolab.play.selfplay_settings import BigTreeMode, SelfPlaySettings
from zerolab.rules import rules
from zerolab.rules.catalogue import parse_game
from zerolab.rules.position import Position
from zerolab.search.search_settings import SearchSettings

NAME = "connect_four:4x4"
GAME = parse_game(NAME)
SEARCH = SearchSettings.model_validate({"simulations": 8, "noise": {"fraction": 0.25}})
C, FIRST_PLAY = 3.0, -1.0


def play(games=40, at_once=1, **changes):
    """Return the games and the tree."""
    mode = BigTreeMode(c=C, first_play=FIRST_PLAY, games_at_once=at_once)
    searches = ServiceSettings(SEARCH, seed=3, iteration=2, threads=2)._replace(**changes)
    with ThreadSearchService(GAME, HashEvaluator(rules.action_count(GAME)), searches) as service:
        player = BigTreeSelfPlay(GAME, mode, service, "a", lambda _: None)
        played = player.play(games)
        assert service.search_counts["asked"] == service.search_counts["searched"]
    return played, player.graph


@pytest.fixture(scope="module")
def games_one_by_one():
    return play()


@pytest.fixture(scope="module")
def games_at_once():
    return play(at_once=16)


def positions(game):
    """Return a game's positions, including the final one."""
    reached = [Position.start(NAME)]
    for action in game.actions:
        reached.append(reached[-1].play(action))
    return reached


def key(position):
    return position.state.tobytes()


def result_for_mover(position, game):
    return game.result if position.first_to_move else -game.result


def test_node_statistics_count_all_games_through_its_position(games_one_by_one, games_at_once):
    for played, tree in (games_one_by_one, games_at_once):
        check_node_statistics(played, tree)


def check_node_statistics(played, tree):
    visits, returns, paths = Counter(), Counter(), {}
    for game in played.games:
        for ply, position in enumerate(positions(game)):
            visits[key(position)] += 1
            returns[key(position)] += result_for_mover(position, game)
            paths.setdefault(key(position), set()).add(game.actions[:ply])
    assert max(map(len, paths.values())) > 1
    nodes = tree._nodes
    assert len(tree) == len(visits) <= sum(len(game.actions) for game in played.games) + 1
    for state, node in nodes.items():
        assert (node.visits, node.value_sum) == (visits[state], returns[state])
        if node.is_expanded:
            assert node.action_visits.sum() == node.visits


def test_every_move_has_the_highest_score(games_one_by_one):
    """Recompute the scores for every move from the preceding games alone."""
    played, _ = games_one_by_one
    visits, returns, chosen = Counter(), Counter(), Counter()
    examples = played.examples
    for game in played.games:
        first = np.searchsorted(examples.games, game.number)
        for ply, (position, action) in enumerate(
            zip(positions(game)[:-1], game.actions, strict=True)
        ):
            policy = examples.policies[first + ply].astype(np.float64)
            scores = {}
            for move in np.flatnonzero(position.legal_mask).tolist():
                child = key(position.play(move))
                value = -returns[child] / visits[child] if visits[child] else FIRST_PLAY
                total, own_visits = visits[key(position)] + 1, chosen[key(position), move]
                scores[move] = value + C * policy[move] * total**0.5 / (1 + own_visits)
            assert scores[action] >= max(scores.values()) - 0.02  # policies are stored as float16
        for position, action in zip(positions(game), (*game.actions, None), strict=True):
            visits[key(position)] += 1
            returns[key(position)] += result_for_mover(position, game)
            chosen[key(position), action] += 1


def test_unfinished_games_count_as_losses():
    tree = BigTree(GAME, c=1.0, first_play=-0.5)
    starts = [tree.begin_game() for _ in range(3)]
    assert starts[0] is starts[1]
    tree.expand(starts[0], np.array([0.4, 0.35, 0.25, 0.0], np.float32))
    # Column 0 scores -0.5 + 0.4 sqrt(3), then -1 + 0.2 sqrt(3), less than column 1.
    first, second, third = (tree.select_child(start) for start in starts)
    assert [first[0], second[0], third[0]] == [0, 1, 2]
    assert (first[1].visits, first[1].value_sum) == (1, 1)


def test_examples_agree_with_games_and_search_service():
    played, _ = play(games=20, at_once=8)
    examples = played.examples
    assert examples.full.all()
    for game in played.games:
        in_game = examples.games == game.number
        assert tuple(examples.actions[in_game]) == game.actions
        states = [position.state for position in positions(game)]
        assert (examples.states[in_game] == np.array(states[:-1])).all()
        assert positions(game)[-1].first_player_outcome == game.result
    _, rows = np.unique(examples.states, axis=0, return_index=True)
    with ThreadSearchService(
        GAME, HashEvaluator(rules.action_count(GAME)), ServiceSettings(SEARCH, seed=3, iteration=2)
    ) as service:
        results = service.search(examples.states[rows])
    np.testing.assert_array_equal(examples.policies[rows], results.policies.astype(np.float16))


def test_games_do_not_depend_on_threads_or_slots(games_at_once):
    one, other = games_at_once, play(at_once=16, threads=1, slots=3)
    assert one[0].games == other[0].games
    columns = (each.examples.columns().values() for each in (one[0], other[0]))
    for a, b in zip(*columns, strict=True):
        np.testing.assert_array_equal(a, b)


def test_larger_c_visits_more_positions():
    def distinct(c):
        mode = {"name": "big_tree", "c": c, "games_at_once": 4}
        settings = SelfPlaySettings(episodes=30, mode=mode, late_policy_target="visits")
        evaluator = HashEvaluator(rules.action_count(GAME))
        result = play_with_service(GAME, settings, SEARCH, evaluator, 3, 2)
        return len(np.unique(result.examples.states, axis=0))

    assert distinct(0.1) < distinct(30.0)


def test_exploring_moves_cannot_be_policy_targets():
    with pytest.raises(ValueError, match="late_policy_target"):
        SelfPlaySettings(mode="big_tree")
