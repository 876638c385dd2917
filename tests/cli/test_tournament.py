"""`zerolab tournament`, `match` and `play`: reports, folders and error messages."""

from __future__ import annotations

import csv
import io
import json
import shutil
import sys
from pathlib import Path

import pytest

from zerolab.agents import baselines
from zerolab.cli.main import main
from zerolab.oracles.solver import SolverBudget
from zerolab.play.tournament import Tournament
from zerolab.store.games import GameStore


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


SOME = ["random", "mcts:5", "mcts:40", "--game", "connect_four:4x4", "--games", "10"]


@pytest.fixture(scope="module")
def tiny_run(tmp_path_factory):
    """Folder of a run with networks 0 and 1."""
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    settings = ["iterations=1", "selfplay.episodes=2", "final_evaluation.games=2"]
    settings += ['final_evaluation.baselines=["random"]']
    options = [part for each in settings for part in ("--set", each)]
    assert main(["train", "--preset", "smoke", "--run", str(folder), *options]) == 0
    return folder


def interrupt(*_):
    raise KeyboardInterrupt


def output(capsys, *arguments):
    assert main(list(arguments)) == 0
    return capsys.readouterr().out


@pytest.mark.usefixtures("no_figures")
def test_tournament_prints_ratings_and_reports(capsys):
    printed = output(capsys, "tournament", *SOME, "--openings", "2")
    ranks = [line.split()[1] for line in printed.splitlines()[1:4]]
    assert ranks[0] == "mcts:40"
    assert "points per game" in printed
    assert "30 games, " in printed
    assert "moving first: " in printed
    assert "cycles: 1 triples of players" in printed
    assert "significant cycles: 0" in printed


def test_tournament_folder_has_all_reports(capsys, here):
    printed = json.loads(output(capsys, "tournament", *SOME, "--folder", "t", "--json"))
    saved = json.loads(Path("t/ratings.json").read_text())
    assert saved == printed
    assert saved["players"][0]["player"] == "mcts:40"
    assert {"first_move_advantage", "model", "pairs", "cycles", "fit", "forfeits"} <= set(saved)
    assert sum(pair["wins"] + pair["draws"] + pair["losses"] for pair in saved["pairs"]) == 30
    for pair in saved["pairs"]:
        assert pair["low"] < pair["score_rate"] < pair["high"]
        assert pair["effective_games"] <= 10
    rows = list(csv.reader(io.StringIO(Path("t/crosstable.csv").read_text())))
    assert rows[0][1:] == [row[0] for row in rows[1:]]
    assert float(rows[1][2]) + float(rows[2][1]) == 1
    for name in ("ratings", "crosstable"):
        assert Path(f"t/{name}.png").read_bytes().startswith(b"\x89PNG")
        assert Path(f"t/{name}.svg").read_text().startswith("<?xml")
    assert len(Path("t/ratings.csv").read_text().splitlines()) == 4
    assert len(Path("t/pairs.csv").read_text().splitlines()) == 4


@pytest.mark.usefixtures("no_figures")
def test_repeated_command_plays_no_games_again(capsys):
    first = output(capsys, "tournament", *SOME)
    (folder,) = Path("tournaments").iterdir()
    written = (folder / "games.sqlite").stat().st_mtime_ns
    assert output(capsys, "tournament", *SOME) == first
    assert output(capsys, "tournament", "--folder", str(folder)) == first
    assert (folder / "games.sqlite").stat().st_mtime_ns == written


@pytest.mark.usefixtures("no_figures")
def test_players_can_join_existing_tournament(capsys):
    output(capsys, "tournament", *SOME, "--folder", "t")
    printed = json.loads(output(capsys, "tournament", "mcts:9", "--folder", "t", "--json"))
    assert len(printed["players"]) == 4
    assert printed["games_played"] == 60
    assert len(GameStore(Path("t/games.sqlite")).stages()) == 6


@pytest.mark.usefixtures("no_figures")
def test_player_can_play_itself(capsys):
    twice = ["random", "random", "--game", "gobang:3x3:3", "--games", "200", "--json"]
    printed = json.loads(output(capsys, "tournament", *twice))
    names = {player["player"]: player for player in printed["players"]}
    assert set(names) == {"random", "random #2"}
    low, high = (names["random"][key] for key in ("low", "high"))
    assert low < 0 < high
    (folder,) = Path("tournaments").iterdir()
    again = json.loads(output(capsys, "tournament", "--folder", str(folder), "--json"))
    assert again == printed


@pytest.mark.usefixtures("no_figures")
def test_repeated_games_are_reported(tiny_run, capsys):
    """Two deterministic players cannot play 40 different games."""
    shutil.copytree(tiny_run, "runs/demo")
    two = ["runs/demo@0?simulations=0", "runs/demo@0?simulations=1"]
    printed = output(capsys, "tournament", *two, "--games", "40")
    assert "40 games, " in printed
    assert ", 2 effective: repeated games widen intervals" in printed


