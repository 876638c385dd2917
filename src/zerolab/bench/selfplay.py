"""Speed of search with a network: self-play, the search service, and single large searches."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch

from zerolab.agents.network_players import SearchPlayer
from zerolab.bench.benchmarks import GAMES, BenchmarkResult, measure_median_rates, measure_rate
from zerolab.bench.kernels import TreeSearches
from zerolab.core.processes import available_cores
from zerolab.networks.catalogue import NETWORKS, build_network
from zerolab.networks.inference import NetworkEvaluator
from zerolab.play.executors import THREAD_EXECUTOR, Executor
from zerolab.play.selfplay import SelfPlayResult, play_episodes
from zerolab.play.selfplay_modes import play_continuous, play_with_service
from zerolab.play.selfplay_settings import ContinuousMode, SelfPlaySettings, ServiceMode
from zerolab.report.table import percent
from zerolab.rules import compiled_rules, rules
from zerolab.rules.catalogue import parse_game
from zerolab.search.evaluator import Evaluator, UniformEvaluator
from zerolab.search.search_settings import SearchSettings
from zerolab.store.examples import UnfinishedGames
from zerolab.training.warm_start import WarmStartSettings, warm_start_search_settings

_BATCHES = (64, 128, 256)
_LANES = 256

WORKLOADS: tuple[tuple[str, dict[str, Any], int, int], ...] = (
    ("conv512", {"name": "conv", "channels": 512}, 50, 25),
    ("resnet4x32", {"name": "resnet", "blocks": 4, "filters": 32}, 1024, 16),
)
"""Title, network settings, games per iteration, and simulations per move."""


def measure_self_play(rounds: int) -> Iterator[BenchmarkResult]:
    """Measure self-play for every workload, with and without deduplication and a cache."""
    for title, settings, games, simulations in WORKLOADS:
        for name in GAMES:
            for saving in (False, True):
                cache = {} if saving else {"cache": 0}
                search = SearchSettings(simulations=simulations, deduplicate=saving, **cache)
                subject = SelfPlay(name, settings, games, search)
                limit = FastestEvaluation(name, settings)
                rate, limit_rate = measure_median_rates(subject.play, limit.evaluate, rounds)
                yield BenchmarkResult(
                    f"selfplay/{title}/{name}/{'deduplicated' if saving else 'plain'}",
                    "simulations/s",
                    rate,
                    limit_rate,
                    "the network's best batched positions/s",
                    subject.time_shares(),
                )
    yield from _measure_without_tail(rounds)


def _measure_without_tail(rounds: int) -> Iterator[BenchmarkResult]:
    """Compare games that span iterations with games that end within an iteration."""
    settings = {"name": "resnet", "blocks": 4, "filters": 32}
    search = SearchSettings(simulations=60)
    for name in GAMES:
        episodes = SelfPlay(name, settings, _LANES, search, counts_positions=True)
        lanes = ContinuousSelfPlay(name, settings, episodes.measure_plies_per_game(), search)
        rate, limit_rate = measure_median_rates(lanes.play, episodes.play, rounds)
        yield BenchmarkResult(
            f"selfplay/resnet4x32/{name}/continuous", "positions/s", rate, limit_rate,
            "positions/s of episodic self-play with the same number of parallel games",
            lanes.time_shares(),
        )  # fmt: skip


def untrained_evaluator(name: str, settings: dict[str, Any], seed: int = 0) -> NetworkEvaluator:
    """Return an evaluator with an untrained network for the game named `name`."""
    game = parse_game(name)
    network_settings = NETWORKS[settings["name"]].model_validate(settings)
    return NetworkEvaluator(build_network(network_settings, game, seed), game)


class SelfPlay:
    """Successive iterations of self-play with an untrained network."""

    def __init__(
        self,
        name: str,
        network: dict[str, Any],
        games: int,
        search: SearchSettings,
        *,
        counts_positions: bool = False,
    ) -> None:
        """Create self-play that counts simulations or, if `counts_positions`, positions."""
        self._game = parse_game(name)
        self._evaluator: Evaluator = untrained_evaluator(name, network)
        self._settings = SelfPlaySettings(episodes=games, threads=available_cores())
        self._search = search
        self._counts_positions = counts_positions
        self._iteration = 0
        self._seconds: dict[str, float] = {}

    def play(self) -> float:
        """Play one iteration; return the number of simulations or positions."""
        torch.set_num_threads(1)
        self._iteration += 1
        episodes = self._play()
        self._seconds = episodes.seconds_by_part
        return float(
            episodes.searched_move_count
            if self._counts_positions
            else episodes.search_counts["simulations"]
        )

    def _play(self) -> SelfPlayResult:
        return play_episodes(
            self._game, self._settings, self._search, self._evaluator, 0, self._iteration
        )

    def measure_plies_per_game(self) -> int:
        """Play one iteration; return the rounded mean length of its games."""
        episodes = self._play()
        return round(episodes.searched_move_count / len(episodes.games))

    def time_shares(self) -> dict[str, float]:
        """Return each part's share of the thread time of the last iteration, in [0, 1]."""
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
        executor: Executor = THREAD_EXECUTOR,
    ) -> None:
        self._executor = executor
        super().__init__(name, network, 1, search, counts_positions=True)
        self._settings = SelfPlaySettings(
            mode=ContinuousMode(plies=plies), parallel_games=lanes, threads=available_cores()
        )
        self._unfinished: UnfinishedGames | None = None

    def _play(self) -> SelfPlayResult:
        episodes = play_continuous(
            self._game, self._settings, self._search, self._evaluator, 0, self._unfinished,
            executor=self._executor,
        )  # fmt: skip
        self._unfinished = episodes.unfinished_games
        return episodes


