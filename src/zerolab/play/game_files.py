"""Export of games as PGN or TSV, import of results, and the positions reached in games.

Results are imported from PGN and games.sqlite. The positions of a game exclude the final one, in
which no move was made. Mirrored positions are distinct. Positions are identified by 64-bit hashes;
among 10 million positions, the probability of a collision is 3e-6.
"""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.core.errors import UserError, did_you_mean, quoted
from zerolab.core.files import check_regular_file, read_file
from zerolab.ratings.results import GameResult
from zerolab.rules import compiled_rules, rules
from zerolab.rules.catalogue import game_name, notation_of
from zerolab.rules.rules import Game
from zerolab.search.evaluator import hash_states
from zerolab.store.checks import user_errors_on_read
from zerolab.store.games import GAMES_FILE_NAME, GameRecord, GameStore

_RESULT_TAGS = {1: "1-0", -1: "0-1", 0: "1/2-1/2", None: "*"}
_LINE = 79
"""Line width of movetext; the PGN export format requires fewer than 80 characters."""


class ExportedGame(NamedTuple):
    """A game to export."""

    event: str
    """Event name, such as "runs/demo, iteration 3, gate"."""
    round: int
    first: str
    second: str
    moves: tuple[str, ...]
    """Move names, such as "c2" or "pass"."""
    result: int | None
    """1, 0 or -1 for the first player; None if the game is not finished."""
    is_forfeited: bool = False
    """True if a player forfeited the game."""
    given_plies: int = 0
    """Number of plies at the start that no player chose in this game, such as a random opening."""


def move_names(game: Game, actions: Iterable[int]) -> tuple[str, ...]:
    """Return the names of actions, such as "c2" or "pass"."""
    notation = notation_of(game)
    return tuple(notation.action_name(game, action) for action in actions)


def as_pgn(game: Game, games: Iterable[ExportedGame]) -> Iterator[str]:
    """Yield the PGN of each game; White moves first, and moves are named as in zerolab."""
    for each in games:
        result = _RESULT_TAGS[each.result]
        tags = {
            "Event": each.event,
            "Site": "?",
            "Date": "????.??.??",
            "Round": str(each.round),
            "White": each.first,
            "Black": each.second,
            "Result": result,
            "Variant": game_name(game),
            "PlyCount": str(len(each.moves)),
        }
        if each.given_plies:
            tags["GivenPlies"] = str(each.given_plies)
        if each.is_forfeited:
            tags["Termination"] = "abandoned"
        header = "".join(f'[{name} "{_escaped(value)}"]\n' for name, value in tags.items())
        yield f"{header}\n{_movetext(each.moves, result)}\n\n"


def as_tsv(game: Game, games: Iterable[ExportedGame]) -> Iterator[str]:
    """Yield a header and one tab-separated line per game, with moves in command-line notation."""
    yield "game\tevent\tround\tfirst\tsecond\tresult\tgiven_plies\tmoves\n"
    name = game_name(game)
    for each in games:
        ending = " (forfeit)" if each.is_forfeited else ""
        cells = [
            name, each.event, str(each.round), each.first, each.second,
            _RESULT_TAGS[each.result] + ending, str(each.given_plies), ",".join(each.moves),
        ]  # fmt: skip
        yield "\t".join(" ".join(cell.split()) for cell in cells) + "\n"


def _escaped(value: str) -> str:
    return " ".join(value.split()).replace("\\", "\\\\").replace('"', '\\"')


def _movetext(moves: tuple[str, ...], result: str) -> str:
    words = [f"{ply // 2 + 1}. {move}" if ply % 2 == 0 else move for ply, move in enumerate(moves)]
    return textwrap.fill(
        " ".join([*words, result]), _LINE, break_long_words=False, break_on_hyphens=False
    )


_SQLITE = b"SQLite format 3\0"
_MAX_STORE_BYTES = 1 << 36
MAX_PGN_BYTES = 1 << 27
"""Maximum size of a PGN file. The parsed results of very short games take about five times as much
memory."""
_OUTCOMES = {tag: result for result, tag in _RESULT_TAGS.items()}


