"""Nested tables of settings: assignments to dotted keys, TOML, and flattening to dotted keys."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from zerolab.core.errors import UserError, did_you_mean, one_line, quoted
from zerolab.core.files import read_text

_DEEPEST_KEY = 20
_LARGEST_FILE = 1 << 20

_QUOTED = re.compile(
    r"""
      [\"]{3} (?: \\. | [^\\] )*? (?: [\"]{3,5} | \Z )
    | '{3} .*? (?: '{3,5} | \Z )
    | [\"] (?: [^\"\\\n] | \\. )* [\"]?
    | ' [^'\n]* '?
    | \# [^\n]*
    """,
    re.VERBOSE | re.DOTALL,
)
"""TOML strings and comments. An unterminated string extends to the end of its line, or of the text
if it is multi-line."""
_TOO_DEEP = re.compile(rf"(?<![\w-])[\w-]+(?:[ \t]*\.[ \t]*[\w-]+){{{_DEEPEST_KEY}}}", re.ASCII)

Assignment = str | tuple[str, Any]
"""Text ``KEY=VALUE``, or a dotted key and its value."""


def parse_assignments(assignments: Iterable[Assignment]) -> list[tuple[list[str], Any]]:
    """Return each assignment's key, split at the dots, and its value.

    In ``KEY=VALUE``, the value is parsed as TOML, or taken as a string if it is not valid TOML. A
    pair with an empty table assigns nothing. A variant that is selected by its name comes before
    its keys, as ``network=resnet`` before ``network.blocks=3``, so that no assigned key is dropped;
    otherwise, the order is kept, and a table replaces all keys assigned before it. Raises UserError
    if the key or equals sign is missing, or if a key or value is nested too deeply.
    """
    parsed: list[tuple[list[str], Any]] = []
    for each in assignments:
        if isinstance(each, str):
            key, equals, text = each.partition("=")
            key, value = key.strip(), _parse_value(key.strip(), text.strip())
        else:
            key, value, equals = each[0], deepcopy(each[1]), "="
            if value == {}:
                continue
        path = key.split(".")
        if not equals or not key or len(path) > _DEEPEST_KEY:
            offending = each if isinstance(each, str) else key
            raise UserError(
                f"{quoted(offending)} is not a setting: expected KEY=VALUE, as in learn.epochs=5"
            )
        place = len(parsed)
        if isinstance(value, str) and value.isidentifier():  # perhaps the name of a variant
            place = _first_key_of_variant([path for path, _ in parsed], selection_path(path))
        parsed.insert(place, (path, value))
    return parsed


def selection_path(path: Sequence[str]) -> Sequence[str]:
    """Return the key that selects a variant; ``network.name`` stands for ``network``."""
    return path[:-1] if path[-1] == "name" else path


def _first_key_of_variant(paths: Sequence[list[str]], variant: Sequence[str]) -> int:
    """Return the index of the first key inside a variant; the number of keys if there is none."""
    depth = len(variant)
    below = (
        index
        for index, path in enumerate(paths)
        if len(selection_path(path)) > depth and path[:depth] == variant
    )
    return next(below, len(paths))


def string_assignment(key: str, text: str) -> str:
    """Return ``KEY="TEXT"``, which assigns a string even if `text` is valid TOML, such as ``7``."""
    quoted_text = json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
    return f"{key}={quoted_text}"


def _parse_value(key: str, text: str) -> Any:
    try:
        table = parse_toml(f"value = {text}")
    except RecursionError:
        raise UserError(f"{quoted(key)} = {quoted(text)} is nested too deeply") from None
    except ValueError:  # not TOML, or a number with too many digits for Python to convert
        return text
    if len(table) > 1:
        raise UserError(
            f"{quoted(key)} = {quoted(text)}: expected a single value, not several lines"
        )
    return table["value"]


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML; raise ValueError if it is invalid and RecursionError if it is nested too deeply.

    Keys with more than 20 parts also raise ValueError, since tomllib stores every prefix of a
    dotted key and would need 4 GB for a key with 30,000 parts.
    """
    if _TOO_DEEP.search(_QUOTED.sub("x", text)):
        raise ValueError(f"a key has more than {_DEEPEST_KEY} parts")
    return tomllib.loads(text)


