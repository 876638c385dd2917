"""Laws of single positions and of solver hints."""

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
    """Check that users find the game by its name, and that its fields have bounds."""
    name = game_name(game)
    again = parse_game(name)
    require(again == game, game, f'its name is "{name}", which is read as {again}')
    try:
        registered_games()[name.partition(":")[0]].sizes()
    except KeyError as missing:
        require(False, game, f"every field needs Field(ge=..., le=...), but {missing} is missing")
    for count_of in (rules.words, rules.actions, encoding.planes, encoding.symmetries):
        count = count_of(game)
        require(count >= 1, game, f"{count_of.__name__} returns {count}; expected at least 1")


def check_start(game: Game) -> None:
    """Check that the first position is written completely, is ongoing, and offers a choice."""
    written, expected = unwritten_state(game), python.start(game)
    python.write_start(game, written)
    require(np.array_equal(written, expected), game, "start does not write every word of `out`")
    outcome = python.outcome(game, written)
    require(outcome == ONGOING, game, f"the first position has outcome {outcome}, not ONGOING (2)")
    choices = int(python.legal(game, written).sum())
    require(choices > 1, game, f"the first position has {choices} legal actions; expected a choice")


def check_legal(game: Game) -> None:
    """Check that every ongoing position has a legal action, and that all of the mask is written."""
    for sample in ongoing_positions(game):
        before = sample.state.copy()
        mask, again = np.ones(rules.actions(game), bool), np.zeros(rules.actions(game), bool)
        python.write_legal(game, sample.state, mask)
        python.write_legal(game, sample.state, again)
        whole = np.array_equal(mask, again)
        require(whole, sample, "legal does not write every entry of `mask`")
        require(mask.any(), sample, "the game is ongoing, but no action is legal")
        require(np.array_equal(before, sample.state), sample, "legal changes the state")


def check_apply(game: Game) -> None:
    """Check that successors are written completely, even if `out` is the state itself."""
    for sample in ongoing_positions(game):
        for action in np.flatnonzero(python.legal(game, sample.state)).tolist():
            before, out = sample.state.copy(), unwritten_state(game)
            python.write_apply(game, sample.state, action, out)
            unchanged = np.array_equal(before, sample.state)
            require(unchanged, sample, f"apply({action}) changes the state it starts from")
            whole = np.array_equal(out, python.apply(game, sample.state, action))
            require(whole, sample, f"apply({action}) does not write every word of `out`")
            python.write_apply(game, before, action, before)
            require(
                np.array_equal(before, out),
                sample,
                f"apply({action}) goes wrong where `out` is `state`: read before you write",
            )


def check_outcome(game: Game) -> None:
    """Check that outcomes are ONGOING, WIN, DRAW or LOSS, and that `outcome` changes no state."""
    for sample in positions(game):
        before = sample.state.copy()
        outcome = python.outcome(game, sample.state)
        known = outcome in (ONGOING, WIN, DRAW, LOSS)
        require(known, sample, f"the outcome {outcome} is none of 2, 1, 0, -1")
        require(outcome == sample.outcome, sample, "asked twice, the outcome differs")
        require(np.array_equal(before, sample.state), sample, "outcome changes the state")


def check_end(game: Game) -> None:
    """Check that random games end; playing one that does not raises AssertionError."""
    random_games(game)


def check_planes(game: Game) -> None:
    """Check that planes are finite and complete, begin with the pieces, and show each move."""
    for played in random_games(game):
        shown = b""
        for sample in played:
            planes = np.full((1, encoding.planes(game), game[0] * game[1]), np.nan, np.float32)
            python.write_encode_batch(game, sample.state[None], planes)
            finite = np.isfinite(planes).all()
            require(finite, sample, "encode leaves entries unwritten, or not finite")
            again = np.ones_like(planes)
            python.write_encode_batch(game, sample.state[None], again)
            require(np.array_equal(planes, again), sample, "encode adds to `out`; it must set it")
            require(
                np.isin(planes[0, 0], (-1, 0, 1)).all(),
                sample,
                "plane 0 must be +1 for the mover's pieces, -1 for the other player's, else 0",
            )
            require(planes.tobytes() != shown, sample, "the last action changed no plane")
            shown = planes.tobytes()


