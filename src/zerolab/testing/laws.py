"""Checks of rules, encodings, notations and solver hints in sample positions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from zerolab.core.errors import UserError
from zerolab.rules import encoding, python, rules
from zerolab.rules.catalogue import PLAIN, game_name, notation_of, parse_game, registered_games
from zerolab.rules.rules import DRAW, LOSS, ONGOING, WIN, Game, State
from zerolab.testing.samples import (
    ongoing_positions,
    positions,
    random_games,
    require,
    unwritten_state,
)


def check_registration(game: Game) -> None:
    """Check that the name of the game can be parsed and that its fields have bounds."""
    name = game_name(game)
    parsed = parse_game(name)
    require(parsed == game, game, f'its name is "{name}", which is parsed as {parsed}')
    try:
        registered_games()[name.partition(":")[0]].sizes()
    except KeyError as error:
        require(False, game, f"every field needs Field(ge=..., le=...), but {error} is missing")
    for count_of in (rules.words, rules.actions, encoding.planes, encoding.symmetries):
        count = count_of(game)
        require(count >= 1, game, f"{count_of.__name__} returns {count}; expected at least 1")


def check_start(game: Game) -> None:
    """Check that the initial position is fully written, is ongoing, and has several actions."""
    state, expected = unwritten_state(game), python.start(game)
    python.write_start(game, state)
    require(np.array_equal(state, expected), game, "start does not write every word of `out`")
    outcome = python.outcome(game, state)
    is_ongoing = outcome == ONGOING
    require(is_ongoing, game, f"the initial position has the outcome {outcome}, not ONGOING (2)")
    count = int(python.legal(game, state).sum())
    require(count > 1, game, f"the initial position has {count} legal actions; expected several")


def check_legal(game: Game) -> None:
    """Check that every ongoing position has a legal action, and that `mask` is fully written."""
    for sample in ongoing_positions(game):
        before = sample.state.copy()
        mask, other_mask = np.ones(rules.actions(game), bool), np.zeros(rules.actions(game), bool)
        python.write_legal(game, sample.state, mask)
        python.write_legal(game, sample.state, other_mask)
        is_complete = np.array_equal(mask, other_mask)
        require(is_complete, sample, "legal does not write every entry of `mask`")
        require(mask.any(), sample, "the game is ongoing, but no action is legal")
        require(np.array_equal(before, sample.state), sample, "legal changes the state")


def check_apply(game: Game) -> None:
    """Check that successors are fully written, even if `out` is the state itself."""
    for sample in ongoing_positions(game):
        for action in np.flatnonzero(python.legal(game, sample.state)).tolist():
            before, out = sample.state.copy(), unwritten_state(game)
            python.write_apply(game, sample.state, action, out)
            is_unchanged = np.array_equal(before, sample.state)
            require(is_unchanged, sample, f"apply({action}) changes its input state")
            is_complete = np.array_equal(out, python.apply(game, sample.state, action))
            require(is_complete, sample, f"apply({action}) does not write every word of `out`")
            python.write_apply(game, before, action, before)
            require(
                np.array_equal(before, out),
                sample,
                f"apply({action}) is wrong if `out` is `state`; read `state` before writing `out`",
            )


def check_outcome(game: Game) -> None:
    """Check that outcomes are ONGOING, WIN, DRAW or LOSS, and that `outcome` changes no state."""
    for sample in positions(game):
        before = sample.state.copy()
        outcome = python.outcome(game, sample.state)
        is_valid = outcome in (ONGOING, WIN, DRAW, LOSS)
        require(is_valid, sample, f"the outcome is {outcome}; expected 2, 1, 0 or -1")
        require(outcome == sample.outcome, sample, "two calls return different outcomes")
        require(np.array_equal(before, sample.state), sample, "outcome changes the state")


def check_end(game: Game) -> None:
    """Check that random games end, which `random_games` asserts."""
    random_games(game)


def check_planes(game: Game) -> None:
    """Check that planes are complete and finite, start with the pieces, and reflect each move."""
    for samples in random_games(game):
        previous = b""
        for sample in samples:
            planes = np.full((1, encoding.planes(game), game[0] * game[1]), np.nan, np.float32)
            python.write_encode_batch(game, sample.state[None], planes)
            is_finite = np.isfinite(planes).all()
            require(is_finite, sample, "encode leaves entries unwritten or not finite")
            overwritten = np.ones_like(planes)
            python.write_encode_batch(game, sample.state[None], overwritten)
            is_set = np.array_equal(planes, overwritten)
            require(is_set, sample, "encode adds to `out` instead of overwriting it")
            require(
                np.isin(planes[0, 0], (-1, 0, 1)).all(),
                sample,
                "plane 0 must be 1 for the mover's pieces, -1 for the opponent's, 0 elsewhere",
            )
            require(planes.tobytes() != previous, sample, "the last action did not change a plane")
            previous = planes.tobytes()


def check_names(game: Game) -> None:
    """Check that all actions have different names, and that names and numbers can be parsed."""
    notation = notation_of(game)
    names = [notation.action_name(game, action) for action in range(rules.actions(game))]
    for action, name in enumerate(names):
        require(names.count(name) == 1, game, f'several actions have the name "{name}"')
        for text in (name, str(action)):
            parsed = notation.parse_action(game, text)
            is_equal = parsed == action
            require(is_equal, game, f'"{text}" is action {action}, but is parsed as {parsed}')
    for text in ("", "?", "-1", str(rules.actions(game))):
        parsed = notation.parse_action(game, text)
        require(parsed is None, game, f'"{text}" is not an action, but is parsed as {parsed}')


def check_drawing(game: Game) -> None:
    """Check that boards and their drawings show the pieces of plane 0."""
    notation = notation_of(game)
    for sample in positions(game):
        board = notation.board(game, sample.state)
        is_equal = np.array_equal(board, python.encode(game, sample.state)[0])
        require(is_equal, sample, "board does not show the pieces of plane 0")
        lines = notation.draw(game, board, PLAIN)
        require(len(lines) > game[0], sample, f"{len(lines)} lines for {game[0]} rows and labels")
        drawing = "".join(lines)
        is_complete = all(
            drawing.count(PLAIN[side]) >= (board == side).sum() for side in (1, -1, 0)
        )
        require(is_complete, sample, "the drawing does not show every cell")


def check_set_up(game: Game) -> None:
    """Check that setting up a board returns a state with that board.

    Games that raise UserError because they do not support it are not checked.
    """
    notation = notation_of(game)
    for sample in positions(game):
        if python.outcome(game, sample.state) != ONGOING:
            continue
        board = notation.board(game, sample.state)
        for first_to_move in (True, False):
            try:
                state = notation.set_up(game, board, first_to_move)
            except UserError:
                continue
            is_equal = np.array_equal(notation.board(game, state), board)
            require(is_equal, sample, "set_up returns a state with different pieces")
            require(state.shape == sample.state.shape, sample, "set_up does not return a state")


def check_empties(game: Game) -> None:
    """Check that `empties` never increases and is not negative."""
    for samples in random_games(game):
        previous = python.empties(game, samples[0].state)
        for sample in samples:
            empties = python.empties(game, sample.state)
            is_valid = 0 <= empties <= previous
            require(is_valid, sample, f"empties is {empties} after it was {previous}")
            previous = empties


def check_max_plies(game: Game) -> None:
    """Check that no game has more plies than `max_plies`."""
    limit = python.max_plies(game)
    for samples in random_games(game):
        end = samples[-1]
        plies = len(end.history)
        require(plies <= limit, end, f"the game has {plies} plies, but max_plies is {limit}")


def check_scores(game: Game) -> None:
    """Check that scores have the sign of the outcome and are within all earlier bounds."""
    for samples in random_games(game):
        end = samples[-1]
        score = python.score(game, end.state)
        has_sign = np.sign(score) == end.outcome
        require(has_sign, end, f"the score is {score}, but the outcome is {end.outcome}")
        for sample in samples[:-1]:
            is_same_mover = (len(end.history) - len(sample.history)) % 2 == 0
            final = score if is_same_mover else -score
            low, high = python.score_bounds(game, sample.state)
            is_within = low <= final <= high
            require(
                is_within,
                sample,
                f"score_bounds are {low} and {high}, but the final score is {final}",
            )


_MAX_LINES = 150
"""Number of continuations above which a position is not searched to the end."""


def check_solver_moves(game: Game) -> None:
    """Check that solver moves are legal and, near the end of games, include a best move."""
    for sample in ongoing_positions(game):
        moves = python.solver_moves(game, sample.state)
        legal = np.flatnonzero(python.legal(game, sample.state)).tolist()
        require(moves, sample, "there is no solver move")
        are_distinct = len(set(moves)) == len(moves)
        require(
            are_distinct and set(moves) <= set(legal),
            sample,
            f"solver_moves returns {moves}; expected distinct moves out of {legal}",
        )
        try:
            expected = _value(game, sample.state, _legal_actions, [0])
        except _TooManyLinesError:
            continue
        value = _value(game, sample.state, python.solver_moves, [0])
        require(
            value == expected,
            sample,
            f"the best solver move has the value {value}, but the best legal move {expected}",
        )


class _TooManyLinesError(Exception):
    pass


def _legal_actions(game: Game, state: State) -> list[int]:
    return [int(action) for action in np.flatnonzero(python.legal(game, state))]


def _value(
    game: Game, state: State, moves: Callable[[Game, State], list[int]], lines: list[int]
) -> int:
    """Return the value of a state, searching `moves` to the end; lines[0] counts positions."""
    if python.outcome(game, state) != ONGOING:
        return python.score(game, state)
    lines[0] += 1
    if lines[0] > _MAX_LINES:
        raise _TooManyLinesError
    children = (python.apply(game, state, action) for action in moves(game, state))
    return max(-_value(game, child, moves, lines) for child in children)
