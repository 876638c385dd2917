"""Tables of texts, the same ones for terminals and for Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import rich.table
from rich.text import Text


@dataclass(frozen=True)
class Table:
    """A table whose first column is on the left and the others on the right."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]

    def for_terminal(self) -> rich.table.Table:
        """Return the table for a console of rich."""
        table = rich.table.Table(
            box=None, header_style="bold", title=Text(self.title), title_justify="left"
        )
        for number, heading in enumerate(self.headings):
            table.add_column(Text(heading), justify="right" if number else "left")
        for row in self.rows:
            table.add_row(*map(Text, row))
        return table

    def markdown(self) -> str:
        """Return the table below its title."""
        rule = [":---", *["---:"] * (len(self.headings) - 1)]
        lines = ["| " + " | ".join(row) + " |" for row in (self.headings, rule, *self.rows)]
        return "\n".join([f"**{self.title}**", "", *lines, ""])
