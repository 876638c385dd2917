"""Options in agent specs, such as ``?simulations=400&selection.c=2``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import Field

from zerolab.core.config import Settings, validate
from zerolab.core.errors import UserError, quoted
from zerolab.core.nested_tables import assign, flatten, parse_assignments
from zerolab.networks.head import missing_output_message
from zerolab.networks.network_settings import NetworkSettings
from zerolab.search.search_settings import SearchSettings


class SearchOptions(SearchSettings):
    """Options of an agent that searches."""

    temperature_plies: int = Field(default=0, ge=0)
    """Number of initial plies whose moves are sampled in proportion to visits, for variety; later
    moves are the most visited ones."""

    @property
    def search(self) -> SearchSettings:
        """Search settings, without the other options of the agent."""
        return SearchSettings.model_validate(self.model_dump(exclude={"temperature_plies"}))


class NetworkOptions(SearchOptions):
    """Options of a network; with 0 simulations, the agent plays by the policy, without search."""

    simulations: int = Field(default=100, ge=0, le=1_000_000)


_Settings = TypeVar("_Settings", bound=Settings)
_Options = TypeVar("_Options", bound=SearchOptions)


def split_options(argument: str) -> tuple[str, str | None]:
    """Split ``100?a=1`` at the question mark; without a question mark, the options are None."""
    head, mark, options = argument.partition("?")
    return head, options if mark else None


def reject_options(argument: str, name: str) -> None:
    """Raise UserError if the spec of an agent without options has an argument."""
    if argument:
        raise UserError(f"expected {name} alone: it has no options")


def parse_options(model: type[_Settings], text: str | None, base: Settings) -> _Settings:
    """Return `base` with the changes ``a.b=c&d=e``; raise UserError for invalid options.

    `model` must have all fields of `base` and can have more. `base` itself is not validated.
    """
    return _updated(model, base, _assignments(model, text))


def parse_search_options(model: type[_Options], text: str | None, base: SearchSettings) -> _Options:
    """Return search settings changed by options; see `parse_options`."""
    assignments = _assignments(model, text)
    for path, _ in assignments:
        if path[0] == "noise":
            raise UserError(f"{'.'.join(path)}: noise is for self-play, not for agents")
    options = _updated(model, base, assignments)
    if options.simulations == 0:
        _check_without_search(options, base)
    return options


def require_network_outputs(search: SearchSettings, network: NetworkSettings) -> None:
    """Raise UserError if a search needs an output that no head of the network provides."""
    reasons = {
        "draws": f"draw_value = {search.draw_value}",
        "action_values": f"fpu = {quoted(search.fpu.name)}",
    }
    for output in sorted(search.extra_outputs):
        if not any(output in head.search_outputs for head in network.heads):
            raise UserError(f"{reasons[output]}: {missing_output_message(output, network.heads)}")


def _assignments(model: type[Settings], text: str | None) -> list[tuple[list[str], Any]]:
    if text is None:
        return []
    parts = text.split("&")
    if invalid := [part for part in parts if "=" not in part]:
        name, field = next(iter(model.model_fields.items()))
        example = f"?{name}={field.default}"
        raise UserError(f'"{invalid[0]}": expected KEY=VALUE after ?, as in {example}')
    return parse_assignments(parts)


def _updated(
    model: type[_Settings], base: Settings, assignments: Sequence[tuple[list[str], Any]]
) -> _Settings:
    data = base.model_dump()
    for path, value in assignments:
        assign(data, path, value)
    return validate(model, data)


def _check_without_search(options: SearchOptions, base: SearchSettings) -> None:
    ineffective = [
        key
        for key in changed_options(options, base)
        if key not in ("simulations", "temperature_plies")
    ]
    if ineffective:
        raise UserError(f"{ineffective[0]} has no effect without a search: simulations is 0")


def options_text(options: Settings, base: Settings) -> str:
    """Return the options that differ from `base`, after a question mark, in canonical form."""
    texts = [
        f"{key}={str(value).lower() if isinstance(value, bool) else value}"
        for key, value in changed_options(options, base).items()
    ]
    return "?" + "&".join(texts) if texts else ""


def changed_options(options: Settings, base: Settings) -> dict[str, Any]:
    """Return the options that differ from `base`, or from their default if new, sorted by key."""
    fields = type(options).model_fields
    original = {name: field.default for name, field in fields.items()} | dict(
        flatten(base.model_dump())
    )
    return {
        key: value
        for key, value in sorted(flatten(options.model_dump()))
        if original.get(key) != value
    }
