"""Core shares of worker processes, and work divided among processes."""

from __future__ import annotations

import os
import signal
import time

import pytest

from zerolab.core import processes
from zerolab.core.errors import UserError
from zerolab.core.processes import claim_cores, core_share_lock, cores_by_worker, map_in_processes


def test_shares_of_cores_cover_all_of_them(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(4, 11)))
    monkeypatch.setattr(processes, "available_cores", lambda: 7)
    for workers in range(1, 8):
        shares = cores_by_worker(workers)
        assert len(shares) == workers
        assert sorted(core for share in shares for core in share) == list(range(4, 11))
        sizes = [len(share) for share in shares]
        assert max(sizes) - min(sizes) <= 1
    assert len(cores_by_worker(20)) == 20
    assert {core for share in cores_by_worker(20) for core in share} == set(range(4, 11))


@pytest.fixture
def pinned(monkeypatch):
    """The successive sets of cores to which this process is pinned."""
    calls = []
    monkeypatch.setattr(processes, "_claimed_cores", [])
    monkeypatch.setattr(os, "sched_setaffinity", lambda process, cores: calls.append(cores))
    monkeypatch.setattr(os, "getpid", lambda: 4)
    yield calls
    for _, lock in processes._claimed_cores:
        lock.release()


def test_process_claims_first_free_share(tmp_path, pinned):
    shares = [[4], [5, 6]]
    locks = [core_share_lock(tmp_path, cores, 0) for cores in shares]
    for lock in locks:
        lock.acquire()
    assert claim_cores(tmp_path, shares) == 0
    assert pinned == [[4]]  # shared with another process
    locks[1].release()
    assert claim_cores(tmp_path, shares) == 1
    assert pinned == [[4], [5, 6]]
    locks[0].release()
    assert claim_cores(tmp_path, shares) == 1
    assert pinned == [[4], [5, 6]]  # the process keeps its share


def test_locks_belong_to_cores(tmp_path, pinned):
    """Two clusters on one machine may number their workers differently."""
    for shares, expected in ([[4], [5]], [4]), ([[4], [5]], [5]), ([[6], [4], [6]], [6]):
        processes._claimed_cores, before = [], processes._claimed_cores
        claim_cores(tmp_path, shares)
        assert pinned[-1] == expected
        processes._claimed_cores += before
    processes._claimed_cores, before = [], processes._claimed_cores
    claim_cores(tmp_path, [[6], [4], [6]])  # surplus workers share evenly
    expected = core_share_lock(tmp_path, [6], 1).lock_file
    assert (processes._claimed_cores[0][1].lock_file, pinned[-1]) == (expected, [6])
    processes._claimed_cores += before


def test_share_of_many_cores_can_be_locked(tmp_path):
    with core_share_lock(tmp_path, range(0, 1000, 2), 0) as lock:
        assert lock.is_locked


def square(number):
    return number * number


def kill_itself(number):
    os.kill(os.getpid(), signal.SIGKILL)


def end_early():
    os._exit(1)


def test_results_of_processes_keep_order():
    with map_in_processes(square, iter(range(20)), 2) as results:
        assert list(results) == [number * number for number in range(20)]


def test_killed_process_is_reported():
    with (
        pytest.raises(UserError, match=r"process ended unexpectedly.* with a smaller --workers"),
        map_in_processes(kill_itself, iter(range(20)), 2, option="--workers") as results,
    ):
        list(results)


@pytest.mark.parametrize("seconds", [0, 0.5])
def test_processes_that_fail_to_start_are_reported(monkeypatch, seconds):
    """Pebble either fails the scheduled items or refuses further ones with a RuntimeError."""
    monkeypatch.setattr(processes, "_start_worker", end_early)

    def items():
        yield from range(3)
        time.sleep(seconds)
        yield from range(20)

    with (
        pytest.raises(UserError, match="process ended unexpectedly"),
        map_in_processes(square, items(), 2) as results,
    ):
        list(results)


def test_errors_of_item_iterator_are_raised_unchanged():
    def items():
        yield 1
        raise RuntimeError("no more items")

    with (
        pytest.raises(RuntimeError, match="no more items"),
        map_in_processes(square, items(), 2) as results,
    ):
        list(results)
