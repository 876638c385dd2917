"""Client for external Go Text Protocol engines, which run as child processes."""

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

MAX_RESPONSE_BYTES = 1 << 20
"""Maximum size of a response; longer responses are treated as invalid."""

_GAMES_FOLDER = "/usr/games"  # used by Debian for engines such as gtp-rhino; often not on PATH
_QUIT_SECONDS = 1.0
_POLL_SECONDS = 0.1
_MAX_EXCERPT = 60
_CHUNK = 1 << 16


class GtpEngineError(Exception):
    """Error of an engine that is missing, has ended, hangs, or sends invalid output."""


class GtpResponseError(GtpEngineError):
    """Error response of an engine to a command; the engine keeps running."""


class GtpClient:
    """Connection to an engine, closed by any GtpEngineError except GtpResponseError.

    The command line is split with shell rules but run without a shell. The program runs in a
    separate process group, which is killed when the client is closed or garbage-collected, and when
    this process exits. Requires a POSIX system.
    """

    def __init__(self, command: str, timeout: float) -> None:
        self.command = command
        self._timeout = timeout
        self._buffer = b""
        self._stderr = b""
        self._interrupted = False
        self._process = _spawn(command)
        self._terminate = weakref.finalize(self, _terminate, self._process)
        self._selector = selectors.DefaultSelector()
        for stream in (self._process.stdout, self._process.stderr):
            assert stream is not None
            self._selector.register(stream, selectors.EVENT_READ)

    def request(self, command: str) -> str:
        """Send a command and return the text of the response.

        Raises GtpResponseError if the engine responds with an error. Raises GtpEngineError if it
        does not respond in time, has ended, or prints anything other than a response.
        """
        if not self._terminate.alive:
            raise GtpEngineError("it has ended")
        try:
            self._send(command)
            text = self._receive(command)
        except GtpEngineError:
            self._terminate()
            raise
        if text.startswith("?"):
            raise GtpResponseError(f'it responded "{excerpt(text)}" to "{command}"')
        return text[1:].strip()

    def close(self) -> None:
        """Send the command quit; after a short time, kill the engine and its child processes."""
        if not self._terminate.alive:
            return
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._write("quit")
            self._process.stdin.close()
            deadline = time.monotonic() + _QUIT_SECONDS
            while self._read(deadline) and time.monotonic() < deadline:
                pass
        self._terminate()

    def interrupt(self) -> None:
        """Kill the engine, so that a thread waiting for it raises GtpEngineError."""
        self._interrupted = True
        _kill(self._process)

    def _send(self, command: str) -> None:
        is_running = self._read(time.monotonic())
        if self._buffer.strip():
            raise GtpEngineError(f'it printed "{excerpt(self._buffer)}" without a command')
        self._buffer = b""
        try:
            self._write(command)
        except OSError:
            is_running = False
        if not is_running:
            raise GtpEngineError(self._exit_message())

    def _write(self, command: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(command.encode() + b"\n")

    def _receive(self, command: str) -> str:
        deadline = time.monotonic() + self._timeout
        while True:
            is_running = self._read(deadline)
            self._buffer = self._buffer.replace(b"\r", b"").lstrip(b"\n")
            if self._buffer and self._buffer[:1] not in (b"=", b"?"):
                raise GtpEngineError(f'it printed "{excerpt(self._buffer)}" instead of a response')
            text, end, rest = self._buffer.partition(b"\n\n")
            if end:
                self._buffer = rest
                return text.decode(errors="replace")
            if len(self._buffer) > MAX_RESPONSE_BYTES:
                raise GtpEngineError(f'its response to "{command}" is too long')
            if self._interrupted:
                raise GtpEngineError("it was interrupted")
            if not is_running:
                raise GtpEngineError(self._exit_message())
            if time.monotonic() >= deadline:
                raise GtpEngineError(f'no response to "{command}" within {self._timeout:g} seconds')

    def _read(self, deadline: float) -> bool:
        """Wait briefly for output; return False once the engine has closed its output."""
        wait = min(_POLL_SECONDS, max(0.0, deadline - time.monotonic()))
        for key, _ in self._selector.select(wait):
            chunk = os.read(key.fd, _CHUNK)
            if key.fileobj is self._process.stderr:
                self._stderr = (self._stderr + chunk)[-_CHUNK:]
            else:
                self._buffer += chunk
            if not chunk:
                self._selector.unregister(key.fileobj)
        return self._process.stdout in self._selector.get_map()

    def _exit_message(self) -> str:
        """Return an error message for an engine that ended, with the last line of its stderr."""
        deadline = time.monotonic() + _QUIT_SECONDS
        while self._selector.get_map() and time.monotonic() < deadline:
            self._read(deadline)
        lines = [line for line in self._stderr.decode(errors="replace").split("\n") if line.strip()]
        return f'it has ended with the message "{excerpt(lines[-1])}"' if lines else "it has ended"


def _spawn(command: str) -> subprocess.Popen[bytes]:
    try:
        arguments = shlex.split(command)
    except ValueError as error:
        raise GtpEngineError(f"invalid command: {error}") from None
    if not arguments:
        raise GtpEngineError("the command is empty")
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
    except (OSError, ValueError) as error:  # ValueError for a null byte in the command
        reason = getattr(error, "strerror", None) or error
        raise GtpEngineError(f"{arguments[0]} cannot be started: {reason}") from None


def _terminate(process: subprocess.Popen[bytes]) -> None:
    """Kill the process group of an engine; the group ID stays valid until `wait`."""
    _kill(process)
    process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        with contextlib.suppress(OSError):
            stream.close()  # type: ignore[union-attr]


def _kill(process: subprocess.Popen[bytes]) -> None:
    if not hasattr(os, "killpg"):
        process.kill()
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def excerpt(text: bytes | str) -> str:
    """Return the beginning of a text as one line of printable characters."""
    decoded = text.decode(errors="replace") if isinstance(text, bytes) else text
    line = "".join(each if each.isprintable() else " " for each in decoded.strip())
    return line if len(line) <= _MAX_EXCERPT else line[: _MAX_EXCERPT - 3] + "..."
