"""Games in PGN files, with moves named as everywhere in zerolab."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from zerolab.api.positions import game_of, require_path
from zerolab.core.errors import UserError, checked_whole_number, quoted, require_type
from zerolab.core.files import read_limited, write_text
from zerolab.play.game_files import (
    MAX_PGN_BYTES,
    ExportedGame,
    PgnText,
    as_pgn,
    decode_pgn,
    move_names,
    result_of_tags,
    split_pgn,
)
from zerolab.rules.catalogue import game_name, parse_game
from zerolab.rules.position import Position
from zerolab.rules.rules import Game

__all__ = ["RecordedGame", "format_pgn", "parse_pgn", "read_pgn", "write_pgn"]

_MOVE_NUMBER = re.compile(r"^\d+\.+")
_ANNOTATION = re.compile(r"\$\d+")
_RESULTS = ("1-0", "0-1", "1/2-1/2", "*")


class RecordedGame(NamedTuple):
    """A game as recorded in a PGN file."""

    position: Position
    """Last position, whose `line` has all others."""
    first: str = "?"
    """Name of the player who moved first, White in PGN."""
    second: str = "?"
    result: int | None = None
    """1, 0 or -1 for the first player; None if the game is not finished. A player can have resigned
    although the position is not final."""
    event: str = "?"
    given_plies: int = 0
    """Number of plies at the start that nobody chose, such as a random opening."""

    def __repr__(self) -> str:
        return f"<RecordedGame {self.first} against {self.second}, {self.position.ply} plies>"


def format_pgn(games: Iterable[RecordedGame | Position]) -> str:
    """Return games as PGN; a position stands for the game that led to it.

    Raises UserError for a game that began in a position that was set up.
    """
    if isinstance(games, str | tuple) or not isinstance(games, Iterable):
        raise UserError(f"games = {quoted(games)}: expected a list of games")
    texts: list[str] = []
    for number, each in enumerate(games, start=1):
        require_type(f"game {number}", each, (RecordedGame, Position), "a RecordedGame or Position")
        recorded = each if isinstance(each, RecordedGame) else _recorded(each)
        texts.extend(as_pgn(recorded.position.game, [_exported(recorded, number)]))
    return "".join(texts)


def write_pgn(path: Path | str, games: Iterable[RecordedGame | Position]) -> None:
    """Write games to a PGN file, replacing it if it exists; see `format_pgn`."""
    require_path("path", path)
    write_text(Path(path), format_pgn(games))


def read_pgn(path: Path | str, game: str | None = None) -> list[RecordedGame]:
    """Return the games of a PGN file, replaying and checking every move; see `parse_pgn`."""
    require_path("path", path)
    return _games(decode_pgn(read_limited(Path(path), MAX_PGN_BYTES)), game, str(path))


def parse_pgn(text: str, game: str | None = None) -> list[RecordedGame]:
    """Return the games in a PGN text, replaying and checking every move.

    The tag Variant names the game, such as ``othello:6x6``; `game` is required without it. Comments
    and annotations are skipped. Raises UserError, with the number of the game, for illegal moves,
    variations, and unknown games or results.
    """
    require_type("text", text, str, "PGN")
    return _games(text, game, "the text")


def _games(text: str, game: str | None, source: str) -> list[RecordedGame]:
    default = game_of(game)
    games = [_replayed(each, default) for each in split_pgn(text, source)]
    if not games and text.strip():
        raise UserError(f"{source} has no games: expected PGN, which begins with tags")
    return games


def _recorded(position: Position) -> RecordedGame:
    return RecordedGame(position, result=position.first_player_outcome)


def _exported(game: RecordedGame, number: int) -> ExportedGame:
    position = game.position
    require_type(f"position of game {number}", position, Position, "a zerolab.Position")
    for name in (game.first, game.second, game.event):
        require_type(f"name in game {number}", name, str, "text")
    if game.result not in (1, 0, -1, None):
        raise UserError(
            f"result of game {number} = {quoted(game.result)}: expected 1, 0, -1 or None"
        )
    given = checked_whole_number(f"given_plies of game {number}", game.given_plies)
    if position.custom_start is not None:
        raise UserError(
            f"game {number} began in a position that was set up: PGN has no name for it"
        )
    is_forfeited = game.result is not None and position.outcome is None
    moves = move_names(position.game, position.history)
    return ExportedGame(
        game.event, number, game.first, game.second, moves, game.result, is_forfeited, given
    )


def _replayed(text: PgnText, default: Game | None) -> RecordedGame:
    tags = text.tags
    position = Position.start(_game_of_tags(text, default))
    for number, move in enumerate(_moves(text), start=1):
        try:
            position = position.play(move)
        except UserError as error:
            raise UserError(f"{text.where}, move {number}: {error}") from None
    result = result_of_tags(tags, text.where)
    final = position.first_player_outcome
    if final is not None and result not in (final, None):
        raise UserError(f"{text.where}: Result contradicts the position after the last move")
    first, second = (tags.get(name, "?") for name in ("White", "Black"))
    given = tags.get("GivenPlies", "0")
    if not (given.isdecimal() and len(given) < 4 and int(given) <= position.ply):
        raise UserError(
            f"{text.where}: GivenPlies {quoted(given)}: expected a number from 0 to {position.ply}"
        )
    return RecordedGame(position, first, second, result, tags.get("Event", "?"), int(given))


def _game_of_tags(text: PgnText, default: Game | None) -> Game:
    if "FEN" in text.tags:
        raise UserError(f"{text.where}: the tag FEN: expected a game from the start position")
    variant = text.tags.get("Variant")
    if variant is None and default is not None:
        return default
    if variant is None:
        raise UserError(
            f'{text.where}: no tag Variant: expected game=..., as in game="othello:6x6"'
        )
    try:
        game = parse_game(variant)
    except UserError as error:
        raise UserError(f"{text.where}: Variant: {error}") from None
    if default not in (None, game):
        raise UserError(f"{text.where}: Variant {variant}: expected {game_name(default)}")
    return game


def _moves(text: PgnText) -> Iterator[str]:
    for word in text.movetext.split():
        move = _MOVE_NUMBER.sub("", word).rstrip("!?")
        if "(" in move or ")" in move:
            raise UserError(
                f"{text.where}: {quoted(word)} belongs to a variation: expected only the moves"
                " that were played"
            )
        if move and move not in _RESULTS and not _ANNOTATION.fullmatch(move):
            yield move
