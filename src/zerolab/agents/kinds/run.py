"""``FOLDER[@ITERATION][?OPTIONS]``: a network of a run."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from pydantic import ConfigDict, Field

from zerolab.agents.interface import AGENT_KINDS, Agent, Player
from zerolab.agents.options import (
    NetworkOptions,
    describe,
    parse_options,
    require_answers,
    split_options,
)
from zerolab.agents.policy_player import PolicyPlayer
from zerolab.agents.search_player import SearchPlayer, search_bytes
from zerolab.core.config import Settings, choice_among, validate
from zerolab.core.errors import UserError
from zerolab.networks.catalogue import GROWTHS, NETWORKS, NetworkSettings, build_network
from zerolab.rules.catalogue import parse_game
from zerolab.rules.interface import Game
from zerolab.search.interface import playouts
from zerolab.search.settings import SearchSettings
from zerolab.store.agent_names import network_name
from zerolab.store.checks import digest
from zerolab.store.run_folder import RunFolder, is_run

if TYPE_CHECKING:
    from zerolab.networks.inference import NetworkEvaluator

_MOST_DIGITS = 10


class PlayableRun(Settings):
    """The part of a run's settings that its networks need in order to play."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    game: str
    seed: int
    network: choice_among(NETWORKS) = Field(default_factory=NETWORKS["conv"])  # type: ignore[valid-type]
    growth: choice_among(GROWTHS) = Field(default_factory=GROWTHS["none"])  # type: ignore[valid-type]
    search: SearchSettings = SearchSettings()

    def network_of(self, iteration: int) -> NetworkSettings:
        """Return the settings of the network of an iteration; see `Growth.network`."""
        settings: NetworkSettings = self.growth.network(self.network, iteration)
        return settings


def playable(run: RunFolder) -> PlayableRun:
    """Return what a run's networks need in order to play; raise UserError if it is damaged."""
    return validate(PlayableRun, run.config, source=str(run.path / "config.toml"))


def load_evaluator(run: RunFolder, iteration: int) -> NetworkEvaluator:
    """Return the evaluator of a run's network; raise UserError if it is not there or damaged."""
    from zerolab.networks.inference import NetworkEvaluator
    from zerolab.networks.weights import load_weights

    settings = playable(run)
    game = parse_game(settings.game)
    network = build_network(settings.network_of(iteration), game, settings.seed)
    load_weights(network, run.load_weights(iteration))
    return NetworkEvaluator(network, game)


def run_agent(run: RunFolder, iteration: int, options: NetworkOptions | None = None) -> Agent:
    """Return a run's network as an agent, by default with the search it was trained with.

    An agent searches without root noise; without simulations, the network's policy plays alone.
    Its identity is that of the weights, the network's settings and the search. Raises UserError
    where the search reads what no head of the network says.
    """
    settings = playable(run)
    game = parse_game(settings.game)
    chosen = options or parse_options(NetworkOptions, None, settings.search)
    name = network_name(run.path, iteration) + describe(chosen, settings.search)
    if chosen.simulations:
        try:
            require_answers(chosen, settings.network)
        except UserError as error:
            raise UserError(f"{name}: {error}") from None
    weights = run.weights_digest(iteration)
    network = settings.network_of(iteration).model_dump()
    facts = [weights, network, chosen.model_dump(exclude={"noise"})]

    def evaluator() -> NetworkEvaluator:
        return _EVALUATORS.load(run, iteration, weights)

    def new_player() -> Player:
        if chosen.simulations == 0:
            return PolicyPlayer(game, name, evaluator(), chosen.sampled_plies)
        return SearchPlayer(game, name, chosen.search, evaluator(), chosen.sampled_plies)

    return Agent(
        name,
        new_player,
        search_bytes(game, chosen) if chosen.simulations else 0,
        game=game,
        identity=digest(json.dumps(facts, sort_keys=True).encode()),
        evaluator=evaluator,
        varies=chosen.sampled_plies > 0 or _plays_out(chosen),
    )


def _plays_out(options: NetworkOptions) -> bool:
    """Return whether a search draws random playouts, so that it does not repeat itself."""
    return options.simulations > 0 and playouts(options.leaf_evaluator.build()) > 0


class _Run:
    form = "a run such as runs/demo, runs/demo@12 or runs/demo?simulations=400"

    def game(self, argument: str) -> Game:
        """See `AgentKind.game`."""
        run, _ = find_network(split_options(argument)[0])
        return parse_game(playable(run).game)

    def agent(self, argument: str, game: Game) -> Agent:
        """See `AgentKind.agent`."""
        head, text = split_options(argument)
        run, iteration = find_network(head)
        return run_agent(run, iteration, parse_options(NetworkOptions, text, playable(run).search))


def find_network(head: str) -> tuple[RunFolder, int]:
    """Return the run and the number of the network that ``FOLDER[@ITERATION]`` names.

    Without an iteration that is the best one. Raises UserError where there is none.
    """
    folder, iteration = head, ""
    if "@" in head and not is_run(Path(head)):
        folder, _, iteration = head.rpartition("@")
        if not (iteration.isdecimal() and len(iteration) < _MOST_DIGITS):
            raise UserError(f'"{head}": expected a whole number after @, as in {folder}@12')
    run = RunFolder.open(Path(folder))
    chosen = int(iteration) if iteration else run.progress.best
    networks = run.networks()
    if iteration and chosen not in networks:
        known = ", ".join(map(str, networks)) or "none yet"
        raise UserError(f"{run.path} has no network {chosen}: expected one of {known}")
    return run, chosen


class _Evaluators:
    """Networks in use; players of the same one share it, whatever their searches.

    They are known by the digests of their weights, so that a network that was trained again in
    the same folder is never taken for the former one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loaded: WeakValueDictionary[tuple[str, str], NetworkEvaluator]
        self._loaded = WeakValueDictionary()

    def load(self, run: RunFolder, iteration: int, weights: str) -> NetworkEvaluator:
        """Return the evaluator of the network with that digest, loaded if nobody holds it.

        Raises UserError if the file has other weights by now.
        """
        key = weights, json.dumps(playable(run).model_dump(include={"game", "network"}))
        with self._lock:
            evaluator = self._loaded.get(key)
            if evaluator is None:
                if run.weights_digest(iteration) != weights:
                    name = network_name(run.path, iteration)
                    raise UserError(f"{name} was trained again meanwhile: give the command again")
                evaluator = load_evaluator(run, iteration)
                self._loaded[key] = evaluator
            return evaluator


_EVALUATORS = _Evaluators()

AGENT_KINDS.add("run", _Run())
