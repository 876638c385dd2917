"""`zerolab solve` and `zerolab puzzles`: exact values of positions."""

from __future__ import annotations

import json as json_format
import re
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from time import perf_counter

import numpy as np
import tyro
from rich.status import Status

from zerolab.agents.specs import parse_agents
from zerolab.cli.output import Console, print_lines
from zerolab.cli.progress import PLAIN_INTERVAL_SECONDS, progress_bar
from zerolab.core.errors import UserError, quoted
from zerolab.core.files import check_output_path
from zerolab.evaluation.puzzles import (
    BASELINE_GRADER_SPECS,
    LOOK_ALIKE_JUDGE_SPEC,
    Puzzle,
    PuzzleCollection,
    grade_puzzle,
    make_puzzle,
    random_positions,
    write_puzzles,
)
from zerolab.oracles.oracle import NotSolvedError, Oracle
from zerolab.oracles.solver import (
    DEFAULT_TABLE_MIB,
    UNLIMITED_BUDGET,
    Solution,
    SolverBudget,
    SolverProgress,
    is_solved_by_bitbully,
    oracle_for,
    solve_position,
)
from zerolab.report.table import Column, Table
from zerolab.report.text import print_table
from zerolab.rules import compiled_rules
from zerolab.rules.catalogue import board_drawing, game_name, notation_of, parse_game
from zerolab.rules.encoding import action_layout
from zerolab.rules.position import Position
from zerolab.rules.rules import UNKNOWN_EMPTY_COUNT, score_is_distance

_MAX_MEMORY = 1 << 20


def solve(
    game: tyro.conf.Positional[str],
    *,
    moves: str = "",
    nodes: int | None = None,
    seconds: float | None = None,
    memory: int = DEFAULT_TABLE_MIB,
    generic: bool = False,
    json: bool = False,
) -> None:
    """Find the value of every legal move for the side to move under perfect play.

    In Othello, values are disc differences. In other games, a draw has the value 0. The value of a
    win is one plus half the number of cells left empty at the end, rounded down; faster wins
    therefore have higher values. Losses have the corresponding negative values.

    Examples:
      zerolab solve connect_four:5x5 --moves 2,2,3
      zerolab solve othello:6x6 --moves c2,b2,b3 --seconds 60
      zerolab solve gobang:5x5:4 --json

    Args:
        game: Game, such as othello:6x6 or connect_four:5x5.
        moves: Moves that lead to the position, separated by commas or spaces.
        nodes: Maximum number of positions to search; not for BitBully.
        seconds: Time limit for the search in seconds; not for BitBully.
        memory: Size of the transposition table in MiB; not for BitBully.
        generic: Use the built-in solver instead of BitBully for connect_four:6x7.
        json: Print {"value": v, "moves": {"c2": v, ...}, ...}.
    """
    _check_limits(nodes, seconds, memory)
    position = Position.start(game)
    for move in re.split(r"\s*,\s*|\s+", moves.strip()) if moves.strip() else []:
        position = position.play(move)
    if is_solved_by_bitbully(position.game, generic):
        defaults = {"nodes": None, "seconds": None, "memory": DEFAULT_TABLE_MIB}
        given = {"nodes": nodes, "seconds": seconds, "memory": memory}
        unused = [name for name, default in defaults.items() if given[name] != default]
        if unused:
            raise UserError(f"--{unused[0]} has no effect with BitBully: expected --generic too")
    budget = SolverBudget(nodes, seconds)
    if budget == UNLIMITED_BUDGET and (warning := _hours_warning(position, generic)):
        print_lines(f"zerolab: {warning}", error=True)
    with Console(stderr=True).status(f"solving {game}") as status:
        solution = solve_position(
            position, budget, memory_mib=memory, generic=generic,
            report=_reporter(game_name(position.game), status),
        )  # fmt: skip
    if json:
        print(json_format.dumps(solution.as_dict()))
    else:
        _show(solution, Console())


