"""What a move of self-play costs depends on: which network searches it, and how much work it is."""

from __future__ import annotations

import json
from typing import Any

from zerolab.core.config import Settings
from zerolab.networks.settings import NetworkSettings
from zerolab.search.settings import SearchSettings
from zerolab.training.settings import TrainSettings

_STEERING = frozenset({"tie_break", "discount", "draw_value"})
"""Settings of a search that lead it elsewhere, at the same cost."""
_RULES = "selection", "fpu", "root"
"""Settings of which the name matters, but no number."""


class MoveKind(Settings):
    """Moves of equal work: of one network in one game, with the same amount of search.

    It is what a reference knows a network by. Settings that only steer a search, such as PUCT's c,
    are no part of it, nor is how many moves there are at once.
    """

    game: str
    network: dict[str, Any]
    """The settings of the network; of its heads, which there are for a search to read."""
    search: dict[str, Any]
    """The settings of the search on which its work depends."""

    def __str__(self) -> str:
        """Return the kind as messages name it."""
        sizes = {key: value for key, value in self.network.items() if isinstance(value, int)}
        numbers = ", ".join(f"{key} {value}" for key, value in sizes.items())
        simulations = self.search.get("simulations")
        return f"{self.network.get('name')} ({numbers}), {self.game}, {simulations} simulations"


def move_kind(settings: TrainSettings, iteration: int) -> MoveKind:
    """Return what moves are that a run's network of an iteration makes."""
    return MoveKind(
        game=settings.game,
        network=_as_json(_shape(settings.network_of(iteration))),
        search=_as_json(_work(settings.search)),
    )


def _shape(network: NetworkSettings) -> dict[str, Any]:
    """Return the settings of a network on which the time that it takes depends.

    Self-play computes no other heads, and those cost the same whatever they learn, and how.
    """
    heads = [{"name": head.name} for head in network.heads if head.answers]
    return {**network.model_dump(), "heads": heads}


def _work(search: SearchSettings) -> dict[str, Any]:
    """Return the settings of a search on which the time that it takes depends."""
    kept = {key: value for key, value in search.model_dump().items() if key not in _STEERING}
    return kept | {rule: kept[rule]["name"] for rule in _RULES}


def _as_json(table: dict[str, Any]) -> dict[str, Any]:
    """Return a table as it is read back from a file: its tuples are lists."""
    read: dict[str, Any] = json.loads(json.dumps(table))
    return read
