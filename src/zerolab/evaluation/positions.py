"""Solved positions and their Parquet files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from operator import index
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zerolab.core.compiled import kernel
from zerolab.core.errors import UserError, quoted
from zerolab.oracles.oracle import ILLEGAL_VALUE, NotSolvedError, Oracle
from zerolab.rules import compiled_rules, rules
from zerolab.rules.catalogue import game_name, parse_game
from zerolab.rules.rules import ONGOING, Game, action_count
from zerolab.store.checks import (
    damaged_file_error,
    hex_digest,
    user_errors_on_read,
)
from zerolab.store.parquet import read_table, write_table

_ALL_LEGAL_LINES = -1


def replay_move_sequences(
    game: Game, moves: NDArray[np.int16], offsets: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.bool_], int | None]:
    """Play the moves of n positions from the start of the game.

    The moves to position i are ``moves[offsets[i]:offsets[i + 1]]``. Returns the states, as
    uint64[n, words], and the legal actions, as bool[n, actions]. Also returns the index of the
    first position whose moves are not all legal or in which the game is over; None if there is no
    such position.
    """
    count = len(offsets) - 1
    states = np.empty((count, rules.word_count(game)), np.uint64)
    masks = np.empty((count, rules.action_count(game)), np.bool_)
    invalid = int(_play_lines(game, moves, offsets, states, masks))
    return states, masks, None if invalid == _ALL_LEGAL_LINES else invalid


def check_recorded_games(path: Path, game: Game, games: Iterable[Sequence[int]]) -> None:
    """Raise UserError if games from the file `path`, given by their actions, have illegal moves."""
    played = [actions for actions in games if actions]
    count = rules.action_count(game)
    with suppress(OverflowError):  # for numbers of more than 64 bits
        moves = np.fromiter(chain.from_iterable(played), np.int64)
        if ((moves >= 0) & (moves < count)).all():
            ends = np.cumsum([len(actions) for actions in played], dtype=np.int64)
            offsets = np.append(0, ends - np.arange(1, len(ends) + 1))
            before_last = np.delete(moves, ends - 1).astype(np.int16)
            _, masks, invalid = replay_move_sequences(game, before_last, offsets)
            if invalid is None and masks[np.arange(len(ends)), moves[ends - 1]].all():
                return
            raise damaged_file_error(path, "its games contain illegal moves")
    raise damaged_file_error(path, f"its actions are not all from 0 to {count - 1}")


def legal_masks(game: Game, states: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Return the legal actions, bool[n, actions], in ongoing states uint64[n, words]."""
    masks = np.empty((len(states), rules.action_count(game)), np.bool_)
    _write_legal(game, states, masks)
    return masks


@kernel
def _play_lines(game: Any, moves: Any, offsets: Any, states: Any, masks: Any) -> Any:
    for i in range(states.shape[0]):
        state = states[i]
        rules.start(game, state)
        for at in range(offsets[i], offsets[i + 1]):
            move: Any = np.int64(moves[at])
            if rules.outcome(game, state) != ONGOING or not 0 <= move < masks.shape[1]:
                return i
            rules.legal(game, state, masks[i])
            if not masks[i, move]:
                return i
            rules.apply(game, state, move, state)
        if rules.outcome(game, state) != ONGOING:
            return i
        rules.legal(game, state, masks[i])
    return _ALL_LEGAL_LINES


@kernel
def _write_legal(game: Any, states: Any, masks: Any) -> None:
    for i in range(states.shape[0]):
        rules.legal(game, states[i], masks[i])


UNKNOWN_BEST_ACTION = -1
"""Placeholder for an unknown best action."""


def solve_states(
    game: Game,
    oracle: Oracle,
    states: NDArray[np.uint64],
    report: Callable[[int], None] = lambda _: None,
) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Solve ongoing states, uint64[n, words], each distinct state only once.

    Returns the action values, int32[n, actions], and bool[n], True for solved states. The values of
    unsolved states are `ILLEGAL_VALUE`. `report` is called with the number of finished distinct
    states.
    """
    distinct, inverse = np.unique(states, axis=0, return_inverse=True)
    values = np.full((len(distinct), action_count(game)), ILLEGAL_VALUE, np.int32)
    solved = np.ones(len(distinct), np.bool_)
    for row, state in enumerate(distinct):
        try:
            values[row] = oracle.action_values(state[None])[0]
        except NotSolvedError:
            solved[row] = False
        report(row + 1)
    indices = inverse.reshape(-1)
    return values[indices], solved[indices]


def solve_first_best_actions(
    oracle: Oracle, states: NDArray[np.uint64], orders: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return one best action of each ongoing state, int64[n]: the first in the state's order.

    `orders` is int64[n, actions]. The action is UNKNOWN_BEST_ACTION if the oracle's budget is
    exhausted.
    """
    actions = np.full(len(states), UNKNOWN_BEST_ACTION, np.int64)
    for row in range(len(states)):
        with suppress(NotSolvedError):
            actions[row] = oracle.first_best_in_orders(
                states[row : row + 1], orders[row : row + 1]
            )[0]
    return actions


