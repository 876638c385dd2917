"""Search service on a Ray cluster (the extra ``cluster``).

The hash of a position decides which actor searches it, so that no result is computed or cached
twice. Positions and results travel; an actor makes its evaluator from a spec. A lost actor starts
again with an empty cache, which changes no result.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.core.errors import UserError, one_line
from zerolab.core.processes import available_cores
from zerolab.core.ray_cluster import LOCAL, Cluster, gpu_share, last_line, ray, working_nodes
from zerolab.networks.inference import processor_precision
from zerolab.play.position_search import PositionResults, empty_results
from zerolab.play.search_service import (
    EvaluatorSpec,
    SearchService,
    ServiceSearches,
    distinct_states,
)
from zerolab.play.selfplay import sum_by_key
from zerolab.rules import rules
from zerolab.rules.catalogue import parse_game
from zerolab.search.evaluator import hash_states

_POLL_SECONDS = 0.2
_TRIES = 4
"""Repetitions of a request whose actor is lost."""


class ActorWork(NamedTuple):
    """Game, evaluator and settings of an actor's searches."""

    game: str
    evaluator: EvaluatorSpec
    searches: ServiceSearches


class ActorUsage(NamedTuple):
    """Counts and thread time of a request; see `SearchService`."""

    counts: dict[str, int]
    seconds: dict[str, float]


class ActorPlace(NamedTuple):
    """Node of an actor, and its share of that node."""

    node: str
    cores: int
    gpus: float


