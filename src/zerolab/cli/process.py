"""Signals and standard streams of the process of a command.

Ctrl-C, SIGTERM and SIGHUP end every command within seconds and leave no other process behind.
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
"""The exit code after Ctrl-C."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SECONDS_TO_NOTICE = 1.0
_SECONDS_TO_STOP = 2.0
_SECONDS_TO_CLEAN_UP = 1.0


_INTERRUPTED = "interrupted"
_advice = [_INTERRUPTED]  # the last one is shown on interruption


@contextmanager
def resumable(saved: str, command: str) -> Iterator[None]:
    """Advise, if the work is interrupted, which command resumes it, and what is saved.

    KeyboardInterrupt is raised again with this advice as its message.
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
    """Print one line: the message, or that the command was interrupted."""
    print(f"zerolab: {str(message) or _INTERRUPTED}", file=sys.stderr)


def run_interruptibly(work: Callable[[], int]) -> int:
    """Do the work of this process and return its exit code: 128 plus the signal if interrupted.

    A signal raises KeyboardInterrupt in the main thread. Python handles signals only between two
    of its instructions, not while a kernel computes. So a thread ends the process if the signal is
    not handled within a second, if the work has not stopped two seconds later, or after a second
    signal. After the work, while Python exits, signals end the process silently.
    """
    interruption = _Interruption()
    try:
        with interruption.handled():
            code = work()
    except BaseException:
        # A module that is interrupted while it loads may raise another exception.
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
    """Run exit handlers, which end engines and remove temporary folders."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    if "multiprocessing" in sys.modules:
        for child in sys.modules["multiprocessing"].active_children():
            child.terminate()
    atexit._run_exitfuncs()


class _Interruption:
    """The first signal that asked this process to end."""

    def __init__(self) -> None:
        self.number: int | None = None

    @property
    def exit_code(self) -> int:
        """Exit code of a program ended by this signal, as shells define it."""
        return 128 + (self.number or 0)

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Raise KeyboardInterrupt at a signal; end the process if that has no effect."""
        # Programs in the background of a shell ignore some signals, and should keep doing so.
        handled = [each for each in _SIGNALS if signal.getsignal(each) != signal.SIG_IGN]
        arrivals, announce = os.pipe()
        os.set_blocking(announce, False)
        signal.set_wakeup_fd(announce, warn_on_full_buffer=False)
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
        """Wait for a signal; end the process if it does not stop the work, or at a second one."""
        number = os.read(arrivals, 1)[0]
        is_second = select.select([arrivals], [], [], _SECONDS_TO_NOTICE)[0]
        if self.number is None:  # the main thread is busy, nothing was printed yet
            report_interruption(_advice[-1])
        elif not is_second:
            select.select([arrivals], [], [], _SECONDS_TO_STOP)
        end_process(128 + number)


def _report_unless_interrupted(unraisable: Any) -> None:
    if unraisable.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(unraisable)


def prepare_streams() -> None:
    """Redirect streams closed by a shell (``>&-``) to nowhere, and escape undecodable text.

    Otherwise the next opened file would take the number of a closed stream and receive its output.
    File names that are not UTF-8 are printed with their odd bytes escaped.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the smallest free number: this one
            os.set_inheritable(number, True)
        if getattr(sys, name) is None:
            stream = open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")


@contextmanager
def warnings_in_one_line() -> Iterator[None]:
    """Print warnings of missing optional packages like messages, and once."""
    from zerolab.core.errors import MissingExtraWarning, printable

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
            if issubclass(category, MissingExtraWarning):
                print(f"zerolab: {printable(str(message))}", file=sys.stderr)
            else:
                shown = printable(str(message), "\n\t")
                show(shown, category, filename, lineno, file, line)

        warnings.showwarning = show_in_one_line
        warnings.simplefilter("once", MissingExtraWarning)
        yield


def drop_output() -> None:
    """Discard further standard output, including that written when the interpreter exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
