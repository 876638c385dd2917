"""Solver: agreement with published values, exhaustive search and BitBully, and invariants."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache

import numpy as np
import pytest

from oracles.exhaustive import move_values, random_position
from zerolab.core import streams
from zerolab.core.errors import SlowFallbackWarning
from zerolab.oracles import alpha_beta
from zerolab.oracles import solver as solver_module
from zerolab.oracles.oracle import ILLEGAL_VALUE, NotSolvedError, best_mask
from zerolab.oracles.solver import Solver, SolverBudget, oracle_for
from zerolab.rules import compiled_rules, encoding
from zerolab.rules.position import Position


def solve(position, solver=None):
    """Return the values of the legal actions of a position."""
    solver = solver or Solver(position.game, memory_mib=16)
    values = solver.action_values(position.state[None])[0]
    assert (values == ILLEGAL_VALUE).tolist() == (~position.legal_mask).tolist()
    return {action: int(values[action]) for action in position.legal_actions}


# Rows by columns; sources: docs/papers.md, "Values under perfect play".
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("connect_four:4x4", 0),
        ("connect_four:4x5", 0),
        ("connect_four:5x5", 0),
        ("connect_four:4x6", -1),
        ("gobang:5x6:4", 1),
        ("gobang:6x6:4", 1),
        ("gobang:3x3:3", 0),
        ("gobang:4x4:4", 0),
        ("othello:4x4", -8),
    ],
)
def test_values_agree_with_published_ones(name, expected):
    position = Position.start(name)
    value = Solver(position.game, memory_mib=32).value(position.state)
    assert value == expected if name.startswith("othello") else np.sign(value) == expected


@pytest.mark.parametrize(
    ("name", "max_empty"),
    [
        ("gobang:3x3:3", 8),
        ("gobang:4x3:3", 7),
        ("connect_four:4x4", 9),
        ("connect_four:4x5:3", 9),
        ("connect_four:6x7", 9),
        ("othello:4x4", 8),
        ("othello:5x6", 6),
        ("othello:8x8", 6),
    ],
)
def test_move_values_agree_with_exhaustive_search(name, max_empty):
    random = np.random.default_rng(7)
    solver = Solver(Position.start(name).game, memory_mib=1)  # shared, so its table is reused
    for _ in range(12):
        position = random_position(name, random, max_empty)
        assert solve(position, solver) == move_values(position), position


@pytest.mark.parametrize("name", ["othello:6x6", "gobang:4x4:3", "connect_four:5x5"])
def test_symmetric_positions_have_symmetric_values(name):
    random = np.random.default_rng(3)
    for _ in range(3):
        position = random_position(name, random, 10)
        original = solve(position)
        for symmetry in range(1, encoding.symmetry_count(position.game)):
            image = compiled_rules.transform(position.game, position.state, symmetry)
            values = Solver(position.game, memory_mib=4).action_values(image[None])[0]
            for action, value in original.items():
                assert values[encoding.transform_action(position.game, symmetry, action)] == value


def test_values_are_consistent_with_the_next_ply():
    random = np.random.default_rng(5)
    for name in ("othello:6x6", "connect_four:6x7", "gobang:5x5:4"):
        position = random_position(name, random, 12)
        for action, value in solve(position).items():
            after = position.play(action)
            if after.outcome is None:
                assert value == -max(solve(after).values())
            else:
                assert value == -compiled_rules.final_score(after.game, after.state)


def test_scores_agree_with_bitbully():
    pytest.importorskip("bitbully", reason="the oracle extra is not installed")
    random = np.random.default_rng(11)
    position = Position.start("connect_four:6x7")
    bitbully, solver = oracle_for(position.game), Solver(position.game)
    states = [random_position("connect_four:6x7", random, empty).state for empty in range(6, 24)]
    expected = bitbully.action_values(np.array(states))
    assert np.array_equal(solver.action_values(np.array(states)), expected)
    orders = streams.permutations(np.arange(len(states), dtype=np.uint64), 7)
    best = bitbully.first_best_in_orders(np.array(states), orders)
    for order, row, chosen in zip(orders.tolist(), best_mask(expected), best, strict=True):
        assert chosen == next(action for action in order if row[action])
    early = [random_position("connect_four:6x7", random, empty).state for empty in range(34, 42)]
    choices = best_mask(bitbully.action_values(np.array(early)))
    assert max(choices.sum(axis=1)) > 1
    for number in range(4):
        orders = streams.permutations(np.arange(8 * number, 8 * number + 8, dtype=np.uint64), 7)
        first = np.take_along_axis(choices, orders, axis=1).argmax(axis=1)
        chosen = bitbully.first_best_in_orders(np.array(early), orders)
        assert np.array_equal(chosen, orders[np.arange(8), first])
    opening = bitbully.action_values(position.state[None])[0]
    assert opening.tolist() == [-2, -1, 0, 1, 0, -1, -2]


def test_orders_break_ties_between_best_moves():
    """All nine first moves draw, so the first in each order is chosen."""
    position = Position.start("gobang:3x3:3")
    orders = streams.permutations(np.arange(5, dtype=np.uint64), 9)
    states = np.repeat(position.state[None], 5, axis=0)
    assert (
        Solver(position.game).first_best_in_orders(states, orders).tolist() == orders[:, 0].tolist()
    )
    assert len(set(orders[:, 0].tolist())) > 1


def test_missing_extra_is_reported(monkeypatch):
    monkeypatch.setitem(sys.modules, "bitbully", None)
    late = random_position("connect_four:6x7", np.random.default_rng(5), 4)
    with pytest.warns(SlowFallbackWarning, match='the "oracle" extra'):
        oracle = oracle_for(late.game)
    assert isinstance(oracle, Solver)
    assert solve(late, oracle) == move_values(late)


@pytest.mark.parametrize("budget", [SolverBudget(nodes=1000), SolverBudget(seconds=1e-9)])
def test_exhausted_budget_is_reported_and_solver_stays_usable(budget):
    position = Position.start("othello:6x6")
    solver = Solver(position.game, memory_mib=4, budget=budget)
    with pytest.raises(NotSolvedError, match="not solved within"):
        solver.action_values(position.state[None])
    if budget.nodes:
        assert solver.node_count <= 1000 + 1
        late = random_position("othello:6x6", np.random.default_rng(1), 4)
        assert solve(late, solver) == move_values(late)


def test_compiling_takes_none_of_the_time_for_searching(monkeypatch):
    clock = [0.0]

    def slow_at_first(*arguments):
        clock[0] = 100.0
        return run(*arguments)

    run = alpha_beta.run_null_window_test
    monkeypatch.setattr(solver_module, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(alpha_beta, "run_null_window_test", slow_at_first)
    position = Position.start("gobang:3x3:3")
    solver = Solver(position.game, budget=SolverBudget(seconds=1.0))
    assert solver.value(position.state) == 0


def test_progress_is_reported(monkeypatch):
    monkeypatch.setattr(solver_module, "_NODES_PER_CALL", 1000)
    reports = []
    position = Position.start("connect_four:4x4")
    Solver(position.game, memory_mib=64, report=reports.append).value(position.state)
    nodes = [each.node_count for each in reports]
    assert nodes == sorted(nodes)
    assert len(set(nodes)) > 2
    assert all((each.move_index, each.move_count) == (0, 1) for each in reports)


def test_full_stack_grows():
    position = Position.start("othello:4x4")
    solver = Solver(position.game, memory_mib=4)
    solver._stack = alpha_beta.empty_stack(3, 2, 17)
    assert solver.value(position.state) == -8
    assert len(solver._stack.states) > 11  # fewer than the plies of the shortest game


_PROGRAM = """
import json
from zerolab.oracles.solver import Solver
from zerolab.rules.position import Position

solved = {}
for name in ("othello:4x4", "hex:3x3"):
    position = Position.start(name)
    solver = Solver(position.game, memory_mib=1)
    values = solver.action_values(position.state[None])[0].tolist()
    solved[name] = values, solver.node_count
print(json.dumps(solved))
"""


@cache
def _solved_as_plain_python():
    """Return {game: [values of all first moves, number of nodes]}, without compiled code."""
    result = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stderr == ""
    return json.loads(result.stdout)


def test_plain_python_agrees_with_compiled_code():
    position = Position.start("othello:4x4")
    solver = Solver(position.game, memory_mib=1)
    compiled = solver.action_values(position.state[None])[0].tolist()
    assert _solved_as_plain_python()["othello:4x4"] == [compiled, solver.node_count]


def test_game_without_solver_rules_is_solved():
    """The first player wins Hex [Nash1952]; on 3x3, not from the acute corners."""
    values, _ = _solved_as_plain_python()["hex:3x3"]
    assert set(values) == {-1, 1}
    assert [values[0], values[4], values[8]] == [-1, 1, -1]