def place_actors(nodes: Sequence[Mapping[str, Any]], count: int) -> list[ActorPlace]:
    """Deal actors to nodes in turn; those of a node share its CPUs and GPUs evenly.

    Raises UserError where a node would have more actors than CPUs.
    """
    found = []
    for at, node in enumerate(nodes):
        actors = len(range(at, count, len(nodes)))
        cpus, gpus = (int(node["Resources"].get(kind, 0)) for kind in ("CPU", "GPU"))
        if actors > cpus:
            raise UserError(
                f"selfplay.mode.actors = {count}: {actors} of them would share the {cpus} CPUs"
                f" of node {node['NodeManagerAddress']}; expected fewer"
            )
        if actors:
            found += [ActorPlace(node["NodeID"], cpus // actors, gpu_share(gpus, actors))] * actors
    return found


class Actors:
    """The actors of this process on the cluster that it has joined; they live as long as it."""

    current: Actors | None = None
    """The actors used last, kept because starting a cluster and loading torch takes seconds."""

    def __init__(self, address: str, count: int) -> None:
        """Join the cluster at ``HOST:PORT``, or start one here for ``local``.

        Raises UserError where that is impossible or nodes differ in something that results
        depend on.
        """
        if ray.is_initialized():
            raise UserError(
                f"selfplay.mode.actors = {count}: this process uses Ray already; expected 0"
            )
        self._key = address, count
        here = max(count, available_cores())  # with fewer cores, actors share them
        self._cluster = Cluster.join(address, here if address == LOCAL else 0)
        with ExitStack() as stack:
            stack.callback(self._cluster.leave)
            if not self._cluster.is_local:
                self._cluster.require_equal_nodes(processor_precision)
            self.places = place_actors(working_nodes(), count)
            self.handles = [self._begun(place) for place in self.places]
            stack.pop_all()

    @classmethod
    def at(cls, address: str, count: int) -> Actors:
        """Return the actors used last if address and count are the same, else end them first."""
        if cls.current is not None and cls.current._key != (address, count):
            cls.current.end()
        if cls.current is None:
            cls.current = cls(address, count)
        return cls.current

    def end(self) -> None:
        """End the actors, and a local cluster with them."""
        Actors.current = None
        for handle in self.handles:
            with suppress(ray.exceptions.RayError, ValueError):
                ray.kill(handle)
        self._cluster.leave()

    def _begun(self, place: ActorPlace) -> Any:
        actor = ray.remote(_Actor).options(
            num_cpus=place.cores,
            num_gpus=place.gpus,
            max_restarts=-1,
            max_task_retries=_TRIES,
            scheduling_strategy=self._cluster.near_node(place.node),
        )
        return actor.remote()


class RayService:
    """`SearchService` whose searches run in actors of a Ray cluster; a context.

    The cluster is that at RAY_ADDRESS, a variable of the environment, else one of this machine.
    """

    def __init__(
        self, game: str, spec: EvaluatorSpec, searches: ServiceSearches, actors: int
    ) -> None:
        self._work = ActorWork(game, spec, searches)
        self._count = actors
        self._actions = rules.actions(parse_game(game))
        self._words = rules.words(parse_game(game))
        self._asked = self._merged = 0
        self._spent: list[ActorUsage] = []
        self._sent: list[Any] = []

    def __enter__(self) -> RayService:
        """Find or start the actors; raise UserError where that is impossible."""
        self._actors = Actors.at(os.environ.get("RAY_ADDRESS", LOCAL), self._count)
        self._sent = [ray.put(self._share(place)) for place in self._actors.places]
        nothing = np.empty((0, self._words), np.uint64), np.empty(0, np.int64)
        try:
            self._request([nothing] * self._count)  # all make their evaluators at once
        except BaseException:
            self._actors.end()
            raise
        return self

    def _share(self, place: ActorPlace) -> ActorWork:
        """Return the work of one actor: its share of slots and cache, and a thread per core."""
        searches = self._work.searches
        slots, cache = -(-searches.slots // self._count), -(-searches.cache // self._count)
        part = searches._replace(slots=slots, cache=cache, threads=place.cores)
        return self._work._replace(searches=part)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._sent.clear()
        if error is not None:  # abandoned searches may still be running
            self._actors.end()

    def search(
        self,
        states: NDArray[np.uint64],
        near: NDArray[np.int64] | None = None,
        report: Callable[[], object] = lambda: None,
    ) -> PositionResults:
        first, which = distinct_states(states)
        self._asked += len(states)
        self._merged += len(states) - len(first)
        different, numbers = states[first], first if near is None else near[first]
        hashes = np.empty(len(different), np.uint64)
        hash_states(different, hashes)
        owners = hashes % np.uint64(self._count)
        parts = [np.flatnonzero(owners == owner) for owner in range(self._count)]
        results = empty_results(len(different), self._actions)
        found = self._request([(different[part], numbers[part]) for part in parts], report)
        for part, answered in zip(parts, found, strict=True):
            results.put(part, answered)
        return results.rows(which)

    def _request(
        self,
        questions: Sequence[tuple[NDArray[np.uint64], NDArray[np.int64]]],
        report: Callable[[], object] = lambda: None,
    ) -> list[PositionResults]:
        """Send every actor its request; raise UserError where one fails."""
        asked = [
            actor.search.remote(work.hex(), work, *question)
            for actor, work, question in zip(
                self._actors.handles, self._sent, questions, strict=True
            )
        ]
        running = list(asked)
        try:
            while running:
                ended, running = ray.wait(running, num_returns=len(running), timeout=_POLL_SECONDS)
                ray.get(ended)
                if running:
                    report()
            replies: list[tuple[PositionResults, ActorUsage]] = ray.get(asked)
        except ray.exceptions.RayError as error:
            raise UserError(
                f"an actor of the search service has failed ({one_line(last_line(error))}); the run"
                " can be resumed"
            ) from None
        self._spent += [spent for _, spent in replies]
        return [results for results, _ in replies]

    @property
    def counts(self) -> dict[str, int]:
        """Counts as of `SearchService.counts`, without the work of lost actors."""
        return {
            **sum_by_key(spent.counts for spent in self._spent),
            "asked": self._asked,
            "merged": self._merged,
        }

    @property
    def seconds(self) -> dict[str, float]:
        return sum_by_key(spent.seconds for spent in self._spent)


class _Actor:
    """A process of a cluster that searches positions."""

    def __init__(self) -> None:
        self._name = ""
        self._open = ExitStack()

    def search(
        self, name: str, work: ActorWork, states: NDArray[np.uint64], near: NDArray[np.int64]
    ) -> tuple[PositionResults, ActorUsage]:
        """Search states as `work` says; `name` identifies the work."""
        if name != self._name:
            self._open.close()
            service = SearchService(parse_game(work.game), work.evaluator(), work.searches)
            self._service = self._open.enter_context(service)
            self._name = name
        before = ActorUsage(self._service.counts, self._service.seconds)
        results = self._service.search(np.array(states), near)  # arrays from Ray are read-only
        counts, seconds = self._service.counts, self._service.seconds
        return results, ActorUsage(
            {key: number - before.counts[key] for key, number in counts.items()},
            {key: spent - before.seconds[key] for key, spent in seconds.items()},
        )
