"""Networks of runs as agents, with specs of the form ``FOLDER[@ITERATION][?OPTIONS]``."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakValueDictionary

from pydantic import ConfigDict, Field

from zerolab.agents.agent import AGENT_KINDS, Access, Agent, AgentKind, Player
from zerolab.agents.network_players import (
    PolicyPlayer,
    SearchPlayer,
    evaluation_cache_bytes,
    search_bytes,
)
from zerolab.agents.options import (
    NetworkOptions,
    options_text,
    parse_options,
    require_network_outputs,
    split_options,
)
from zerolab.core.config import Settings, validate, variant_among
from zerolab.core.errors import UserError
from zerolab.networks.catalogue import GROWTHS, NETWORKS, NetworkSettings, build_network
from zerolab.rules.catalogue import parse_game
from zerolab.rules.rules import Game
from zerolab.search.methods import playouts
from zerolab.search.search_settings import SearchSettings
from zerolab.store.arrays import Arrays
from zerolab.store.checks import digest
from zerolab.store.games import network_name
from zerolab.store.run_folder import RunFolder, is_run

if TYPE_CHECKING:
    from zerolab.networks.inference import NetworkEvaluator


class StoredNetwork(NamedTuple):
    """A network in a run or a file, with its default search settings."""

    name: str
    """Canonical spec without options."""
    game: Game
    settings: NetworkSettings
    search: SearchSettings
    """Search settings used in training."""
    digest: str
    """Digest of the network file in the run, which identifies weights, game and settings."""
    load: Callable[[], Arrays]
    """Function that returns the weights, or raises UserError if they are damaged or replaced."""


def evaluator_of(settings: NetworkSettings, game: Game, weights: Arrays) -> NetworkEvaluator:
    """Return the evaluator of a network; raise UserError if the weights do not fit."""
    from zerolab.networks.inference import NetworkEvaluator
    from zerolab.networks.network import load_weights

    network = build_network(settings, game, seed=0)  # initial weights are replaced
    load_weights(network, weights)
    return NetworkEvaluator(network, game)


def network_agent(network: StoredNetwork, options: NetworkOptions | None = None) -> Agent:
    """Return a network as an agent, by default with the search settings used in training.

    The agent searches without root noise; with 0 simulations, it plays the network's policy without
    search. Its identity is derived from weights, network settings and search settings, so a network
    in a run and in a file is the same agent. Raises UserError if the search needs an output that no
    head of the network provides.
    """
    game = network.game
    chosen = options or parse_options(NetworkOptions, None, network.search)
    name = network.name + options_text(chosen, network.search)
    if chosen.simulations:
        try:
            require_network_outputs(chosen, network.settings)
        except UserError as error:
            raise UserError(f"{name}: {error}") from None
    draws_playouts = chosen.simulations > 0 and playouts(chosen.leaf_evaluator.build()) > 0
    facts = [network.digest, network.settings.model_dump(), chosen.model_dump(exclude={"noise"})]

    def evaluator() -> NetworkEvaluator:
        return _EVALUATORS.load(network)

    def new_player() -> Player:
        if chosen.simulations == 0:
            return PolicyPlayer(game, name, evaluator(), chosen.temperature_plies)
        return SearchPlayer(game, name, chosen.search, evaluator(), chosen.temperature_plies)

    return Agent(
        name,
        new_player,
        search_bytes(game, chosen) if chosen.simulations else 0,
        evaluation_cache_bytes(game, chosen) if chosen.simulations else 0,
        chosen if chosen.simulations else None,
        game=game,
        identity=digest(json.dumps(facts, sort_keys=True).encode()),
        evaluator=evaluator,
        network=network.settings,
        varies=chosen.temperature_plies > 0 or draws_playouts,
    )


class _Evaluators:
    """Networks in use, each loaded only once for all players and searches.

    The key includes the digest of the weights, because a network can be retrained in the same
    folder.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loaded: WeakValueDictionary[tuple[str, str], NetworkEvaluator]
        self._loaded = WeakValueDictionary()

    def load(self, network: StoredNetwork) -> NetworkEvaluator:
        """Return the evaluator of a network, loading it unless a player already uses it.

        Raises UserError as `StoredNetwork.load` does.
        """
        key = network.digest, json.dumps(network.settings.model_dump())
        with self._lock:
            evaluator = self._loaded.get(key)
            if evaluator is None:
                evaluator = evaluator_of(network.settings, network.game, network.load())
                self._loaded[key] = evaluator
            return evaluator


