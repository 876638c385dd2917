"""`zerolab rate`: tables, JSON, CSV, figures and error messages."""

from __future__ import annotations

import csv
import io
import json
import os

import numpy as np
import pytest

from forks import Fork
from zerolab.cli.main import main
from zerolab.ratings import ratings as ratings_module
from zerolab.ratings.bayes import rate
from zerolab.ratings.results import GameResult, synthetic_tournament

RESULTS = {1: "1-0", 0: "1/2-1/2", -1: "0-1"}


def pgn(results):
    return "".join(
        f'[White "{first}"]\n[Black "{second}"]\n[Result "{RESULTS[outcome]}"]\n\n'
        for first, second, outcome, *_ in results
    )


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    truth, results = synthetic_tournament(np.random.default_rng(4), 6, 40)
    path = tmp_path_factory.mktemp("games") / "games.pgn"
    path.write_text(pgn(results))
    return truth, path


def rated(capsys, *arguments):
    assert main(["rate", *map(str, arguments)]) == 0
    return capsys.readouterr()


def test_json_has_ratings_and_intervals(played, capsys):
    truth, path = played
    ratings = json.loads(rated(capsys, path, "--json").out)
    assert set(ratings) == {"first_move_advantage", "model", "players"}
    assert {each["player"] for each in ratings["players"]} == set(truth)
    for each in ratings["players"]:
        assert each["low"] < each["elo"] < each["high"]
        assert each["elo"] == pytest.approx(truth[each["player"]], abs=100)
        assert each["games"] == 200
    elos = [each["elo"] for each in ratings["players"]]
    assert elos == sorted(elos, reverse=True)


def test_model_parameters_can_be_fixed(played, capsys):
    options = ("--advantage", "-12.5", "--draw-elo", "80", "--json")
    ratings = json.loads(rated(capsys, played[1], *options).out)
    assert (
        ratings["model"]["first_move_advantage"],
        ratings["model"]["draw_elo"],
    ) == pytest.approx((-12.5, 80))


def test_csv_agrees_with_json(played, capsys):
    ratings = json.loads(rated(capsys, played[1], "--json").out)["players"]
    rows = list(csv.DictReader(io.StringIO(rated(capsys, played[1], "--csv").out)))
    assert [row["player"] for row in rows] == [each["player"] for each in ratings]
    assert [float(row["elo"]) for row in rows] == pytest.approx(
        [each["elo"] for each in ratings], rel=1e-4
    )


def test_table_is_printed_and_skipped_games_are_counted(tmp_path, capsys):
    games = [("A [b]", "$x_B", 1), ("$x_B", "A [b]", 0), ("$x_B", "$x_B", 1)]
    unfinished = pgn([("$x_B", "A [b]", 1)]).replace("1-0", "*")
    (tmp_path / "games.pgn").write_text(pgn(games) + unfinished)
    output = rated(capsys, tmp_path / "games.pgn")
    assert "A [b]" in output.out
    assert "$x_B" in output.out
    assert "left out 1 unfinished game\n" in output.err
    assert "left out 1 self-play game\n" in output.err


@pytest.mark.parametrize("name", ["ratings.png", "ratings.SVG"])
def test_figure_has_format_of_its_ending(name, tmp_path, capsys):
    (tmp_path / "games.pgn").write_text(pgn([("$A_{", "B\\$", 1), ("C" * 200, "$A_{", 0)]))
    rated(capsys, tmp_path / "games.pgn", "--figure", tmp_path / name)
    content = (tmp_path / name).read_bytes()
    assert content.startswith(b"\x89PNG" if name.endswith("png") else b"<?xml")


def test_figure_shows_strongest_players_if_there_are_too_many(monkeypatch):
    monkeypatch.setattr(ratings_module, "_MAX_PLAYERS", 2)
    ratings = rate([GameResult("A", "B", 1), GameResult("B", "C", 1), GameResult("C", "A", 0)])
    (axes,) = ratings_module.draw_ratings(ratings).axes
    assert len(axes.get_yticks()) == 2
    assert axes.get_xlabel() == "Elo with 95 % intervals, the 2 strongest of 3"


