"""Short messages and exit code 2, without a traceback, for hundreds of mistakes."""

from __future__ import annotations

import itertools
import os
from collections import Counter

import pytest

from zerolab.cli.main import COMMANDS, main

LONG = "a" * 5000
DIGITS = "9" * 5000
THIRTY = "9" * 30
NESTED = "[" * 5000
BROKEN = "caf\udce9"

ODD = (
    "", " ", "-", "--", "-x", "=", ":", "@", "?", "\n", "\x1b[31m", "\u202e", "☃", "%s", "{}",
    "None", "nan", "inf", "-1", "0", "1e400", "0x10", "1_0", "٣", "../..", "/", "/dev/null",
    "/dev/zero", LONG, DIGITS, "-" + DIGITS, THIRTY, NESTED, BROKEN,
    "/".join("abc" for _ in range(2000)),
)  # fmt: skip

WORKING = {
    ("train", "gobang:3x3:3", "--preset", "smoke"): "--preset --run --set",
    ("match", "random", "random", "--game", "gobang:3x3:3"): "--games --openings --seed --sprt",
    ("tournament", "random", "mcts:2", "--game", "gobang:3x3:3"): (
        "--game --games --openings --seed --folder"
    ),
    ("evaluate", "random", "--game", "gobang:3x3:3"): (
        "--game --games --openings --nodes --seed --positions --against --figure"
    ),
    ("dataset", "gobang:3x3:3", "--positions", "5"): (
        "--nodes --seed --processes --perfect --plies --out"
    ),
    ("play", "random", "--game", "gobang:3x3:3"): "--side --game --seed",
    ("gtp", "random", "--game", "gobang:3x3:3"): "--game --seed",
    ("study", "table-5.1"): "--scale --only --workers --folder",
    ("report", "table-5.1"): "--scale --folder",
    (
        "tune",
        "gobang:3x3:3",
        "--preset",
        "smoke",
        "--objective",
        "loss",
        "--set",
        "iterations=1..2",
    ): ("--games --seed --folder --positions --preset --set"),
    ("league", "gobang:3x3:3", "--games", "2"): "--seed --set --agent",
    ("bench", "tree"): "--rounds",
}
"""Valid commands, each with options that are given invalid values."""

WRONG = {
    "--games": ["x", "-1", "1", "1.5", THIRTY, DIGITS, "nan", LONG, NESTED, ""],
    "--openings": ["x", "-1", THIRTY, DIGITS, "0.5", LONG],
    "--seed": ["x", "-1", THIRTY, DIGITS, "1.5", LONG],
    "--game": ["chess:8x8", "othello:", "othello:6", "othello:7x7:9:9", f"gobang:{DIGITS}x3", LONG],
    "--nodes": ["x", "-1", "0", THIRTY + "x", DIGITS],
    "--positions": ["nowhere", LONG, "/dev/null", "/"],
    "--scale": ["papre", "", LONG],
    "--only": ["otello", "", LONG, BROKEN],
    "--workers": ["-1", "x", "1.5", "-" + DIGITS, LONG],
    "--processes": ["0", "-1", THIRTY, DIGITS, "x"],
    "--perfect": ["2", "-1", "nan", "x", LONG],
    "--plies": ["x", "1", "9:1", f"{DIGITS}:", LONG],
    "--rounds": ["0", "-1", "x", DIGITS],
    "--side": ["third", LONG],
    "--agent": ["random", "mcts:5", "nowhere", "nowhere@1", LONG, BROKEN],
    "--against": ["me", LONG],
    "--sprt": ["x", LONG],
    "--no-such-option": ["", "1", LONG],
    "--preset": ["papr", LONG, f"{LONG}.toml", "nowhere.toml", "/dev/zero.toml"],
    "--folder": [LONG, "/dev/null", f"/dev/null/{LONG}", BROKEN],
    "--run": [LONG, "/dev/null", f"/dev/null/{LONG}", BROKEN],
    "--out": [LONG, "/", "nowhere/x.parquet", BROKEN],
    "--figure": [LONG, "x.xyz", "nowhere/x.png", BROKEN],
    "--output": [LONG, "x.xyz", BROKEN],
    "--set": [
        "x", "=", "=1", "x=1", "seed=-1", f"seed={DIGITS}", f"seed={NESTED}", f"{LONG}=1",
        f"learn.{LONG}=1", f"{'a.' * 3000}a=1", "learn=1", "learn.epochs=x", f"learn.epochs={LONG}",
        "learn.epochs=nan", "learn.epochs=[1]", f"learn.epochs={{{'a={' * 2000}", "network=mlp",
        f"network={LONG}", "network.name=3", f"game={LONG}", f"iterations={THIRTY}.5", BROKEN,
        f"search.selection.c={NESTED}{']' * 5000}", "warm_start.variant=x", "seed=2024-01-01",
    ],
}  # fmt: skip


