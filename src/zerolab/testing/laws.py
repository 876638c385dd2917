"""Checks of rules, encodings, notations and solver rules in sample positions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from zerolab.core.errors import UserError
from zerolab.rules import compiled_rules, encoding, rules
from zerolab.rules.catalogue import (
    PLAIN_SYMBOLS,
    game_name,
    notation_of,
    parse_game,
    registered_games,
)
from zerolab.rules.rules import DRAW, LOSS, ONGOING, WIN, Game, State
from zerolab.testing.random_games import (
    expect,
    garbage_state,
    ongoing_sample_positions,
    random_games,
    sample_positions,
)


def check_registration(game: Game) -> None:
    """Check that the name of the game can be parsed and that its fields have bounds."""
    name = game_name(game)
    parsed = parse_game(name)
    expect(parsed == game, game, f'its name is "{name}", which is parsed as {parsed}')
    try:
        registered_games()[name.partition(":")[0]].field_bounds()
    except KeyError as error:
        expect(False, game, f"every field needs Field(ge=..., le=...), but {error} is missing")
    counts = rules.word_count, rules.action_count, encoding.plane_count, encoding.symmetry_count
    for count_of in counts:
        count = count_of(game)
        expect(count >= 1, game, f"{count_of.__name__} returns {count}; expected at least 1")


def check_start(game: Game) -> None:
    """Check that the initial position is fully written, is ongoing, and has at least 2 actions."""
    state, expected = garbage_state(game), compiled_rules.start(game)
    compiled_rules.write_start(game, state)
    expect(np.array_equal(state, expected), game, "start does not write every word of `out`")
    outcome = compiled_rules.outcome(game, state)
    is_ongoing = outcome == ONGOING
    expect(is_ongoing, game, f"the initial position has the outcome {outcome}, not ONGOING (2)")
    count = int(compiled_rules.legal(game, state).sum())
    expect(count > 1, game, f"the initial position has {count} legal actions; expected at least 2")


def check_legal(game: Game) -> None:
    """Check that every ongoing position has a legal action, and that `mask` is fully written."""
    for sample in ongoing_sample_positions(game):
        before = sample.state.copy()
        mask, other_mask = (
            np.ones(rules.action_count(game), bool),
            np.zeros(rules.action_count(game), bool),
        )
        compiled_rules.write_legal(game, sample.state, mask)
        compiled_rules.write_legal(game, sample.state, other_mask)
        is_complete = np.array_equal(mask, other_mask)
        expect(is_complete, sample, "legal does not write every entry of `mask`")
        expect(mask.any(), sample, "the game is ongoing, but no action is legal")
        expect(np.array_equal(before, sample.state), sample, "legal changes the state")


def check_apply(game: Game) -> None:
    """Check that successors are fully written, even if `out` is the state itself."""
    for sample in ongoing_sample_positions(game):
        for action in np.flatnonzero(compiled_rules.legal(game, sample.state)).tolist():
            before, out = sample.state.copy(), garbage_state(game)
            compiled_rules.write_apply(game, sample.state, action, out)
            is_unchanged = np.array_equal(before, sample.state)
            expect(is_unchanged, sample, f"apply({action}) changes its input state")
            is_complete = np.array_equal(out, compiled_rules.apply(game, sample.state, action))
            expect(is_complete, sample, f"apply({action}) does not write every word of `out`")
            compiled_rules.write_apply(game, before, action, before)
            expect(
                np.array_equal(before, out),
                sample,
                f"apply({action}) is wrong if `out` is `state`; read `state` before writing `out`",
            )


def check_outcome(game: Game) -> None:
    """Check that outcomes are ONGOING, WIN, DRAW or LOSS, and that `outcome` changes no state."""
    for sample in sample_positions(game):
        before = sample.state.copy()
        outcome = compiled_rules.outcome(game, sample.state)
        is_valid = outcome in (ONGOING, WIN, DRAW, LOSS)
        expect(is_valid, sample, f"the outcome is {outcome}; expected 2, 1, 0 or -1")
        expect(outcome == sample.outcome, sample, "two calls return different outcomes")
        expect(np.array_equal(before, sample.state), sample, "outcome changes the state")


def check_games_end(game: Game) -> None:
    """Check that random games end, by playing them with `random_games`."""
    random_games(game)


def check_planes(game: Game) -> None:
    """Check that planes are complete and finite, start with the pieces, and reflect each move."""
    for samples in random_games(game):
        previous = b""
        for sample in samples:
            planes = np.full((1, encoding.plane_count(game), game[0] * game[1]), np.nan, np.float32)
            compiled_rules.write_planes_batch(game, sample.state[None], planes)
            is_finite = np.isfinite(planes).all()
            expect(is_finite, sample, "encode leaves entries unwritten or not finite")
            overwritten = np.ones_like(planes)
            compiled_rules.write_planes_batch(game, sample.state[None], overwritten)
            is_set = np.array_equal(planes, overwritten)
            expect(is_set, sample, "encode adds to `out` instead of overwriting it")
            expect(
                np.isin(planes[0, 0], (-1, 0, 1)).all(),
                sample,
                "plane 0 must be 1 for the mover's pieces, -1 for the opponent's, 0 elsewhere",
            )
            expect(planes.tobytes() != previous, sample, "the last action changed no plane")
            previous = planes.tobytes()


def check_plane_names(game: Game) -> None:
    """Check that plane names are distinct, at most one per plane, and begin with "pieces"."""
    names = encoding.plane_names(game)
    expect(len(set(names)) == len(names), game, f"two planes have the same name: {names}")
    count = encoding.plane_count(game)
    expect(len(names) <= count, game, f"{len(names)} names for {count} planes: {names}")
    expect(names[:1] == ("pieces",), game, f'plane 0 must have the name "pieces": {names}')


def check_action_names(game: Game) -> None:
    """Check that all actions have different names, and that names and numbers can be parsed."""
    notation = notation_of(game)
    names = [notation.action_name(game, action) for action in range(rules.action_count(game))]
    for action, name in enumerate(names):
        expect(names.count(name) == 1, game, f'several actions have the name "{name}"')
        for text in (name, str(action)):
            parsed = notation.parse_action(game, text)
            is_equal = parsed == action
            expect(is_equal, game, f'"{text}" is action {action}, but is parsed as {parsed}')
    for text in ("", "?", "-1", str(rules.action_count(game))):
        parsed = notation.parse_action(game, text)
        expect(parsed is None, game, f'"{text}" is not an action, but is parsed as {parsed}')


def check_drawing(game: Game) -> None:
    """Check that boards and their drawings show the pieces of plane 0."""
    notation = notation_of(game)
    for sample in sample_positions(game):
        board = notation.mover_board(game, sample.state)
        is_equal = np.array_equal(board, compiled_rules.encode(game, sample.state)[0])
        expect(is_equal, sample, "mover_board does not return the pieces of plane 0")
        lines = notation.draw_board(game, board, PLAIN_SYMBOLS)
        expect(len(lines) > game[0], sample, f"{len(lines)} lines for {game[0]} rows and labels")
        drawing = "".join(lines)
        is_complete = all(
            drawing.count(PLAIN_SYMBOLS[side]) >= (board == side).sum() for side in (1, -1, 0)
        )
        expect(is_complete, sample, "the drawing does not show every cell")


def check_state_of_board(game: Game) -> None:
    """Check that the state set up from a board has the pieces of that board.

    Boards for which `state_of_mover_board` raises UserError are not checked.
    """
    notation = notation_of(game)
    for sample in sample_positions(game):
        if compiled_rules.outcome(game, sample.state) != ONGOING:
            continue
        board = notation.mover_board(game, sample.state)
        for first_to_move in (True, False):
            try:
                state = notation.state_of_mover_board(game, board, first_to_move)
            except UserError:
                continue
            is_equal = np.array_equal(notation.mover_board(game, state), board)
            expect(is_equal, sample, "state_of_mover_board returns a state with different pieces")
            has_shape = state.shape == sample.state.shape
            expect(
                has_shape,
                sample,
                f"state_of_mover_board returns an array of shape {state.shape}, not a state",
            )


def check_empty_count(game: Game) -> None:
    """Check that `empty_count` never increases and is not negative."""
    for samples in random_games(game):
        previous = compiled_rules.empty_count(game, samples[0].state)
        for sample in samples:
            empties = compiled_rules.empty_count(game, sample.state)
            is_valid = 0 <= empties <= previous
            expect(is_valid, sample, f"empty_count is {empties}; expected 0 to {previous}")
            previous = empties


def check_max_plies(game: Game) -> None:
    """Check that no random game has more plies than `max_plies`."""
    limit = compiled_rules.max_plies(game)
    for samples in random_games(game):
        end = samples[-1]
        plies = len(end.history)
        expect(plies <= limit, end, f"the game has {plies} plies, but max_plies is {limit}")


def check_scores(game: Game) -> None:
    """Check that scores have the sign of the outcome and are within all earlier bounds."""
    for samples in random_games(game):
        end = samples[-1]
        score = compiled_rules.final_score(game, end.state)
        has_sign = np.sign(score) == end.outcome
        expect(has_sign, end, f"the score is {score}, but the outcome is {end.outcome}")
        for sample in samples[:-1]:
            is_same_mover = (len(end.history) - len(sample.history)) % 2 == 0
            final = score if is_same_mover else -score
            low, high = compiled_rules.score_bounds(game, sample.state)
            is_within = low <= final <= high
            expect(
                is_within,
                sample,
                f"score_bounds are {low} and {high}, but the final score is {final}",
            )


_MAX_POSITIONS = 150
"""Maximum number of positions searched from a sample position; larger searches are skipped."""


def check_solver_moves(game: Game) -> None:
    """Check that solver moves are legal and, near the end of games, include a best move."""
    for sample in ongoing_sample_positions(game):
        moves = compiled_rules.solver_moves(game, sample.state)
        legal = np.flatnonzero(compiled_rules.legal(game, sample.state)).tolist()
        expect(moves, sample, "there is no solver move")
        are_distinct = len(set(moves)) == len(moves)
        expect(
            are_distinct and set(moves) <= set(legal),
            sample,
            f"solver_moves returns {moves}; expected distinct moves out of {legal}",
        )
    for samples in random_games(game):
        for sample in reversed(samples[:-1]):
            try:
                expected = _value(game, sample.state, _legal_actions, [0])
            except _TooManyPositionsError:
                break  # searches from earlier positions are even larger
            value = _value(game, sample.state, compiled_rules.solver_moves, [0])
            expect(
                value == expected,
                sample,
                f"the best solver move has the value {value}, the best legal move {expected}",
            )


class _TooManyPositionsError(Exception):
    pass


def _legal_actions(game: Game, state: State) -> list[int]:
    return [int(action) for action in np.flatnonzero(compiled_rules.legal(game, state))]


def _value(
    game: Game, state: State, moves: Callable[[Game, State], list[int]], searched: list[int]
) -> int:
    """Return the value of a state, searching `moves` to the end; count positions in searched[0]."""
    if compiled_rules.outcome(game, state) != ONGOING:
        return compiled_rules.final_score(game, state)
    searched[0] += 1
    if searched[0] > _MAX_POSITIONS:
        raise _TooManyPositionsError
    children = (compiled_rules.apply(game, state, action) for action in moves(game, state))
    return max(-_value(game, child, moves, searched) for child in children)