class FastestEvaluation:
    """Evaluation by an untrained network, with the fastest batch size and threading mode."""

    def __init__(self, name: str, settings: dict[str, Any]) -> None:
        game = parse_game(name)
        self._evaluator = untrained_evaluator(name, settings)
        quick = SearchSettings(simulations=1)
        uniform = UniformEvaluator(rules.action_count(game))
        played = play_episodes(game, SelfPlaySettings(episodes=64), quick, uniform, 0, 0)
        states = played.examples.states
        self._states = np.resize(states, (max(_BATCHES), states.shape[1]))
        self._repeats = 1
        modes = [(size, shared) for size in _BATCHES for shared in (False, True)]
        self._mode = max(modes, key=lambda mode: measure_rate(lambda: self._run(*mode)))
        while measure_rate(lambda: self._run(*self._mode)) > self._repeats * max(_BATCHES):
            self._repeats *= 2

    def evaluate(self) -> float:
        """Evaluate positions for about a second in the fastest mode; return their number."""
        return self._run(*self._mode)

    def _run(self, size: int, shared: bool) -> float:
        """Evaluate one batch shared by all cores if `shared`, otherwise one batch per core."""
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
_PARALLEL_GAMES = 128  # far below _GAMES, so that slots are reused for new searches
_SEARCH = SearchSettings(simulations=32, reuse_tree=False)
_STARTS = (("random-starts", 24), ("one-start", 0))
"""Title, and maximum number of random opening plies; with many, positions rarely repeat."""


def measure_search_service(rounds: int) -> Iterator[BenchmarkResult]:
    """Measure the search service's moves per second.

    One measurement uses positions that rarely repeat; the other uses positions that often do.
    """
    for title, plies in _STARTS:
        served, plain = SearchServiceSelfPlay(plies), PlainSelfPlay(plies)
        rate, limit_rate = measure_median_rates(served.play, plain.play, rounds)
        yield BenchmarkResult(
            f"service/resnet4x32/{_GAME}/{title}", "moves/s", rate, limit_rate,
            "moves/s of plain self-play, without tree reuse", served.time_shares(),
            f"{percent(served.unsearched_move_share, 0)} of the searches saved",
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
        self._seconds = episodes.seconds_by_part
        return float(episodes.examples.full.sum())


class SearchServiceSelfPlay(PlainSelfPlay):
    """Iterations of the same self-play through the search service."""

    unsearched_move_share = 0.0
    """Share of moves in the last iteration that needed no search."""

    def __init__(self, random_opening_plies: int) -> None:
        super().__init__(random_opening_plies)
        self._settings = self._settings.model_copy(update={"mode": ServiceMode()})

    def _play(self) -> SelfPlayResult:
        episodes = play_with_service(
            self._game, self._settings, self._search, self._evaluator, 0, self._iteration
        )
        self.unsearched_move_share = (
            1 - episodes.search_counts["searched"] / episodes.search_counts["asked"]
        )
        return episodes


_ROOT_GAMES = ("connect_four:6x7", "othello:6x6")
_SIMULATIONS = 10_000


def measure_single_root(rounds: int) -> Iterator[BenchmarkResult]:
    """Measure a search of the initial position with virtual loss, as in an analysis."""
    for title, network, *_ in WORKLOADS:
        for name in _ROOT_GAMES:
            subject, limit = SingleRootSearch(name, network), FastestEvaluation(name, network)
            rate, limit_rate = measure_median_rates(subject.search, limit.evaluate, rounds)
            yield BenchmarkResult(
                f"single-root/{title}/{name}",
                "positions/s",
                rate,
                limit_rate,
                "the network's best batched positions/s",
                subject.time_shares(),
            )


class SingleRootSearch:
    """Search of the initial position by a player with an untrained network."""

    def __init__(self, name: str, network: dict[str, Any]) -> None:
        self._game = parse_game(name)
        settings = SearchSettings(simulations=_SIMULATIONS, cache=0)
        evaluator = untrained_evaluator(name, network)
        self._player = SearchPlayer(self._game, "subject", settings, evaluator)
        self._player.enable_virtual_loss()

    def search(self) -> float:
        """Search the initial position on all cores; return the number of evaluated positions."""
        torch.set_num_threads(available_cores())
        self._player.start(1)
        keys = np.zeros(1, np.uint64)
        self._player.choose(np.zeros(1, np.int64), compiled_rules.start(self._game)[None], keys)
        return float(self._player.search.work_counts["evaluated"])

    def time_shares(self) -> dict[str, float]:
        """Return each part's share of the time of the last search, in [0, 1]."""
        seconds = self._player.search.seconds_by_part
        return {part: each / sum(seconds.values()) for part, each in seconds.items()}


def measure_warm_start(rounds: int) -> Iterator[BenchmarkResult]:
    """Compare RAVE with PUCT, both without a network, and warm-started with plain self-play."""
    for name in GAMES:
        rave, puct = TreeSearches(name, "rave"), TreeSearches(name)
        rate, limit_rate = measure_median_rates(rave.search_all, puct.search_all, 5 * rounds)
        yield BenchmarkResult(f"warm-start/rave/{name}", "simulations/s", rate, limit_rate, "PUCT")
    title, network, games, simulations = WORKLOADS[0]
    plain = SearchSettings(simulations=simulations)
    warm = warm_start_search_settings(plain, WarmStartSettings(variant="wrora"), weight=0.6)
    for name in GAMES:
        wrora, baseline = (SelfPlay(name, network, games, search) for search in (warm, plain))
        rate, limit_rate = measure_median_rates(wrora.play, baseline.play, rounds)
        yield BenchmarkResult(
            f"warm-start/wrora/{title}/{name}", "simulations/s", rate, limit_rate, "Baseline",
            wrora.time_shares(),
        )  # fmt: skip
