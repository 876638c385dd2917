"""Permission to run programs named in files and folders."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
import tomli_w

import zerolab
from zerolab.agents import baselines
from zerolab.agents.specs import parse_agents
from zerolab.cli import tournament, train
from zerolab.cli.main import main
from zerolab.core.errors import UserError
from zerolab.oracles.solver import SolverBudget
from zerolab.play.tournament import Tournament, TournamentSettings, parse_tournament_agents
from zerolab.rules.catalogue import parse_game
from zerolab.store.run_folder import RunFolder
from zerolab.studies.tasks import TrainTask
from zerolab.training.configure import resolve_settings, saved_settings


def saved_tournament(*players):
    """Return a tournament of these players in the folder `t`, as if it had been loaded."""
    settings = TournamentSettings(game="gobang:3x3:3", players=dict.fromkeys(players, ""))
    return Tournament(Path("t"), settings)


def test_folder_does_not_start_its_programs(tmp_path):
    program = f'gtp:"touch {tmp_path / "started"}"'
    with pytest.raises(UserError, match="the folder names the program") as error:
        parse_tournament_agents(saved_tournament("random", program), ["mcts:2"], None)
    assert str(error.value).endswith(f"expected zerolab tournament '{program}' --folder t")
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize("blank", ["", " "])
def test_saved_program_with_leading_blank_is_refused(blank):
    with pytest.raises(UserError, match="the folder names the program"):
        parse_tournament_agents(saved_tournament(f'{blank}gtp:"touch x"'), ["random"], None)


def test_programs_are_compared_as_agents_and_not_as_text():
    (program,) = parse_agents(['gtp:"touch x"?timeout=10'], parse_game("gobang:3x3:3"))
    again = parse_tournament_agents(
        saved_tournament(program.name, "random"), ['  gtp:"touch x"?timeout=10.0 '], None
    )
    assert [agent.name for agent in again] == ["random", program.name]


@pytest.fixture
def marker(tmp_path):
    """File that marks the start of a program, the baseline of a run and a preset."""
    path = tmp_path / "started"
    program = f'gtp:"touch {path}"'
    tables = [
        *("iterations=1", "selfplay.episodes=2", "learn.epochs=1", "final_evaluation.games=2"),
        f"final_evaluation.baselines=[{json.dumps(program)}]",
    ]
    settings = resolve_settings("gobang:3x3:3", "smoke", tables)
    RunFolder.create(tmp_path / "run", settings.model_dump())
    preset = tomli_w.dumps(settings.model_dump())
    (tmp_path / "foreign.toml").write_text(preset)
    return path


FROM_FILES = [
    ["train", "--run", "run"],
    ["train", "--preset", "foreign.toml", "--run", "new"],
    [
        *("tune", "gobang:3x3:3", "--preset", "foreign.toml", "--objective", "loss"),
        *("--set", "learn.epochs=1..2", "--set", "final_evaluation.games=2"),
    ],
]


@pytest.mark.parametrize("arguments", FROM_FILES)
def test_program_named_by_file_is_reported_and_not_run(marker, arguments, monkeypatch, capsys):
    monkeypatch.chdir(marker.parent)
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1
    assert json.dumps(f'gtp:"touch {marker}"') in error
    assert "--allow-programs" in error
    assert not marker.exists()
    assert {each.name for each in marker.parent.iterdir()} == {"run", "foreign.toml"}


@pytest.mark.parametrize("arguments", FROM_FILES)
def test_allowed_or_typed_program_is_run(marker, arguments, monkeypatch, capsys):
    monkeypatch.chdir(marker.parent)
    program = f'gtp:"touch {marker}"'
    typed = f"final_evaluation.baselines=[{json.dumps(program)}]"
    for option in (["--allow-programs"], ["--set", typed]):
        assert main([*arguments, *option]) == 2  # the program is not an engine
        assert "cannot play gobang:3x3:3" in capsys.readouterr().err
        marker.unlink()


def test_advice_to_resume_run_allows_its_programs(marker, capsys):
    """The advice printed when training stops, with folder names quoted for the shell."""
    folder = marker.with_name("a run")
    run = RunFolder.open(marker.with_name("run").rename(folder))
    advice = train.resume_command(folder, saved_settings(run))
    assert advice == f"zerolab train --run '{folder}' --allow-programs"
    assert main(shlex.split(advice)[1:]) == 2  # the program runs, but is not an engine
    assert "cannot play gobang:3x3:3" in capsys.readouterr().err
    plain = resolve_settings("gobang:3x3:3", "smoke")
    assert train.resume_command(Path("runs/p"), plain) == "zerolab train --run runs/p"
    cluster = train.ClusterOptions("local", 2, 1)
    assert train.resume_command(Path("runs/p"), plain, cluster, "s3://bucket/runs", ["wandb"]) == (
        "zerolab train --run runs/p --ray local --actors 2 --storage s3://bucket/runs --log wandb"
    )


def test_advice_to_resume_tournament_names_its_programs(marker, capsys):
    program = f'gtp:"touch {marker}"'
    agents = parse_agents([program, "random"], parse_game("gobang:3x3:3"))
    players = {agent.name: agent.identity for agent in agents}
    settings = TournamentSettings(game="gobang:3x3:3", players=players, games=2)
    folder = marker.with_name("all of them")
    with Tournament.open_locked(folder, settings):
        pass
    advice = tournament.resume_command(folder, settings)
    assert advice == f"zerolab tournament '{program}' --folder '{folder}'"
    assert main(shlex.split(advice)[1:]) == 2
    assert "cannot play gobang:3x3:3" in capsys.readouterr().err


def test_study_does_not_run_programs_of_existing_run(marker):
    planned = resolve_settings("gobang:3x3:3", "smoke", ["iterations=1"])
    task = TrainTask("a run", "key", str(marker.parent / "run"), planned)
    with pytest.raises(UserError, match="--allow-programs"):
        task.perform()
    assert not marker.exists()


def test_train_function_needs_permission_for_programs(marker):
    run = marker.parent / "run"
    with pytest.raises(UserError, match="allow_programs=True"):
        zerolab.train(run=run)
    with pytest.raises(UserError, match="cannot play"):
        zerolab.train(run=run, allow_programs=True)


def test_perfect_play_of_hard_game_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(baselines, "_SOLVER_BUDGET", SolverBudget(nodes=1000))
    assert main(["match", "perfect", "random", "--game", "gobang:8x8:5", "--games", "2"]) == 2
    error = capsys.readouterr().err
    assert "not solved within" in error
