"""Executors that play the games of a stage in threads, in other processes or on a cluster.

A stage describes its games as a job and divides them into batches by game number. An executor plays
the batches and returns the results in the order of the batches. Results depend only on the job and
the division, not on where a batch is played. Locally, one thread plays each batch, in this process
or in one of several; on a cluster, batches are chunks of work for actors (`play.ray_executor`).
"""

from __future__ import annotations

import itertools
import os
import pickle
import select
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, Protocol, Self, TypeVar

from zerolab.agents.agent import Agent
from zerolab.agents.specs import is_portable, portable_agent
from zerolab.core.errors import UserError, is_memory_error, one_line
from zerolab.core.processes import exit_with_parent, fork_server_context, process_pool
from zerolab.core.resources import DEVICE_VARIABLE, compilation_observers
from zerolab.play.engine import EngineSetup, play_pairings
from zerolab.play.observers import GameRecorder
from zerolab.play.pairings import Pairing
from zerolab.search.evaluator import Evaluator
from zerolab.store.games import GameRecord

GameBatch = Sequence[Pairing]
MakeEvaluatorPortable = Callable[[Evaluator], Callable[[], Evaluator]]
"""Function that wraps an evaluator in a picklable function that returns it in other processes."""


class PlayProgress(NamedTuple):
    """Numbers of finished games and played plies so far, and the latest finished game."""

    game_count: int
    ply_count: int
    latest_game: GameRecord | None = None
    """None before the first game is finished, and in modes that finish all games together."""
    note: str = ""
    """Agents for which a thread is waiting, or the state of a cluster."""


PlayProgressCallback = Callable[[PlayProgress], object]
"""Callback that receives the progress a few times per second."""


class PlayJob(Protocol):
    """Data shared by all batches of a stage."""

    def to_portable(self, make_portable: MakeEvaluatorPortable) -> Self:
        """Return the job in a form that can be sent to other processes."""
        ...


_Job = TypeVar("_Job", bound=PlayJob)
_Result = TypeVar("_Result")


class Executor(Protocol):
    """Interface of executors, which play the batches of a stage."""

    @property
    def background_executor(self) -> Executor | None:
        """Executor for games not needed yet; None if such games would only delay others."""
        ...

    def run(
        self,
        play: Callable[[_Job, Sequence[GameBatch], PlayProgressCallback], _Result],
        job: _Job,
        batches: Sequence[GameBatch],
        report: PlayProgressCallback = lambda _: None,
    ) -> list[_Result]:
        """Play batches of games and return their results in order.

        `play` must be a module-level function. It may be called with any number of consecutive
        batches. An exception raised by `report` stops all batches.
        """
        ...


class ThreadExecutor:
    """Executor that plays in this process; the job specifies the number of threads."""

    background_executor = None

    def run(
        self,
        play: Callable[[_Job, Sequence[GameBatch], PlayProgressCallback], _Result],
        job: _Job,
        batches: Sequence[GameBatch],
        report: PlayProgressCallback = lambda _: None,
    ) -> list[_Result]:
        return [play(job, batches, report)]


THREAD_EXECUTOR = ThreadExecutor()


class BackgroundExecutor:
    """Executor that passes games that are not needed yet to another executor."""

    background_executor = None

    def __init__(self, run: Callable[..., list[Any]]) -> None:
        """Use the other executor's `run` method, at low priority if it supports priorities."""
        self._run = run

    def run(
        self,
        play: Callable[..., Any],
        job: PlayJob,
        batches: Sequence[GameBatch],
        report: PlayProgressCallback = lambda _: None,
    ) -> list[Any]:
        return self._run(play, job, batches, report)


class EvaluatorCopies:
    """Picklable function that creates copies of an evaluator, on the device of each process.

    The pickled bytes pass only between this process and those that it starts, never through a file.
    """

    def __init__(self, evaluator: Evaluator) -> None:
        self._pickled = pickle.dumps(evaluator)  # once for all processes

    def __call__(self) -> Evaluator:
        evaluator: Evaluator = pickle.loads(self._pickled)
        return evaluator


_REPORT_SECONDS = 0.2