def _check_limits(nodes: int | None, seconds: float | None, memory: int) -> None:
    if nodes is not None and not 1 <= nodes < 1 << 63:
        raise UserError(f"nodes = {quoted(nodes)}: expected at least 1 and less than 2**63")
    if seconds is not None:
        _check_seconds(seconds)
    if not 1 <= memory <= _MAX_MEMORY:
        raise UserError(
            f"memory = {quoted(memory)}: expected at least 1 and at most {_MAX_MEMORY} MiB"
        )


def _check_seconds(seconds: float) -> None:
    if not 0 < seconds < float("inf"):
        raise UserError(f"seconds = {seconds}: expected a finite number of seconds, more than 0")


_POSITIONS_PER_SECOND = 1e6
_GROWTH = {"columns": 1.745}
"""Factor by which each empty cell multiplies the number of positions to search, keyed by the
layout's `places`. Connect Four took 1.0 million positions with 25 empty cells and 18 million with
30."""
_USUAL_GROWTH = 2.0
_LONG_SECONDS = 1800
_DAY = 86_400.0


def _hours_warning(position: Position, generic: bool) -> str:
    """Return a warning if, judging by the empty cells, solving may take hours; otherwise ""."""
    game = position.game
    empties = compiled_rules.empty_count(game, position.state)
    is_fast = is_solved_by_bitbully(game, generic)
    if is_fast or empties == UNKNOWN_EMPTY_COUNT or position.outcome is not None:
        return ""
    try:
        growth = _GROWTH.get(action_layout(game).places, _USUAL_GROWTH)
    except UserError:  # a plug-in does not define where its actions are
        growth = _USUAL_GROWTH
    positions = growth**empties
    if positions < _LONG_SECONDS * _POSITIONS_PER_SECOND:
        return ""
    return (
        f"{empties} cells are empty, so this may take {_duration(positions)} (perhaps"
        f" {positions:.0e} positions): limit it with --seconds or --nodes, or give more --moves;"
        " Ctrl-C stops it"
    )


def _duration(positions: float) -> str:
    """Return the approximate time for searching `positions` positions, in words."""
    return "hours" if positions < _DAY * _POSITIONS_PER_SECOND else "days or longer"


def _reporter(game: str, status: Status) -> Callable[[SolverProgress], None]:
    """Return a callback that shows a status line in a terminal, and occasional lines elsewhere."""
    last = perf_counter()

    def report(solving: SolverProgress) -> None:
        nonlocal last
        rate = solving.node_count / max(solving.seconds, 1e-9)
        text = (
            f"solving {game}, move {solving.move_index + 1} of {solving.move_count}:"
            f" {solving.node_count:,} positions, {rate:,.0f} per second, {solving.seconds:.0f} s"
        )
        status.update(text)
        if not status.console.is_terminal and perf_counter() - last >= PLAIN_INTERVAL_SECONDS:
            last = perf_counter()
            status.console.print(text)

    return report


def _show(solution: Solution, console: Console) -> None:
    """Print the board, the result under perfect play, and the moves, best first."""
    console.print(solution.position.render())
    verdict = ("draws", "wins", "loses")[int(np.sign(solution.value))]
    mover = "X" if solution.position.first_to_move else "O"
    sign = "+" if solution.value else ""
    console.print(f"\n{mover} {verdict}, value {solution.value:{sign}}")
    ranked = sorted(solution.move_values.items(), key=lambda each: -each[1])
    print_table(console, Table("moves", "", ["move", Column("value", "+")], ranked))
    if values := _values_text(solution.position):
        console.print(values)
    nodes, seconds = solution.node_count, solution.seconds
    if nodes:
        rate = nodes / max(seconds, 1e-9)
        console.print(f"{nodes:,} positions in {seconds:.2f} s, {rate:,.0f} per second")
    else:
        console.print(f"solved in {seconds:.2f} s")


def _values_text(position: Position) -> str:
    """Return a sentence that explains the notation of moves and the values."""
    game = position.game
    moves = f"moves are {notation_of(game).move_examples_text(game)}"
    if score_is_distance(game):
        return f"{moves}; a win is worth 1, plus 1 for every two cells left empty at the end"
    if board_drawing(game).decided_by == "count":
        return f"{moves}; values are disc differences at the end"
    return moves


