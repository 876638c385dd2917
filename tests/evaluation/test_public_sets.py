"""Public test sets: formats, malformed lines, solving, caching and error rates."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

from evaluation.exhaustive import exhaustive
from zerolab.core.errors import UserError
from zerolab.evaluation import solved_sets
from zerolab.evaluation.accuracy import MoveChoices, accuracy_report
from zerolab.evaluation.positions import read_positions
from zerolab.evaluation.public_sets import is_text_set, read_public_set
from zerolab.evaluation.solved_sets import PUBLISHED_ERRORS, SetAccuracy, error_tables, solve_set
from zerolab.oracles.oracle import ILLEGAL_VALUE
from zerolab.rules.catalogue import parse_game
from zerolab.rules.position import Position

SEVEN = parse_game("connect_four:6x7")
FOUR = parse_game("connect_four:4x4:3")
TIC_TAC_TOE = parse_game("gobang:3x3:3")

# X has three stones in column 1 and wins with the fourth, after which 35 of the 42 cells are empty.
# X has 18 of its 21 stones left, counting the winning one.
WIN = "121212 18"


def written(tmp_path, *lines, end="\n"):
    path = tmp_path / "set"
    path.write_bytes((end.join(lines) + end).encode())
    return path


def kaggle_line(position, score, move_scores):
    """Return a position in Kaggle's format."""
    board = np.where(position.board() < 0, 2, position.board()).ravel().tolist()
    scores = np.asarray(move_scores).tolist()
    return json.dumps({"board": board, "score": score, "move score": scores})


def test_lines_of_columns_are_numbered_from_one(tmp_path):
    public = read_public_set(written(tmp_path, "4455 3", "", " 121212\t18 ", end="\r\n"), SEVEN)
    assert public.scores.tolist() == [3, 18]
    assert public.line_numbers.tolist() == [1, 3]
    for row, moves in enumerate(("3344", "010101")):
        position = Position.start(SEVEN)
        for move in moves:
            position = position.play(move)
        assert (public.states[row] == position.state).all()


def test_digest_ignores_line_ends_but_no_score(tmp_path):
    digests = [
        read_public_set(written(tmp_path, *lines, end=end), SEVEN).digest
        for lines, end in (
            (("4455 3", WIN), "\n"),
            (("4455 3", "", WIN), "\r\n"),
            (("4455 2", WIN), "\n"),
        )
    ]
    assert digests[0] == digests[1] != digests[2]


def test_digests_stay_the_same(tmp_path):
    """Otherwise, the known sets would lose their names, and all would be solved again."""
    public = read_public_set(written(tmp_path, "4455 3", WIN), SEVEN)
    assert public.digest == "e72699c77cdf33d5a8f58090fb96e40e"


def test_cells_are_written_by_name(tmp_path):
    public = read_public_set(written(tmp_path, "b2a1b1 0"), TIC_TAC_TOE)
    assert public.moves.tolist() == [4, 0, 1]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("4455", "1 field: expected the moves and the score"),
        ("4455 3 1", "3 fields: expected the moves and the score"),
        ("4458 3", 'move 4 is "8": expected a column from 1 to 7'),
        ("4x 3", 'move 2 is "x": expected a column from 1 to 7'),
        ("4444444 3", "move 7: column 4 is full"),
        ("12121213 3", "move 8: the game is already over after 7 moves"),
        ("1212121 3", "the game is over after these 7 moves: expected an unfinished game"),
        ("4455 x", 'score "x": expected a whole number'),
        ("4455 1.5", 'score "1.5": expected a whole number'),
        ("4455 99999", "score 99999: expected a whole number from -16384 to 16384"),
    ],
)
def test_mistakes_name_line_and_expectation(line, expected, tmp_path):
    path = written(tmp_path, WIN, "", line)
    with pytest.raises(UserError, match=r"^.*set, line 3: ") as caught:
        read_public_set(path, SEVEN)
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("b2b2 0", 'move 2: "b2" is not legal'),
        ("b2d1 0", 'move 2 is "d1": expected cells such as c2'),
        ("b24 0", 'move 1 is "b24": expected cells'),
        ("5 0", 'move 1 is "5": expected cells'),
        ("b2", 'such as "c3d3c4 1"'),
    ],
)
def test_mistakes_in_names_of_cells(line, expected, tmp_path):
    with pytest.raises(UserError, match="line 1: ") as caught:
        read_public_set(written(tmp_path, line), TIC_TAC_TOE)
    assert expected in str(caught.value)


def test_empty_file_is_refused(tmp_path):
    with pytest.raises(UserError, match="no positions"):
        read_public_set(written(tmp_path, "", " "), SEVEN)


# The example in the description of Kaggle's set [Cnudde2020].
KAGGLE_BOARD = """
.......
..2...2
..2...1
..1...2
1.2...1
1121.12
"""
KAGGLE_SCORES = [-3, -4, -4, -2, -6, -5, -4]


