"""A page's websocket for analysis: searches that grow, walks through their trees, exact values.

The page sends ``{"id": 7, "do": "analyse", ...}`` and gets messages with the same ``id`` until one
of them is ``done``. A new request of a kind takes the place of the former one, which is cancelled;
everything is when the page leaves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, WebSocket
from pydantic import Field, TypeAdapter, ValidationError

from zerolab.core.errors import UserError, quoted
from zerolab.web.analyses import analysis_response, node_response
from zerolab.web.clients import Client, client_of
from zerolab.web.errors import BusyError, error_message
from zerolab.web.laboratory import Lab, Laboratory
from zerolab.web.live_search import MOST_SIMULATIONS, SearchRequest
from zerolab.web.positions import MoveName, PositionRequest
from zerolab.web.routes.analysis import SolutionRequest, solve
from zerolab.web.routes.play import Spec
from zerolab.web.searches import Search
from zerolab.web.sockets import Socket, SocketRequest, first_mistake

router = APIRouter()

_MOST_AGENTS = 4


class AnalyseRequest(SocketRequest):
    """Search a position with one agent or several, side by side."""

    do: Literal["analyse"]
    position: PositionRequest
    agents: list[Spec] = Field(min_length=1, max_length=_MOST_AGENTS)
    simulations: int = Field(default=1000, ge=1, le=MOST_SIMULATIONS)


class LookRequest(SocketRequest):
    """Look at a node in the tree of an agent whose search has begun."""

    do: Literal["look"]
    agent: Spec
    path: list[MoveName] = Field(max_length=64)


class SolveRequest(SolutionRequest, SocketRequest):
    """Find the exact value of every move."""

    do: Literal["solve"]


class StopRequest(SocketRequest):
    """Cancel whatever is under way."""

    do: Literal["stop"]


_REQUEST: TypeAdapter[AnalyseRequest | LookRequest | SolveRequest | StopRequest] = TypeAdapter(
    Annotated[AnalyseRequest | LookRequest | SolveRequest | StopRequest, Field(discriminator="do")]
)


@router.websocket("/live")
async def live(websocket: WebSocket, lab: Lab) -> None:
    """Serve one page until it leaves."""
    socket = Socket(websocket)
    await socket.accept()
    session = _Session(socket, lab, client_of(websocket))
    try:
        async for message in socket.messages():
            await session.take(message)
    finally:
        session.cancel()


_Work = Callable[[], Awaitable[None]]


class _Session:
    """What one page is waiting for."""

    def __init__(self, socket: Socket, lab: Laboratory, client: Client) -> None:
        self._socket = socket
        self._lab = lab
        self._client = client
        self._tasks: dict[str, asyncio.Task[None]] = {}
        """By what they do."""
        self._searches: dict[str, Search] = {}
        """The latest, by the specs that the page has sent."""

    def cancel(self) -> None:
        """Cancel everything that is under way."""
        for kind in list(self._tasks):
            self._cancel(kind)
        self._drop_searches()

    def _cancel(self, kind: str) -> None:
        if task := self._tasks.pop(kind, None):
            task.cancel()

    def _drop_searches(self) -> None:
        for search in self._searches.values():
            search.drop()
        self._searches = {}

    async def take(self, message: Any) -> None:
        """Begin to do what a message asks for."""
        try:
            asked = _REQUEST.validate_python(message)
        except ValidationError as error:
            await self._refuse(_id_of(message), first_mistake(error))
            return
        if isinstance(asked, AnalyseRequest):
            self._begin("analyse", asked.id, partial(self._analyse, asked))
        elif isinstance(asked, SolveRequest):
            self._begin("solve", asked.id, partial(self._solve, asked))
        elif isinstance(asked, LookRequest):
            self._begin("look", asked.id, partial(self._look, asked))
        else:
            self.cancel()
            await self._socket.send({"id": asked.id, "done": True})

    def _begin(self, kind: str, number: int, work: _Work) -> None:
        self._cancel(kind)
        self._tasks[kind] = asyncio.create_task(self._reporting(number, work))

    async def _reporting(self, number: int, work: _Work) -> None:
        try:
            await work()
        except Exception as error:  # whatever it is: the page is to know
            await self._refuse(number, error_message(error))

    async def _refuse(self, number: int, reason: str) -> None:
        await self._socket.send({"id": number, "error": reason, "done": True})

    async def _analyse(self, asked: AnalyseRequest) -> None:
        self._drop_searches()
        at = await asyncio.to_thread(asked.position.position)
        for spec in dict.fromkeys(asked.agents):
            wanted = SearchRequest(spec, at, self._lab.folders, asked.simulations)
            try:
                search = self._lab.searches.begin(self._client, wanted, can_wait=True)
            except BusyError:
                self._drop_searches()
                raise
            self._searches[spec] = search
        searches = list(self._searches.items())
        async with asyncio.TaskGroup() as group:
            for spec, search in searches:
                group.create_task(self._grow(asked.id, spec, search))
        await self._socket.send({"id": asked.id, "done": True})

    async def _grow(self, number: int, spec: str, search: Search) -> None:
        """Show an agent's search as it grows; what goes wrong with it leaves the others alone."""
        about = {"id": number, "agent": spec, "done": False}
        try:
            async for found in search.results():
                analysis = analysis_response(found).model_dump(mode="json")
                await self._socket.send({**about, "analysis": analysis})
        except Exception as error:  # whatever it is: the others go on
            await self._socket.send({**about, "error": error_message(error)})

    async def _solve(self, asked: SolveRequest) -> None:
        found = await solve(self._lab.solvers, self._client, asked)
        solution = found.model_dump(mode="json")
        await self._socket.send({"id": asked.id, "solution": solution, "done": True})

    async def _look(self, asked: LookRequest) -> None:
        search = self._searches.get(asked.agent)
        if search is None:
            raise UserError(f"{quoted(asked.agent)} is not searching: analyse the position first")
        node = await search.look(asked.path)
        seen = node_response(asked.path, node).model_dump(mode="json")
        await self._socket.send({"id": asked.id, "node": seen, "done": True})


def _id_of(message: Any) -> int:
    number = message.get("id") if isinstance(message, dict) else None
    return number if isinstance(number, int) and 0 <= number < 1 << 53 else 0
