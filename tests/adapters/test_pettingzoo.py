"""PettingZoo environments: PettingZoo's tests, and comparisons with positions."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("pettingzoo", reason="pettingzoo is not installed")

from pettingzoo.test import api_test, seed_test

import zerolab
from zerolab.adapters.pettingzoo import env

GAMES = ["connect_four:4x4:3", "othello:4x4", "gobang:3x3:3", "hex:3x3"]


@pytest.mark.parametrize("game", GAMES)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_pettingzoo_accepts_the_environment(game, capsys):
    api_test(env(game), num_cycles=60)
    assert "Passed" in capsys.readouterr().out


def test_pettingzoo_accepts_the_seeds():
    seed_test(lambda: env("connect_four:4x4:3"), num_cycles=20)


@pytest.mark.parametrize("game", GAMES)
def test_game_is_that_of_the_position(game):
    end = zerolab.Position.start(game).random_playout(seed=5)
    playing = env(game, render_mode="ansi")
    playing.reset(seed=1)
    for position, action in zip(end.positions_so_far(), end.history, strict=False):
        observation, reward, terminated, truncated, _ = playing.last()
        assert playing.agent_selection == f"player_{int(not position.first_to_move)}"
        assert np.array_equal(observation["observation"], position.planes())
        assert np.array_equal(observation["action_mask"], position.legal_mask)
        waiting = playing.observe(f"player_{int(position.first_to_move)}")
        assert not waiting["action_mask"].any()
        assert (reward, terminated, truncated) == (0, False, False)
        assert playing.render() == position.render()
        playing.step(action)
    result = end.first_player_outcome
    assert playing.rewards == {"player_0": result, "player_1": -result}
    assert all(playing.terminations.values())


def test_illegal_action_loses():
    playing = env("gobang:3x3:3")
    playing.reset()
    playing.step(4)
    playing.step(4)
    assert playing.rewards["player_1"] == -1
    assert playing.terminations["player_1"]


def test_mistakes_are_explained():
    with pytest.raises(zerolab.UserError, match='render_mode = "human": expected None or "ansi"'):
        env("othello:4x4", render_mode="human")
    with pytest.raises(zerolab.UserError, match="othello"):
        env("otello:4x4")
