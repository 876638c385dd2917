"""Checks of the arguments of public functions, which raise UserError with a one-line message."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import index
from pathlib import Path

from zerolab.agents.agent import Agent
from zerolab.agents.specs import parse_agents
from zerolab.core.errors import UserError, quoted, require_type
from zerolab.rules.catalogue import parse_game
from zerolab.rules.position import Position
from zerolab.rules.rules import Game

GAME_EXAMPLE = 'game=..., as in game="othello:6x6"'
_AGENT = 'an agent, such as "mcts:100" or "runs/demo"'


def checked_whole_number(name: str, value: object, least: int) -> int:
    """Return `value` as an int; raise UserError unless `least` <= `value` < 2**63."""
    try:
        number = index(value)  # type: ignore[arg-type]
    except TypeError:
        raise UserError(f"{name} = {quoted(value)}: expected a whole number") from None
    if not least <= number < 1 << 63:
        raise UserError(f"{name} = {quoted(number)}: expected at least {least} and less than 2**63")
    return number


def require_function(name: str, value: object) -> None:
    """Raise UserError unless the value is callable."""
    require_type(name, value, Callable, "a function")


def require_path(name: str, value: object) -> None:
    """Raise UserError unless the value is a path."""
    require_type(name, value, (str, Path), "a path")


def require_position(value: object) -> None:
    """Raise UserError unless the value is a position."""
    require_type("position", value, Position, "a zerolab.Position")


def agents_of(specs: Iterable[object], game: str | None) -> list[Agent]:
    """Return the agents given by specs, all for one game; raise UserError for invalid specs."""
    return parse_agents(checked_specs(specs), game_of(game), game_example=GAME_EXAMPLE)


def checked_specs(values: Iterable[object]) -> list[str]:
    """Return the values as a list of strings; raise UserError if any is not a string."""
    specs = list(values)
    for spec in specs:
        require_type("agent", spec, str, _AGENT)
    return [str(spec) for spec in specs]


def game_of(name: str | None) -> Game | None:
    """Return the game called `name`, or None if `name` is None; raise UserError if invalid."""
    return None if name is None else parse_game(name)
