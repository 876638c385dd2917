"""Length, success and output of the examples."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
_MAX_LINES = 60
_COMPLETE = ("hex.py", "alphazero.py")  # a complete game and a complete algorithm
SCRIPTS = sorted(path.name for path in EXAMPLES.glob("*.py") if path.name not in _COMPLETE)


@pytest.fixture
def run_example(monkeypatch, capfd):
    """A function that runs an example as a script and returns its output."""

    def run(name, *arguments):
        path = str(EXAMPLES / name)
        monkeypatch.setattr(sys, "argv", [path, *map(str, arguments)])
        runpy.run_path(path, run_name="__main__")
        return capfd.readouterr().out

    return run


@pytest.mark.parametrize("name", SCRIPTS)
def test_example_is_short(name):
    assert (EXAMPLES / name).read_text("utf-8").count("\n") < _MAX_LINES


def test_alphazero_reaches_perfect_play(run_example):
    printed = run_example("alphazero.py")
    assert "untrained: 0 games lost" not in printed
    assert printed.splitlines()[-1].endswith(" 0 games lost")


def test_analyse_position_prints_search_and_solution(run_example):
    printed = run_example("analyse_position.py")
    assert "best moves under perfect play" in printed
    assert "mcts:900 plays" in printed


def test_rate_agents_ranks_random_last(run_example):
    printed = run_example("rate_agents.py")
    ranked = [line.split()[0] for line in printed.splitlines()[:4]]
    assert sorted(ranked) == ["mcts:10", "mcts:100", "random", "rave:100"]
    assert ranked[-1] == "random"


def test_custom_selection_rule_is_used_by_search():
    """Run in a separate process, in which no selection rules are registered yet."""
    command = [sys.executable, str(EXAMPLES / "custom_selection_rule.py")]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    assert "MoveAnalysis" in process.stdout


def test_trained_network_is_evaluated(tmp_path, run_example):
    printed = run_example("train_and_watch.py", tmp_path / "run")
    assert "iteration 3: gate finished" in printed
    assert "priors (10, 9)" in run_example("evaluate_positions.py", tmp_path / "run")
