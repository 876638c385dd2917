"""All games of a run or tournament in one SQLite file, and the names of agents in it.

The name of a network is ``runs/demo@12``: the run's folder and the iteration. In files of the run
itself it is ``@12``, like a relative path, so that a run can be moved, and equal runs are equal
byte for byte in any folder. Readers of these files restore the full names
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
    """Return the canonical spelling of a folder: relative if it is in the working directory."""
    here = Path.cwd()
    full = Path(os.path.normpath(here / path))
    return (full.relative_to(here) if full.is_relative_to(here) else full).as_posix()


def network_name(run: Path, iteration: int) -> str:
    """Return the name of a run's network, such as ``runs/demo@12``."""
    return f"{canonical_folder(run)}{_MARK}{iteration}"


def inside_run(name: str, run: Path) -> str:
    """Return an agent's name in files of the run: ``@12`` for ``runs/demo@12``."""
    folder = canonical_folder(run)
    return name.removeprefix(folder) if name.startswith(folder + _MARK) else name


def outside_run(name: str, run: Path) -> str:
    """Return the full name of an agent in a run's files: the inverse of `inside_run`."""
    return canonical_folder(run) + name if name.startswith(_MARK) else name


def source_folder(source: str, iteration: int) -> str:
    """Return the folder of a source that is given as RUN, or as RUN@N with N = `iteration`."""
    return source.removesuffix(f"{_MARK}{iteration}")


SELF_PLAY = "selfplay"
"""The stage whose games a run learns from."""

SCHEMA = 2
_OPERATIONS_PER_GAME = 1000
"""Limit of SQLite instructions for writing one game, which takes about 30."""
_APPLICATION = 0x7A65726F  # "zero", in SQLite's field for the application's number

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
    """One game: players, moves and result."""

    number: int
    first: str
    """The canonical name of the agent that moved first."""
    second: str
    actions: tuple[int, ...]
    """All moves, including an opening; -1 at the end if the mover gave up."""
    result: int
    """The outcome for the first player: 1, 0 or -1."""
    movers: tuple[tuple[int, str], ...] = ()
    """The agents of successive stretches of moves, as (first ply, agent), in games where agents
    take over both sides, such as self-play over several iterations. Empty if `first` and `second`
    made all moves."""

    @property
    def last_mover(self) -> str:
        """The agent that made the last move or gave up."""
        return self.mover(len(self.actions) - 1)

    def mover(self, ply: int) -> str:
        """Return the agent that made the move of a ply, counted from 0, or gave up there."""
        if not self.movers:
            return self.second if ply % 2 else self.first
        before = (stretch for stretch in self.movers if stretch[0] <= ply)
        return max(before, default=(0, self.first))[1]