class ImportedResults(NamedTuple):
    """Results from game files, and the numbers of skipped games."""

    results: list[GameResult]
    unfinished_count: int = 0
    """Number of games with the result "*"."""
    self_play_count: int = 0
    """Number of games of a player against itself, such as self-play games."""


def read_game_results(paths: Sequence[Path]) -> ImportedResults:
    """Return the results in PGN files, games.sqlite files and folders that contain games.sqlite.

    The format is detected from the content. Networks have their usual names, such as
    ``runs/demo@12``, which distinguish networks of different runs. A file given more than once
    is read only once. Raises UserError for unreadable or invalid files.
    """
    resolved = [path / GAMES_FILE_NAME if path.is_dir() else path for path in paths]
    files = {os.path.realpath(path): path for path in reversed(resolved)}
    parts = [_read(path) for path in reversed(files.values())]
    return ImportedResults(
        [result for part in parts for result in part.results],
        sum(part.unfinished_count for part in parts),
        sum(part.self_play_count for part in parts),
    )


def _read(path: Path) -> ImportedResults:
    if not path.exists():
        raise UserError(f"{quoted(path)} does not exist: expected a PGN file or {GAMES_FILE_NAME}")
    check_regular_file(path, _MAX_STORE_BYTES)
    # Closing the file releases this process's locks on the database (see store/checks.py). This is
    # safe because the only caller, `zerolab rate`, has no database open.
    with user_errors_on_read(path), open(path, "rb") as file:
        is_store = file.read(len(_SQLITE)) == _SQLITE
    if is_store or path.name == GAMES_FILE_NAME:
        # Networks in a renamed copy of games.sqlite are named after the file instead of the run.
        run = path.parent if path.name == GAMES_FILE_NAME else path
        return _results_of_game_store(GameStore(path, run))
    return read_pgn_results(read_file(path, MAX_PGN_BYTES), str(path))


def _results_of_game_store(store: GameStore) -> ImportedResults:
    """Return the results of all stages of a game store."""
    games = store.games_of_stages(store.stages())
    for game in games:
        if game.result not in (1, 0, -1):
            raise UserError(
                f"{store.path}: game {game.number} has the result {game.result!r}:"
                " expected 1, 0 or -1"
            )
    return _without_self_play(
        GameResult(game.first, game.second, game.result, game.actions) for game in games
    )


def read_pgn_results(content: bytes, source: str) -> ImportedResults:
    """Return the results in a PGN file; White moves first.

    The encoding is UTF-8 or Latin-1. Only the White, Black and Result tags are used. Raises
    UserError, naming `source` and the game, if a tag is missing or the result is unknown.
    """
    results, unfinished_count = [], 0
    for where, tags, _ in split_pgn(decode_pgn(content, source), source):
        first, second = (_tag(tags, name, where) for name in ("White", "Black"))
        result = result_of_tags(tags, where)
        if result is None:
            unfinished_count += 1
        else:
            results.append(GameResult(first, second, result))
    if not results and not unfinished_count:
        raise UserError(
            f"{source} contains no games: expected PGN with the White, Black and Result tags"
        )
    return _without_self_play(results)._replace(unfinished_count=unfinished_count)


def _without_self_play(results: Iterable[GameResult]) -> ImportedResults:
    all_results = list(results)
    between_players = [result for result in all_results if result.first != result.second]
    return ImportedResults(between_players, self_play_count=len(all_results) - len(between_players))


def result_of_tags(tags: dict[str, str], location: str) -> int | None:
    """Return the result for White in the tags of a game; None if the game is not finished.

    Raises UserError, beginning with `location`, if the Result tag is missing or its value is
    unknown.
    """
    text = _tag(tags, "Result", location)
    if text in _OUTCOMES:
        return _OUTCOMES[text]
    known = list(_OUTCOMES)
    excerpt = text if len(text) <= _SHORT else text[:_SHORT] + "..."
    raise UserError(
        f'{location}: Result "{excerpt}": expected {", ".join(known[:-1])}'
        f" or {known[-1]}{did_you_mean(text[:_SHORT], known)}"
    )


def _tag(tags: dict[str, str], name: str, location: str) -> str:
    if not tags.get(name):
        raise UserError(f'{location}: the {name} tag is missing: expected [{name} "..."]')
    return tags[name]


