"""Signals and standard streams of the process that runs a command.

Ctrl-C, SIGTERM and SIGHUP end every command and all child processes within seconds.
"""

from __future__ import annotations

import atexit
import os
import select
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

INTERRUPTED = 130
"""Exit code after Ctrl-C."""

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")
_SIGNALS = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]
"""Signals that end a command; some systems lack some."""
_SECONDS_TO_HANDLE = 1.0
_SECONDS_TO_STOP = 2.0
_SECONDS_TO_CLEAN_UP = 1.0


_DEFAULT_MESSAGE = "interrupted"
_advice = [_DEFAULT_MESSAGE]  # the last entry is printed on interruption


@contextmanager
def resume_advice(saved: str, command: str) -> Iterator[None]:
    """On interruption, tell the user what is saved and which command resumes the work.

    KeyboardInterrupt is raised again with this advice as the message.
    """
    from zerolab.core.errors import printable

    _advice.append(printable(f"stopped; {saved}, resume with: {command}"))
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_advice[-1]) from None
    finally:
        _advice.pop()


def report_interruption(message: object = "") -> None:
    """Print a message on one line, or a default message if it is empty."""
    print(f"zerolab: {str(message) or _DEFAULT_MESSAGE}", file=sys.stderr)


def run_interruptibly(work: Callable[[], int]) -> int:
    """Run `work` and return its exit code, or end with 128 plus the signal number if interrupted.

    A signal raises KeyboardInterrupt in the main thread. Python handles signals only between
    bytecode instructions, not while a kernel runs. A watcher thread therefore ends the process if
    the signal is not handled within one second, if the work has not stopped two seconds later, or
    after a further signal. Once the work is done, signals end the process silently.
    """
    interruption = _Interruption()
    try:
        with interruption.handled():
            code = work()
    except BaseException:
        # A module interrupted during import can raise another exception.
        if interruption.number is None:
            raise
        report_interruption()
    if interruption.number is not None:
        end_process(interruption.exit_code)
    return code


def end_process(code: int) -> None:
    """End this process and its child processes without waiting for its threads."""
    cleanup = threading.Thread(target=_clean_up, daemon=True)
    cleanup.start()
    cleanup.join(_SECONDS_TO_CLEAN_UP)
    os._exit(code)


def _clean_up() -> None:
    """Flush output, end child processes, and run exit handlers, such as those that end engines."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    if "multiprocessing" in sys.modules:
        for child in sys.modules["multiprocessing"].active_children():
            child.terminate()
    atexit._run_exitfuncs()


class _Interruption:
    """First signal that asked this process to end, and the response to it."""

    def __init__(self) -> None:
        self.number: int | None = None

    @property
    def exit_code(self) -> int:
        """Exit code that shells report for a program that was ended by this signal."""
        return 128 + (self.number or 0)

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Raise KeyboardInterrupt on a signal, or end the process if that has no effect."""
        # Shells make background programs ignore some signals, which must remain ignored.
        handled = [each for each in _SIGNALS if signal.getsignal(each) != signal.SIG_IGN]
        arrivals, wakeup = os.pipe()
        os.set_blocking(wakeup, False)
        signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
        threading.Thread(target=self._watch, args=(arrivals,), daemon=True).start()
        for each in handled:
            signal.signal(each, self._interrupt)
        sys.unraisablehook = _report_unless_interrupted
        try:
            yield
        finally:
            if self.number is None:
                for each in handled:
                    signal.signal(each, signal.SIG_DFL)

    def _interrupt(self, number: int, frame: Any) -> None:
        if self.number is None:
            self.number = number
            raise KeyboardInterrupt

    def _watch(self, arrivals: int) -> None:
        """Wait for a signal; end the process if the work continues or another signal arrives."""
        number = os.read(arrivals, 1)[0]
        is_second = select.select([arrivals], [], [], _SECONDS_TO_HANDLE)[0]
        if self.number is None:  # the main thread is busy and has printed nothing yet
            report_interruption(_advice[-1])
        elif not is_second:
            select.select([arrivals], [], [], _SECONDS_TO_STOP)
        end_process(128 + number)


def _report_unless_interrupted(unraisable: Any) -> None:
    if unraisable.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(unraisable)


def prepare_streams() -> None:
    """Redirect closed streams (``>&-``) to the null device, and escape unencodable output.

    Otherwise the next file to be opened would reuse the descriptor of the closed stream and receive
    the output. File names that are not UTF-8, for example, cannot be encoded.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # uses the lowest free descriptor, which is `number`
            os.set_inheritable(number, True)
        if getattr(sys, name) is None:
            stream = open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")


@contextmanager
def warnings_in_one_line() -> Iterator[None]:
    """Print each warning about a missing package or a broken plug-in once, as one line."""
    from zerolab.core.errors import PluginWarning, SubstituteWarning, printable

    with warnings.catch_warnings():
        show = warnings.showwarning

        def show_in_one_line(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, (SubstituteWarning, PluginWarning)):
                print(f"zerolab: {printable(str(message))}", file=sys.stderr)
            else:
                show(printable(str(message), "\n\t"), category, filename, lineno, file, line)

        warnings.showwarning = show_in_one_line
        warnings.simplefilter("once", SubstituteWarning)
        warnings.simplefilter("once", PluginWarning)
        yield


def drop_output() -> None:
    """Discard all further standard output, including output at interpreter exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