def check_names(game: Game) -> None:
    """Check that actions have different names, and that names and numbers can be parsed."""
    own = notation_of(game)
    names = [own.action_name(game, action) for action in range(rules.actions(game))]
    for action, name in enumerate(names):
        require(names.count(name) == 1, game, f'more than one action is named "{name}"')
        for text in (name, str(action)):
            read = own.parse_action(game, text)
            require(read == action, game, f'"{text}" names action {action}, but is read as {read}')
    for text in ("", "?", "-1", str(rules.actions(game))):
        read = own.parse_action(game, text)
        require(read is None, game, f'"{text}" names no action, but is read as {read}')


def check_drawing(game: Game) -> None:
    """Check that boards and their drawings show the pieces of plane 0."""
    own = notation_of(game)
    for sample in positions(game):
        board = own.board(game, sample.state)
        same = np.array_equal(board, python.encode(game, sample.state)[0])
        require(same, sample, "board does not show the pieces of plane 0")
        lines = own.draw(game, board, PLAIN)
        require(len(lines) > game[0], sample, f"{len(lines)} lines for {game[0]} rows and labels")
        drawn = "".join(lines)
        shown = all(drawn.count(PLAIN[side]) >= (board == side).sum() for side in (1, -1, 0))
        require(shown, sample, "the drawing does not show every cell")


def check_set_up(game: Game) -> None:
    """Check that setting up the pieces of a board gives a state with that board.

    Games whose positions cannot be set up raise UserError, and are not checked.
    """
    own = notation_of(game)
    for sample in positions(game):
        if python.outcome(game, sample.state) != ONGOING:
            continue
        for first_to_move in (True, False):
            try:
                made = own.set_up(game, own.board(game, sample.state), first_to_move)
            except UserError:
                continue
            same = np.array_equal(own.board(game, made), own.board(game, sample.state))
            require(same, sample, "pieces that are set up are not those on the board")
            require(made.shape == sample.state.shape, sample, "set_up does not return a state")


_MOST_LINES = 150
"""Positions with more continuations than this are not searched to the end."""


def check_empties(game: Game) -> None:
    """Check that `empties` never grows and is not negative."""
    for played in random_games(game):
        left = python.empties(game, played[0].state)
        for sample in played:
            now = python.empties(game, sample.state)
            require(0 <= now <= left, sample, f"empties is {now}, and was {left} before")
            left = now


def check_max_plies(game: Game) -> None:
    """Check that no game has more plies than `max_plies`."""
    most = python.max_plies(game)
    for played in random_games(game):
        plies = len(played[-1].history)
        within = plies <= most
        require(within, played[-1], f"the game lasted {plies} plies, but max_plies is {most}")


def check_scores(game: Game) -> None:
    """Check that scores have the sign of the outcome and lie within all bounds on the way."""
    for played in random_games(game):
        end = played[-1]
        score = python.score(game, end.state)
        signs = np.sign(score) == end.outcome
        require(signs, end, f"the score is {score}, but the outcome {end.outcome}")
        for sample in played[:-1]:
            same_mover = (len(end.history) - len(sample.history)) % 2 == 0
            final = score if same_mover else -score
            low, high = python.score_bounds(game, sample.state)
            within = low <= final <= high
            require(
                within, sample, f"score_bounds are {low} and {high}, but the game ended {final}"
            )


def check_solver_moves(game: Game) -> None:
    """Check that solver moves are legal and, near the end of games, include a best one."""
    for sample in ongoing_positions(game):
        moves = python.solver_moves(game, sample.state)
        legal = np.flatnonzero(python.legal(game, sample.state)).tolist()
        require(moves, sample, "there is no solver move")
        once = len(set(moves)) == len(moves)
        require(
            once and set(moves) <= set(legal),
            sample,
            f"solver_moves returns {moves}; expected some of {legal}, each once",
        )
        try:
            best = _value(game, sample.state, _legal, [0])
        except _TooManyLinesError:
            continue
        found = _value(game, sample.state, python.solver_moves, [0])
        require(
            found == best,
            sample,
            f"the best solver move is worth {found}, the best legal move {best}",
        )


class _TooManyLinesError(Exception):
    pass


def _legal(game: Game, state: State) -> list[int]:
    return [int(action) for action in np.flatnonzero(python.legal(game, state))]


def _value(
    game: Game, state: State, moves: Callable[[Game, State], list[int]], lines: list[int]
) -> int:
    """Return the value of a state by searching `moves` to the end; lines[0] counts positions."""
    if python.outcome(game, state) != ONGOING:
        return python.score(game, state)
    lines[0] += 1
    if lines[0] > _MOST_LINES:
        raise _TooManyLinesError
    after = (python.apply(game, state, action) for action in moves(game, state))
    return max(-_value(game, each, moves, lines) for each in after)
