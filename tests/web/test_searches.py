"""The task queue of a search process; limits, errors and crashes of searches."""

from __future__ import annotations

import asyncio
import multiprocessing
import multiprocessing.connection
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import other_processes
import pytest
from tiny_laboratory import GAME, RUN

from zerolab.agents.analysis import Analysis, analyse_running_search
from zerolab.core.errors import UserError
from zerolab.rules.position import Position
from zerolab.web import live_search, search_process, search_worker
from zerolab.web import searches as searches_module
from zerolab.web.folders import Folders
from zerolab.web.live_search import SearchRequest
from zerolab.web.requests import BusyError, Client, ForbiddenError
from zerolab.web.search_process import TaskQueue, TaskUpdate
from zerolab.web.search_worker import SearchWorker
from zerolab.web.searches import MAX_SEARCHES_PER_PAGE, SearchHandle, SearchPool

START = Position.start(GAME)
LONG = SearchRequest("mcts:100000", START, Folders(), shows_progress=True)


def _steps(count: int, log: list[str], name: str, seconds: float = 0.0) -> Iterator[int]:
    for number in range(count):
        until = time.thread_time() + seconds
        while time.thread_time() < until:  # the queue shares processor time
            pass
        log.append(name)
        yield number


def _until_done(queue: TaskQueue) -> list[TaskUpdate]:
    updates = []
    while len(queue):
        updates.append(queue.step())
    return [each for each in updates if each is not None]


def test_last_result_is_reported() -> None:
    queue = TaskQueue()
    queue.add(7, Client("a"), _steps(50, [], "a"))
    updates = _until_done(queue)
    assert updates[-1].is_done
    assert [each.result for each in updates if each.result is not None][-1] == 49
    assert {each.task_number for each in updates} == {7}


def test_short_work_precedes_long_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_process, "_FIRST_LEVEL_SECONDS", 0.025)
    queue, log = TaskQueue(), []
    for number in range(6):
        queue.add(number, Client(f"client {number}"), _steps(40, log, "long", 0.001))
    for _ in range(6 * 30):  # each has exceeded `_FIRST_LEVEL_SECONDS`
        queue.step()
    before = len(log)
    queue.add(9, Client("late"), _steps(5, log, "short", 0.0005))
    while "short" not in log or log.count("short") < 5:
        queue.step()
    assert len(log) - before <= 5 + 2  # every fourth turn ignores levels


def test_short_work_does_not_starve_low_priority_work() -> None:
    queue, log = TaskQueue(), []
    queue.add(0, Client("low"), _steps(1000, log, "low", 0.001), is_low_priority=True)
    for number in range(1, 200):
        queue.add(number, Client("busy"), _steps(2, log, "busy", 0.001))
        queue.step()
        queue.step()
    assert log.count("low") >= 50


def test_low_priority_work_waits_for_urgent_work() -> None:
    queue, log = TaskQueue(), []
    for number in range(5):
        steps = _steps(20, log, "low")
        queue.add(number, Client(f"client {number}"), steps, is_low_priority=True)
    queue.step()
    queue.add(9, Client("late"), _steps(10, log, "urgent"))
    while log.count("urgent") < 10:
        queue.step()
    assert log.count("low") <= 1 + 4


def _log_with_modest_client(queue: TaskQueue, log: list[str]) -> list[str]:
    """Add a client with 20 steps to a busy queue; return the owners of all steps until its last."""
    for _ in range(20):
        queue.step()
    queue.add(9, Client("modest"), _steps(20, log, "modest", 0.002))
    before = len(log)
    while log.count("modest") < 20:
        queue.step()
    return log[before:]


def test_clients_have_equal_shares() -> None:
    queue, log = TaskQueue(), []
    for number in range(8):
        queue.add(number, Client("greedy"), _steps(20, log, "greedy", 0.002))
    assert abs(_log_with_modest_client(queue, log).count("greedy") - 20) <= 4


def test_page_names_do_not_increase_share_of_client() -> None:
    queue, log = TaskQueue(), []
    for number in range(8):
        page = Client("greedy", str(number))
        queue.add(number, page, _steps(20, log, page.page, 0.002))
    counts = Counter(_log_with_modest_client(queue, log))
    assert abs(counts.total() - 20 - 20) <= 4
    assert max(counts[str(number)] for number in range(8)) <= 5  # its pages have equal shares


def test_error_ends_only_its_own_work() -> None:
    def failing() -> Iterator[int]:
        yield 1
        raise UserError("not that")

    queue = TaskQueue()
    queue.add(1, Client("a"), failing())
    queue.add(2, Client("b"), _steps(3, [], "b"))
    updates = {each.task_number: each for each in _until_done(queue) if each.is_done}
    assert str(updates[1].error) == "not that"
    assert updates[2].error is None


def test_removed_work_gets_no_more_turns() -> None:
    queue, log = TaskQueue(), []
    queue.add(1, Client("a"), _steps(10, log, "a"))
    queue.add(2, Client("a"), _steps(10, log, "b"))
    queue.remove(1)
    queue.remove(77)
    _until_done(queue)
    assert set(log) == {"b"}


def _request(agent: str) -> SearchRequest:
    return SearchRequest(agent, START, Folders())


@pytest.mark.usefixtures("here", "search_threads")
def test_searches_are_limited_per_page_until_dropped() -> None:
    async def search() -> None:
        pool = SearchPool(1)
        started = [pool.begin(Client("a"), LONG) for _ in range(MAX_SEARCHES_PER_PAGE)]
        with pytest.raises(BusyError, match="16 searches"):
            pool.begin(Client("a"), LONG)
        assert (await pool.analyse(Client("b"), _request("mcts:9"))).chosen_move is not None
        started[0].drop()
        assert (await pool.analyse(Client("a"), _request("random"))).chosen_move is not None
        pool.close()

    asyncio.run(asyncio.wait_for(search(), 120))


