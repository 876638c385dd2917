"""`zerolab settings`: the settings of runs."""

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
    """List the settings of a run: type, bounds, default, values in the presets and in the papers.

    A choice, such as search.selection, has further settings. Change a setting with
    zerolab train --set KEY=VALUE, or in a file for zerolab train --preset FILE.toml.

    Examples:
      zerolab settings
      zerolab settings gate
      zerolab settings 'search.*.c'
      zerolab settings --json

    Args:
        pattern: Part of a key or of the name of a choice, or a pattern with * and ?; all by
            default.
        json: Print a JSON list.
    """
    found = _matching(pattern)
    presets = preset_values()
    if json:
        print_json([as_dict(each, presets) for each in found])
        return
    for each in found:
        for line in _lines(each, presets):
            say(line)


def _matching(pattern: str) -> list[Setting]:
    """Return the settings that a pattern fits; raise UserError if there are none."""
    every = all_settings()
    wanted = pattern.casefold()
    if any(character in wanted for character in "*?"):
        found = [each for each in every if fnmatchcase(each.key, wanted)]
    else:
        found = [each for each in every if wanted in each.key or wanted in _names(each)]
    if not found:
        parts = [part for each in every for part in (each.key, *each.key.split("."), each.variant)]
        raise UserError(f"no setting has {quoted(pattern)} in its key{nearest(pattern, parts)}")
    return found


def _names(setting: Setting) -> list[str]:
    """Return the names of choices that match a setting: its own choice, and its alternatives."""
    return [setting.variant, *setting.type.split(" | ")]


def all_settings() -> list[Setting]:
    """Return every setting of a run."""
    from zerolab.core.setting_docs import describe_settings
    from zerolab.training.settings import TrainSettings

    return list(describe_settings(TrainSettings))


def preset_values() -> dict[str, dict[str, Any]]:
    """Return the settings of every preset that comes with the package, by dotted key.

    Defaults are those that `all_settings` describes.
    """
    from zerolab.core.setting_docs import flatten_settings
    from zerolab.training.configure import resolve_settings
    from zerolab.training.preset_files import preset_names

    defaults = {each.key: each.default for each in all_settings() if not each.variant}
    found = {}
    for name in preset_names():
        preset = resolve_settings(None, name)
        chosen = dict(flatten_settings(preset.model_dump(exclude_unset=True)))
        found[name] = {
            key: value if key in chosen else defaults.get(key, value)
            for key, value in flatten_settings(preset.model_dump())
        }
    return found


def values_in(presets: Mapping[str, Mapping[str, Any]], setting: Setting) -> dict[str, Any]:
    """Return a setting's value by preset, without presets that made another choice.

    Settings of a member of a list of choices have its name in their keys.
    """
    parent = setting.key.rpartition(".")[0]
    return {
        name: values[setting.key]
        for name, values in presets.items()
        if setting.key in values
        and (not setting.variant or values.get(parent, setting.variant) == setting.variant)
    }


def as_dict(setting: Setting, presets: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return a setting and its values in the presets, for JSON."""
    return {**setting._asdict(), "presets": values_in(presets, setting)}


def shown(value: Any) -> str:
    """Return a value as users write it."""
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
    """Return the values with the presets that have them: ``60 (mini), 8 (smoke)``."""
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
