"""Actors of a run on a Ray cluster, and the data sent to them (requires the ``cluster`` extra).

An actor plays one chunk of games per core, or only one if it has a GPU. It checks its installation
before its first chunk, and keeps the most recently used networks.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

from zerolab.core.errors import UserError, one_line
from zerolab.core.ray_cluster import (
    NodeProperties,
    last_error_line,
    node_properties,
    pin_to_free_cores,
    ray,
)
from zerolab.core.resources import DEVICE_VARIABLE
from zerolab.networks.inference import cpu_precision_name
from zerolab.play.executors import GameBatch, PlayProgress
from zerolab.rules.catalogue import parse_game
from zerolab.search.evaluator import Evaluator

MAX_ATTEMPTS = 4
"""Maximum number of attempts to play a chunk or to start actors."""
SCAN_INTERVAL_SECONDS = 2.0
"""Time between two scans of the nodes of the cluster."""
_MAX_DOUBLINGS = 5
_ADDRESS = re.compile(r"\bip[=:] ?([\w.:]+)")
"""Pattern of a node's address in Ray's messages."""
_KEPT_EVALUATORS = 4
"""Number of networks kept by an actor: two for a gate, one more for self-play with a lag."""


class ChunkResult(NamedTuple):
    """Result of a chunk, with its final progress."""

    pickled_result: bytes
    progress: PlayProgress


class ActorResources(NamedTuple):
    """Resources of each actor."""

    cores: int
    """Cores, each of which plays one chunk at a time."""
    has_gpu: bool
    """True if the actor has a GPU, with which it plays one chunk at a time."""

    @property
    def parallel_chunks(self) -> int:
        """Number of chunks played at the same time."""
        return 1 if self.has_gpu else self.cores

    def actor_capacity(self, nodes: Sequence[Mapping[str, Any]]) -> int:
        """Return how many actors with these resources fit on idle nodes."""
        return sum(
            min(
                int(node["Resources"].get("CPU", 0)) // self.cores,
                int(node["Resources"].get("GPU", 0)) if self.has_gpu else sys.maxsize,
            )
            for node in nodes
        )

    def ray_actor_class(self) -> Any:
        """Return Ray's class for actors with these resources, without automatic restarts."""
        return ray.remote(PlayingActor).options(
            num_cpus=self.cores,
            num_gpus=float(self.has_gpu),
            max_restarts=0,
            max_concurrency=self.parallel_chunks + 1,  # one more to report progress
            scheduling_strategy="SPREAD",
        )

    def require_capacity(
        self, address: str, actors: int, nodes: Sequence[Mapping[str, Any]]
    ) -> None:
        """Raise UserError unless the cluster at an address has room for max(1, `actors`) actors."""
        capacity = self.actor_capacity(nodes)
        if capacity < max(1, actors):
            each = f"{self.cores} core{'s' * (self.cores != 1)}{' and a GPU' * self.has_gpu}"
            raise UserError(
                f"actors = {max(1, actors)}, each with {each}: the Ray cluster at {address} has"
                f" room for {capacity}"
            )


@dataclass(order=True)
class Chunk:
    """A batch of games to play."""

    priority: int
    number: int
    play_function: Callable[..., Any] = field(compare=False)
    job: Any = field(compare=False)
    """Reference to the job in the object store."""
    batch: GameBatch = field(compare=False)
    future: Future[ChunkResult] = field(compare=False, default_factory=Future)
    progress: PlayProgress = field(compare=False, default=PlayProgress(0, 0))
    actor_deaths: int = field(compare=False, default=0)
    """Number of actors that died while playing this chunk, although their nodes survived."""

    def record_actor_death(self, reason: str) -> None:
        """Record that an actor died although its node survived; fail at `MAX_ATTEMPTS` deaths."""
        self.actor_deaths += 1
        if self.actor_deaths == MAX_ATTEMPTS:
            self.future.set_exception(
                UserError(
                    f"the games from number {self.batch[0].number} killed {MAX_ATTEMPTS} actors in"
                    f" a row ({reason}); the run can be resumed, with or without --ray"
                )
            )


@dataclass
class ActorStartFailures:
    """Failed attempts to start an actor since the last success.

    Several failures between two scans of the cluster count as one, since a vanishing machine can
    have many actors.
    """

    failed_scan_count: int = 0
    """Number of scans that found failures."""
    latest_reason: str = ""
    """Reason for the latest failure since the last scan, if any."""
    resume_time: float = 0.0
    """Time before which no actor should be started."""

    def record_failure(self, error: Exception) -> None:
        """Record a failure, with the address of its node if Ray names it."""
        place = _ADDRESS.search(str(error))
        node = f"node {place[1]}: " if place else ""
        self.latest_reason = node + one_line(last_error_line(error))

    def count_once_per_scan(self, now: float) -> str:
        """Count the failures since the last scan as one; return the latest reason, if any."""
        reason, self.latest_reason = self.latest_reason, ""
        if reason:
            self.failed_scan_count += 1
            self.resume_time = now + SCAN_INTERVAL_SECONDS * 2 ** min(
                self.failed_scan_count, _MAX_DOUBLINGS
            )
        return reason