SCHEMA = 1

_KIND = "solved positions"
_NO_MOVE = -1
MAX_BYTES = 1 << 32
"""Limit on the size of a file of positions and on the memory of its columns."""
_FIXED_BYTES = 32
"""Bytes per position in memory without its moves and values, including validity bits."""
_COLUMNS = pa.schema(
    [
        pa.field("game", pa.int64(), nullable=False),
        pa.field("moves", pa.list_(pa.int16()), nullable=False),
        pa.field("ply", pa.int16(), nullable=False),
        pa.field("values", pa.list_(pa.int32()), nullable=False),
        pa.field("value", pa.int32(), nullable=False),
    ]
)


@dataclass(frozen=True)
class SolvedPositions:
    """Set of n solved positions, with the exact value of every move."""

    game: Game
    game_numbers: NDArray[np.int64]
    """[n], number of the game that contains the position."""
    moves: NDArray[np.int16]
    """[m], moves from the start of the game to each position, concatenated."""
    offsets: NDArray[np.int64]
    """[n + 1], start of each position's moves in `moves`, followed by m."""
    states: NDArray[np.uint64]
    """[n, words]"""
    action_values: NDArray[np.int32]
    """[n, actions], exact values for the side to move; `ILLEGAL_VALUE` for illegal actions."""

    def __len__(self) -> int:
        return len(self.states)

    def __repr__(self) -> str:
        return f"<SolvedPositions of {game_name(self.game)}: {len(self)}>"

    @property
    def plies(self) -> NDArray[np.int64]:
        """Number of moves before each position, int64[n]."""
        return np.diff(self.offsets)

    @property
    def legal(self) -> NDArray[np.bool_]:
        """Legal actions, bool[n, actions]."""
        return np.asarray(self.action_values != ILLEGAL_VALUE)

    @property
    def position_values(self) -> NDArray[np.int32]:
        """Exact value of each position for the side to move, int32[n]."""
        return np.asarray(self.action_values.max(axis=1))

    def move_sequence(self, row: int) -> tuple[int, ...]:
        """Return the moves from the start of the game to the position in a row.

        Negative rows count from the end. Raises UserError for a row that does not exist.
        """
        try:
            number = range(len(self))[index(row)]
        except (TypeError, IndexError):
            raise self._row_error("row", row, "a whole number") from None
        return tuple(self.moves[self.offsets[number] : self.offsets[number + 1]].tolist())

    def take(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> SolvedPositions:
        """Return the positions in `rows`, int64[k], in this order, or those in a mask, bool[n].

        Negative rows count from the end. Raises UserError for rows that do not exist.
        """
        numbers = None
        with suppress(TypeError, ValueError, IndexError):
            numbers = np.arange(len(self))[rows]
        if numbers is None or numbers.ndim != 1:
            raise self._row_error("rows", rows, f"a mask of length {len(self)}, or whole numbers")
        parts = [self.moves[self.offsets[row] : self.offsets[row + 1]] for row in numbers]
        return SolvedPositions(
            self.game,
            self.game_numbers[numbers],
            np.concatenate([np.empty(0, np.int16), *parts]),
            np.concatenate([[0], np.cumsum(self.plies[numbers])]),
            self.states[numbers],
            self.action_values[numbers],
        )

    def _row_error(self, name: str, value: object, expected: str) -> UserError:
        count = len(self)
        return UserError(
            f"{name} = {quoted(value)}: expected {expected} of at least {-count} and less than"
            f" {count}"
        )


def join_positions(parts: list[SolvedPositions]) -> SolvedPositions:
    """Return the positions of one or more sets as one set."""
    shifts = np.cumsum([0, *(len(part.moves) for part in parts)])
    starts = [part.offsets[:-1] + shift for part, shift in zip(parts, shifts[:-1], strict=True)]
    return SolvedPositions(
        parts[0].game,
        np.concatenate([part.game_numbers for part in parts]),
        np.concatenate([part.moves for part in parts]),
        np.concatenate([*starts, shifts[-1:]]),
        np.concatenate([part.states for part in parts]),
        np.concatenate([part.action_values for part in parts]),
    )


def write_positions(path: Path, positions: SolvedPositions, metadata: Mapping[str, Any]) -> None:
    """Write a Parquet file of solved positions, with `metadata` as JSON."""
    values = pa.array(positions.action_values.ravel(), mask=~positions.legal.ravel())
    count, actions = positions.action_values.shape
    table = pa.table(
        {
            "game": positions.game_numbers,
            "moves": pa.ListArray.from_arrays(positions.offsets.astype(np.int32), positions.moves),
            "ply": positions.plies.astype(np.int16),
            "values": pa.ListArray.from_arrays(
                np.arange(0, count * actions + 1, actions, dtype=np.int32), values
            ),
            "value": positions.position_values if count else np.empty(0, np.int32),
        },
        schema=_COLUMNS,
    )
    head = {
        "kind": _KIND,
        "schema": SCHEMA,
        "game": game_name(positions.game),
        "digest": content_digest(positions, metadata),
        "about": dict(metadata),
    }
    write_table(path, table, head)


def max_position_count(game: Game) -> int:
    """Return the largest number of positions of a game that a readable file can contain."""
    values, moves = 4 * action_count(game), 2 * compiled_rules.max_plies(game)
    return MAX_BYTES // (_FIXED_BYTES + values + moves)


def content_digest(positions: SolvedPositions, metadata: Mapping[str, Any]) -> str:
    """Return the digest of a file's content, 32 hexadecimal digits."""
    head = json.dumps([game_name(positions.game), dict(metadata)], sort_keys=True)
    arrays = (positions.game_numbers, positions.moves, positions.offsets, positions.action_values)
    return hex_digest(head.encode(), *(array.tobytes() for array in arrays))


def read_positions(path: Path, game: Game | None = None) -> tuple[SolvedPositions, dict[str, Any]]:
    """Return the positions of a file and the metadata passed to `write_positions`.

    The state of every position is computed from its moves, and its values are checked against its
    legal moves. Raises UserError if the file is missing or damaged, has a different kind or
    version, or contains positions of a game other than `game`.
    """
    head, table = read_table(
        path, _COLUMNS, _KIND, SCHEMA, written_by="zerolab dataset", max_bytes=MAX_BYTES
    )
    fields = (("game", str), ("digest", str), ("about", dict))
    if not all(isinstance(head.get(name), kind) for name, kind in fields):
        raise damaged_file_error(path, f"its metadata is not that of {_KIND}")
    file_game = parse_game(head["game"])
    if game is not None and game_name(file_game) != game_name(game):
        raise UserError(
            f"{quoted(path)} has positions for {head['game']}, not for {game_name(game)}"
        )
    with user_errors_on_read(path):
        positions = _restore(path, file_game, table)
    if content_digest(positions, head["about"]) != head["digest"]:
        raise damaged_file_error(path, "its content does not match its digest")
    return positions, head["about"]


def _restore(path: Path, game: Game, table: pa.Table) -> SolvedPositions:
    columns = {name: table[name].combine_chunks() for name in table.column_names}
    lines, listed = columns["moves"], columns["values"]
    # np.array() makes a writable copy.
    moves = np.array(lines.flatten().fill_null(_NO_MOVE), np.int16)
    offsets = lines.offsets.to_numpy().astype(np.int64)
    states, masks, invalid = replay_move_sequences(game, moves, offsets - offsets[0])
    if invalid is not None:
        raise damaged_file_error(
            path, f"the moves of position {invalid} are not legal in {game_name(game)}"
        )
    if (np.diff(listed.offsets.to_numpy()) != masks.shape[1]).any():
        raise damaged_file_error(path, "a position has too few or too many values")
    values = np.array(listed.flatten().fill_null(ILLEGAL_VALUE)).reshape(masks.shape)
    if ((values == ILLEGAL_VALUE) == masks).any():
        raise damaged_file_error(path, "its values do not match the legal moves")
    positions = SolvedPositions(
        game, np.array(columns["game"]), moves, offsets - offsets[0], states, values
    )
    if (columns["ply"].to_numpy() != positions.plies).any():
        raise damaged_file_error(path, "its plies do not match the moves")
    if len(positions) and (columns["value"].to_numpy() != positions.position_values).any():
        raise damaged_file_error(path, "a value is not that of the best move")
    return positions
