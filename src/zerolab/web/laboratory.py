"""Server state: served folders, search processes, the solver process, puzzles and commands.

All persistent state is on disk or in the pages, so a restarted server continues where the previous
one stopped.

A process started by a page outlives the server. The ``.server`` folder next to the folder that the
process works on contains its output and a file by which the next server identifies it.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Collection, Hashable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

from fastapi import Depends
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.requests import HTTPConnection

from zerolab.agents.file_agents import shipped_agents
from zerolab.core.config import Settings, validate
from zerolab.core.errors import UserError
from zerolab.core.files import make_folder, read_text, write_text
from zerolab.rules.catalogue import parse_game
from zerolab.rules.position import Position
from zerolab.web.classroom import Classroom, ClassTournamentProcess
from zerolab.web.folders import Folders, newest_run, server_folder_in
from zerolab.web.live_search import SearchRequest
from zerolab.web.puzzle_maker import PuzzleMaker
from zerolab.web.requests import BusyError, ForbiddenError, Quota
from zerolab.web.searches import SearchPool
from zerolab.web.solving import SolverProcess

_MAX_UPLOADS, _MAX_UPLOADS_PER_ADDRESS = 3, 2
"""Limits on simultaneous uploads, which stay in memory until they have been checked."""

_FIRST_GAME = "connect_four"  # the game that pages show initially
_WARM_UP_DELAY = 1.0  # seconds to serve the first page before the warm-up uses all cores


_Result = TypeVar("_Result")


class SharedComputations(Generic[_Result]):
    """Computations in a thread, one after another, each shared by all requests for its result.

    Requests wait without holding a thread; the server has only 40 for all routes without `async`.
    """

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._tasks: dict[Hashable, asyncio.Task[_Result]] = {}

    async def result(self, key: Hashable, compute: Callable[[], _Result]) -> _Result:
        """Return the result of `compute`, or of the unfinished computation with the same key."""
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = asyncio.create_task(self._compute(compute))
            task.add_done_callback(lambda _: self._tasks.pop(key))
        return await asyncio.shield(task)  # other requests may be waiting for it too

    async def _compute(self, compute: Callable[[], _Result]) -> _Result:
        async with self._turn:
            return await run_in_threadpool(compute)


class Laboratory:
    """State shared by all requests to a server."""

    def __init__(
        self,
        folders: Folders,
        *,
        allow_training: bool = False,
        workers: int = 2,
        warm_up: bool = False,
        classroom: Classroom | None = None,
    ) -> None:
        """Serve `folders` with `workers` search processes, to the pupils of `classroom` if given.

        If `warm_up` is true, each process first searches with the newest run's network, or a
        shipped one, so that everything is compiled before the first move.
        """
        self.folders = folders
        self.allow_training = allow_training
        self.classroom = classroom
        self.class_process = (
            None if classroom is None else ClassTournamentProcess(classroom, folders)
        )
        self.search_pool = SearchPool(workers)
        self.solver = SolverProcess()
        self.puzzles = PuzzleMaker(folders, self.solver, self.search_pool)
        self.uploads = Quota(
            "uploads", _MAX_UPLOADS, _MAX_UPLOADS_PER_ADDRESS, _MAX_UPLOADS_PER_ADDRESS
        )
        self.findings_pages: SharedComputations[str] = SharedComputations()
        self.study_progress: SharedComputations[dict[str, Any]] = SharedComputations()
        self._warms_up = warm_up
        self._warming_up: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the search processes; must be called from the event loop."""
        self.search_pool.start()
        if self.class_process is not None:
            self.class_process.resume()
        if self._warms_up:
            self._warming_up = asyncio.create_task(self._warm_up())

    async def _warm_up(self) -> None:
        await asyncio.sleep(_WARM_UP_DELAY)
        with suppress(UserError):  # a damaged run is reported when someone plays against it
            request = await asyncio.to_thread(self._warm_up_request)
            if request is not None:
                await self.search_pool.warm_up(request)

    def _warm_up_request(self) -> SearchRequest | None:
        """Return a search with the newest run, or else with a shipped agent for the first game.

        This may compile the rules of the game. Returns None if there is neither.
        """
        newest = newest_run(self.folders)
        if newest is None:
            game = parse_game(_FIRST_GAME)
            shipped = shipped_agents(game)
            if not shipped:
                return None
            return SearchRequest(shipped[0].spec, Position.start(game), self.folders)
        return SearchRequest(newest.path, Position.start(parse_game(newest.game)), self.folders)

    def close(self) -> None:
        """End the search processes and the solver process."""
        if self._warming_up is not None:
            self._warming_up.cancel()
        self.puzzles.close()
        if self.class_process is not None:
            self.class_process.close()
        self.search_pool.close()
        self.solver.close()


