"""Processes forked from a server that has imported zerolab, and waiting for conditions.

A new interpreter takes most of a second to import zerolab; a fork of the server starts within a
few hundredths. Each fork has its own standard streams, signals and exit code.

Run as a program, this file is the server, or with ``--through`` a small program that passes its
standard streams to a fork and ends with the fork's exit code.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import select
import selectors
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

COMMAND = "import sys; from zerolab.cli.main import main; sys.exit(main())"

_MAX_REQUEST = 1 << 16
_STEP_SECONDS = 0.02
_PRELOADED = (
    "asyncio", "zerolab.cli.process", "zerolab.cli.parse", "zerolab.cli.reference",
    "zerolab.cli.tournament", "zerolab.cli.play", "zerolab.cli.solve", "typeguard",
    "zerolab.rules.compiled_rules", "zerolab.play.tournament", "zerolab.gtp.engine",
    "zerolab.agents.specs", "zerolab.agents.network_players", "zerolab.agents.baselines",
)  # fmt: skip


def wait_for(condition: Callable[[], object], seconds: float = 120) -> None:
    """Return as soon as a condition is true; fail the test if that takes too long.

    The condition is checked every 20 ms.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"the condition was not true within {seconds} s"
        time.sleep(_STEP_SECONDS)


@cache
def _server() -> str:
    """Start the server of this process; return the path of its socket."""
    if not hasattr(os, "pidfd_open"):
        import_module("pytest").skip("forks of a server need Linux")
    path = str(Path(tempfile.mkdtemp(prefix="zerolab-forks-")) / "socket")
    process = subprocess.Popen(
        [sys.executable, __file__, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None and process.stdout is not None
    atexit.register(_end_server, process, Path(path))
    assert process.stdout.readline() == b"ready\n"
    return path


def _end_server(process: subprocess.Popen[bytes], path: Path) -> None:
    process.communicate()
    path.unlink()
    path.parent.rmdir()


class Fork:
    """A process with pipes as standard streams, running `zerolab` with `words` by default."""

    def __init__(self, *words: str, code: str = COMMAND, stdout: int | None = None) -> None:
        """Start the process; `stdout` is a file descriptor that replaces the output pipe."""
        inputs, outputs, errors = os.pipe(), os.pipe(), os.pipe()
        streams = inputs[0], outputs[1] if stdout is None else stdout, errors[1]
        self._connection = _request(_server(), code, words, streams)
        for stream in (inputs[0], outputs[1], errors[1]):
            os.close(stream)
        self._lines = self._connection.makefile("rb", buffering=0)
        self.pid = int(self._lines.readline())
        self.returncode: int | None = None
        self.stdin, self.stdout = os.fdopen(inputs[1], "w"), os.fdopen(outputs[0])
        self.stderr = os.fdopen(errors[0])

    def poll(self) -> int | None:
        """Return the exit code, or None if the process is running."""
        if self.returncode is None and select.select([self._connection], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self, timeout: float = 60) -> int:
        """Return the exit code (negative after a signal), or raise TimeoutError."""
        if self.returncode is None:
            self._connection.settimeout(timeout)
            self.returncode = int(self._lines.readline())
        return self.returncode

    def finish(self, timeout: float = 60) -> tuple[str, str]:
        """Close standard input, wait, and return the remaining output and errors."""
        self.stdin.close()
        try:
            self.wait(timeout)
        except TimeoutError:
            os.kill(self.pid, 9)
            raise
        finally:
            output = self.stdout.read(), self.stderr.read()
            for stream in (self.stdout, self.stderr, self._lines, self._connection):
                stream.close()
        return output


def through(code: str, *words: str) -> list[str]:
    """Return the command line of a process that executes `code` in a fork."""
    return [sys.executable, "-IS", __file__, "--through", _server(), code, *words]


def _request(path: str, code: str, words: Sequence[str], streams: Sequence[int]) -> socket.socket:
    """Request a fork that executes `code`; return the connection to the server.

    The server sends two lines: the process ID, and later the exit code.
    """
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    request = {"code": code, "words": words, "env": dict(os.environ), "cwd": str(Path.cwd())}
    message = json.dumps(request).encode()
    assert len(message) < _MAX_REQUEST
    socket.send_fds(connection, [message], streams)
    return connection


def _serve(path: str) -> str:
    """Fork for every request; in each fork, return the code to execute."""
    with socket.socket(socket.AF_UNIX) as listener, selectors.DefaultSelector() as selector:
        listener.bind(path)
        listener.listen()
        selector.register(listener, selectors.EVENT_READ)
        selector.register(0, selectors.EVENT_READ)  # standard input closes when the tests end
        print("ready", flush=True)
        while True:
            for key, _ in selector.select():
                if key.fileobj == 0:
                    sys.exit()
                elif key.fileobj is listener:
                    client = listener.accept()[0]
                    message = socket.recv_fds(client, _MAX_REQUEST, 3)
                    pid = os.fork()
                    if pid == 0:
                        client.close()
                        return _become(json.loads(message[0]), message[1])
                    for stream in message[1]:
                        os.close(stream)
                    client.sendall(b"%d\n" % pid)
                    selector.register(os.pidfd_open(pid), selectors.EVENT_READ, client)
                else:
                    _report(key, selector)


def _report(key: selectors.SelectorKey, selector: selectors.BaseSelector) -> None:
    """Send the exit code of an ended fork to the process that requested it."""
    status = os.waitid(os.P_PIDFD, key.fd, os.WEXITED)
    assert status is not None
    code = status.si_status if status.si_code == os.CLD_EXITED else -status.si_status
    with key.data as connection, suppress(OSError):  # the client may be gone
        connection.sendall(b"%d\n" % code)
    selector.unregister(key.fileobj)
    os.close(key.fd)


def _become(request: dict[str, Any], streams: Sequence[int]) -> str:
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    sys.argv[:] = ["zerolab", *request["words"]]
    return str(request["code"])


def _pass_streams_through(path: str, code: str, *words: str) -> int:
    with _request(path, code, words, (0, 1, 2)) as connection, connection.makefile() as lines:
        lines.readline()
        return int(lines.readline())


if __name__ == "__main__":
    if sys.argv[1] == "--through":
        sys.exit(_pass_streams_through(*sys.argv[2:]))
    for _name in _PRELOADED:
        import_module(_name)
    # Import what numba needs first, and compile now so that forks do not report it.
    with open(os.devnull, "w") as null, redirect_stdout(null):
        for _command in (["perft", "gobang:3x3:3", "1"], ["games"]):
            import_module("zerolab.cli.main").main(_command)
    gc.collect()
    gc.freeze()  # spare each fork a full collection on exit
    exec(_serve(sys.argv[1]), {"__name__": "__main__"})
