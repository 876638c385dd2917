"""Solved positions, in memory and as Parquet."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from zerolab.core.errors import UserError, quoted
from zerolab.core.files import check_path, replacing
from zerolab.evaluation.boards import replay
from zerolab.oracles.interface import ILLEGAL
from zerolab.rules.catalogue import game_name, parse_game
from zerolab.rules.interface import Game
from zerolab.store.checks import check_schema, damaged, digest, read_bytes, reading

SCHEMA = 1

_METADATA = b"zerolab"
_KIND = "solved positions"
_NO_MOVE = -1
_LARGEST = 1 << 30
_FREE_VALUES = 1_000_000
_VALUES_PER_BYTE = 50
"""A file may hold so many, beyond a few: what is always the same takes no room in it, but in memory
it does. Three were seen."""
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
class Positions:
    """n positions with the exact value of every move."""

    game: Game
    games: NDArray[np.int64]
    """[n] the number of the game that each position is from."""
    moves: NDArray[np.int16]
    """[m] the moves of all positions from the start of the game, one after the other."""
    offsets: NDArray[np.int64]
    """[n + 1] where the moves of each position begin, and the end."""
    states: NDArray[np.uint64]
    """[n, words]"""
    values: NDArray[np.int32]
    """[n, actions] as an oracle gives them: for the mover, ILLEGAL where not legal."""

    def __len__(self) -> int:
        return len(self.states)

    @property
    def plies(self) -> NDArray[np.int64]:
        """How many moves led to each position, int64[n]."""
        return np.diff(self.offsets)

    @property
    def legal(self) -> NDArray[np.bool_]:
        """The legal actions, bool[n, actions]."""
        return np.asarray(self.values != ILLEGAL)

    @property
    def best(self) -> NDArray[np.int32]:
        """The value of each position for its mover, int32[n]."""
        return np.asarray(self.values.max(axis=1))

    def line(self, row: int) -> tuple[int, ...]:
        """Return the moves that lead to a position."""
        return tuple(self.moves[self.offsets[row] : self.offsets[row + 1]].tolist())

    def take(self, rows: NDArray[np.int64]) -> Positions:
        """Return some of the positions, in the order of `rows`."""
        parts = [self.moves[self.offsets[row] : self.offsets[row + 1]] for row in rows]
        return Positions(
            self.game,
            self.games[rows],
            np.concatenate([np.empty(0, np.int16), *parts]),
            np.concatenate([[0], np.cumsum(self.plies[rows])]),
            self.states[rows],
            self.values[rows],
        )


def joined(parts: list[Positions]) -> Positions:
    """Return the positions of several sets, at least one, as one set."""
    shifts = np.cumsum([0, *(len(part.moves) for part in parts)])
    starts = [part.offsets[:-1] + shift for part, shift in zip(parts, shifts[:-1], strict=True)]
    return Positions(
        parts[0].game,
        np.concatenate([part.games for part in parts]),
        np.concatenate([part.moves for part in parts]),
        np.concatenate([*starts, shifts[-1:]]),
        np.concatenate([part.states for part in parts]),
        np.concatenate([part.values for part in parts]),
    )


def write_positions(path: Path, positions: Positions, about: Mapping[str, Any]) -> None:
    """Replace a Parquet file of solved positions; `about` is JSON kept in its metadata."""
    values = pa.array(positions.values.ravel(), mask=~positions.legal.ravel())
    count, actions = positions.values.shape
    table = pa.table(
        {
            "game": positions.games,
            "moves": pa.ListArray.from_arrays(positions.offsets.astype(np.int32), positions.moves),
            "ply": positions.plies.astype(np.int16),
            "values": pa.ListArray.from_arrays(
                np.arange(0, count * actions + 1, actions, dtype=np.int32), values
            ),
            "value": positions.best if count else np.empty(0, np.int32),
        },
        schema=_COLUMNS,
    )
    head = {
        "kind": _KIND,
        "schema": SCHEMA,
        "game": game_name(positions.game),
        "digest": content_digest(positions, about),
        "about": dict(about),
    }
    metadata = {_METADATA: json.dumps(head, sort_keys=True).encode()}
    with replacing(path) as temporary:
        pq.write_table(
            table.replace_schema_metadata(metadata),
            temporary,
            compression="zstd",
            write_page_checksum=True,
        )


def content_digest(positions: Positions, about: Mapping[str, Any]) -> str:
    """Return the digest of a file's content, 32 hexadecimal digits."""
    head = json.dumps([game_name(positions.game), dict(about)], sort_keys=True)
    arrays = (positions.games, positions.moves, positions.offsets, positions.values)
    return digest(head.encode(), *(array.tobytes() for array in arrays))


