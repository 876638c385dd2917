"""Executors that play the games of a stage in threads of this process or on a cluster.

A stage describes its games as a job and divides them into batches by game number. An executor plays
the batches and returns the results in the order of the batches. Results depend only on the job and
the division, not on where a batch is played. Locally, one thread plays each batch; on a cluster,
batches are chunks of work for actors (`play.ray_executor`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol, Self, TypeVar

from zerolab.agents.agent import Agent
from zerolab.agents.specs import is_portable, portable_agent
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
        """Executor for games not needed yet; None if these would only delay other games."""
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
        batches. An exception in `report` stops everything.
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
    """Executor that uses the places of another executor, whose own games are played first."""

    background_executor = None

    def __init__(self, run: Callable[..., list[Any]]) -> None:
        """Use the other executor's `run` method, bound to a low priority."""
        self._run = run

    def run(
        self,
        play: Callable[..., Any],
        job: PlayJob,
        batches: Sequence[GameBatch],
        report: PlayProgressCallback = lambda _: None,
    ) -> list[Any]:
        return self._run(play, job, batches, report)


def executor_for(agents: Iterable[Agent], preferred: Executor) -> Executor:
    """Return the preferred executor; `THREAD_EXECUTOR` if an agent cannot play elsewhere."""
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
