"""Registries of games, networks, losses, selection rules and whatever else users choose by name.

Other packages can register their own. An entry point in the group ``zerolab.LAYER`` names a module
that registers something when it is imported::

    [project.entry-points."zerolab.search"]
    thompson = "my_package.thompson"

========== ============================================================================
Layer      Registered by its plug-ins
========== ============================================================================
games      games (``rules.catalogue.register_game``)
search     selection rules, root rules, first-play urgency rules, leaf evaluators
           (`search.methods`), budgets (`search.budgets`)
networks   architectures, heads, growths
agents     agent kinds
training   losses, optimisers, learning-rate schedules, gates, replay windows, mergings and other
           parts of the iteration loop
papers     studies
========== ============================================================================

The first command or import that needs a layer imports the layer's own modules, then its plug-ins.
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
    """Import every module of a package, for the entries that they register."""
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        importlib.import_module(f"{package}.{module.name}")


def load_plugins(layer: Layer) -> None:
    """Import the modules that other packages add to a layer.

    Raises UserError, naming the entry point, for a module that cannot be imported.
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
