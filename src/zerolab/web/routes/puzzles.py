"""Puzzles: a list for each game, single puzzles without their answers, and verdicts on moves."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field

from zerolab.core.errors import UserError, quoted
from zerolab.evaluation.puzzles import Difficulty, Puzzle, puzzle_position
from zerolab.oracles.oracle import NotSolvedError
from zerolab.rules.catalogue import game_name, parse_game
from zerolab.rules.position import Position
from zerolab.web.laboratory import Lab
from zerolab.web.puzzle_maker import PUZZLES_PER_GAME, GamePuzzles, PuzzleMakingState
from zerolab.web.requests import RequestModel, client_of
from zerolab.web.routes.positions import (
    MoveName,
    PositionResponse,
    position_response,
    position_responses,
)

router = APIRouter(tags=["puzzles"], prefix="/puzzles")

_REPLY_SECONDS = 5.0
_KEY = r"^[0-9a-f]{16}$"

_Game = Annotated[str, Query(max_length=60)]
PuzzleGoal = Literal["win", "draw"]


class PuzzleSummary(BaseModel):
    """Puzzle in a list."""

    key: str
    """Identifier of the puzzle."""
    grade: float
    """Difficulty from 0 to 1: the share of agents' tries that miss the answer, or an estimate."""
    level: Difficulty
    is_grade_measured: bool
    """True if the grade is measured, False if it is estimated."""


class PuzzleList(BaseModel):
    """Puzzles made so far for a game, and the state of the work on them."""

    game: str
    state: PuzzleMakingState
    problem: str
    """Reason why no more puzzles are made; empty if there is none."""
    tried_position_count: int
    """Number of positions tried since the server started."""
    planned_puzzle_count: int
    """Number of puzzles that the server makes for each game."""
    puzzles: list[PuzzleSummary]


class PuzzleResponse(BaseModel):
    """Puzzle without its answer."""

    summary: PuzzleSummary
    goal: PuzzleGoal
    """Result that only one move achieves: a win or a draw."""
    miss_shares: dict[str, float]
    """Share of tries in which each agent misses the answer; empty until measured."""
    position: PositionResponse


class AnswerRequest(RequestModel):
    """Move to try in a puzzle."""

    game: str = Field(max_length=60)
    key: str = Field(pattern=_KEY)
    """Identifier of the puzzle."""
    move: MoveName


class AnswerResponse(BaseModel):
    """Verdict on a move, with the positions that explain it."""

    is_right: bool
    verdict: str
    """Sentence about the move."""
    puzzle_index: int
    """Index of the puzzle's position in `positions`."""
    positions: list[PositionResponse]
    """All positions of the game. A right answer is followed by perfect play to the end, a wrong one
    by the opponent's best reply."""


@router.get("")
async def puzzle_list(lab: Lab, game: _Game, connection: Request) -> PuzzleList:
    """List the puzzles made so far for a game; the server makes more in the background."""
    game_puzzles = await _puzzles_of(lab, connection, game)
    return PuzzleList(
        game=game_name(game_puzzles.game),
        state=game_puzzles.state,
        problem=game_puzzles.problem,
        tried_position_count=game_puzzles.tried,
        planned_puzzle_count=PUZZLES_PER_GAME,
        puzzles=[_summary(each) for each in game_puzzles.puzzles.values()],
    )


@router.get("/one")
async def one_puzzle(
    lab: Lab, game: _Game, key: Annotated[str, Query(pattern=_KEY)], connection: Request
) -> PuzzleResponse:
    """Return a puzzle without its answer."""
    puzzle = (await _puzzles_of(lab, connection, game)).find(key)
    position = await asyncio.to_thread(puzzle_position, puzzle)
    return PuzzleResponse(
        summary=_summary(puzzle),
        goal="win" if puzzle.is_win else "draw",
        miss_shares=dict(puzzle.misses),
        position=position_response(position),
    )


@router.post("/answer")
async def check_answer(lab: Lab, request: AnswerRequest, connection: Request) -> AnswerResponse:
    """Return whether a move is the answer, with the line of perfect play or the refutation."""
    puzzle = (await _puzzles_of(lab, connection, request.game)).find(request.key)
    if request.move not in puzzle.scores:
        raise UserError(
            f"{quoted(request.move)} is not a legal move here: expected one of"
            f" {', '.join(puzzle.scores)}"
        )
    moves = puzzle.line
    if request.move != puzzle.answer:
        after = await asyncio.to_thread(puzzle_position, puzzle)
        after = after.play(after.parse_action(request.move))
        moves = (request.move, *await _best_reply(lab, connection, after))
    return AnswerResponse(
        is_right=request.move == puzzle.answer,
        verdict=_verdict(puzzle, request.move, moves[1:]),
        puzzle_index=len(puzzle.moves),
        positions=await asyncio.to_thread(_positions, puzzle, moves),
    )


async def _puzzles_of(lab: Lab, connection: Request, game: str) -> GamePuzzles:
    parsed_game = await asyncio.to_thread(parse_game, game)
    return await lab.puzzles.puzzles_for(client_of(connection), parsed_game)


async def _best_reply(lab: Lab, connection: Request, position: Position) -> list[str]:
    """Return the opponent's best move; an empty list if the game is over or not solved in time."""
    if position.outcome is None:
        with suppress(NotSolvedError):
            scores = await lab.solver.solve(client_of(connection), position, _REPLY_SECONDS)
            return [max(scores, key=scores.__getitem__)]
    return []


def _summary(puzzle: Puzzle) -> PuzzleSummary:
    return PuzzleSummary(
        key=puzzle.key,
        grade=puzzle.grade,
        level=puzzle.level,
        is_grade_measured=bool(puzzle.misses),
    )


def _positions(puzzle: Puzzle, moves: tuple[str, ...]) -> list[PositionResponse]:
    position = puzzle_position(puzzle)
    for move in moves:
        position = position.play(position.parse_action(move))
    return position_responses(position)


def _verdict(puzzle: Puzzle, move: str, replies: tuple[str, ...]) -> str:
    if move == puzzle.answer:
        return f"Right: only {move} {'wins' if puzzle.is_win else 'holds the draw'}."
    result = "loses" if puzzle.scores[move] < 0 else "only draws"
    reply = f" The best reply is {replies[0]}." if replies else ""
    return f"Wrong: {move} {result}.{reply}"
