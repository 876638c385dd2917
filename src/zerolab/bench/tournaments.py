"""Speed of tournaments, leagues and clusters relative to plain self-play or to one process."""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from zerolab.agents.agent import Agent, NetworkOptions
from zerolab.agents.network_players import NetworkPlayerFactory, SearchPlayer, tree_bytes
from zerolab.bench.benchmarks import BenchmarkResult, measure_median_rates
from zerolab.bench.selfplay import ContinuousSelfPlay, untrained_evaluator
from zerolab.core.processes import available_cores
from zerolab.league.league import League
from zerolab.league.league_settings import LeagueSettings
from zerolab.networks.inference import NetworkEvaluator
from zerolab.play.executors import THREAD_EXECUTOR, Executor
from zerolab.play.match import play_match
from zerolab.play.ray_executor import RayExecutor
from zerolab.play.selfplay import play_episodes
from zerolab.play.selfplay_settings import SelfPlaySettings
from zerolab.play.tournament import Tournament, TournamentSettings
from zerolab.rules import rules
from zerolab.rules.catalogue import parse_game
from zerolab.search.evaluator import Evaluator, UniformEvaluator
from zerolab.search.search_settings import SearchSettings

_GAME_NAME = "connect_four:6x7"
_NETWORK = {"name": "resnet", "blocks": 4, "filters": 32}
_NETWORKS = 4
_GAMES_PER_PAIR = 340
_SIMULATIONS = 8
_SAMPLED_PLIES = 14  # the default of self-play, so that games are similar


def measure_tournament(rounds: int) -> Iterator[BenchmarkResult]:
    """Compare a tournament with self-play, without deduplication and cache, then with both."""
    evaluators = [untrained_evaluator(_GAME_NAME, _NETWORK, seed) for seed in range(_NETWORKS)]
    for saving in (False, True):
        cache = {} if saving else {"cache": 0}
        search = SearchSettings(simulations=_SIMULATIONS, deduplicate=saving, **cache)
        subject = _Tournament(evaluators, search)
        limit = _SelfPlay(evaluators[0], search)
        rate, limit_rate = measure_median_rates(subject.play, limit.play, rounds)
        label = f"tournament/resnet4x32/{_GAME_NAME}/{'deduplicated' if saving else 'plain'}"
        yield BenchmarkResult(
            label, "simulations/s", rate, limit_rate, "self-play of one of the networks"
        )


class _Tournament:
    """Complete tournament, stored in a temporary folder."""

    def __init__(self, evaluators: Sequence[NetworkEvaluator], search: SearchSettings) -> None:
        self._game = parse_game(_GAME_NAME)
        self._players: list[SearchPlayer] = []
        self._agents = [self._agent(n, each, search) for n, each in enumerate(evaluators)]
        self._settings = TournamentSettings(
            game=_GAME_NAME,
            games=_GAMES_PER_PAIR,
            players={agent.name: "" for agent in self._agents},
        )

    def _agent(self, number: int, evaluator: NetworkEvaluator, search: SearchSettings) -> Agent:
        name = f"network {number}"

        def create_player() -> SearchPlayer:
            player = SearchPlayer(self._game, name, search, evaluator, _SAMPLED_PLIES)
            self._players.append(player)
            return player

        return Agent(name, create_player, tree_bytes(self._game, search))

    def play(self) -> float:
        """Play all games; return the number of simulations."""
        torch.set_num_threads(1)
        self._players.clear()
        with (
            tempfile.TemporaryDirectory() as folder,
            Tournament.open_locked(Path(folder), self._settings) as tournament,
        ):
            tournament.play(self._game, self._agents)
        return float(sum(player.search.work_counts["simulations"] for player in self._players))