def test_match_reports_score_and_elo(capsys):
    played = ["mcts:60", "random", "--game", "connect_four:4x4", "--games", "60"]
    result = json.loads(output(capsys, "match", *played, "--openings", "2", "--json"))
    assert result["players"] == ["mcts:60", "random"]
    assert result["games"] == result["wins"] + result["draws"] + result["losses"] == 60
    assert result["low"] > 0.5
    assert result["elo_low"] > 0
    assert result["los"] > 0.975
    swapped = ["random", "mcts:60", *played[2:], "--json"]
    lost = json.loads(output(capsys, "match", *swapped))
    assert lost["elo_high"] < 0
    assert lost["losses"] > lost["wins"]


def test_sequential_test_stops_early(capsys):
    played = ["mcts:60", "random", "--game", "connect_four:4x4", "--games", "1000"]
    result = json.loads(output(capsys, "match", *played, "--sprt", "0", "100", "--json"))
    assert result["sprt"]["decision"] == "accept H1"
    assert result["games"] < 200
    assert result["games"] % 2 == 0
    printed = output(capsys, "match", *played, "--sprt", "0", "100")
    assert "sequential test ended: the larger difference" in printed


def test_sequential_test_of_deterministic_agents_needs_openings(tiny_run, capsys):
    shutil.copytree(tiny_run, "runs/demo")
    two = ["runs/demo@0?simulations=0", "runs/demo@0", "--sprt", "0", "50"]
    assert main(["match", *two, "--openings", "0"]) == 2
    players = "runs/demo@0?simulations=0 and runs/demo@0"
    message = f"openings = 0: {players} play almost without randomness, so most games would repeat"
    assert message in capsys.readouterr().err


def test_rate_names_networks_after_their_run(tiny_run, capsys):
    """The run's own file has the short name `@1`."""
    for run in ("runs/a", "runs/b"):
        shutil.copytree(tiny_run, run)
    rated = json.loads(output(capsys, "rate", "runs/a", "runs/b", "--json"))
    networks = {each["player"] for each in rated["players"] if "@" in each["player"]}
    assert networks >= {"runs/a@0", "runs/a@1", "runs/b@0", "runs/b@1"}
    assert not any(name.startswith("@") for name in networks)


def test_undecided_sequential_test_is_reported(capsys):
    played = ["mcts:9", "mcts:9", "--game", "connect_four:4x4", "--games", "4"]
    printed = output(capsys, "match", *played, "--sprt", "0", "10")
    assert "sequential test undecided" in printed
    assert "mcts:9 against mcts:9 #2" in printed


def test_play_accepts_search_without_network(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.StringIO("hint\n0\nquit\n"))
    printed = output(capsys, "play", "mcts:50", "--game", "connect_four:4x4")
    assert "value of the position" in printed
    assert "mcts:50 plays" in printed


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["tournament"], "expected at least two"),
        (["tournament", "random", "--game", "othello:6x6"], "expected at least two"),
        (["tournament", "random", "mcts:5"], "expected --game, as in --game othello:6x6"),
        (["tournament", *SOME, "--games", "11"], "such as 12"),
        (["tournament", *SOME, "--games", "0"], "expected at least 2"),
        (["tournament", *SOME, "--seed", "-1"], "expected at least 0"),
        (["tournament", *SOME, "--openings", "16"], "openings of 16 plies"),
        (["tournament", "rnadom", *SOME], 'did you mean "random"?'),
        (["tournament", "random", "mcts:5", "--game", "chess:8x8"], 'unknown game "chess"'),
        (["tournament", *SOME, "--folder", "."], "is not a tournament and not empty"),
        (["tournament", "--folder", "nowhere"], "no tournament to resume"),
        (["match", "random:5", "mcts:5", *SOME[3:]], "random:5: expected random alone"),
        (["match", "random"], "Missing from zerolab match"),
        (["match", "random", "mcts:5", "--game", "othello:6x6", "--games", "7"], "such as 8"),
        (["match", *SOME[:2], *SOME[3:], "--sprt", "50", "0"], "the smaller one first"),
        (["match", *SOME[:2], *SOME[3:], "--sprt", "50"], "sprt"),
        (["play", "mcts:x", "--game", "othello:6x6"], "as in mcts:100"),
        (["play", "gobang:3x3:3", "--game", "gobang:3x3:3"], "is a game: expected an agent"),
    ],
)
def test_mistakes_print_one_line_and_exit_with_2(arguments, expected, capsys):
    Path("something").write_text("")
    assert main(arguments) == 2
    errors = capsys.readouterr().err
    assert expected in errors
    lines = [line for line in errors.splitlines() if line.startswith("zerolab: ")]
    assert len(lines) == 1


