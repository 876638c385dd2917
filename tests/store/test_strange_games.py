"""Malicious games.sqlite files, which must not run code, block or exhaust memory."""

from __future__ import annotations

import json
import os
import sqlite3
import struct
import subprocess
import sys
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from store.toy import everything, games, train
from zerolab.core.errors import UserError
from zerolab.store import checks
from zerolab.store.games import GameRecord, GameStore, _digest
from zerolab.store.listing import (
    GameFilter,
    count_matching_games,
    list_matching_games,
    list_players,
    summarise_stages,
)
from zerolab.store.run_folder import RunFolder

ENDLESS = (
    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
    " SELECT i AS sequence, i AS iteration, 'gate' AS stage, '' AS digest FROM n"
)


@pytest.fixture
def store(tmp_path):
    new_store = GameStore(tmp_path / "games.sqlite")
    new_store.write_stages((iteration, "gate", games(iteration)) for iteration in (1, 2))
    return new_store


def change(store: GameStore, *statements: str) -> None:
    with closing(sqlite3.connect(store.path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def check_refused(store: GameStore, expected: str) -> None:
    """Check that all operations raise a one-line error and change nothing."""
    before = everything(store.path.parent)
    for operation in (
        store.stages,
        lambda: store.stage_games(1, "gate"),
        lambda: store.rewind(1),
        lambda: store.write_stage(9, "gate", games(9)),
    ):
        with pytest.raises(UserError, match=expected) as caught:
            operation()
        assert len(str(caught.value).splitlines()) == 1
    assert everything(store.path.parent) == before


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (f"CREATE VIEW stages AS {ENDLESS}", 'the view "stages"'),
        ("CREATE TRIGGER t AFTER INSERT ON games BEGIN DELETE FROM games; END", "the trigger"),
        ("CREATE TRIGGER t AFTER DELETE ON stages BEGIN DELETE FROM games; END", "the trigger"),
        ("CREATE VIRTUAL TABLE other USING fts5 (text)", 'the table "other"'),
        ("CREATE INDEX other ON games (length(first))", 'the index "other"'),
        ("ALTER TABLE games ADD COLUMN more", 'the table "games"'),
    ],
    ids=["view", "trigger", "trigger of stages", "virtual table", "index", "column"],
)
def test_foreign_schema_is_refused(store, statement, expected):
    change(store, *(["DROP TABLE stages"] if "VIEW stages" in statement else []), statement)
    check_refused(store, expected)


def test_wal_mode_is_refused_without_creating_files(store):
    change(store, "PRAGMA journal_mode = WAL")
    check_refused(store, "games.sqlite is in SQLite's WAL mode.* journal_mode = DELETE")
    assert [path.name for path in store.path.parent.iterdir()] == ["games.sqlite"]
    change(store, "PRAGMA journal_mode = DELETE")
    assert store.stage_games(1, "gate") == games(1)


def test_reading_keeps_locks_of_other_connections(store, monkeypatch):
    monkeypatch.setattr(checks, "_WRITE_TIMEOUT", 0.01)
    with checks.open_database(store.path, writable=True) as connection:
        connection.execute("BEGIN IMMEDIATE")
        store.stages()
        code = (
            "import sqlite3, sys; other = sqlite3.connect(sys.argv[1], timeout=0);"
            "other.execute('BEGIN IMMEDIATE')"
        )
        other = subprocess.run(
            [sys.executable, "-c", code, store.path], capture_output=True, text=True, check=False
        )
    assert "database is locked" in other.stderr


def test_planner_statistics_are_accepted(store):
    change(store, "ANALYZE")
    assert store.stage_games(1, "gate") == games(1)
    store.write_stage(3, "gate", games(3))
    assert store.stages() == [(1, "gate"), (2, "gate"), (3, "gate")]
    change(
        store,
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_master SET sql = sql || ' WITHOUT ROWID' WHERE name = 'sqlite_stat1'",
    )
    check_refused(store, "sqlite_stat1")


def test_triggers_do_not_run_when_run_resumes(tmp_path):
    run = train(tmp_path / "run", iterations=1)
    change(run.games, "CREATE TRIGGER t AFTER INSERT ON games BEGIN DELETE FROM games; END")
    before = everything(run.path)
    with pytest.raises(UserError, match='the trigger "t"'):
        train(run.path, iterations=2)
    assert everything(run.path) == before


