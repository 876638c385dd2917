"""Games of a run or tournament in an SQLite file, and the names of their agents.

The name of a network consists of the run folder and the iteration, as in ``runs/demo@12``. In the
files of the run itself, it is ``@12``, similar to a relative path. This allows runs to be moved and
makes the files of equal runs identical in any folder. Readers of these files restore the full names
(docs/decisions/0012-names-of-agents.md).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from zerolab.core.errors import UserError, quoted
from zerolab.store.checks import (
    Database,
    check_objects,
    check_schema,
    connected,
    damaged,
    digest,
    reading,
)

_MARK = "@"


def canonical_folder(path: Path) -> str:
    """Return the canonical path of a folder, which is relative inside the working directory."""
    here = Path.cwd()
    full = Path(os.path.normpath(here / path))
    return (full.relative_to(here) if full.is_relative_to(here) else full).as_posix()


def network_name(run: Path, iteration: int) -> str:
    """Return the full name of the network of an iteration, such as ``runs/demo@12``."""
    return f"{canonical_folder(run)}{_MARK}{iteration}"


def inside_run(name: str, run: Path) -> str:
    """Return the name of an agent in files of the run, such as ``@12`` for ``runs/demo@12``."""
    folder = canonical_folder(run)
    return name.removeprefix(folder) if name.startswith(folder + _MARK) else name


def outside_run(name: str, run: Path) -> str:
    """Return the full name of an agent in files of the run, the inverse of `inside_run`."""
    return canonical_folder(run) + name if name.startswith(_MARK) else name


def source_folder(source: str, iteration: int) -> str:
    """Return the folder of a source in the form RUN, or RUN@N with N = `iteration`."""
    return source.removesuffix(f"{_MARK}{iteration}")


SELF_PLAY = "selfplay"
"""Stage whose games are used for training."""

SCHEMA = 2
_OPERATIONS_PER_GAME = 1000
"""Limit on SQLite instructions for writing one game, which takes about 30."""
_APPLICATION = 0x7A65726F  # "zero", as SQLite's application ID

_CREATE = (
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {SCHEMA}",
    """
    CREATE TABLE games (
        iteration INTEGER NOT NULL,
        stage TEXT NOT NULL,
        number INTEGER NOT NULL,
        first TEXT NOT NULL,
        second TEXT NOT NULL,
        actions TEXT NOT NULL,
        result INTEGER NOT NULL,
        movers TEXT NOT NULL,
        PRIMARY KEY (iteration, stage, number)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE stages (
        sequence INTEGER PRIMARY KEY,
        iteration INTEGER NOT NULL,
        stage TEXT NOT NULL,
        digest TEXT NOT NULL,
        UNIQUE (iteration, stage)
    )
    """,
)


class GameRecord(NamedTuple):
    """Players, moves and result of a game."""

    number: int
    """Number of the game in its stage."""
    first: str
    """Canonical name of the agent that moved first."""
    second: str
    """Canonical name of the agent that moved second."""
    actions: tuple[int, ...]
    """All actions, including an opening; a final -1 means that the mover forfeited the game."""
    result: int
    """Outcome for the first player: 1, 0 or -1."""
    movers: tuple[tuple[int, str], ...] = ()
    """Agents of consecutive parts of the game, as (first ply, agent).

    In these games, such as self-play over several iterations, one agent plays both sides of each
    part. Empty if `first` and `second` played all moves.
    """

    @property
    def last_mover(self) -> str:
        """Agent that played the last move or forfeited the game."""
        return self.mover(len(self.actions) - 1)

    def mover(self, ply: int) -> str:
        """Return the agent that moved or forfeited the game at a ply, counted from 0."""
        if not self.movers:
            return self.second if ply % 2 else self.first
        parts = (part for part in self.movers if part[0] <= ply)
        return max(parts, default=(0, self.first))[1]


class GameStore:
    """Games of a run or tournament, by iteration, stage and number.

    Stages are numbered in the order of recording and have a digest of their games. If `run` is the
    folder of the run, its networks are named ``@12`` in the file and ``runs/demo@12`` in records.
    All methods raise UserError if the file is damaged, foreign or of a newer version.
    """

    def __init__(self, path: Path, run: Path | None = None) -> None:
        self.path = path
        self._run = run

    def record(self, iteration: int, stage: str, games: Iterable[GameRecord]) -> None:
        """Add or replace a stage in one transaction, which is on disk when this returns."""
        self.record_all([(iteration, stage, games)])

    def record_all(self, stages: Iterable[tuple[int, str, Iterable[GameRecord]]]) -> None:
        """Add or replace several stages, (iteration, name, games) each, in one transaction."""
        with self._writing() as connection:
            for iteration, stage, games in stages:
                renamed = sorted(self._renamed(game, inside_run) for game in games)
                _write_stage(connection, iteration, stage, renamed)

    def stages(self) -> list[tuple[int, str]]:
        """Return the iteration and name of every stage in the order of recording."""
        with self._reading() as connection:
            if connection is None:
                return []
            rows = connection.rows("SELECT iteration, stage FROM stages ORDER BY sequence")
        with reading(self.path):
            check_cells(rows, (int, str))
        return rows

    def games(self, iteration: int, stage: str) -> list[GameRecord]:
        """Return the games of a stage in order of their numbers; empty if it was not recorded."""
        with self._reading() as connection:
            if connection is None:
                return []
            stored_digest = connection.execute(
                "SELECT digest FROM stages WHERE iteration = ? AND stage = ?", (iteration, stage)
            ).fetchone()
            rows = connection.rows(
                "SELECT number, first, second, actions, result, movers FROM games"
                " WHERE iteration = ? AND stage = ? ORDER BY number",
                (iteration, stage),
            )
        with reading(self.path):
            check_cells(rows, (int, str, str, str, int, str))
            games = [_game(row) for row in rows]
        if _digest(games) != (stored_digest[0] if stored_digest else _digest(())):
            raise damaged(self.path, f"games of iteration {iteration}, {stage}, were changed")
        return [self._renamed(game, outside_run) for game in games]

    def select(
        self, query: str, kinds: Sequence[type], arguments: Sequence[str | int] = ()
    ) -> list[tuple[Any, ...]]:
        """Return the rows of an SQL query, with the names of agents as in the file.

        `kinds` are the types of the columns. Unlike `games`, this does not check digests. Returns
        no rows if nothing has been recorded yet.
        """
        with self._reading() as connection:
            if connection is None:
                return []
            rows = connection.rows(query, arguments)
        with reading(self.path):
            check_cells(rows, kinds)
        return rows

    def named_inside(self, name: str) -> str:
        """Return the name that an agent with a given full name has in the file."""
        return name if self._run is None else inside_run(name, self._run)

    def named_outside(self, name: str) -> str:
        """Return the full name of an agent with a given name in the file."""
        return name if self._run is None else outside_run(name, self._run)

    def _renamed(self, game: GameRecord, rename: Callable[[str, Path], str]) -> GameRecord:
        if self._run is None:
            return game
        first, second = (rename(name, self._run) for name in (game.first, game.second))
        movers = tuple((ply, rename(name, self._run)) for ply, name in game.movers)
        return game._replace(first=first, second=second, movers=movers)

    def distinct(self, iteration: int, stage: str) -> int:
        """Return the number of distinct move sequences in a stage."""
        return len({game.actions for game in self.games(iteration, stage)})

    def count(self) -> int:
        """Return the number of stored games."""
        with self._reading() as connection:
            if connection is None:
                return 0
            return connection.count("games")

    def rewind(self, stages: int) -> None:
        """Check the entire file and its indexes, then remove all but the first `stages` stages.

        If the file is damaged or has fewer stages, raises UserError without changing it.
        """
        with self._reading() as connection:
            stored = 0
            if connection is not None:
                faults = connection.rows("PRAGMA integrity_check")
                if faults != [("ok",)]:
                    raise damaged(self.path, faults[0][0])
                stored = connection.count("stages")
        if stored < stages:
            raise damaged(self.path, f"games of {stored} stages, expected {stages}")
        if stored > stages:
            with self._writing() as connection:
                connection.execute(
                    "DELETE FROM games WHERE (iteration, stage) IN"
                    " (SELECT iteration, stage FROM stages WHERE sequence > ?)",
                    (stages,),
                )
                connection.execute("DELETE FROM stages WHERE sequence > ?", (stages,))

    @contextmanager
    def _reading(self) -> Iterator[Database | None]:
        """Open the file for reading; yield None if nothing has been recorded yet."""
        if not self.path.exists():
            yield None
            return
        with connected(self.path, writing=False) as connection:
            yield connection if self._has_tables(connection) else None

    @contextmanager
    def _writing(self) -> Iterator[Database]:
        """Open or create the file for one transaction."""
        with connected(self.path, writing=True) as connection:
            connection.execute("BEGIN IMMEDIATE")
            if not self._has_tables(connection):
                for statement in _CREATE:
                    connection.execute(statement)
            yield connection
            connection.execute("COMMIT")

    def _has_tables(self, connection: Database) -> bool:
        """Return True if there are tables; raise UserError if they are foreign or newer."""
        # Query the tables first, since another process may be committing tables and IDs together.
        objects = connection.rows("SELECT type, name, sql FROM sqlite_master")
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (schema,) = connection.execute("PRAGMA user_version").fetchone()
        if not objects and application == 0:
            return False
        if application != _APPLICATION:
            raise UserError(f"{self.path} was not written by zerolab")
        check_schema(self.path, schema, SCHEMA)
        check_objects(self.path, objects, _CREATE)
        return True


def _write_stage(
    connection: Database, iteration: int, stage: str, games: Sequence[GameRecord]
) -> None:
    """Write the sorted games of a stage, replacing those written earlier."""
    connection.allow(_OPERATIONS_PER_GAME * len(games))
    rows = [(iteration, stage, *_row(game)) for game in games]
    stored = connection.execute(
        "SELECT sequence FROM stages WHERE iteration = ? AND stage = ?", (iteration, stage)
    ).fetchone()
    if stored is None:  # counting would take time proportional to the number of stages
        stored = connection.execute("SELECT coalesce(max(sequence), 0) + 1 FROM stages").fetchone()
    connection.execute("DELETE FROM games WHERE iteration = ? AND stage = ?", (iteration, stage))
    connection.executemany("INSERT INTO games VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
    connection.execute(
        "INSERT OR REPLACE INTO stages VALUES (?, ?, ?, ?)",
        (stored[0], iteration, stage, _digest(games)),
    )


def _row(game: GameRecord) -> tuple[int, str, str, str, int, str]:
    actions = " ".join(map(str, game.actions))
    movers = json.dumps([(int(ply), name) for ply, name in game.movers]) if game.movers else ""
    return int(game.number), game.first, game.second, actions, int(game.result), movers


def check_cells(rows: Iterable[Sequence[Any]], kinds: Sequence[type]) -> None:
    """Raise TypeError for a cell with a different type from its column, which SQLite allows."""
    for row in rows:
        for cell, kind in zip(row, kinds, strict=True):
            if type(cell) is not kind:
                raise TypeError(f"{quoted(cell)}: expected {kind.__name__}")


def _game(row: tuple[int, str, str, str, int, str]) -> GameRecord:
    number, first, second, actions, result, movers = row
    parts = tuple((ply, name) for ply, name in json.loads(movers or "[]"))
    check_cells(parts, (int, str))
    return GameRecord(number, first, second, tuple(map(int, actions.split())), result, parts)


def _digest(games: Iterable[GameRecord]) -> str:
    return digest(*(repr(_row(game)).encode() for game in games))
