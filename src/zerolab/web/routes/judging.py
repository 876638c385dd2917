"""Verdicts on a game's moves from exact values and agents, sent over a websocket.

The page sends ``{"id": 3, "do": "judge", "position": {...}, "agent": "runs/demo"}`` and receives
messages with the same ``id``, each with the verdict on one move, until a message has ``done`` set.
A new request cancels the previous one, and so does closing the page.

Moves are judged backwards from the end of the game, because late positions are solved fastest. An
agent's values cover the rest.
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
from zerolab.web.requests import Client, client_of, error_message
from zerolab.web.routes.positions import PositionRequest
from zerolab.web.searches import Searches
from zerolab.web.sockets import Socket, SocketRequest, first_mistake
from zerolab.web.solving import MAX_SECONDS, Solvers

router = APIRouter()

Verdict = Literal["good", "slip", "mistake"]
"""By exact values, a mistake worsens the result, such as a win to a draw. A slip preserves the
result but lowers the score: fewer discs in Othello, or a slower win or faster loss in other games.
By an agent's values, a mistake lowers the expected outcome by at least `MISTAKE`, and a slip by at
least `SLIP`."""

MISTAKE = 0.5
SLIP = 0.25
_MAX_UNSOLVED = 2
"""Number of consecutive unsolved positions after which earlier ones are skipped."""


class JudgeRequest(SocketRequest):
    """Request to judge the moves that led to a position."""

    do: Literal["judge"]
    position: PositionRequest
    exactly: bool = True
    """True to judge with the solver."""
    seconds: float = Field(default=3.0, gt=0, le=MAX_SECONDS)
    """Time limit for solving each position."""
    agent: str = Field(default="", max_length=400)
    """Agent to judge with, or empty for none."""
    simulations: int | None = Field(default=None, ge=1, le=MAX_SIMULATIONS)
    """Number of simulations per position that overrides the agent's spec."""


class StopRequest(SocketRequest):
    """Request to cancel the work in progress."""

    do: Literal["stop"]


class JudgedMove(BaseModel):
    """Move of a game with its verdict."""

    ply: int
    """Number of the move, starting at 0."""
    move: str
    judge: Literal["exact", "agent"]
    value: float
    """Value of the position before the move for the side to move, as an exact score or an agent's
    expected outcome in [-1, 1]."""
    after: float
    """Value of the move on the same scale and for the same player."""
    best: list[str]
    """Best moves, or the agent's choice."""
    verdict: Verdict


class Unsolved(BaseModel):
    """Position that was not solved."""

    ply: int
    reason: str


_REQUEST: TypeAdapter[JudgeRequest | StopRequest] = TypeAdapter(
    Annotated[JudgeRequest | StopRequest, Field(discriminator="do")]
)


@router.websocket("/judge")
async def judge(websocket: WebSocket, lab: Lab) -> None:
    """Serve one page until it closes."""
    socket = Socket(websocket)
    await socket.accept()
    task: asyncio.Task[None] | None = None
    try:
        async for message in socket.messages():
            try:
                request = _REQUEST.validate_python(message)
            except ValidationError as error:
                await socket.send({"error": first_mistake(error), "done": True})
                continue
            if task is not None:
                task.cancel()
            work = _Judging(socket, lab, client_of(websocket), request.id)
            task = asyncio.create_task(work.run(request))
    finally:
        if task is not None:
            task.cancel()


