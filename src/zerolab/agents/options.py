"""Options of an agent's spec: ``?simulations=400&selection.c=2``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import Field

from zerolab.core.config import Settings, assign, parse_assignments, validate
from zerolab.core.errors import UserError, quoted
from zerolab.core.flattening import flatten
from zerolab.networks.head import missing_output
from zerolab.networks.network_settings import NetworkSettings
from zerolab.search.search_settings import SearchSettings


class SearchOptions(SearchSettings):
    """Options of an agent that searches."""

    temperature_plies: int = Field(default=0, ge=0)
    """Plies at the start of a game whose moves are drawn in proportion to the visits, so that games
    differ; later moves are the most visited ones."""

    @property
    def search(self) -> SearchSettings:
        """The settings of the search, without the agent's other options."""
        return SearchSettings.model_validate(self.model_dump(exclude={"temperature_plies"}))


class NetworkOptions(SearchOptions):
    """Options of a network; with 0 simulations, its policy plays alone."""

    simulations: int = Field(default=100, ge=0, le=1_000_000)


_Settings = TypeVar("_Settings", bound=Settings)
_Options = TypeVar("_Options", bound=SearchOptions)


def split_options(argument: str) -> tuple[str, str | None]:
    """Split ``100?a=1`` at the question mark; the options are None without one."""
    head, mark, options = argument.partition("?")
    return head, options if mark else None


def refuse_options(argument: str, name: str) -> None:
    """Raise UserError if anything follows the name of an agent without options."""
    if argument:
        raise UserError(f"expected {name} alone: it has no options")


def parse_settings(model: type[_Settings], text: str | None, base: Settings) -> _Settings:
    """Return `base` updated by ``a.b=c&d=e``; raise UserError for every mistake.

    `model` has all fields of `base` and may have more. `base` itself is not checked.
    """
    return _on_top(model, base, _assignments(model, text))


def parse_options(model: type[_Options], text: str | None, base: SearchSettings) -> _Options:
    """Return a search updated by options; see `parse_settings`."""
    assignments = _assignments(model, text)
    for path, _ in assignments:
        if path[0] == "noise":
            raise UserError(f"{'.'.join(path)}: noise is for self-play, agents have none")
    options = _on_top(model, base, assignments)
    if options.simulations == 0:
        _require_plain(options, base)
    return options


def require_answers(search: SearchSettings, network: NetworkSettings) -> None:
    """Raise UserError where a search needs an output that none of the network's heads has."""
    asking = {
        "draws": f"draw_value = {search.draw_value}",
        "action_values": f"fpu = {quoted(search.fpu.name)}",
    }
    for answer in sorted(search.extra_outputs):
        if not any(answer in head.outputs for head in network.heads):
            raise UserError(f"{asking[answer]}: {missing_output(answer, network.heads)}")


def _assignments(model: type[Settings], text: str | None) -> list[tuple[list[str], Any]]:
    if text is None:
        return []
    parts = text.split("&")
    if wrong := [part for part in parts if "=" not in part]:
        name, field = next(iter(model.model_fields.items()))
        example = f"?{name}={field.default}"
        raise UserError(f'"{wrong[0]}": expected KEY=VALUE after ?, as in {example}')
    return parse_assignments(parts)


def _on_top(
    model: type[_Settings], base: Settings, assignments: Sequence[tuple[list[str], Any]]
) -> _Settings:
    data = base.model_dump()
    for path, value in assignments:
        assign(data, path, value)
    return validate(model, data)


def _require_plain(options: SearchOptions, base: SearchSettings) -> None:
    idle = [
        key
        for key in changed_options(options, base)
        if key not in ("simulations", "temperature_plies")
    ]
    if idle:
        raise UserError(f"{idle[0]} has no effect without a search: simulations is 0")


def options_text(options: Settings, base: Settings) -> str:
    """Return the options that differ from `base` in canonical spelling, with a question mark."""
    changed = changed_options(options, base)
    return (
        "?" + "&".join(f"{key}={_option_text(changed[key])}" for key in changed) if changed else ""
    )


def changed_options(options: Settings, base: Settings) -> dict[str, Any]:
    """Return the settings that differ from `base`, or from their defaults if new, by sorted key."""
    fields = type(options).model_fields
    former = {name: field.default for name, field in fields.items()} | dict(
        flatten(base.model_dump())
    )
    return {
        key: value
        for key, value in sorted(flatten(options.model_dump()))
        if former.get(key) != value
    }


def _option_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
