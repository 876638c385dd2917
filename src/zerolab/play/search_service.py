"""Search service: searches of positions on request, each position once [Clausen2021].

The result for a position is a function of the position, the network, the settings and the run's
seed and iteration: no tree outlives a request, and no random stream of a search is keyed by a game.
So it depends neither on the caller nor on the order of requests, if the network's outputs do not
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

from zerolab.core.processes import available_cores
from zerolab.networks.catalogue import NETWORKS, build_network
from zerolab.play.engine import one_core_per_thread
from zerolab.play.position_search import PositionResults, PositionSearch, ResultCache, empty_results
from zerolab.play.selfplay import sum_by_key
from zerolab.rules import rules
from zerolab.rules.catalogue import parse_game
from zerolab.rules.rules import Game
from zerolab.search.budgets import BudgetSettings, FixedSettings
from zerolab.search.evaluator import Evaluator, UniformEvaluator
from zerolab.search.search_settings import SearchSettings

EvaluatorSpec = Callable[[], Evaluator]
"""Makes an evaluator in any process; plain data or an importable function, never a closure."""


@dataclass(frozen=True)
class NetworkSpec:
    """A network as data; calling it makes its evaluator, on a GPU where there is one."""

    game: str
    network: dict[str, Any]
    """Settings of the network; `name` is its architecture."""
    weights: dict[str, NDArray[np.generic]]

    def __call__(self) -> Evaluator:
        """Build the network and load its weights."""
        from zerolab.networks.inference import NetworkEvaluator  # noqa: PLC0415  loads torch
        from zerolab.networks.network import load_weights  # noqa: PLC0415

        game = parse_game(self.game)
        settings = NETWORKS[self.network["name"]].model_validate(self.network)
        network = build_network(settings, game, seed=0)  # its weights are replaced
        load_weights(network, self.weights)
        return NetworkEvaluator(network, game)


_SERVICE_POLL_SECONDS = 0.2


class ServiceSearches(NamedTuple):
    """Settings and limits of the searches, without network and game."""

    settings: SearchSettings
    seed: int
    iteration: int
    budget: BudgetSettings = FixedSettings()
    slots: int = 512
    """Positions searched at once, in all threads together."""
    threads: int = 1
    cache: int = 1 << 17
    """Largest number of results kept; 0 keeps none."""


class PositionSearcher(Protocol):
    """The service that searches positions for self-play; see `SearchService`."""

    def search(
        self,
        states: NDArray[np.uint64],
        near: NDArray[np.int64] | None = None,
        report: Callable[[], object] = lambda: None,
    ) -> PositionResults: ...

    @property
    def counts(self) -> dict[str, int]: ...

    @property
    def seconds(self) -> dict[str, float]:
        """Thread time of all requests so far, by part of the search."""
        ...


def distinct_states(states: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first row of each distinct state, int64[k], and each row's index in these."""
    rows: dict[bytes, int] = {}
    first: list[int] = []
    which = np.empty(len(states), np.int64)
    for row, state in enumerate(states):
        number = rows.setdefault(state.tobytes(), len(first))
        if number == len(first):
            first.append(row)
        which[row] = number
    return np.array(first, np.int64), which


def rows_by_thread(near: NDArray[np.int64], threads: int) -> list[NDArray[np.int64]]:
    """Return the rows of each thread: equal numbers int64[n] together while shares are equal."""
    share = -(-len(near) // threads)
    parts: list[list[int]] = [[] for _ in range(threads)]
    more: list[int] = []
    for row, number in enumerate((near % threads).tolist()):
        (parts[number] if len(parts[number]) < share else more).append(row)
    for row in more:
        min(parts, key=len).append(row)
    return [np.array(part, np.int64) for part in parts]


class SearchService:
    """Searches positions in threads of this process, which end with its context."""

    def __init__(self, game: Game, evaluator: Evaluator, searches: ServiceSearches) -> None:
        self._actions = rules.actions(game)
        self._threads = searches.threads
        self._cache = ResultCache(searches.cache, self._actions)
        self._asked = self._merged = self._searched = 0
        slots = max(1, searches.slots // searches.threads)
        cores = max(1, available_cores() // searches.threads)
        self._searches = [
            PositionSearch(
                game, searches.settings, evaluator, searches.budget, searches.seed,
                searches.iteration, slots, cores,
            )
            for _ in range(searches.threads)
        ]  # fmt: skip
        self._has_network = not isinstance(evaluator, UniformEvaluator)
        self._stop = Event()
        self._open = ExitStack()

    def __enter__(self) -> SearchService:
        self._open.enter_context(one_core_per_thread(self._has_network))
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
        near: NDArray[np.int64] | None = None,
        report: Callable[[], object] = lambda: None,
    ) -> PositionResults:
        """Search ongoing states uint64[n, words]; return their results in order.

        Equal states are searched once, and those in the cache not at all. States with equal numbers
        `near`, int64[n], such as those of one game, go to the same thread unless that exceeds its
        share: evaluations cached in the search of one position serve that of the next. `report` is
        called a few times per second; an exception that it raises stops the searches and ends the
        service.
        """
        first, which = distinct_states(states)
        self._asked += len(states)
        self._merged += len(states) - len(first)
        numbers = first if near is None else near[first]
        return self._results_of(states[first], numbers, report).rows(which)

    def _results_of(
        self, states: NDArray[np.uint64], near: NDArray[np.int64], report: Callable[[], object]
    ) -> PositionResults:
        """Return the results of distinct states, from the cache if possible."""
        keys = [state.tobytes() for state in states]
        known = self._cache.find(keys)
        new = np.flatnonzero(known < 0)
        results = empty_results(len(keys), self._actions)
        results.put(known >= 0, self._cache.read(known[known >= 0]))
        if new.size:
            found = self._search(states[new], near[new], report)
            results.put(new, found)
            self._cache.add([keys[each] for each in new.tolist()], found)
            self._searched += len(new)
        return results

    def _search(
        self, states: NDArray[np.uint64], near: NDArray[np.int64], report: Callable[[], object]
    ) -> PositionResults:
        """Search distinct states."""
        parts = rows_by_thread(near, self._threads)
        futures = [
            self._pool.submit(search.run, states[part], self._stop)
            for search, part in zip(self._searches, parts, strict=True)
        ]
        try:
            self._wait(futures, report)
        except BaseException:
            self._stop.set()
            raise
        results = empty_results(len(states), self._actions)
        for part, future in zip(parts, futures, strict=True):
            results.put(part, future.result())
        return results

    @staticmethod
    def _wait(futures: Iterable[Future[PositionResults]], report: Callable[[], object]) -> None:
        running = set(futures)
        while running:
            ended, running = wait(running, timeout=_SERVICE_POLL_SECONDS)
            for future in ended:
                future.result()
            if running:
                report()

    @property
    def counts(self) -> dict[str, int]:
        """Counts of the searches (see `Search.counts`) and of the requested positions.

        Of the `asked` ones, `merged` were equal to another of their call, `remembered` came from
        the cache, and `searched` were searched.
        """
        remembered = self._asked - self._merged - self._searched
        return {
            **sum_by_key(each.search.counts for each in self._searches),
            "asked": self._asked,
            "merged": self._merged,
            "remembered": remembered,
            "searched": self._searched,
        }

    @property
    def seconds(self) -> dict[str, float]:
        """Thread time of all requests so far, by part of the search."""
        return sum_by_key(each.search.seconds for each in self._searches)
