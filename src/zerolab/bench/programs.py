"""Speed and memory of complete programs: commands, runs, the web server and study workers."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

from zerolab.bench.benchmarks import BenchmarkResult, measure_median_rates
from zerolab.core.errors import MissingExtraError, UserError
from zerolab.core.processes import available_cores
from zerolab.core.resources import current_memory_mib, peak_memory_mib
from zerolab.report.claims import Verdict
from zerolab.report.document import Document
from zerolab.store.run_folder import RunFolder
from zerolab.studies.design import Design, plan_run
from zerolab.studies.execution import StudyExecution
from zerolab.studies.results import Results
from zerolab.studies.study import Scale, Study
from zerolab.studies.tasks import LocalWorkers, Workers
from zerolab.training.configure import resolve_settings
from zerolab.training.records import Record
from zerolab.training.reporting import NullReporter
from zerolab.training.trainer import Trainer

_ZEROLAB = [sys.executable, "-m", "zerolab"]
_COMMANDS = {
    "--help": ["--help"],
    "games": ["games"],
    "perft, cached kernels": ["perft", "othello:6x6", "6"],
    "train --help": ["train", "--help"],
    "match --help": ["match", "--help"],
    "settings": ["settings"],
}


def measure_startup(rounds: int) -> Iterator[BenchmarkResult]:
    """Measure the time that commands take, from process start to exit."""
    python = [sys.executable, "-c", "pass"]
    for title, arguments in _COMMANDS.items():
        command = [*_ZEROLAB, *arguments]
        _seconds_of(command)
        pairs = [(_seconds_of(command), _seconds_of(python)) for _ in range(rounds)]
        subject, limit = (statistics.median(column) for column in zip(*pairs, strict=True))
        yield BenchmarkResult(f"startup/{title}", "seconds", subject, limit, "Python alone")


def _seconds_of(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - began


_GAME = "connect_four:6x7"
_ITERATIONS = 100
_WARM_UP_ITERATIONS = 10
"""Number of iterations after which a run has loaded everything it needs into memory."""


def measure_memory(rounds: int) -> Iterator[BenchmarkResult]:
    """Measure the memory of a process that trains for many iterations; `rounds` is not used."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        sizes, peak = pool.submit(_memory_of_training, _ITERATIONS).result()
    yield BenchmarkResult(
        f"memory/{_GAME}/smoke", "MiB", sizes[-1], sizes[_WARM_UP_ITERATIONS - 1],
        f"the same process after {_WARM_UP_ITERATIONS} of {_ITERATIONS} iterations",
        note=f"peak {peak} MiB",
    )  # fmt: skip


def _memory_of_training(iterations: int) -> tuple[list[float], int]:
    """Train a run; return the memory of the process after each iteration and the peak, in MiB."""
    changes = [f"iterations={iterations}", "learn.window=20"]
    settings = resolve_settings(_GAME, "smoke", changes)
    reporter = _MemoryReporter()
    with tempfile.TemporaryDirectory() as folder:
        run = RunFolder.create(Path(folder) / "run", settings.model_dump())
        with run.locked():
            Trainer(run, settings, reporter).train()
    return reporter.sizes, peak_memory_mib()


class _MemoryReporter(NullReporter):
    """Reporter that records the memory of the process after every iteration."""

    def __init__(self) -> None:
        self.sizes: list[float] = []
        """Memory after each iteration, in MiB."""

    def stage_finished(self, record: Record) -> None:
        """Record the memory if the stage is the last of an iteration."""
        if record.stage == "gate":
            self.sizes.append(current_memory_mib())


_SOCKETS, _SEARCHES = 200, 50
_MOVES, _SIMULATIONS = 20, 100