class _Judging:
    """Work on one request."""

    def __init__(self, socket: Socket, lab: Laboratory, client: Client, number: int) -> None:
        self._socket = socket
        self._lab = lab
        self._client = client
        self._header: dict[str, Any] = {"id": number, "done": False}

    async def run(self, request: JudgeRequest | StopRequest) -> None:
        """Judge the moves, report errors, and send the final message."""
        try:
            if isinstance(request, JudgeRequest):
                await self._judge(request)
        except Exception as error:  # any error is reported to the page
            await self._socket.send({**self._header, "error": error_message(error)})
        await self._socket.send({**self._header, "done": True})

    async def _judge(self, request: JudgeRequest) -> None:
        end = await asyncio.to_thread(request.position.position)
        if not end.history:
            raise UserError("the game has no moves yet: expected a game to judge")
        async with asyncio.TaskGroup() as group:
            if request.exactly:
                verdicts = judge_exactly(self._lab.solvers, self._client, end, request.seconds)
                group.create_task(self._send("exact", verdicts))
            if request.agent:
                group.create_task(self._send("agent", self._by_agent(request, end)))

    async def _by_agent(self, request: JudgeRequest, end: Position) -> AsyncIterator[JudgedMove]:
        search = SearchRequest(request.agent, end, self._lab.folders, request.simulations)
        async for each in judge_by_agent(self._lab.searches, self._client, search):
            yield each

    async def _send(self, judge: str, verdicts: AsyncIterator[JudgedMove | Unsolved]) -> None:
        """Send verdicts; an error in one judge does not affect the other."""
        try:
            async for each in verdicts:
                key = "judged" if isinstance(each, JudgedMove) else "unsolved"
                await self._socket.send({**self._header, key: each.model_dump(mode="json")})
        except Exception as error:  # any error is reported to the page
            message = error_message(error)
            await self._socket.send({**self._header, "judge": judge, "error": message})


async def judge_exactly(
    solvers: Solvers, client: Client, end: Position, seconds: float
) -> AsyncIterator[JudgedMove | Unsolved]:
    """Yield exact verdicts on the moves that led to a position, last move first.

    `seconds` is the time limit for each position. Earlier positions take longer to solve, so they
    are skipped after several consecutive positions were not solved in time.
    """
    unsolved = 0
    for ply, at, move in _moves_backwards(end):
        try:
            scores = await solvers.solve(client, at, seconds)
        except NotSolvedError as error:
            yield Unsolved(ply=ply, reason=str(error))
            unsolved += 1
            if unsolved == _MAX_UNSOLVED:
                return
            continue
        unsolved = 0
        most, after = max(scores.values()), scores[move]
        best = [name for name, score in scores.items() if score == most]
        yield JudgedMove(
            ply=ply, move=move, judge="exact", value=most, after=after, best=best,
            verdict=exact_verdict(most, after),
        )  # fmt: skip


def exact_verdict(best: int, played: int) -> Verdict:
    """Return the verdict on a move from its exact score and that of the best move."""
    if _sign(played) < _sign(best):
        return "mistake"
    return "slip" if played < best else "good"


async def judge_by_agent(
    searches: Searches, client: Client, search: SearchRequest
) -> AsyncIterator[JudgedMove]:
    """Yield an agent's verdicts on the moves that led to a position, last move first.

    The value of a move is the agent's expected outcome after it. Raise UserError if the agent does
    not provide expected outcomes.
    """
    end = search.position
    result = end.outcome
    after = None if result is None else float(result)
    if after is None:
        after = (await _expected(searches, client, search))[0]
    for ply, at, move in _moves_backwards(end):
        value, choice = await _expected(searches, client, search._replace(position=at))
        played = -after  # `after` is from the opponent's perspective
        yield JudgedMove(
            ply=ply, move=move, judge="agent", value=value, after=played, best=[choice],
            verdict="good" if choice == move else _agent_verdict(value - played),
        )  # fmt: skip
        after = value


async def _expected(searches: Searches, client: Client, search: SearchRequest) -> tuple[float, str]:
    """Return an agent's expected outcome and move in a position."""
    analysis = await searches.analyse(client, search, is_patient=True)
    if analysis.value is None or not -1.0 <= analysis.value <= 1.0:
        raise UserError(
            f"{analysis.agent} provides no expected outcome: expected a run, or MCTS such as"
            " mcts:1000"
        )
    return analysis.value, analysis.best.name


def _agent_verdict(loss: float) -> Verdict:
    return "mistake" if loss >= MISTAKE else "slip" if loss >= SLIP else "good"


def _moves_backwards(end: Position) -> Iterator[tuple[int, Position, str]]:
    """Yield each ply with the position before it and the name of its move, last ply first."""
    line = end.line()
    for ply in reversed(range(len(end.history))):
        yield ply, line[ply], line[ply].name(end.history[ply])


def _sign(score: int) -> int:
    return (score > 0) - (score < 0)
