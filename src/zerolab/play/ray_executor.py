"""Executor that plays the chunks of a stage in Ray actors (requires the ``cluster`` extra).

The executor gives each free actor the next chunk, in order of priority and number, and returns the
results in order. Actors join when the cluster grows. A chunk whose actor is lost is played again by
another actor. Games do not depend on the actor that plays them, so none of this affects results.
"""

from __future__ import annotations

import heapq
import itertools
import math
import threading
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from concurrent.futures import wait
from functools import partial
from typing import Any

from zerolab.core.errors import UserError, one_line
from zerolab.core.ray_cluster import (
    LOCAL_ADDRESS,
    NodeProperties,
    RayCluster,
    last_error_line,
    ray,
    require_equal_properties,
    worker_nodes,
)
from zerolab.networks.inference import cpu_precision_name, default_device
from zerolab.play.executors import (
    BackgroundExecutor,
    Executor,
    GameBatch,
    PlayJob,
    PlayProgress,
    PlayProgressCallback,
)
from zerolab.play.ray_actors import (
    MAX_ATTEMPTS,
    SCAN_INTERVAL_SECONDS,
    ActorResources,
    ActorStartFailures,
    ActorState,
    Chunk,
    ChunkResult,
    EvaluatorSharer,
    LostChunk,
    process_properties,
)
from zerolab.report.table import percent

_REPORT_SECONDS = 0.2
_WAIT_SECONDS = 0.05
_CLOSE_SECONDS = 5.0
"""Maximum wait for the dispatching thread, which hangs if the head of the cluster is lost."""
_SILENCE_SECONDS = 30.0
"""Time without an answer after which the head of the cluster is considered lost; Ray itself would
terminate this process after a minute."""
_PROGRESS_SECONDS = 1.0
_POLLED_ACTORS = 100
"""Maximum number of actors asked for their progress per `_PROGRESS_SECONDS`."""


