"""`zerolab puzzles`: a file of puzzles, which the page Puzzles can show."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import tyro

from zerolab.agents.specs import parse_agents
from zerolab.cli.output import say
from zerolab.cli.progress import progress_bar
from zerolab.core.errors import UserError, quoted
from zerolab.core.files import check_output_path
from zerolab.evaluation.puzzles import (
    BASELINES,
    JUDGE,
    Collection,
    Puzzle,
    make_puzzle,
    measure,
    random_positions,
    write_puzzles,
)
from zerolab.oracles.oracle import NotSolvedError, Oracle
from zerolab.oracles.solver import SolverBudget, oracle_for
from zerolab.rules.catalogue import game_name, parse_game
from zerolab.rules.position import Position

_MOST_PUZZLES = 10_000
_TRIES_PER_PUZZLE = 200
_MOST_SEED = 1 << 63
_SAVE_SECONDS = 10.0
"""Minimum time between two writes before the end."""


def puzzles(
    game: tyro.conf.Positional[str],
    *,
    count: int,
    output: Path,
    agents: tuple[str, ...] = (),
    seconds: float = 2.0,
    seed: int = 0,
) -> None:
    """Write puzzles: positions with one winning move, or one move that holds the draw.

    The positions come from random games, and the exact solver proves the answers. The grade is the
    share of agents that miss the answer. Each line of the file is a JSON object with the game, the
    moves to the position, the answer, the score of each move, and the grade. Ctrl-C keeps the
    puzzles that are graded so far.

    Examples:
      zerolab puzzles connect_four:5x5 --count 20 --output puzzles.jsonl
      zerolab puzzles othello:6x6 --count 10 --output runs/puzzles/six.jsonl --agents runs/demo

    Args:
        game: Game, such as connect_four:5x5.
        count: Number of puzzles; at most half of them are easy by an estimate before grading.
        output: File to write; the page Puzzles reads runs/puzzles/*.jsonl.
        agents: Agents that grade the puzzles, besides random moves and MCTS.
        seconds: Time limit for solving a position; positions not solved in time are skipped.
        seed: Seed of the random games.
    """
    _check(count, seconds, seed)
    check_output_path(output)
    parsed_game = parse_game(game)
    name = game_name(parsed_game)
    graders = parse_agents([*BASELINES, *agents], parsed_game)
    (judge,) = parse_agents([JUDGE], parsed_game)
    oracle = oracle_for(parsed_game, SolverBudget(seconds=seconds))
    candidates = islice(random_positions(parsed_game, seed), _TRIES_PER_PUZZLE * count)
    measured: list[Puzzle] = []
    saved = time.monotonic()
    with progress_bar(f"puzzles of {name}", count, "puzzles") as update:
        try:
            for puzzle in _found(candidates, count, oracle):
                measured.append(measure(puzzle, graders, judge))
                update(len(measured), "")
                if time.monotonic() - saved > _SAVE_SECONDS:
                    write_puzzles(output, measured)
                    saved = time.monotonic()
        finally:
            if measured:
                write_puzzles(output, measured)
    if not measured:
        raise UserError(
            f"no puzzles of {name} found: expected a smaller game, or more than {seconds} --seconds"
        )
    say(f"{output}: {len(measured)} puzzles of {name}")
    if len(measured) < count:
        say(f"only {len(measured)} of {count} found in {_TRIES_PER_PUZZLE * count} random games")


def _found(candidates: Iterable[Position], count: int, oracle: Oracle) -> Iterator[Puzzle]:
    """Yield up to `count` puzzles among new positions that can be solved in time."""
    collection = Collection(count)
    for position in candidates:
        if not collection.is_new(position):
            continue
        try:
            puzzle = make_puzzle(position, oracle)
        except NotSolvedError:
            continue
        if puzzle is not None and collection.add(puzzle):
            yield puzzle
        if collection.is_complete:
            return


def _check(count: int, seconds: float, seed: int) -> None:
    if not 1 <= count <= _MOST_PUZZLES:
        raise UserError(f"count = {quoted(count)}: expected at least 1 and at most {_MOST_PUZZLES}")
    if not 0 < seconds < float("inf"):
        raise UserError(f"seconds = {seconds}: expected more than 0")
    if not 0 <= seed < _MOST_SEED:
        raise UserError(f"seed = {quoted(seed)}: expected at least 0 and less than 2**63")
