"""``FOLDER[@ITERATION][?OPTIONS]``: a network of a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ConfigDict, Field

from zerolab.agents.interface import AGENT_KINDS, Access, Agent
from zerolab.agents.network_agent import KeptNetwork, evaluator_of, network_agent
from zerolab.agents.options import NetworkOptions, parse_options, split_options
from zerolab.core.config import Settings, choice_among, validate
from zerolab.core.errors import UserError
from zerolab.networks.catalogue import GROWTHS, NETWORKS, NetworkSettings
from zerolab.rules.catalogue import parse_game
from zerolab.rules.interface import Game
from zerolab.search.settings import SearchSettings
from zerolab.store.agent_names import network_name
from zerolab.store.arrays import Arrays
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
    settings = playable(run)
    network, game = settings.network_of(iteration), parse_game(settings.game)
    return evaluator_of(network, game, run.load_weights(iteration))


def run_agent(run: RunFolder, iteration: int, options: NetworkOptions | None = None) -> Agent:
    """Return a run's network as an agent; see `network_agent.network_agent`."""
    settings = playable(run)
    name, digest = network_name(run.path, iteration), run.weights_digest(iteration)

    def load() -> Arrays:
        if run.weights_digest(iteration) != digest:
            raise UserError(f"{name} was trained again meanwhile: give the command again")
        return run.load_weights(iteration)

    game, network = parse_game(settings.game), settings.network_of(iteration)
    return network_agent(KeptNetwork(name, game, network, settings.search, digest, load), options)


class _Run:
    form = "a run such as runs/demo, runs/demo@12 or runs/demo?simulations=400"
    access: Access = "path"

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


AGENT_KINDS.add("run", _Run())
