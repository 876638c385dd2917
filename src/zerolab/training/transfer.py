"""Transfer of weights between networks, after [Hongcharoen2018] and [Soemers2023]."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.core.errors import UserError, quoted
from zerolab.networks.catalogue import build_network
from zerolab.networks.network_settings import NetworkSettings, WeightArrays
from zerolab.rules import encoding
from zerolab.rules.catalogue import game_name
from zerolab.rules.encoding import action_layout, plane_names
from zerolab.rules.rules import Game
from zerolab.training.shorthands import TransferMethod

_TRUNK, _HEADS = "trunk.", "heads."
_FIRST_LAYER = "trunk.0.conv.weight"
"""First layer, [filters, planes, size, size], of networks for any board size."""

_HEAD_SETTINGS = ("heads", "head_filters", "head_kernel", "hidden")
"""Settings that do not affect the trunk."""


class NetworkWithGame(NamedTuple):
    """The source or the target of a transfer: a network and its game."""

    game: Game
    network_settings: NetworkSettings
    weights: WeightArrays


class TransferredWeights(NamedTuple):
    """Initial weights of a target network, some of them taken from a source network."""

    weights: dict[str, NDArray[Any]]
    untrained_parts: tuple[str, ...]
    """Parts of the target with untrained weights, such as "heads.policy"."""
    unused_parts: tuple[str, ...] = ()
    """Parts of the source that are not transferred."""


def untrained_network(network: NetworkSettings, game: Game, seed: int) -> NetworkWithGame:
    """Return an untrained network and its game."""
    from zerolab.networks.network import weights_to_arrays  # slow: imports torch

    return NetworkWithGame(game, network, weights_to_arrays(build_network(network, game, seed)))


def transfer_weights(
    method: TransferMethod, source: NetworkWithGame, target: NetworkWithGame
) -> TransferredWeights:
    """Return the initial weights of the `target` network, taken from `source`.

    Source heads whose settings depend on their run are dropped, unless the target has them too.
    Raises UserError if layers are incompatible; the message contains both shapes of the first such
    layer.
    """
    transferred = _METHODS[method](_without_run_heads(source, target), target)
    layers = (name.rpartition(".")[0] for name in source.weights if name not in target.weights)
    unused_parts = (*transferred.unused_parts, *_shortened(layers, target.weights))
    return transferred._replace(unused_parts=unused_parts)


def _without_run_heads(source: NetworkWithGame, target: NetworkWithGame) -> NetworkWithGame:
    """Return the source without the heads that only the source's run can train."""
    names = {head.name for head in target.network_settings.heads}
    heads = tuple(
        head
        for head in source.network_settings.heads
        if not head.fields_set_by_run or head.name in names
    )
    dropped = tuple(
        f"{_HEADS}{head.name}." for head in source.network_settings.heads if head not in heads
    )
    weights = {
        name: array for name, array in source.weights.items() if not name.startswith(dropped)
    }
    return NetworkWithGame(
        source.game, source.network_settings.model_copy(update={"heads": heads}), weights
    )


def _transfer_prefix(
    prefix: str,
) -> Callable[[NetworkWithGame, NetworkWithGame], TransferredWeights]:
    """Return a function that transfers all weights whose names begin with `prefix`.

    The first layer is transferred only between networks that read the same planes.
    """

    def transfer(source: NetworkWithGame, target: NetworkWithGame) -> TransferredWeights:
        names = [
            name
            for name in dict.fromkeys((*source.weights, *target.weights))
            if name.startswith(prefix)
        ]
        for name in names:
            _require_equal_shapes(name, source, target)
        if any(name.startswith(_TRUNK) for name in names):
            _require_equal_planes(source, target)
        return _completed({name: source.weights[name] for name in names}, target)

    return transfer


def _transfer_planes_and_actions(
    source: NetworkWithGame, target: NetworkWithGame
) -> TransferredWeights:
    """Transfer planes matched by name, and actions with the same layout on the board.

    Planes that the source lacks begin with weights of 0, so that they have no effect at first.
    """
    for side in (source, target):
        if not side.network_settings.fits_any_board:
            raise UserError(
                f"network = {quoted(side.network_settings.name)} has heads for one board size:"
                ' expected "fully_convolutional" for both networks'
            )
    weights = dict(source.weights)
    weights[_FIRST_LAYER], new_planes, unused_planes = _match_planes(source, target)
    adapted = source._replace(weights=weights)
    for name in dict.fromkeys((*weights, *target.weights)):
        if name.startswith(_TRUNK):
            _require_equal_shapes(name, adapted, target)
    for name in _mismatched_actions(source, target):
        weights.pop(name, None)
    shared = {name: array for name, array in weights.items() if name in target.weights}
    for name in shared:
        _require_equal_shapes(name, adapted, target)
    transferred = _completed(shared, target)
    return transferred._replace(
        untrained_parts=(*new_planes, *transferred.untrained_parts), unused_parts=unused_planes
    )


def _match_planes(
    source: NetworkWithGame, target: NetworkWithGame
) -> tuple[NDArray[Any], tuple[str, ...], tuple[str, ...]]:
    """Return the first layer for the target's planes, with weights of 0 for new planes.

    Also returns the names of the new planes and of the unused source planes.
    """
    source_layer = source.weights[_FIRST_LAYER]
    names, source_names = _all_planes(target), _all_planes(source)
    shape = len(source_layer), len(names), *source_layer.shape[2:]
    layer = np.zeros(shape, source_layer.dtype)
    for number, name in enumerate(names):
        if name in source_names:
            layer[:, number] = source_layer[:, source_names.index(name)]
    new = tuple(f"plane {quoted(name)}" for name in names if name not in source_names)
    unused = tuple(f"plane {quoted(name)}" for name in source_names if name not in names)
    return layer, new, unused


