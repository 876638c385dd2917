"""Flattening of nested tables, such as settings, to dotted keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def flatten(
    table: Mapping[str, Any], prefix: str = "", *, into_lists: bool = False
) -> Iterator[tuple[str, Any]]:
    """Yield the dotted keys, such as ``search.noise.fraction``, and values of nested tables.

    An empty table counts as a value. If `into_lists` is True, the value of a list of tables is the
    list of their names, and the keys of each table follow, as in ``network.heads.policy.weight``.
    """
    for name, value in table.items():
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
