"""Search service: searches of positions on request, each position once [Clausen2021].

The answer about a position is a function of the position, the network, the settings and the run's
seed and iteration: no tree is kept from one question to the next, and nothing random in a search is
keyed by a game. So it depends neither on who asks nor on the order of questions, as far as the
network answers equally in every batch (docs/decisions/0002).
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
"""Makes an evaluator wherever it is called; plain data, or a name, and never a closure."""


@dataclass(frozen=True)
class NetworkSpec:
    """A network as data; calling it makes its evaluator, on a GPU where there is one."""

    game: str
    network: dict[str, Any]
    """Its settings, of which `name` is the architecture."""
    weights: dict[str, NDArray[np.generic]]

    def __call__(self) -> Evaluator:
        """Build the network and load its weights."""
        from zerolab.networks.inference import NetworkEvaluator  # noqa: PLC0415  loads torch
        from zerolab.networks.network import load_weights  # noqa: PLC0415

        game = parse_game(self.game)
        settings = NETWORKS[self.network["name"]].model_validate(self.network)
        network = build_network(settings, game, seed=0)  # whose weights are replaced
        load_weights(network, self.weights)
        return NetworkEvaluator(network, game)


_SERVICE_POLL_SECONDS = 0.2


class ServiceSearches(NamedTuple):
    """How positions are searched, with which limits; it says nothing about networks or games."""

    settings: SearchSettings
    seed: int
    iteration: int
    budget: BudgetSettings = FixedSettings()
    slots: int = 512
    """Positions searched at once, in all threads together."""
    threads: int = 1
    cache: int = 1 << 17
    """Answers kept at most; 0 keeps none."""


class PositionSearcher(Protocol):
    """Whom self-play asks for searches; see `SearchService`."""

    def ask(
        self,
        states: NDArray[np.uint64],
        near: NDArray[np.int64] | None = None,
        report: Callable[[], object] = lambda: None,
    ) -> PositionResults: ...

    @property
    def counts(self) -> dict[str, int]: ...

    @property
    def seconds(self) -> dict[str, float]:
        """Thread time by part of the search, of all questions so far."""
        ...


def distinct_states(states: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first row of each different state, int64[k], and which of them each row is."""
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
    """Return the rows of each thread: equal numbers int64[n] in one, as far as shares are equal."""
    share = -(-len(near) // threads)
    parts: list[list[int]] = [[] for _ in range(threads)]
    more: list[int] = []
    for row, number in enumerate((near % threads).tolist()):
        (parts[number] if len(parts[number]) < share else more).append(row)
    for row in more:
        min(parts, key=len).append(row)
    return [np.array(part, np.int64) for part in parts]


class SearchService:
    """Searches positions in threads of this process; a context, which ends the threads."""

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

    def ask(
        self,
        states: NDArray[np.uint64],
        near: NDArray[np.int64] | None = None,
        report: Callable[[], object] = lambda: None,
    ) -> PositionResults:
        """Return the searches of ongoing states uint64[n, words], in their order.

        Equal states are searched once, and those answered before not again while the cache holds
        them. Questions of equal numbers `near`, int64[n], such as those of games, go to the same
        thread if none would get more than its share: what its network said in the search of one
        position serves that of the next one. `report` is called a few times per second; an
        exception that it raises stops the searches, after which the service is of no further use.
        """
        first, which = distinct_states(states)
        self._asked += len(states)
        self._merged += len(states) - len(first)
        numbers = first if near is None else near[first]
        return self._answer(states[first], numbers, report).rows(which)

    def _answer(
        self, states: NDArray[np.uint64], near: NDArray[np.int64], report: Callable[[], object]
    ) -> PositionResults:
        """Return answers for different states, from the cache where it has them."""
        keys = [state.tobytes() for state in states]
        known = self._cache.find(keys)
        new = np.flatnonzero(known < 0)
        answers = empty_results(len(keys), self._actions)
        answers.put(known >= 0, self._cache.read(known[known >= 0]))
        if new.size:
            found = self._search(states[new], near[new], report)
            answers.put(new, found)
            self._cache.add([keys[each] for each in new.tolist()], found)
            self._searched += len(new)
        return answers

    def _search(
        self, states: NDArray[np.uint64], near: NDArray[np.int64], report: Callable[[], object]
    ) -> PositionResults:
        """Search different states."""
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
        answers = empty_results(len(states), self._actions)
        for part, future in zip(parts, futures, strict=True):
            answers.put(part, future.result())
        return answers

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
        """What the searches did (see `Search.counts`), and what became of the questions.

        Of those asked, some were merged with an equal one of their call and some remembered, that
        is answered from the cache; the others were searched.
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
        """Thread time by part of the search, of all questions so far."""
        return sum_by_key(each.search.seconds for each in self._searches)