def _all_planes(side: NetworkWithGame) -> list[str]:
    """Return the names of a network's input planes, using numbers for unnamed planes."""
    return [*_game_planes(side.game), *(plane.name for plane in side.network_settings.planes)]


def _game_planes(game: Game) -> list[str]:
    """Return the names of the planes of a game's encoding, using numbers for unnamed planes."""
    names = plane_names(game)
    return [*names, *map(str, range(len(names), encoding.plane_count(game)))]


def _mismatched_actions(source: NetworkWithGame, target: NetworkWithGame) -> list[str]:
    """Return the names of output weights for actions whose layouts differ between the games."""
    source_layout, layout = action_layout(source.game), action_layout(target.game)
    prefixes = []
    for head in target.network_settings.heads:
        if not head.is_per_action:
            continue
        if source_layout.places != layout.places:
            prefixes.append(f"{_HEADS}{head.name}.head.output.")
        if source_layout.placeless_count != layout.placeless_count:
            prefixes.append(f"{_HEADS}{head.name}.head.others.")
    return [name for name in source.weights if name.startswith(tuple(prefixes))]


def _completed(weights: WeightArrays, target: NetworkWithGame) -> TransferredWeights:
    """Return transferred weights completed with untrained weights of the target."""
    missing = [name for name in target.weights if name not in weights]
    layers = (name.rpartition(".")[0] for name in missing)
    return TransferredWeights({**target.weights, **weights}, _shortened(layers, weights))


def _require_equal_shapes(name: str, source: NetworkWithGame, target: NetworkWithGame) -> None:
    source_shape, shape = (
        list(side.weights[name].shape) if name in side.weights else "missing"
        for side in (source, target)
    )
    if source_shape != shape:
        reason = _mismatch_reason(name, source, target)
        raise UserError(
            f"layer {name} is {source_shape} in the source and {shape} in this run: {reason}"
        )


def _require_equal_planes(source: NetworkWithGame, target: NetworkWithGame) -> None:
    """Raise UserError if the first layers read different planes, or the same in another order."""
    source_planes, planes = (
        ", ".join(quoted(name) for name in _all_planes(side)) for side in (source, target)
    )
    if source_planes != planes:
        raise UserError(
            f"the first layer reads the planes {source_planes} in the source and {planes} in this"
            f" run: {_different_planes_reason(source, target)}"
        )


def _different_planes_reason(source: NetworkWithGame, target: NetworkWithGame) -> str:
    """Return the reason why the planes differ, with settings that would fit."""
    fits_any_board = (
        source.network_settings.fits_any_board and target.network_settings.fits_any_board
    )
    first = "" if fits_any_board else 'network = "fully_convolutional" for both networks and '
    remedy = f'{first}start.transfer = "channels", which matches planes by name'
    if _game_planes(source.game) != _game_planes(target.game):
        games = f"{game_name(source.game)} and {game_name(target.game)}"
        return f"{games} have different planes; expected {remedy}"
    names = ", ".join(quoted(plane.name) for plane in source.network_settings.planes)
    return f"the networks have different planes; expected network.planes = [{names}], or {remedy}"


def _mismatch_reason(layer: str, source: NetworkWithGame, target: NetworkWithGame) -> str:
    """Return the reason why a layer's shapes differ, with settings that would fit."""
    games = f"{game_name(source.game)} and {game_name(target.game)}"
    fits_any_board = (
        source.network_settings.fits_any_board and target.network_settings.fits_any_board
    )
    planes = [len(_all_planes(side)) for side in (source, target)]
    arrays = [side.weights.get(layer) for side in (source, target)]
    inputs = [array.shape[1] for array in arrays if array is not None and array.ndim == 4]
    if planes[0] != planes[1] and inputs == planes:
        return _different_planes_reason(source, target)
    source_settings, settings = (
        _shape_settings(side.network_settings, layer) for side in (source, target)
    )
    differences = [
        f"network.{key} = {quoted(source_settings.get(key))}"
        for key in {**source_settings, **settings}
        if settings.get(key) != source_settings.get(key)
    ]
    if differences:
        return f"expected {', '.join(differences)}"
    if fits_any_board:
        return (
            f"{games} have different actions; expected start.transfer = "
            '"trunk", or "channels", which matches actions by their layout'
        )
    return 'expected the same game, or network = "fully_convolutional" for both networks'


def _shape_settings(network: NetworkSettings, layer: str) -> dict[str, Any]:
    """Return the settings that can affect the shape of a layer in the trunk or a head."""
    settings = {**network.model_dump(), "heads": [head.name for head in network.heads]}
    if layer.startswith(_HEADS):
        return settings
    return {key: value for key, value in settings.items() if key not in _HEAD_SETTINGS}


def _shortened(layers: Iterable[str], weights: WeightArrays) -> tuple[str, ...]:
    """Return layers, abbreviated to the largest parts that have no layer in `weights`."""
    parts: dict[str, None] = {}
    for layer in layers:
        pieces = layer.split(".")
        for length in range(1, len(pieces) + 1):
            part = ".".join(pieces[:length])
            if not any(name.startswith(f"{part}.") for name in weights):
                break
        parts[part] = None
    return tuple(parts)


_METHODS: dict[TransferMethod, Callable[[NetworkWithGame, NetworkWithGame], TransferredWeights]] = {
    "trunk": _transfer_prefix(_TRUNK),
    "heads": _transfer_prefix(_HEADS),
    "all": _transfer_prefix(""),
    "channels": _transfer_planes_and_actions,
}
