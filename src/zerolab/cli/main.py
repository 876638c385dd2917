"""The `zerolab` command: dispatch to subcommands, and one-line error messages.

Modules of subcommands are imported only when needed, and import slow libraries only when the
subcommand runs, so that help and messages appear immediately. This module imports almost nothing,
because Python responds to Ctrl-C with a traceback until `main` handles signals.
"""

from __future__ import annotations

import errno
import importlib
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from zerolab.core import __version__

USAGE_ERROR_EXIT_CODE = 2

_LONG_WORD = re.compile(r"(\S{100})\S{100,}")  # messages may quote very long words in full
_OUTPUT_LOST = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


class Command(NamedTuple):
    """Subcommand."""

    function_path: str
    """Module in zerolab.cli and function, such as ``train:fit``."""
    help: str
    """Line in the list of commands."""


COMMANDS = {
    "train": Command("train:train", "train an agent, or resume a run"),
    "play": Command("play:play", "play against an agent in the terminal"),
    "serve": Command(
        "play:serve", "serve the laboratory to web browsers: play, analyse, replay, watch, compare"
    ),
    "match": Command(
        "tournament:match", "play a match between two agents, optionally as a sequential test"
    ),
    "tournament": Command("tournament:tournament", "play a round robin of agents and rate them"),
    "league": Command("tune:league", "evolve search settings in a league of players"),
    "gtp": Command("play:gtp", "run an agent as a Go Text Protocol engine"),
    "solve": Command("solve:solve", "find the exact value of every move in a position"),
    "dataset": Command("evaluate:dataset", "collect solved positions for evaluating agents"),
    "puzzles": Command(
        "solve:puzzles",
        "make graded puzzles: solved positions in which only one move wins or holds the draw",
    ),
    "fit": Command("train:fit", "train a network on solved positions instead of self-play"),
    "evaluate": Command("evaluate:evaluate", "measure an agent on solved positions and in games"),
    "tune": Command("tune:tune", "search for good settings with trial runs proposed by Optuna"),
    "study": Command(
        "study:list_studies", "reproduce a paper and compare the results with published ones"
    ),
    "findings": Command("reference:findings", "show the verdict on every published finding"),
    "report": Command("study:report", "show a study's tables, figures and claims on one page"),
    "rate": Command("tournament:rate_files", "rate the players in PGN files and games.sqlite"),
    "agents": Command("agents:agents", "list the agents in this package, or show an agent's card"),
    "export": Command("runs:export", "write a network to a shareable agent file or an ONNX model"),
    "runs": Command("runs:runs", "list runs, their progress and strength"),
    "cost": Command("bench:cost", "show the costs of runs: moves, evaluations, operations, hours"),
    "diversity": Command("runs:diversity", "count distinct self-play positions"),
    "plot": Command("runs:plot", "plot the training curves of runs"),
    "tensorboard": Command("runs:tensorboard", "export a run's metrics to TensorBoard"),
    "settings": Command(
        "reference:settings", "list run settings with bounds, defaults and published values"
    ),
    "games": Command("reference:games", "list games with their sizes, actions and symmetries"),
    "perft": Command(
        "reference:count_move_sequences", "count move sequences to check the rules of a game"
    ),
    "bench": Command(
        "bench:bench",
        "measure speed relative to simple reference loops, measured in the same run",
    ),
}

_GROUPS = ("agents", "bench", "study")
"""Commands whose first argument can select another function; their modules define
`split_subcommand` for this."""