def measure_web_server(rounds: int) -> Iterator[BenchmarkResult]:
    """Compare the server's time per move with and without many pages watching and searching."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        settings = resolve_settings(_GAME, "smoke")
        run_folder = RunFolder.create(run, settings.model_dump())
        with run_folder.locked():
            Trainer(run_folder, settings).train()
        with _served(run) as address:
            alone, loaded, errors = asyncio.run(_moves_under_load(address, run, rounds))
    yield BenchmarkResult(
        f"web/{_GAME}/move", "seconds", statistics.median(loaded), statistics.median(alone),
        f"a move without the {_SEARCHES} searches and {_SOCKETS} sockets",
        note=f"slowest {max(loaded):.2f} s, {errors} errors",
    )  # fmt: skip


@contextmanager
def _served(run: Path) -> Iterator[str]:
    """Serve a run until the context exits; yield the address of the server."""
    command = [*_ZEROLAB, "serve", str(run.parent), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            line = server.stdout.readline()
            yield line.split()[-1].rstrip("/")
        finally:
            server.terminate()


async def _moves_under_load(
    address: str, run: Path, rounds: int
) -> tuple[list[float], list[float], int]:
    """Return the seconds per move without and with load, and the number of errors."""
    httpx = _import_development_module("httpx2")
    async with httpx.AsyncClient(base_url=address, timeout=60) as client:
        await _moves(client, run, 1)
        alone = await _moves(client, run, _MOVES * rounds)
        async with _load(address.replace("http", "ws", 1), run) as errors:
            loaded = await _moves(client, run, _MOVES * rounds)
    return alone, loaded, len(errors)


async def _moves(client: Any, run: Path, count: int) -> list[float]:
    body = {"position": {"game": _GAME}, "agent": str(run), "simulations": _SIMULATIONS}
    seconds = []
    for seed in range(count):
        began = time.perf_counter()
        response = await client.post("/api/v1/move", json={**body, "seed": seed})
        response.raise_for_status()
        seconds.append(time.perf_counter() - began)
    return seconds


@asynccontextmanager
async def _load(address: str, run: Path) -> AsyncIterator[list[str]]:
    """Keep websockets open, some of them searching continuously; yield the list of their errors."""
    connect = _import_development_module("websockets.asyncio.client").connect
    errors: list[str] = []
    async with AsyncExitStack() as stack:
        sockets = [
            await stack.enter_async_context(
                connect(f"{address}/api/v1/analysis/live?page={n}", open_timeout=60)
            )
            for n in range(_SOCKETS)
        ]
        searches = [asyncio.create_task(_search(each, run, errors)) for each in sockets[:_SEARCHES]]
        await asyncio.sleep(5)
        yield errors
        for search in searches:
            search.cancel()


async def _search(socket: Any, run: Path, errors: list[str]) -> None:
    """Request one analysis after another."""
    request_number = 0
    while True:
        request_number += 1
        request = {
            "id": request_number,
            "do": "analyse",
            "position": {"game": _GAME},
            "agents": [str(run)],
        }
        await socket.send(json.dumps({**request, "simulations": 2000}))
        message: dict[str, Any] = {}
        while not message.get("done"):
            message = json.loads(await socket.recv())
            errors += [message["error"]] if "error" in message else []


def _import_development_module(module: str) -> Any:
    """Import a module from the `dev` extra; raise MissingExtraError if it is not installed."""
    try:
        return __import__(module, fromlist=["*"])
    except ModuleNotFoundError as error:
        raise MissingExtraError.for_package("this suite", module, "dev") from error


_RUNS = 16
_TASKS = 100
_RUN_ITERATIONS = 60  # about twenty seconds with the smoke preset


def measure_study_workers(rounds: int) -> Iterator[BenchmarkResult]:
    """Measure the share of worker time spent on runs, and the rate of empty tasks.

    The workers are processes and, if Ray is installed, a local Ray cluster, including its startup.
    Runs are trained once; `rounds` applies only to empty tasks.
    """
    count = available_cores()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        workers_by_title: dict[str, Workers] = {"processes": LocalWorkers(count)}
        with suppress(MissingExtraError):
            from zerolab.studies.ray_workers import RayWorkers  # noqa: PLC0415  Ray is optional

            workers_by_title["ray"] = RayWorkers("local", folder, count)
        _train_study(folder / "warm-up", _SameRuns(1), LocalWorkers(1))
        for title, workers in workers_by_title.items():
            seconds, total = _train_study(folder / title, _SameRuns(_RUNS), workers)
            yield BenchmarkResult(
                f"studies/runs/{title}", "run seconds/s", total / seconds, float(count),
                "the number of workers", note=f"{_RUNS} runs in {seconds:.0f} s",
            )  # fmt: skip
        if "ray" in workers_by_title:
            with LocalWorkers(count) as local, RayWorkers("local", folder, count) as ray:
                rate, limit_rate = measure_median_rates(
                    lambda: _perform(ray), lambda: _perform(local), rounds
                )
            yield BenchmarkResult(
                "studies/tasks/ray", "tasks/s", rate, limit_rate, "worker processes"
            )


class _EmptyTask:
    """Task that does nothing."""

    title = "nothing"

    def perform(self) -> None:
        """Do nothing."""


def _perform(workers: Workers) -> float:
    """Perform empty tasks one after another; return their number."""
    for _ in range(_TASKS):
        workers.submit(_EmptyTask())
        while not workers.wait_for_outcomes(1.0):
            pass
    return float(_TASKS)


class _SameRuns(Study):
    """Study whose runs differ only in their seeds."""

    name = "same-runs"

    def __init__(self, count: int) -> None:
        self._count = count

    def seed_count(self, scale: Scale) -> int:
        """Return the number of runs."""
        return self._count

    def design(self, scale: Scale, seeds: Sequence[int]) -> Design:
        """Return the runs, which are the same at every scale."""
        changes = {"iterations": _RUN_ITERATIONS}
        return Design([plan_run("all", _GAME, "smoke", {}, changes, seed) for seed in seeds])

    def verdicts(self, results: Results) -> list[Verdict]:
        """Return no verdicts, because there are no claims."""
        return []

    def report(self, results: Results) -> Document:
        """Raise NotImplementedError, because the benchmark needs no report."""
        raise NotImplementedError


def _train_study(root: Path, study: Study, workers: Workers) -> tuple[float, float]:
    """Return the wall time of a study and the total time of its runs, in seconds."""
    execution = StudyExecution.plan(study, "mini", root)
    began = time.perf_counter()
    failures = execution.perform_all(workers, lambda _: None)
    seconds = time.perf_counter() - began
    if failures:
        raise UserError(f"benchmark runs failed: {failures}")
    return seconds, sum(run.training_seconds for run in execution.results())
