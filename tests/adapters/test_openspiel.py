"""OpenSpiel bots against zerolab agents, in OpenSpiel games and zerolab matches."""

from __future__ import annotations

import pyspiel
import pytest

import zerolab
from zerolab.adapters.openspiel import openspiel_bot, openspiel_name
from zerolab.rules.catalogue import parse_game

GAME = "connect_four:4x4:3"


def _spiel_mcts(game, simulations: int, seed: int):
    evaluator = pyspiel.RandomRolloutEvaluator(1, seed)
    return pyspiel.MCTSBot(game, evaluator, 2.0, simulations, 100, True, seed, False)


def _first_result(game, first, second) -> float:
    """Return the first bot's result in OpenSpiel's own loop."""
    return pyspiel.evaluate_bots(game.new_initial_state(), [first, second], 0)[0]


def test_bot_beats_open_spiels_random_bot_in_open_spiels_loop():
    game = pyspiel.load_game(openspiel_name(parse_game(GAME)))
    points = 0.0
    for seed in range(4):
        bot = openspiel_bot("mcts:100", parse_game(GAME), seed)
        random = pyspiel.make_uniform_random_bot(1, seed)
        points += _first_result(game, bot, random)
        points -= _first_result(game, pyspiel.make_uniform_random_bot(0, seed), bot)
    assert points >= 6


def test_bot_plays_open_spiels_search_to_the_value_of_the_game():
    """The first player wins Connect Four 4x4:3; perfect play wins against any opponent."""
    game = pyspiel.load_game(openspiel_name(parse_game(GAME)))
    assert max(zerolab.solve(zerolab.Position.start(GAME)).values()) > 0
    bot = openspiel_bot("perfect", parse_game(GAME))
    results = [_first_result(game, bot, _spiel_mcts(game, 200, seed)) for seed in range(3)]
    assert results == [1.0, 1.0, 1.0]


def test_open_spiels_search_is_an_agent_of_matches():
    match = zerolab.play_match("openspiel_mcts:60", "random", game=GAME, games=10)
    assert match.a == "openspiel_mcts:60"
    assert match.score.score_rate > 0.7
    again = zerolab.play_match("openspiel_mcts:60", "random", game=GAME, games=10)
    assert [game.actions for game in again.games] == [game.actions for game in match.games]


@pytest.mark.parametrize("game", ["gobang:3x4:3", "hex:3x4", "othello:8x8", GAME])
def test_both_sides_agree_on_the_whole_game(game):
    bot = openspiel_bot("random", parse_game(game), seed=3)
    theirs = pyspiel.load_game(openspiel_name(parse_game(game))).new_initial_state()
    position = zerolab.Position.start(game)
    while not theirs.is_terminal():
        action = bot.step(theirs)
        theirs.apply_action(action)
        position = position.play(action)
    assert position.first_player_outcome == theirs.returns()[0]


def test_bot_accepts_omitted_default_parameters():
    state = pyspiel.load_game("connect_four").new_initial_state()
    assert openspiel_bot("random", "connect_four:6x7").step(state) in state.legal_actions()


def test_mistakes_are_explained():
    with pytest.raises(zerolab.UserError, match="OpenSpiel does not have othello:6x6: expected"):
        zerolab.load_agent("openspiel_mcts:10", "othello:6x6")
    with pytest.raises(zerolab.UserError, match="expected a number of playouts"):
        zerolab.load_agent("openspiel_mcts:x", GAME)
    bot = openspiel_bot("random", parse_game(GAME))
    with pytest.raises(zerolab.UserError, match="the bot plays connect_four"):
        bot.step(pyspiel.load_game("tic_tac_toe").new_initial_state())
