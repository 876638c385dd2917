"""Named things that a user chooses from: games, networks, losses, selection rules.

Other packages add their own. An entry point in the group ``zerolab.LAYER`` names a module that
registers something when it is imported::

    [project.entry-points."zerolab.search"]
    thompson = "my_package.thompson"

========== ============================================================================
Layer      What its plug-ins register
========== ============================================================================
games      games (``rules.catalogue.register_game``)
search     selection rules, root rules, first-play urgency rules, leaf evaluators
           (`search.methods`), budgets (`search.budgets`)
networks   architectures, heads, ways in which networks grow
agents     agent kinds
training   losses, optimisers, schedules, gates, replay windows, ways of merging, and what else the
           iteration loop chooses from
papers     studies
========== ============================================================================

Each layer imports its own modules first, then its plug-ins, with the first command or import that
needs the layer.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from importlib.metadata import entry_points
from typing import Generic, Literal, TypeVar

from zerolab.core.errors import UserError, nearest, one_line, quoted

_Entry = TypeVar("_Entry")

Layer = Literal["games", "search", "networks", "agents", "training", "papers"]
"""The layers that have plug-ins."""


def import_modules(package: str) -> None:
    """Import every module of a package, so that what they register is known."""
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        importlib.import_module(f"{package}.{module.name}")


def load_plugins(layer: Layer) -> None:
    """Import the modules that other packages add to a layer.

    Raises UserError, naming the entry point, for one that cannot be imported.
    """
    for point in entry_points(group=f"zerolab.{layer}"):
        try:
            point.load()
        except Exception as error:
            reason = one_line(error) or type(error).__name__
            raise UserError(
                f'the plug-in "{point.name}" ({point.value}) of zerolab.{layer} cannot be loaded: '
                f"{reason}"
            ) from error


class Registry(Mapping[str, _Entry], Generic[_Entry]):
    """A mapping from names to entries that refuses duplicates and explains unknown names."""

    def __init__(self, noun: str) -> None:
        self.noun = noun
        self._entries: dict[str, _Entry] = {}

    def add(self, name: str, entry: _Entry) -> None:
        """Register an entry; registering another one under a taken name is a programming error."""
        if name in self._entries:
            raise ValueError(f"{self.noun} {name!r} is registered twice")
        self._entries[name] = entry

    def __getitem__(self, name: str) -> _Entry:
        """Return the entry, or raise UserError naming the nearest spelling."""
        if name not in self._entries:
            known = ", ".join(self._entries)
            raise UserError(
                f"unknown {self.noun} {quoted(name)}: expected one of {known}{nearest(name, self)}"
            )
        return self._entries[name]

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)
