"""Training examples and unfinished games as npz files.

Examples contain neither targets nor network planes (docs/decisions/0017). The files are npz
archives readable with numpy alone. Deflate at level 1 compresses real examples to 33 to 39 % of
their size. Level 6 would save another tenth, but take two to nine times as long. In runs that learn
to predict the features of another network, the archive also contains these features.

Sizes are checked before decompression, since a file of a few megabytes can expand to gigabytes and
can understate its decompressed size.
"""

from __future__ import annotations

import json
import os
import struct
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from math import prod
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.core.errors import UserError
from zerolab.core.files import atomic_replace
from zerolab.rules import rules
from zerolab.rules.facts import ColumnForm, SearchFacts
from zerolab.rules.rules import Game
from zerolab.store.checks import (
    check_schema_version,
    damaged_file_error,
    require_regular_file,
    user_errors_on_read,
)
from zerolab.store.games import GameRecord, check_value_types

_MAX_DIRECTORY_BYTES = 1 << 16
"""An examples file has a dozen entries; zipfile needs a kilobyte of memory for each."""
_MAX_MEMBER_BYTES = 1 << 25
_FREE_BYTES = 1 << 26
_MAX_EXPANSION = 250
"""Maximum number of decompressed bytes per byte of a file, in addition to `_FREE_BYTES`.

The largest measured ratio is 113, for random games on a 19x19 board; with a search, ratios stay
below 50.
"""
_HEAD_BYTES = 256
_CHUNK_BYTES = 1 << 20

_END = b"PK\5\6"
_END_64 = b"PK\6\7"


class _Column(NamedTuple):
    """Location and type of an array in an archive."""

    member: zipfile.ZipInfo
    offset: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


class NpzArchive:
    """An open npz archive; methods raise UserError like `open_npz_archive`."""

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self._path = path
        self._archive = archive

    def __contains__(self, name: str) -> bool:
        return name in self._archive.namelist()

    def read_member(self, name: str) -> bytes:
        """Return the content of a member of at most 32 MiB, such as a text."""
        member = self._member(name)
        if member.file_size > _MAX_MEMBER_BYTES:
            raise damaged_file_error(self._path, f"{name} is {member.file_size:,} bytes long")
        return bytes(self._content(member))

    def read_columns(self, forms: Mapping[str, tuple[str, int]]) -> dict[str, NDArray[Any]]:
        """Return arrays of equal length with the given dtypes and numbers of axes."""
        columns = {name: self._column(name, *form) for name, form in forms.items()}
        if len({column.shape[0] for column in columns.values()}) != 1:
            raise damaged_file_error(self._path, "its columns do not match each other")
        total = sum(column.member.file_size for column in columns.values())
        limit = _FREE_BYTES + _MAX_EXPANSION * self._path.stat().st_size
        if total > limit:
            raise damaged_file_error(
                self._path, f"it expands to {total:,} bytes, expected at most {limit:,}"
            )
        return {
            name: np.frombuffer(self._content(each.member), each.dtype, offset=each.offset).reshape(
                each.shape
            )
            for name, each in columns.items()
        }

    def _column(self, name: str, dtype: str, axes: int) -> _Column:
        member = self._member(f"{name}.npy")
        with self._archive.open(member) as file:
            head = BytesIO(file.read(_HEAD_BYTES))
        if np.lib.format.read_magic(head) != (1, 0):
            raise ValueError(f"{name} has an unsupported npy version")
        shape, is_fortran, stored = np.lib.format.read_array_header_1_0(head)
        if (stored, len(shape), is_fortran) != (np.dtype(dtype), axes, False) or min(shape) < 0:
            raise ValueError("its columns do not match each other")
        if head.tell() + prod(shape) * stored.itemsize != member.file_size:
            raise ValueError(f"{name} does not have the size stated in its header")
        return _Column(member, head.tell(), stored, shape)

    def _member(self, name: str) -> zipfile.ZipInfo:
        member = self._archive.getinfo(name)
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"{name} has an unsupported compression method")
        return member

    def _content(self, member: zipfile.ZipInfo) -> bytearray:
        """Read a member up to its declared size; zipfile verifies the checksum at the end."""
        content = bytearray(member.file_size)
        view, done = memoryview(content), 0
        with self._archive.open(member) as file:
            while done < len(content):
                chunk = file.read(min(_CHUNK_BYTES, len(content) - done))
                if not chunk:
                    raise ValueError(f"{member.filename} is too short")
                view[done : done + len(chunk)] = chunk
                done += len(chunk)
        return content


