"""Search service on a Ray cluster (requires the ``cluster`` extra).

Positions are assigned to actors by hash, so no two actors compute or cache the same result. Only
positions and results are transferred; each actor creates its own evaluator. A lost actor restarts
with an empty cache, which does not affect results.
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
from zerolab.core.ray_cluster import (
    LOCAL_ADDRESS,
    RayCluster,
    gpu_share,
    last_error_line,
    ray,
    worker_nodes,
)
from zerolab.core.resources import DEVICE_VARIABLE
from zerolab.networks.inference import cpu_precision_name
from zerolab.play.position_search import PositionResults, empty_results
from zerolab.play.search_service import (
    EvaluatorFactory,
    ServiceSettings,
    ThreadSearchService,
    distinct_state_indices,
)
from zerolab.play.selfplay import sum_by_key
from zerolab.rules import rules
from zerolab.rules.catalogue import parse_game
from zerolab.search.evaluator import hash_states

_POLL_SECONDS = 0.2
_MAX_RETRIES = 4
"""Maximum number of retries of a request after the loss of an actor."""


class ActorSetup(NamedTuple):
    """Game, evaluator and service settings of an actor."""

    game_name: str
    new_evaluator: EvaluatorFactory
    settings: ServiceSettings


class ActorWork(NamedTuple):
    """Search counts and thread time of a request; see `ThreadSearchService`."""

    search_counts: dict[str, int]
    seconds_by_part: dict[str, float]


class ActorPlacement(NamedTuple):
    """Node of an actor, and the actor's share of the node's CPUs and GPUs."""

    node_id: str
    cores: int
    gpus: float


def place_actors(nodes: Sequence[Mapping[str, Any]], count: int) -> list[ActorPlacement]:
    """Assign actors to nodes round-robin; actors on a node share its CPUs and GPUs equally.

    Raises UserError if a node would have more actors than CPUs.
    """
    placements = []
    for at, node in enumerate(nodes):
        actors = len(range(at, count, len(nodes)))
        cpus, gpus = (int(node["Resources"].get(kind, 0)) for kind in ("CPU", "GPU"))
        if actors > cpus:
            raise UserError(
                f"selfplay.mode.actors = {count}: {actors} actors would share the {cpus} CPUs"
                f" of node {node['NodeManagerAddress']}; expected fewer"
            )
        if actors:
            placements += [
                ActorPlacement(node["NodeID"], cpus // actors, gpu_share(gpus, actors))
            ] * actors
    return placements


class ActorGroup:
    """Actors on a Ray cluster; they live until `terminate` is called or this process ends."""

    current: ActorGroup | None = None
    """Most recently used group, kept because starting a cluster and loading torch take seconds."""

    def __init__(self, address: str, count: int) -> None:
        """Join the cluster at ``HOST:PORT``, or start one on this machine for ``local``.

        Raises UserError if that fails, if nodes differ in anything that can affect results, or if a
        node would have more actors than CPUs.
        """
        if ray.is_initialized():
            raise UserError(
                f"selfplay.mode.actors = {count}: this process already uses Ray; expected 0"
            )
        self._key = address, count
        cpus = max(count, available_cores())  # actors share cores if there are too few
        self._cluster = RayCluster.join(address, cpus if address == LOCAL_ADDRESS else 0)
        with ExitStack() as stack:
            stack.callback(self._cluster.leave)
            if not self._cluster.is_local:
                self._cluster.require_equal_machines(cpu_precision_name)
            self.placements = place_actors(worker_nodes(), count)
            self.handles = [self._start(placement) for placement in self.placements]
            stack.pop_all()

    @classmethod
    def get_or_start(cls, address: str, count: int) -> ActorGroup:
        """Return `count` actors at an address, reusing the current group if it matches."""
        if cls.current is not None and cls.current._key != (address, count):
            cls.current.terminate()
        if cls.current is None:
            cls.current = cls(address, count)
        return cls.current

    def terminate(self) -> None:
        """Terminate the actors and leave the cluster, which shuts down if it is local."""
        ActorGroup.current = None
        for handle in self.handles:
            with suppress(ray.exceptions.RayError, ValueError):
                ray.kill(handle)
        self._cluster.leave()

    def _start(self, placement: ActorPlacement) -> Any:
        actor = ray.remote(_Actor).options(
            num_cpus=placement.cores,
            num_gpus=placement.gpus,
            max_restarts=-1,
            max_task_retries=_MAX_RETRIES,
            scheduling_strategy=self._cluster.soft_node_affinity(placement.node_id),
        )
        return actor.remote()


class RaySearchService:
    """`SearchService` that searches in the actors of a Ray cluster; use it as a context manager.

    The environment variable RAY_ADDRESS selects the cluster; by default, one is started on this
    machine.
    """

    def __init__(
        self, game: str, new_evaluator: EvaluatorFactory, settings: ServiceSettings, actors: int
    ) -> None:
        self._setup = ActorSetup(game, new_evaluator, settings)
        self._count = actors
        self._actions = rules.action_count(parse_game(game))
        self._words = rules.word_count(parse_game(game))
        self._requested = self._merged = 0
        self._work: list[ActorWork] = []
        self._setup_references: list[Any] = []

    def __enter__(self) -> RaySearchService:
        """Reuse or start the actors; raise UserError on failure."""
        self._actors = ActorGroup.get_or_start(
            os.environ.get("RAY_ADDRESS", LOCAL_ADDRESS), self._count
        )
        self._setup_references = [
            ray.put(self._share(placement)) for placement in self._actors.placements
        ]
        nothing = np.empty((0, self._words), np.uint64), np.empty(0, np.int64)
        try:
            self._request([nothing] * self._count)  # builds all evaluators in parallel
        except BaseException:
            self._actors.terminate()
            raise
        return self

    def _share(self, placement: ActorPlacement) -> ActorSetup:
        """Return an actor's setup, with a share of the slots and cache and one thread per core."""
        settings = self._setup.settings
        slots, cache_size = (
            -(-total // self._count) for total in (settings.slots, settings.cache_size)
        )
        share = settings._replace(slots=slots, cache_size=cache_size, threads=placement.cores)
        return self._setup._replace(settings=share)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._setup_references.clear()
        if error is not None:  # abandoned searches can still be running
            self._actors.terminate()

    def search(
        self,
        states: NDArray[np.uint64],
        affinity: NDArray[np.int64] | None = None,
        report: Callable[[], object] = lambda: None,
    ) -> PositionResults:
        first, index = distinct_state_indices(states)
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
            results.write_rows(part, reply)
        return results.take(index)

    def _request(
        self,
        requests: Sequence[tuple[NDArray[np.uint64], NDArray[np.int64]]],
        report: Callable[[], object] = lambda: None,
    ) -> list[PositionResults]:
        """Send one request to each actor and return the results; raise UserError on failure."""
        pending = [
            actor.search.remote(reference.hex(), reference, *request)
            for actor, reference, request in zip(
                self._actors.handles, self._setup_references, requests, strict=True
            )
        ]
        running = list(pending)
        try:
            while running:
                done, running = ray.wait(running, num_returns=len(running), timeout=_POLL_SECONDS)
                ray.get(done)
                if running:
                    report()
            replies: list[tuple[PositionResults, ActorWork]] = ray.get(pending)
        except ray.exceptions.RayError as error:
            raise UserError(
                f"an actor of the search service has failed ({one_line(last_error_line(error))});"
                " the run can be resumed"
            ) from None
        self._work += [work for _, work in replies]
        return [results for results, _ in replies]

    @property
    def search_counts(self) -> dict[str, int]:
        """Counts as in `ThreadSearchService.search_counts`, excluding the work of lost actors."""
        return {
            **sum_by_key(work.search_counts for work in self._work),
            "asked": self._requested,
            "merged": self._merged,
        }

    @property
    def seconds_by_part(self) -> dict[str, float]:
        return sum_by_key(work.seconds_by_part for work in self._work)


class _Actor:
    """Ray actor that searches positions."""

    def __init__(self) -> None:
        os.environ.pop(DEVICE_VARIABLE, None)  # Ray makes only the assigned GPU visible to an actor
        self._name = ""
        self._open = ExitStack()

    def search(
        self, name: str, setup: ActorSetup, states: NDArray[np.uint64], affinity: NDArray[np.int64]
    ) -> tuple[PositionResults, ActorWork]:
        """Search states with the settings in `setup`, which `name` identifies."""
        if name != self._name:
            self._open.close()
            service = ThreadSearchService(
                parse_game(setup.game_name), setup.new_evaluator(), setup.settings
            )
            self._service = self._open.enter_context(service)
            self._name = name
        before = ActorWork(self._service.search_counts, self._service.seconds_by_part)
        results = self._service.search(np.array(states), affinity)  # arrays from Ray are read-only
        counts, seconds = self._service.search_counts, self._service.seconds_by_part
        return results, ActorWork(
            {key: number - before.search_counts[key] for key, number in counts.items()},
            {key: total - before.seconds_by_part[key] for key, total in seconds.items()},
        )
