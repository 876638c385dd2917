"""Results of finished games, read from PGN files and from zerolab's own games.sqlite."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from zerolab.core.errors import UserError, nearest, quoted
from zerolab.core.files import check_file, read_limited
from zerolab.ratings.results import GameResult
from zerolab.store.checks import reading
from zerolab.store.games import GameStore

STORE_NAME = "games.sqlite"

_SQLITE = b"SQLite format 3\0"
_LARGEST_STORE = 1 << 36
_LARGEST_PGN = 1 << 27
"""Bytes; what is read of the shortest games takes about five times as many."""
_OUTCOMES = {"1-0": 1, "0-1": -1, "1/2-1/2": 0}
_UNFINISHED = "*"


class Records(NamedTuple):
    """The results in some files, and what was left out."""

    results: list[GameResult]
    unfinished: int = 0
    """Games with the result "*"."""
    against_itself: int = 0
    """Games of a player against itself, as in self-play."""


def read_records(paths: Sequence[Path]) -> Records:
    """Read PGN files, games.sqlite files and folders that hold one; the content decides the kind.

    Networks of a run are named as everywhere, ``runs/demo@12``, so those of different runs are
    never merged. A file that two paths lead to is read once. Raises UserError, in one line, for a
    file that cannot be read or understood.
    """
    files = {os.path.realpath(path): path for path in reversed([_file(path) for path in paths])}
    read = [_read(path) for path in reversed(files.values())]
    return Records(
        [result for records in read for result in records.results],
        sum(records.unfinished for records in read),
        sum(records.against_itself for records in read),
    )


def _file(path: Path) -> Path:
    return path / STORE_NAME if path.is_dir() else path


def _read(path: Path) -> Records:
    if not path.exists():
        raise UserError(f"{quoted(path)} does not exist: expected a PGN file or {STORE_NAME}")
    check_file(path, _LARGEST_STORE)
    # A database that this process has open elsewhere would lose its locks here (see
    # store/database.py): only `zerolab rate` reads records, and has none open.
    with reading(path), open(path, "rb") as file:
        is_store = file.read(len(_SQLITE)) == _SQLITE
    if is_store or path.name == STORE_NAME:
        # A file that was copied out of its run is named itself.
        run = path.parent if path.name == STORE_NAME else path
        return read_store(GameStore(path, run))
    return read_pgn(read_limited(path, _LARGEST_PGN), str(path))


def read_store(store: GameStore) -> Records:
    """Return the results of all stages."""
    games = [game for stage in store.stages() for game in store.games(*stage)]
    for game in games:
        if game.result not in (1, 0, -1):
            raise UserError(
                f"{store.path}: game {game.number} has the result {game.result!r}:"
                " expected 1, 0 or -1"
            )
    return _without_self_play(
        GameResult(game.first, game.second, game.result, game.actions) for game in games
    )


def read_pgn(content: bytes, source: str) -> Records:
    """Return the results of a PGN file; White is the player who moves first.

    UTF-8 and Latin-1 are understood. Only the tags White, Black and Result are looked at. Raises
    UserError naming `source` and the game where one is missing or the result is unknown.
    """
    results, unfinished = [], 0
    for number, tags in enumerate(_games(_decoded(content), source), start=1):
        where = f"{source}, game {number}"
        first, second, text = (_tag(tags, name, where) for name in ("White", "Black", "Result"))
        if text == _UNFINISHED:
            unfinished += 1
        elif text in _OUTCOMES:
            results.append(GameResult(first, second, _OUTCOMES[text]))
        else:
            known = [*_OUTCOMES, _UNFINISHED]
            raise UserError(
                f'{where}: Result "{_short(text)}": expected {", ".join(known[:-1])}'
                f" or {known[-1]}{nearest(text[:_SHORT], known)}"
            )
    if not results and not unfinished:
        raise UserError(f"{source} holds no games: expected PGN, with tags White, Black and Result")
    return _without_self_play(results)._replace(unfinished=unfinished)


def _without_self_play(results: Iterable[GameResult]) -> Records:
    listed = list(results)
    kept = [result for result in listed if result.first != result.second]
    return Records(kept, against_itself=len(listed) - len(kept))


def _tag(tags: dict[str, str], name: str, where: str) -> str:
    if not tags.get(name):
        raise UserError(f'{where}: the tag {name} is missing: expected [{name} "..."]')
    return tags[name]


_SHORT = 40


def _short(text: str) -> str:
    return text if len(text) <= _SHORT else text[:_SHORT] + "..."


def _decoded(content: bytes) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("latin-1")  # which PGN prescribed, and every byte is valid in
    return text.replace("\r\n", "\n").replace("\r", "\n")


_TOKENS = re.compile(
    r"""
    (?P<comment> \{ [^}]* (?P<closed>\})? | ;[^\n]* | ^%[^\n]* )
    | \[ \s* (?P<name>\w+) \s+ " (?P<value>(?:[^"\\\n]|\\.)*) " \s* \]
    | ^[^\S\n]* \[ \s* (?P<loose_name>\w+) \s+ " (?P<loose_value>[^\n]{0,1000}) " \s* \] [^\S\n]* $
    """,
    re.VERBOSE | re.MULTILINE,
)


def _games(text: str, source: str) -> Iterator[dict[str, str]]:
    """Yield the tags of every game.

    A game begins with the first tag after moves, or with one that the game before already has,
    for files without moves. What stands in comments is not looked at. A value may hold quotes
    without backslashes if its tag has a line of its own.
    """
    tags: dict[str, str] = {}
    games, end = 0, 0
    for token in _TOKENS.finditer(text):
        moves = text[end : token.start()].strip()
        end = token.end()
        name = token["name"] or token["loose_name"]
        if tags and (moves or name in tags):
            games += 1
            yield tags
            tags = {}
        if name:
            tags[name] = _unescaped(token["value"] or token["loose_value"] or "")
        elif token["comment"].startswith("{") and not token["closed"]:
            number = max(1, games + bool(tags))
            raise UserError(f"{source}, game {number}: a comment {{ is never closed")
    if tags:
        yield tags


def _unescaped(value: str) -> str:
    """Return a tag's value without escapes, control characters and needless spaces."""
    printable = re.sub(r"[\x00-\x1f\x7f-\x9f]", " ", re.sub(r'\\(["\\])', r"\1", value))
    return " ".join(printable.split())