@contextmanager
def open_npz_archive(path: Path) -> Iterator[NpzArchive]:
    """Open an npz archive; raise UserError for any error in opening or reading it."""
    require_regular_file(path)
    with user_errors_on_read(path), open(path, "rb") as file:
        length = file.seek(0, os.SEEK_END)
        file.seek(-min(length, 98), os.SEEK_END)
        _check_directory(file.read())
        with zipfile.ZipFile(file) as archive:
            yield NpzArchive(path, archive)


def _check_directory(end: bytes) -> None:
    """Raise ValueError unless the last 98 bytes of an archive describe a small directory."""
    if end[-22:-18] != _END or end[-2:] != b"\0\0":
        raise ValueError("its directory is missing")
    (size,) = struct.unpack_from("<L", end, len(end) - 10)
    if end[-42:-38] == _END_64:  # for files of 4 GiB or more
        (size,) = struct.unpack_from("<Q", end, 40)
    if size > _MAX_DIRECTORY_BYTES:
        raise ValueError(f"its directory is {size:,} bytes long")


SCHEMA = 2
_HEADER = "zerolab.json"
_FEATURES = "features"
_TIMESTAMP = (1980, 1, 1, 0, 0, 0)  # constant, so that equal runs result in identical bytes


@dataclass(frozen=True, eq=False)
class Examples(SearchFacts):
    """Moves of an iteration's games and their search facts, ordered by game and ply."""

    states: Annotated[NDArray[np.uint64], ColumnForm("uint64", "word")]
    """uint64[N, words]: state before the move."""
    outcomes: Annotated[NDArray[np.int8], ColumnForm("int8", "position")]
    """int8[N]: final outcome for the mover."""
    plies_left: Annotated[NDArray[np.int16], ColumnForm("int16", "position")]
    """int16[N]: number of plies until the end of the game, at least 1."""
    games: Annotated[NDArray[np.int32], ColumnForm("int32", "position")]
    """int32[N]: number of the game."""
    plies: Annotated[NDArray[np.int16], ColumnForm("int16", "position")]
    """int16[N]: ply of the move, counted from 0."""
    actions: Annotated[NDArray[np.int16], ColumnForm("int16", "position")]
    """int16[N]: played action."""
    full: Annotated[NDArray[np.bool_], ColumnForm("bool", "position")]
    """bool[N]: True for moves with a full search; other moves are not used for training."""

    def move_sequences(self) -> list[list[int]]:
        """Return the actions of every game; raise ValueError if moves of a game are missing."""
        rows = np.arange(len(self.plies))
        begins = np.maximum.accumulate(np.where(self.plies == 0, rows, 0))
        if (self.plies != rows - begins).any():
            raise ValueError("moves of a game are missing")
        return [part.tolist() for part in np.split(self.actions, np.unique(begins)[1:])]

    def discounted_outcomes(self, discount: float) -> NDArray[np.float64]:
        """Return the outcomes, float64[N], multiplied by `discount` for each ply until the end."""
        return self.outcomes * np.float64(discount) ** self.plies_left


_FORMS = {name: (form.dtype, form.axis_count) for name, form in Examples.column_forms().items()}
_OPTIONAL = {name for name, form in Examples.column_forms().items() if form.is_optional}


def save_examples(
    path: Path, examples: Examples, features: NDArray[np.float16] | None = None, **metadata: Any
) -> None:
    """Write an npz file with examples and `metadata`, replacing it atomically.

    `features`, float16[N, width], are another network's features of the positions, if a head learns
    to predict them. Equal contents result in identical bytes. Raises UserError if the file cannot
    be written.
    """
    with (
        atomic_replace(path) as temporary,
        zipfile.ZipFile(temporary, "w") as archive,
    ):
        for name, content in _members(examples, features, metadata):
            entry = zipfile.ZipInfo(name, _TIMESTAMP)
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED, compresslevel=1)


def _members(
    examples: Examples, features: NDArray[np.float16] | None, metadata: dict[str, Any]
) -> Iterator[tuple[str, bytes]]:
    yield _HEADER, json.dumps({"schema": SCHEMA, **metadata}, sort_keys=True).encode()
    members = {"states": examples.states, **examples.columns()}
    for name in _OPTIONAL:
        if np.isnan(members[name]).all():
            del members[name]
    if features is not None:
        members[_FEATURES] = features
    for name, values in members.items():
        buffer = BytesIO()
        np.lib.format.write_array(buffer, np.asarray(values, order="C"), allow_pickle=False)
        yield f"{name}.npy", buffer.getvalue()