class ProcessExecutor:
    """Executor that plays each batch in one of several processes of this machine.

    A context manager whose methods can be called from any thread. All processes use the default
    device of this process. One process cannot keep a GPU busy, since only one of its threads at a
    time can prepare batches (docs/decisions/0082). Batches are played in the order of their
    submission.
    """

    def __init__(self, process_count: int) -> None:
        self._process_count = process_count
        self._numbers = itertools.count()
        self._progress: dict[int, PlayProgress] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> ProcessExecutor:
        """Prepare the processes, which the first call of `run` starts."""
        from zerolab.networks.inference import default_device  # noqa: PLC0415  slow import

        device = default_device()
        self._uses_gpu = device.type == "cuda"
        context = fork_server_context(*_PRELOADED_MODULES)
        self._reader, self._writer = context.Pipe(duplex=False)
        self._pool = process_pool(
            self._process_count, *_PRELOADED_MODULES,
            initializer=_start_playing_process, initargs=[self._writer, str(device)],
        )  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        """Terminate the processes, even during a game; calls of `run` then raise UserError."""
        self._pool.stop()
        self._pool.join()
        self._reader.close()
        self._writer.close()

    @property
    def background_executor(self) -> Executor | None:
        """Executor for the same processes; None if they use the cores that training needs."""
        return BackgroundExecutor(self.run) if self._uses_gpu else None

    def run(
        self,
        play: Callable[..., Any],
        job: PlayJob,
        batches: Sequence[GameBatch],
        report: PlayProgressCallback = lambda _: None,
    ) -> list[Any]:
        """Play each batch in a process; raise UserError if a process dies or is terminated.

        An exception terminates the processes that are still playing a batch; new ones replace them.
        """
        from pebble import ProcessExpired  # noqa: PLC0415  few commands need it

        job, numbers = job.to_portable(EvaluatorCopies), [next(self._numbers) for _ in batches]
        self._progress |= dict.fromkeys(numbers, PlayProgress(0, 0))
        futures: list[Future[Any]] = []
        try:
            for number, batch in zip(numbers, batches, strict=True):
                futures.append(self._schedule(number, play, job, batch))
            pending = set(futures)
            while pending:
                done, pending = wait(pending, timeout=_REPORT_SECONDS)
                for future in done:
                    future.result()
                self._require_active_pool()
                report(self._total_progress(numbers))
        except (BrokenProcessPool, ProcessExpired):
            raise UserError(
                "a process that plays games ended unexpectedly: if memory ran out, resume the run"
                " with fewer selfplay.processes"
            ) from None
        finally:
            for number in numbers:
                del self._progress[number]
            for future in futures:
                future.cancel()
        return [future.result() for future in futures]

    def _schedule(self, *arguments: Any) -> Future[Any]:
        """Call `_play_in_process` in a process; raise BrokenProcessPool if the pool has ended."""
        self._require_active_pool()
        try:
            return self._pool.schedule(_play_in_process, args=list(arguments))
        except RuntimeError:  # the pool ended after the check
            raise BrokenProcessPool from None

    def _require_active_pool(self) -> None:
        """Raise BrokenProcessPool if the pool has ended, so pending futures get no results."""
        if not self._pool.active:
            raise BrokenProcessPool

    def _total_progress(self, numbers: Sequence[int]) -> PlayProgress:
        """Return the progress of several batches."""
        with self._lock:  # several threads can be playing
            while self._reader.poll():
                number, progress = self._reader.recv()
                if number in self._progress:
                    self._progress[number] = progress
        parts = [self._progress[number] for number in numbers]
        return PlayProgress(
            sum(part.game_count for part in parts),
            sum(part.ply_count for part in parts),
            next((part.latest_game for part in reversed(parts) if part.latest_game), None),
            next((part.note for part in parts if part.note), ""),
        )


_PRELOADED_MODULES = "zerolab.play.selfplay_modes", "zerolab.networks.inference"
_writers: list[Connection] = []
"""Pipe that sends the progress of batches to the process for which this one plays, if any."""


def _start_playing_process(writer: Connection, device: str) -> None:
    import torch  # noqa: PLC0415  slow import

    exit_with_parent()
    os.environ[DEVICE_VARIABLE] = device
    # As in the training process: other algorithms would change the last bits.
    torch.backends.cudnn.deterministic = True
    torch.set_num_threads(1)
    _writers.append(writer)


def _play_in_process(number: int, play: Callable[..., Any], job: Any, batch: GameBatch) -> Any:
    """Play a batch in a process of the executor; raise UserError if memory runs out."""
    reporter = _BatchReporter(number)
    compilation_observers.append(reporter)
    try:
        return play(job, [batch], reporter)
    except (MemoryError, RuntimeError) as error:
        if not is_memory_error(error):
            raise
        raise UserError(
            f"not enough memory ({one_line(error) or 'no details'}): resume the run with fewer"
            " selfplay.processes"
        ) from None
    finally:
        compilation_observers.remove(reporter)


class _BatchReporter:
    """Callback for the progress of a batch, and observer of the compilations that delay it."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._latest = PlayProgress(0, 0)

    def __call__(self, progress: PlayProgress) -> None:
        self._latest = progress
        _send_progress(self._number, progress)

    def on_start(self) -> None:
        _send_progress(self._number, self._latest._replace(note="compiling kernels"))

    def on_end(self) -> None:
        pass


_HEADER_BYTES = 4  # the length of a short message, which `Connection` writes together with it
_ATOMIC_BYTES = getattr(select, "PIPE_BUF", 512) - _HEADER_BYTES


def _send_progress(number: int, progress: PlayProgress) -> None:
    """Send the progress of a batch, without the latest game if the message would be too long.

    Short messages are written whole or not at all, so processes need no lock. A process that is
    terminated while holding a lock would block the others.
    """
    message = pickle.dumps((number, progress))
    if len(message) > _ATOMIC_BYTES:
        message = pickle.dumps((number, progress._replace(latest_game=None)))
    _writers[0].send_bytes(message)


def executor_for(agents: Iterable[Agent], preferred: Executor) -> Executor:
    """Return the preferred executor, or `THREAD_EXECUTOR` if an agent cannot play elsewhere."""
    if preferred is THREAD_EXECUTOR or all(map(is_portable, agents)):
        return preferred
    return THREAD_EXECUTOR


class EngineJob(NamedTuple):
    """Job for games whose results are collected only by observers of the engine."""

    setup: EngineSetup

    def to_portable(self, make_portable: MakeEvaluatorPortable) -> EngineJob:
        agents = [portable_agent(agent, make_portable) for agent in self.setup.agents]
        return EngineJob(self.setup._replace(agents=agents))


def play_games(
    job: EngineJob, batches: Sequence[GameBatch], report: PlayProgressCallback
) -> list[GameRecord]:
    """Play batches of games and return their records, ordered by number."""
    recorder = GameRecorder()

    def progress(done: int, note: str) -> None:
        report(PlayProgress(done, 0, recorder.latest_game, note))

    play_pairings(job.setup, batches, game_observers=[recorder], progress=progress)
    return recorder.games


def play_progress_callback(progress: Callable[[int, str], Any]) -> PlayProgressCallback:
    """Return a callback that passes the number of finished games and the note to `progress`."""
    return lambda made: progress(made.game_count, made.note)
