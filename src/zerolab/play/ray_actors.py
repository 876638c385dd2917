"""The actors of a run on a Ray cluster, and what travels to them (extra ``cluster``).

An actor plays one chunk of games per core. It checks its installation before its first chunk, and
keeps the networks that it has used last.
"""

from __future__ import annotations

import hashlib
import os
import platform
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

from zerolab.core.errors import UserError
from zerolab.core.ray_cluster import NodeProperties, claim_own_cores, node_properties, ray
from zerolab.networks.inference import cpu_precision_name
from zerolab.play.executors import Batch, PlayProgress
from zerolab.rules.catalogue import parse_game
from zerolab.search.evaluator import Evaluator

_KEPT_EVALUATORS = 4
"""Networks kept by an actor: a gate uses two, and games with a lag of one use another."""


class ChunkResult(NamedTuple):
    """Result of a chunk, with its final progress and its size in bytes."""

    result: Any
    progress: PlayProgress
    size: int


class ActorShape(NamedTuple):
    """Resources of each actor."""

    cores: int
    """Cores, each of which plays one chunk at a time."""
    has_gpu: bool
    """True if the actor has a GPU, with which it plays one chunk at a time."""

    @property
    def places(self) -> int:
        """Number of chunks played at the same time."""
        return 1 if self.has_gpu else self.cores

    def capacity(self, nodes: Sequence[Mapping[str, Any]]) -> int:
        """Return the number of such actors that fit on nodes without other work."""
        return sum(
            min(
                int(node["Resources"].get("CPU", 0)) // self.cores,
                int(node["Resources"].get("GPU", 0)) if self.has_gpu else sys.maxsize,
            )
            for node in nodes
        )

    def require_capacity(
        self, address: str, actors: int, nodes: Sequence[Mapping[str, Any]]
    ) -> None:
        """Raise UserError if the cluster at an address has no room for one or `actors` actors."""
        capacity = self.capacity(nodes)
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
    play: Callable[..., Any] = field(compare=False)
    job: Any = field(compare=False)
    """Reference to the job in the object store."""
    batch: Batch = field(compare=False)
    future: Future[ChunkResult] = field(compare=False, default_factory=Future)
    progress: PlayProgress = field(compare=False, default=PlayProgress(0, 0))
    losses: int = field(compare=False, default=0)


@dataclass(eq=False)
class ActorState:
    """An actor, from the request to start it until it is lost."""

    handle: Any
    is_ready: bool = False
    chunks: set[int] = field(default_factory=set)
    """Numbers of its chunks."""
    asked: float = 0.0
    """Time of its latest reply about its progress; infinite while a reply is pending."""
    checked: int = 0
    """Number of losses of other actors after which it was last known to be alive."""


@dataclass(frozen=True)
class SharedEvaluator:
    """Picklable function that returns an evaluator, which a process loads only once."""

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


_lock = threading.Lock()
_evaluators: OrderedDict[str, Evaluator] = OrderedDict()
"""Evaluators of this process by digest, most recently used last."""


def player_properties(game_name: str) -> NodeProperties:
    """Return the properties of this process that can affect the games it plays."""
    properties = node_properties(cpu_precision_name)
    game = _source_digest(type(parse_game(game_name)))
    return properties._replace(software={**properties.software, "game file": game})


def _source_digest(game_type: type) -> str:
    """Return a short digest of the file that implements a game."""
    path = getattr(sys.modules.get(game_type.__module__), "__file__", None)
    content = Path(path).read_bytes() if path else b""
    return hashlib.blake2b(content, digest_size=4).hexdigest()


class PlayingActor:
    """Ray actor that plays chunks of games."""

    def __init__(self, shape: ActorShape) -> None:
        import torch  # noqa: PLC0415  slow import

        torch.set_num_threads(1)  # for all chunks, whose threads would otherwise change it in turn
        cores = claim_own_cores(shape.cores)
        self._progress: dict[int, PlayProgress] = {}
        self._places: SimpleQueue[list[int]] = SimpleQueue()
        for place in range(shape.places):
            self._places.put(cores if shape.has_gpu else cores[place : place + 1])

    def properties(self, game_name: str) -> tuple[str, NodeProperties | str]:
        """Return the name of the node, and its properties or an error message."""
        try:
            return platform.node(), player_properties(game_name)
        except UserError as error:
            return platform.node(), str(error)

    def play(self, number: int, play: Callable[..., Any], job: Any, batch: Batch) -> ChunkResult:
        """Play one batch of a job in this thread; `number` identifies the chunk."""

        def report(made: PlayProgress) -> None:
            self._progress[number] = made

        report(PlayProgress(0, 0))
        try:
            with self._core():
                result = play(job, [batch], report)
            return ChunkResult(result, self._progress[number], len(ray.cloudpickle.dumps(result)))
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
