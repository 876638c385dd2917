"""Resignation and the maximum length of self-play games."""

from __future__ import annotations

import numpy as np
import pytest

from search.naive import HashEvaluator
from zerolab.core.config import validate
from zerolab.core.errors import UserError
from zerolab.play.game_files import reached_positions
from zerolab.play.observers import resignation_counts
from zerolab.play.selfplay import play_episodes
from zerolab.play.selfplay_settings import SelfPlaySettings
from zerolab.rules import rules
from zerolab.rules.catalogue import parse_game
from zerolab.search.search_settings import SearchSettings

GAME = parse_game("othello:4x4")
EVALUATOR = HashEvaluator(rules.action_count(GAME))
SEARCH = SearchSettings.model_validate({"simulations": 8, "noise": {"fraction": 0.25}})
THRESHOLD = -0.3
EPISODES = 24


def play(**settings):
    selfplay = validate(SelfPlaySettings, {"episodes": EPISODES, "threads": 1, **settings})
    return play_episodes(GAME, selfplay, SEARCH, EVALUATOR, 3, 1)


def resigning(played_on, **settings):
    return play(resignation={"threshold": THRESHOLD, "played_on": played_on}, **settings)


@pytest.fixture(scope="module")
def usual():
    return play()


@pytest.fixture(scope="module")
def some_resign():
    return resigning(0.5)


def rows_of(played, number):
    return played.examples.take(played.examples.games == number)


def would_resign(rows):
    return np.flatnonzero(rows.root_values.astype(np.float64) < THRESHOLD)


def test_resigned_games_are_cut_and_lost(usual):
    """A resigned game is the beginning of the same game without resignation."""
    played = resigning(0.0)
    assert any(game.is_forfeited for game in played.games)
    for game, whole in zip(played.games, usual.games, strict=True):
        rows, plies = rows_of(played, game.number), would_resign(rows_of(usual, game.number))
        if not plies.size:
            assert game == whole
            continue
        resigner = plies[0] % 2
        assert game.actions == (*whole.actions[: plies[0]], -1)
        assert game.result == (-1 if resigner == 0 else 1)
        assert rows.actions.tolist() == list(whole.actions[: plies[0]])
        assert (rows.outcomes == np.where(rows.plies % 2 == resigner, -1, 1)).all()
        assert rows.plies_left.tolist() == list(range(plies[0], 0, -1))


def test_some_games_are_played_on(usual, some_resign):
    ends = {
        game.number: game.is_forfeited
        for game in some_resign.games
        if would_resign(rows_of(usual, game.number)).size
    }
    assert set(ends.values()) == {True, False}
    unresigned = [game for game in some_resign.games if not game.is_forfeited]
    assert all(game == usual.games[game.number] for game in unresigned)
    counts = resignation_counts(some_resign.examples, some_resign.games, THRESHOLD)
    resigned_count = sum(ends.values())
    assert counts["resigned"] == resigned_count
    assert counts["played_on"] == len(ends) - resigned_count
    assert some_resign.searched_move_count == len(some_resign.examples.plies) + resigned_count


def test_resigned_games_do_not_depend_on_parallel_games(some_resign):
    other = resigning(0.5, parallel_games=3, threads=2)
    assert other.games == some_resign.games
    assert np.array_equal(other.examples.outcomes, some_resign.examples.outcomes)


def test_positions_of_resigned_games_have_a_move(some_resign):
    reached = reached_positions(GAME, some_resign.games)
    assert len(reached.plies) == len(some_resign.examples.plies)


def test_quick_searches_and_random_plies_do_not_resign():
    quick = {"name": "playout_cap", "share": 0.3, "simulations": 2}
    played = resigning(0.0, budget=quick, random_opening_plies=4)
    examples = played.examples
    below = examples.root_values.astype(np.float64) < THRESHOLD
    assert below[~examples.full].any()
    assert not below[examples.full].any()


def test_false_resignations_of_a_hand_made_case(usual):
    """The first player who would have resigned counts, once per game."""
    games = [game._replace(number=number) for number, game in enumerate(usual.games[:4])]
    games[3] = games[3]._replace(actions=(0, -1))
    cases = [  # game, ply, root value, full, outcome
        (0, 0, 0.5, True, 1), (0, 1, -0.95, True, -1), (0, 2, -0.95, True, 1),
        (1, 0, -0.95, True, 1), (1, 1, 0.5, True, -1),
        (2, 0, -0.95, False, 0), (2, 1, -0.95, True, 0),
        (3, 0, 0.5, True, 1),
    ]  # fmt: skip
    numbers, plies, values, full, outcomes = map(np.array, zip(*cases, strict=True))
    examples = usual.examples.take(slice(len(cases)))
    made = type(examples)(**{
        **examples.columns(), "games": numbers, "plies": plies,
        "root_values": values.astype(np.float16), "full": full, "outcomes": outcomes,
    })  # fmt: skip
    # Game 0 was lost by the player that would have resigned first, game 1 won, game 2 drawn.
    expected = {"resigned": 1, "played_on": 3, "false": 2, "false_rate": pytest.approx(2 / 3)}
    assert resignation_counts(made, games, -0.9) == expected
    none = {"resigned": 1, "played_on": 0, "false": 0}
    assert resignation_counts(made, games, -0.99) == none


def test_games_of_maximum_length_are_draws(usual):
    longest = 9
    played = play(max_plies=longest)
    cut = [game for game in usual.games if len(game.actions) > longest]
    assert len(cut) > EPISODES / 2
    for game, whole in zip(played.games, usual.games, strict=True):
        rows = rows_of(played, game.number)
        assert game.actions == whole.actions[:longest]
        assert game.result == (0 if whole in cut else whole.result)
        assert (rows.outcomes == 0).all() or whole not in cut
        assert rows.plies_left[-1] == 1
    ends_now = max(len(game.actions) for game in usual.games)
    assert play(max_plies=ends_now).games == usual.games


@pytest.mark.parametrize("name", ["continuous", "service", "retry"])
@pytest.mark.parametrize("change", [{"resignation": {}}, {"max_plies": 40}])
def test_other_modes_refuse_both(name, change):
    with pytest.raises(UserError, match=f'{next(iter(change))}: not supported .* "{name}"'):
        validate(SelfPlaySettings, {"mode": name, **change})
