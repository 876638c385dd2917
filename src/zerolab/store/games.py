"""Every game played, in one SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from zerolab.core.errors import UserError
from zerolab.store.arrays import check_schema

SCHEMA = 1
_APPLICATION = 0x7A65726F  # "zero", in SQLite's field for the application's number

_CREATE = """
CREATE TABLE IF NOT EXISTS games (
    iteration INTEGER NOT NULL,
    stage TEXT NOT NULL,
    number INTEGER NOT NULL,
    first TEXT NOT NULL,
    second TEXT NOT NULL,
    actions TEXT NOT NULL,
    result INTEGER NOT NULL,
    PRIMARY KEY (iteration, stage, number)
) WITHOUT ROWID
"""


class StoredGame(NamedTuple):
    """One finished game."""

    number: int
    first: str
    second: str
    actions: tuple[int, ...]
    result: int
    """The outcome for the first player: 1, 0 or -1."""


class GameStore:
    """The games of a run, by iteration, stage and number.

    Recording a stage again replaces its games, so that a stage repeated after a crash leaves the
    same rows. Every method raises UserError for a file that is damaged, foreign or newer.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def record(self, iteration: int, stage: str, games: Iterable[StoredGame]) -> None:
        """Replace the games of one stage, in one transaction that is on disk at return."""
        rows = [
            (iteration, stage, g.number, g.first, g.second, " ".join(map(str, g.actions)), g.result)
            for g in games
        ]
        with self._opened() as connection, connection:
            connection.execute(_CREATE)
            connection.execute(
                "DELETE FROM games WHERE iteration = ? AND stage = ?", (iteration, stage)
            )
            connection.executemany("INSERT INTO games VALUES (?, ?, ?, ?, ?, ?, ?)", rows)

    def games(self, iteration: int, stage: str) -> Iterator[StoredGame]:
        """Yield the games of one stage by number."""
        if not self.path.exists():
            return
        with self._opened() as connection:
            rows = connection.execute(
                "SELECT number, first, second, actions, result FROM games"
                " WHERE iteration = ? AND stage = ? ORDER BY number",
                (iteration, stage),
            )
            for number, first, second, actions, result in rows:
                moves = tuple(int(action) for action in actions.split())
                yield StoredGame(number, first, second, moves, result)

    def count(self) -> int:
        """Return how many games are stored."""
        if not self.path.exists():
            return 0
        with self._opened() as connection:
            return int(connection.execute("SELECT count(*) FROM games").fetchone()[0])

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """Open the file for one piece of work; nothing stays open, no journal stays behind."""
        try:
            with closing(sqlite3.connect(self.path)) as connection:
                self._check(connection)
                yield connection
        except sqlite3.DatabaseError as error:
            raise UserError(f"cannot use {self.path}: {error}") from error

    def _check(self, connection: sqlite3.Connection) -> None:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (schema,) = connection.execute("PRAGMA user_version").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if tables == 0 and application == 0:
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            connection.execute(f"PRAGMA user_version = {SCHEMA}")
        elif application != _APPLICATION:
            raise UserError(f"{self.path} was not written by zerolab")
        else:
            check_schema(self.path, schema, SCHEMA)
