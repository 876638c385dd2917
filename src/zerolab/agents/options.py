"""What follows the question mark of a player: ``?simulations=400&selection.c=2``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from pydantic import Field

from zerolab.core.config import assign, parse_assignments, validate
from zerolab.core.errors import UserError
from zerolab.search.settings import SearchSettings


class SearchOptions(SearchSettings):
    """A search as a player."""

    sampled_plies: int = Field(default=0, ge=0)
    """Plies at the start of a game that are drawn in proportion to the visits, not the most
    visited, so that games differ."""

    @property
    def search(self) -> SearchSettings:
        """The settings of the search alone."""
        return SearchSettings.model_validate(self.model_dump(exclude={"sampled_plies"}))


class NetworkOptions(SearchOptions):
    """A network as a player; without simulations, its policy plays alone."""

    simulations: int = Field(default=100, ge=0, le=1_000_000)


_Options = TypeVar("_Options", bound=SearchOptions)


def split_options(argument: str) -> tuple[str, str | None]:
    """Split ``100?a=1`` into what stands before the question mark and the options, if any."""
    head, mark, options = argument.partition("?")
    return head, options if mark else None


def refuse_options(argument: str, player: str) -> None:
    """Raise UserError if anything follows the name of a player that takes nothing."""
    if argument:
        raise UserError(f"expected {player} alone, it has no options")


def parse_options(model: type[_Options], text: str | None, base: SearchSettings) -> _Options:
    """Return `base` with ``a.b=c&d=e`` on top; raise UserError for every mistake."""
    data = base.model_dump()
    if text is not None:
        parts = text.split("&")
        if wrong := [part for part in parts if "=" not in part]:
            raise UserError(f'"{wrong[0]}": expected KEY=VALUE after ?, as in ?simulations=400')
        for path, value in parse_assignments(parts):
            if path[0] == "noise":
                raise UserError(f"{'.'.join(path)}: noise is for self-play, players have none")
            assign(data, path, value)
    options = validate(model, data)
    if options.simulations == 0:
        _require_plain(options, base)
    return options


def _require_plain(options: SearchOptions, base: SearchSettings) -> None:
    idle = [
        key for key in differences(options, base) if key not in ("simulations", "sampled_plies")
    ]
    if idle:
        raise UserError(f"{idle[0]} has no effect without a search: simulations is 0")


def describe(options: SearchOptions, base: SearchSettings) -> str:
    """Return the options that differ from `base`, with a question mark, in their one spelling."""
    changed = differences(options, base)
    return "?" + "&".join(f"{key}={_shown(changed[key])}" for key in changed) if changed else ""


def differences(options: SearchOptions, base: SearchSettings) -> dict[str, Any]:
    """Return the settings that differ from `base` (and from no sampled plies), sorted by key."""
    former = {"sampled_plies": 0, **dict(_flat(base.model_dump()))}
    return {
        key: value for key, value in sorted(_flat(options.model_dump())) if former.get(key) != value
    }


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