def test_refused_tournament_leaves_no_folder(capsys):
    assert main(["tournament", *SOME, "--openings", "16", "--folder", "t"]) == 2
    assert not Path("t").exists()


@pytest.mark.usefixtures("no_figures")
def test_players_that_cannot_play_are_not_kept(capsys):
    bad = "gtp:no-such-program"
    assert main(["tournament", *SOME, "--folder", "t", bad]) == 2
    capsys.readouterr()
    first = output(capsys, "tournament", *SOME, "--folder", "t")
    assert main(["tournament", "--folder", "t", bad]) == 2
    capsys.readouterr()
    assert output(capsys, "tournament", "--folder", "t") == first


@pytest.mark.usefixtures("no_figures")
def test_finished_tournament_of_a_moved_run_is_reported(tiny_run, capsys):
    shutil.copytree(tiny_run, "runs/demo")
    players = ["random", "runs/demo", "--games", "4", "--folder", "t"]
    first = output(capsys, "tournament", *players)
    shutil.move("runs", "elsewhere")
    assert output(capsys, "tournament", "--folder", "t") == first
    assert main(["tournament", "--folder", "t", "mcts:5"]) == 2
    assert "runs/demo" in capsys.readouterr().err
    assert output(capsys, "tournament", "--folder", "t") == first


@pytest.mark.usefixtures("no_figures")
def test_players_added_by_another_command_are_not_reported_unplayed(capsys, monkeypatch):
    output(capsys, "tournament", *SOME, "--folder", "t")
    load = Tournament.load
    before = iter([load(Path("t"))])  # read before the other command, and again when locked

    with monkeypatch.context() as patch:
        patch.setattr(Tournament, "play", interrupt)
        assert main(["tournament", "--folder", "t", "mcts:6"]) == 130
    capsys.readouterr()
    with monkeypatch.context() as patch:
        patch.setattr(Tournament, "load", lambda path: next(before, None) or load(path))
        assert main(["tournament", "--folder", "t"]) == 2
    assert "another command has added players to t" in capsys.readouterr().err
    assert "mcts:6" in output(capsys, "tournament", "--folder", "t")


@pytest.mark.usefixtures("no_figures")
def test_repeated_command_plays_games_of_players_added_to_its_folder(capsys, monkeypatch, tiny_run):
    shutil.copytree(tiny_run, "runs/demo")
    command = ["tournament", "random", "mcts:2", "--game", "gobang:3x3:3", "--games", "2", "--json"]
    output(capsys, *command)
    (folder,) = Path("tournaments").iterdir()
    with monkeypatch.context() as patch:
        patch.setattr(Tournament, "play", interrupt)
        assert main(["tournament", "runs/demo", "--folder", str(folder)]) == 130
    capsys.readouterr()
    printed = output(capsys, *command)
    names = {player["player"] for player in json.loads(printed)["players"]}
    assert names == {"random", "mcts:2", "runs/demo@1"}
    assert json.loads(printed)["games_played"] == 6
    shutil.rmtree("runs")  # a finished tournament does not need its players
    assert output(capsys, *command) == printed


@pytest.mark.usefixtures("no_figures")
def test_tournament_ends_without_perfect_play_that_is_too_hard(capsys, monkeypatch):
    """The command that adds the players is interrupted before the solver gives up."""
    players = ["random", "mcts:2", "perfect", "perfect"]
    with monkeypatch.context() as patch:
        patch.setattr(Tournament, "play", interrupt)
        options = ["--game", "gobang:8x8:5", "--games", "2", "--folder", "t"]
        assert main(["tournament", *players, *options]) == 130
    monkeypatch.setattr(baselines, "_SOLVER_BUDGET", SolverBudget(nodes=1000))
    assert main(["tournament", "--folder", "t"]) == 2
    assert "too hard for perfect play" in capsys.readouterr().err
    report = json.loads(output(capsys, "tournament", "--folder", "t", "--json"))
    assert {player["player"] for player in report["players"]} == {"random", "mcts:2"}
    assert report["games_played"] == 2


@pytest.mark.usefixtures("no_figures")
def test_changed_settings_of_folder_are_refused(capsys):
    output(capsys, "tournament", *SOME, "--folder", "t")
    assert main(["tournament", "--folder", "t", "--games", "12"]) == 2
    assert "games = 12 differs from 10 in t" in capsys.readouterr().err
    assert main(["tournament", "--folder", "t", "--game", "connect_four:5x5"]) == 2
    assert 'game = "connect_four:5x5" differs' in capsys.readouterr().err
