"""Services that search each requested position only once [Clausen2021].

The result for a position depends only on the position, the network, the settings, the run seed and
the iteration: trees are discarded after each request, and random streams are independent of games.
Callers and the order of requests therefore do not matter, provided that network outputs do not
depend on the batch (docs/decisions/0002).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass
from threading import Event
from types import TracebackType
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from zerolab.agents.run_agents import build_evaluator
from zerolab.core.processes import available_cores
from zerolab.networks.catalogue import NETWORKS
from zerolab.play.engine import limit_threads_to_one_core, useful_thread_count
from zerolab.play.position_search import PositionResults, PositionSearch, ResultCache, empty_results
from zerolab.play.selfplay import sum_by_key
from zerolab.rules import rules
from zerolab.rules.catalogue import parse_game
from zerolab.rules.rules import Game
from zerolab.search.budgets import BudgetSettings, FixedBudgetSettings
from zerolab.search.evaluator import Evaluator, has_network
from zerolab.search.search_settings import SearchSettings

EvaluatorFactory = Callable[[], Evaluator]
"""Function that creates an evaluator in any process; picklable, so it cannot be a closure."""


@dataclass(frozen=True)
class NetworkEvaluatorFactory:
    """Picklable function that creates a network's evaluator on the caller's default device."""

    game_name: str
    network_settings: dict[str, Any]
    """Network settings, with the architecture as `name`."""
    weights: dict[str, NDArray[np.generic]]

    def __call__(self) -> Evaluator:
        """Build the network, load its weights, and return its evaluator."""
        settings = NETWORKS[self.network_settings["name"]].model_validate(self.network_settings)
        return build_evaluator(settings, parse_game(self.game_name), self.weights)


_SERVICE_POLL_SECONDS = 0.2


class ServiceSettings(NamedTuple):
    """Settings of a search service, except its network and game."""

    search_settings: SearchSettings
    seed: int
    iteration: int
    budget: BudgetSettings = FixedBudgetSettings()
    slots: int = 512
    """Number of positions searched in parallel, over all threads."""
    threads: int = 1
    cache_size: int = 1 << 17
    """Maximum number of cached results; 0 disables the cache."""


class SearchService(Protocol):
    """Service that searches positions for self-play.

    `ThreadSearchService` documents the methods.
    """

    def search(
        self,
        states: NDArray[np.uint64],
        affinity: NDArray[np.int64] | None = None,
        report: Callable[[], object] = lambda: None,
    ) -> PositionResults: ...

    @property
    def search_counts(self) -> dict[str, int]: ...

    @property
    def seconds_by_part(self) -> dict[str, float]:
        """Thread time of all requests so far in seconds, by part of the search."""
        ...


def distinct_state_indices(
    states: NDArray[np.uint64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first row of each of k distinct states, and each row's number among them.

    The arrays are int64[k] and int64[n].
    """
    rows: dict[bytes, int] = {}
    first: list[int] = []
    index = np.empty(len(states), np.int64)
    for row, state in enumerate(states):
        number = rows.setdefault(state.tobytes(), len(first))
        if number == len(first):
            first.append(row)
        index[row] = number
    return np.array(first, np.int64), index