class _SelfPlay:
    """Self-play with one network, with the same number of games as a `_Tournament`."""

    def __init__(self, evaluator: NetworkEvaluator, search: SearchSettings) -> None:
        self._game = parse_game(_GAME_NAME)
        self._evaluator = evaluator
        self._search = search
        episodes = _GAMES_PER_PAIR * _NETWORKS * (_NETWORKS - 1) // 2
        self._settings = SelfPlaySettings(episodes=episodes, threads=available_cores())
        self._iteration = 0

    def play(self) -> float:
        """Play all games; return the number of simulations."""
        torch.set_num_threads(1)
        self._iteration += 1
        played = play_episodes(
            self._game, self._settings, self._search, self._evaluator, 0, self._iteration
        )
        return played.search_counts["simulations"]


_LEAGUE_GAME_NAMES = ("connect_four:6x7", "gobang:6x6")
_GAMES = 500
_SEARCH: dict[str, Any] = {
    "simulations": 8,
    "selection": {"name": "puct", "c": 3.09},
    "fpu": {"name": "fixed", "value": 0.709},
}


def measure_league(rounds: int) -> Iterator[BenchmarkResult]:
    """Compare leagues with self-play that uses the same number of simulations.

    The players of a league differ in the exploration constant c and in first-play urgency.
    """
    for name in _LEAGUE_GAME_NAMES:
        evaluator = untrained_evaluator(name, _NETWORK)
        subject, limit = _League(name, evaluator), _LeagueSelfPlay(name, evaluator)
        rate, limit_rate = measure_median_rates(subject.play, limit.play, rounds)
        yield BenchmarkResult(
            f"league/resnet4x32/{name}", "games/min", 60 * rate, 60 * limit_rate,
            "self-play, one tree for both sides",
            note=f"{subject.plies:.1f} plies per game, self-play {limit.plies:.1f}",
        )  # fmt: skip


class _League:
    """First generations of successive leagues, each stored in a temporary folder."""

    def __init__(self, name: str, evaluator: NetworkEvaluator) -> None:
        self._game = parse_game(name)
        self._evaluator = evaluator
        self._seed = 0
        self._fields = {
            "game": name, "parameters": ("c", "fpu"), "search": _SEARCH, "generation": _GAMES,
            "batch": _GAMES, "temperature_plies": _SAMPLED_PLIES, "parallel_games": 512,
        }  # fmt: skip
        self.plies = 0.0
        """Mean plies per game in the latest league."""

    def play(self) -> float:
        """Play one league; return the number of games."""
        torch.set_num_threads(1)
        self._seed += 1
        settings = LeagueSettings.model_validate({**self._fields, "seed": self._seed})
        moves: list[int] = []
        with (
            tempfile.TemporaryDirectory() as folder,
            League.open_locked(Path(folder), settings) as league,
        ):
            league.play(
                self._game,
                self._evaluator,
                _GAMES,
                on_batch=lambda each: moves.append(each.searched_move_count),
            )
        self.plies = sum(moves) / _GAMES
        return float(_GAMES)


class _LeagueSelfPlay:
    """Self-play with one player, with the same number of games as a `_League`."""

    def __init__(self, name: str, evaluator: NetworkEvaluator) -> None:
        self._game = parse_game(name)
        self._evaluator = evaluator
        self._search = LeagueSettings(game=name, search=_SEARCH).search
        self._settings = SelfPlaySettings(
            episodes=_GAMES, temperature_plies=_SAMPLED_PLIES, threads=available_cores()
        )
        self._iteration = 0
        self.plies = 0.0
        """Mean plies per game in the latest iteration."""

    def play(self) -> float:
        """Play one iteration; return the number of games."""
        torch.set_num_threads(1)
        self._iteration += 1
        played = play_episodes(
            self._game, self._settings, self._search, self._evaluator, 0, self._iteration
        )
        self.plies = played.searched_move_count / _GAMES
        return float(_GAMES)


_CLUSTER_SEARCH = SearchSettings(simulations=60)
_CONTINUOUS_PLIES = 10
_GATE_GAMES = 128
_OPENINGS = 4
_CHUNKS = 200


