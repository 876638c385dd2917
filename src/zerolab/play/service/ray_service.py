"""The search service as Ray actors, each of which owns a part of all positions.

A position belongs to an actor by its hash. So actors never search the same one, and their caches
hold different positions. An actor that dies ends self-play with an error: the run can be resumed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zerolab.core.errors import UserError, one_line
from zerolab.core.ray_cluster import LOCAL, Cluster, ray
from zerolab.play.selfplay import total
from zerolab.play.service.answers import Answers, empty_answers
from zerolab.play.service.network_spec import EvaluatorSpec
from zerolab.play.service.service import Searches, SearchService, distinct
from zerolab.rules import interface as rules
from zerolab.rules.catalogue import parse_game
from zerolab.search.cache import hash_states

_POLL_SECONDS = 0.2

Work = tuple[dict[str, int], dict[str, float]]
"""Counts and seconds of a service."""


class RayService:
    """Asks actors of a Ray cluster; a context, which ends them. See `SearchService`."""

    def __init__(self, game: str, spec: EvaluatorSpec, searches: Searches, actors: int) -> None:
        self._given = game, spec
        self._searches = searches
        self._count = actors
        self._actions = rules.actions(parse_game(game))
        self._asked = self._merged = 0
        self._open = ExitStack()

    def __enter__(self) -> RayService:
        """Start the actors; raise UserError where there is no cluster, or too small a one."""
        if ray.is_initialized():
            raise UserError(
                f"selfplay.schedule.actors = {self._count}: this process uses Ray already; expected"
                " 0"
            )
        cluster = Cluster.joined(os.environ.get("RAY_ADDRESS", LOCAL), 0)
        self._open.callback(cluster.leave)
        with self._open:
            cores = self._cores(cluster)
            self._actors = [
                ray.remote(_Actor)
                .options(num_cpus=cores, num_gpus=self._gpu_share(cluster))
                .remote(*self._given, self._share(cores))
                for _ in range(self._count)
            ]
            self._get([actor.work.remote() for actor in self._actors])
            self._open = self._open.pop_all()
        return self

    def _cores(self, cluster: Cluster) -> int:
        """Return the cores of an actor, where every node has equally many."""
        cores = cluster.workers // self._count
        if cores < 1:
            raise UserError(
                f"selfplay.schedule.actors = {self._count}: the Ray cluster has"
                f" {cluster.workers} CPUs; expected at most as many"
            )
        nodes = max(1, len(cluster.nodes()))
        return max(1, min(cores, cluster.workers // nodes))

    def _gpu_share(self, cluster: Cluster) -> float:
        return min(1.0, cluster.gpu_share * cluster.workers / self._count)

    def _share(self, cores: int) -> Searches:
        """Return what one actor searches at once and keeps."""
        whole = self._searches
        slots, cache = -(-whole.slots // self._count), -(-whole.cache // self._count)
        return whole._replace(slots=slots, cache=cache, threads=cores)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._open:
            for actor in self._actors:
                ray.kill(actor)

    def ask(
        self,
        states: NDArray[np.uint64],
        near: NDArray[np.int64] | None = None,
        report: Callable[[], object] = lambda: None,
    ) -> Answers:
        """See `SearchService.ask`."""
        first, which = distinct(states)
        self._asked += len(states)
        self._merged += len(states) - len(first)
        different, numbers = states[first], first if near is None else near[first]
        hashes = np.empty(len(different), np.uint64)
        hash_states(different, hashes)
        owners = hashes % np.uint64(self._count)
        parts = [np.flatnonzero(owners == owner) for owner in range(self._count)]
        asked = [
            (rows, actor.ask.remote(different[rows], numbers[rows]))
            for actor, rows in zip(self._actors, parts, strict=True)
            if rows.size
        ]
        found = self._get([reference for _, reference in asked], report)
        answers = empty_answers(len(different), self._actions)
        for (rows, _), part in zip(asked, found, strict=True):
            answers.put(rows, part)
        return answers.rows(which)

    @staticmethod
    def _get(references: Sequence[Any], report: Callable[[], object] = lambda: None) -> list[Any]:
        """Wait for what actors return; raise UserError where one has died or failed."""
        running = list(references)
        try:
            while running:
                ended, running = ray.wait(running, num_returns=len(running), timeout=_POLL_SECONDS)
                ray.get(ended)
                if running:
                    report()
            return list(ray.get(list(references)))
        except ray.exceptions.RayError as error:
            lines = [line for line in str(error).splitlines() if line.strip()]
            raise UserError(
                f"an actor of the search service has failed ({one_line(lines[-1])}); the run can be"
                " resumed"
            ) from None

    @property
    def counts(self) -> dict[str, int]:
        """See `SearchService.counts`."""
        return {
            **total(counts for counts, _ in self._work()),
            "asked": self._asked,
            "merged": self._merged,
        }

    @property
    def seconds(self) -> dict[str, float]:
        """See `SearchService.seconds`."""
        return total(seconds for _, seconds in self._work())

    def _work(self) -> Iterable[Work]:
        return self._get([actor.work.remote() for actor in self._actors])


class _Actor:
    """A service in a process of its own."""

    def __init__(self, game: str, spec: EvaluatorSpec, searches: Searches) -> None:
        self._service = SearchService(parse_game(game), spec(), searches).__enter__()

    def ask(self, states: NDArray[np.uint64], near: NDArray[np.int64]) -> Answers:
        """See `SearchService.ask`."""
        return self._service.ask(states, near)

    def work(self) -> Work:
        """Return what was done so far."""
        return self._service.counts, self._service.seconds
