"""Monitored commands with their results, time, memory and leftover processes."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from campaigns.processes import family, kill, leftovers, memory

SECONDS = 20.0
"""Seconds beyond the undisturbed time after which a command counts as hanging."""
BYTES = 1 << 30
"""Memory limit for each process of a command."""

_MAX_BYTES = 3 * BYTES  # processes above this are killed
_SAMPLE_SECONDS = 0.05
_SECONDS_TO_LEAVE = 5.0
_SECONDS_TO_STOP = 8.0
BENCHMARKS = Path(__file__).parents[1]
"""Folder that contains this package."""

_MARK = "ZEROLAB_CAMPAIGN"
_SHOWN = 100_000  # bytes of output read from each end
_STOPPED = (128 + signal.SIGTERM, -signal.SIGTERM)  # the latter before zerolab handles signals
_TRACEBACK = b"Traceback (most recent call last)"
_FATAL = re.compile(rb"(Fatal Python error|Segmentation fault|resource_tracker: )[^\n]*")
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\xc2[\x80-\x9f]")


class Command(NamedTuple):
    """Invocation of zerolab."""

    words: tuple[str, ...]
    folder: Path
    """Working directory."""
    keys: str = ""
    """Keyboard input."""
    environment: Mapping[str, str] = {}
    stop_after: float | None = None
    """Seconds until SIGTERM, for commands that can take a long time."""
    kill_after: float | None = None
    """Seconds until SIGKILL."""
    kills_all: bool = False
    """True to kill all processes of the command instead of only the first."""


class Ended(NamedTuple):
    """Result of a command."""

    code: int
    seconds: float
    peak: int
    """Peak memory of the largest process in bytes."""
    hung: bool
    stopped: bool
    left: list[str]
    output: bytes
    errors: bytes

    def faults(self, codes: Sequence[int] = (0, 2)) -> list[str]:
        """Return the faults of the command, each starting with its kind."""
        faults = []
        for name, text in (("output", self.output), ("errors", self.errors)):
            if _TRACEBACK in text:
                faults.append(f"traceback: {_last_line(text)}")
            elif fatal := _FATAL.search(text):
                faults.append(f"traceback: {fatal[0].decode(errors='replace')}")
            if control := _CONTROL.search(text):
                faults.append(f"control: {control[0]!r} in {name}")
        if self.hung:
            faults.append(f"hang: killed after {self.seconds:.0f} s")
        if self.peak > BYTES:
            faults.append(f"memory: {self.peak / 2**20:,.0f} MiB")
        if self.left:
            faults.append(f"left: {self.left[0]}")
        accepted = (*codes, *_STOPPED) if self.stopped else codes
        if not self.hung and self.code not in accepted:
            faults.append(f"code: {self.code}")
        if self.code == 2 and b"zerolab: " not in self.errors:
            faults.append("silent: code 2 without a message")
        return faults

    @property
    def message(self) -> str:
        """Last line of the error output."""
        return _last_line(self.errors)


def _last_line(text: bytes) -> str:
    lines = [line for line in text.decode(errors="replace").splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


class Launcher(Protocol):
    """Launcher of commands, one at a time."""

    def start(self, request: dict[str, Any]) -> int:
        """Start a command in a new session; return its process id."""

    def code(self, seconds: float) -> int | None:
        """Wait up to `seconds`; return the exit code, or None if the command is still running."""


class Shell:
    """Launcher that starts each command as a new process, as a shell does."""

    def __init__(self, *program: str) -> None:
        """Create a launcher of zerolab, or of another program for tests."""
        self._program = program or (sys.executable, "-m", "zerolab")

    def start(self, request: dict[str, Any]) -> int:
        """Start a command; see `Launcher.start`."""
        with (
            open(request["input"], "rb") as keys,
            open(request["output"], "wb") as output,
            open(request["errors"], "wb") as errors,
        ):
            self._process = subprocess.Popen(
                [*self._program, *request["words"]],
                cwd=request["folder"], env=request["environment"], start_new_session=True,
                stdin=keys, stdout=output, stderr=errors,
            )  # fmt: skip
        return self._process.pid

    def code(self, seconds: float) -> int | None:
        """Return the exit code; see `Launcher.code`."""
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(seconds)
        return None


class Warm:
    """Launcher that forks each command from a process that has imported zerolab."""

    def __init__(self) -> None:
        requests, self._requests = os.pipe()
        self._answers, answers = os.pipe()
        code = f"import sys; from campaigns.warm import main; sys.exit(main({requests}, {answers}))"
        self._server = subprocess.Popen(
            [sys.executable, "-c", code], pass_fds=(requests, answers),
            env=environment(with_paths(BENCHMARKS), "warm"),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        os.close(requests)
        os.close(answers)
        self._lines = b""
        assert self._answer(300.0) == {"ready": True}, "the warm process does not start"

    def start(self, request: dict[str, Any]) -> int:
        """Start a command; see `Launcher.start`."""
        os.write(self._requests, json.dumps(request).encode() + b"\n")
        answer = self._answer(20.0)
        assert answer is not None, "the warm process does not fork"
        return int(answer["process"])

    def code(self, seconds: float) -> int | None:
        """Return the exit code; see `Launcher.code`."""
        answer = self._answer(seconds)
        return None if answer is None else int(answer["code"])

    def _answer(self, seconds: float) -> Any:
        deadline = time.monotonic() + seconds
        while b"\n" not in self._lines:
            remaining = max(0.0, deadline - time.monotonic())
            if not select.select([self._answers], [], [], remaining)[0]:
                return None
            content = os.read(self._answers, 65536)
            assert content, "the warm process has ended"
            self._lines += content
        line, _, self._lines = self._lines.partition(b"\n")
        return json.loads(line)

    def close(self) -> None:
        """End the process."""
        os.close(self._requests)
        self._server.wait(20)
        os.close(self._answers)


def environment(more: Mapping[str, str], mark: str) -> dict[str, str]:
    """Return this process's environment with `more` variables and a mark to identify processes."""
    return {**os.environ, "BROWSER": "true", _MARK: mark, **more}


