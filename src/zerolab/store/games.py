"""Games of a run, tournament or league in an SQLite file, and the names of their agents.

The full name of a network consists of the run folder and the iteration, as in ``runs/demo@12``. The
files of the run itself contain the relative name ``@12``. Runs can therefore be moved, and equal
runs have identical files in any folder. Readers of these files restore the full names
(docs/decisions/0012-names-of-agents.md).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from zerolab.core.errors import UserError, quoted
from zerolab.store.checks import (
    Database,
    check_database_objects,
    check_schema_version,
    damaged_file_error,
    hex_digest,
    open_database,
    user_errors_on_read,
)

RUN_MARK = "run:"
"""Prefix of the name of a network whose run could be mistaken for another agent."""
_ITERATION_MARK = "@"


def relative_path_text(path: Path) -> str:
    """Return the normalised path of a file or folder, relative if inside the working directory."""
    here = Path.cwd()
    full = Path(os.path.normpath(here / path))
    return (full.relative_to(here) if full.is_relative_to(here) else full).as_posix()


def network_name(run: Path, iteration: int) -> str:
    """Return the full name of the network of an iteration, such as ``runs/demo@12``."""
    return f"{relative_path_text(run)}{_ITERATION_MARK}{iteration}"


def relative_agent_name(name: str, run: Path) -> str:
    """Return the name that an agent has in files of the run: ``@12`` for ``runs/demo@12``."""
    folder, bare = relative_path_text(run), name.removeprefix(RUN_MARK)
    return bare.removeprefix(folder) if bare.startswith(folder + _ITERATION_MARK) else name


def full_agent_name(name: str, run: Path) -> str:
    """Return the full name of an agent with the given `relative_agent_name`."""
    return relative_path_text(run) + name if name.startswith(_ITERATION_MARK) else name


def source_run_folder(source: str, iteration: int) -> str:
    """Return the run folder of a source, given as RUN or as RUN@N with N = `iteration`."""
    return source.removesuffix(f"{_ITERATION_MARK}{iteration}")


GAMES_FILE_NAME = "games.sqlite"
"""Name of the game store in a run, tournament or league folder."""

SELF_PLAY_STAGE = "selfplay"
"""Name of the stage whose games are used for training."""

SCHEMA = 3
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
        given_plies INTEGER NOT NULL,
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
    """All actions, including an opening; a final -1 means that the mover forfeited or resigned."""
    result: int
    """Outcome for the first player: 1, 0 or -1."""
    agent_spans: tuple[tuple[int, str], ...] = ()
    """Agents of consecutive spans of a game, as (first ply, agent).

    Games of continuous self-play can have several spans: in each, one agent plays both sides. Empty
    if `first` and `second` played all moves.
    """
    given_plies: int = 0
    """Number of plies at the start that no player chose in this game, such as a random opening."""

    def __repr__(self) -> str:
        result = {1: "1-0", 0: "1/2-1/2", -1: "0-1"}.get(self.result, self.result)
        players = f"{self.first} against {self.second}"
        return f"<GameRecord {self.number}: {players}, {result}, {self.ply_count} plies>"

    @property
    def is_forfeited(self) -> bool:
        """True if the mover forfeited or resigned the game after the last move."""
        return self.actions[-1:] == (-1,)

    @property
    def ply_count(self) -> int:
        """Number of moves, not counting a forfeit."""
        return len(self.actions) - self.is_forfeited

    @property
    def last_mover(self) -> str:
        """Agent that played the last move or forfeited the game."""
        return self.mover_at(len(self.actions) - 1)

    def mover_at(self, ply: int) -> str:
        """Return the agent that moved or forfeited the game at a ply, counted from 0."""
        if not self.agent_spans:
            return self.second if ply % 2 else self.first
        spans = (span for span in self.agent_spans if span[0] <= ply)
        return max(spans, default=(0, self.first))[1]


class GameStore:
    """Games of a run, tournament or league, by iteration, stage and number.

    Stages are numbered in the order of recording, and each has a digest of its games. If `run` is
    the folder of the run, its networks are named ``@12`` in the file and ``runs/demo@12`` in
    records. All methods raise UserError if the file is damaged, from a different version or not
    from zerolab.
    """

    def __init__(self, path: Path, run: Path | None = None) -> None:
        self.path = path
        self._run = run

    def write_stage(self, iteration: int, stage: str, games: Iterable[GameRecord]) -> None:
        """Add or replace a stage in one transaction, which is on disk once this returns."""
        self.write_stages([(iteration, stage, games)])

    def write_stages(self, stages: Iterable[tuple[int, str, Iterable[GameRecord]]]) -> None:
        """Add or replace several stages, each (iteration, name, games), in one transaction."""
        with self._writing() as connection:
            rename = cache(self.relative_agent_name)
            for iteration, stage, games in stages:
                renamed = sorted(_with_renamed_agents(game, rename) for game in games)
                _write_stage(connection, iteration, stage, renamed)

    def stages(self) -> list[tuple[int, str]]:
        """Return the iteration and name of every stage in the order of recording."""
        with self._reading() as connection:
            if connection is None:
                return []
            rows = connection.fetch_rows("SELECT iteration, stage FROM stages ORDER BY sequence")
        with user_errors_on_read(self.path):
            check_value_types(rows, (int, str))
        return rows

    def stage_games(self, iteration: int, stage: str) -> list[GameRecord]:
        """Return the games of a stage in order of their numbers; empty if it was not recorded."""
        return self.games_of_stages([(iteration, stage)])

    def games_of_stages(self, stages: Iterable[tuple[int, str]]) -> list[GameRecord]:
        """Return the games of several stages, each (iteration, name), opening the file once."""
        with self._reading() as connection:
            if connection is None:
                return []
            return [game for stage in stages for game in self._read_stage(connection, *stage)]

    def _read_stage(self, connection: Database, iteration: int, stage: str) -> list[GameRecord]:
        stored_digest = connection.execute(
            "SELECT digest FROM stages WHERE iteration = ? AND stage = ?", (iteration, stage)
        ).fetchone()
        rows = connection.fetch_rows(
            "SELECT number, first, second, actions, result, movers, given_plies FROM games"
            " WHERE iteration = ? AND stage = ? ORDER BY number",
            (iteration, stage),
        )
        with user_errors_on_read(self.path):
            check_value_types(rows, (int, str, str, str, int, str, int))
            games = [_game_of(row) for row in rows]
        if _digest(games) != (stored_digest[0] if stored_digest else _digest(())):
            raise damaged_file_error(
                self.path, f"games of iteration {iteration}, stage {stage}, have been modified"
            )
        rename = cache(self.full_agent_name)
        return [_with_renamed_agents(game, rename) for game in games]

    def select_rows(
        self, query: str, column_types: Sequence[type], arguments: Sequence[str | int] = ()
    ) -> list[tuple[Any, ...]]:
        """Return the rows of an SQL query, with the names of agents as in the file.

        Unlike `stage_games`, this does not check digests. Returns no rows if nothing has been
        recorded yet.
        """
        with self._reading() as connection:
            if connection is None:
                return []
            rows = connection.fetch_rows(query, arguments)
        with user_errors_on_read(self.path):
            check_value_types(rows, column_types)
        return rows

    def relative_agent_name(self, name: str) -> str:
        """Return the name that the file uses for the agent with a given full name."""
        return name if self._run is None else relative_agent_name(name, self._run)

    def full_agent_name(self, name: str) -> str:
        """Return the full name of the agent with a given name in the file."""
        return name if self._run is None else full_agent_name(name, self._run)

    def game_count(self) -> int:
        """Return the number of stored games."""
        with self._reading() as connection:
            if connection is None:
                return 0
            return connection.count_rows("games")

    def rewind(self, stage_count: int) -> None:
        """Check the entire file and its indexes, then keep only the first `stage_count` stages.

        Raises UserError, without changing the file, if it is damaged or has fewer stages.
        """
        with self._reading() as connection:
            stored = 0
            if connection is not None:
                faults = connection.fetch_rows("PRAGMA integrity_check")
                if faults != [("ok",)]:
                    raise damaged_file_error(self.path, faults[0][0])
                stored = connection.count_rows("stages")
        if stored < stage_count:
            raise damaged_file_error(
                self.path, f"it has the games of {stored} stages, expected {stage_count}"
            )
        if stored > stage_count:
            with self._writing() as connection:
                connection.execute(
                    "DELETE FROM games WHERE (iteration, stage) IN"
                    " (SELECT iteration, stage FROM stages WHERE sequence > ?)",
                    (stage_count,),
                )
                connection.execute("DELETE FROM stages WHERE sequence > ?", (stage_count,))

    @contextmanager
    def _reading(self) -> Iterator[Database | None]:
        """Open the file for reading; yield None if nothing has been recorded yet."""
        if not self.path.exists():
            yield None
            return
        with open_database(self.path, writable=False) as connection:
            yield connection if self._has_tables(connection) else None

    @contextmanager
    def _writing(self) -> Iterator[Database]:
        """Open or create the file for one transaction."""
        with open_database(self.path, writable=True) as connection:
            connection.execute("BEGIN IMMEDIATE")
            if not self._has_tables(connection):
                for statement in _CREATE:
                    connection.execute(statement)
            yield connection
            connection.execute("COMMIT")

    def _has_tables(self, connection: Database) -> bool:
        """Return True if there are tables; raise UserError for another kind or version of file."""
        # Query the tables first, since another process may be committing tables and IDs together.
        objects = connection.fetch_rows("SELECT type, name, sql FROM sqlite_master")
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (schema,) = connection.execute("PRAGMA user_version").fetchone()
        if not objects and application == 0:
            return False
        if application != _APPLICATION:
            raise UserError(f"{self.path} was not written by zerolab")
        check_schema_version(self.path, schema, SCHEMA)
        check_database_objects(self.path, objects, _CREATE)
        return True


def _with_renamed_agents(game: GameRecord, rename: Callable[[str], str]) -> GameRecord:
    return game._replace(
        first=rename(game.first),
        second=rename(game.second),
        agent_spans=tuple((ply, rename(name)) for ply, name in game.agent_spans),
    )


def _write_stage(
    connection: Database, iteration: int, stage: str, games: Sequence[GameRecord]
) -> None:
    """Write the sorted games of a stage, replacing those written earlier."""
    connection.increase_limits(_OPERATIONS_PER_GAME * len(games))
    rows = [(iteration, stage, *_row(game)) for game in games]
    stored = connection.execute(
        "SELECT sequence FROM stages WHERE iteration = ? AND stage = ?", (iteration, stage)
    ).fetchone()
    if stored is None:  # counting would take time proportional to the number of stages
        stored = connection.execute("SELECT coalesce(max(sequence), 0) + 1 FROM stages").fetchone()
    connection.execute("DELETE FROM games WHERE iteration = ? AND stage = ?", (iteration, stage))
    connection.executemany("INSERT INTO games VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
    connection.execute(
        "INSERT OR REPLACE INTO stages VALUES (?, ?, ?, ?)",
        (stored[0], iteration, stage, _digest(games)),
    )


_Row = tuple[int, str, str, str, int, str, int]


def _row(game: GameRecord) -> _Row:
    actions = " ".join(map(str, game.actions))
    spans = [(int(ply), name) for ply, name in game.agent_spans]
    movers = json.dumps(spans) if spans else ""
    return (
        int(game.number), game.first, game.second, actions, int(game.result), movers,
        int(game.given_plies),
    )  # fmt: skip


def check_value_types(rows: Iterable[Sequence[Any]], column_types: Sequence[type]) -> None:
    """Raise TypeError if a cell's type differs from its column's, which SQLite allows."""
    for row in rows:
        for cell, column_type in zip(row, column_types, strict=True):
            if type(cell) is not column_type:
                raise TypeError(f"{quoted(cell)}: expected {column_type.__name__}")


def _game_of(row: _Row) -> GameRecord:
    number, first, second, actions, result, movers, given_plies = row
    spans = tuple((ply, name) for ply, name in json.loads(movers or "[]"))
    check_value_types(spans, (int, str))
    if result not in (-1, 0, 1):
        raise ValueError(f"result {result}")
    moves = tuple(map(int, actions.split()))
    return GameRecord(number, first, second, moves, result, spans, given_plies)


def _digest(games: Iterable[GameRecord]) -> str:
    return hex_digest(*(repr(_row(game)).encode() for game in games))
