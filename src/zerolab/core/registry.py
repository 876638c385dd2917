"""Registries of games, networks, losses and everything else that users select by name.

Other packages can register their own entries. To do so, a package declares an entry point in the
group ``zerolab.LAYER`` that names a module, which registers the entries when imported::

    [project.entry-points."zerolab.search"]
    thompson = "my_package.thompson"

========== ============================================================================
Layer      Registered by its plug-ins
========== ============================================================================
games      games (``rules.catalogue.register_game``)
search     selection rules, root rules, first-play urgency rules, leaf evaluators
           (`search.methods`), budgets (`search.budgets`)
networks   architectures, input planes, heads, losses, growth rules
agents     agent kinds
play       starts of self-play games (`play.game_starts`)
loggers    connections to experiment trackers (`training.logger`)
training   optimisers, learning-rate schedules, gates, replay windows, merging rules and other
           parts of the iteration loop
papers     studies
========== ============================================================================

The first command or import that uses a layer imports the modules of the layer and then its
plug-ins.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
import warnings
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import EntryPoints, entry_points
from typing import Any, Generic, Literal, TypeVar

from zerolab.core.errors import PluginWarning, UserError, did_you_mean, one_line, quoted

_Entry = TypeVar("_Entry")

PluginLayer = Literal[
    "games", "search", "networks", "agents", "play", "loggers", "training", "papers"
]
"""Layers that can have plug-ins."""


def import_modules(package: str) -> None:
    """Import every module of a package, so that each registers its entries."""
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        importlib.import_module(f"{package}.{module.name}")


def load_plugins(layer: PluginLayer) -> None:
    """Import the plug-in modules of a layer from other packages.

    A module that cannot be imported is skipped, with a PluginWarning that names its entry point.
    """
    for point in installed_plugins(layer):
        try:
            point.load()
        except (Exception, SystemExit) as error:
            reason = one_line(error) or type(error).__name__
            warnings.warn(
                f'the plug-in "{point.name}" ({point.value}) of zerolab.{layer} cannot be loaded: '
                f"{reason}; everything else works without it",
                PluginWarning,
                stacklevel=2,
            )


def installed_plugins(layer: PluginLayer) -> EntryPoints:
    """Return the entry points of a layer's plug-ins, without importing them."""
    points: EntryPoints = _entry_points(tuple(sys.path)).select(group=f"zerolab.{layer}")
    return points


@cache
def _entry_points(path: tuple[str, ...]) -> Any:
    """Return the entry points of all packages on `path`, which is `sys.path`.

    They are cached because every layer reads them, which takes 20 ms with a few hundred packages.
    The return type depends on the version of Python but always has a `select` method.
    """
    return entry_points()


class Registry(Mapping[str, _Entry], Generic[_Entry]):
    """A mapping from names to entries that rejects duplicates and explains unknown names."""

    def __init__(self, noun: str) -> None:
        self.noun = noun
        self._entries: dict[str, _Entry] = {}

    def add(self, name: str, entry: _Entry) -> None:
        """Register an entry; raise ValueError if the name is already registered."""
        if name in self._entries:
            raise ValueError(f"{self.noun} {name!r} is registered twice")
        self._entries[name] = entry

    def __getitem__(self, name: str) -> _Entry:
        """Return an entry; raise UserError with the closest known name if there is none."""
        if name not in self._entries:
            known = ", ".join(self._entries)
            raise UserError(
                f"unknown {self.noun} {quoted(name)}: expected one of {known}"
                f"{did_you_mean(name, self)}"
            )
        return self._entries[name]

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)
