"""Which weights of a network become those of another: [Hongcharoen2018] and [Soemers2023]."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.core.errors import UserError, quoted
from zerolab.networks.catalogue import build_network
from zerolab.networks.settings import NetworkSettings
from zerolab.networks.weights import weights_to_arrays
from zerolab.rules import encoding
from zerolab.rules.catalogue import game_name
from zerolab.rules.interface import Game
from zerolab.rules.layouts import action_layout, plane_names
from zerolab.training.transfer.settings import Transfer

Weights = Mapping[str, NDArray[Any]]

_TRUNK, _HEADS = "trunk.", "heads."
_FIRST = "trunk.0.conv.weight"
"""The weights that read the planes, [filters, planes, size, size], of networks without a size."""


class Side(NamedTuple):
    """A network, and the game that it plays."""

    game: Game
    network: NetworkSettings
    weights: Weights


class Transferred(NamedTuple):
    """The weights of a network that starts from another."""

    weights: dict[str, NDArray[Any]]
    new: tuple[str, ...]
    """The parts of the network whose weights are new, such as "heads.policy"."""


def new_network(network: NetworkSettings, game: Game, seed: int) -> Side:
    """Return an untrained network."""
    return Side(game, network, weights_to_arrays(build_network(network, game, seed)))


def transferred(transfer: Transfer, there: Side, here: Side) -> Transferred:
    """Return the weights with which a network starts `here` from one `there`.

    Raises UserError for layers that do not fit, naming the first one and both shapes.
    """
    return _WAYS[transfer](there, here)


def _part(prefix: str) -> Callable[[Side, Side], Transferred]:
    """Return what takes the weights whose names begin so, all of them."""

    def take(there: Side, here: Side) -> Transferred:
        names = [
            name
            for name in dict.fromkeys((*there.weights, *here.weights))
            if name.startswith(prefix)
        ]
        for name in names:
            _require_equal_shapes(name, there, here)
        return _joined({name: there.weights[name] for name in names}, here)

    return take


def _by_meaning(there: Side, here: Side) -> Transferred:
    """Take planes by their names, and actions that lie on the board in the same way.

    Planes that `there` does not have begin with weights 0, so that they change nothing at first.
    """
    for side in (there, here):
        if not side.network.any_size:
            raise UserError(
                f"network = {quoted(side.network.name)} has the size of its board in its heads:"
                ' expected "fully_convolutional", here and there'
            )
    weights = dict(there.weights)
    weights[_FIRST], unknown = _planes_by_name(there, here)
    for name in _unlike_actions(there, here):
        weights.pop(name, None)
    known = {name: array for name, array in weights.items() if name in here.weights}
    for name in known:
        _require_equal_shapes(name, Side(there.game, there.network, weights), here)
    taken = _joined(known, here)
    return taken._replace(new=(*unknown, *taken.new))


def _planes_by_name(there: Side, here: Side) -> tuple[NDArray[Any], list[str]]:
    """Return the first layer's weights for the planes here, and which of them are new, with 0."""
    former = there.weights[_FIRST]
    filters, _, *size = former.shape
    count, names, known = (
        encoding.planes(here.game),
        plane_names(here.game),
        plane_names(there.game),
    )
    first = np.zeros((filters, count, *size), former.dtype)
    unknown = []
    for number in range(count):
        name = names[number] if number < len(names) else str(number)
        if name in known:
            first[:, number] = former[:, known.index(name)]
        else:
            unknown.append(f"plane {quoted(name)}")
    return first, unknown


def _unlike_actions(there: Side, here: Side) -> list[str]:
    """Return the layers that say something about actions, where those lie differently."""
    former, layout = action_layout(there.game), action_layout(here.game)
    unlike = []
    for head in here.network.heads:
        if not head.per_action:
            continue
        if former.over != layout.over:
            unlike.append(f"{_HEADS}{head.name}.head.output.")
        if former.others != layout.others:
            unlike.append(f"{_HEADS}{head.name}.head.others.")
    return [name for name in there.weights if name.startswith(tuple(unlike))]


def _joined(taken: Weights, here: Side) -> Transferred:
    """Return weights for the network here, its own ones where nothing was taken."""
    missing = [name for name in here.weights if name not in taken]
    layers = (name.rpartition(".")[0] for name in missing)
    return Transferred({**here.weights, **taken}, _shortened(layers, taken))


def _require_equal_shapes(name: str, there: Side, here: Side) -> None:
    former, shape = (
        list(side.weights[name].shape) if name in side.weights else "missing"
        for side in (there, here)
    )
    if former != shape:
        raise UserError(f"layer {name} is {former} there and {shape} here: {_reason(there, here)}")


def _reason(there: Side, here: Side) -> str:
    """Return what is different about two networks, and what would fit."""
    former, network = (_about(side.network) for side in (there, here))
    differing = [key for key in {**former, **network} if network.get(key) != former.get(key)]
    if differing:
        settings = (f"network.{key} = {quoted(former.get(key))}" for key in differing)
        return f"expected {', '.join(settings)}"
    if encoding.planes(there.game) != encoding.planes(here.game):
        return (
            f"{game_name(there.game)} and {game_name(here.game)} have different planes; expected"
            ' start.transfer = "channels", which takes them by their names'
        )
    if there.network.any_size:
        return (
            f"{game_name(there.game)} and {game_name(here.game)} have different actions; expected"
            ' start.transfer = "trunk", or "channels", which takes those that mean the same'
        )
    return 'expected equal games, or network = "fully_convolutional" here and there'


def _about(network: NetworkSettings) -> dict[str, Any]:
    """Return the settings that shapes depend on."""
    return {**network.model_dump(), "heads": [head.name for head in network.heads]}


def _shortened(layers: Iterable[str], taken: Weights) -> tuple[str, ...]:
    """Return layers by the largest parts of the network of which nothing was taken."""
    parts: dict[str, None] = {}
    for layer in layers:
        pieces = layer.split(".")
        for length in range(1, len(pieces) + 1):
            part = ".".join(pieces[:length])
            if not any(name.startswith(f"{part}.") for name in taken):
                break
        parts[part] = None
    return tuple(parts)


_WAYS: dict[Transfer, Callable[[Side, Side], Transferred]] = {
    "trunk": _part(_TRUNK),
    "heads": _part(_HEADS),
    "all": _part(""),
    "channels": _by_meaning,
}