class RayExecutor:
    """Executor on a Ray cluster; a context manager whose methods can be called from any thread."""

    def __init__(
        self,
        address: str,
        game_name: str,
        actors: int = 0,
        cores: int = 1,
        message: Callable[[str], object] = lambda text: None,
    ) -> None:
        """Join the cluster at ``HOST:PORT``, or start one on this machine for ``local``.

        `actors` is the number of actors, or 0 for as many as the cluster can hold at any time. Each
        has `cores` cores and, on a cluster with GPUs, one GPU. `message` is called with messages
        about actors, from any thread. Raises UserError if the cluster does not exist, if its nodes
        differ in anything that can affect results, or if it has too few cores or GPUs.
        """
        self._cluster = RayCluster.join(address, actors * cores if address == LOCAL_ADDRESS else 0)
        try:
            if not self._cluster.is_local:
                self._cluster.require_equal_machines(cpu_precision_name)
            nodes = worker_nodes()
            learns_on_gpu = default_device().type == "cuda"
            uses_gpus = learns_on_gpu or not self._cluster.is_local
            has_gpus = any(node["Resources"].get("GPU") for node in nodes)
            self._shape = ActorResources(cores, uses_gpus and has_gpus)
            self._shape.require_capacity(address, actors, nodes)
        except BaseException:
            self._cluster.leave()
            raise
        self._game_name, self._count, self._message = game_name, actors, message
        if self._shape.has_gpu != learns_on_gpu:
            places = "GPUs" if self._shape.has_gpu else "CPUs"
            message(
                f"actors play on {places}, but this machine trains on {default_device().type}:"
                " games differ from those without --ray"
            )
        self._remote = self._shape.ray_actor_class()
        self._expected = process_properties(game_name)
        self._first: tuple[str, NodeProperties] | None = None
        self._lock = threading.RLock()
        self._numbers = itertools.count()
        self._queue: list[Chunk] = []
        self._chunks: dict[int, Chunk] = {}
        self._actors: list[ActorState] = []
        self._refused: list[tuple[str, Any]] = []
        """Nodes and handles of unused actors, kept so that their cores are not offered again."""
        self._lost_chunks: list[LostChunk] = []
        self._awaited: dict[Any, Callable[[Any], None]] = {}
        self._make_portable = EvaluatorSharer()
        self._error: UserError | None = None
        self._failures = ActorStartFailures()
        self._losses = 0
        self._scanned = -math.inf
        self._bytes = 0
        self._has_background = False
        """True if the learner does not wait for `run`, which plays in the background."""
        self._began, self._waited = time.monotonic(), 0.0
        self._stepped = self._began
        """Time when the dispatching thread, which hangs if the head is lost, last began a step."""
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._dispatch, name="dispatch", daemon=True)
        self._thread.start()

    def __enter__(self) -> RayExecutor:
        return self

    def __exit__(self, *_: object) -> None:
        """End all actors and leave the cluster, which shuts down if it is local."""
        self._closed.set()
        self._thread.join(_CLOSE_SECONDS)
        self._fail("the executor was closed")
        self._cluster.leave()

    @property
    def background_executor(self) -> Executor | None:
        """Executor on the same actors that plays its chunks only when no other chunks are waiting.

        None if the actors use the cores on which this process trains.
        """
        is_competing = self._cluster.is_local and not self._shape.has_gpu
        return None if is_competing else BackgroundExecutor(partial(self.run, priority=1))

    @property
    def parallel_chunk_count(self) -> int:
        """Number of chunks that all actors of the current cluster can play in parallel."""
        capacity = self._shape.actor_capacity(worker_nodes())
        return self._shape.parallel_chunks * min(self._count or capacity, capacity)

    @property
    def actor_count(self) -> int:
        """Number of actors that are ready to play."""
        return sum(actor.is_ready for actor in self._actors)

    def run(
        self,
        play: Callable[..., Any],
        job: PlayJob,
        batches: Sequence[GameBatch],
        report: PlayProgressCallback = lambda _: None,
        *,
        priority: int = 0,
    ) -> list[Any]:
        """Play each batch in an actor, low `priority` values first; return the results in order.

        Raises UserError if a chunk fails or the cluster is lost.
        """
        self._has_background |= priority > 0
        chunks = self._submit(play, job, batches, priority)
        start, received = time.monotonic(), self._bytes
        pending = {chunk.future for chunk in chunks}
        try:
            while pending:
                done, pending = wait(pending, timeout=_REPORT_SECONDS)
                for future in done:
                    future.result()
                if time.monotonic() - self._stepped > _SILENCE_SECONDS:
                    silence = f"its head has not answered for {_SILENCE_SECONDS:.0f} s"
                    self._fail(f"the Ray cluster was lost ({silence})")
                report(self._progress(chunks, time.monotonic() - start, self._bytes - received))
        finally:
            self._waited += time.monotonic() - start
            self._forget(chunks)
        # Ray itself unpickles everything that actors send, so unpickling it here adds no risk.
        return [ray.cloudpickle.loads(chunk.future.result().pickled_result) for chunk in chunks]

    def _submit(
        self, play: Callable[..., Any], job: PlayJob, batches: Sequence[GameBatch], priority: int
    ) -> list[Chunk]:
        with self._lock:
            self._raise_error()
            data = ray.put(job.to_portable(self._make_portable))
            chunks = [Chunk(priority, next(self._numbers), play, data, batch) for batch in batches]
            self._chunks |= {chunk.number: chunk for chunk in chunks}
            for chunk in chunks:
                heapq.heappush(self._queue, chunk)
            self._assign()
        return chunks

    def _forget(self, chunks: Sequence[Chunk]) -> None:
        """Drop chunks; those of a failed job may still be queued or in play."""
        with self._lock:
            for chunk in chunks:
                self._chunks.pop(chunk.number, None)
            self._queue = [chunk for chunk in self._queue if chunk.number in self._chunks]
            heapq.heapify(self._queue)

    def _progress(self, chunks: Sequence[Chunk], seconds: float, received: int) -> PlayProgress:
        parts = [chunk.progress for chunk in chunks]
        games, plies = sum(part.game_count for part in parts), sum(part.ply_count for part in parts)
        latest = next((part.latest_game for part in reversed(parts) if part.latest_game), None)
        if not (actors := self.actor_count):
            return PlayProgress(games, plies, latest, "waiting for actors to start")
        note = (
            f"{actors} actor{'s' * (actors != 1)}, {games / seconds / actors:,.2f} games/s each,"
            f" {received / seconds / 1e6:,.2f} MB/s"
        )
        if not self._has_background:
            waited = self._waited + seconds
            elapsed = max(time.monotonic() - self._began, waited, 1e-9)
            note += f", learner idle {percent(waited / elapsed, 0)}"
        return PlayProgress(games, plies, latest, note)

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    # The methods below run in the dispatching thread, or their caller holds the lock.

    def _dispatch(self) -> None:
        try:
            while not self._closed.is_set():
                self._stepped = time.monotonic()
                self._step()
        except Exception as error:
            is_lost = isinstance(error, (ray.exceptions.RayError, OSError))
            what = "the Ray cluster was lost" if is_lost else "the dispatch of games failed"
            self._fail(f"{what} ({type(error).__name__}: {one_line(last_error_line(error))})")

    def _step(self) -> None:
        """Scan the cluster if a scan is due, hand out chunks, and wait briefly for replies."""
        now, nodes = time.monotonic(), None
        if now - self._scanned >= SCAN_INTERVAL_SECONDS:
            self._scanned, nodes = now, worker_nodes()  # without the lock, as it may hang
        with self._lock:
            if nodes is not None:
                self._note_nodes(nodes, now)
            self._assign()
            self._ask_for_progress()
            references = list(self._awaited)
        if not references:
            self._closed.wait(_WAIT_SECONDS)
            return
        if ray.wait(references, timeout=_WAIT_SECONDS)[0]:
            done, _ = ray.wait(references, num_returns=len(references), timeout=0)
            with self._lock:
                for reference in done:
                    self._awaited.pop(reference)(reference)

    def _note_nodes(self, nodes: Sequence[Mapping[str, Any]], now: float) -> None:
        """Queue lost chunks again, and start actors wherever the cluster now has room."""
        alive = {node["NodeID"] for node in nodes}
        self._refused = [(node, handle) for node, handle in self._refused if node in alive]
        self._repeat_lost_chunks(alive)
        if reason := self._failures.count_once_per_scan(now):
            if self._failures.failed_scan_count >= MAX_ATTEMPTS and not self._actors:
                self._fail(f"actors cannot start ({reason})")
            elif self._failures.failed_scan_count == 1:
                self._message(f"actors cannot start; trying again ({reason})")
        if now < self._failures.resume_time:
            return
        places = self._shape.actor_capacity(nodes) - len(self._refused)
        wanted = min(self._count or places, places)
        for _ in range(wanted - len(self._actors)):
            actor = ActorState(self._remote.remote(self._shape))
            self._actors.append(actor)
            reference = actor.handle.properties.remote(self._game_name)
            self._awaited[reference] = partial(self._admit, actor)

    def _repeat_lost_chunks(self, alive: Container[str]) -> None:
        """Queue lost chunks again; a chunk fails if it kills several actors whose nodes survive."""
        lost, self._lost_chunks = self._lost_chunks, []
        for chunk, node, reason in lost:
            if node in alive and not chunk.future.done():
                chunk.record_actor_death(reason)
            if chunk.number in self._chunks and not chunk.future.done():
                heapq.heappush(self._queue, chunk)

    def _admit(self, actor: ActorState, reference: Any) -> None:
        """Use a started actor if its node has the same properties as the other nodes."""
        try:
            node, name, properties = ray.get(reference)
        except ray.exceptions.RayError as error:
            self._lose(actor)
            self._failures.record_failure(error)
            return
        try:
            if isinstance(properties, str):
                raise UserError(f"node {name}: {properties}")
            nodes = [self._first or (name, properties), (name, properties)]
            require_equal_properties(nodes, self._expected)
        except UserError as error:
            self._actors.remove(actor)
            self._refused.append((node, actor.handle))
            self._message(f"an actor is not used: {error}")
            if self._first is None and not self._actors:
                self._fail(str(error))
            return
        self._failures, actor.known_actor_losses = ActorStartFailures(), self._losses
        self._first = self._first or (name, properties)
        actor.node = node
        self._assign()

    def _assign(self) -> None:
        """Give chunks to actors with free places."""
        for actor in self._free_actors():
            if not self._queue:
                return
            chunk = heapq.heappop(self._queue)
            actor.chunks.add(chunk.number)
            arguments = chunk.number, chunk.play_function, chunk.job, chunk.batch
            reference = actor.handle.play.remote(*arguments)
            self._awaited[reference] = partial(self._finish, actor, chunk)

    def _free_actors(self) -> Iterator[ActorState]:
        """Yield ready actors once per free place, those with the fewest chunks first.

        When machines vanish, several actors are lost at once. After a loss, an actor must therefore
        reply before it receives a chunk. Otherwise, a chunk might go to one lost actor after
        another.
        """
        for taken in range(self._shape.parallel_chunks):
            for actor in self._actors:
                alive = actor.is_ready and actor.known_actor_losses == self._losses
                if alive and len(actor.chunks) <= taken:
                    yield actor

    def _finish(self, actor: ActorState, chunk: Chunk, reference: Any) -> None:
        """Store the result or the error of a chunk, or note the chunk as lost with its actor."""
        actor.chunks.discard(chunk.number)
        try:
            result: ChunkResult = ray.get(reference)
        except ray.exceptions.RayTaskError as error:
            cause = error.cause
            if not isinstance(cause, UserError):
                cause = UserError(f"an actor has failed: {one_line(last_error_line(error))}")
            chunk.future.set_exception(cause)
        except ray.exceptions.RayError as error:
            lost = LostChunk(chunk, actor.node, one_line(last_error_line(error)))
            chunk.progress = PlayProgress(0, 0)
            self._lost_chunks.append(lost)
            self._lose(actor)
        else:
            chunk.progress = result.progress
            self._bytes += len(result.pickled_result)
            chunk.future.set_result(result)

    def _lose(self, actor: ActorState) -> None:
        if actor in self._actors:
            self._actors.remove(actor)
            if actor.is_ready:
                self._losses += 1
                self._message("an actor was lost; other actors repeat its games")

    def _ask_for_progress(self) -> None:
        """Ask busy actors for their progress in turn; after a loss, check that all are alive."""
        now = time.monotonic()
        pause = _PROGRESS_SECONDS * max(1.0, len(self._actors) / _POLLED_ACTORS)
        for actor in self._actors:
            is_late = bool(actor.chunks) and now - actor.reply_time > pause
            is_due = is_late or actor.known_actor_losses != self._losses
            if actor.is_ready and is_due and actor.reply_time < float("inf"):
                actor.reply_time = float("inf")
                reference = actor.handle.progress.remote()
                self._awaited[reference] = partial(self._note_progress, actor, self._losses)

    def _note_progress(self, actor: ActorState, losses: int, reference: Any) -> None:
        actor.reply_time = time.monotonic()
        try:
            made: dict[int, PlayProgress] = ray.get(reference)
        except ray.exceptions.RayError:
            self._lose(actor)
            return
        actor.known_actor_losses = losses
        for number, progress in made.items():
            if number in actor.chunks and number in self._chunks:
                self._chunks[number].progress = progress

    def _fail(self, reason: str) -> None:
        """End all jobs with the error `reason`, and reject new ones."""
        with self._lock:
            self._error = UserError(f"{reason}; the run can be resumed, with or without --ray")
            for chunk in self._chunks.values():
                if not chunk.future.done():
                    chunk.future.set_exception(self._error)