def rows_by_thread(affinity: NDArray[np.int64], threads: int) -> list[NDArray[np.int64]]:
    """Divide n rows equally among threads; rows with equal `affinity` stay together if possible.

    `affinity` is int64[n].
    """
    share = -(-len(affinity) // threads)
    parts: list[list[int]] = [[] for _ in range(threads)]
    excess: list[int] = []
    for row, number in enumerate((affinity % threads).tolist()):
        (parts[number] if len(parts[number]) < share else excess).append(row)
    for row in excess:
        min(parts, key=len).append(row)
    return [np.array(part, np.int64) for part in parts]


class ThreadSearchService:
    """Search service in threads of this process; a context manager."""

    def __init__(self, game: Game, evaluator: Evaluator, settings: ServiceSettings) -> None:
        self._actions = rules.action_count(game)
        self._has_network = has_network(evaluator)
        self._threads = useful_thread_count(settings.threads, settings.slots, self._has_network)
        self._cache = ResultCache(settings.cache_size, self._actions)
        self._requested = self._merged = self._searched = 0
        slots = max(1, settings.slots // self._threads)
        cores = max(1, available_cores() // self._threads)
        self._searches = [
            PositionSearch(
                game, settings.search_settings, evaluator, settings.budget, settings.seed,
                settings.iteration, slots, cores,
            )
            for _ in range(self._threads)
        ]  # fmt: skip
        self._stop = Event()
        self._open = ExitStack()

    def __enter__(self) -> ThreadSearchService:
        self._open.enter_context(limit_threads_to_one_core(self._has_network))
        self._pool = self._open.enter_context(ThreadPoolExecutor(self._threads, "service"))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._open.close()

    def search(
        self,
        states: NDArray[np.uint64],
        affinity: NDArray[np.int64] | None = None,
        report: Callable[[], object] = lambda: None,
    ) -> PositionResults:
        """Search ongoing states uint64[n, words] and return their results in the same order.

        Equal states are searched only once, and cached states not at all. States with equal
        `affinity`, int64[n], such as the states of one game, are assigned to the same thread up to
        its share, so that evaluations cached in the search of one state help the search of the
        next. `report` is called a few times per second; if it raises an exception, the searches and
        the service stop.
        """
        first, index = distinct_state_indices(states)
        self._requested += len(states)
        self._merged += len(states) - len(first)
        numbers = first if affinity is None else affinity[first]
        return self._cached_search(states[first], numbers, report).take(index)

    def _cached_search(
        self, states: NDArray[np.uint64], affinity: NDArray[np.int64], report: Callable[[], object]
    ) -> PositionResults:
        """Return the results of distinct states, from the cache if possible."""
        keys = [state.tobytes() for state in states]
        cached = self._cache.find_rows(keys)
        new = np.flatnonzero(cached < 0)
        results = empty_results(len(keys), self._actions)
        results.write_rows(cached >= 0, self._cache.read(cached[cached >= 0]))
        if new.size:
            new_results = self._search(states[new], affinity[new], report)
            results.write_rows(new, new_results)
            self._cache.add([keys[each] for each in new.tolist()], new_results)
            self._searched += len(new)
        return results

    def _search(
        self, states: NDArray[np.uint64], affinity: NDArray[np.int64], report: Callable[[], object]
    ) -> PositionResults:
        """Search distinct states in all threads."""
        if self._stop.is_set():
            raise RuntimeError("the service has stopped")
        parts = rows_by_thread(affinity, self._threads)
        futures = [
            self._pool.submit(search.search_states, states[part], self._stop)
            for search, part in zip(self._searches, parts, strict=True)
        ]
        try:
            self._wait(futures, report)
        except BaseException:
            self._stop.set()
            raise
        results = empty_results(len(states), self._actions)
        for part, future in zip(parts, futures, strict=True):
            results.write_rows(part, future.result())
        return results

    @staticmethod
    def _wait(futures: Iterable[Future[PositionResults]], report: Callable[[], object]) -> None:
        running = set(futures)
        while running:
            done, running = wait(running, timeout=_SERVICE_POLL_SECONDS)
            for future in done:
                future.result()
            if running:
                report()

    @property
    def search_counts(self) -> dict[str, int]:
        """Search counts (see `Search.work_counts`) and counts of requested positions.

        `asked` is the number of requested positions. Of these positions, `merged` were duplicates
        within a request, `remembered` were in the cache, and `searched` were searched.
        """
        remembered = self._requested - self._merged - self._searched
        return {
            **sum_by_key(each.search.work_counts for each in self._searches),
            "asked": self._requested,
            "merged": self._merged,
            "remembered": remembered,
            "searched": self._searched,
        }

    @property
    def seconds_by_part(self) -> dict[str, float]:
        """Thread time of all requests so far in seconds, by part of the search."""
        return sum_by_key(each.search.seconds_by_part for each in self._searches)
