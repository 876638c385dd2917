"""Puzzles: solved positions in which exactly one move has the best result, graded by difficulty.

The answer is the only move that wins or, where no move wins, the only move that holds the draw.
Lost positions and positions with a single legal move are not puzzles.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from zerolab.agents.agent import Agent
from zerolab.agents.analysis import Analysis, analyse, analyse_with_seeds
from zerolab.core import streams
from zerolab.core.config import Settings, validate
from zerolab.core.errors import UserError, quoted
from zerolab.core.files import read_text, write_text
from zerolab.oracles.oracle import NotSolvedError, Oracle
from zerolab.play.pairings import random_opening
from zerolab.rules import compiled_rules
from zerolab.rules.catalogue import game_name
from zerolab.rules.position import Position
from zerolab.rules.rules import Game

TRIES_PER_AGENT = 4
"""Number of moves, from different random streams, on which an agent's share of misses is based."""
LOOK_ALIKE_JUDGE_SPEC = "mcts:100"
"""Agent whose search shows how many other moves look as good as the answer."""
BASELINE_GRADER_SPECS = ("random", "mcts:30", "mcts:100", "mcts:1000")
"""Agents whose misses grade every puzzle, in addition to the networks of runs."""
_MAX_LINE = 30
_MAX_MOVES = 1000  # moves in a game, and legal moves in a position
_MAX_NAME = 5000  # characters of an agent spec, which can contain a path
_MAX_FILE = 1 << 24
_EASY, _HARD = 0.25, 0.4  # random moves alone account for up to 0.25
_HALF_ESTIMATE = 4.0  # estimate in `Puzzle.grade` that corresponds to grade 0.5

Difficulty = Literal["easy", "medium", "hard"]
_Move = Annotated[str, Field(max_length=20)]
_Agent = Annotated[str, Field(max_length=_MAX_NAME)]


class Puzzle(Settings):
    """Solved position in which exactly one move has the best result."""

    game: str = Field(max_length=60)
    """Game name, such as othello:6x6."""
    moves: tuple[_Move, ...] = Field(max_length=_MAX_MOVES)
    """Moves from the start of the game to the position."""
    answer: _Move
    """The only move with the best result."""
    scores: Mapping[_Move, int] = Field(max_length=_MAX_MOVES)
    """Exact scores of the legal moves, on the scale of `oracles.oracle.Oracle`."""
    line: tuple[_Move, ...] = Field(max_length=_MAX_LINE)
    """Perfect play from the answer: at most thirty plies, to the end or to an unsolved position."""
    look_alikes: int = Field(default=0, ge=0)
    """Number of other moves that the agent `LOOK_ALIKE_JUDGE_SPEC` visits at least half as often as
    its favourite."""
    misses: Mapping[_Agent, Annotated[float, Field(ge=0, le=1)]] = Field({}, max_length=100)
    """Share of tries in which an agent misses the answer, by agent; empty until measured."""

    @property
    def key(self) -> str:
        """Identifier of the position, 16 hexadecimal digits."""
        text = json.dumps([self.game, *self.moves])
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    @property
    def is_win(self) -> bool:
        """True if the answer wins; False if it holds the draw."""
        return self.scores[self.answer] > 0

    @property
    def grade(self) -> float:
        """Difficulty from 0 to 1: the share of agents' tries that miss the answer, once measured.

        Before that, it is estimated from the length of `line` and the number of look-alikes.
        """
        if self.misses:
            return sum(self.misses.values()) / len(self.misses)
        difficulty = (len(self.line) - 1) / 2 + self.look_alikes
        return difficulty / (difficulty + _HALF_ESTIMATE)

    @property
    def level(self) -> Difficulty:
        """Difficulty in words."""
        return "easy" if self.grade <= _EASY else "medium" if self.grade <= _HARD else "hard"

    def as_dict(self) -> dict[str, object]:
        """Return the fields and the grade for JSON."""
        return {**self.model_dump(mode="json"), "grade": round(self.grade, 4)}


def only_best_move(scores: Mapping[str, int]) -> str | None:
    """Return the only move with the best result, or None if the position is not a puzzle."""
    results = {move: int(np.sign(score)) for move, score in scores.items()}
    best = max(results.values())
    moves = [move for move, result in results.items() if result == best]
    return moves[0] if len(moves) == 1 and best >= 0 and len(scores) > 1 else None


def make_puzzle(position: Position, oracle: Oracle) -> Puzzle | None:
    """Solve an ongoing position; return it as a puzzle, or None if it is not one.

    Raises NotSolvedError if the oracle's budget is exceeded.
    """
    scores = _scores(position, oracle)
    answer = only_best_move(scores)
    if answer is None:
        return None
    line = tuple(perfect_line(position.play(position.parse_action(answer)), oracle))
    moves = tuple(position.action_name(action) for action in position.history)
    return Puzzle(
        game=game_name(position.game), moves=moves, answer=answer, scores=scores,
        line=(answer, *line),
    )  # fmt: skip