_SHORT = 40


def decode_pgn(content: bytes, source: str) -> str:
    """Return the text of a PGN file in UTF-8 or Latin-1, with line feeds as line breaks.

    Raises UserError, naming `source`, for a file that is not text.
    """
    if b"\0" in content:
        raise UserError(f"{source} is not a text file: expected games in PGN")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("latin-1")  # required by the PGN standard; accepts every byte
    return text.replace("\r\n", "\n").replace("\r", "\n")


_TOKENS = re.compile(
    r"""
    (?P<comment> \{ [^}]* (?P<closed>\})? | ;[^\n]* | ^%[^\n]* )
    | \[ \s* (?P<name>\w+) \s+ " (?P<value>(?:[^"\\\n]|\\.)*) " \s* \]
    | ^[^\S\n]* \[ \s* (?P<loose_name>\w+) \s+ " (?P<loose_value>[^\n]{0,1000}) " \s* \] [^\S\n]* $
    """,
    re.VERBOSE | re.MULTILINE,
)


class PgnGame(NamedTuple):
    """The parts of a game in a PGN file."""

    location: str
    """Location of the game for error messages, such as ``games.pgn, game 3``."""
    tags: dict[str, str]
    movetext: str
    """Text after the tags, without comments."""


def split_pgn(text: str, source: str) -> Iterator[PgnGame]:
    """Yield the tags and the movetext of every game.

    A game begins at the first tag after movetext. In files without movetext, it begins at a tag
    that the previous game already has. Comments are skipped. Tag values can contain unescaped
    quotes if the tag is on a separate line.
    """
    tags: dict[str, str] = {}
    movetext: list[str] = []
    games, end = 0, 0
    for token in _TOKENS.finditer(text):
        moves = text[end : token.start()].strip()
        end = token.end()
        name = token["name"] or token["loose_name"]
        movetext += [moves] if moves and tags else []
        if tags and name and (movetext or name in tags):
            games += 1
            yield PgnGame(f"{source}, game {games}", tags, " ".join(movetext))
            tags, movetext = {}, []
        if name:
            tags[name] = _unescaped(token["value"] or token["loose_value"] or "")
        elif token["comment"].startswith("{") and not token["closed"]:
            number = max(1, games + bool(tags))
            raise UserError(f"{source}, game {number}: unclosed comment, expected }} after {{")
    if tags:
        last = " ".join([*movetext, text[end:].strip()])
        yield PgnGame(f"{source}, game {games + 1}", tags, last)


def _unescaped(value: str) -> str:
    """Return a tag value with escapes resolved, and control characters and spaces collapsed."""
    printable = re.sub(r"[\x00-\x1f\x7f-\x9f]", " ", re.sub(r'\\(["\\])', r"\1", value))
    return " ".join(printable.split())


class ReachedPositions(NamedTuple):
    """N positions reached in several games, ordered by ply."""

    hashes: NDArray[np.uint64]
    """uint64[N]: hashes of the positions."""
    game_indices: NDArray[np.int64]
    """int64[N]: index, in the list of records, of the game of each position."""
    plies: NDArray[np.int64]
    """int64[N]: number of previous moves."""


def reached_positions(game: Game, records: Sequence[GameRecord]) -> ReachedPositions:
    """Return all positions of the games except their final positions."""
    chunks = [
        ReachedPositions(np.empty(0, np.uint64), np.empty(0, np.int64), np.empty(0, np.int64))
    ]
    states = np.empty((len(records), rules.word_count(game)), np.uint64)
    states[:] = compiled_rules.start(game)
    lengths = np.array([record.ply_count for record in records], np.int64)
    for ply in range(int(lengths.max(initial=0))):
        playing = np.flatnonzero(lengths > ply)
        hashes = np.empty(len(playing), np.uint64)
        hash_states(states[playing], hashes)
        chunks.append(ReachedPositions(hashes, playing, np.full(len(playing), ply)))
        actions = np.array([records[at].actions[ply] for at in playing.tolist()], np.int64)
        compiled_rules.apply_batch(game, states, playing, actions)
    return ReachedPositions(*map(np.concatenate, zip(*chunks, strict=True)))
