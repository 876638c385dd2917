"""Agents that play with a network, wherever its weights are kept."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakValueDictionary

from zerolab.agents.interface import Agent, Player
from zerolab.agents.options import NetworkOptions, describe, parse_options, require_answers
from zerolab.agents.policy_player import PolicyPlayer
from zerolab.agents.search_player import SearchPlayer, kept_bytes, search_bytes
from zerolab.core.errors import UserError
from zerolab.networks.catalogue import NetworkSettings, build_network
from zerolab.rules.interface import Game
from zerolab.search.interface import playouts
from zerolab.search.settings import SearchSettings
from zerolab.store.arrays import Arrays
from zerolab.store.checks import digest

if TYPE_CHECKING:
    from zerolab.networks.inference import NetworkEvaluator


class KeptNetwork(NamedTuple):
    """A network that is kept somewhere, and how it plays by default."""

    name: str
    """The canonical spec, without options."""
    game: Game
    settings: NetworkSettings
    search: SearchSettings
    """What it was trained with."""
    digest: str
    """Of its file in a run, which identifies the weights, their game and the network's settings."""
    load: Callable[[], Arrays]
    """Returns the weights; raises UserError where they are damaged, or others by now."""


def evaluator_of(settings: NetworkSettings, game: Game, weights: Arrays) -> NetworkEvaluator:
    """Return the evaluator of a network; raise UserError for weights of another one."""
    from zerolab.networks.inference import NetworkEvaluator
    from zerolab.networks.weights import load_weights

    network = build_network(settings, game, seed=0)  # whose weights are replaced
    load_weights(network, weights)
    return NetworkEvaluator(network, game)


def network_agent(network: KeptNetwork, options: NetworkOptions | None = None) -> Agent:
    """Return a network as an agent, by default with the search it was trained with.

    An agent searches without root noise; without simulations, the network's policy plays alone.
    Its identity is that of the weights, the network's settings and the search: a network is the
    same one in its run and in a file. Raises UserError where the search reads what no head of the
    network says.
    """
    game = network.game
    chosen = options or parse_options(NetworkOptions, None, network.search)
    name = network.name + describe(chosen, network.search)
    if chosen.simulations:
        try:
            require_answers(chosen, network.settings)
        except UserError as error:
            raise UserError(f"{name}: {error}") from None
    facts = [network.digest, network.settings.model_dump(), chosen.model_dump(exclude={"noise"})]

    def evaluator() -> NetworkEvaluator:
        return _EVALUATORS.load(network)

    def new_player() -> Player:
        if chosen.simulations == 0:
            return PolicyPlayer(game, name, evaluator(), chosen.sampled_plies)
        return SearchPlayer(game, name, chosen.search, evaluator(), chosen.sampled_plies)

    return Agent(
        name,
        new_player,
        search_bytes(game, chosen) if chosen.simulations else 0,
        kept_bytes(game, chosen) if chosen.simulations else 0,
        chosen if chosen.simulations else None,
        game=game,
        identity=digest(json.dumps(facts, sort_keys=True).encode()),
        evaluator=evaluator,
        network=network.settings,
        varies=chosen.sampled_plies > 0 or _plays_out(chosen),
    )


def _plays_out(options: NetworkOptions) -> bool:
    """Return whether a search draws random playouts, so that it does not repeat itself."""
    return options.simulations > 0 and playouts(options.leaf_evaluator.build()) > 0


class _Evaluators:
    """Networks in use; players of the same one share it, whatever their searches.

    They are known by the digests of their weights, so that a network that was trained again in
    the same folder is never taken for the former one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loaded: WeakValueDictionary[tuple[str, str], NetworkEvaluator]
        self._loaded = WeakValueDictionary()

    def load(self, network: KeptNetwork) -> NetworkEvaluator:
        """Return the evaluator of a network, loaded if nobody holds it; see `KeptNetwork.load`."""
        key = network.digest, json.dumps(network.settings.model_dump())
        with self._lock:
            evaluator = self._loaded.get(key)
            if evaluator is None:
                evaluator = evaluator_of(network.settings, network.game, network.load())
                self._loaded[key] = evaluator
            return evaluator


_EVALUATORS = _Evaluators()