_HELP_END = (
    """examples:
  zerolab train connect_four:6x7 --preset mini --run runs/demo
  zerolab train othello:6x6 --preset small --set search.simulations=50
  zerolab play runs/demo
  zerolab perft othello:6x6 8 --json""",
    "",
    "`zerolab COMMAND --help` explains a command.",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code.

    The code is 0 on success, 2 after an error, 130 after Ctrl-C, or 1 if `zerolab agents --verify`
    finds a number that disagrees with a card.

    If `arguments` is None, use the arguments of this process, and handle its signals and standard
    streams.
    """
    if arguments is not None:
        return _run_reporting_errors(arguments)
    from zerolab.cli.process import (
        enable_compilation_notice,
        prepare_standard_streams,
        run_interruptibly,
    )

    prepare_standard_streams()
    enable_compilation_notice()
    return run_interruptibly(lambda: _run_reporting_errors(sys.argv[1:]))


def find_command(arguments: Sequence[str]) -> tuple[Callable[..., None], str, list[str]]:
    """Return the function of a command, the command's full name, and the remaining arguments.

    Raises UserError if the command is unknown.
    """
    from zerolab.core.errors import UserError, did_you_mean, quoted

    name, *rest = arguments
    if name not in COMMANDS:
        known = ", ".join(COMMANDS)
        raise UserError(
            f"unknown command {quoted(name)}: expected one of {known}{did_you_mean(name, COMMANDS)}"
        )
    module_name, _, function = COMMANDS[name].function_path.partition(":")
    module: Any = importlib.import_module(f"zerolab.cli.{module_name}")
    if name in _GROUPS:
        command: tuple[Callable[..., None], str, list[str]] = module.split_subcommand(rest)
        return command
    return getattr(module, function), name, rest


def _run_reporting_errors(arguments: Sequence[str]) -> int:
    from zerolab.cli.process import (
        INTERRUPTED_EXIT_CODE,
        discard_standard_output,
        print_warnings_as_lines,
        report_interruption,
    )
    from zerolab.core.errors import UserError, is_memory_error, one_line

    try:
        try:
            with print_warnings_as_lines():
                _run(arguments)
        finally:
            sys.stdout.flush()
    except UserError as error:
        return _report(str(error), error.exit_code)
    except KeyboardInterrupt as interruption:
        report_interruption(interruption)
        return INTERRUPTED_EXIT_CODE
    except BrokenPipeError:
        discard_standard_output()  # the reader closed the pipe
    except OSError as error:
        if error.errno in _OUTPUT_LOST and error.filename is None:
            discard_standard_output()
            return _report(f"cannot write the output: {error.strerror}")
        return _report(_describe(error))
    except (MemoryError, RuntimeError) as error:
        if not is_memory_error(error):
            raise
        return _report(f"not enough memory: {one_line(error) or 'try smaller settings'}")
    return 0


def _report(message: str, exit_code: int = USAGE_ERROR_EXIT_CODE) -> int:
    from zerolab.cli.process import terminal_width, wrap_line
    from zerolab.core.errors import escape_unprintable

    width = terminal_width(sys.stderr) if sys.stderr.isatty() else None
    for line in message.strip("\n").split("\n"):
        shortened = _LONG_WORD.sub(r"\1...", line)
        with suppress(OSError):  # the message is lost, but not the exit code
            print(wrap_line(f"zerolab: {escape_unprintable(shortened)}", width), file=sys.stderr)
    return exit_code


def _describe(error: OSError) -> str:
    from zerolab.core.errors import one_line, quoted

    reason = one_line(error.strerror or error)
    return reason if error.filename is None else f"{quoted(str(error.filename))}: {reason}"


def _run(arguments: Sequence[str]) -> None:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_help())
    elif arguments[0] in ("-V", "--version"):
        print(f"zerolab {__version__}")
    else:
        from zerolab.cli.parse import call_command

        call_command(*find_command(arguments))


def _help() -> str:
    from zerolab.cli.output import wrap_list_entry, wrap_paragraph

    width = max(map(len, COMMANDS))
    lines = ["usage: zerolab COMMAND ...", "", "A laboratory for AlphaZero-like self-play.", ""]
    lines += [
        wrap_list_entry(f"  {name:{width}}  {command.help}") for name, command in COMMANDS.items()
    ]
    return "\n".join([*lines, "", *map(wrap_paragraph, _HELP_END)])


if __name__ == "__main__":
    sys.exit(main())