def with_paths(*folders: Path) -> dict[str, str]:
    """Return the environment variable that adds folders to Python's path."""
    paths = [*map(str, folders), os.environ.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(filter(None, paths))}


def watched(launcher: Launcher, command: Command, notes: Path, seconds: float) -> Ended:
    """Run a command and kill it if it takes longer than `seconds`.

    Its output is stored in files whose names begin with `notes`.
    """
    keys, output, errors = (notes.with_name(f"{notes.name}.{x}") for x in ("keys", "out", "err"))
    keys.write_text(command.keys)
    mark = f"{os.getpid()}:{notes}"
    began = time.monotonic()
    process = launcher.start(
        {
            "words": list(command.words), "folder": str(command.folder), "input": str(keys),
            "output": str(output), "errors": str(errors),
            "environment": environment(command.environment, mark),
        }
    )  # fmt: skip
    watching = _Watching(process, command, began, seconds)
    try:
        while (code := launcher.code(_SAMPLE_SECONDS)) is None:
            watching.look()
    except BaseException:  # the campaign is being stopped
        kill(family(process))
        raise
    elapsed = time.monotonic() - began
    return Ended(
        code, elapsed, watching.peak, watching.hung, watching.stopped,
        _left(process, command, f"{_MARK}={mark}"), _ends(output), _ends(errors),
    )  # fmt: skip


class _Watching:
    """Monitor of a running command that kills or stops it when necessary."""

    def __init__(self, process: int, command: Command, began: float, seconds: float) -> None:
        self._process = process
        self._command = command
        self._began = began
        self._seconds = seconds
        self.peak = 0
        self.hung = False
        self.stopped = False

    def look(self) -> None:
        """Measure the command, and stop or kill it if a limit is reached."""
        members = family(self._process)
        self.peak = max(self.peak, memory(members))
        elapsed = time.monotonic() - self._began
        stop, kill_after = self._command.stop_after, self._command.kill_after
        if stop is not None and not self.stopped and elapsed > stop:
            self.stopped = True
            self._seconds = stop + _SECONDS_TO_STOP
            with suppress(ProcessLookupError):
                os.kill(self._process, signal.SIGTERM)
        if kill_after is not None and elapsed > kill_after:
            kill(members if self._command.kills_all else members[:0])
            with suppress(ProcessLookupError):
                os.kill(self._process, signal.SIGKILL)
        if elapsed > self._seconds or self.peak > _MAX_BYTES:
            self.hung = elapsed > self._seconds
            kill(members)


def _left(process: int, command: Command, mark: str) -> list[str]:
    """Return processes that are still running a few seconds after the end, and kill them."""
    deadline = time.monotonic() + _SECONDS_TO_LEAVE
    while (remaining := leftovers(process, command.folder, mark)) and time.monotonic() < deadline:
        time.sleep(_SAMPLE_SECONDS)
    for line in remaining:
        with suppress(ProcessLookupError):
            os.kill(int(line.partition(" ")[0]), signal.SIGKILL)
    return remaining


def _ends(path: Path) -> bytes:
    """Return the beginning and end of a file."""
    with open(path, "rb") as file:
        head = file.read(_SHOWN)
        file.seek(max(_SHOWN, path.stat().st_size - _SHOWN))
        return head + file.read()