def wrong_options():
    """Yield all wrong values of each option with one command, and half with the others."""
    seen = Counter()
    for command, options in WORKING.items():
        for option in [*options.split(), "--no-such-option"]:
            uses = seen[option]
            seen[option] += 1
            for place, value in enumerate(WRONG[option]):
                if uses == 0 or (place + uses) % 2 == 0:
                    yield [*command, option, value]


def wrong_arguments():
    """Yield a quarter of the odd values with most commands, bad agents, and bad patterns."""
    pairs = itertools.product(enumerate(COMMANDS), enumerate(ODD))
    for (number, command), (place, value) in pairs:
        if (number + place) % 8 == 0 or (command == "settings" and place % 2 == 0):
            yield [command, value, "--no-such-option"]
        elif (number + place) % 8 == 4 and command != "settings":
            yield [command, f"{value}!"]
    for spec in (LONG, f"mcts:{DIGITS}", "mcts:0", "mcts:-1", f"mcts:2?c={NESTED}", "mcts:2?x=1",
                 f"mcts:2?{LONG}", f"nowhere@{DIGITS}", f"{LONG}@1", "gtp:", 'gtp:"', f"gtp:{LONG}",
                 'gtp:"/nowhere"', "perfect?x", "random:3", BROKEN):  # fmt: skip
        for command in ("match", "tournament"):
            yield [command, "random", spec, "--game", "gobang:3x3:3", "--games", "2"]
        for command in ("play", "gtp", "evaluate"):
            yield [command, spec, "--game", "gobang:3x3:3"]
    yield from (
        ["evaluate", "random", "--positions"], ["evaluate", "random", "--positions", "--json"],
        ["puzzles", "gobang:3x3:3", "--agents"], ["serve", "--names"], ["train", "--set"],
    )  # fmt: skip
    for pattern in (LONG, "no-such-setting", "*x*y*z", DIGITS):
        yield ["settings", pattern]


@pytest.fixture
def empty_stdin(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with open(os.devnull) as null:
        monkeypatch.setattr("sys.stdin", null)
        yield


def failure(arguments, capsys):
    """Return a description of how the command mishandled the mistake, or an empty string."""
    try:
        code = main(arguments)
    except BaseException as error:  # the user would see a traceback
        return f"{type(error).__name__}: {str(error)[:200]}"
    output, errors = capsys.readouterr()
    lines = errors.splitlines()
    if code != 2:
        return f"code {code}, {errors[-200:]!r}"
    if not lines or not all(line.startswith("zerolab: ") for line in lines):
        return f"message {errors[:200]!r}"
    if max(map(len, lines)) > 700:
        return f"a line of {max(map(len, lines))} characters: {errors[:300]!r}"
    return "a traceback" if "Traceback" in errors + output else ""


@pytest.mark.parametrize("inputs", [wrong_options, wrong_arguments])
def test_mistakes_print_short_line_and_exit_with_2(inputs, empty_stdin, capsys):
    mistakes = list(inputs())
    assert len(mistakes) > 200
    failures = {}
    for arguments in mistakes:
        if problem := failure(arguments, capsys):
            failures[" ".join(each[:40] for each in arguments)] = problem
    assert not failures


def test_loops_of_links_are_reported(empty_stdin, capsys, tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    train = ["train", "gobang:3x3:3", "--preset", "smoke"]
    for arguments in (
        [*train, "--run", "run", "--storage", "loop"],
        [*train, "--run", "loop", "--storage", "copies"],
        ["report", "table-5.1", "--ledger", "loop", "--output", "report"],
    ):
        assert not failure(arguments, capsys)
