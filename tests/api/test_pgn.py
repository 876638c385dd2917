"""PGN files: round trips of games, and mistakes in foreign files."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import zerolab
from zerolab import Position, RecordedGame
from zerolab.store.games import GameRecord

START = Position.start("gobang:3x3:3")

_NAMES = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=12)
_GAMES = st.builds(
    lambda game, seed, undone: _undone(Position.start(game).random_playout(seed), undone),
    st.sampled_from(["connect_four:4x4:3", "othello:4x4", "gobang:3x3:3"]),
    st.integers(0, 1000),
    st.integers(0, 3),
)


def _undone(end: Position, plies: int) -> Position:
    return end.undo(min(plies, end.ply))


@given(st.lists(st.tuples(_GAMES, _NAMES, _NAMES, st.sampled_from([1, 0, -1, None])), max_size=4))
def test_written_games_are_read_again(games):
    recorded = [
        RecordedGame(
            position, first, second,
            result if position.outcome is None else position.first_player_outcome,
            f"{first} event", min(2, position.ply),
        )
        for position, first, second, result in games
    ]  # fmt: skip
    text = zerolab.format_pgn(recorded)
    assert all(len(line) < 80 for line in text.splitlines() if not line.startswith("["))
    again = zerolab.parse_pgn(text)
    assert [each.last_position.history for each in again] == [
        each.last_position.history for each in recorded
    ]
    assert again == recorded


def test_file_has_results_of_finished_and_unfinished_games(tmp_path):
    end = Position.start("connect_four:4x4:3").random_playout(seed=2)
    zerolab.write_pgn(tmp_path / "games.pgn", [end, end.undo()])
    finished, unfinished = zerolab.read_pgn(tmp_path / "games.pgn")
    assert (finished.last_position, finished.result) == (end, end.first_player_outcome)
    assert (unfinished.last_position, unfinished.result) == (end.undo(), None)
    assert repr(finished) == f"<RecordedGame ? against ?, {end.ply} plies>"


def test_comments_and_annotations_are_skipped():
    text = """[White "A"]\n[Black "B"]\n[Result "1-0"]\n
    1.a1 {a corner} b1 $1 2. a2 ; the rest of the line\n b2 $14 3... a3 1-0\n"""
    (game,) = zerolab.parse_pgn(text, game="gobang:3x3:3")
    assert [game.last_position.action_name(action) for action in game.last_position.history] == [
        "a1", "b1", "a2", "b2", "a3",
    ]  # fmt: skip
    assert (game.first, game.second, game.result) == ("A", "B", 1)


def _record(number, first, moves, result):
    actions = tuple(START.parse_action(move) for move in moves.split())
    is_resigned = len(actions) < 5
    players = ("A", "B") if first == "A" else ("B", "A")
    return GameRecord(number, *players, (*actions, -1) if is_resigned else actions, result)


def _recorded(record):
    position = START
    for action in record.actions[: record.ply_count]:
        position = position.play(str(action))
    return RecordedGame(position, record.first, record.second, record.result)


def test_ratings_of_written_games_are_those_of_the_played_games():
    """Repeated games widen the interval, whether they were finished or resigned."""
    win, quick_win = "a1 b1 a2 b2 a3", "c1 b1 c2 b2 c3"
    once = [
        _record(0, "A", win, 1), _record(1, "B", win, 1), _record(2, "A", quick_win, 1),
        _record(3, "B", "a1 b1", 1), _record(4, "A", "a1 b1", -1), _record(5, "B", "a1 b1", -1),
    ]  # fmt: skip
    played = [*once, *once[:1] * 4, *once[3:4] * 6]
    written = zerolab.parse_pgn(zerolab.format_pgn(map(_recorded, played)))
    expected, rated = zerolab.rate(played), zerolab.rate(written)
    assert rated.player_ratings == expected.player_ratings
    assert rated.player_ratings[0].effective_games < len(played)
    assert zerolab.rate([*once, *map(_recorded, once)]).elo_difference("A", "B") == zerolab.rate(
        once
    ).elo_difference("A", "B")


def test_games_from_positions_set_up_differ():
    boards = [np.array([[1, -1, 0], [0] * 3, [0] * 3]), np.array([[0] * 3, [1, -1, 0], [0] * 3])]
    positions = [Position.set_up("gobang:3x3:3", board, first_to_move=True) for board in boards]
    games = [RecordedGame(each.play("c3"), "A", "B", 1) for each in positions]
    assert zerolab.rate(games).player_ratings[0].effective_games == 2
    with pytest.raises(zerolab.UserError, match="last_position = 3: expected"):
        zerolab.rate([RecordedGame(3, "A", "B", 1)])


def test_objects_without_moves_are_rated():
    games = [SimpleNamespace(first="A", second="B", result=result) for result in (1, 1, -1)]
    tuples = [("A", "B", game.result) for game in games]
    assert zerolab.rate(games).player_ratings == zerolab.rate(tuples).player_ratings


TAGS = '[White "A"]\n[Black "B"]\n[Result "*"]\n[Variant "gobang:3x3:3"]\n\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TAGS + "1. a1 *\n" + TAGS + "1. a1 a1 *", 'the text, game 2, move 2: "a1" is not a legal'),
        (TAGS + "1. a1 (1. b1) *", r'game 1: "\(1." belongs to a variation'),
        (TAGS.replace("gobang", "gobnag") + "*", "game 1: Variant: .*gobang"),
        (TAGS.replace("Variant", "Other") + "*", "game 1: no Variant tag: expected game="),
        (TAGS.replace("*", "2-0"), 'Result "2-0": expected 1-0'),
        (TAGS + "1. a1 {", "unclosed comment"),
        ("no games", "the text has no games"),
        ('[FEN "x"]\n' + TAGS + "*", "game 1: the FEN tag"),
        ('[GivenPlies "3"]\n' + TAGS + "1. a1 *", 'GivenPlies "3": expected a number from 0 to 1'),
        (
            TAGS.replace("*", "0-1") + "1. a1 b1 2. a2! b2?! 3. a3 0-1",
            "game 1: Result contradicts the position",
        ),
    ],
)
def test_mistakes_name_the_game(text, message):
    with pytest.raises(zerolab.UserError, match=message) as error:
        zerolab.parse_pgn(text)
    assert "\n" not in str(error.value)


def test_positions_that_were_set_up_cannot_be_written():
    start = Position.start("gobang:3x3:3")
    position = Position.set_up("gobang:3x3:3", start.board(), first_to_move=True)
    with pytest.raises(zerolab.UserError, match="game 2 began from a custom position"):
        zerolab.format_pgn([start, position])
    with pytest.raises(zerolab.UserError, match="game 1 = 3: expected a RecordedGame or Position"):
        zerolab.format_pgn([3])
    with pytest.raises(zerolab.UserError, match="games = "):
        zerolab.format_pgn(start)
    with pytest.raises(zerolab.UserError, match="result of game 1 = 5"):
        zerolab.format_pgn([RecordedGame(start, result=5)])
    with pytest.raises(zerolab.UserError, match="given_plies of game 1 = 1: expected at"):
        zerolab.format_pgn([RecordedGame(start, given_plies=1)])
    won = start.play("a1").play("a2").play("b1").play("b2").play("c1")
    with pytest.raises(zerolab.UserError, match="result of game 1 = 0: expected 1"):
        zerolab.format_pgn([RecordedGame(won, result=0)])
    with pytest.raises(zerolab.UserError, match="Variant gobang:3x3:3: expected othello:4x4"):
        zerolab.parse_pgn(TAGS + "*", "othello:4x4")
