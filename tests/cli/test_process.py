"""The command as a process: signals, pipes and closed streams."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from forks import COMMAND, Fork

ZEROLAB = [sys.executable, "-m", "zerolab.cli.main"]
LONG = ["perft", "gobang:8x8", "30"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_signal_ends_running_kernel(number):
    process = Fork(*LONG)
    process.stdout.readline()
    os.kill(process.pid, number)
    _, errors = process.finish(timeout=20)
    assert process.returncode == 128 + number
    assert errors == "zerolab: interrupted\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("seconds_to_stop", [0, 60])
def test_signal_prints_command_to_resume(number, seconds_to_stop):
    result = run_script(f"""
        import sys, time, types
        from zerolab.cli import main as command
        from zerolab.cli.process import advise_resuming

        def train():
            try:
                with advise_resuming("finished stages are saved", "zerolab train --run runs/a"):
                    signal.raise_signal({number:d})
            finally:
                time.sleep({seconds_to_stop})

        sys.modules["zerolab.cli.train"] = types.SimpleNamespace(train=train)
        sys.argv = ["zerolab", "train"]
        sys.exit(command.main())
    """)
    assert result.returncode == 128 + number
    assert result.stderr == (
        "zerolab: stopped; finished stages are saved, resume with: zerolab train --run runs/a\n"
    )


@pytest.mark.parametrize("seconds", [0, 30])
def test_work_that_handles_signals_itself_has_its_grace_period(seconds):
    result = run_script(f"""
        import sys, time, types
        from zerolab.cli import main as command
        from zerolab.cli.process import grace_period

        def serve():
            stopped = []
            with grace_period({seconds}):
                signal.signal(signal.SIGINT, lambda *_: stopped.append(True))
                signal.raise_signal(signal.SIGINT)
                time.sleep(2.5)  # longer than the watcher waits for other work
            print("stopped" if stopped else "not stopped")

        sys.modules["zerolab.cli.play"] = types.SimpleNamespace(serve=serve)
        sys.argv = ["zerolab", "serve"]
        sys.exit(command.main())
    """)
    assert result.stdout == ("stopped\n" if seconds else "")


def test_exit_code_does_not_depend_on_messages_that_nobody_can_read():
    with open("/dev/full", "w") as full:
        result = subprocess.run([*ZEROLAB, "bogus"], check=False, stderr=full, timeout=60)
    assert result.returncode == 2


def test_second_signal_ends_process():
    process = Fork(*LONG)
    process.stdout.readline()
    os.kill(process.pid, signal.SIGINT)
    os.kill(process.pid, signal.SIGTERM)
    process.finish(timeout=20)
    assert process.returncode in (128 + signal.SIGINT, 128 + signal.SIGTERM)


@pytest.mark.parametrize("module", ["zerolab.core.errors", "tyro", "numpy.linalg", "numba"])
def test_signal_during_imports_prints_no_traceback(module):
    result = run_script(f"""
        class Finder:
            def find_spec(name, path=None, target=None):
                if name == "{module}":
                    signal.raise_signal(signal.SIGINT)

        sys.meta_path.insert(0, Finder)
        sys.argv = ["zerolab", "perft", "gobang:3x3:3", "2"]
        sys.exit(main())
    """)
    assert result.returncode == 128 + signal.SIGINT
    assert result.stderr == "zerolab: interrupted\n"


def test_signal_at_exit_is_silent():
    register = "import atexit, signal; atexit.register(signal.raise_signal, signal.SIGTERM)\n"
    process = Fork("games", code=register + COMMAND)
    _, errors = process.finish()
    assert process.returncode == -signal.SIGTERM
    assert errors == ""


def test_exception_raised_by_interrupt_counts_as_interrupt():
    result = run_script("""
        import zerolab.cli.main as module
        def broken(arguments):
            try:
                signal.raise_signal(signal.SIGTERM)
            except KeyboardInterrupt:
                raise ImportError("half loaded")
        module._run = broken
        sys.exit(main())
    """)
    assert result.returncode == 128 + signal.SIGTERM
    assert result.stderr == "zerolab: interrupted\n"


def run_script(script):
    head = "import signal, sys\nfrom zerolab.cli.main import main\n"
    return subprocess.run(
        [sys.executable, "-c", head + textwrap.dedent(script)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_interrupted_command_ends_engines():
    process = Fork("match", 'gtp:"sleep 987"', "random", "--game", "gobang:3x3:3")
    while not (engines := children(process.pid)):
        assert is_running(process.pid)
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGTERM)
    process.finish(timeout=20)
    assert process.returncode == 128 + signal.SIGTERM
    wait_until_ended(engines)  # killed processes take a moment to end


def wait_until_ended(processes):
    deadline = time.monotonic() + 20
    while running := [process for process in processes if is_running(process)]:
        assert time.monotonic() < deadline, f"still running: {running}"
        time.sleep(0.05)


def children(parent):
    tasks = Path(f"/proc/{parent}/task")
    if not tasks.exists():
        pytest.skip("needs /proc")
    return [
        int(child) for task in tasks.iterdir() for child in (task / "children").read_text().split()
    ]


def is_running(process):
    try:
        return ") Z " not in Path(f"/proc/{process}/stat").read_text()
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("arguments", [["games"], LONG])
def test_closed_pipe_ends_command_quietly(arguments):
    reading, writing = os.pipe()
    os.close(reading)
    process = Fork(*arguments, stdout=writing)
    os.close(writing)
    _, errors = process.finish()
    assert process.returncode == 0
    assert errors == ""


def test_help_with_closed_streams_succeeds():
    script = f"{' '.join(ZEROLAB)} train --help <&- >&-"
    result = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)
    assert result.returncode == 0
    assert result.stderr == ""


@pytest.mark.parametrize(("arguments", "closed"), [("play random", {0, 1, 2}), ("gtp random", {1})])
def test_games_with_closed_streams_end_quietly(arguments, closed):
    """The streams are in the state that Python creates after ``<&- >&- 2>&-``."""
    head = "import os, sys\n"
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if number in closed:
            head += f"os.close({number}); sys.{name} = sys.__{name}__ = None\n"
    process = Fork(*arguments.split(), "--game", "gobang:3x3:3", code=head + COMMAND)
    if 0 not in closed:
        process.stdin.write("quit\n")
    _, errors = process.finish()
    assert process.returncode == 0
    assert errors == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize(
    ("arguments", "unbuffered"), [(["runs", "/"], ""), (["--help"], "1"), (["train", "--help"], "")]
)
def test_unwritable_output_is_reported(arguments, unbuffered):
    with open("/dev/full", "w") as full:
        result = subprocess.run(
            [*ZEROLAB, *arguments],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
        )  # fmt: skip
    assert result.returncode == 2
    assert result.stderr == "zerolab: cannot write the output: No space left on device\n"


def test_path_not_in_utf8_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    odd = os.fsdecode(b"caf\xe9.parquet")
    process = Fork("dataset", "gobang:3x3:3", "--positions", "5", "--out", odd)
    _, errors = process.finish()
    assert process.returncode == 2
    assert errors == 'zerolab: "caf\\udce9.parquet": expected text in UTF-8\n'
