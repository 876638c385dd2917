"""Verdicts of the solver and an agent on the moves of a game, sent over a websocket.

The page sends ``{"id": 3, "do": "judge", "position": {...}, "agent": "runs/demo"}`` and receives
messages with the same ``id``, each with the verdict on one move. The last message has ``done`` set.
A new request cancels the previous one; closing the page cancels the current one.

Moves are judged backwards from the end of the game, because late positions are solved fastest. The
agent judges all moves, including those that the solver cannot judge in time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, WebSocket
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from zerolab.core.errors import UserError
from zerolab.oracles.oracle import NotSolvedError
from zerolab.rules.position import Position
from zerolab.web.laboratory import Lab, Laboratory
from zerolab.web.live_search import MAX_SIMULATIONS, SearchRequest
from zerolab.web.requests import (
    Client,
    JsonWebSocket,
    SocketRequest,
    StopRequest,
    client_of,
    error_message,
    invalid_message_response,
)
from zerolab.web.routes.positions import PositionRequest
from zerolab.web.searches import SearchPool
from zerolab.web.solving import MAX_SOLVING_SECONDS, SolverProcess

router = APIRouter()

MoveQuality = Literal["good", "slip", "mistake"]
"""Quality of a move. Judged by exact scores, a mistake changes the result for the worse, for
example from a win to a draw. A slip preserves the result but lowers the score: fewer discs in
Othello, or a slower win or faster loss in other games. Judged by an agent's values, a mistake
lowers the expected outcome by at least `MISTAKE_THRESHOLD` and a slip by at least `SLIP_THRESHOLD`;
the move that the agent would choose is always good."""

MISTAKE_THRESHOLD = 0.5
SLIP_THRESHOLD = 0.25
_MAX_UNSOLVED = 2
"""Number of consecutive unsolved positions after which earlier ones are skipped."""


class JudgeRequest(SocketRequest):
    """Request to judge the moves that led to a position."""

    do: Literal["judge"]
    position: PositionRequest
    given_plies: int = Field(default=0, ge=0, le=10_000)
    """Number of moves at the start that are not judged, because no player chose them."""
    use_solver: bool = True
    """True to judge with the solver."""
    seconds: float = Field(default=3.0, gt=0, le=MAX_SOLVING_SECONDS)
    """Time limit for solving each position, in seconds."""
    agent: str = Field(default="", max_length=400)
    """Agent to judge with, or empty for none."""
    simulations: int | None = Field(default=None, ge=1, le=MAX_SIMULATIONS)
    """Number of simulations per position, which overrides the agent's spec."""


class JudgedMove(BaseModel):
    """Verdict on one move of a game."""

    ply: int
    """Number of the move in the game, starting at 0."""
    move: str
    verdict_source: Literal["exact", "agent"]
    """Source of the verdict: the solver or an agent."""
    value_before: float
    """Value of the position before the move, for the player who makes the move: the exact score of
    a best move, or the agent's expected outcome in [-1, 1]."""
    played_value: float
    """Value of the move that was played, for the same player and on the same scale."""
    best_moves: list[str]
    """All best moves, or the move that the agent would play."""
    verdict: MoveQuality


class UnsolvedPosition(BaseModel):
    """Position that was not solved in time, so there is no exact verdict on the move made in it."""

    ply: int
    """Number of the move made in the position, starting at 0."""
    unsolved_reason: str


_REQUEST: TypeAdapter[JudgeRequest | StopRequest] = TypeAdapter(
    Annotated[JudgeRequest | StopRequest, Field(discriminator="do")]
)


@router.websocket("/judge")
async def judging_socket(websocket: WebSocket, lab: Lab) -> None:
    """Serve one page until it closes."""
    socket = JsonWebSocket(websocket)
    await socket.accept()
    task: asyncio.Task[None] | None = None
    try:
        async for message in socket.messages():
            try:
                request = _REQUEST.validate_python(message)
            except ValidationError as error:
                await socket.send(invalid_message_response(message, error))
                continue
            if task is not None:
                task.cancel()
            work = _Judging(socket, lab, client_of(websocket), request.id)
            task = asyncio.create_task(work.run(request))
    finally:
        if task is not None:
            task.cancel()


