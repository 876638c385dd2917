"""The process that runs a command: its signals, its standard streams, and its terminal.

Ctrl-C, SIGTERM and SIGHUP end every command and all child processes within seconds.

In a terminal, the notice that kernels are being compiled shows a spinner and the elapsed seconds.
Displays such as progress bars include the notice (`CompilationNotice.text`). In files and pipes, it
is a single line.
"""

from __future__ import annotations

import atexit
import os
import select
import signal
import sys
import textwrap
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

from zerolab.core import resources

INTERRUPTED_EXIT_CODE = 130
"""Exit code after Ctrl-C."""

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")
_SIGNALS = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]
"""Signals that end a command, if the system supports them."""
_SECONDS_TO_HANDLE = 1.0
_SECONDS_TO_STOP = 2.0
_SECONDS_TO_CLEAN_UP = 1.0


_DEFAULT_MESSAGE = "interrupted"
_advice = [_DEFAULT_MESSAGE]  # the last entry is printed on interruption
_reported = threading.Event()
"""Set once a message about an interruption has been printed."""


_grace_periods = [0.0]  # in seconds; the last entry applies


@contextmanager
def grace_period(seconds: float) -> Iterator[None]:
    """Allow work with its own signal handling `seconds` to stop after the first signal."""
    _grace_periods.append(seconds)
    try:
        yield
    finally:
        _grace_periods.pop()


@contextmanager
def advise_resuming(saved: str, command: str) -> Iterator[None]:
    """On interruption, tell the user what is saved and which command resumes the work.

    KeyboardInterrupt is raised again with this advice as the message.
    """
    from zerolab.core.errors import escape_unprintable

    _advice.append(escape_unprintable(f"stopped; {saved}, resume with: {command}"))
    try:
        yield
    except KeyboardInterrupt:
        _advice[0] = _advice[-1]  # for the watcher, if unwinding takes too long
        raise KeyboardInterrupt(_advice[-1]) from None
    finally:
        _advice.pop()


def report_interruption(message: object = "") -> None:
    """Print a message on one line, or a default message if it is empty."""
    _reported.set()
    with suppress(OSError):  # nobody can read it
        print(f"zerolab: {str(message) or _DEFAULT_MESSAGE}", file=sys.stderr)


def run_interruptibly(work: Callable[[], int]) -> int:
    """Run `work` and return its exit code; if interrupted, exit with 128 plus the signal number.

    A signal raises KeyboardInterrupt in the main thread. Python handles signals only between
    bytecode instructions, not while a kernel is running. A watcher thread therefore ends the
    process if the signal is not handled within one second, if the work has not stopped two seconds
    later or after the `grace_period`, or if another signal arrives. Once the work is done, signals
    end the process silently.
    """
    _reported.clear()
    _advice[:] = [_DEFAULT_MESSAGE]
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
        exit_without_waiting(interruption.exit_code)
    return code


def exit_without_waiting(code: int) -> None:
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
        """Exit code that shells report for a program terminated by this signal."""
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
        seconds = max(_grace_periods[-1], 0.0 if self.number is None else _SECONDS_TO_STOP)
        if seconds and not is_second:
            select.select([arrivals], [], [], seconds)
        if not _reported.is_set():  # the main thread is still busy
            report_interruption(_advice[-1])
        exit_without_waiting(128 + number)


def _report_unless_interrupted(unraisable: Any) -> None:
    if unraisable.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(unraisable)


def prepare_standard_streams() -> None:
    """Redirect closed streams (``>&-``) to the null device, and escape unencodable output.

    Without the redirection, the next file to be opened would reuse the descriptor of the closed
    stream and receive the output. Output is unencodable if, for example, it contains file names
    that are not UTF-8.
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
def print_warnings_as_lines() -> Iterator[None]:
    """Print each warning about a missing package or a broken plug-in once, as one line."""
    from zerolab.core.errors import PluginWarning, SlowFallbackWarning, escape_unprintable

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
            if issubclass(category, (SlowFallbackWarning, PluginWarning)):
                print(f"zerolab: {escape_unprintable(str(message))}", file=sys.stderr)
            else:
                show(
                    escape_unprintable(str(message), "\n\t"), category, filename, lineno, file, line
                )

        warnings.showwarning = show_in_one_line
        warnings.simplefilter("once", SlowFallbackWarning)
        warnings.simplefilter("once", PluginWarning)
        yield


def discard_standard_output() -> None:
    """Discard all further standard output, including output at interpreter exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


