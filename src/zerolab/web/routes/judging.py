"""Verdicts on the moves of a game, over a websocket.

Exact values come first to the end of the game, where positions are solved soonest; an agent's
values cover the rest.

The page sends ``{"id": 3, "do": "judge", "position": {...}, "agent": "runs/demo"}`` and gets
messages with the same ``id``, each with the verdict on a move, until one of them is ``done``. A new
request takes the place of the former one, which is cancelled; so it is when the page leaves.
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
from zerolab.web.clients import Client, client_of
from zerolab.web.errors import error_message
from zerolab.web.laboratory import Lab, Laboratory
from zerolab.web.live_search import MOST_SIMULATIONS, SearchRequest
from zerolab.web.positions import PositionRequest
from zerolab.web.searches import Searches
from zerolab.web.sockets import Socket, SocketRequest, first_mistake
from zerolab.web.solving import MOST_SECONDS, Solvers

Verdict = Literal["good", "slip", "mistake"]
"""Of a move: a mistake turns a win into a draw or a loss, or a draw into a loss; a slip keeps the
result and gives away some of the exact score, which is discs, or time in most games. By an agent's
values, a mistake gives away `MISTAKE` of expected outcome, a slip `SLIP`."""

MISTAKE = 0.5
SLIP = 0.25
_MOST_UNSOLVED = 2
"""Positions in a row that are not solved in time before earlier ones are left alone."""


class JudgedMove(BaseModel):
    """A move of a game, and what it was worth."""

    ply: int
    """Which move: 0 is the first one."""
    move: str
    judge: Literal["exact", "agent"]
    value: float
    """Of the position before it, for the player to move: an exact score, or what an agent expects,
    in [-1, 1]."""
    after: float
    """Of the move, on the same scale and for the same player."""
    best: list[str]
    """The best moves, or what the agent would have played."""
    verdict: Verdict


class Unsolved(BaseModel):
    """A position whose exact values were not found."""

    ply: int
    reason: str


async def judge_exactly(
    solvers: Solvers, client: Client, end: Position, seconds: float
) -> AsyncIterator[JudgedMove | Unsolved]:
    """Yield exact verdicts on the moves that led to a position, the last move first.

    Each position is given a number of seconds. Once some in a row are not solved within it, those
    before them, which take longer, are left out.
    """
    unsolved = 0
    for ply, at, move in _moves_backwards(end):
        try:
            scores = await solvers.solve(client, at, seconds)
        except NotSolvedError as error:
            yield Unsolved(ply=ply, reason=str(error))
            unsolved += 1
            if unsolved == _MOST_UNSOLVED:
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
    """Return what to think of a move by the exact scores of the best one and of itself."""
    if _sign(played) < _sign(best):
        return "mistake"
    return "slip" if played < best else "good"


async def judge_by_agent(
    searches: Searches, client: Client, wanted: SearchRequest
) -> AsyncIterator[JudgedMove]:
    """Yield an agent's verdicts on the moves that led to the position wanted, the last move first.

    What a move was worth is what the agent expects after it. Raises UserError where it does not
    expect anything.
    """
    end = wanted.position
    result = end.outcome
    after = None if result is None else float(result)
    if after is None:
        after = (await _expected(searches, client, wanted))[0]
    for ply, at, move in _moves_backwards(end):
        value, choice = await _expected(searches, client, wanted._replace(position=at))
        played = -after  # the other player's, who was to move then
        yield JudgedMove(
            ply=ply, move=move, judge="agent", value=value, after=played, best=[choice],
            verdict="good" if choice == move else _expected_verdict(value - played),
        )  # fmt: skip
        after = value


async def _expected(searches: Searches, client: Client, wanted: SearchRequest) -> tuple[float, str]:
    found = await searches.last(client, wanted, can_wait=True)
    if found.value is None or not -1.0 <= found.value <= 1.0:
        raise UserError(
            f"{found.agent} does not say what it expects: expected a run, or MCTS such as mcts:1000"
        )
    return found.value, found.best.name


def _expected_verdict(loss: float) -> Verdict:
    return "mistake" if loss >= MISTAKE else "slip" if loss >= SLIP else "good"


def _moves_backwards(end: Position) -> Iterator[tuple[int, Position, str]]:
    """Yield each ply with the position before it and the name of its move, the last one first."""
    line = end.line()
    for ply in reversed(range(len(end.history))):
        yield ply, line[ply], line[ply].name(end.history[ply])


def _sign(score: int) -> int:
    return (score > 0) - (score < 0)


router = APIRouter()


class JudgeRequest(SocketRequest):
    """Find the mistakes among the moves of a position."""

    do: Literal["judge"]
    position: PositionRequest
    exactly: bool = True
    """Whether the solver is asked."""
    seconds: float = Field(default=3.0, gt=0, le=MOST_SECONDS)
    """How long each position may take to solve."""
    agent: str = Field(default="", max_length=400)
    """Who is asked, too; nobody if empty."""
    simulations: int | None = Field(default=None, ge=1, le=MOST_SIMULATIONS)
    """Of the agent, for each position, instead of those of its spec."""


class StopRequest(SocketRequest):
    """Cancel what is under way."""

    do: Literal["stop"]


_REQUEST: TypeAdapter[JudgeRequest | StopRequest] = TypeAdapter(
    Annotated[JudgeRequest | StopRequest, Field(discriminator="do")]
)


@router.websocket("/judge")
async def judge(websocket: WebSocket, lab: Lab) -> None:
    """Serve one page until it leaves."""
    socket = Socket(websocket)
    await socket.accept()
    task: asyncio.Task[None] | None = None
    try:
        async for message in socket.messages():
            try:
                asked = _REQUEST.validate_python(message)
            except ValidationError as error:
                await socket.send({"error": first_mistake(error), "done": True})
                continue
            if task is not None:
                task.cancel()
            work = _Work(socket, lab, client_of(websocket), asked.id)
            task = asyncio.create_task(work.do(asked))
    finally:
        if task is not None:
            task.cancel()


class _Work:
    """The answer to one request."""

    def __init__(self, socket: Socket, lab: Laboratory, client: Client, number: int) -> None:
        self._socket = socket
        self._lab = lab
        self._client = client
        self._about: dict[str, Any] = {"id": number, "done": False}

    async def do(self, asked: JudgeRequest | StopRequest) -> None:
        """Answer, and say when it is done or what is wrong."""
        try:
            if isinstance(asked, JudgeRequest):
                await self._judge(asked)
        except Exception as error:  # whatever it is: the page is to know
            await self._socket.send({**self._about, "error": error_message(error)})
        await self._socket.send({**self._about, "done": True})

    async def _judge(self, asked: JudgeRequest) -> None:
        end = await asyncio.to_thread(asked.position.position)
        if not end.history:
            raise UserError("there is no move yet: expected a game to judge")
        async with asyncio.TaskGroup() as group:
            if asked.exactly:
                found = judge_exactly(self._lab.solvers, self._client, end, asked.seconds)
                group.create_task(self._tell("exact", found))
            if asked.agent:
                group.create_task(self._tell("agent", self._by_agent(asked, end)))

    async def _by_agent(self, asked: JudgeRequest, end: Position) -> AsyncIterator[JudgedMove]:
        wanted = SearchRequest(asked.agent, end, self._lab.folders, asked.simulations)
        async for each in judge_by_agent(self._lab.searches, self._client, wanted):
            yield each

    async def _tell(self, judge: str, verdicts: AsyncIterator[JudgedMove | Unsolved]) -> None:
        """Send verdicts; what goes wrong with one judge leaves the other alone."""
        try:
            async for each in verdicts:
                key = "judged" if isinstance(each, JudgedMove) else "unsolved"
                await self._socket.send({**self._about, key: each.model_dump(mode="json")})
        except Exception as error:  # whatever it is: the page is to know
            await self._socket.send({**self._about, "judge": judge, "error": error_message(error)})
