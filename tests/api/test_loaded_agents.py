"""Agents that stay loaded: analyses one by one, in batches and by `zerolab.analyse`."""

from __future__ import annotations

import re

import numpy as np
import pytest

import zerolab
from zerolab.agents.analysis import Analysis
from zerolab.agents.specs import parse_agent
from zerolab.api import positions
from zerolab.rules.catalogue import parse_game

GAME = "gobang:3x3:3"
START = zerolab.Position.start(GAME)
BOARD = np.array([[1, 0, 0], [0, -1, 0], [0, 0, 0]], np.int8)
POSITIONS = [
    START.play("b2"),
    START,
    START.play("a1").play("b2").play("c3"),
    zerolab.Position.set_up(GAME, BOARD, first_to_move=True),
]


@pytest.mark.parametrize("spec", ["mcts:60", "mcts:40?leaves_per_step=4", "perfect", "random"])
def test_batch_agrees_with_single_analyses(spec):
    agent = zerolab.load_agent(spec, GAME)
    batch = agent.analyse(POSITIONS, seed=2)
    assert batch == [agent.analyse(each, seed=2) for each in POSITIONS]
    assert batch == [zerolab.analyse(each, spec, seed=2) for each in POSITIONS]
    assert [agent.move(each, seed=2) for each in POSITIONS] == [
        each.chosen_move.name for each in batch
    ]
    assert agent.analyse([]) == []


def test_network_stays_loaded(run):
    for options in ("?simulations=12", "?simulations=0"):
        spec = f"{run.path}{options}"
        agent = zerolab.load_agent(spec)
        batch, single = agent.analyse(POSITIONS), [agent.analyse(each) for each in POSITIONS]
        for one, other in zip(batch, single, strict=True):
            assert one.chosen_move.name == other.chosen_move.name
            assert [move.visits for move in one.moves] == [move.visits for move in other.moves]
            assert one.value == pytest.approx(other.value, abs=1e-5)
        assert single[0] == zerolab.analyse(POSITIONS[0], spec)


def test_large_batches_are_searched_in_parts(monkeypatch):
    sizes = []
    original = positions.replay_and_analyse

    def counted(player, positions, seed) -> list[Analysis]:
        sizes.append(len(positions))
        return original(player, positions, seed)

    monkeypatch.setattr(positions, "replay_and_analyse", counted)
    monkeypatch.setattr(positions, "slots_per_thread_in_memory", lambda agents, threads: 3)
    agent = positions.LoadedAgent(parse_agent("mcts:20", parse_game(GAME)))
    whole = agent.analyse(POSITIONS, seed=1)
    assert sizes == [3, 1]
    assert whole == [agent.analyse(each, seed=1) for each in POSITIONS]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda agent: agent.analyse(3), "positions = 3: expected a zerolab.Position or a list"),
        (lambda agent: agent.analyse([START, 3]), r"positions\[1\] = 3: expected a zerolab.Pos"),
        (lambda agent: agent.analyse(START, seed=-1), "seed = -1: expected at least 0"),
        (lambda agent: agent.move([START]), "position = .*: expected a zerolab.Position"),
        (
            lambda agent: agent.analyse([START, zerolab.Position.start("othello:4x4")]),
            r"positions\[1\]: random plays gobang:3x3:3: expected a position of this game, not of",
        ),
        (lambda agent: zerolab.load_agent("random"), 'expected game=..., as in game="othello'),
        (lambda agent: zerolab.load_agent(3), "agent = 3: expected an agent"),
        (lambda agent: zerolab.load_agent("mtcs:3", GAME), "mcts"),
    ],
)
def test_mistakes_raise_one_line_errors(call, message):
    with pytest.raises(zerolab.UserError, match=message) as error:
        call(zerolab.load_agent("random", GAME))
    assert "\n" not in str(error.value)


def test_finished_game_is_named_by_its_place():
    finished = START
    for move in ("a1", "b1", "a2", "b2", "a3"):
        finished = finished.play(move)
    agent = zerolab.load_agent("random", GAME)
    with pytest.raises(zerolab.UserError, match=r"positions\[1\]: the game is over"):
        agent.analyse([START, finished])


def test_notebooks_show_shares_of_visits_value_and_best_line():
    position = START.play("b2")
    analysis = zerolab.analyse(position, "mcts:60")
    html = analysis._repr_html_()
    assert f"mcts:60 plays <b>{analysis.chosen_move.name}</b>; value" in html
    assert f"best line {' '.join(analysis.principal_variation)}" in html
    shares = [int(share) for share in re.findall(r">(\d+) %<", html)]
    visits = {move.action: move.visits for move in analysis.moves}
    expected = [visits[action] / 60 for action in sorted(visits) if visits[action]]
    assert [share / 100 for share in shares] == pytest.approx(expected, abs=0.006)
    exact = zerolab.analyse(position, "perfect")
    assert f"value {exact.value:+d}".replace("-", "\N{MINUS SIGN}") in exact._repr_html_()
    for each in (analysis, exact, *analysis.moves):
        assert len(repr(each)) < 100