COMPILATION_NOTICE = "compiling kernels, once per version"
SECONDS_BEFORE_NOTICE = 1.0
"""Seconds of compilation after which the notice appears."""

_SPINNER = "|/-\\"
_SECONDS_PER_FRAME = 0.2
_CLEAR_LINE = "\r\x1b[K"


class CompilationNotice:
    """Observer of compilations that prints the notice on standard error."""

    def __init__(self) -> None:
        self.displays = 0
        """Number of displays in the terminal that show the notice themselves."""
        self._lock = threading.Lock()
        self._depth = 0
        self._began = 0.0
        self._earlier_seconds = 0.0
        self._is_printed = False
        self._has_line = False

    def on_start(self) -> None:
        with self._lock:
            self._depth += 1
            if self._depth > 1:
                return
            self._began = time.monotonic()
        threading.Thread(target=self._show, daemon=True).start()

    def on_end(self) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                self._earlier_seconds += time.monotonic() - self._began
                self._clear()

    def text(self) -> str:
        """Return the notice with the seconds spent compiling; "" if there is nothing to show."""
        seconds = self._earlier_seconds + time.monotonic() - self._began
        is_long = self._depth > 0 and seconds >= SECONDS_BEFORE_NOTICE
        return f"{COMPILATION_NOTICE}: {seconds:.0f} s" if is_long else ""

    def _show(self) -> None:
        """Update the notice until the compilation that has just begun ends."""
        began = self._began
        while True:
            with self._lock:
                if self._depth == 0 or self._began != began:
                    return
                if text := self.text():
                    self._print(text)
            time.sleep(_SECONDS_PER_FRAME)

    def _print(self, text: str) -> None:
        if not sys.stderr.isatty():
            if not self._is_printed:
                sys.stderr.write(f"zerolab: {COMPILATION_NOTICE}\n")
                sys.stderr.flush()
            self._is_printed = True
        elif self.displays == 0:
            frame = _SPINNER[int(time.monotonic() / _SECONDS_PER_FRAME) % len(_SPINNER)]
            sys.stderr.write(f"{_CLEAR_LINE}{frame} {text}")
            sys.stderr.flush()
            self._has_line = True

    def _clear(self) -> None:
        if self._has_line:
            sys.stderr.write(_CLEAR_LINE)
            sys.stderr.flush()
            self._has_line = False


compilation_notice = CompilationNotice()
"""Notice of this process, once `enable_compilation_notice` has been called."""


def enable_compilation_notice() -> None:
    """Show the notice while kernels are being compiled in this process."""
    if compilation_notice not in resources.compilation_observers:
        resources.compilation_observers.append(compilation_notice)


_MIN_COLUMNS = 20  # lines are never wrapped to fewer columns


def terminal_width(stream: TextIO | None = None) -> int | None:
    """Return the width of a stream in columns, from COLUMNS or the terminal; None for a file.

    The stream is standard output by default.
    """
    columns = os.environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and int(columns) > 0:
        return max(int(columns), _MIN_COLUMNS)
    stream = sys.stdout if stream is None else stream
    if not stream.isatty():
        return None
    try:
        columns_found = os.get_terminal_size(stream.fileno()).columns
        return max(columns_found, _MIN_COLUMNS) if columns_found else None
    except (OSError, ValueError):
        return None


def wrap_line(line: str, width: int | None, indent: int | None = None) -> str:
    """Return a line wrapped between words to a width.

    `indent` is the indentation of continuation lines in columns, by default that of the line.

    Words longer than the width, such as paths, remain whole. The line is unchanged if it fits, or
    if the width is None.
    """
    if width is None or len(line) <= width:
        return line
    spaces = len(line) - len(line.lstrip(" ")) if indent is None else indent
    return textwrap.fill(
        line, width, subsequent_indent=" " * spaces, break_long_words=False, break_on_hyphens=False
    )