def test_impossible_result_is_refused(store):
    store.write_stage(3, "gate", [games(3)[0]._replace(result=5)])
    with pytest.raises(UserError, match=r"games.sqlite is damaged \(result 5\)"):
        store.stage_games(3, "gate")


@pytest.mark.parametrize("ending", ["", "-journal", "-wal", "-shm"])
def test_named_pipes_do_not_block(store, ending):
    store.path.with_name("games.sqlite" + ending).unlink(missing_ok=True)
    os.mkfifo(f"{store.path}{ending}")
    for work in (store.stages, lambda: store.write_stage(9, "gate", games(9))):
        with pytest.raises(
            UserError, match=f"games.sqlite{ending}.* (is a named pipe|not written)"
        ):
            work()


def test_companion_files_are_checked_at_target_of_link(store, tmp_path):
    link = tmp_path / "elsewhere" / "games.sqlite"
    link.parent.mkdir()
    link.symlink_to(store.path)
    os.mkfifo(f"{store.path}-journal")
    with pytest.raises(UserError, match=r"games\.sqlite-journal: it is a named pipe"):
        GameStore(link).stages()


def test_journal_cannot_delete_other_files(store, tmp_path):
    """SQLite deletes the file that a journal names as its super-journal."""
    precious = tmp_path / "precious"
    precious.write_bytes(b"\0" * 100)
    journal = Path(f"{store.path}-journal")
    journal.write_bytes(_journal(store.path.read_bytes(), os.fsencode(precious)))
    with pytest.raises(UserError, match=r"games\.sqlite-journal was not written by zerolab"):
        store.stages()
    assert precious.exists()
    journal.write_bytes(_journal(store.path.read_bytes(), b""))
    assert len(store.stages()) == 2
    assert not journal.exists()  # SQLite has rolled it back


