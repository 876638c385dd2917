"""`zerolab games`: what can be played."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rich.table import Table

from zerolab.cli.output import Console
from zerolab.cli.parse import call
from zerolab.rules import encoding
from zerolab.rules import interface as rules
from zerolab.rules.catalogue import Registration, registered_games


def games(*, json: bool = False) -> None:
    """List the registered games: sizes, actions, symmetries and an example of each.

    Example: zerolab games --json

    Args:
        json: Print a JSON list instead of a table.
    """
    rows = [_describe(name, entry) for name, entry in registered_games().items()]
    _print_json(rows) if json else _print_table(rows)


def _describe(name: str, entry: Registration) -> dict[str, Any]:
    """Describe a game by its form and by the facts of a middling size of it."""
    sizes = entry.sizes()
    optional = [f"[:{field.upper()}]" for field in list(sizes)[2:]]
    example = entry.kind(*(min(max(6, low), high) for low, high in list(sizes.values())[:2]))
    return {
        "name": name,
        "form": f"{name}:ROWSxCOLUMNS{''.join(optional)}",
        "sizes": {field: list(bounds) for field, bounds in sizes.items()},
        "defaults": dict(entry.kind._field_defaults),
        "example": f"{name}:{example.rows}x{example.columns}",
        "actions": int(rules.actions(example)),
        "symmetries": int(encoding.symmetries(example)),
        "planes": int(encoding.planes(example)),
    }


def _print_json(rows: list[dict[str, Any]]) -> None:
    print(json.dumps(rows))


def _print_table(rows: list[dict[str, Any]]) -> None:
    table = Table(box=None, header_style="bold")
    for heading in ("game", "sizes", "for example", "actions", "symmetries"):
        table.add_column(heading)
    for row in rows:
        sizes = ", ".join(
            f"{field} {low}..{high}" + _default(row, field)
            for field, (low, high) in row["sizes"].items()
        )
        facts = (row["example"], str(row["actions"]), str(row["symmetries"]))
        table.add_row(row["form"], sizes, *facts)
    # A width of its own: where a narrow terminal cuts, the names of games would be lost first.
    Console(width=110, soft_wrap=True).print(table)


def _default(row: dict[str, Any], field: str) -> str:
    return f" (default {row['defaults'][field]})" if field in row["defaults"] else ""


def run(arguments: Sequence[str]) -> None:
    """Parse the arguments and list the games."""
    call(games, "games", arguments)