@pytest.mark.usefixtures("here", "search_threads")
def test_search_errors_keep_their_type() -> None:
    async def search() -> None:
        pool = SearchPool(1)
        with pytest.raises(ForbiddenError, match="/etc"):
            await pool.analyse(Client("a"), _request("/etc"))
        with pytest.raises(UserError, match='did you mean "mcts"'):
            await pool.analyse(Client("a"), _request("mtcs:100"))
        pool.close()

    asyncio.run(asyncio.wait_for(search(), 120))


@pytest.mark.usefixtures("here", "search_threads")
def test_only_watched_searches_build_more_than_one_analysis(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = []

    def count(*arguments: Any) -> Analysis:
        calls.append(arguments)
        return analyse_running_search(*arguments)

    monkeypatch.setattr(live_search, "analyse_running_search", count)
    monkeypatch.setattr(live_search, "_TURN_SECONDS", 1e-4)

    async def search(request: SearchRequest) -> Analysis:
        pool = SearchPool(1)
        analysis = await pool.analyse(Client("a"), request)
        pool.close()
        return analysis

    unwatched = asyncio.run(search(_request("mcts:50")))
    assert len(calls) == 1
    watched = asyncio.run(search(_request("mcts:50")._replace(shows_progress=True)))
    assert len(calls) > 2
    assert unwatched.moves == watched.moves


@pytest.mark.usefixtures("here", "search_threads")
def test_every_process_is_warmed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    simulations: dict[int, list[int]] = {}  # per process

    def record(worker: SearchWorker, update: TaskUpdate) -> None:
        if update.result is not None:
            counts = [each.visits for each in update.result.moves]
            simulations.setdefault(id(worker), []).append(sum(counts))
        put(worker, update)

    put = SearchWorker._put
    monkeypatch.setattr(SearchWorker, "_put", record)

    async def search() -> None:
        pool = SearchPool(2)
        await pool.warm_up(_request(f"{RUN}?simulations=9"))
        assert pool.active_count == 0
        with pytest.raises(ForbiddenError):
            await pool.warm_up(_request("/etc"))
        pool.close()

    asyncio.run(asyncio.wait_for(search(), 120))
    assert [len(simulations), *(counts[-1] for counts in simulations.values())] == [2, 9, 9]


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Real search processes, even if other tests have replaced them with threads."""
    monkeypatch.setattr(search_worker, "multiprocessing", multiprocessing)


@pytest.mark.usefixtures("here")
def test_killed_search_process_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    forks = SimpleNamespace(get_context=other_processes.fork_context)
    monkeypatch.setattr(search_worker, "multiprocessing", forks)

    async def search() -> str:
        pool = SearchPool(1)
        killed = pool.begin(Client("a"), LONG)
        async for _ in killed.results():
            break
        os.kill(pool._workers[0]._process.pid, signal.SIGKILL)
        with pytest.raises(BusyError, match="try again"):
            async for _ in killed.results():
                pass
        killed.drop()
        analysis = await pool.analyse(Client("a"), _request("mcts:9"))
        pool.close()
        return analysis.agent_name

    assert asyncio.run(asyncio.wait_for(search(), 120)) == "mcts:9"


@pytest.mark.usefixtures("processes")
def test_searches_are_limited_per_address_across_pages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(searches_module, "MAX_SEARCHES_PER_ADDRESS", 20)
    monkeypatch.setattr(search_worker, "run_search_process", other_processes.read_nothing)

    async def search() -> None:
        pool = SearchPool(1)
        for number in range(20):
            pool.begin(Client("a", str(number)), LONG)
        with pytest.raises(BusyError, match="20 searches"):
            pool.begin(Client("a", "another name"), LONG)
        pool.begin(Client("b"), LONG)
        pool.close()

    asyncio.run(search())


@pytest.mark.usefixtures("processes")
def test_unresponsive_process_does_not_block_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    stub = other_processes.read_nothing_at_first
    monkeypatch.setattr(search_worker, "run_search_process", stub)
    monkeypatch.setattr(search_worker, "MAX_WAITING_COMMANDS", 8)
    monkeypatch.setattr(searches_module, "_WATCH_SECONDS", 0.05)
    large = _request("x" * 100_000)  # a few requests fill a pipe

    async def search() -> None:
        pool = SearchPool(1)
        pool.start()
        started, refused = [], 0
        for number in range(40):
            try:
                started.append(pool.begin(Client(str(number)), large))
            except BusyError as error:
                refused += "busy" in str(error)
        assert refused >= 20
        for each in started[-4:]:
            each.drop()
        pool.begin(Client("later"), large)  # takes the place of a dropped search
        waiting = [asyncio.create_task(_outcome(each)) for each in started[:-4]]
        while (process := pool._workers[0]._process) is None:
            await asyncio.sleep(0.01)
        monkeypatch.setattr(search_worker, "_SILENT_SECONDS", 0.0)
        # This wait blocks the event loop, but the process must end nevertheless.
        assert multiprocessing.connection.wait([process.sentinel], 20)
        monkeypatch.setattr(search_worker, "_SILENT_SECONDS", 60.0)
        outcomes = set(await asyncio.gather(*waiting))
        assert len(outcomes) == 1 and "try again" in outcomes.pop()
        other_processes.MARK.touch()
        analysis = await pool.analyse(Client("a"), _request("mcts:9"))
        assert sum(each.visits for each in analysis.moves) == 9
        pool.close()

    asyncio.run(asyncio.wait_for(search(), 120))


async def _outcome(search: SearchHandle) -> str:
    try:
        async for _ in search.results():
            pass
    except BusyError as error:
        return str(error)
    return ""
