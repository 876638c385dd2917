"""Batches of games on all cores: each thread plays one batch after the other."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait

from zerolab.agents.interface import Agent
from zerolab.play.engine import FinishedGame, ScheduledGame, Task, play_schedule

_POLL_SECONDS = 0.2
_MOST_LANES = 1024
_LEAST_LANES = 16
_MEMORY = 1 << 30


def lanes_for(agents: Sequence[Agent], threads: int) -> int:
    """Return how many games a thread may have in progress, so that a GiB is about enough for all.

    Both sides of a game need a slot; more games mean larger batches for the networks.
    """
    largest = max((agent.slot_bytes for agent in agents), default=0)
    return max(_LEAST_LANES, min(_MOST_LANES, _MEMORY // (2 * threads * max(1, largest))))


def play_batches(
    task: Task,
    batches: Sequence[Sequence[ScheduledGame]],
    threads: int,
    receive: Callable[[list[FinishedGame]], None],
) -> None:
    """Play batches of games, each in one thread.

    `receive` is called in the calling thread, a few times a second, with the games finished since;
    by an exception, such as KeyboardInterrupt, it stops all threads.
    """
    finished: deque[FinishedGame] = deque()
    stop = threading.Event()
    with ThreadPoolExecutor(threads, thread_name_prefix="arena") as pool:
        try:
            running = {
                pool.submit(play_schedule, task, batch, finished.append, stop) for batch in batches
            }
            while running:
                done, running = wait(running, timeout=_POLL_SECONDS)
                for future in done:
                    future.result()
                receive([finished.popleft() for _ in range(len(finished))])
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)
