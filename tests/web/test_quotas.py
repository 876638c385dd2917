"""Limits on work in progress: in total, per address and per page."""

from __future__ import annotations

import asyncio
import multiprocessing
from contextlib import suppress

import pytest
from tiny_laboratory import GAME

from zerolab.rules.position import Position
from zerolab.web import solving
from zerolab.web.requests import BusyError, Client, Quota
from zerolab.web.solving import SolverProcess


def test_pages_share_quota_of_their_address() -> None:
    quota = Quota("things", total=4, per_address=3, per_page=2)
    for page in ("x", "x", "y"):
        quota.acquire(Client("a", page))
    for page, limit in (("x", 2), ("y", 3), ("z", 3)):
        with pytest.raises(BusyError, match=f"{limit} things"):
            quota.acquire(Client("a", page))
    quota.acquire(Client("b", "x"))
    with pytest.raises(BusyError, match="the server is busy with things"):
        quota.acquire(Client("b", "x"))
    quota.release(Client("a", "x"))
    with quota.hold(Client("a", "z")):
        assert quota.in_use == 4
    assert quota.in_use == 3


def test_solutions_are_limited_per_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solving, "_MAX_PER_ADDRESS", 2)

    async def solve_three() -> None:
        solver = SolverProcess()
        positions = [Position.start(GAME).play(move) for move in ("1", "2", "3")]
        tasks = [
            asyncio.create_task(solver.solve(Client("a", at.action_name(at.history[-1])), at, 1.0))
            for at in positions
        ]
        with pytest.raises(BusyError, match="2 solutions"):
            await tasks[2]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.to_thread(solver.close)

    asyncio.run(solve_three())


def test_dead_idle_solver_is_replaced() -> None:
    async def solve_twice() -> None:
        solver, before = SolverProcess(), multiprocessing.active_children()
        start, client = Position.start(GAME), Client("a", "x")
        await solver.solve(client, start, 10.0)
        (process,) = [each for each in multiprocessing.active_children() if each not in before]
        process.kill()
        await asyncio.to_thread(process.join)
        with suppress(BusyError):  # the pool may not have noticed the dead process yet
            await solver.solve(client, start.play("1"), 10.0)
        assert await solver.solve(client, start.play("2"), 10.0)
        await asyncio.to_thread(solver.close)

    asyncio.run(solve_twice())
