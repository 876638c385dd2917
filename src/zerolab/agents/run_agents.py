"""Agents from the networks of runs, with specs of the form ``FOLDER[@ITERATION][?OPTIONS]``."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakValueDictionary

from pydantic import ConfigDict, Field

from zerolab.agents.agent import (
    AGENT_KINDS,
    Agent,
    AgentKind,
    ExternalAccess,
    NetworkOptions,
    options_text,
    parse_search_options,
    require_network_outputs,
    split_options,
)
from zerolab.agents.network_players import NetworkPlayerFactory, evaluation_cache_bytes, tree_bytes
from zerolab.core.config import Settings, validate, variant_annotation
from zerolab.core.errors import UserError
from zerolab.networks.catalogue import GROWTHS, NETWORKS, NetworkSettings, build_network
from zerolab.rules.catalogue import parse_game
from zerolab.rules.rules import Game
from zerolab.search.methods import playouts_per_leaf
from zerolab.search.search_settings import SearchSettings
from zerolab.store.arrays import NamedArrays
from zerolab.store.checks import hex_digest
from zerolab.store.games import RUN_MARK, network_name
from zerolab.store.listing import find_runs
from zerolab.store.run_folder import RunFolder, is_run

if TYPE_CHECKING:
    from zerolab.networks.inference import NetworkEvaluator


class StoredNetwork(NamedTuple):
    """A network in a run or a file, with its default search settings."""

    name: str
    """Canonical spec without options."""
    game: Game
    network_settings: NetworkSettings
    search_settings: SearchSettings
    """Search settings used in training, or those in the file."""
    digest: str
    """Digest of the network file in the run, which identifies weights, game and settings."""
    load_weights: Callable[[], NamedArrays]
    """Function that returns the weights; raises UserError if they are damaged or were replaced."""


def build_evaluator(
    settings: NetworkSettings, game: Game, weights: NamedArrays
) -> NetworkEvaluator:
    """Return the evaluator of a network; raise UserError if the weights are incompatible."""
    from zerolab.networks.inference import NetworkEvaluator
    from zerolab.networks.network import set_weights

    network = build_network(settings, game, seed=0)  # initial weights are replaced
    set_weights(network, weights)
    return NetworkEvaluator(network, game, is_owned=True)


def network_agent(network: StoredNetwork, options: NetworkOptions | None = None) -> Agent:
    """Return an agent that plays with a network, by default with the network's search settings.

    The agent searches without root noise; with 0 simulations, it plays by the network's policy. Its
    identity is derived from weights, network settings and search settings, so a network in a run
    and the same network in a file are the same agent. Raises UserError if the search needs an
    output that no head of the network provides.
    """
    game = network.game
    chosen = options or parse_search_options(NetworkOptions, None, network.search_settings)
    name = network.name + options_text(chosen, network.search_settings)
    if chosen.simulations:
        try:
            require_network_outputs(chosen, network.network_settings)
        except UserError as error:
            raise UserError(f"{name}: {error}") from None
    playouts = playouts_per_leaf(chosen.leaf_evaluator.build())
    is_search_random = chosen.simulations > 0 and (playouts > 0 or chosen.tie_break == "random")
    facts = [
        network.digest,
        network.network_settings.model_dump(),
        chosen.model_dump(exclude={"noise"}),
    ]

    def load_evaluator() -> NetworkEvaluator:
        return _EVALUATORS.load(network)

    return Agent(
        name,
        NetworkPlayerFactory(game, name, chosen, load_evaluator),
        tree_bytes(game, chosen) if chosen.simulations else 0,
        evaluation_cache_bytes(game, chosen) if chosen.simulations else 0,
        chosen if chosen.simulations else None,
        game=game,
        identity=hex_digest(json.dumps(facts, sort_keys=True).encode()),
        load_evaluator=load_evaluator,
        network_settings=network.network_settings,
        is_stochastic=chosen.temperature_plies > 0 or is_search_random,
    )


class _Evaluators:
    """Evaluators in use; a network is loaded only once for all players and searches.

    The key includes the digest of the weights, because the network of an iteration can be
    retrained.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loaded: WeakValueDictionary[tuple[str, str], NetworkEvaluator]
        self._loaded = WeakValueDictionary()

    def load(self, network: StoredNetwork) -> NetworkEvaluator:
        """Return the evaluator of a network, loading it unless a player already uses it.

        Raises UserError as `StoredNetwork.load_weights` does.
        """
        key = network.digest, json.dumps(network.network_settings.model_dump())
        with self._lock:
            evaluator = self._loaded.get(key)
            if evaluator is None:
                evaluator = build_evaluator(
                    network.network_settings, network.game, network.load_weights()
                )
                self._loaded[key] = evaluator
            return evaluator


_EVALUATORS = _Evaluators()

_RUNS = Path("runs")
_MAX_DIGITS = 10  # iteration numbers have fewer digits
_DIGEST = re.compile(r"[0-9a-f]{8,}")


