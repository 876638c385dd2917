"""Speed of searches with a network: self-play, the search service, and single large searches."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch

from zerolab.agents.network_players import SearchPlayer
from zerolab.bench.kernels import Trees
from zerolab.bench.measurement import GAMES, Measurement, in_turns, timed
from zerolab.core.processes import available_cores
from zerolab.networks.catalogue import NETWORKS, build_network
from zerolab.networks.inference import NetworkEvaluator
from zerolab.play.selfplay import SelfPlayResult, play_episodes
from zerolab.play.selfplay_modes import play_by_service, play_continuous
from zerolab.play.selfplay_settings import ContinuousMode, SelfPlaySettings, ServiceMode
from zerolab.rules import python, rules
from zerolab.rules.catalogue import parse_game
from zerolab.search.evaluator import Evaluator, UniformEvaluator
from zerolab.search.search_settings import SearchSettings
from zerolab.store.examples import Unfinished
from zerolab.training.warm_start import WarmStartSettings, warm_start_search

_BATCHES = (64, 128, 256)
_LANES = 256

WORKLOADS: tuple[tuple[str, dict[str, Any], int, int], ...] = (
    ("conv512", {"name": "conv", "channels": 512}, 50, 25),
    ("resnet4x32", {"name": "resnet", "blocks": 4, "filters": 32}, 1024, 16),
)
"""Title, network, games, and simulations per move."""


def measure_self_play(rounds: int) -> Iterator[Measurement]:
    """Measure complete games for every workload, without and with deduplication and cache."""
    for title, settings, games, simulations in WORKLOADS:
        for name in GAMES:
            for saving in (False, True):
                cache = {} if saving else {"cache": 0}
                search = SearchSettings(simulations=simulations, deduplicate=saving, **cache)
                subject = SelfPlay(name, settings, games, search)
                limit = Network(name, settings)
                rate, best = in_turns(subject.play, limit.evaluate, rounds)
                yield Measurement(
                    f"selfplay/{title}/{name}/{'deduplicated' if saving else 'plain'}",
                    "simulations/s",
                    rate,
                    best,
                    "the network's best batched positions/s",
                    subject.shares(),
                )
    yield from _measure_without_tail(rounds)


def _measure_without_tail(rounds: int) -> Iterator[Measurement]:
    """Measure games that span iterations against games completed within one iteration."""
    settings = {"name": "resnet", "blocks": 4, "filters": 32}
    search = SearchSettings(simulations=60)
    for name in GAMES:
        episodes = SelfPlay(name, settings, _LANES, search, positions=True)
        lanes = ContinuousSelfPlay(name, settings, episodes.plies_per_game(), search)
        rate, tailed = in_turns(lanes.play, episodes.play, rounds)
        yield Measurement(
            f"selfplay/resnet4x32/{name}/continuous", "positions/s", rate, tailed,
            "episodes' positions/s, as many games at once", lanes.shares(),
        )  # fmt: skip


def make_evaluator(name: str, settings: dict[str, Any]) -> NetworkEvaluator:
    """Return an evaluator with an untrained network for a game."""
    game = parse_game(name)
    network_settings = NETWORKS[settings["name"]].model_validate(settings)
    return NetworkEvaluator(build_network(network_settings, game, seed=0), game)


class SelfPlay:
    """Successive iterations of self-play with an untrained network."""

    def __init__(
        self,
        name: str,
        network: dict[str, Any],
        games: int,
        search: SearchSettings,
        *,
        positions: bool = False,
    ) -> None:
        """Create self-play that counts simulations, or positions if `positions` is true."""
        self._game = parse_game(name)
        self._evaluator: Evaluator = make_evaluator(name, network)
        self._settings = SelfPlaySettings(episodes=games, threads=available_cores())
        self._search = search
        self._positions = positions
        self._iteration = 0
        self._seconds: dict[str, float] = {}

    def play(self) -> float:
        """Play one iteration; return the number of simulations or positions."""
        torch.set_num_threads(1)
        self._iteration += 1
        episodes = self._play()
        self._seconds = episodes.seconds
        return float(episodes.moves if self._positions else episodes.counts["simulations"])

    def _play(self) -> SelfPlayResult:
        return play_episodes(
            self._game, self._settings, self._search, self._evaluator, 0, self._iteration
        )

    def plies_per_game(self) -> int:
        """Play one iteration; return the rounded mean length of its games."""
        episodes = self._play()
        return round(episodes.moves / len(episodes.games))

    def shares(self) -> dict[str, float]:
        """Return each part's share of the last iteration's thread time, between 0 and 1."""
        total = sum(self._seconds.values())
        return {part: seconds / total for part, seconds in self._seconds.items()}


class ContinuousSelfPlay(SelfPlay):
    """Self-play in games that span iterations."""

    def __init__(
        self,
        name: str,
        network: dict[str, Any],
        plies: int,
        search: SearchSettings,
        *,
        lanes: int = _LANES,
    ) -> None:
        super().__init__(name, network, 1, search, positions=True)
        self._settings = SelfPlaySettings(
            mode=ContinuousMode(plies=plies), parallel_games=lanes, threads=available_cores()
        )
        self._unfinished: Unfinished | None = None

    def _play(self) -> SelfPlayResult:
        episodes = play_continuous(
            self._game, self._settings, self._search, self._evaluator, 0, self._unfinished
        )
        self._unfinished = episodes.unfinished
        return episodes


class Network:
    """Network evaluation with the fastest of several batch sizes and threading modes."""

    def __init__(self, name: str, settings: dict[str, Any]) -> None:
        game = parse_game(name)
        self._evaluator = make_evaluator(name, settings)
        quick = SearchSettings(simulations=1)
        uniform = UniformEvaluator(rules.actions(game))
        played = play_episodes(game, SelfPlaySettings(episodes=64), quick, uniform, 0, 0)
        states = played.examples.states
        self._states = np.resize(states, (max(_BATCHES), states.shape[1]))
        self._repeats = 1
        modes = [(size, shared) for size in _BATCHES for shared in (False, True)]
        self._mode = max(modes, key=lambda mode: timed(lambda: self._run(*mode)))
        while timed(lambda: self._run(*self._mode)) > self._repeats * max(_BATCHES):
            self._repeats *= 2

    def evaluate(self) -> float:
        """Evaluate in the fastest mode for about a second; return the number of positions."""
        return self._run(*self._mode)

    def _run(self, size: int, shared: bool) -> float:
        """Evaluate one batch `shared` by all cores, or one batch per core."""
        cores = available_cores()
        torch.set_num_threads(cores if shared else 1)
        tasks = 1 if shared else cores
        with ThreadPoolExecutor(tasks) as pool:
            list(pool.map(lambda _: self._loop(size), range(tasks)))
        return float(tasks * self._repeats * size)

    def _loop(self, size: int) -> None:
        for _ in range(self._repeats):
            self._evaluator.evaluate(self._states[:size])


_GAME = "connect_four:6x7"
_NETWORK = {"name": "resnet", "blocks": 4, "filters": 32}
_GAMES = 1024
_PARALLEL_GAMES = 128  # far below _GAMES, so that a finished slot can start another search
_SEARCH = SearchSettings(simulations=32, reuse_tree=False)
_STARTS = (("random-starts", 24), ("one-start", 0))
"""Titles and maximum numbers of random opening plies; with many, positions rarely repeat."""


def measure_service(rounds: int) -> Iterator[Measurement]:
    """Measure searched moves per second, with rarely and with often repeated positions."""
    for title, plies in _STARTS:
        served, plain = ServedSelfPlay(plies), PlainSelfPlay(plies)
        rate, limit = in_turns(served.play, plain.play, rounds)
        yield Measurement(
            f"service/resnet4x32/{_GAME}/{title}", "moves/s", rate, limit,
            "plain self-play's moves/s, without kept trees", served.shares(),
            f"{served.saved:.0%} of the searches saved",
        )  # fmt: skip


class PlainSelfPlay(SelfPlay):
    """Iterations of plain self-play, measured in searched moves."""

    def __init__(self, random_opening_plies: int) -> None:
        super().__init__(_GAME, _NETWORK, _GAMES, _SEARCH)
        self._settings = SelfPlaySettings(
            episodes=_GAMES,
            random_opening_plies=random_opening_plies,
            threads=available_cores(),
            parallel_games=_PARALLEL_GAMES,
        )

    def play(self) -> float:
        """Play one iteration; return the number of searched moves."""
        self._iteration += 1
        episodes = self._play()
        self._seconds = episodes.seconds
        return float(episodes.examples.full.sum())


class ServedSelfPlay(PlainSelfPlay):
    """The same self-play through the search service."""

    saved = 0.0
    """Share of moves in the last iteration that needed no search."""

    def __init__(self, random_opening_plies: int) -> None:
        super().__init__(random_opening_plies)
        self._settings = self._settings.model_copy(update={"mode": ServiceMode()})

    def _play(self) -> SelfPlayResult:
        episodes = play_by_service(
            self._game, self._settings, self._search, self._evaluator, 0, self._iteration
        )
        self.saved = 1 - episodes.counts["searched"] / episodes.counts["asked"]
        return episodes


_ROOT_GAMES = ("connect_four:6x7", "othello:6x6")
_SIMULATIONS = 10_000


def measure_single_root(rounds: int) -> Iterator[Measurement]:
    """Measure searching the initial position with virtual loss, as an analysis does."""
    for title, network, *_ in WORKLOADS:
        for name in _ROOT_GAMES:
            subject, limit = SingleRoot(name, network), Network(name, network)
            rate, best = in_turns(subject.search, limit.evaluate, rounds)
            yield Measurement(
                f"single-root/{title}/{name}",
                "positions/s",
                rate,
                best,
                "the network's best batched positions/s",
                subject.shares(),
            )


class SingleRoot:
    """Player that searches the initial position with an untrained network."""

    def __init__(self, name: str, network: dict[str, Any]) -> None:
        self._game = parse_game(name)
        settings = SearchSettings(simulations=_SIMULATIONS, cache=0)
        evaluator = make_evaluator(name, network)
        self._player = SearchPlayer(self._game, "subject", settings, evaluator)
        self._player.search_with_virtual_loss()

    def search(self) -> float:
        """Search the initial position on all cores; return the number of evaluated positions."""
        torch.set_num_threads(available_cores())
        self._player.start(1)
        keys = np.zeros(1, np.uint64)
        self._player.choose(np.zeros(1, np.int64), python.start(self._game)[None], keys)
        return float(self._player.search.counts["evaluated"])

    def shares(self) -> dict[str, float]:
        """Return each part's share of the last search's time, between 0 and 1."""
        seconds = self._player.search.seconds
        return {part: each / sum(seconds.values()) for part, each in seconds.items()}


def measure_warm_start(rounds: int) -> Iterator[Measurement]:
    """Measure trees with a constant evaluator, and self-play with the papers' network."""
    for name in GAMES:
        rave, puct = Trees(name, "rave"), Trees(name)
        rate, limit = in_turns(rave.search_all, puct.search_all, 5 * rounds)
        yield Measurement(f"warm-start/rave/{name}", "simulations/s", rate, limit, "PUCT")
    title, network, games, simulations = WORKLOADS[0]
    plain = SearchSettings(simulations=simulations)
    warm = warm_start_search(plain, WarmStartSettings(variant="wrora"), weight=0.6)
    for name in GAMES:
        wrora, baseline = (SelfPlay(name, network, games, search) for search in (warm, plain))
        rate, limit = in_turns(wrora.play, baseline.play, rounds)
        yield Measurement(
            f"warm-start/wrora/{title}/{name}", "simulations/s", rate, limit, "Baseline",
            wrora.shares(),
        )  # fmt: skip
