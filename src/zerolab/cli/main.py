"""The `zerolab` command: find the subcommand, run it, turn errors into one line.

Subcommands are imported only when they are called, so that help is there at once.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
from collections.abc import Sequence
from typing import NamedTuple

from zerolab import __version__
from zerolab.core.errors import UserError, nearest

USAGE_ERROR = 2
INTERRUPTED = 130

_OUTPUT_LOST = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


class Command(NamedTuple):
    """A subcommand: its module under zerolab.cli, whose `run` takes the arguments, and its help."""

    module: str
    help: str


COMMANDS = {
    "train": Command("train", "train an agent, or go on with a run that was stopped"),
    "play": Command("play", "play in the terminal against a run or another player"),
    "match": Command("match", "let two players play, with a sequential test if wanted"),
    "tournament": Command("tournament", "let everybody play everybody, and rate them"),
    "gtp": Command("gtp", "let a player answer the Go Text Protocol, for other programs"),
    "solve": Command("solve", "find the exact value of every move in a position"),
    "dataset": Command("dataset", "collect solved positions to evaluate players on"),
    "evaluate": Command("evaluate", "measure a player: exact accuracy, games, perfect opponents"),
    "study": Command("study", "reproduce what a paper measured, beside its published numbers"),
    "rate": Command("rate", "rate players by games from PGN files or games.sqlite: Bayesian Elo"),
    "runs": Command("runs", "list runs and how far they have come"),
    "plot": Command("plot", "draw the training curves of a run"),
    "tensorboard": Command("tensorboard", "write a run's metrics for TensorBoard"),
    "games": Command("games", "list the games, their sizes, actions and symmetries"),
    "perft": Command("perft", "count move sequences, to check the rules of a game"),
    "bench": Command("bench", "measure speed beside the machine's own limit"),
}

_EXAMPLES = """examples:
  zerolab train connect_four:6x7 --preset mini --run runs/demo
  zerolab train othello:6x6 --preset small --set search.simulations=50
  zerolab play runs/demo
  zerolab perft othello:6x6 8 --json

`zerolab COMMAND --help` explains a command."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code: 0, 2 for a user's mistake, 130 if interrupted."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        try:
            return _answer(words)
        finally:
            if sys.stdout is not None:  # it is None where the shell has closed it
                sys.stdout.flush()
    except UserError as error:
        for line in str(error).splitlines():
            print(f"zerolab: {line}", file=sys.stderr)
        return USAGE_ERROR
    except KeyboardInterrupt:
        print("zerolab: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        _drop_output()  # whoever read it has gone
        return 0
    except OSError as error:
        if error.errno not in _OUTPUT_LOST:
            raise
        _drop_output()
        print(f"zerolab: cannot write the output: {error.strerror}", file=sys.stderr)
        return USAGE_ERROR


def _answer(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(_help())
        return 0
    if words[0] in ("-V", "--version"):
        print(f"zerolab {__version__}")
        return 0
    return _run(words[0], words[1:])


def _drop_output() -> None:
    """Let nothing more be written, not even when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(name: str, arguments: list[str]) -> int:
    if name not in COMMANDS:
        known = ", ".join(COMMANDS)
        raise UserError(
            f'unknown command "{name}": expected one of {known}{nearest(name, COMMANDS)}'
        )
    module = importlib.import_module(f"zerolab.cli.{COMMANDS[name].module}")
    try:
        module.run(arguments)
    except MemoryError as error:
        raise UserError(f"not enough memory: {error or 'ask for less'}") from error
    return 0


def _help() -> str:
    width = max(map(len, COMMANDS))
    lines = ["usage: zerolab COMMAND ...", "", "A laboratory for AlphaZero-like self-play.", ""]
    lines += [f"  {name:{width}}  {command.help}" for name, command in COMMANDS.items()]
    return "\n".join([*lines, "", _EXAMPLES])


if __name__ == "__main__":
    sys.exit(main())