_MAX_PUZZLES = 10_000
_TRIES_PER_PUZZLE = 200
_SEED_BOUND = 1 << 63
_SAVE_SECONDS = 10.0
"""Minimum number of seconds between saves, except before the final one."""


def puzzles(
    game: tyro.conf.Positional[str],
    *,
    count: int,
    output: Path,
    agents: tuple[str, ...] = (),
    seconds: float = 2.0,
    seed: int = 0,
    overwrite: bool = False,
) -> None:
    """Write puzzles: positions in which only one move wins, or only one move holds the draw.

    The positions come from random games, and the exact solver proves the answers. The grade is the
    share of the agents' tries that miss the answer. Each line of the file is a JSON object with the
    game, the moves to the position, the answer, the score of each move, and the grade. Ctrl-C keeps
    the puzzles graded so far.

    Examples:
      zerolab puzzles connect_four:5x5 --count 20 --output puzzles.jsonl
      zerolab puzzles othello:6x6 --count 10 --output runs/puzzles/six.jsonl --agents runs/demo

    Args:
        game: Game, such as connect_four:5x5.
        count: Number of puzzles, of which at most half (rounded up) are easy by estimated grades.
        output: New file to write, ending in .jsonl; the Puzzles page reads runs/puzzles/*.jsonl.
        agents: Agents that grade the puzzles, in addition to random moves and MCTS.
        seconds: Time limit for solving a position; positions not solved in time are skipped.
        seed: Seed of the random games.
        overwrite: Replace an existing file.
    """
    _check(count, seconds, seed)
    check_output_path(output)
    if output.suffix != ".jsonl":
        raise UserError(f"--output {quoted(output)}: expected a name that ends in .jsonl")
    if output.exists() and not overwrite:
        raise UserError(f"{quoted(output)} exists: expected a different file, or --overwrite")
    parsed_game = parse_game(game)
    name = game_name(parsed_game)
    graders = parse_agents([*BASELINE_GRADER_SPECS, *agents], parsed_game)
    (judge,) = parse_agents([LOOK_ALIKE_JUDGE_SPEC], parsed_game)
    oracle = oracle_for(parsed_game, SolverBudget(seconds=seconds))
    candidates = islice(random_positions(parsed_game, seed), _TRIES_PER_PUZZLE * count)
    measured: list[Puzzle] = []
    saved = time.monotonic()
    with progress_bar(f"puzzles for {name}", count, "puzzles") as update:
        try:
            for puzzle in _found(candidates, count, oracle):
                measured.append(grade_puzzle(puzzle, graders, judge))
                update(len(measured), "")
                if time.monotonic() - saved > _SAVE_SECONDS:
                    write_puzzles(output, measured)
                    saved = time.monotonic()
        finally:
            if measured:
                write_puzzles(output, measured)
    if not measured:
        raise UserError(
            f"found no puzzles for {name}: expected a smaller board, or more than {seconds} seconds"
        )
    print_lines(
        f"{output}: {len(measured)} {'puzzle' if len(measured) == 1 else 'puzzles'} for {name}"
    )
    if len(measured) < count:
        print_lines(
            f"only {len(measured)} of {count} found in {_TRIES_PER_PUZZLE * count} random games"
        )


def _found(candidates: Iterable[Position], count: int, oracle: Oracle) -> Iterator[Puzzle]:
    """Yield up to `count` puzzles from new positions that can be solved in time."""
    collection = PuzzleCollection(count)
    for position in candidates:
        if not collection.mark_seen_if_new(position):
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
    if not 1 <= count <= _MAX_PUZZLES:
        raise UserError(f"count = {quoted(count)}: expected at least 1 and at most {_MAX_PUZZLES}")
    _check_seconds(seconds)
    if not 0 <= seed < _SEED_BOUND:
        raise UserError(f"seed = {quoted(seed)}: expected at least 0 and less than 2**63")
