"""Programs run only when the command line names them."""

from __future__ import annotations

import pytest

from zerolab.agents.kinds import perfect
from zerolab.cli.main import main
from zerolab.core.errors import UserError
from zerolab.oracles.solver import Budget
from zerolab.play.tournament import gather_agents
from zerolab.rules.catalogue import parse_game


def test_a_folder_starts_no_program_by_itself(tmp_path):
    kept = ["random", f'gtp:"touch {tmp_path / "started"}"']
    with pytest.raises(UserError, match="the folder names the program"):
        gather_agents(kept, ["mcts:2"], parse_game("gobang:3x3:3"))
    assert not (tmp_path / "started").exists()


def test_perfect_play_gives_up_where_it_is_too_hard(monkeypatch, capsys):
    monkeypatch.setattr(perfect, "_BUDGET", Budget(nodes=1000))
    assert main(["match", "perfect", "random", "--game", "othello:6x6", "--games", "2"]) == 2
    error = capsys.readouterr().err
    assert "too hard for perfect play from here on (not solved within" in error
