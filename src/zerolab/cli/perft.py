"""`zerolab perft`: count move sequences."""

from __future__ import annotations

import json as json_format
import time
from collections.abc import Sequence

import tyro

from zerolab.cli.output import say
from zerolab.cli.parse import call
from zerolab.core.errors import UserError
from zerolab.rules.catalogue import parse_game
from zerolab.rules.perft import perft

_DEEPEST = 1000


def count(
    game: tyro.conf.Positional[str], depth: tyro.conf.Positional[int], *, json: bool = False
) -> None:
    """Count the sequences of exactly 1..DEPTH plies, a pass being a ply, and the games they end.

    Example: zerolab perft othello:6x6 8 --json

    Args:
        game: What to play, such as othello:6x6 or connect_four:6x7.
        depth: Plies, at least 1.
        json: Print [{"depth": d, "leaves": n, "ended": m}, ...].
    """
    if not 1 <= depth <= _DEEPEST:
        raise UserError(f"depth = {depth}: expected at least 1 and at most {_DEEPEST}")
    began = time.perf_counter()
    counts = []
    for each in perft(parse_game(game), depth):
        counts.append(each._asdict())
        if not json:
            seconds = time.perf_counter() - began
            say(
                f"{each.depth:3} {each.leaves:15,} sequences, {each.ended:,} ended, {seconds:.2f} s"
            )
    if json:
        print(json_format.dumps(counts))


def run(arguments: Sequence[str]) -> None:
    """Parse the arguments and count."""
    call(count, "perft", arguments)
