"""Every example is short, runs, and says something."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
_MOST_LINES = 60
_WHOLE = ("hex.py", "alphazero.py")  # a whole game, and the whole algorithm
SCRIPTS = sorted(path.name for path in EXAMPLES.glob("*.py") if path.name not in _WHOLE)


@pytest.fixture
def run_example(monkeypatch, capfd):
    """Return a function that runs an example as a script, and returns what it prints."""

    def run(name, *arguments):
        path = str(EXAMPLES / name)
        monkeypatch.setattr(sys, "argv", [path, *map(str, arguments)])
        runpy.run_path(path, run_name="__main__")
        return capfd.readouterr().out

    return run


@pytest.mark.parametrize("name", SCRIPTS)
def test_it_is_short(name):
    assert (EXAMPLES / name).read_text("utf-8").count("\n") < _MOST_LINES


def test_alphazero_reaches_perfect_play(run_example):
    printed = run_example("alphazero.py")
    assert "untrained: 0 games lost" not in printed
    assert printed.splitlines()[-1].endswith(" 0 games lost")


def test_analyse_position(run_example):
    printed = run_example("analyse_position.py")
    assert "best moves under perfect play" in printed
    assert "mcts:900 plays" in printed


def test_rate_agents(run_example):
    printed = run_example("rate_agents.py")
    ranked = [line.split()[0] for line in printed.splitlines()[:4]]
    assert sorted(ranked) == ["mcts:10", "mcts:100", "random", "rave:100"]
    assert ranked[-1] == "random"


def test_custom_selection_rule():
    """In a process of its own, where nobody has asked for the known rules before."""
    command = [sys.executable, str(EXAMPLES / "custom_selection_rule.py")]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert "MoveAnalysis" in found.stdout


def test_train_then_evaluate(tmp_path, run_example):
    printed = run_example("train_and_watch.py", tmp_path / "run")
    assert "iteration 3: gate finished" in printed
    assert "priors (10, 9)" in run_example("evaluate_positions.py", tmp_path / "run")
