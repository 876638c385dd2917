"""`zerolab gtp`: GTP dialogues and error messages."""

from __future__ import annotations

import io

import pytest

from forks import Fork
from zerolab.cli.main import main


def converse(monkeypatch, capfdbinary, script, *arguments):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(script)))
    code = main(["gtp", *arguments])
    return code, capfdbinary.readouterr()


def test_player_responds_to_commands(monkeypatch, capfdbinary):
    script = b"1 name\n2 boardsize 3\n3 genmove black\n4 zerolab-game\nplay\xff\n5 quit\n6 name\n"
    code, captured = converse(monkeypatch, capfdbinary, script, "random", "--game", "gobang:5x5:3")
    assert code == 0
    name, size, move, game, unknown, end, rest = captured.out.split(b"\n\n")
    assert (name, size, game) == (b"=1 zerolab random", b"=2", b"=4 gobang:3x3:3")
    assert move[:3] == b"=3 "
    assert (unknown, end, rest) == (b"? unknown command", b"=5", b"")
    assert captured.err == b""


def test_seed_determines_moves(monkeypatch, capfdbinary):
    arguments = "random", "--game", "gobang:8x8"
    script = b"genmove b\ngenmove w\ngenmove b\ngenmove w\n"
    games = [
        converse(monkeypatch, capfdbinary, script, *arguments, "--seed", seed)[1].out
        for seed in ("1", "1", "2")
    ]
    assert games[0] == games[1] != games[2]


def test_missing_stdin_ends_engine(monkeypatch, capfd):
    monkeypatch.setattr("sys.stdin", None)
    assert main(["gtp", "random", "--game", "gobang:3x3:3"]) == 0
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["random"], "expected --game"),
        (["nobody"], "neither a run nor"),
        (["random", "--game", "go:9x9"], 'unknown game "go"'),
        (["random", "--game", "gobang:5x5", "--seed", "-1"], "seed = -1: expected at least 0"),
        (['gtp:"no-such-engine"', "--game", "gobang:5x5"], "no-such-engine cannot be started"),
    ],
)
def test_mistakes_print_one_line_and_exit_with_2(arguments, expected, capsys):
    assert main(["gtp", *arguments]) == 2
    errors = capsys.readouterr().err
    assert expected in errors
    assert len(errors.splitlines()) == 1


def test_closed_output_ends_engine():
    process = Fork("gtp", "random", "--game", "gobang:3x3:3")
    process.stdin.write("name\n")
    process.stdin.flush()
    assert process.stdout.readline() == "= zerolab random\n"
    process.stdout.close()
    process.stdin.write("list_commands\n" * 2)
    process.stdin.close()
    assert process.wait() == 0
    assert process.stderr.read() == ""
