"""The study of Table 5.1 at a tiny scale, and its published numbers."""

from __future__ import annotations

import json
from contextlib import contextmanager
from pathlib import Path

import pytest
from zerolab.studies.table_5_1 import PLAYERS, PUBLISHED, Table51, matrix

from zerolab.agents.specs import parse_agents
from zerolab.core.errors import UserError
from zerolab.play.tournament import Tournament
from zerolab.rules.catalogue import parse_game
from zerolab.studies import table_5_1

# Rows and columns random, mcts, rave, rhea; "column beats row", in percent.
GOBANG = """
    -  97.0  100  90
    -  -    89.4  34
    -  -     -    17
"""
CONNECT_FOUR = """
    -  99.6  100  80
    -  -    73.0   3
    -  -     -     4
"""
OTHELLO = """
    -  98.5  98.0 48
    -  -    46.0  1.0
    -  -     -    5.0
"""


@contextmanager
def silent(title, total, unit):
    yield lambda done, note: None


@contextmanager
def broken_off(title, total, unit):
    """Be stopped when the games of the second tournament begin."""

    def update(done, note):
        if note == "connect_four:6x6":
            raise KeyboardInterrupt

    yield update


@contextmanager
def forbidden(title, total, unit):
    raise AssertionError("nothing was left to play")
    yield


@pytest.mark.parametrize(
    ("game", "printed"),
    [("gobang:6x6:4", GOBANG), ("connect_four:6x6", CONNECT_FOUR), ("othello:6x6", OTHELLO)],
)
def test_published_numbers(game, printed):
    rows = [line.split() for line in printed.strip().splitlines()]
    names = ["random", "mcts", "rave", "rhea"]
    found = {
        (names[column], names[row]): float(rows[row][column])
        for row in range(3)
        for column in range(row + 1, 4)
    }
    assert {pair: 100 * share for pair, share in PUBLISHED[game].items()} == pytest.approx(found)


def test_both_halves_of_a_matrix_are_complements():
    for cells in PUBLISHED.values():
        table = matrix(cells)
        assert sum(map(len, table.values())) == 12
        for row in PLAYERS:
            assert row not in table[row]
            for column in table[row]:
                assert table[row][column] + table[column][row] == pytest.approx(1)
        for (column, row), share in cells.items():
            assert table[row][column] == share


def recount(folder: Path, player: str, opponent: str) -> tuple[int, int, int]:
    """Count wins, draws and losses from the stored games alone."""
    games = [
        each for each in Tournament.saved(folder).games() if {player, opponent} == {*each[1:3]}
    ]
    points = [each.result * (1 if each.first == player else -1) for each in games]
    assert sum(each.first == player for each in games) * 2 == len(games)
    return points.count(1), points.count(0), points.count(-1)