def kaggle_example(**changes):
    cells = [0 if cell == "." else int(cell) for cell in "".join(KAGGLE_BOARD.split())]
    return {"board": cells, "score": -2, "move score": KAGGLE_SCORES, **changes}


def test_boards_of_kaggle_are_built_by_legal_moves(tmp_path):
    for seed in range(4):
        positions = Position.start(SEVEN).random_playout(seed).positions_so_far()[1:-1]
        lines = [kaggle_line(each, 0, np.where(each.legal_mask, 0, -99)) for each in positions]
        public = read_public_set(written(tmp_path, *lines), SEVEN)
        for row, position in enumerate(positions):
            assert (public.states[row] == position.state).all()
            assert public.offsets[row + 1] - public.offsets[row] == position.ply
            assert ((public.move_scores[row] == ILLEGAL_VALUE) == ~position.legal_mask).all()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"board": [0] * 41}, "board: expected a list of 42 cells"),
        ({"board": [3] + [0] * 41}, "board: cell 3: expected 0, 1 or 2"),
        ({"board": [1] + [0] * 41}, "floats"),
        ({"board": [0] * 40 + [2, 2]}, "pieces"),
        ({"board": [0] * 35 + [1, 1, 1, 1, 2, 2, 2]}, "the game is over"),
        ({"score": "x"}, 'score "x": expected a whole number'),
        ({"move score": [0] * 6}, "move score: expected a list of 7 scores"),
        ({"move score": [-99, 0, 0, 0, 0, 0, 0]}, "move score -99: column 1 is open"),
        ({"board": [0] * 40 + [1, 2], "move score": None}, "move score: expected a list"),
    ],
)
def test_mistakes_in_lines_of_kaggle(changes, expected, tmp_path):
    path = written(tmp_path, json.dumps(kaggle_example(**changes)))
    with pytest.raises(UserError, match="line 1: ") as caught:
        read_public_set(path, SEVEN)
    assert expected in str(caught.value)


def test_line_of_kaggle_must_be_an_object_with_all_fields(tmp_path):
    for line, expected in (
        ("{", "is not a JSON object"),
        ('{"board": []}', 'no field "score"'),
        ('{"x": ' + "[" * 100_000, "is not a JSON object"),
    ):
        with pytest.raises(UserError, match=expected):
            read_public_set(written(tmp_path, line), SEVEN)
    with pytest.raises(UserError, match="Connect Four boards in JSON, not moves for gobang"):
        read_public_set(written(tmp_path, "{}"), TIC_TAC_TOE)


def test_board_that_no_moves_reach_is_refused(tmp_path):
    """O's two stones lie below X's, so X cannot have moved first."""
    board = [0] * 28 + [1, 1, 0, 0, 0, 0, 0] + [2, 2, 0, 0, 0, 0, 0]
    with pytest.raises(UserError, match="no sequence of alternating moves"):
        read_public_set(written(tmp_path, json.dumps(kaggle_example(board=board))), SEVEN)


def lines_with_scores(tmp_path, count=40):
    """Return lines of positions of random games on a small board, with scores by negamax."""
    oracle, lines = exhaustive(FOUR), []
    for seed in range(count):
        end = Position.start(FOUR).random_playout(seed)
        position = end.undo(2 + seed % 3)
        moves = "".join(str(action + 1) for action in position.history)
        lines.append(f"{moves} {oracle.values_at(position).max()}")
    return lines


def test_solved_set_has_exact_values_of_all_moves(tmp_path):
    public = read_public_set(written(tmp_path, *lines_with_scores(tmp_path)), FOUR)
    counts = []
    solved = solve_set(public, report=counts.append, make_oracle=exhaustive)
    assert counts == [0, 10, 20, 30, 40]
    assert (solved.action_values == exhaustive(FOUR).action_values(public.states)).all()
    assert (solved.position_values == public.scores).all()


def test_published_scores_agree_with_bitbully(tmp_path):
    """The hand-counted win, and the example of Kaggle's set, which Pons's solver scored."""
    pytest.importorskip("bitbully")
    for line in (WIN, json.dumps(kaggle_example())):
        assert len(solve_set(read_public_set(written(tmp_path, line), SEVEN))) == 1


def test_equal_positions_are_one_game_for_intervals(tmp_path):
    lines = ["123 0", "321 0", "432 0", "124 0"]
    values = exhaustive(FOUR)
    for row, line in enumerate(lines):
        position = Position.start(FOUR)
        for column in line.split()[0]:
            position = position.play(int(column) - 1)
        lines[row] = f"{line.split()[0]} {values.values_at(position).max()}"
    public = read_public_set(written(tmp_path, *lines), FOUR)
    games = solve_set(public, make_oracle=exhaustive).game_numbers
    assert games[0] == games[1] == games[2] != games[3]  # transposed, and mirrored


