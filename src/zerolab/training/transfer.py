"""Transfer of weights from one network to another: [Hongcharoen2018] and [Soemers2023]."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.core.errors import UserError, quoted
from zerolab.networks.catalogue import build_network
from zerolab.networks.network import weights_to_arrays
from zerolab.networks.network_settings import NetworkSettings
from zerolab.rules import encoding
from zerolab.rules.catalogue import game_name
from zerolab.rules.encoding import action_layout, plane_names
from zerolab.rules.rules import Game
from zerolab.training.shorthands import Transfer

Weights = Mapping[str, NDArray[Any]]

_TRUNK, _HEADS = "trunk.", "heads."
_FIRST = "trunk.0.conv.weight"
"""The first layer, [filters, planes, size, size], of networks for any board size."""


_OF_HEADS = ("heads", "head_filters", "head_kernel", "hidden")
"""Settings that do not affect the trunk."""


class Side(NamedTuple):
    """A network and its game."""

    game: Game
    network: NetworkSettings
    weights: Weights


class Transferred(NamedTuple):
    """The weights of a network that starts from another."""

    weights: dict[str, NDArray[Any]]
    new: tuple[str, ...]
    """The parts of the network with new weights, such as "heads.policy"."""
    left: tuple[str, ...] = ()
    """The parts of the other network that were not used."""


def new_network(network: NetworkSettings, game: Game, seed: int) -> Side:
    """Return an untrained network."""
    return Side(game, network, weights_to_arrays(build_network(network, game, seed)))


def transfer_weights(transfer: Transfer, there: Side, here: Side) -> Transferred:
    """Return the weights of the network `here` that starts from the one `there`.

    Heads `there` with settings that were found out when their run began are dropped, unless they
    are also `here`. Raises UserError for the first layer that does not fit, with both shapes.
    """
    taken = _WAYS[transfer](_without_found_heads(there, here), here)
    layers = (name.rpartition(".")[0] for name in there.weights if name not in here.weights)
    return taken._replace(left=(*taken.left, *_shortened(layers, here.weights)))


def _without_found_heads(there: Side, here: Side) -> Side:
    """Return a network without the heads that only its own run can train."""
    known = {head.name for head in here.network.heads}
    heads = tuple(head for head in there.network.heads if not head.set_by_run or head.name in known)
    gone = tuple(f"{_HEADS}{head.name}." for head in there.network.heads if head not in heads)
    weights = {name: array for name, array in there.weights.items() if not name.startswith(gone)}
    return Side(there.game, there.network.model_copy(update={"heads": heads}), weights)


def _part(prefix: str) -> Callable[[Side, Side], Transferred]:
    """Return a function that takes all weights whose names begin with `prefix`."""

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
    """Take planes matched by name, and actions with the same layout on the board.

    Planes missing `there` start with weights 0, and so without effect.
    """
    for side in (there, here):
        if not side.network.any_size:
            raise UserError(
                f"network = {quoted(side.network.name)} has the size of its board in its heads:"
                ' expected "fully_convolutional", here and there'
            )
    weights = dict(there.weights)
    weights[_FIRST], unknown, unused = _planes_by_name(there, here)
    for name in dict.fromkeys((*weights, *here.weights)):
        if name.startswith(_TRUNK):
            _require_equal_shapes(name, there._replace(weights=weights), here)
    for name in _unlike_actions(there, here):
        weights.pop(name, None)
    known = {name: array for name, array in weights.items() if name in here.weights}
    for name in known:
        _require_equal_shapes(name, there._replace(weights=weights), here)
    taken = _joined(known, here)
    return taken._replace(new=(*unknown, *taken.new), left=unused)


def _planes_by_name(
    there: Side, here: Side
) -> tuple[NDArray[Any], tuple[str, ...], tuple[str, ...]]:
    """Return the first layer for the planes `here`, with weights 0 for planes missing `there`.

    Also returns the names of new planes, and of planes that are no longer used.
    """
    former = there.weights[_FIRST]
    names, known = _all_planes(here.game), _all_planes(there.game)
    first = np.zeros((len(former), len(names), *former.shape[2:]), former.dtype)
    for number, name in enumerate(names):
        if name in known:
            first[:, number] = former[:, known.index(name)]
    unknown = tuple(f"plane {quoted(name)}" for name in names if name not in known)
    unused = tuple(f"plane {quoted(name)}" for name in known if name not in names)
    return first, unknown, unused


def _all_planes(game: Game) -> list[str]:
    """Return the names of a game's planes, numbers for unnamed ones."""
    names = plane_names(game)
    return [*names, *(str(number) for number in range(len(names), encoding.planes(game)))]


def _unlike_actions(there: Side, here: Side) -> list[str]:
    """Return the layers of actions whose layout on the board differs."""
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
    """Return the weights taken, completed with those of the network `here`."""
    missing = [name for name in here.weights if name not in taken]
    layers = (name.rpartition(".")[0] for name in missing)
    return Transferred({**here.weights, **taken}, _shortened(layers, taken))


def _require_equal_shapes(name: str, there: Side, here: Side) -> None:
    former, shape = (
        list(side.weights[name].shape) if name in side.weights else "missing"
        for side in (there, here)
    )
    if former != shape:
        reason = _reason(name, there, here)
        raise UserError(f"layer {name} is {former} there and {shape} here: {reason}")


def _reason(layer: str, there: Side, here: Side) -> str:
    """Return the reason why a layer differs, and the settings that would fit."""
    games = f"{game_name(there.game)} and {game_name(here.game)}"
    any_size = there.network.any_size and here.network.any_size
    planes = [encoding.planes(side.game) for side in (there, here)]
    if planes[0] != planes[1] and _read_planes(layer, there, here) == planes:
        first = "" if any_size else 'network = "fully_convolutional" here and there, and '
        return (
            f"{games} have different planes; expected {first}start.transfer ="
            ' "channels", which takes them by their names'
        )
    former, network = (_about(side.network, layer) for side in (there, here))
    differing = [key for key in {**former, **network} if network.get(key) != former.get(key)]
    if differing:
        settings = (f"network.{key} = {quoted(former.get(key))}" for key in differing)
        return f"expected {', '.join(settings)}"
    if any_size:
        return (
            f"{games} have different actions; expected start.transfer = "
            '"trunk", or "channels", which takes those that mean the same'
        )
    return 'expected equal games, or network = "fully_convolutional" here and there'


def _read_planes(layer: str, there: Side, here: Side) -> list[int]:
    """Return the numbers of planes of a convolution there and here; empty for other layers."""
    arrays = [side.weights.get(layer) for side in (there, here)]
    return [array.shape[1] for array in arrays if array is not None and array.ndim == 4]


def _about(network: NetworkSettings, layer: str) -> dict[str, Any]:
    """Return the settings that may affect the shape of a layer of a head or of the trunk."""
    about = {**network.model_dump(), "heads": [head.name for head in network.heads]}
    if layer.startswith(_HEADS):
        return about
    return {key: value for key, value in about.items() if key not in _OF_HEADS}


def _shortened(layers: Iterable[str], taken: Weights) -> tuple[str, ...]:
    """Return layers, abbreviated to the largest parts of which nothing was taken."""
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