def load_examples(path: Path) -> tuple[Examples, dict[str, Any]]:
    """Return the examples and metadata of an npz file.

    Raises UserError if the file is missing, damaged, not from zerolab or from a different version.
    """
    columns, metadata = _read_columns(path, _FORMS)
    for name in _OPTIONAL - columns.keys():
        dtype, axis_count = _FORMS[name]
        shape = columns["plies" if axis_count == 1 else "policies"].shape
        columns[name] = np.full(shape, np.nan, dtype)
    return Examples(**columns), metadata


def check_examples(path: Path, examples: Examples, game: Game) -> None:
    """Raise UserError if examples do not fit a game: their widths, actions or outcomes."""
    actions = rules.action_count(game)
    widths = {"word": rules.word_count(game), "action": actions}
    for name, form in examples.column_forms().items():
        width = getattr(examples, name).shape[-1]
        if form.entry_per in widths and width != widths[form.entry_per]:
            expected = widths[form.entry_per]
            raise damaged_file_error(path, f"{name} has {width} columns, expected {expected}")
    if not ((examples.actions >= 0) & (examples.actions < actions)).all():
        raise damaged_file_error(path, f"actions are not from 0 to {actions - 1}")
    if not np.isin(examples.outcomes, (-1, 0, 1)).all():
        raise damaged_file_error(path, "outcomes are not -1, 0 or 1")


def read_full_search_count(path: Path) -> tuple[int, dict[str, Any]]:
    """Return the number of moves with a full search in an npz file, and its metadata.

    Only one column is read. Raises UserError like `load_examples`.
    """
    columns, metadata = _read_columns(path, {"full": _FORMS["full"]})
    return int(columns["full"].sum()), metadata


def load_target_features(path: Path) -> tuple[NDArray[np.float16], dict[str, Any]]:
    """Return the features in an npz file, float16[N, width], and its metadata.

    Raises UserError like `load_examples`, and if there are no features.
    """
    forms = {_FEATURES: ("float16", 2), "plies": _FORMS["plies"]}
    columns, metadata = _read_columns(path, forms)
    return columns[_FEATURES], metadata


def _read_columns(
    path: Path, forms: Mapping[str, tuple[str, int]]
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Return columns of equal length and a file's metadata; optional columns can be missing."""
    with open_npz_archive(path) as archive:
        if _HEADER not in archive:
            raise UserError(f"{path} was not written by zerolab")
        metadata = json.loads(archive.read_member(_HEADER))
        if not isinstance(metadata, dict):
            raise damaged_file_error(path, "its header is not a table")
        check_schema_version(path, metadata.get("schema"), SCHEMA)
        present = {
            name: form
            for name, form in forms.items()
            if name not in _OPTIONAL or f"{name}.npy" in archive
        }
        return archive.read_columns(present), metadata


_GAMES = "games"


class UnfinishedGames(NamedTuple):
    """Games in progress and their moves so far."""

    games: tuple[GameRecord, ...]
    """Game records in order of their numbers, with result 0; games may have no moves yet."""
    examples: Examples
    """One row per move; facts that depend on the end of the game are 0."""


def save_unfinished_games(path: Path, unfinished: UnfinishedGames, **metadata: Any) -> None:
    """Write an npz file like `save_examples`, with the games in the metadata."""
    games = [(game.number, game.first, game.second, game.agent_spans) for game in unfinished.games]
    save_examples(path, unfinished.examples, None, **{_GAMES: games}, **metadata)


def load_unfinished_games(path: Path) -> tuple[UnfinishedGames, dict[str, Any]]:
    """Return the unfinished games and metadata of a file; raise UserError like `load_examples`."""
    examples, metadata = load_examples(path)
    with user_errors_on_read(path):
        games = tuple(_game(examples, *fields) for fields in metadata.pop(_GAMES))
        count = sum(len(game.actions) for game in games)
        if count != len(examples.games) or list(games) != sorted(games):
            raise damaged_file_error(path, "its games and their moves do not match each other")
    return UnfinishedGames(games, examples), metadata


def _game(
    examples: Examples, number: int, first: str, second: str, spans: list[tuple[int, str]]
) -> GameRecord:
    check_value_types([(number, first, second)], (int, str, str))
    check_value_types(spans, (int, str))
    rows = slice(*np.searchsorted(examples.games, (number, number + 1)))
    if not np.array_equal(examples.plies[rows], np.arange(rows.stop - rows.start)):
        raise ValueError(f"moves of game {number} are missing")
    agent_spans = tuple((ply, name) for ply, name in spans)
    actions = tuple(examples.actions[rows].tolist())
    return GameRecord(number, first, second, actions, 0, agent_spans)