class _Judging:
    """Task that answers one request."""

    def __init__(self, socket: JsonWebSocket, lab: Laboratory, client: Client, number: int) -> None:
        self._socket = socket
        self._lab = lab
        self._client = client
        self._header: dict[str, Any] = {"id": number, "done": False}

    async def run(self, request: JudgeRequest | StopRequest) -> None:
        """Judge the moves, report errors, and send the last message."""
        try:
            if isinstance(request, JudgeRequest):
                await self._judge(request)
        except Exception as error:  # any error is reported to the page
            await self._socket.send({**self._header, "error": error_message(error)})
        await self._socket.send({**self._header, "done": True})

    async def _judge(self, request: JudgeRequest) -> None:
        end = await asyncio.to_thread(request.position.position)
        if not end.history:
            raise UserError("the game has no moves to judge yet")
        async with asyncio.TaskGroup() as group:
            if request.use_solver:
                verdicts = judge_exactly(
                    self._lab.solver, self._client, end, request.seconds, request.given_plies
                )
                group.create_task(self._send("exact", verdicts))
            if request.agent:
                group.create_task(self._send("agent", self._by_agent(request, end)))

    async def _by_agent(self, request: JudgeRequest, end: Position) -> AsyncIterator[JudgedMove]:
        search = SearchRequest(request.agent, end, self._lab.folders, request.simulations)
        async for each in judge_by_agent(
            self._lab.search_pool, self._client, search, request.given_plies
        ):
            yield each

    async def _send(
        self, judge: str, verdicts: AsyncIterator[JudgedMove | UnsolvedPosition]
    ) -> None:
        """Send the verdicts of one judge. Errors of one judge do not affect the other."""
        try:
            async for each in verdicts:
                key = "judged" if isinstance(each, JudgedMove) else "unsolved"
                await self._socket.send({**self._header, key: each.model_dump(mode="json")})
        except Exception as error:  # any error is reported to the page
            message = error_message(error)
            await self._socket.send({**self._header, "judge": judge, "error": message})


async def judge_exactly(
    solver: SolverProcess, client: Client, end: Position, seconds: float, given_plies: int = 0
) -> AsyncIterator[JudgedMove | UnsolvedPosition]:
    """Yield exact verdicts on the moves after the given plies of a game, last move first.

    `end` is the final position, and `seconds` is the time limit for each position. Earlier
    positions take longer to solve, so they are skipped once several consecutive positions have not
    been solved in time.
    """
    unsolved = 0
    for ply, at, move in _moves_backwards(end, given_plies):
        try:
            scores = await solver.solve(client, at, seconds)
        except NotSolvedError as error:
            yield UnsolvedPosition(ply=ply, unsolved_reason=str(error))
            unsolved += 1
            if unsolved == _MAX_UNSOLVED:
                return
            continue
        unsolved = 0
        value_before, played_value = max(scores.values()), scores[move]
        best_moves = [name for name, score in scores.items() if score == value_before]
        yield JudgedMove(
            ply=ply, move=move, verdict_source="exact", value_before=value_before,
            played_value=played_value, best_moves=best_moves,
            verdict=exact_verdict(value_before, played_value),
        )  # fmt: skip


def exact_verdict(best: int, played: int) -> MoveQuality:
    """Return the verdict on a move from the exact scores of the best move and the one played."""
    if _sign(played) < _sign(best):
        return "mistake"
    return "slip" if played < best else "good"


async def judge_by_agent(
    search_pool: SearchPool, client: Client, search: SearchRequest, given_plies: int = 0
) -> AsyncIterator[JudgedMove]:
    """Yield an agent's verdicts on the moves after the given plies of a game, last move first.

    The value of a move is the expected outcome according to the agent's search of the position
    after the move. Raises UserError if the agent does not provide expected outcomes.
    """
    end = search.position
    result = end.outcome
    after = None if result is None else float(result)
    if after is None:
        after = (await _expected(search_pool, client, search))[0]
    for ply, at, move in _moves_backwards(end, given_plies):
        value, choice = await _expected(search_pool, client, search._replace(position=at))
        played = -after  # `after` is from the opponent's perspective
        yield JudgedMove(
            ply=ply, move=move, verdict_source="agent", value_before=value, played_value=played,
            best_moves=[choice],
            verdict="good" if choice == move else _agent_verdict(value - played),
        )  # fmt: skip
        after = value


async def _expected(
    search_pool: SearchPool, client: Client, search: SearchRequest
) -> tuple[float, str]:
    """Return an agent's expected outcome and move in a position."""
    analysis = await search_pool.analyse(client, search, is_low_priority=True)
    if analysis.value is None or not -1.0 <= analysis.value <= 1.0:
        raise UserError(
            f"{analysis.agent_name} does not estimate outcomes: expected a run, or MCTS such as"
            " mcts:1000"
        )
    return analysis.value, analysis.chosen_move.name


def _agent_verdict(loss: float) -> MoveQuality:
    return "mistake" if loss >= MISTAKE_THRESHOLD else "slip" if loss >= SLIP_THRESHOLD else "good"


def _moves_backwards(end: Position, given_plies: int) -> Iterator[tuple[int, Position, str]]:
    """Yield each ply after the given ones, last first, with the position before it and the move."""
    line = end.positions_so_far()
    for ply in reversed(range(given_plies, len(end.history))):
        yield ply, line[ply], line[ply].action_name(end.history[ply])


def _sign(score: int) -> int:
    return (score > 0) - (score < 0)
