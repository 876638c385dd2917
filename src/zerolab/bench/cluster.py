"""Speed of actors on a local Ray cluster, with a core each, against the threads of one process."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

from zerolab.agents.agent import Agent, NetworkOptions
from zerolab.agents.network_players import NetworkPlayers
from zerolab.bench.benchmarks import BenchmarkResult, alternating_rates
from zerolab.bench.selfplay import ContinuousSelfPlay, untrained_evaluator
from zerolab.core.processes import available_cores
from zerolab.play.executors import THREADS, Executor
from zerolab.play.match import play_match
from zerolab.play.ray_executor import RayExecutor
from zerolab.play.selfplay import play_episodes
from zerolab.play.selfplay_settings import SelfPlaySettings
from zerolab.rules import rules
from zerolab.rules.catalogue import parse_game
from zerolab.search.evaluator import Evaluator, UniformEvaluator
from zerolab.search.search_settings import SearchSettings

_GAME = "connect_four:6x7"
_NETWORK = {"name": "resnet", "blocks": 4, "filters": 32}
_SEARCH = SearchSettings(simulations=60)
_PLIES = 10
_GATE_GAMES = 128
_OPENINGS = 4
_CHUNKS = 200


def measure_cluster(rounds: int) -> Iterator[BenchmarkResult]:
    """Measure continuous self-play, a gate and tiny chunks; raise MissingExtraError without Ray."""
    actors = available_cores()
    with RayExecutor("local", _GAME, actors) as executor:
        limit_of = f"one process with {actors} threads"
        remote = ContinuousSelfPlay(_GAME, _NETWORK, _PLIES, _SEARCH, executor=executor)
        local = ContinuousSelfPlay(_GAME, _NETWORK, _PLIES, _SEARCH)
        rate, limit = alternating_rates(remote.play, local.play, rounds)
        yield BenchmarkResult(
            f"cluster/continuous/{_GAME}", "positions/s", rate, limit, limit_of,
            note=f"{actors} actors with a core each, one chunk per actor and iteration",
        )  # fmt: skip
        rate, limit = alternating_rates(Gate(executor).play, Gate(THREADS).play, rounds)
        yield BenchmarkResult(f"cluster/gate/{_GAME}", "games/s", rate, limit, limit_of)
        rate, limit = alternating_rates(TinyChunks(executor).play, TinyChunks(THREADS).play, rounds)
        yield BenchmarkResult(
            f"cluster/chunks/{_GAME}", "chunks/s", rate, limit, limit_of,
            note="chunks of one game with one simulation per move",
        )  # fmt: skip
    yield from _sizes()


def _sizes() -> Iterator[BenchmarkResult]:
    """Measure the bytes of the network and of the examples of a position, as they travel."""
    evaluator = untrained_evaluator(_GAME, _NETWORK)
    settings = SelfPlaySettings(episodes=64)
    played = play_episodes(parse_game(_GAME), settings, _SEARCH, evaluator, 0, 0)
    size, positions = len(pickle.dumps(played)), len(played.examples.plies)
    stored = sum(column.nbytes for column in vars(played.examples).values())
    yield BenchmarkResult(
        f"cluster/sizes/{_GAME}", "bytes/position", size / positions, stored / positions,
        "the columns of the examples", note=f"network of {len(pickle.dumps(evaluator)):,} bytes",
    )  # fmt: skip


class Gate:
    """Matches of two untrained networks."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._game = parse_game(_GAME)
        options = NetworkOptions(simulations=_SEARCH.simulations)
        self._agents = []
        for seed in range(2):
            evaluator = untrained_evaluator(_GAME, _NETWORK, seed)
            self._agents.append(_agent(f"network {seed}", evaluator, options))
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


def _agent(name: str, evaluator: Evaluator, options: NetworkOptions) -> Agent:
    game = parse_game(_GAME)
    players = NetworkPlayers(game, name, options, lambda: evaluator)
    return Agent(name, players, game=game, load_evaluator=players.load_evaluator)


class TinyChunks:
    """Self-play in many chunks that take almost no time, which shows the overhead of a chunk."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._game = parse_game(_GAME)
        self._settings = SelfPlaySettings(episodes=_CHUNKS, chunks=_CHUNKS)
        self._evaluator = UniformEvaluator(rules.action_count(self._game))

    def play(self) -> float:
        """Play an iteration; return the number of chunks."""
        play_episodes(
            self._game, self._settings, SearchSettings(simulations=1), self._evaluator, 0, 0,
            executor=self._executor,
        )  # fmt: skip
        return float(_CHUNKS)
