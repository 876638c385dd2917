"""Ways to damage a file, imitating failing disks, interrupted copies and attackers.

Each function changes one file at random and returns whether it changed anything.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import sqlite3
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

_GIGABYTES = 8 << 30  # a sparse file, which takes no disk space
_BOMB = 2 << 30
_CONTROL = ("\x1b[2J", "\x1b]0;title\x07", "\r\x00", "\u009b31m", "\u202e")
_NUMBERS = ("-1", "1e308", "1e999", "0", "99999999999999999999", "9" * 5000, "NaN", "true", '"x"')
_TEXT = {".toml", ".json", ".jsonl", ".csv", ".pgn", ".md"}


def truncate(path: Path, draw: random.Random) -> bool:
    """Truncate the file at a random position."""
    size = path.stat().st_size
    os.truncate(path, draw.randrange(size) if size else 0)
    return size > 0


def empty(path: Path, draw: random.Random) -> bool:
    """Empty the file."""
    changes = path.stat().st_size > 0
    path.write_bytes(b"")
    return changes


def zero(path: Path, draw: random.Random) -> bool:
    """Overwrite part of the file or all of it with zeros."""
    content = path.read_bytes()
    first = draw.choice([0, draw.randrange(len(content) + 1)])
    last = draw.choice([len(content), draw.randint(first, len(content))])
    return _replace(path, content[:first] + bytes(last - first) + content[last:])


def flip(path: Path, draw: random.Random) -> bool:
    """Flip one bit."""
    content = bytearray(path.read_bytes())
    if not content:
        return False
    content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    return _replace(path, bytes(content))


def noise(path: Path, draw: random.Random) -> bool:
    """Overwrite part of the file with random bytes."""
    content = path.read_bytes()
    first = draw.randrange(len(content) + 1)
    return _replace(path, content[:first] + draw.randbytes(200) + content[first + 200 :])


def delete(path: Path, draw: random.Random) -> bool:
    """Delete the file."""
    path.unlink()
    return True


def folder(path: Path, draw: random.Random) -> bool:
    """Replace the file with a folder."""
    path.unlink()
    path.mkdir()
    return True


def pipe(path: Path, draw: random.Random) -> bool:
    """Replace the file with a named pipe without a writer."""
    path.unlink()
    os.mkfifo(path)
    return True


def dangling(path: Path, draw: random.Random) -> bool:
    """Replace the file with a dangling link."""
    path.unlink()
    path.symlink_to("nowhere")
    return True


def circle(path: Path, draw: random.Random) -> bool:
    """Replace the file with a link to itself."""
    path.unlink()
    path.symlink_to(path.name)
    return True


def endless(path: Path, draw: random.Random) -> bool:
    """Replace the file with a link to a device with endless content."""
    path.unlink()
    path.symlink_to("/dev/zero")
    return True


def sparse(path: Path, draw: random.Random) -> bool:
    """Append gigabytes of zeros to the file, or replace its content with them."""
    if draw.random() < 0.5:
        path.write_bytes(b"")
    os.truncate(path, _GIGABYTES)
    return True


def text(path: Path, draw: random.Random) -> bool:
    """Replace the content with short text."""
    return _replace(
        path, draw.choice([b"hello\n", b"{}", b"[]", b"null\n", b"\n" * 1000, b"PK\x03\x04"])
    )


def nested(path: Path, draw: random.Random) -> bool:
    """Replace the content, or a value in it, with deeply nested JSON."""
    deep = draw.choice(
        ['{"a":' * 50_000 + "1" + "}" * 50_000, "[" * 100_000, "[" * 900 + "]" * 900]
    )
    content = path.read_text(errors="replace") if path.suffix in _TEXT else ""
    values = list(re.finditer(r"(?<=[:=] )[^,\n}]+", content))
    if not values or draw.random() < 0.3:
        return _replace(path, deep.encode())
    value = draw.choice(values)
    return _replace(path, (content[: value.start()] + deep + content[value.end() :]).encode())


def keys(path: Path, draw: random.Random) -> bool:
    """Add a hundred thousand keys in separate tables."""
    if path.suffix == ".toml":
        lines = "".join(f"k{n}.a.b.c.d = {n}\n" for n in range(100_000))
        return _replace(path, lines.encode() + path.read_bytes())
    if path.suffix == ".json":
        return _replace(
            path, json.dumps({f"k{n}": {"a": {"b": n}} for n in range(100_000)}).encode()
        )
    return False


def number(path: Path, draw: random.Random) -> bool:
    """Replace a number with an extreme one."""
    return _substitute(path, draw, r"(?<![\w.])-?\d+(\.\d+)?(?![\w.])", _NUMBERS)


def control(path: Path, draw: random.Random) -> bool:
    """Replace a word with terminal control characters, escaped if the format requires it."""
    is_plain = path.suffix in {".pgn", ".csv", ".md"}
    words = _CONTROL if is_plain else tuple(json.dumps(each)[1:-1] for each in _CONTROL)
    return _substitute(path, draw, r"(?<=[\"'])[A-Za-z]\w+(?=[^\n\"']*[\"'])", words)


def word(path: Path, draw: random.Random) -> bool:
    """Replace a word with another one."""
    others = ("", "run", "random", "../..", "x" * 100_000, "mcts:999999999", 'gtp:"sleep 600"')
    return _substitute(path, draw, r"(?<=[\"'])[A-Za-z_]\w*(?=[^\n\"']*[\"'])", others)


def lines(path: Path, draw: random.Random) -> bool:
    """Drop, repeat or move a line."""
    if path.suffix not in _TEXT:
        return False
    every = path.read_bytes().splitlines(keepends=True)
    if len(every) < 2:
        return False
    line = every.pop(draw.randrange(len(every)))
    for _ in range(draw.choice([0, 1, 2, 1000])):
        every.insert(draw.randrange(len(every) + 1), line)
    return _replace(path, b"".join(every))


def bomb(path: Path, draw: random.Random) -> bool:
    """Replace an array in an archive with gigabytes of zeros compressed to megabytes."""
    if path.suffix != ".npz":
        return False
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    victim = draw.choice(sorted(members))
    head = b"\x93NUMPY\x01\x00" + (118).to_bytes(2, "little")
    shape = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({_BOMB},), }}"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, content in members.items():
            if name != victim:
                archive.writestr(name, content)
        with archive.open(victim, "w", force_zip64=True) as file:
            file.write(head + shape.ljust(117).encode() + b"\n")
            for _ in range(_BOMB >> 24):
                file.write(bytes(1 << 24))
    return True


def crowd(path: Path, draw: random.Random) -> bool:
    """Replace the games with those of thousands of players who each meet a few others."""
    if path.suffix != ".pgn":
        return False
    games = (
        f'[White "p{n}"]\n[Black "p{draw.randrange(20_000)}"]\n[Result "1-0"]\n\n1-0\n'
        for n in range(20_000)
    )
    path.write_text("\n".join(games))
    return True


_ENDLESS_QUERY = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x"
_SQL = (
    "ALTER TABLE {table} RENAME TO kept; CREATE VIEW {table} AS SELECT * FROM kept",
    "ALTER TABLE {table} RENAME TO kept; CREATE VIEW {table} AS " + _ENDLESS_QUERY
    + " AS {column} FROM n",
    "CREATE TRIGGER t AFTER INSERT ON {table} BEGIN DELETE FROM {table}; END",
    "CREATE TRIGGER t BEFORE INSERT ON {table} BEGIN SELECT RAISE(ABORT, 'no'); END",
    "UPDATE {table} SET {column} = x'ff00fe'",
    "UPDATE {table} SET {column} = NULL",
    "UPDATE {table} SET {column} = '\x1b[2J' || {column}",
    "UPDATE {table} SET {column} = 9223372036854775807",
    "UPDATE {table} SET {column} = 1e300",
    "UPDATE {table} SET {column} = '{deep}'",
    "UPDATE {table} SET {column} = replace(hex(zeroblob(20000000)), '0', 'a')",
    "UPDATE {table} SET {column} = (SELECT {column} FROM {table} LIMIT 1)",
    "DELETE FROM {table}",
    "DROP TABLE {table}",
    "ALTER TABLE {table} DROP COLUMN {column}",
    "ALTER TABLE {table} ADD COLUMN extra DEFAULT 7",
    "ALTER TABLE {table} ADD COLUMN extra GENERATED ALWAYS AS (randomblob(100000000))",
    "CREATE TABLE more (a); INSERT INTO more VALUES (1)",
    "PRAGMA user_version = 77",
    "PRAGMA journal_mode = WAL",
)  # fmt: skip


def database(path: Path, draw: random.Random) -> bool:
    """Change the tables of an SQLite database or their content."""
    if path.suffix != ".sqlite":
        return False
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT name FROM sqlite_master WHERE type = 'table'"
        tables = connection.execute(query).fetchall()
        if not tables:
            return False
        table = draw.choice(tables)[0]
        columns = connection.execute(f"SELECT name FROM pragma_table_info('{table}')").fetchall()
        names = {"table": table, "column": draw.choice(columns)[0], "deep": "[" * 100_000}
        try:
            connection.executescript("PRAGMA ignore_check_constraints = ON;"
                                     + draw.choice(_SQL).format(**names))  # fmt: skip
        except sqlite3.Error:  # forbidden by a table constraint
            return False
    return True


def forbidden(path: Path, draw: random.Random) -> bool:
    """Make the file unreadable, which has no effect for root."""
    if os.geteuid() == 0:
        return False
    path.chmod(0)
    return True


def _substitute(path: Path, draw: random.Random, pattern: str, others: tuple[str, ...]) -> bool:
    if path.suffix not in _TEXT:
        return False
    content = path.read_text(errors="replace")
    matches = list(re.finditer(pattern, content))
    if not matches:
        return False
    match, other = draw.choice(matches), draw.choice(others)
    return _replace(path, (content[: match.start()] + other + content[match.end() :]).encode())


def _replace(path: Path, content: bytes) -> bool:
    changes = content != path.read_bytes()
    path.write_bytes(content)
    return changes


_Way = Callable[[Path, random.Random], bool]
WAYS: dict[str, _Way] = {
    each.__name__: each
    for each in (
        truncate, empty, zero, flip, noise, delete, folder, pipe, dangling, circle, endless, sparse,
        text, nested, keys, number, control, word, lines, bomb, crowd, database, forbidden,
    )
}  # fmt: skip
"""All kinds of damage by name, except `exchange`, which needs another file."""


def exchange(path: Path, other: Path) -> bool:
    """Replace the file with a copy of another one."""
    if not other.is_file() or other.read_bytes() == path.read_bytes():
        return False
    shutil.copy(other, path)
    return True


def damage(path: Path, others: list[Path], draw: random.Random) -> str:
    """Damage a file at random; return the kind of damage."""
    ways: list[Any] = [*WAYS, "exchange"]
    draw.shuffle(ways)
    for name in sorted(ways, key=lambda each: each == "flip"):  # `flip` always works, so it is last
        if name == "exchange":
            has_changed = exchange(path, draw.choice(others))
        else:
            has_changed = WAYS[name](path, draw)
        if has_changed:
            return str(name)
    raise ValueError(f"{path} cannot be damaged")
