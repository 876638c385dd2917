"""``FOLDER[@ITERATION][?OPTIONS]``: a network of a run."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import NamedTuple
from weakref import WeakValueDictionary

from zerolab.agents.interface import KINDS, Agent
from zerolab.agents.options import NetworkOptions, describe, parse_options, split_options
from zerolab.arena.greedy import GreedyPlayer
from zerolab.arena.players import Player, SearchPlayer, search_bytes
from zerolab.core.errors import UserError
from zerolab.networks.inference import NetworkEvaluator
from zerolab.rules.catalogue import parse_game
from zerolab.rules.interface import Game
from zerolab.store.checks import digest
from zerolab.store.run_folder import RunFolder, is_run
from zerolab.training.agents import load_evaluator, run_settings
from zerolab.training.settings import TrainSettings

_MOST_DIGITS = 10


class _Named(NamedTuple):
    """A run and one of its networks."""

    run: RunFolder
    settings: TrainSettings
    iteration: int


class _Run:
    form = "a run's folder, such as runs/demo, runs/demo@12 or runs/demo?simulations=400"

    def game(self, argument: str) -> Game:
        """See `Kind.game`."""
        return parse_game(_find(split_options(argument)[0]).settings.game)

    def agent(self, argument: str, game: Game) -> Agent:
        """See `Kind.agent`."""
        head, text = split_options(argument)
        run, settings, iteration = _find(head)
        options = parse_options(NetworkOptions, text, settings.search)
        changes = describe(options, settings.search)
        name = f"{run.path.as_posix()}@{iteration}{changes}"

        def evaluator() -> NetworkEvaluator:
            return _NETWORKS.load(run, settings, iteration)

        def player() -> Player:
            if options.simulations == 0:
                return GreedyPlayer(game, name, evaluator(), options.sampled_plies)
            return SearchPlayer(game, name, options.search, evaluator(), options.sampled_plies)

        trained = settings.model_dump_json(exclude={"iterations"})
        identity = digest(json.dumps([trained, iteration, changes]).encode())
        memory = search_bytes(game, options.search) if options.simulations else 0
        return Agent(name, player, memory, game=game, identity=identity, evaluator=evaluator)


def _find(head: str) -> _Named:
    """Find the run and the network that ``FOLDER[@ITERATION]`` names."""
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
    return _Named(run, run_settings(run), chosen)


class _Networks:
    """Networks in use; players of the same one share it, whatever their searches."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loaded: WeakValueDictionary[tuple[Path, int], NetworkEvaluator]
        self._loaded = WeakValueDictionary()

    def load(self, run: RunFolder, settings: TrainSettings, iteration: int) -> NetworkEvaluator:
        """Return a network's evaluator, loaded anew if no player holds it any more."""
        key = run.path.resolve(), iteration
        with self._lock:
            evaluator = self._loaded.get(key)
            if evaluator is None:
                evaluator = load_evaluator(run, settings, iteration)
                self._loaded[key] = evaluator
            return evaluator


_NETWORKS = _Networks()

KINDS.add("run", _Run())
