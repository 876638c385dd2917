"""`zerolab settings`: reference of run settings."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import tyro

from zerolab.cli.output import print_json, say
from zerolab.core.errors import UserError, nearest, quoted

if TYPE_CHECKING:
    from zerolab.core.setting_docs import Setting

_TEXT_WIDTH = 100


def settings(pattern: tyro.conf.Positional[str] = "", *, json: bool = False) -> None:
    """List run settings with their types, bounds, defaults, preset values and published values.

    Each alternative of a choice such as search.selection has settings of its own. Change a setting
    with zerolab train --set KEY=VALUE, or in a file for zerolab train --preset FILE.toml.

    Examples:
      zerolab settings
      zerolab settings gate
      zerolab settings 'search.*.c'
      zerolab settings --json

    Args:
        pattern: Part of a key or of an alternative's name, or a pattern with * and ?. The default
            lists all settings.
        json: Print a JSON list.
    """
    matches = _matching(pattern)
    presets = preset_values()
    if json:
        print_json([as_dict(each, presets) for each in matches])
        return
    for each in matches:
        for line in _lines(each, presets):
            say(line)


def _matching(pattern: str) -> list[Setting]:
    """Return the settings that match a pattern; raise UserError if there are none."""
    every = all_settings()
    folded = pattern.casefold()
    if any(character in folded for character in "*?"):
        matches = [each for each in every if fnmatchcase(each.key, folded)]
    else:
        matches = [
            each
            for each in every
            if folded in each.key or folded in (each.variant, *each.type.split(" | "))
        ]
    if not matches:
        parts = [part for each in every for part in (each.key, *each.key.split("."), each.variant)]
        raise UserError(f"no setting has {quoted(pattern)} in its key{nearest(pattern, parts)}")
    return matches


def all_settings() -> list[Setting]:
    """Return every setting of a run."""
    from zerolab.core.setting_docs import describe_settings
    from zerolab.training.settings import TrainSettings

    return list(describe_settings(TrainSettings))


def preset_values() -> dict[str, dict[str, Any]]:
    """Return the settings of every built-in preset by dotted key.

    Settings that a preset leaves unset have the defaults that `all_settings` describes.
    """
    from zerolab.core.setting_docs import flatten_settings
    from zerolab.training.configure import resolve_settings
    from zerolab.training.shorthands import preset_names

    defaults = {each.key: each.default for each in all_settings() if not each.variant}
    values = {}
    for name in preset_names():
        preset = resolve_settings(None, name)
        explicit = dict(flatten_settings(preset.model_dump(exclude_unset=True)))
        values[name] = {
            key: value if key in explicit else defaults.get(key, value)
            for key, value in flatten_settings(preset.model_dump())
        }
    return values


def values_in(presets: Mapping[str, Mapping[str, Any]], setting: Setting) -> dict[str, Any]:
    """Return a setting's value by preset, omitting presets that select another alternative.

    In a list of alternatives, the keys of a member's settings include its name.
    """
    parent = setting.key.rpartition(".")[0]
    return {
        name: values[setting.key]
        for name, values in presets.items()
        if setting.key in values
        and (not setting.variant or values.get(parent, setting.variant) == setting.variant)
    }


def as_dict(setting: Setting, presets: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return a setting and its preset values in JSON-compatible form."""
    return {**setting._asdict(), "presets": values_in(presets, setting)}


def shown(value: Any) -> str:
    """Format a value as users write it."""
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return str(value).lower()
    text = ", ".join(map(shown, value)) if isinstance(value, list | tuple) else str(value)
    return text or "empty"


def takes(setting: Setting) -> str:
    """Return the type and bounds of a setting."""
    return ", ".join(filter(None, (setting.type, setting.bounds)))


def by_preset(presets: Mapping[str, Mapping[str, Any]], setting: Setting) -> str:
    """Format a setting's preset values, such as ``60 (mini), 8 (smoke)``."""
    grouped: dict[str, list[str]] = {}
    for name, value in values_in(presets, setting).items():
        grouped.setdefault(shown(value), []).append(name)
    if list(grouped) == [shown(setting.default)] and not setting.variant:
        return "default in all"
    return ", ".join(f"{value} ({', '.join(names)})" for value, names in grouped.items())


def _lines(setting: Setting, presets: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    condition = f" (with {setting.variant})" if setting.variant else ""
    yield f"{setting.key}{condition}: {takes(setting)}; default {shown(setting.default)}"
    values = by_preset(presets, setting)
    for text in (setting.description, setting.papers, f"presets: {values}" if values else ""):
        yield from textwrap.wrap(
            text, _TEXT_WIDTH, initial_indent="    ", subsequent_indent="    ",
            break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip
