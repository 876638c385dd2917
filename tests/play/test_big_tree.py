"""One tree over whole games, whose priors are searches."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from search.naive import HashEvaluator
from zerolab.play.big_tree import BigTreePlayer, TranspositionTree
from zerolab.play.search_service import SearchService, ServiceSearches
from zerolab.play.selfplay_modes import play_by_service
from zerolab.play.selfplay_settings import BigTreeMode, SelfPlaySettings
from zerolab.rules import rules
from zerolab.rules.catalogue import parse_game
from zerolab.rules.position import Position
from zerolab.search.search_settings import SearchSettings

NAME = "connect_four:4x4"
GAME = parse_game(NAME)
SEARCH = SearchSettings.model_validate({"simulations": 8, "noise": {"fraction": 0.25}})
C, FIRST_PLAY = 3.0, -1.0


def play(games=60, at_once=1, **changes):
    """Return the games and the tree."""
    mode = BigTreeMode(c=C, first_play=FIRST_PLAY, games_at_once=at_once)
    searches = ServiceSearches(SEARCH, seed=3, iteration=2, threads=2)._replace(**changes)
    with SearchService(GAME, HashEvaluator(rules.actions(GAME)), searches) as service:
        player = BigTreePlayer(GAME, mode, service, "a", lambda _: None)
        played = player.play(games)
        assert service.counts["asked"] == service.counts["searched"]
    return played, player.tree


def positions(game):
    """Return a game's positions, the final one included."""
    found = [Position.start(NAME)]
    for action in game.actions:
        found.append(found[-1].play(action))
    return found


def key(position):
    return position.state.tobytes()


def result_for_mover(position, game):
    return game.result if position.first_to_move else -game.result


@pytest.mark.parametrize("at_once", [1, 16])
def test_a_node_counts_all_games_through_its_position_whichever_way_they_came(at_once):
    played, tree = play(at_once=at_once)
    visits, worth, ways = Counter(), Counter(), {}
    for game in played.games:
        for ply, position in enumerate(positions(game)):
            visits[key(position)] += 1
            worth[key(position)] += result_for_mover(position, game)
            ways.setdefault(key(position), set()).add(game.actions[:ply])
    assert max(map(len, ways.values())) > 1
    nodes = tree._nodes
    assert len(tree) == len(visits) <= sum(len(game.actions) for game in played.games) + 1
    for each, node in nodes.items():
        assert (node.visits, node.worth) == (visits[each], worth[each])
        if node.is_expanded:
            assert node.action_visits.sum() == node.visits


def test_every_move_has_the_highest_score():
    """Computed anew for every move of every game, from the games before it alone."""
    played, _ = play()
    visits, worth, chosen = Counter(), Counter(), Counter()
    examples = played.examples
    for game in played.games:
        first = np.searchsorted(examples.games, game.number)
        for ply, (position, action) in enumerate(
            zip(positions(game)[:-1], game.actions, strict=True)
        ):
            policy = examples.policies[first + ply].astype(np.float64)
            scores = {}
            for each in np.flatnonzero(position.legal_mask).tolist():
                behind = key(position.play(each))
                value = -worth[behind] / visits[behind] if visits[behind] else FIRST_PLAY
                total, own = visits[key(position)] + 1, chosen[key(position), each]
                scores[each] = value + C * policy[each] * total**0.5 / (1 + own)
            assert scores[action] >= max(scores.values()) - 0.02  # policies are stored as float16
        for position, action in zip(positions(game), (*game.actions, None), strict=True):
            visits[key(position)] += 1
            worth[key(position)] += result_for_mover(position, game)
            chosen[key(position), action] += 1


def test_games_under_way_count_as_lost_for_those_who_chose_them():
    tree = TranspositionTree(GAME, c=1.0, first_play=-0.5)
    starts = [tree.begin() for _ in range(3)]
    assert starts[0] is starts[1]
    tree.expand(starts[0], np.array([0.4, 0.35, 0.25, 0.0], np.float32))
    # -0.5 + 0.4 sqrt(3), then column 0 scores -1 + 0.2 sqrt(3) and column 1 is next.
    first, second, third = (tree.descend(start) for start in starts)
    assert [first[0], second[0], third[0]] == [0, 1, 2]
    assert (first[1].visits, first[1].worth) == (1, 1)


def test_the_examples_are_the_games_and_their_policies_the_services():
    played, _ = play(games=20, at_once=8)
    examples = played.examples
    assert examples.full.all()
    for game in played.games:
        mine = examples.games == game.number
        assert tuple(examples.actions[mine]) == game.actions
        states = [position.state for position in positions(game)]
        assert (examples.states[mine] == np.array(states[:-1])).all()
        assert positions(game)[-1].first_player_outcome == game.result
    _, rows = np.unique(examples.states, axis=0, return_index=True)
    with SearchService(
        GAME, HashEvaluator(rules.actions(GAME)), ServiceSearches(SEARCH, seed=3, iteration=2)
    ) as service:
        answers = service.search(examples.states[rows])
    np.testing.assert_array_equal(examples.policies[rows], answers.policies.astype(np.float16))


def test_games_depend_neither_on_threads_nor_on_slots():
    one, other = play(at_once=16), play(at_once=16, threads=1, slots=3)
    assert one[0].games == other[0].games
    sides = (each.examples.columns().values() for each in (one[0], other[0]))
    for a, b in zip(*sides, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_greater_c_finds_more_positions():
    def distinct(c):
        mode = {"name": "big_tree", "c": c, "games_at_once": 4}
        settings = SelfPlaySettings(episodes=60, mode=mode, late_policy_target="visits")
        evaluator = HashEvaluator(rules.actions(GAME))
        found = play_by_service(GAME, settings, SEARCH, evaluator, 3, 2)
        return len(np.unique(found.examples.states, axis=0))

    assert distinct(0.1) < distinct(30.0)


def test_moves_that_explore_are_not_to_be_learnt():
    with pytest.raises(ValueError, match="late_policy_target"):
        SelfPlaySettings(mode="big_tree")
