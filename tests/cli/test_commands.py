"""Help, listings, error messages and interactive play on the command line."""

from __future__ import annotations

import importlib
import inspect
import io
import json
import pkgutil
import re
import subprocess
import sys

import docstring_parser
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from zerolab import cli
from zerolab.cli.main import COMMANDS, main


@pytest.mark.parametrize("allocate", [torch.empty, bytes])
def test_lack_of_memory_is_reported_in_one_line(capsys, monkeypatch, allocate):
    monkeypatch.setattr(cli.main, "_run", lambda _: allocate(1 << 60))
    assert main(["games"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("zerolab: not enough memory: ")


def test_help_names_every_command(capsys):
    assert main(["--help"]) == 0
    output = capsys.readouterr().out
    assert all(f"  {name} " in output for name in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_examples(command, capsys):
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])
    assert stop.value.code == 0
    output = capsys.readouterr().out
    assert "usage: zerolab " + command in output
    assert re.search(rf"Examples?:\s+zerolab {command}\b", output)


def test_help_describes_every_parameter():
    commands = 0
    for found in pkgutil.iter_modules(cli.__path__):
        module = importlib.import_module(f"zerolab.cli.{found.name}")
        for name, function in inspect.getmembers(module, inspect.isfunction):
            text = inspect.getdoc(function) or ""
            if function.__module__ == module.__name__ and name[0] != "_" and "Args:" in text:
                described = {each.arg_name for each in docstring_parser.parse(text).params}
                assert described == set(inspect.signature(function).parameters), name
                commands += 1
    assert commands >= len(COMMANDS) - 5  # a few have no parameters of their own


def test_help_shows_names_and_lists(capsys):
    for command in ("train", "bench", "match"):
        with pytest.raises(SystemExit):
            main([command, "--help"])
    text = capsys.readouterr().out
    assert "usage: zerolab train [-h] [OPTIONS] [GAME]" in text
    assert "--from RUN[@N]" in text
    assert re.search(r"^  small +An evening on two cores$", text, re.M)
    assert "--sprt ELO0 ELO1" in text
    assert "The suites are tree, playout," in text
    assert "--games N " in text
    assert not re.search(r"\{\w+\}", text)
    assert "None" not in text


@pytest.mark.parametrize("command", ["play", "evaluate", "gtp", "tournament"])
def test_help_lists_every_kind_of_agent(command, capsys):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "AGENT" in text.partition("positional")[0]
    for kind in (
        "perfect",
        "mcts:N",
        "rave:N",
        "random",
        "rhea:N",
        "FILE.zerolab",
        'gtp:"COMMAND"',
    ):
        assert kind in text.partition("positional")[2]


@pytest.mark.parametrize("command", ["settings", "study"])
def test_help_shows_no_empty_default(command, capsys):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    assert "(default: '')" not in capsys.readouterr().out


def test_help_and_perft_do_not_import_torch():
    script = """if True:
        import sys
        from zerolab.cli.main import COMMANDS, main

        def explain(command):
            try:
                main([command, "--help"])
            except SystemExit:
                pass

        main(["--help"])
        explain("train")
        assert "numba" not in sys.modules
        assert "pydantic" not in sys.modules
        for command in COMMANDS:
            explain(command)
            assert main([command, "--no-such-option"]) == 2
        main(["perft", "gobang:3x3:3", "2"])
        assert "torch" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)


def test_perft_prints_json(capsys):
    assert main(["perft", "othello:8x8", "5", "--json"]) == 0
    counts = json.loads(capsys.readouterr().out)
    assert counts[-1] == {"depth": 5, "leaves": 1396, "ended": 0}
    assert [count["depth"] for count in counts] == [1, 2, 3, 4, 5]


def test_games_prints_json(capsys):
    assert main(["games", "--json"]) == 0
    listed = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)}
    assert listed["othello"]["sizes"] == {"rows": [4, 8], "columns": [4, 8]}
    assert listed["othello"]["actions"] == 65
    assert listed["connect_four"]["symmetries"] == 2


def test_games_are_one_table_in_80_columns(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["games"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert [line.split()[0] for line in lines].count("game") == 1
    assert "symmetries" in lines[0]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["trian"], 'did you mean "train"?'),
        (["games", "--jsn"], "Unrecognized options: --jsn"),
        (["perft", "othello:6x6", "x"], 'expected a whole number, not "x"'),
        (["perft", "othello:6x6"], "Missing from zerolab perft: DEPTH (see zerolab perft --help)"),
        (["play"], "Missing from zerolab play: AGENT (see zerolab play --help)"),
        (["play", "random", "--side", "scond"], 'did you mean "second"?'),
        (["perft", "chess:8x8", "2"], 'unknown game "chess"'),
        (["perft", "othello:6x6", "0"], "expected at least 1"),
        (["perft", "othello:6x6", str(10**12)], "at most 1000"),
        (["perft", f"othello:{'9' * 5000}x6", "2"], "is not a game"),
        (["play", "random", "--game", "gobang:3x3:3", "--seed", str(10**20)], "less than 2**63"),
        (["play", f"nowhere@{'9' * 5000}"], "neither a run nor"),
        (["tensorboard"], "expected a run folder"),
        (["bench", "tre"], 'did you mean "tree"?'),
        (["play", "random"], "expected --game"),
        (["play", "nowhere"], "neither a run nor"),
        (["plot", "nowhere"], "is not a run"),
        (["tensorboard", "nowhere"], "is not a run"),
        (["runs", "nowhere"], "is not a folder"),
    ],
)
def test_mistakes_print_one_line_and_exit_with_2(arguments, expected, capsys):
    assert main(arguments) == 2
    errors = capsys.readouterr().err
    assert expected in errors
    assert len(errors.splitlines()) == 1


def test_runs_prints_status_of_every_run(smoke_run, tmp_path, capsys):
    (tmp_path / "smoke").symlink_to(smoke_run)
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "config.toml").write_text("game = ")
    assert main(["runs", str(tmp_path), "--json"]) == 0
    listed = {entry["path"].split("/")[-1]: entry for entry in json.loads(capsys.readouterr().out)}
    assert listed["smoke"]["status"] == "finished"
    assert listed["smoke"]["game"] == "gobang:3x3:3"
    assert listed["broken"]["status"].startswith("damaged")


def test_runs_prints_comparable_scores_instead_of_elo(smoke_run, capsys):
    """Training Elo compares each network with its predecessor, so smoke would rank above mini."""
    assert main(["runs", str(smoke_run)]) == 0
    head, row = capsys.readouterr().out.splitlines()
    opponents = head.split("against ")[1:]
    assert [each.split()[0] for each in opponents] == ["random", "mcts:100?tie_break=random"]
    assert row.count("%") == 2
    assert "Elo" not in head
    assert main(["runs", str(smoke_run), "--json"]) == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert set(listed["final_score_rates"]) == {"random", "mcts:100?tie_break=random"}
    assert "training_elo" in listed
    assert "elo" not in listed


def test_plot_writes_png(smoke_run, tmp_path, capsys):
    picture = tmp_path / "curves.png"
    assert main(["plot", str(smoke_run), "--output", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert main(["plot", str(smoke_run), "--output", str(tmp_path / "curves.xyz")]) == 2
    assert "expected an extension" in capsys.readouterr().err


def test_tensorboard_export_has_policy_losses(smoke_run):
    assert main(["tensorboard", str(smoke_run)]) == 0
    assert main(["tensorboard", str(smoke_run)]) == 0
    events = EventAccumulator(str(smoke_run / "tensorboard")).Reload()
    metrics = [json.loads(line) for line in (smoke_run / "metrics.jsonl").read_text().splitlines()]
    losses = [line["loss"]["policy"] for line in metrics if line["stage"] == "learn"]
    exported = [event.value for event in events.Scalars("learn/loss/policy")]
    assert exported == pytest.approx(losses)


@pytest.mark.parametrize(
    ("arguments", "package", "extra"),
    [
        (["tensorboard", "RUN"], "tensorboard", "tensorboard"),
        (["tune", "othello:4x4"], "optuna", "tune"),
    ],
)
def test_missing_extra_is_explained(smoke_run, monkeypatch, capsys, arguments, package, extra):
    for name in [name for name in sys.modules if name.startswith((package, "zerolab.tuning"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    assert main([each.replace("RUN", str(smoke_run)) for each in arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert package in line
    assert f'the "{extra}" extra' in line


def converse(monkeypatch, capsys, arguments, lines):
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(lines) + "\n"))
    assert main(["play", *arguments]) == 0
    return capsys.readouterr().out


def test_play_against_run(smoke_run, monkeypatch, capsys):
    lines = ["b2", "hint", "undo", "zz", "b2", "moves", "quit"]
    output = converse(monkeypatch, capsys, [str(smoke_run)], lines)
    assert output.count("X to move") >= 3
    assert "prior" in output
    assert '"zz" is not a legal move here' in output
    assert "last move b2" in output


def test_hints_do_not_build_on_each_other(monkeypatch, capsys):
    """Each hint has its own tree; the opponent's tree would keep gaining visits."""
    arguments = ["mcts:30", "--game", "gobang:3x3:3"]
    output = converse(monkeypatch, capsys, arguments, ["hint", "HINT", "QUIT"])
    _, first, second, _ = output.split("> ")
    assert "prior" in first
    assert first == second


def test_play_as_second_against_chosen_network(smoke_run, monkeypatch, capsys):
    output = converse(monkeypatch, capsys, [f"{smoke_run}@0", "--side", "second"], ["quit"])
    assert f"{smoke_run}@0 plays" in output
    assert main(["play", f"{smoke_run}@77"]) == 2
    assert "has no network 77" in capsys.readouterr().err


def test_play_whole_game_against_random(monkeypatch, capsys):
    lines = ["0", "0", "0", "1", "1", "1", "2", "2", "2", "3", "3", "3", "hint", "new", "undo"]
    output = converse(monkeypatch, capsys, ["random", "--game", "connect_four:4x4"], lines)
    assert "nothing to take back" in output