class PuzzleCollection:
    """Puzzles collected for a game, without repeated positions.

    At most half of them, rounded up, are easy, judging by their grade when they are added.
    """

    def __init__(self, count: int, puzzles: Iterable[Puzzle] = ()) -> None:
        """Collect `count` puzzles in total, starting with `puzzles`."""
        self.count = count
        self.puzzles = {puzzle.key: puzzle for puzzle in puzzles}
        self._easy = sum(each.level == "easy" for each in self.puzzles.values())
        self._seen = {puzzle_position(each).state.tobytes() for each in self.puzzles.values()}

    @property
    def is_complete(self) -> bool:
        """True if no more puzzles are needed."""
        return len(self.puzzles) >= self.count

    def mark_seen_if_new(self, position: Position) -> bool:
        """Return whether a position is ongoing and has not been seen here; mark it as seen."""
        key = position.state.tobytes()
        if position.outcome is not None or key in self._seen:
            return False
        self._seen.add(key)
        return True

    def add(self, puzzle: Puzzle) -> bool:
        """Add a puzzle unless too many would be easy; return whether it was added."""
        is_easy = puzzle.level == "easy"
        if is_easy and 2 * self._easy >= self.count:
            return False
        self._easy += is_easy
        self.puzzles[puzzle.key] = puzzle
        return True


def perfect_line(position: Position, oracle: Oracle) -> Iterator[str]:
    """Yield the moves of perfect play from a position, until the end or an unsolved position."""
    for _ in range(_MAX_LINE - 1):
        if position.outcome is not None:
            return
        try:
            scores = _scores(position, oracle)
        except NotSolvedError:
            return
        move = max(scores, key=scores.__getitem__)
        yield move
        position = position.play(position.parse_action(move))


def _scores(position: Position, oracle: Oracle) -> dict[str, int]:
    """Return the exact scores of the legal moves by name."""
    values = oracle.action_values(position.state[None])[0]
    return {position.action_name(action): int(values[action]) for action in position.legal_actions}


def random_positions(game: Game, seed: int) -> Iterator[Position]:
    """Yield positions endlessly, one from the second half of each uniformly random game."""
    most_plies = compiled_rules.max_plies(game)
    number = 0
    while True:
        key = np.uint64(streams.stream_key(seed, 0, number, 0, streams.PUZZLE))
        line = random_opening(game, most_plies, key)
        depth = len(line) - int(streams.uniform(key, most_plies) * (len(line) // 2 + 1))
        position = Position.start(game)
        for action in line[:depth]:
            position = position.play(action)
        yield position
        number += 1


def count_look_alikes(analysis: Analysis, answer: str) -> int:
    """Return the number of other moves with at least half the highest visit count."""
    most = max((move.visits or 0 for move in analysis.moves), default=0)
    others = (move for move in analysis.moves if move.name != answer)
    return sum(most > 0 and 2 * (move.visits or 0) >= most for move in others)


def miss_share(chosen: Iterable[str], answer: str) -> float:
    """Return the share of chosen moves that differ from the answer."""
    return float(np.mean([move != answer for move in chosen]))


def grade_puzzle(puzzle: Puzzle, agents: Iterable[Agent], judge: Agent) -> Puzzle:
    """Return a puzzle with the misses of `agents` and the look-alikes of `judge`."""
    position = puzzle_position(puzzle)
    misses = {
        agent.name: miss_share(
            (
                each.chosen_move.name
                for each in analyse_with_seeds(agent, position, range(TRIES_PER_AGENT))
            ),
            puzzle.answer,
        )
        for agent in agents
    }
    similar = count_look_alikes(analyse(judge, position), puzzle.answer)
    return puzzle.model_copy(update={"misses": misses, "look_alikes": similar})


def puzzle_position(puzzle: Puzzle) -> Position:
    """Return the position of a puzzle; raise UserError if its moves are not legal."""
    position = Position.start(puzzle.game)
    for move in puzzle.moves:
        position = position.play(position.parse_action(move))
    return position


def write_puzzles(path: Path, puzzles: Iterable[Puzzle]) -> None:
    """Write puzzles to a file atomically, one JSON object per line."""
    write_text(path, "".join(json.dumps(each.as_dict()) + "\n" for each in puzzles))


def read_puzzles(path: Path) -> list[Puzzle]:
    """Return the puzzles in a file; raise UserError if a line is not a puzzle.

    The file may come from anywhere: only a solver can show that its answers are right.
    """
    puzzles = []
    for number, line in enumerate(read_text(path, _MAX_FILE).splitlines(), start=1):
        source = f"{path}, line {number}"
        try:
            table = json.loads(line)
        except (ValueError, RecursionError):
            raise UserError(f"{source}: {quoted(line)} is not JSON: expected a puzzle") from None
        fields = dict(table) if isinstance(table, dict) else {}
        fields.pop("grade", None)
        puzzles.append(validate(Puzzle, fields, source))
    return puzzles