def test_mistakes_print_one_line(tmp_path, capsys):
    files = {
        "apart.pgn": pgn([("A", "B", 1), ("C", "D", 0)]),
        "one.pgn": pgn([("A", "A", 1)]),
        "unknown.pgn": pgn([("A", "B", 1)]).replace("1-0", "2-0"),
        "unfinished.pgn": pgn([("A", "B", 1)]).replace("1-0", "*"),
        "empty.pgn": "",
        "good.pgn": pgn([("A", "B", 1)]),
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    mistakes = [
        (["apart.pgn"], "2 groups"),
        (["one.pgn"], "no finished game between two players"),
        (["unfinished.pgn"], "no finished game between two players"),
        (["unknown.pgn"], 'unknown.pgn, game 1: Result "2-0"'),
        (["empty.pgn"], "contains no games"),
        (["none.pgn"], "does not exist"),
        ([], "no files"),
        (["good.pgn", "--json", "--csv"], "--json and --csv"),
        (["good.pgn", "--figure", "x.doc"], "expected an extension such as .png"),
        (["good.pgn", "--figure", str(tmp_path / "no" / "x.png")], "cannot write"),
        (["good.pgn", "--advantage", "nan"], "advantage = nan"),
        (["good.pgn", "--draw-elo", "-1"], "draw_elo = -1"),
        (["good.pgn", "--draw-elo", "many"], "many"),
    ]
    for arguments, message in mistakes:
        command = [str(tmp_path / each) if each.endswith(".pgn") else each for each in arguments]
        assert main(["rate", *command]) == 2, arguments
        output = capsys.readouterr()
        assert message in output.err, arguments
        assert output.err.count("\n") == 1, output.err
        assert not output.out


def test_ratings_that_do_not_converge_are_reported(tmp_path, capsys):
    """Forty players in strict order, and a parameter that makes draws nearly certain."""
    path = tmp_path / "ordered.pgn"
    pairs = [(i, j) for i in range(40) for j in range(40) if i != j]
    path.write_text(pgn((f"p{i}", f"p{j}", 1 if i < j else -1) for i, j in pairs) * 20)
    assert main(["rate", str(path), "--draw-elo", "4000"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "draw_elo = 4000" in line


def test_unsuitable_files_are_refused_unread(tmp_path, capsys):
    """Reading any of these files would exhaust memory or block forever."""
    for folder in ("zeros", "link", "pipe"):
        (tmp_path / folder).mkdir()
    for name in ("zeros/games.sqlite", "huge.pgn"):
        with open(tmp_path / name, "wb") as file:
            file.truncate(8 << 30)  # a sparse file
    (tmp_path / "link" / "games.sqlite").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe" / "games.sqlite")
    (tmp_path / "loop.pgn").symlink_to("loop.pgn")
    mistakes = {
        "zeros": "zeros/games.sqlite is damaged (file is not a database)",
        "huge.pgn": "huge.pgn: it is 8,589,934,592 bytes; expected at most",
        "link": "link/games.sqlite: it is a device; expected a file",
        "pipe": "pipe/games.sqlite: it is a named pipe; expected a file",
        "loop.pgn": "loop.pgn does not exist",
        "/dev/zero": "/dev/zero: it is a device; expected a file",
    }
    for name, message in mistakes.items():
        assert main(["rate", str(tmp_path / name)]) == 2
        output = capsys.readouterr()
        assert message in output.err
        assert output.err.count("\n") == 1


def test_too_many_players_are_refused(tmp_path, capsys):
    circle = [(f"p{i}", f"p{(i + 1) % 20_000}", 1) for i in range(20_000)]
    (tmp_path / "games.pgn").write_text(pgn(circle))
    assert main(["rate", str(tmp_path / "games.pgn")]) == 2
    assert "20,000 players: expected at most 1,000" in capsys.readouterr().err


def test_rate_does_not_import_torch_or_matplotlib(played):
    script = (
        "import sys; from zerolab.cli.main import main; main(['rate', sys.argv[1]]);"
        "assert 'torch' not in sys.modules and 'matplotlib' not in sys.modules"
    )
    process = Fork(str(played[1]), code=script)
    process.finish()
    assert process.returncode == 0