class LostChunk(NamedTuple):
    """A chunk whose actor was lost; it is played again after the next scan of the cluster."""

    chunk: Chunk
    node: str
    reason: str


@dataclass(eq=False)
class ActorState:
    """An actor, from the request to start it until it is lost."""

    handle: Any
    node: str = ""
    """Identifier of the actor's node in Ray; empty until the actor is ready."""
    chunks: set[int] = field(default_factory=set)
    """Numbers of the actor's chunks."""
    reply_time: float = 0.0
    """Time of the latest reply about progress; infinite while a reply is pending."""
    known_actor_losses: int = 0
    """Number of actors that had been lost when this one was last known to be alive."""

    @property
    def is_ready(self) -> bool:
        """True if the actor can play."""
        return bool(self.node)


@dataclass(frozen=True)
class SharedEvaluator:
    """Picklable function that returns an evaluator, from the cache of its process if possible."""

    digest: str
    reference: Any
    """Ray's reference to the evaluator in the object store."""

    def __call__(self) -> Evaluator:
        with _lock:
            if self.digest not in _evaluators:
                _evaluators[self.digest] = ray.get(self.reference)
            _evaluators.move_to_end(self.digest)
            while len(_evaluators) > _KEPT_EVALUATORS:
                _evaluators.popitem(last=False)
            return _evaluators[self.digest]


class EvaluatorSharer:
    """Function that puts evaluators into the object store, reusing the most recent ones."""

    def __init__(self) -> None:
        self._shared: dict[str, SharedEvaluator] = {}

    def __call__(self, evaluator: Evaluator) -> SharedEvaluator:
        """Return an evaluator in a form that can be sent to actors."""
        digest = getattr(evaluator, "digest", "")
        if not digest:  # not a network, so it is small
            content = ray.cloudpickle.dumps(evaluator)
            digest = hashlib.blake2b(content, digest_size=16).hexdigest()
        shared = self._shared.pop(digest, None)
        if shared is None:
            shared = SharedEvaluator(digest, ray.put(evaluator))
        self._shared[digest] = shared
        while len(self._shared) > _KEPT_EVALUATORS:
            del self._shared[next(iter(self._shared))]
        return shared


_lock = threading.Lock()
_evaluators: OrderedDict[str, Evaluator] = OrderedDict()
"""Evaluators of this process by digest, most recently used last."""


def process_properties(game_name: str) -> NodeProperties:
    """Return the properties of this process that can affect the games it plays."""
    properties = node_properties(cpu_precision_name)
    game = _source_digest(type(parse_game(game_name)))
    return properties._replace(software={**properties.software, "game file": game})


def _source_digest(game_type: type) -> str:
    """Return a short digest of the file that implements a game."""
    path = getattr(sys.modules.get(game_type.__module__), "__file__", None)
    content = Path(path).read_bytes() if path else b""
    return hashlib.blake2b(content, digest_size=4).hexdigest()


def _gpu_model() -> str:
    import torch  # noqa: PLC0415  slow import

    return torch.cuda.get_device_name()


class PlayingActor:
    """Ray actor that plays chunks of games."""

    def __init__(self, resources: ActorResources) -> None:
        import torch  # noqa: PLC0415  slow import

        os.environ[DEVICE_VARIABLE] = "cuda" if resources.has_gpu else "cpu"
        torch.set_num_threads(1)  # once, so that concurrent chunks do not change it
        self._resources = resources
        cores = pin_to_free_cores(resources.cores)
        self._progress: dict[int, PlayProgress] = {}
        self._places: SimpleQueue[list[int]] = SimpleQueue()
        for place in range(resources.parallel_chunks):
            is_shared = resources.has_gpu or not cores
            self._places.put(cores if is_shared else [cores[place % len(cores)]])

    def properties(self, game_name: str) -> tuple[str, str, NodeProperties | str]:
        """Return the identifier and name of the node, and its properties or an error message.

        With a GPU, the GPU model replaces the processor and the precision.
        """
        node, name = ray.get_runtime_context().get_node_id(), platform.node()
        try:
            properties = process_properties(game_name)
            if self._resources.has_gpu:
                properties = properties._replace(hardware={"GPU": _gpu_model()})
        except UserError as error:
            return node, name, str(error)
        return node, name, properties

    def play(
        self, number: int, play: Callable[..., Any], job: Any, batch: GameBatch
    ) -> ChunkResult:
        """Play one batch of a job in this thread; `number` identifies the chunk."""

        def report(made: PlayProgress) -> None:
            self._progress[number] = made

        report(PlayProgress(0, 0))
        try:
            with self._core():
                result = play(job, [batch], report)
            return ChunkResult(ray.cloudpickle.dumps(result), self._progress[number])
        finally:
            del self._progress[number]

    @contextmanager
    def _core(self) -> Iterator[None]:
        """Pin this thread, and those that it starts, to cores that no other chunk uses."""
        cores = self._places.get()
        try:
            if cores:
                os.sched_setaffinity(0, cores)
            yield
        finally:
            self._places.put(cores)

    def progress(self) -> dict[int, PlayProgress]:
        """Return the progress of the chunks in play, by number."""
        return dict(self._progress)