def test_wrong_score_names_its_line(tmp_path):
    lines = lines_with_scores(tmp_path, 5)
    moves, score = lines[3].split()
    lines[3] = f"{moves} {int(score) + 1}"
    public = read_public_set(written(tmp_path, "", *lines), FOUR)
    expected = rf"line 5: score {int(score) + 1}, but the solver finds {score} \(1 of 5 lines"
    with pytest.raises(UserError, match=expected):
        solve_set(public, make_oracle=exhaustive)


def test_wrong_move_score_names_its_column(tmp_path):
    position = Position.start(FOUR).play("0").play("1").play("1")
    values = exhaustive(FOUR).values_at(position)
    scores = values.tolist()
    worst = int(values.argmin())
    scores[worst] -= 1
    line = kaggle_line(position, int(values.max()), scores)
    public = read_public_set(written(tmp_path, line), FOUR)
    expected = f"move score {scores[worst]} of column {worst + 1}, but the solver finds"
    with pytest.raises(UserError, match=expected):
        solve_set(public, make_oracle=exhaustive)


class _Stopping:
    """Oracle that is interrupted at its third call."""

    def __init__(self, oracle):
        self.oracle, self.calls = oracle, 0

    def action_values(self, states):
        self.calls += 1
        if self.calls == 3:
            raise KeyboardInterrupt
        return self.oracle.action_values(states)


def test_interrupted_solving_continues_from_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(solved_sets, "_SAVE_SECONDS", 0.0)
    public = read_public_set(written(tmp_path, *lines_with_scores(tmp_path)), FOUR)
    folder, stopping = tmp_path / "cache", _Stopping(exhaustive(FOUR))
    monkeypatch.setattr(solved_sets, "unlimited_oracle", lambda *_: stopping)
    with pytest.raises(KeyboardInterrupt):
        solve_set(public, folder=folder)
    (cached,) = folder.iterdir()
    assert len(read_positions(cached)[0]) == 20
    counts = []
    solved = solve_set(public, report=counts.append, folder=folder)
    assert counts == [20, 30, 40]
    assert stopping.calls == 5
    assert (solve_set(public, folder=folder).action_values == solved.action_values).all()
    assert stopping.calls == 5
    cached.write_bytes(b"PAR1 damaged PAR1")
    solve_set(public, folder=folder)
    assert stopping.calls == 9


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
def test_set_is_solved_without_a_writable_cache(tmp_path):
    public = read_public_set(written(tmp_path, *lines_with_scores(tmp_path, 3)), FOUR)
    tmp_path.chmod(0o500)
    assert len(solve_set(public, make_oracle=exhaustive, folder=tmp_path / "cache")) == 3


def test_rates_are_those_of_the_worst_moves(tmp_path):
    public = read_public_set(written(tmp_path, *lines_with_scores(tmp_path, 20)), FOUR)
    solved = solve_set(public, make_oracle=exhaustive)
    worst = np.where(solved.legal, solved.action_values, 1000).argmin(axis=1)
    best = solved.position_values
    values = solved.action_values[np.arange(20), worst]
    report = accuracy_report("search", solved, MoveChoices(worst, None))
    entry = SetAccuracy("set", "Begin-Hard", 20, [report]).as_dict()
    (player,) = entry["players"]
    assert player["weak_errors"]["mean"] == pytest.approx((np.sign(values) != np.sign(best)).mean())
    assert player["strong_errors"]["mean"] == pytest.approx((values != best).mean())
    assert player["regret"]["mean"] == pytest.approx((best - values).mean())
    for rate in (player["weak_errors"], player["strong_errors"]):
        assert 0 <= rate["low"] < rate["mean"] < rate["high"] <= 1
    assert entry["published_weak_errors"] == {"AlphaZeroJl": 0.07, "AlphaGPU": 0.07}


def test_tables_have_a_row_per_set_and_published_rates_beside_searches(tmp_path):
    public = read_public_set(written(tmp_path, *lines_with_scores(tmp_path, 20)), FOUR)
    solved = solve_set(public, make_oracle=exhaustive)
    choices = MoveChoices(solved.action_values.argmax(axis=1), None)
    reports = [accuracy_report(name, solved, choices) for name in ("network", "search")]
    results = [
        SetAccuracy("set", name, 20, reports) for name in ("Begin-Hard", "Begin-Easy", "set")
    ]
    alone, searched = error_tables(results, 600)
    assert [row[0] for row in searched.rows] == ["Begin-Hard", "Begin-Easy", "set"]
    assert [row[2].value for row in searched.rows] == [0.0] * 3
    assert searched.title == "search, 600 simulations per move"
    assert [row[5:] for row in searched.rows] == [[0.07, 0.07], [0.0, None], [None, None]]
    assert len(alone.column_titles) == len(searched.column_titles) - len(PUBLISHED_ERRORS)


def test_other_files_are_no_public_sets(tmp_path):
    parquet = tmp_path / "positions"
    parquet.write_bytes(b"PAR1....PAR1")
    assert not is_text_set(parquet)
    assert not is_text_set(tmp_path / "missing")
    assert is_text_set(written(tmp_path, WIN))
