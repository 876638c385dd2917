"""Programs run only when the command line names them."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
import tomli_w

import zerolab
from zerolab.agents.kinds import baselines
from zerolab.cli import tournament, train
from zerolab.cli.main import main
from zerolab.core.errors import UserError
from zerolab.oracles.solver import SolverBudget
from zerolab.play.tournament import Tournament, TournamentSettings, gather_agents
from zerolab.rules.catalogue import parse_game
from zerolab.store.run_folder import RunFolder
from zerolab.studies.tasks import TrainTask
from zerolab.training.configure import resolve_settings, saved_settings


def test_a_folder_starts_no_program_by_itself(tmp_path):
    kept = ["random", f'gtp:"touch {tmp_path / "started"}"']
    with pytest.raises(UserError, match="the folder names the program"):
        gather_agents(kept, ["mcts:2"], parse_game("gobang:3x3:3"))
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize("blank", ["", " "])
def test_a_kept_name_with_a_blank_is_a_program_too(tmp_path, blank):
    with pytest.raises(UserError, match="the folder names the program"):
        gather_agents([f'{blank}gtp:"touch x"'], ["random"], parse_game("gobang:3x3:3"))


@pytest.fixture
def strangers(tmp_path):
    """A run and a preset that name a program among their baselines; return what shows it ran."""
    started = tmp_path / "started"
    program = f'gtp:"touch {started}"'
    tables = [
        *("iterations=1", "selfplay.episodes=2", "learn.epochs=1", "final_evaluation.games=2"),
        f"final_evaluation.baselines=[{json.dumps(program)}]",
    ]
    settings = resolve_settings("gobang:3x3:3", "smoke", tables)
    RunFolder.create(tmp_path / "run", settings.model_dump())
    preset = tomli_w.dumps(settings.model_dump())
    (tmp_path / "theirs.toml").write_text(preset)
    return started


FROM_FILES = [
    ["train", "--run", "run"],
    ["train", "--preset", "theirs.toml", "--run", "new"],
    [
        *("tune", "gobang:3x3:3", "--preset", "theirs.toml", "--objective", "loss"),
        *("--set", "learn.epochs=1..2", "--set", "final_evaluation.games=2"),
    ],
]


@pytest.mark.parametrize("arguments", FROM_FILES)
def test_a_program_that_a_file_names_is_shown_and_not_run(
    strangers, arguments, monkeypatch, capsys
):
    monkeypatch.chdir(strangers.parent)
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1
    assert json.dumps(f'gtp:"touch {strangers}"') in error
    assert "--allow-programs" in error
    assert not strangers.exists()
    assert {each.name for each in strangers.parent.iterdir()} == {"run", "theirs.toml"}


@pytest.mark.parametrize("arguments", FROM_FILES)
def test_a_program_that_is_allowed_or_typed_is_run(strangers, arguments, monkeypatch, capsys):
    monkeypatch.chdir(strangers.parent)
    program = f'gtp:"touch {strangers}"'
    typed = f"final_evaluation.baselines=[{json.dumps(program)}]"
    for said in (["--allow-programs"], ["--set", typed]):
        assert main([*arguments, *said]) == 2  # it is no engine
        assert "cannot play gobang:3x3:3" in capsys.readouterr().err
        strangers.unlink()


def test_the_command_that_resumes_a_run_allows_its_programs(strangers, capsys):
    """As it is printed where training is stopped; a shell takes folders with blanks for one."""
    folder = strangers.with_name("a run")
    run = RunFolder.open(strangers.with_name("run").rename(folder))
    advice = train.resuming(folder, saved_settings(run))
    assert advice == f"zerolab train --run '{folder}' --allow-programs"
    assert main(shlex.split(advice)[1:]) == 2  # the program is run: it is no engine
    assert "cannot play gobang:3x3:3" in capsys.readouterr().err
    plain = resolve_settings("gobang:3x3:3", "smoke")
    assert train.resuming(Path("runs/p"), plain) == "zerolab train --run runs/p"


def test_the_command_that_resumes_a_tournament_names_its_programs(strangers, capsys):
    program = f'gtp:"touch {strangers}"'
    agents = gather_agents([], [program, "random"], parse_game("gobang:3x3:3"))
    players = {agent.name: agent.identity for agent in agents}
    settings = TournamentSettings(game="gobang:3x3:3", players=players, games=2)
    folder = strangers.with_name("all of them")
    with Tournament.locked(folder, settings):
        pass
    advice = tournament.resuming(folder, settings)
    assert advice == f"zerolab tournament '{program}' --folder '{folder}'"
    assert main(shlex.split(advice)[1:]) == 2
    assert "cannot play gobang:3x3:3" in capsys.readouterr().err


def test_a_study_runs_no_program_of_a_run_that_it_finds(strangers):
    planned = resolve_settings("gobang:3x3:3", "smoke", ["iterations=1"])
    task = TrainTask("a run", "key", str(strangers.parent / "run"), planned)
    with pytest.raises(UserError, match="names a program to be run"):
        task.run()
    assert not strangers.exists()


def test_scripts_allow_programs_by_an_argument(strangers):
    run = strangers.parent / "run"
    with pytest.raises(UserError, match="allow_programs=True"):
        zerolab.train(run=run)
    with pytest.raises(UserError, match="cannot play"):
        zerolab.train(run=run, allow_programs=True)


def test_perfect_play_gives_up_where_it_is_too_hard(monkeypatch, capsys):
    monkeypatch.setattr(baselines, "_SOLVER_BUDGET", SolverBudget(nodes=1000))
    assert main(["match", "perfect", "random", "--game", "othello:6x6", "--games", "2"]) == 2
    error = capsys.readouterr().err
    assert "cannot be solved" in error and "not solved within" in error
