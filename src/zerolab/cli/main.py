"""The `zerolab` command: find the subcommand, run it, turn errors into one line.

Subcommands are imported only when they are called, and import what takes long to load only when
they run, so that help and messages are there at once. This module imports nearly nothing: before
`main` takes care of signals, Python would answer Ctrl-C with a traceback.
"""

from __future__ import annotations

import errno
import importlib
import re
import sys
from collections.abc import Sequence

from zerolab.core import __version__

USAGE_ERROR = 2

_LONG_WORD = re.compile(r"(\S{100})\S{100,}")  # what a message quotes whole
_OUTPUT_LOST = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)

COMMANDS = {
    "train": "train an agent, or resume a run that was stopped",
    "play": "play in the terminal against a run or another player",
    "serve": "open the laboratory in a browser: play, analyse, replay, watch, compare",
    "match": "let two players play a match, with a sequential test if wanted",
    "tournament": "let everyone play everyone, and rate them",
    "league": "let settings of the search evolve by playing each other",
    "gtp": "run a player as an engine of the Go Text Protocol",
    "solve": "find the exact value of every move in a position",
    "dataset": "collect solved positions on which to evaluate players",
    "fit": "train a network on solved positions instead of games",
    "evaluate": "measure a player: exact accuracy, games, perfect opponents",
    "tune": "search for good settings, by trial runs that Optuna proposes",
    "study": "reproduce what a paper measured, beside its published numbers",
    "report": "tables, figures and claims of a study as one page",
    "rate": "rate players by games from PGN files or games.sqlite: Bayesian Elo",
    "export": "write a network into one file: an agent to share, or an ONNX model",
    "runs": "list runs and their progress",
    "cost": "what runs have cost: moves, evaluations, operations, hours",
    "diversity": "count the distinct positions that self-play has seen",
    "plot": "plot the training curves of runs",
    "tensorboard": "export a run's metrics to TensorBoard",
    "settings": "list the settings of a run: bounds, defaults, papers' values",
    "games": "list the games, their sizes, actions and symmetries",
    "perft": "count move sequences, to check the rules of a game",
    "bench": "measure speed beside the machine's own limit",
}
"""The help of each subcommand; its module in zerolab.cli has its name, and a function `run`."""

_EXAMPLES = """examples:
  zerolab train connect_four:6x7 --preset mini --run runs/demo
  zerolab train othello:6x6 --preset small --set search.simulations=50
  zerolab play runs/demo
  zerolab perft othello:6x6 8 --json

`zerolab COMMAND --help` explains a command."""


_MODULES = {
    "fit": "train",
    "report": "study",
    "perft": "games",
    "match": "tournament",
    "rate": "tournament",
    "plot": "runs",
    "diversity": "runs",
    "tensorboard": "runs",
    "dataset": "solve",
    "gtp": "play",
    "league": "tune",
}
"""Modules of commands that share one with another command."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code: 0, 2 for a user's mistake, 130 after Ctrl-C.

    Without `arguments`, they are those of this process, whose signals and standard streams are
    then taken care of, too.
    """
    if arguments is not None:
        return _run_reporting_errors(arguments)
    from zerolab.cli.process import prepare_streams, run_interruptibly

    prepare_streams()
    return run_interruptibly(lambda: _run_reporting_errors(sys.argv[1:]))


def _run_reporting_errors(arguments: Sequence[str]) -> int:
    from zerolab.cli.process import (
        INTERRUPTED,
        drop_output,
        report_interruption,
        warnings_in_one_line,
    )
    from zerolab.core.errors import UserError, one_line

    try:
        try:
            with warnings_in_one_line():
                _run(arguments)
        finally:
            sys.stdout.flush()
    except UserError as error:
        return _report(str(error))
    except KeyboardInterrupt as interruption:
        report_interruption(interruption)
        return INTERRUPTED
    except BrokenPipeError:
        drop_output()  # whoever was reading it has left
    except OSError as error:
        if error.errno in _OUTPUT_LOST and error.filename is None:
            drop_output()
            return _report(f"cannot write the output: {error.strerror}")
        return _report(_describe(error))
    except MemoryError as error:
        return _report(f"not enough memory: {one_line(error) or 'ask for less'}")
    return 0


def _report(message: str) -> int:
    from zerolab.core.errors import printable

    for line in message.strip("\n").split("\n"):
        shortened = _LONG_WORD.sub(r"\1...", line)
        print(f"zerolab: {printable(shortened)}", file=sys.stderr)
    return USAGE_ERROR


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
        _require_command(arguments[0])
        name = arguments[0]
        module = importlib.import_module(f"zerolab.cli.{_MODULES.get(name, name)}")
        getattr(module, f"run_{name}")(list(arguments[1:]))


def _require_command(name: str) -> None:
    from zerolab.core.errors import UserError, nearest, quoted

    if name not in COMMANDS:
        known = ", ".join(COMMANDS)
        raise UserError(
            f"unknown command {quoted(name)}: expected one of {known}{nearest(name, COMMANDS)}"
        )


def _help() -> str:
    width = max(map(len, COMMANDS))
    lines = ["usage: zerolab COMMAND ...", "", "A laboratory for AlphaZero-like self-play.", ""]
    lines += [f"  {name:{width}}  {text}" for name, text in COMMANDS.items()]
    return "\n".join([*lines, "", _EXAMPLES])


if __name__ == "__main__":
    sys.exit(main())
