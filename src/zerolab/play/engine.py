"""The engine that plays all games here: a schedule of games becomes `GameRecord`s.

Matches, tournaments, gates, self-play and "decide one move in each of these positions" are
schedules; what they make of the games are observers. A game occupies a slot of the engine, and one
of each of its players; a game that ends makes room for the next one. Players that search take new
games while others are still pending, so that the batches of networks stay large.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext

from zerolab.agents.interface import Agent
from zerolab.play.observers import GameObserver, MoveObserver
from zerolab.play.schedule import ScheduledGame
from zerolab.play.worker import Setup, Worker
from zerolab.store.games import GameRecord

Progress = Callable[[int, str], object]
"""Takes the games that are over and what else is worth saying, a few times per second."""

_POLL_SECONDS = 0.2
_LONG_SECONDS = 1.0  # of waiting for a program before people are told for whom
_MOST_SLOTS = 1024
_LEAST_SLOTS = 16
_MEMORY = 1 << 30


def slots_within_memory(agents: Sequence[Agent], threads: int) -> int:
    """Return how many games a thread may have in progress, so that a GiB is about enough for all.

    Both sides of a game need a slot; more games mean larger batches for the networks.
    """
    largest = max((agent.slot_bytes for agent in agents), default=0)
    return max(_LEAST_SLOTS, min(_MOST_SLOTS, _MEMORY // (2 * threads * max(1, largest))))


def play_schedule(
    setup: Setup,
    batches: Sequence[Sequence[ScheduledGame]],
    *,
    moves: Sequence[MoveObserver] = (),
    games: Sequence[GameObserver] = (),
    progress: Progress = lambda done, note: None,
) -> None:
    """Play batches of games, each of them in one thread with players of its own.

    What is played depends on the schedule, the seed and the iteration alone: neither on slots and
    threads nor on the order of the games, as far as networks answer equally in every batch
    (docs/decisions/0002). An exception, such as KeyboardInterrupt in `progress`, stops everything
    at once, with programs ended and games unfinished.
    """
    finished: deque[GameRecord] = deque()
    stop = threading.Event()
    workers = [Worker(setup, batch, moves, finished.append, stop) for batch in batches]
    done = 0
    executor = ThreadPoolExecutor(setup.threads, thread_name_prefix="play")
    networks = any(agent.evaluator for agent in setup.agents)
    with one_core_per_thread(networks), executor as pool:
        try:
            running = {pool.submit(worker.play) for worker in workers}
            while running:
                ended, running = wait(running, timeout=_POLL_SECONDS)
                for future in ended:
                    future.result()
                news = [finished.popleft() for _ in range(len(finished))]
                done += len(news)
                for observer in games:
                    observer.finished(news)
                progress(done, _waiting(workers))
        finally:
            stop.set()
            for worker in workers:
                worker.interrupt()
            pool.shutdown(cancel_futures=True)


def one_core_per_thread(networks: bool) -> AbstractContextManager[None]:
    """Keep the networks of several threads from competing for cores.

    Without `networks` torch is not needed, which takes seconds to load.
    """
    if not networks:
        return nullcontext()
    from zerolab.networks.threads import torch_threads  # noqa: PLC0415

    return torch_threads(1)


def _waiting(workers: Iterable[Worker]) -> str:
    """Say for which agents threads have been waiting long."""
    late = time.monotonic() - _LONG_SECONDS
    names = {name for worker in workers for name, since in worker.asked if since < late}
    return f"waiting for {', '.join(sorted(names))}" if names else ""
