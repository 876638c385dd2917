"""Written PGN and move lists, read back and checked against the PGN standard."""

from __future__ import annotations

import re

from zerolab.play.game_files import ExportedGame, as_pgn, as_tsv, move_names, read_pgn_results
from zerolab.rules.catalogue import parse_game
from zerolab.rules.position import Position

GAME = parse_game("othello:4x4")
GAMES = [
    ExportedGame("runs/demo, gate", 1, 'gtp:"x -l 2"', r"back\slash", ("b1", "a1"), 1),
    ExportedGame("runs/demo, gate", 2, "random", "mcts:100", ("b1",) * 61, -1, given_plies=4),
    ExportedGame("runs/demo, gate", 3, "mcts:100", "random", (), 0, is_forfeited=True),
]


def test_written_pgn_is_read_back():
    text = "".join(as_pgn(GAME, GAMES))
    results = read_pgn_results(text.encode(), "games.pgn").results
    assert [tuple(each)[:3] for each in results] == [
        (each.first, each.second, each.result) for each in GAMES
    ]


def test_pgn_follows_standard_layout():
    for text, game in zip(as_pgn(GAME, GAMES), GAMES, strict=True):
        tags = re.findall(r"^\[(\w+) ", text, re.MULTILINE)
        assert tags[:7] == ["Event", "Site", "Date", "Round", "White", "Black", "Result"]
        head, _, moves = text.partition("\n\n")
        assert max(map(len, moves.splitlines())) < 80
        assert re.search(r'\[Result "(.*)"\]', head)[1] == moves.split()[-1]
        assert len(re.findall(r"\d+\. ", moves)) == (len(game.moves) + 1) // 2
    assert text.count("Termination") == 1


def test_given_plies_are_exported():
    pgn = list(as_pgn(GAME, GAMES))
    assert ["[GivenPlies" in text for text in pgn] == [False, True, False]
    assert '[GivenPlies "4"]' in pgn[1]
    _, *lines = as_tsv(GAME, GAMES)
    assert [line.split("\t")[6] for line in lines] == ["0", "4", "0"]


def test_lines_have_playable_moves():
    position = Position.start(GAME)
    while position.outcome is None:
        position = position.play(position.legal_actions[0])
    moves = move_names(GAME, position.history)
    game = ExportedGame("a\tmatch\n", 7, "x", "y", moves, position.first_player_outcome)
    heading, line = as_tsv(GAME, [game])
    row = dict(zip(heading.split(), line.rstrip("\n").split("\t"), strict=True))
    assert row["event"] == "a match"
    again = Position.start(GAME)
    for move in row["moves"].split(","):
        again = again.play(move)
    assert again.history == position.history