class GameStore:
    """The games of a run or tournament, by iteration, stage and number.

    Stages are numbered in the order of recording and have a digest of their games. With the folder
    of a `run`, the run's networks are ``@12`` in the file and ``runs/demo@12`` here. All methods
    raise UserError for a file that is damaged, foreign or newer.
    """

    def __init__(self, path: Path, run: Path | None = None) -> None:
        self.path = path
        self._run = run

    def record(self, iteration: int, stage: str, games: Iterable[GameRecord]) -> None:
        """Add a stage, or replace an equal one, in one transaction that is on disk at return."""
        self.record_all([(iteration, stage, games)])

    def record_all(self, stages: Iterable[tuple[int, str, Iterable[GameRecord]]]) -> None:
        """Add stages, each with iteration and name, as `record` does, in one transaction."""
        with self._writing() as connection:
            for iteration, stage, games in stages:
                kept = sorted(self._renamed(game, inside_run) for game in games)
                _write_stage(connection, iteration, stage, kept)

    def stages(self) -> list[tuple[int, str]]:
        """Return the iterations and names of all stages in the order they were recorded."""
        with self._reading() as connection:
            if connection is None:
                return []
            rows = connection.rows("SELECT iteration, stage FROM stages ORDER BY sequence")
        with reading(self.path):
            check_cells(rows, (int, str))
        return rows

    def games(self, iteration: int, stage: str) -> list[GameRecord]:
        """Return the games of one stage by number; none if no such stage was recorded."""
        with self._reading() as connection:
            if connection is None:
                return []
            recorded = connection.execute(
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
        if _digest(games) != (recorded[0] if recorded else _digest(())):
            raise damaged(self.path, f"games of iteration {iteration}, {stage}, were changed")
        return [self._renamed(game, outside_run) for game in games]

    def select(
        self, query: str, kinds: Sequence[type], arguments: Sequence[str | int] = ()
    ) -> list[tuple[Any, ...]]:
        """Return the rows of a query of the tables above, with names as in the file.

        `kinds` are the types of the columns. Unlike `games`, it does not check digests. Returns no
        rows if nothing was recorded yet.
        """
        with self._reading() as connection:
            if connection is None:
                return []
            rows = connection.rows(query, arguments)
        with reading(self.path):
            check_cells(rows, kinds)
        return rows

    def named_inside(self, name: str) -> str:
        """Return the name of an agent in the file."""
        return name if self._run is None else inside_run(name, self._run)

    def named_outside(self, name: str) -> str:
        """Return the full name of an agent in the file."""
        return name if self._run is None else outside_run(name, self._run)

    def _renamed(self, game: GameRecord, rename: Callable[[str, Path], str]) -> GameRecord:
        if self._run is None:
            return game
        first, second = (rename(name, self._run) for name in (game.first, game.second))
        movers = tuple((ply, rename(name, self._run)) for ply, name in game.movers)
        return game._replace(first=first, second=second, movers=movers)

    def distinct(self, iteration: int, stage: str) -> int:
        """Return the number of distinct sequences of moves of a stage."""
        return len({game.actions for game in self.games(iteration, stage)})

    def count(self) -> int:
        """Return the number of stored games."""
        with self._reading() as connection:
            if connection is None:
                return 0
            return connection.count("games")

    def rewind(self, stages: int) -> None:
        """Check the whole file, with its indexes, then remove all but the first `stages` stages.

        Raises UserError, having changed nothing, if the file is damaged or holds fewer.
        """
        with self._reading() as connection:
            found = 0
            if connection is not None:
                faults = connection.rows("PRAGMA integrity_check")
                if faults != [("ok",)]:
                    raise damaged(self.path, faults[0][0])
                found = connection.count("stages")
        if found < stages:
            raise damaged(self.path, f"games of {found} stages, expected {stages}")
        if found > stages:
            with self._writing() as connection:
                connection.execute(
                    "DELETE FROM games WHERE (iteration, stage) IN"
                    " (SELECT iteration, stage FROM stages WHERE sequence > ?)",
                    (stages,),
                )
                connection.execute("DELETE FROM stages WHERE sequence > ?", (stages,))

    @contextmanager
    def _reading(self) -> Iterator[Database | None]:
        """Open the file for reading; None if nothing was recorded yet."""
        if not self.path.exists():
            yield None
            return
        with connected(self.path, writing=False) as connection:
            yield connection if self._is_begun(connection) else None

    @contextmanager
    def _writing(self) -> Iterator[Database]:
        """Open or create the file for one transaction, without leaving a journal."""
        with connected(self.path, writing=True) as connection:
            connection.execute("BEGIN IMMEDIATE")
            if not self._is_begun(connection):
                for statement in _CREATE:
                    connection.execute(statement)
            yield connection
            connection.execute("COMMIT")

    def _is_begun(self, connection: Database) -> bool:
        """Return True if there are tables; raise UserError if they are foreign or newer."""
        # Tables first: another process may commit them now, together with the numbers.
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
    """Write the games of a stage, in order, replacing those of an equal stage."""
    connection.allow(_OPERATIONS_PER_GAME * len(games))
    rows = [(iteration, stage, *_row(game)) for game in games]
    former = connection.execute(
        "SELECT sequence FROM stages WHERE iteration = ? AND stage = ?", (iteration, stage)
    ).fetchone()
    sequence = former[0] if former else connection.count("stages") + 1
    connection.execute("DELETE FROM games WHERE iteration = ? AND stage = ?", (iteration, stage))
    connection.executemany("INSERT INTO games VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
    connection.execute(
        "INSERT OR REPLACE INTO stages VALUES (?, ?, ?, ?)",
        (sequence, iteration, stage, _digest(games)),
    )


def _row(game: GameRecord) -> tuple[int, str, str, str, int, str]:
    actions = " ".join(map(str, game.actions))
    movers = json.dumps([(int(ply), name) for ply, name in game.movers]) if game.movers else ""
    return int(game.number), game.first, game.second, actions, int(game.result), movers


def check_cells(rows: Iterable[Sequence[Any]], kinds: Sequence[type]) -> None:
    """Raise TypeError for a cell of another type than its column, which SQLite allows."""
    for row in rows:
        for cell, kind in zip(row, kinds, strict=True):
            if type(cell) is not kind:
                raise TypeError(f"{quoted(cell)}: expected {kind.__name__}")


def _game(row: tuple[int, str, str, str, int, str]) -> GameRecord:
    number, first, second, actions, result, movers = row
    stretches = tuple((ply, name) for ply, name in json.loads(movers or "[]"))
    check_cells(stretches, (int, str))
    return GameRecord(number, first, second, tuple(map(int, actions.split())), result, stretches)


def _digest(games: Iterable[GameRecord]) -> str:
    return digest(*(repr(_row(game)).encode() for game in games))