def test_a_tiny_study(tmp_path, quick_players):
    folder = tmp_path / "deep" / "study"
    report = Table51(games=4, playouts=5).run(folder, silent)
    saved = json.loads((folder / "results.json").read_text())
    assert saved == report.as_dict()
    chosen = {"games": 4, "playouts": 5, "seed": 0, "playout_moves": True}
    assert saved["settings"] == chosen
    assert saved["played"]["games"] == 3 * 6 * 4
    assert [entry["game"] for entry in saved["games"]] == list(PUBLISHED)
    for entry in saved["games"]:
        tournament = folder / entry["game"].replace(":", "-")
        assert [(p["player"], p["opponent"]) for p in entry["pairs"]] == list(
            PUBLISHED[entry["game"]]
        )
        for pair in entry["pairs"]:
            names = [saved["players"][pair[who]] for who in ("player", "opponent")]
            assert (pair["wins"], pair["draws"], pair["losses"]) == recount(tournament, *names)
            assert 1 <= pair["distinct_games"] <= 4
            measured = entry["column_beats_row"]["measured"]
            assert measured[pair["opponent"]][pair["player"]] == pair["score_rate"]
    assert (folder / "table-5.1.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "table-5.1.svg").read_text().startswith("<?xml")
    table = (folder / "table-5.1.md").read_text()
    rows = [line for line in table.splitlines() if line.endswith((" agree |", " differ |"))]
    assert len(rows) == saved["pairs"] == 18
    assert sum(row.endswith(" agree |") for row in rows) == saved["agree"]
    assert all(len(row.split("|")) == 12 for row in rows)


def test_a_finished_study_plays_nothing_again(tmp_path, quick_players):
    study = Table51(games=2, playouts=2)
    study.run(tmp_path, silent)
    first = (tmp_path / "results.json").read_text()
    study.run(tmp_path, forbidden)
    assert (tmp_path / "results.json").read_text() == first
    (tmp_path / "results.json").write_text("{")
    assert study.run(tmp_path, forbidden).as_dict()["played"] is None


def test_a_stopped_study_goes_on(tmp_path, quick_players):
    study = Table51(games=4, playouts=2, seed=3)
    with pytest.raises(KeyboardInterrupt):
        study.run(tmp_path / "stopped", broken_off)
    kept = Tournament.saved(tmp_path / "stopped" / "gobang-6x6-4")
    assert kept.games_left() == 0
    went_on = study.run(tmp_path / "stopped", silent).as_dict()
    assert went_on["played"]["games"] <= 2 * 6 * 4
    at_once = study.run(tmp_path / "at once", silent).as_dict()
    assert went_on["games"] == at_once["games"]


def test_another_seed_is_another_measurement(tmp_path, quick_players):
    one, other = (
        Table51(games=10, playouts=2, seed=seed).run(tmp_path / str(seed), silent).as_dict()
        for seed in (1, 2)
    )
    assert one["games"] != other["games"]


def test_a_folder_keeps_its_settings_and_players(tmp_path, quick_players, monkeypatch):
    Table51(games=2, playouts=2).run(tmp_path / "study", silent)
    with pytest.raises(UserError, match=r"playouts = 5 differs from 2 in .*study"):
        Table51(games=2, playouts=5).run(tmp_path / "study", silent)
    others = {**table_5_1.PLAYERS, "rhea": "mcts:1"}
    monkeypatch.setattr(table_5_1, "PLAYERS", others)
    with pytest.raises(UserError, match="has other players"):
        Table51(games=2, playouts=2).run(tmp_path / "study", silent)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("mine")
    with pytest.raises(UserError, match="is not a study and not empty"):
        Table51(games=2, playouts=2).run(tmp_path / "full", silent)
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["letter.txt"]


def test_refused_settings_leave_no_folder(tmp_path, quick_players, monkeypatch):
    with pytest.raises(UserError, match="3 is odd"):
        Table51(games=3, playouts=2).run(tmp_path / "study", silent)
    monkeypatch.setattr(table_5_1, "PLAYERS", {**table_5_1.PLAYERS, "rave": "rvae:{playouts}"})
    with pytest.raises(UserError, match="rvae:2"):
        Table51(games=2, playouts=2).run(tmp_path / "study", silent)
    assert not (tmp_path / "study").exists()


@pytest.mark.parametrize("game", PUBLISHED)
def test_the_papers_players_have_the_papers_names(game):
    for counted in (False, True):
        agents = parse_agents(Table51(playout_moves=counted).players, parse_game(game))
        rave = "rave:100" if counted else "rave:100?selection.playout_moves=false"
        names = [agent.name for agent in agents]
        assert names == ["random", "mcts:100?selection.name=puct", rave, "rhea:100"]


def test_the_papers_players_play(tmp_path, monkeypatch):
    one = "gobang:6x6:4"  # compiling them for all three takes a minute
    monkeypatch.setattr(table_5_1, "PUBLISHED", {one: PUBLISHED[one]})
    found = Table51(games=2, playouts=20).run(tmp_path, silent).as_dict()
    (entry,) = found["games"]
    assert len(entry["pairs"]) == 6
    assert all(pair["wins"] + pair["draws"] + pair["losses"] == 2 for pair in entry["pairs"])


def test_fewer_playouts_than_rhea_has_individuals_are_refused(tmp_path):
    with pytest.raises(UserError, match="rhea:3") as refused:
        Table51(games=2, playouts=3).run(tmp_path / "study", silent)
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "study").exists()
