"""A page's websocket for the mistakes of a game, which are shown as they are found.

The page sends ``{"id": 3, "do": "judge", "position": {...}, "agent": "runs/demo"}`` and gets
messages with the same ``id``, each with the verdict on a move, until one of them is ``done``. A new
request takes the place of the former one, which is cancelled; so it is when the page leaves.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, WebSocket
from pydantic import Field, TypeAdapter, ValidationError

from zerolab.core.errors import UserError
from zerolab.rules.position import Position
from zerolab.web.archive.judging import JudgedMove, Unsolved, judge_by_agent, judge_exactly
from zerolab.web.clients import Client, client_of
from zerolab.web.errors import told
from zerolab.web.laboratory import Lab, Laboratory
from zerolab.web.positions import AskedPosition
from zerolab.web.searches.live import Wanted
from zerolab.web.searches.players import MOST_SIMULATIONS
from zerolab.web.searches.solving import MOST_SECONDS
from zerolab.web.sockets import Message, Socket, first_mistake

router = APIRouter()


class Judge(Message):
    """Find the mistakes among the moves of a position."""

    do: Literal["judge"]
    position: AskedPosition
    exactly: bool = True
    """Whether the solver is asked."""
    seconds: float = Field(default=3.0, gt=0, le=MOST_SECONDS)
    """How long each position may take to solve."""
    agent: str = Field(default="", max_length=400)
    """Who is asked, too; nobody if empty."""
    simulations: int | None = Field(default=None, ge=1, le=MOST_SIMULATIONS)
    """Of the agent, for each position, instead of those of its spec."""


class StopJudging(Message):
    """Cancel what is under way."""

    do: Literal["stop"]


_REQUEST: TypeAdapter[Judge | StopJudging] = TypeAdapter(
    Annotated[Judge | StopJudging, Field(discriminator="do")]
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

    async def do(self, asked: Judge | StopJudging) -> None:
        """Answer, and say when it is done or what is wrong."""
        try:
            if isinstance(asked, Judge):
                await self._judge(asked)
        except Exception as error:  # whatever it is: the page is to know
            await self._socket.send({**self._about, "error": told(error)})
        await self._socket.send({**self._about, "done": True})

    async def _judge(self, asked: Judge) -> None:
        end = await asyncio.to_thread(asked.position.position)
        if not end.history:
            raise UserError("there is no move yet: expected a game to judge")
        async with asyncio.TaskGroup() as group:
            if asked.exactly:
                found = judge_exactly(self._lab.solvers, self._client, end, asked.seconds)
                group.create_task(self._tell("exact", found))
            if asked.agent:
                group.create_task(self._tell("agent", self._by_agent(asked, end)))

    async def _by_agent(self, asked: Judge, end: Position) -> AsyncIterator[JudgedMove]:
        wanted = Wanted(asked.agent, end, self._lab.folders, asked.simulations)
        async for each in judge_by_agent(self._lab.searches, self._client, wanted):
            yield each

    async def _tell(self, judge: str, verdicts: AsyncIterator[JudgedMove | Unsolved]) -> None:
        """Send verdicts; what goes wrong with one judge leaves the other alone."""
        try:
            async for each in verdicts:
                key = "judged" if isinstance(each, JudgedMove) else "unsolved"
                await self._socket.send({**self._about, key: each.model_dump(mode="json")})
        except Exception as error:  # whatever it is: the page is to know
            await self._socket.send({**self._about, "judge": judge, "error": told(error)})