def _laboratory_of(connection: HTTPConnection) -> Laboratory:
    laboratory: Laboratory = connection.app.state.laboratory
    return laboratory


Lab = Annotated[Laboratory, Depends(_laboratory_of)]
"""Type of a route's parameter that receives the laboratory."""


def require_training_allowed(lab: Laboratory, action: str) -> None:
    """Raise ForbiddenError, naming the refused `action`, unless pages can start processes."""
    if not lab.allow_training:
        raise ForbiddenError(f"{action} requires zerolab serve --allow-training")


_MAX_LINES = 40
_MAX_LINE = 400
_TAIL_BYTES = 1 << 15
_MAX_RUNNING = 4
_MAX_RECORD_FILE = 1 << 16
_PS_SECONDS = 5

_starting = threading.Lock()


def start_command_process(
    path: Path, arguments: Sequence[str], others: Collection[Path], busy: str
) -> None:
    """Start a zerolab command that works on the folder at `path`.

    `others` are the process records of similar commands in other folders. Raises UserError if a
    process already works on the folder, and BusyError if too many other commands are running. The
    message of the BusyError is the limit followed by `busy`, as in "4 runs are already being
    trained".
    """
    with _starting:
        record = process_record_path(path)
        if is_process_alive(record):
            raise UserError(f"another process is already working on {path.as_posix()}")
        if sum(map(is_process_alive, {*others, *record.parent.glob("*.json")})) >= _MAX_RUNNING:
            raise BusyError(f"{_MAX_RUNNING} {busy}: stop one of them first")
        launch_detached(
            [sys.executable, "-m", "zerolab", *arguments], process_output_path(path), record
        )


def process_record_path(path: Path) -> Path:
    """Return the file of the process that works on a run or tournament folder."""
    return server_folder_in(path.parent) / f"{path.name}.json"


def process_output_path(path: Path) -> Path:
    """Return the file with the output of the process that works on a folder."""
    return server_folder_in(path.parent) / f"{path.name}.log"


def last_lines(path: Path) -> list[str]:
    """Return the last lines of a file, or an empty list if it does not exist."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            text = file.read(_TAIL_BYTES).decode(errors="replace")
    except OSError:
        return []
    return [line[:_MAX_LINE] for line in deque(text.splitlines(), maxlen=_MAX_LINES)]


class ProcessRecord(Settings):
    """Content of a process file: process ID and, since the system reuses IDs, start time."""

    pid: int = Field(ge=2)
    began: str = Field(min_length=1)
    """Start time in a system-dependent format."""


def launch_detached(command: Sequence[str], output: Path, record_file: Path) -> None:
    """Start a process in a new session; write its output and its `ProcessRecord` to files.

    Raises UserError if the process cannot be started.
    """
    make_folder(record_file.parent)
    try:
        with open(output, "wb") as file:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip
    except OSError as error:
        raise UserError(f"cannot start {command[0]}: {error.strerror or error}") from error
    # Unless the exit code is read, the process remains a zombie after it ends.
    threading.Thread(target=process.wait, daemon=True).start()
    began = _start_time(process.pid)
    if began:
        record = ProcessRecord(pid=process.pid, began=began)
        write_text(record_file, json.dumps(record.model_dump()) + "\n")


def is_process_alive(record_file: Path) -> bool:
    """Return whether the process recorded in a file is running."""
    return _find_process(record_file) is not None


def terminate_process(record_file: Path) -> bool:
    """Terminate the process recorded in a file; return whether the process was running."""
    process = _find_process(record_file)
    if process is None:
        return False
    with suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGTERM)
    return True


def _find_process(record_file: Path) -> ProcessRecord | None:
    """Return the recorded process, or None if it has ended or there is no valid record."""
    try:
        table = json.loads(read_text(record_file, _MAX_RECORD_FILE))
        process = validate(ProcessRecord, table, source=str(record_file))
    except (UserError, ValueError, RecursionError):
        return None
    return process if _start_time(process.pid) == process.began else None


def _start_time(pid: int) -> str:
    """Return a process's start time, or "" if it does not exist or has ended."""
    try:
        # The name in parentheses can contain any text. Of the fields after the name, the first is
        # the state and the 20th is the start time.
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return "" if fields[0] in "ZX" else fields[19]
    except (OSError, IndexError):
        pass
    if Path("/proc/self/stat").exists():
        return ""
    command = ["ps", "-o", "lstart=", "-p", str(pid)]
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=_PS_SECONDS, check=False
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