def read_toml(path: Path) -> dict[str, Any]:
    """Parse a TOML file; raise UserError if it is invalid or larger than 1 MiB."""
    text = read_text(path, _LARGEST_FILE)
    try:
        return parse_toml(text)
    except RecursionError:
        raise UserError(f"{quoted(path)} is not a TOML file: nested too deeply") from None
    except ValueError as error:
        raise UserError(f"{quoted(path)} is not a TOML file: {one_line(error)}") from None


def assign(data: dict[str, Any], path: Sequence[str], value: Any) -> None:
    """Set a dotted key in nested tables, in place.

    Selecting another variant (``network.name=resnet``) drops the keys of the previous variant. A
    variant in a list is addressed by its name, as in ``network.heads.reply.weight=0.2``. Raises
    UserError if any part of the key but the last refers to a plain value, or if the key of a list
    is not followed by the name of one of its variants and a key of that variant.
    """
    table: Any = data
    for depth, part in enumerate(path[:-1]):
        is_list = isinstance(table, list)
        if is_list:
            _require_names(table, ".".join(path[:depth]))
        table = (
            _variant_in_list(table, part, ".".join(path[:depth]))
            if is_list
            else _value_in_table(table, part)
        )
        if not isinstance(table, dict | list):
            key = quoted(".".join(path[: depth + 1]))
            raise UserError(f"{key} is a value, so it has no keys")
    if isinstance(table, list):
        key = ".".join(path[:-1])
        _require_names(table, key)
        raise UserError(f"{quoted(key)} is a list: expected {key}=[...] or {key}.NAME.KEY=VALUE")
    if path[-1] == "name" and table.get("name", value) != value:
        table.clear()
    table[path[-1]] = value


def _value_in_table(table: dict[str, Any], key: str) -> Any:
    """Return a key's value, which can be changed in place; expand a variant name to a table."""
    value = table.get(key, {})
    table[key] = list(value) if isinstance(value, list | tuple) else expand_variant_name(value)
    return table[key]


def _require_names(items: Sequence[Any], key: str) -> None:
    """Raise UserError for a list whose items have no names, such as a list of numbers."""
    if not all(isinstance(each, str | Mapping) for each in items):
        raise UserError(f"{quoted(key)} is a list: expected {key}=[...]")


def _variant_in_list(items: list[Any], name: str, key: str) -> Any:
    """Return the table of the variant named `name` in a list; the table can be changed in place."""
    names = [each.get("name") if isinstance(each, Mapping) else each for each in items]
    if name not in names:
        if not names:
            raise UserError(f"{quoted(key)} has no {quoted(name)}: the list is empty")
        known = [each for each in names if isinstance(each, str)]
        raise UserError(
            f"{quoted(key)} has no {quoted(name)}: expected one of"
            f" {', '.join(map(str, names))}{did_you_mean(name, known)}"
        )
    index = names.index(name)
    items[index] = dict(expand_variant_name(items[index]))
    return items[index]


def expand_variant_name(value: Any) -> Any:
    """Return the table that a variant's name abbreviates; return any other value unchanged."""
    return {"name": value} if isinstance(value, str) else value


def flatten(
    table: Mapping[str, Any], prefix: str = "", *, into_lists: bool = False
) -> Iterator[tuple[str, Any]]:
    """Yield the dotted keys of nested tables, such as ``search.noise.fraction``, and their values.

    An empty table counts as a value. If `into_lists` is True, the value of a list of tables is the
    list of their names, and the keys of each table follow, as in ``network.heads.policy.weight``.
    """
    for name, value in table.items():
        if not isinstance(name, str):
            raise UserError(f"{prefix}{quoted(name)} is not a key: expected text")
        key = prefix + name
        if isinstance(value, Mapping) and value:
            yield from flatten(value, f"{key}.", into_lists=into_lists)
        elif into_lists and _is_list_of_tables(value):
            yield key, [each.get("name") for each in value]
            for each in value:
                rest = {inner: value for inner, value in each.items() if inner != "name"}
                yield from flatten(rest, f"{key}.{each.get('name')}.", into_lists=True)
        else:
            yield key, value


def _is_list_of_tables(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(each, Mapping) for each in value)


def truth_values_as_text(value: Any) -> Any:
    """Return a value with booleans, including those in lists, replaced by ``true`` or ``false``."""
    if isinstance(value, list | tuple):
        return [truth_values_as_text(each) for each in value]
    return str(value).lower() if isinstance(value, bool) else value