class RunPlaySettings(Settings):
    """The settings of a run that are needed to play with its networks."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    game: str
    seed: int
    network: variant_annotation(NETWORKS) = Field(default_factory=NETWORKS["conv"])  # type: ignore[valid-type]
    growth: variant_annotation(GROWTHS) = Field(default_factory=GROWTHS["none"])  # type: ignore[valid-type]
    search: SearchSettings = SearchSettings()

    def network_settings_at(self, iteration: int) -> NetworkSettings:
        """Return the network settings of an iteration, taking network growth into account."""
        settings: NetworkSettings = self.growth.network_settings(self.network, iteration)
        return settings


def read_play_settings(run: RunFolder) -> RunPlaySettings:
    """Return the settings needed to play with a run's networks; raise UserError if damaged."""
    return validate(RunPlaySettings, run.config, source=str(run.path / "config.toml"))


def load_run_evaluator(run: RunFolder, iteration: int) -> NetworkEvaluator:
    """Return a network's evaluator; raise UserError if the network is missing or damaged."""
    settings = read_play_settings(run)
    network, game = settings.network_settings_at(iteration), parse_game(settings.game)
    return build_evaluator(network, game, run.load_weights(iteration))


def agent_of_run(run: RunFolder, iteration: int, options: NetworkOptions | None = None) -> Agent:
    """Return the agent that plays with a run's network; see `network_agent`."""
    settings = read_play_settings(run)
    name, digest = run_spec(network_name(run.path, iteration)), run.weights_digest(iteration)

    def load_weights() -> NamedArrays:
        if run.weights_digest(iteration) != digest:
            raise UserError(f"{name} has been retrained in the meantime: repeat the command")
        return run.load_weights(iteration)

    game, network = parse_game(settings.game), settings.network_settings_at(iteration)
    return network_agent(
        StoredNetwork(name, game, network, settings.search, digest, load_weights), options
    )


class _Run(AgentKind):
    """Network of a run, by default the best one."""

    spec_form = "a run such as runs/demo, runs/demo@12 or runs/demo?simulations=400"
    external_access: ExternalAccess = "path"

    def recognises(self, spec: str) -> bool:
        return is_run_spec(split_options(spec)[0])

    def known_specs(self) -> Sequence[str]:
        return [path.as_posix() for path in find_runs([_RUNS])] if _RUNS.is_dir() else []

    def fixed_game(self, argument: str) -> Game:
        run, _ = find_run_and_iteration(split_options(argument)[0])
        return parse_game(read_play_settings(run).game)

    def new_agent(self, argument: str, game: Game) -> Agent:
        bare_spec, text = split_options(argument)
        run, iteration = find_run_and_iteration(bare_spec)
        return agent_of_run(
            run,
            iteration,
            parse_search_options(NetworkOptions, text, read_play_settings(run).search),
        )


def run_spec(text: str) -> str:
    """Return a spec of the run or network named by a path, such as ``runs/demo@12``.

    ``mcts:9`` would name MCTS, so the spec of a run in a folder named mcts:9 is ``run:mcts:9``. A
    leading space would be removed, and a leading hyphen would begin a command-line option.
    """
    is_ambiguous = text[:1] in ("-", " ") or text.partition(":")[0] in AGENT_KINDS
    return f"{RUN_MARK}{text}" if is_ambiguous else text


def is_run_spec(bare_spec: str) -> bool:
    """Return whether ``FOLDER[@ITERATION]`` names a run folder.

    Eight or more hexadecimal digits after the @ are the digest of an agent in a file, not an
    iteration.
    """
    folder, at, digits = bare_spec.rpartition("@")
    is_iteration = bool(at) and not _DIGEST.fullmatch(digits)
    return _is_run(bare_spec) or (is_iteration and is_run(Path(folder)))


def _is_run(folder: str) -> bool:
    """Return whether a folder contains a run; folder names can contain an @."""
    tail = folder.rpartition("@")[2]
    too_long = tail.isdecimal() and len(tail) >= _MAX_DIGITS  # the file system could reject it
    return not too_long and is_run(Path(folder))


def find_run_and_iteration(bare_spec: str) -> tuple[RunFolder, int]:
    """Return the run and the iteration of the network named by ``FOLDER[@ITERATION]``.

    By default, the iteration is that of the best network. Raises UserError if the run or the
    given iteration does not exist.
    """
    folder, iteration = bare_spec, ""
    if "@" in bare_spec and not _is_run(bare_spec):
        folder, _, iteration = bare_spec.rpartition("@")
        if not (iteration.isdecimal() and len(iteration) < _MAX_DIGITS):
            raise UserError(f'"{bare_spec}": expected a whole number after @, as in {folder}@12')
    run = RunFolder.open(Path(folder))
    return run, network_iteration(run, int(iteration) if iteration else None)


def network_iteration(run: RunFolder, iteration: int | None) -> int:
    """Return the iteration of a network, by default the best; raise UserError if it is missing."""
    if iteration is None:
        return run.progress.best
    networks = run.network_iterations()
    if iteration not in networks:
        known = ", ".join(map(str, networks)) or "none yet"
        raise UserError(f"{run.path} has no network {iteration}: expected one of {known}")
    return iteration


AGENT_KINDS.add("run", _Run())