_EVALUATORS = _Evaluators()

_MAX_DIGITS = 10  # of an iteration


class PlayableRun(Settings):
    """Run settings needed to play with the networks of the run."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    game: str
    seed: int
    network: variant_among(NETWORKS) = Field(default_factory=NETWORKS["conv"])  # type: ignore[valid-type]
    growth: variant_among(GROWTHS) = Field(default_factory=GROWTHS["none"])  # type: ignore[valid-type]
    search: SearchSettings = SearchSettings()

    def network_of(self, iteration: int) -> NetworkSettings:
        """Return the network settings of an iteration, taking network growth into account."""
        settings: NetworkSettings = self.growth.network(self.network, iteration)
        return settings


def read_playable_run(run: RunFolder) -> PlayableRun:
    """Return the play settings of a run's networks; raise UserError if they are damaged."""
    return validate(PlayableRun, run.config, source=str(run.path / "config.toml"))


def load_evaluator(run: RunFolder, iteration: int) -> NetworkEvaluator:
    """Return the evaluator of a network of a run; raise UserError if it is missing or damaged."""
    settings = read_playable_run(run)
    network, game = settings.network_of(iteration), parse_game(settings.game)
    return evaluator_of(network, game, run.load_weights(iteration))


def run_agent(run: RunFolder, iteration: int, options: NetworkOptions | None = None) -> Agent:
    """Return a network of a run as an agent; see `network_agent`."""
    settings = read_playable_run(run)
    name, digest = network_name(run.path, iteration), run.weights_digest(iteration)

    def load() -> Arrays:
        if run.weights_digest(iteration) != digest:
            raise UserError(f"{name} has been retrained in the meantime: repeat the command")
        return run.load_weights(iteration)

    game, network = parse_game(settings.game), settings.network_of(iteration)
    return network_agent(StoredNetwork(name, game, network, settings.search, digest, load), options)


class _Run(AgentKind):
    """Network of a run, by default the best one."""

    form = "a run such as runs/demo, runs/demo@12 or runs/demo?simulations=400"
    access: Access = "path"

    def claims(self, spec: str) -> bool:
        return names_run(split_options(spec)[0])

    def game(self, argument: str) -> Game:
        run, _ = find_network(split_options(argument)[0])
        return parse_game(read_playable_run(run).game)

    def agent(self, argument: str, game: Game) -> Agent:
        head, text = split_options(argument)
        run, iteration = find_network(head)
        return run_agent(
            run, iteration, parse_options(NetworkOptions, text, read_playable_run(run).search)
        )


def names_run(head: str) -> bool:
    """Return whether ``FOLDER[@ITERATION]`` names a run folder."""
    folder, at, _ = head.rpartition("@")
    return _is_run(head) or (bool(at) and is_run(Path(folder)))


def _is_run(folder: str) -> bool:
    """Return whether a folder contains a run; folder names can contain an @."""
    tail = folder.rpartition("@")[2]
    too_long = tail.isdecimal() and len(tail) >= _MAX_DIGITS  # can also exceed file name limits
    return not too_long and is_run(Path(folder))


def find_network(head: str) -> tuple[RunFolder, int]:
    """Return the run and the iteration of the network named by ``FOLDER[@ITERATION]``.

    By default, the iteration is that of the best network. Raises UserError if the network does not
    exist.
    """
    folder, iteration = head, ""
    if "@" in head and not _is_run(head):
        folder, _, iteration = head.rpartition("@")
        if not (iteration.isdecimal() and len(iteration) < _MAX_DIGITS):
            raise UserError(f'"{head}": expected a whole number after @, as in {folder}@12')
    run = RunFolder.open(Path(folder))
    chosen = int(iteration) if iteration else run.progress.best
    networks = run.networks()
    if iteration and chosen not in networks:
        known = ", ".join(map(str, networks)) or "none yet"
        raise UserError(f"{run.path} has no network {chosen}: expected one of {known}")
    return run, chosen


AGENT_KINDS.add("run", _Run())
