"""Client of an outside engine of the Go Text Protocol, which runs as a child process."""

from __future__ import annotations

import contextlib
import os
import selectors
import shlex
import shutil
import signal
import subprocess
import time
import weakref

LONGEST_ANSWER = 1 << 20
"""Bytes after which an answer that does not end is treated as garbage."""

_GAMES_FOLDER = "/usr/games"  # where Debian puts engines such as gtp-rhino; often not on PATH
_SECONDS_TO_QUIT = 1.0
_MOMENT_SECONDS = 0.1
_MAX_QUOTE = 60
_CHUNK = 1 << 16


class EngineError(Exception):
    """An engine is missing, has ended, hangs or sends nonsense; the message tells which."""


class EngineRefusedError(EngineError):
    """An engine answered a command with an error and still runs."""


class Client:
    """Connection to one engine. An EngineError other than a refusal ends the engine.

    The command is split as by a shell, but runs without one. The program leads its own process
    group, which is killed when the client is closed or garbage-collected and when this process
    exits. POSIX systems only.
    """

    def __init__(self, command: str, timeout: float) -> None:
        self.command = command
        self._timeout = timeout
        self._buffer = b""
        self._complaints = b""
        self._interrupted = False
        self._process = _spawn(command)
        self._end = weakref.finalize(self, _end, self._process)
        self._selector = selectors.DefaultSelector()
        for stream in (self._process.stdout, self._process.stderr):
            assert stream is not None
            self._selector.register(stream, selectors.EVENT_READ)

    def ask(self, command: str) -> str:
        """Send a command and return the text of the response.

        Raises EngineRefusedError where the engine answers with an error, EngineError where it does
        not answer in time, has ended, or prints what is no answer.
        """
        if not self._end.alive:
            raise EngineError("it has ended")
        try:
            self._send(command)
            text = self._receive(command)
        except EngineError:
            self._end()
            raise
        if text.startswith("?"):
            raise EngineRefusedError(f'it answered "{quote(text)}" to "{command}"')
        return text[1:].strip()

    def close(self) -> None:
        """Ask the engine to quit, and end it and its own child processes if it does not."""
        if not self._end.alive:
            return
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._write("quit")
            self._process.stdin.close()
            deadline = time.monotonic() + _SECONDS_TO_QUIT
            while self._read(deadline) and time.monotonic() < deadline:
                pass
        self._end()

    def interrupt(self) -> None:
        """Kill the engine, so that a thread waiting for it gets an EngineError."""
        self._interrupted = True
        _kill(self._process)

    def _send(self, command: str) -> None:
        is_there = self._read(time.monotonic())
        if self._buffer.strip():
            raise EngineError(f'it printed "{quote(self._buffer)}" without being asked')
        self._buffer = b""
        try:
            self._write(command)
        except OSError:
            is_there = False
        if not is_there:
            raise EngineError(self._last_words())

    def _write(self, command: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(command.encode() + b"\n")

    def _receive(self, command: str) -> str:
        deadline = time.monotonic() + self._timeout
        while True:
            is_there = self._read(deadline)
            self._buffer = self._buffer.replace(b"\r", b"").lstrip(b"\n")
            if self._buffer and self._buffer[:1] not in (b"=", b"?"):
                raise EngineError(f'it printed "{quote(self._buffer)}" in place of an answer')
            text, end, rest = self._buffer.partition(b"\n\n")
            if end:
                self._buffer = rest
                return text.decode(errors="replace")
            if len(self._buffer) > LONGEST_ANSWER:
                raise EngineError(f'its answer to "{command}" does not end')
            if self._interrupted:
                raise EngineError("it was interrupted")
            if not is_there:
                raise EngineError(self._last_words())
            if time.monotonic() >= deadline:
                raise EngineError(f'no answer to "{command}" within {self._timeout:g} seconds')

    def _read(self, deadline: float) -> bool:
        """Wait briefly for output; return False once the engine has closed its output."""
        wait = min(_MOMENT_SECONDS, max(0.0, deadline - time.monotonic()))
        for key, _ in self._selector.select(wait):
            chunk = os.read(key.fd, _CHUNK)
            if key.fileobj is self._process.stderr:
                self._complaints = (self._complaints + chunk)[-_CHUNK:]
            else:
                self._buffer += chunk
            if not chunk:
                self._selector.unregister(key.fileobj)
        return self._process.stdout in self._selector.get_map()

    def _last_words(self) -> str:
        """Return that the engine has ended, with the last line of its standard error."""
        deadline = time.monotonic() + _SECONDS_TO_QUIT
        while self._selector.get_map() and time.monotonic() < deadline:
            self._read(deadline)
        lines = self._complaints.decode(errors="replace").split("\n")
        said = [line for line in lines if line.strip()]
        return f'it has ended, saying "{quote(said[-1])}"' if said else "it has ended"


def _spawn(command: str) -> subprocess.Popen[bytes]:
    try:
        arguments = shlex.split(command)
    except ValueError as error:
        raise EngineError(f"the command cannot be read: {error}") from None
    if not arguments:
        raise EngineError("the command is empty")
    folders = os.environ.get("PATH", os.defpath) + os.pathsep + _GAMES_FOLDER
    arguments[0] = shutil.which(arguments[0], path=folders) or arguments[0]
    try:
        return subprocess.Popen(
            arguments,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the command
        reason = getattr(error, "strerror", None) or error
        raise EngineError(f"{arguments[0]} cannot be started: {reason}") from None


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill an engine's process group; its number is still in use until `wait`."""
    _kill(process)
    process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        with contextlib.suppress(OSError):
            stream.close()  # type: ignore[union-attr]


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def quote(text: bytes | str) -> str:
    """Return the beginning of a text on one printable line."""
    shown = text.decode(errors="replace") if isinstance(text, bytes) else text
    line = "".join(each if each.isprintable() else " " for each in shown.strip())
    return line if len(line) <= _MAX_QUOTE else line[: _MAX_QUOTE - 3] + "..."