def _journal(content: bytes, name: bytes, page: int = 4096) -> bytes:
    """Return a journal with the first page of a database, as left behind by a killed process."""
    magic, salt = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7", 7
    head = magic + struct.pack(">5I", 1, salt, len(content) // page, 512, page)
    first = content[:page]
    total = salt + sum(first[place] for place in range(page - 200, 0, -200))
    journal = head.ljust(512, b"\0") + struct.pack(">I", 1) + first + struct.pack(">I", total)
    if name:
        lock_page = (1 << 30) // page + 1
        journal += struct.pack(">I", lock_page) + name + struct.pack(">II", len(name), sum(name))
        journal += magic
    return journal


def test_locked_file_times_out(store, monkeypatch):
    assert max(checks._READ_TIMEOUT, checks._WRITE_TIMEOUT) <= 20
    monkeypatch.setattr(checks, "_READ_TIMEOUT", 0.01)
    monkeypatch.setattr(checks, "_WRITE_TIMEOUT", 0.02)
    with closing(sqlite3.connect(store.path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        for work, seconds in (
            (store.stages, "0.01"),
            (lambda: store.write_stage(3, "gate", games(3)), "0.02"),
        ):
            with pytest.raises(
                UserError, match=f"is locked by another process: waited {seconds} s"
            ):
                work()


@pytest.mark.parametrize(
    ("change_to", "expected"),
    [
        ("games SET first = x'00ff'", "expected str"),
        ("games SET second = CAST(x'ff' AS TEXT)", "UTF-8"),
        ("games SET result = 0.5", "expected int"),
        ("games SET result = 'won'", "expected int"),
        ("games SET actions = 7.5", "7.5"),
        ("games SET actions = x'31'", "expected str"),
        ("games SET movers = x'5b5d'", "expected str"),
        (f"games SET movers = '{'[' * 100_000}'", "recursion"),
        ("games SET movers = '[[0, [1]]]'", "expected str"),
        ("games SET movers = '[[1e999, \"a\"]]'", "inf: expected int"),
        ("games SET movers = '{\"a\": 1}'", "unpack"),
        ("stages SET digest = 7", "have been modified"),
        (f"games SET first = '{'x' * 300_000}'", "too big"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_cells_of_wrong_type_are_reported(store, change_to, expected):
    change(store, f"UPDATE {change_to} WHERE iteration = 1")
    with pytest.raises(UserError, match=f"games.sqlite is damaged .*{expected}"):
        store.stage_games(1, "gate")


@pytest.mark.parametrize("change_to", ["iteration = -1", "number = -1", "actions = '-1 3'"])
def test_negative_numbers_and_moves_are_reported(store, change_to):
    change(store, f"UPDATE games SET {change_to} WHERE iteration = 1 AND number = 0")
    with pytest.raises(UserError, match=r"games.sqlite is damaged .*negative"):
        list_matching_games(store, GameFilter())


def test_names_of_stages_and_players_must_be_text(store):
    change(store, "UPDATE games SET stage = x'00', first = x'00' WHERE iteration = 1")
    change(store, "UPDATE stages SET stage = x'00' WHERE iteration = 1")
    for work in (store.stages, lambda: summarise_stages(store), lambda: list_players(store)):
        with pytest.raises(UserError, match="expected str"):
            work()


_PAGE = 512


@pytest.fixture
def bomb(tmp_path):
    """A 10 kB file with 13^13 games, in which all branches of a page have the same child."""
    path = tmp_path / "games.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA page_size = {_PAGE}")
        connection.execute("VACUUM")
    store = GameStore(path)
    store.write_stage(1, "gate", [GameRecord(i, "first", "second", (1, 2), 1) for i in range(200)])
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT rootpage FROM sqlite_master WHERE name = 'games'"
        (root,) = connection.execute(query).fetchone()
    pages = [bytearray(each) for (each,) in struct.iter_unpack(f"{_PAGE}s", path.read_bytes())]
    top = pages[root - 1]
    (cells,) = struct.unpack_from(">H", top, 3)
    branches = (8, *struct.unpack_from(f">{cells}H", top, 12))
    leaves = [struct.unpack_from(">I", top, offset)[0] for offset in branches]
    for number, below in pairwise([root, *leaves[:15]]):
        pages[number - 1] = bytearray(top)
        for offset in branches:
            struct.pack_into(">I", pages[number - 1], offset, below)
    path.write_bytes(b"".join(pages))
    return store


@pytest.mark.parametrize("limit", ["_FREE_OPERATIONS", "_FREE_BYTES"])
def test_repeated_pages_abort_query(bomb, monkeypatch, limit):
    monkeypatch.setattr(checks, limit, 0)
    monkeypatch.setattr(checks, f"_{'BYTES' if 'BYTES' in limit else 'OPERATIONS'}_PER_BYTE", 1)
    game_filter = GameFilter(most_plies=1000)
    queries = [lambda: bomb.stage_games(1, "gate")]
    if limit == "_FREE_OPERATIONS":
        queries += [
            bomb.game_count,
            lambda: count_matching_games(bomb, game_filter),
            lambda: summarise_stages(bomb),
        ]
    for query in queries:
        with pytest.raises(UserError, match=r"damaged \(.*its size"):
            query()


def test_ten_thousand_games_are_within_limits(tmp_path):
    store = GameStore(tmp_path / "games.sqlite")
    many = [GameRecord(number, "a", "b", (), 1) for number in range(10_000)]
    for _ in range(2):
        store.write_stages((iteration, "gate", many) for iteration in range(3))
    assert store.game_count() == 30_000
    assert summarise_stages(store)[0].games == 30_000
    assert store.stage_games(2, "gate") == many
    store.rewind(1)
    assert len(store.stages()) == 1


def test_correct_digests_do_not_disable_checks(store):
    """An attacker can compute correct digests."""
    forged = games(1)[0]._replace(agent_spans=((0, "a"),))
    text = json.dumps([[0, "a"]])
    change(
        store,
        "DELETE FROM games WHERE iteration = 1 AND number > 0",
        f"UPDATE games SET movers = '{text}' WHERE iteration = 1",
        f"UPDATE stages SET digest = '{_digest([forged])}' WHERE iteration = 1",
    )
    assert store.stage_games(1, "gate") == [forged]
    change(store, "UPDATE games SET first = CAST(first AS BLOB) WHERE iteration = 1")
    with pytest.raises(UserError, match="expected str"):
        RunFolder(store.path.parent, {}).games.stage_games(1, "gate")