def read_positions(path: Path, game: Game | None = None) -> tuple[Positions, dict[str, Any]]:
    """Return the positions of a file and what its metadata contain about them.

    Every position is replayed from its moves, and its values are compared with the legal moves.
    Raises UserError for a file that is missing, damaged, foreign, newer, or of another game than
    `game`.
    """
    check_path(path)
    if not path.is_file():
        raise UserError(
            f"{quoted(path)} is not a file: expected positions written by zerolab dataset"
        )
    content = pa.py_buffer(read_bytes(path, _LARGEST))
    with reading(path):
        head, table = _read(path, content)
    found = parse_game(head["game"])
    if game is not None and game_name(found) != game_name(game):
        raise UserError(f"{quoted(path)} has positions of {head['game']}, not of {game_name(game)}")
    with reading(path):
        positions = _restore(path, found, table)
    if content_digest(positions, head["about"]) != head["digest"]:
        raise damaged(path, "its content does not fit its digest")
    return positions, head["about"]


def _read(path: Path, content: pa.Buffer) -> tuple[dict[str, Any], pa.Table]:
    """Read a file's head and its columns; nothing else is looked at before the head is known."""
    try:
        with pq.ParquetFile(content, page_checksum_verification=True) as file:
            metadata = file.schema_arrow.metadata or {}
            if _METADATA not in metadata:
                raise UserError(f"{quoted(path)} was not written by zerolab dataset")
            head = json.loads(metadata[_METADATA])
            check_schema(path, head.get("schema"), SCHEMA)
            fields = (("kind", str), ("game", str), ("digest", str), ("about", dict))
            if head["kind"] != _KIND or not all(isinstance(head[k], t) for k, t in fields):
                raise damaged(path, "its metadata are not those of solved positions")
            if not file.schema_arrow.equals(_COLUMNS):
                raise damaged(path, "its columns are not those of solved positions")
            if _values(file.metadata) > _FREE_VALUES + _VALUES_PER_BYTE * content.size:
                raise damaged(path, f"it holds {_values(file.metadata):,} values")
            # Threads that are still reading when another finds damage would abort the process.
            return head, file.read(use_threads=False)
    except (pa.ArrowException, OSError) as error:  # nothing is read from a disk here
        raise damaged(path, error) from error


def _values(metadata: Any) -> int:
    """Return how many values a Parquet file says it has, over all columns."""
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    return sum(each.column(j).num_values for each in groups for j in range(each.num_columns))


def _restore(path: Path, game: Game, table: pa.Table) -> Positions:
    columns = {name: table[name].combine_chunks() for name in table.column_names}
    if any(column.null_count for column in columns.values()):
        raise damaged(path, "a value is missing")
    lines, listed = columns["moves"], columns["values"]
    moves, offsets = _flat(lines.flatten()), lines.offsets.to_numpy().astype(np.int64)
    states, masks, wrong = replay(game, moves, offsets - offsets[0])
    if wrong is not None:
        raise damaged(path, f"the moves of position {wrong} are not legal in {game_name(game)}")
    if (np.diff(listed.offsets.to_numpy()) != masks.shape[1]).any():
        raise damaged(path, "a position has too few or too many values")
    values = np.array(listed.flatten().fill_null(ILLEGAL)).reshape(masks.shape)
    if ((values == ILLEGAL) == masks).any():
        raise damaged(path, "values and legal moves do not fit")
    positions = Positions(
        game, np.array(columns["game"]), moves, offsets - offsets[0], states, values
    )
    if (columns["ply"].to_numpy() != positions.plies).any():
        raise damaged(path, "plies and moves do not fit")
    if len(positions) and (columns["value"].to_numpy() != positions.best).any():
        raise damaged(path, "a value is not that of the best move")
    return positions


def _flat(moves: pa.Array) -> NDArray[np.int16]:
    return np.array(moves.fill_null(_NO_MOVE), np.int16)  # a copy, which can be written
