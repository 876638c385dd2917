"""Every game played, in one SQLite file."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from zerolab.core.errors import UserError, one_line
from zerolab.store.agent_names import inside_run, outside_run
from zerolab.store.checks import check_schema, damaged, digest

SELF_PLAY = "selfplay"
"""The stage whose games a run learns from."""

SCHEMA = 2
_BUSY_SECONDS = 60.0
"""How long to wait for another process that is writing."""
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
    """One game: who played whom, the moves and the result."""

    number: int
    first: str
    """The canonical name of the agent that moved first."""
    second: str
    actions: tuple[int, ...]
    """All moves, an opening included; -1 at the end where the mover gave up."""
    result: int
    """The outcome for the first player: 1, 0 or -1."""
    movers: tuple[tuple[int, str], ...] = ()
    """Who made which moves where agents took turns at both sides, as in self-play that outlives an
    iteration: (first ply, agent) of every stretch of moves, the last one up to the end. Empty where
    `first` and `second` made them all."""

    @property
    def last_mover(self) -> str:
        """Who made the last move, or gave up in its place."""
        return self.mover(len(self.actions) - 1)

    def mover(self, ply: int) -> str:
        """Return who made the move of a ply, counted from 0, or gave up in its place."""
        if not self.movers:
            return self.second if ply % 2 else self.first
        return max(stretch for stretch in self.movers if stretch[0] <= ply)[1]


class GameStore:
    """The games of a run or tournament, by iteration, stage and number.

    Stages are numbered in the order they are recorded, and carry a digest of their games. With the
    folder of its `run`, the run's own networks are ``@12`` in the file and ``runs/demo@12`` here
    (see `store.agent_names`). Every method raises UserError for a file that is damaged, foreign or
    newer.
    """

    def __init__(self, path: Path, run: Path | None = None) -> None:
        self.path = path
        self._run = run

    def record(self, iteration: int, stage: str, games: Iterable[GameRecord]) -> None:
        """Add a stage, in one transaction that is on disk at return; an equal name is replaced."""
        self.record_all([(iteration, stage, games)])

    def record_all(self, stages: Iterable[tuple[int, str, Iterable[GameRecord]]]) -> None:
        """Add stages of an iteration and a name each as `record` does, all in one transaction."""
        with self._writing() as connection:
            for iteration, stage, games in stages:
                kept = sorted(self._renamed(game, inside_run) for game in games)
                _write_stage(connection, iteration, stage, kept)

    def stages(self) -> list[tuple[int, str]]:
        """Return the iterations and names of all stages in the order they were recorded."""
        with self._reading() as connection:
            if connection is None:
                return []
            query = "SELECT iteration, stage FROM stages ORDER BY sequence"
            return connection.execute(query).fetchall()

    def games(self, iteration: int, stage: str) -> list[GameRecord]:
        """Return the games of one stage by number; none if no such stage was recorded."""
        with self._reading() as connection:
            if connection is None:
                return []
            recorded = connection.execute(
                "SELECT digest FROM stages WHERE iteration = ? AND stage = ?", (iteration, stage)
            ).fetchone()
            rows = connection.execute(
                "SELECT number, first, second, actions, result, movers FROM games"
                " WHERE iteration = ? AND stage = ? ORDER BY number",
                (iteration, stage),
            ).fetchall()
        try:
            games = [_game(row) for row in rows]
        except (ValueError, TypeError, AttributeError) as error:
            raise damaged(self.path, error) from error
        if _digest(games) != (recorded[0] if recorded else _digest(())):
            raise damaged(self.path, f"games of iteration {iteration}, {stage}, were changed")
        return [self._renamed(game, outside_run) for game in games]

    def select(self, query: str, arguments: Sequence[str | int] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query of the tables above, with names as the file has them.

        For looking only: nothing is compared with digests, as `games` does. None where nothing was
        ever recorded.
        """
        with self._reading() as connection:
            if connection is None:
                return []
            return connection.execute(query, arguments).fetchall()

    def named_inside(self, name: str) -> str:
        """Return how the file names an agent."""
        return name if self._run is None else inside_run(name, self._run)

    def named_outside(self, name: str) -> str:
        """Return how everybody else names an agent that the file names."""
        return name if self._run is None else outside_run(name, self._run)

    def _renamed(self, game: GameRecord, rename: Callable[[str, Path], str]) -> GameRecord:
        if self._run is None:
            return game
        first, second = (rename(name, self._run) for name in (game.first, game.second))
        movers = tuple((ply, rename(name, self._run)) for ply, name in game.movers)
        return game._replace(first=first, second=second, movers=movers)

    def distinct(self, iteration: int, stage: str) -> int:
        """Return how many different sequences of moves a stage has."""
        return len({game.actions for game in self.games(iteration, stage)})

    def count(self) -> int:
        """Return how many games are stored."""
        with self._reading() as connection:
            if connection is None:
                return 0
            return int(connection.execute("SELECT count(*) FROM games").fetchone()[0])

    def rewind(self, stages: int) -> None:
        """Check the whole file, then remove all but the first `stages` stages.

        Raises UserError, having changed nothing, if the file is damaged or holds fewer.
        """
        with self._reading() as connection:
            found = 0
            if connection is not None:
                faults = connection.execute("PRAGMA quick_check").fetchall()
                if faults != [("ok",)]:
                    raise damaged(self.path, faults[0][0])
                (found,) = connection.execute("SELECT count(*) FROM stages").fetchone()
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
    def _reading(self) -> Iterator[sqlite3.Connection | None]:
        """Open the file as it is; None where nothing was ever recorded."""
        if not self.path.exists():
            yield None
            return
        with self._connected("rw") as connection:
            yield connection if self._is_begun(connection) else None

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Open or begin the file for one transaction; no journal stays behind."""
        with self._connected("rwc") as connection:
            connection.execute("BEGIN IMMEDIATE")
            if not self._is_begun(connection):
                for statement in _CREATE:
                    connection.execute(statement)
            yield connection
            connection.execute("COMMIT")

    @contextmanager
    def _connected(self, mode: str) -> Iterator[sqlite3.Connection]:
        address = f"{self.path.absolute().as_uri()}?mode={mode}"
        try:
            opened = sqlite3.connect(address, uri=True, isolation_level=None, timeout=_BUSY_SECONDS)
            with closing(opened) as connection:
                yield connection
        except UnicodeDecodeError as error:
            raise damaged(self.path, error) from error
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorname", "") in ("SQLITE_CORRUPT", "SQLITE_NOTADB"):
                raise damaged(self.path, error) from error
            raise UserError(f"cannot use {self.path}: {one_line(error)}") from error

    def _is_begun(self, connection: sqlite3.Connection) -> bool:
        """Tell whether there are tables; raise UserError if they are not ours or newer."""
        # Tables first: another process may be about to commit them, together with the numbers.
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (schema,) = connection.execute("PRAGMA user_version").fetchone()
        if tables == 0 and application == 0:
            return False
        if application != _APPLICATION:
            raise UserError(f"{self.path} was not written by zerolab")
        check_schema(self.path, schema, SCHEMA)
        return True


def _write_stage(
    connection: sqlite3.Connection, iteration: int, stage: str, games: Sequence[GameRecord]
) -> None:
    """Write the games of a stage, in order, in place of those of an equal name."""
    rows = [(iteration, stage, *_row(game)) for game in games]
    former = connection.execute(
        "SELECT sequence FROM stages WHERE iteration = ? AND stage = ?", (iteration, stage)
    ).fetchone()
    (latest,) = connection.execute("SELECT count(*) FROM stages").fetchone()
    sequence = former[0] if former else latest + 1
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


def _game(row: tuple[int, str, str, str, int, str]) -> GameRecord:
    number, first, second, actions, result, movers = row
    stretches = tuple((int(ply), str(name)) for ply, name in json.loads(movers or "[]"))
    return GameRecord(number, first, second, tuple(map(int, actions.split())), result, stretches)


def _digest(games: Iterable[GameRecord]) -> str:
    return digest(*(repr(_row(game)).encode() for game in games))