def measure_cluster(rounds: int) -> Iterator[BenchmarkResult]:
    """Compare a Ray cluster with one process on continuous self-play, a gate and tiny chunks.

    The environment variable RAY_ADDRESS, HOST:PORT, selects the cluster; by default, one is started
    on this machine. Raises MissingExtraError if Ray is not installed.
    """
    actors = available_cores()
    with RayExecutor(os.environ.get("RAY_ADDRESS", "local"), _GAME_NAME, actors) as executor:
        limit_of = f"one process with {actors} threads"
        remote = ContinuousSelfPlay(
            _GAME_NAME, _NETWORK, _CONTINUOUS_PLIES, _CLUSTER_SEARCH, executor=executor
        )
        local = ContinuousSelfPlay(_GAME_NAME, _NETWORK, _CONTINUOUS_PLIES, _CLUSTER_SEARCH)
        rate, limit = measure_median_rates(remote.play, local.play, rounds)
        yield BenchmarkResult(
            f"cluster/continuous/{_GAME_NAME}", "positions/s", rate, limit, limit_of,
            note=f"{actors} actors with a core each, one chunk per actor and iteration",
        )  # fmt: skip
        rate, limit = measure_median_rates(
            _Gate(executor).play, _Gate(THREAD_EXECUTOR).play, rounds
        )
        yield BenchmarkResult(f"cluster/gate/{_GAME_NAME}", "games/s", rate, limit, limit_of)
        rate, limit = measure_median_rates(
            _TinyChunks(executor).play, _TinyChunks(THREAD_EXECUTOR).play, rounds
        )
        yield BenchmarkResult(
            f"cluster/chunks/{_GAME_NAME}", "chunks/s", rate, limit, limit_of,
            note="chunks of one game with one simulation per move",
        )  # fmt: skip
    yield from _measure_sizes()


def _measure_sizes() -> Iterator[BenchmarkResult]:
    """Measure the size of a sent network, and the bytes sent per position for the examples."""
    evaluator = untrained_evaluator(_GAME_NAME, _NETWORK)
    settings = SelfPlaySettings(episodes=64)
    played = play_episodes(parse_game(_GAME_NAME), settings, _CLUSTER_SEARCH, evaluator, 0, 0)
    size, positions = len(pickle.dumps(played)), len(played.examples.plies)
    stored = sum(column.nbytes for column in vars(played.examples).values())
    yield BenchmarkResult(
        f"cluster/sizes/{_GAME_NAME}", "bytes/position", size / positions, stored / positions,
        "the columns of the examples", note=f"network of {len(pickle.dumps(evaluator)):,} bytes",
    )  # fmt: skip


class _Gate:
    """Matches as large as a gate, between two untrained networks."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._game = parse_game(_GAME_NAME)
        options = NetworkOptions(simulations=_CLUSTER_SEARCH.simulations)
        self._agents = []
        for seed in range(2):
            evaluator = untrained_evaluator(_GAME_NAME, _NETWORK, seed)
            self._agents.append(_network_agent(f"network {seed}", evaluator, options))
        self._seed = 0

    def play(self) -> float:
        """Play a match; return the number of games."""
        self._seed += 1
        one, other = self._agents
        play_match(
            self._game, one, other, _GATE_GAMES, self._seed, openings=_OPENINGS,
            executor=self._executor,
        )  # fmt: skip
        return float(_GATE_GAMES)


def _network_agent(name: str, evaluator: Evaluator, options: NetworkOptions) -> Agent:
    game = parse_game(_GAME_NAME)
    players = NetworkPlayerFactory(game, name, options, lambda: evaluator)
    return Agent(name, players, game=game, load_evaluator=players.load_evaluator)


class _TinyChunks:
    """Self-play in many chunks that take almost no time, which shows the overhead of a chunk."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._game = parse_game(_GAME_NAME)
        self._settings = SelfPlaySettings(episodes=_CHUNKS, chunks=_CHUNKS)
        self._evaluator = UniformEvaluator(rules.action_count(self._game))

    def play(self) -> float:
        """Play an iteration; return the number of chunks."""
        play_episodes(
            self._game, self._settings, SearchSettings(simulations=1), self._evaluator, 0, 0,
            executor=self._executor,
        )  # fmt: skip
        return float(_CHUNKS)
