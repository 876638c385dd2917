"""Search service on a Ray cluster (requires the extra ``cluster``).

Positions are assigned to actors by hash, so no result is computed or cached twice. Only positions
and results are transferred; each actor builds its evaluator from a spec. A lost actor restarts with
an empty cache, which does not affect results.
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
    ServiceSettings,
    distinct_states,
)
from zerolab.play.selfplay import sum_by_key
from zerolab.rules import rules
from zerolab.rules.catalogue import parse_game
from zerolab.search.evaluator import hash_states

_POLL_SECONDS = 0.2
_MAX_RETRIES = 4
"""Maximum number of retries of a request after its actor is lost."""


class ActorWork(NamedTuple):
    """Game, evaluator and search settings of an actor."""

    game: str
    evaluator: EvaluatorSpec
    searches: ServiceSettings


class ActorUsage(NamedTuple):
    """Search counts and thread time of a request; see `SearchService`."""

    counts: dict[str, int]
    seconds: dict[str, float]


class ActorPlace(NamedTuple):
    """Node of an actor and its share of the node's resources."""

    node: str
    cores: int
    gpus: float


def place_actors(nodes: Sequence[Mapping[str, Any]], count: int) -> list[ActorPlace]:
    """Assign actors to nodes round-robin; actors on a node share its CPUs and GPUs equally.

    Raises UserError if a node would have more actors than CPUs.
    """
    places = []
    for at, node in enumerate(nodes):
        actors = len(range(at, count, len(nodes)))
        cpus, gpus = (int(node["Resources"].get(kind, 0)) for kind in ("CPU", "GPU"))
        if actors > cpus:
            raise UserError(
                f"selfplay.mode.actors = {count}: {actors} of them would share the {cpus} CPUs"
                f" of node {node['NodeManagerAddress']}; expected fewer"
            )
        if actors:
            places += [ActorPlace(node["NodeID"], cpus // actors, gpu_share(gpus, actors))] * actors
    return places


class Actors:
    """Actors of this process on a Ray cluster; they live until the process ends."""

    current: Actors | None = None
    """Most recently used actors, kept because starting a cluster and loading torch take seconds."""

    def __init__(self, address: str, count: int) -> None:
        """Join the cluster at ``HOST:PORT``, or start one on this machine for ``local``.

        Raises UserError if that fails, or if nodes differ in anything that can affect results.
        """
        if ray.is_initialized():
            raise UserError(
                f"selfplay.mode.actors = {count}: this process already uses Ray; expected 0"
            )
        self._key = address, count
        cpus = max(count, available_cores())  # with fewer cores than actors, actors share cores
        self._cluster = Cluster.join(address, cpus if address == LOCAL else 0)
        with ExitStack() as stack:
            stack.callback(self._cluster.leave)
            if not self._cluster.is_local:
                self._cluster.require_equal_machines(processor_precision)
            self.places = place_actors(working_nodes(), count)
            self.handles = [self._start(place) for place in self.places]
            stack.pop_all()

    @classmethod
    def at(cls, address: str, count: int) -> Actors:
        """Return `count` actors at an address, reusing the current ones if they match."""
        if cls.current is not None and cls.current._key != (address, count):
            cls.current.end()
        if cls.current is None:
            cls.current = cls(address, count)
        return cls.current

    def end(self) -> None:
        """Terminate the actors and leave the cluster; a local cluster ends as well."""
        Actors.current = None
        for handle in self.handles:
            with suppress(ray.exceptions.RayError, ValueError):
                ray.kill(handle)
        self._cluster.leave()

    def _start(self, place: ActorPlace) -> Any:
        actor = ray.remote(_Actor).options(
            num_cpus=place.cores,
            num_gpus=place.gpus,
            max_restarts=-1,
            max_task_retries=_MAX_RETRIES,
            scheduling_strategy=self._cluster.near_node(place.node),
        )
        return actor.remote()


class RayService:
    """Context manager for a `SearchService` that runs searches in actors of a Ray cluster.

    It uses the cluster at the environment variable RAY_ADDRESS, or starts one on this machine.
    """

    def __init__(
        self, game: str, spec: EvaluatorSpec, searches: ServiceSettings, actors: int
    ) -> None:
        self._work = ActorWork(game, spec, searches)
        self._count = actors
        self._actions = rules.actions(parse_game(game))
        self._words = rules.words(parse_game(game))
        self._requested = self._merged = 0
        self._usage: list[ActorUsage] = []
        self._work_references: list[Any] = []

    def __enter__(self) -> RayService:
        """Find or start the actors; raise UserError on failure."""
        self._actors = Actors.at(os.environ.get("RAY_ADDRESS", LOCAL), self._count)
        self._work_references = [ray.put(self._share(place)) for place in self._actors.places]
        nothing = np.empty((0, self._words), np.uint64), np.empty(0, np.int64)
        try:
            self._request([nothing] * self._count)  # builds all evaluators in parallel
        except BaseException:
            self._actors.end()
            raise
        return self

    def _share(self, place: ActorPlace) -> ActorWork:
        """Return the work of an actor, with its share of slots and cache and a thread per core."""
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
        self._work_references.clear()
        if error is not None:  # abandoned searches can still be running
            self._actors.end()

    def search(
        self,
        states: NDArray[np.uint64],
        affinity: NDArray[np.int64] | None = None,
        report: Callable[[], object] = lambda: None,
    ) -> PositionResults:
        first, index = distinct_states(states)
        self._requested += len(states)
        self._merged += len(states) - len(first)
        distinct, numbers = states[first], first if affinity is None else affinity[first]
        hashes = np.empty(len(distinct), np.uint64)
        hash_states(distinct, hashes)
        owners = hashes % np.uint64(self._count)
        parts = [np.flatnonzero(owners == owner) for owner in range(self._count)]
        results = empty_results(len(distinct), self._actions)
        replies = self._request([(distinct[part], numbers[part]) for part in parts], report)
        for part, reply in zip(parts, replies, strict=True):
            results.put(part, reply)
        return results.rows(index)

    def _request(
        self,
        requests: Sequence[tuple[NDArray[np.uint64], NDArray[np.int64]]],
        report: Callable[[], object] = lambda: None,
    ) -> list[PositionResults]:
        """Send one request to each actor and return the results; raise UserError on failure."""
        pending = [
            actor.search.remote(work.hex(), work, *request)
            for actor, work, request in zip(
                self._actors.handles, self._work_references, requests, strict=True
            )
        ]
        running = list(pending)
        try:
            while running:
                done, running = ray.wait(running, num_returns=len(running), timeout=_POLL_SECONDS)
                ray.get(done)
                if running:
                    report()
            replies: list[tuple[PositionResults, ActorUsage]] = ray.get(pending)
        except ray.exceptions.RayError as error:
            raise UserError(
                f"an actor of the search service has failed ({one_line(last_line(error))}); the run"
                " can be resumed"
            ) from None
        self._usage += [usage for _, usage in replies]
        return [results for results, _ in replies]

    @property
    def counts(self) -> dict[str, int]:
        """Counts as in `SearchService.counts`, excluding work of lost actors."""
        return {
            **sum_by_key(usage.counts for usage in self._usage),
            "asked": self._requested,
            "merged": self._merged,
        }

    @property
    def seconds(self) -> dict[str, float]:
        return sum_by_key(usage.seconds for usage in self._usage)


class _Actor:
    """Ray actor that searches positions."""

    def __init__(self) -> None:
        self._name = ""
        self._open = ExitStack()

    def search(
        self, name: str, work: ActorWork, states: NDArray[np.uint64], affinity: NDArray[np.int64]
    ) -> tuple[PositionResults, ActorUsage]:
        """Search states with the settings in `work`; `name` identifies the work."""
        if name != self._name:
            self._open.close()
            service = SearchService(parse_game(work.game), work.evaluator(), work.searches)
            self._service = self._open.enter_context(service)
            self._name = name
        before = ActorUsage(self._service.counts, self._service.seconds)
        results = self._service.search(np.array(states), affinity)  # arrays from Ray are read-only
        counts, seconds = self._service.counts, self._service.seconds
        return results, ActorUsage(
            {key: number - before.counts[key] for key, number in counts.items()},
            {key: total - before.seconds[key] for key, total in seconds.items()},
        )
