"""Registered games, their names, and the notation of actions and boards.

``docs/glossary.md`` defines the terms. All methods of a notation are optional. By default, the name
of an action is its number, and a board is drawn as rows of pieces below the letters of its columns.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from zerolab.core.config import validate, variant_settings_class
from zerolab.core.errors import UserError, quoted, require_type
from zerolab.core.registry import Registry, import_modules, load_plugins
from zerolab.report.board_shapes import BoardStyle
from zerolab.rules import compiled_rules, rules
from zerolab.rules.encoding import ENCODING_INTERFACE, Encoding
from zerolab.rules.rules import (
    RULES_INTERFACE,
    SOLVER_RULES_INTERFACE,
    Game,
    Rules,
    SolverRules,
    State,
)

PLAIN_SYMBOLS: Mapping[int, str] = {1: "X", -1: "O", 0: "."}
"""Symbols of the first player's pieces (1), the second player's pieces (-1) and empty cells."""

COLOURED_SYMBOLS: Mapping[int, str] = {
    1: "\x1b[1;31mX\x1b[0m",
    -1: "\x1b[1;34mO\x1b[0m",
    0: "\x1b[2m.\x1b[0m",
}
"""Symbols with ANSI colours for terminals."""


class Notation:
    """Base class of notations."""

    @staticmethod
    def action_name(game: Game, action: int) -> str:
        """Return the unique name of an action."""
        return str(action)

    @classmethod
    def parse_action(cls, game: Game, text: str) -> int | None:
        """Return the action with a given name, or None; the number of an action is also valid."""
        is_number = text.isdecimal() and len(text) < 10  # Python rejects very long numbers
        return int(text) if is_number and int(text) < rules.action_count(game) else None

    @classmethod
    def move_examples_text(cls, game: Game) -> str:
        """Return the words that complete "moves are ...", such as "cells such as c2"."""
        return f"numbers from 0 to {rules.action_count(game) - 1}"

    @staticmethod
    def column_label(game: Game, column: int) -> str:
        """Return the label above a column of the board, by default a letter starting from a."""
        return string.ascii_lowercase[column]

    @staticmethod
    def mover_board(game: Game, state: State) -> NDArray[np.int8]:
        """Return int8[rows, columns]: 1 for the mover's pieces, -1 for the opponent's.

        By default, this is plane 0 of the encoding.
        """
        return compiled_rules.encode(game, state)[0].astype(np.int8)

    @classmethod
    def state_of_mover_board(
        cls, game: Game, board: NDArray[np.int8], first_to_move: bool
    ) -> State:
        """Return the state with the given pieces on the board, the inverse of `mover_board`.

        `board`, int8[rows, columns], is 1 for the mover's pieces and -1 for the opponent's. If
        `first_to_move` is true, the mover is the player who made the first move of the game. Raises
        UserError for boards that are recognised as unreachable; by default, for every board.
        """
        raise UserError("pieces cannot be set up in this game: expected moves instead")

    @classmethod
    def draw_board(
        cls, game: Game, board: NDArray[np.int8], symbols: Mapping[int, str]
    ) -> list[str]:
        """Return the lines of a drawing: the column labels, then the rows, numbered from 1.

        `board`, int8[rows, columns], is 1 for the first player's pieces and -1 for the second
        player's. `symbols` is PLAIN_SYMBOLS or COLOURED_SYMBOLS.
        """
        labels = (cls.column_label(game, column) for column in range(board.shape[1]))
        rows = (
            f"{number} {' '.join(symbols[int(piece)] for piece in row)}"
            for number, row in enumerate(board, start=1)
        )
        return ["  " + " ".join(labels), *rows]


class GameRegistration(NamedTuple):
    """Type, parts and drawing of a registered game, and a class that validates its fields."""

    game_type: Any
    rules: type[Rules]
    encoding: type[Encoding]
    notation: type[Notation]
    solver_rules: type[SolverRules]
    drawing: BoardStyle
    settings_class: type[Any]
    default_size: tuple[int, int]
    """Rows and columns of a game that is named without a size."""

    def field_bounds(self) -> dict[str, tuple[int, int]]:
        """Return the smallest and largest valid value of every field of the game."""
        return {name: _field_bounds(self.settings_class, name) for name in self.game_type._fields}

    def default_game(self) -> Game:
        """Return the game of the default size, clamped to the bounds."""
        limits = list(self.field_bounds().values())
        sizes = zip(self.default_size, limits, strict=False)
        game: Game = self.game_type(*(min(max(size, low), high) for size, (low, high) in sizes))
        return game


_REGISTRY: Registry[GameRegistration] = Registry("game")


def register_game(
    name: str,
    game_type: type,
    rules: type[Rules],
    encoding: type[Encoding],
    notation: type[Notation] = Notation,
    solver_rules: type[SolverRules] = SolverRules,
    drawing: BoardStyle = BoardStyle(),  # noqa: B008 -- it is immutable
    default_size: tuple[int, int] = (6, 6),
) -> None:
    """Register `game_type`, a NamedTuple, under `name`.

    The module `zerolab.rules.rules` describes the parts of a game, and `drawing` is the appearance
    of its board in images. The fields of `game_type` are integers with bounds, and the first two
    are `rows` and `columns`. Users write the values of the fields after the name, as in
    ``name:ROWSxCOLUMNS:OTHER``. The name alone means `default_size`, or the nearest size within the
    bounds. Raises TypeError, naming the missing functions, if a part lacks required functions, and
    ValueError if the name is already registered.
    """
    RULES_INTERFACE.implement(game_type, rules)
    ENCODING_INTERFACE.implement(game_type, encoding)
    SOLVER_RULES_INTERFACE.implement(game_type, solver_rules)
    settings_class = variant_settings_class(game_type, name)
    registration = GameRegistration(
        game_type, rules, encoding, notation, solver_rules, drawing, settings_class, default_size
    )
    _REGISTRY.add(name, registration)


@cache
def registered_games() -> Registry[GameRegistration]:
    """Return all games: those in zerolab.games, and plug-ins from other packages."""
    import_modules("zerolab.games")  # not an import statement, since `games` is a higher layer
    load_plugins("games")
    return _REGISTRY


def parse_game(text: str) -> Game:
    """Return the game named ``name:ROWSxCOLUMNS[:OTHER]``, or ``name`` for the default size.

    Raises UserError for invalid names.
    """
    require_type("game", text, str, 'a name, such as "othello:6x6"')
    name, colon, sizes = text.strip().partition(":")
    registration = registered_games()[name]
    if not colon:
        return registration.default_game()
    fields = registration.game_type._fields
    numbers = re.fullmatch(r"(\d{1,99})x(\d{1,99})((?::\d{1,99})*)", sizes)
    others = numbers[3].split(":")[1:] if numbers else []
    if numbers is None or len(others) > len(fields) - 2:
        form = "ROWSxCOLUMNS" + "".join(f"[:{field.upper()}]" for field in fields[2:])
        raise UserError(f"{quoted(text)} is not a game: expected {name}:{form}, such as {name}:6x6")
    values = [int(number) for number in (numbers[1], numbers[2], *others)]
    settings = validate(
        registration.settings_class,
        {"name": name, **dict(zip(fields, values, strict=False))},
        source=text,
    )
    game = settings.build()
    try:
        registration.rules.check(game)
    except ValueError as error:
        raise UserError(f"{text}: {error}") from None
    return game


def game_name(game: Game) -> str:
    """Return the canonical name of a game, without the fields after the size if all are defaults.

    This is the inverse of `parse_game`.
    """
    name, _ = _registered(game)
    rows, columns, *others = game
    defaults = [game._field_defaults.get(field) for field in game._fields[2:]]
    suffix = "" if others == defaults else "".join(f":{value}" for value in others)
    return f"{name}:{rows}x{columns}{suffix}"


def canonical_game_name(text: str) -> str:
    """Return the canonical name of a game; raise ValueError for invalid names.

    The ValueError makes this function usable as a pydantic validator.
    """
    try:
        return game_name(parse_game(text))
    except UserError as error:
        raise ValueError(str(error)) from None


def is_game(value: object) -> bool:
    """Return True if the type of a value is a registered game."""
    return any(
        registration.game_type is type(value) for registration in registered_games().values()
    )


def notation_of(game: Game) -> type[Notation]:
    """Return the notation of a game."""
    return _registered(game)[1].notation


def board_drawing(game: Game) -> BoardStyle:
    """Return the drawing of a game's board."""
    return _registered(game)[1].drawing


def _registered(game: Game) -> tuple[str, GameRegistration]:
    for name, registration in registered_games().items():
        if registration.game_type is type(game):
            return name, registration
    raise TypeError(f"{type(game).__name__} is not registered as a game")


def _field_bounds(settings: type[BaseModel], field: str) -> tuple[int, int]:
    bounds: dict[str, int] = {}
    for constraint in settings.model_fields[field].metadata:
        bounds |= {
            key: getattr(constraint, key) for key in ("ge", "le") if hasattr(constraint, key)
        }
    return bounds["ge"], bounds["le"]
