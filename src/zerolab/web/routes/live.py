"""Live analysis over a websocket: searches in progress, search trees, and exact scores.

The page sends ``{"id": 7, "do": "analyse", ...}`` and receives messages with the same ``id``. The
last message has ``done`` set. A new request cancels the previous request with the same ``do``.
Closing the page cancels everything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, WebSocket
from pydantic import Field, TypeAdapter, ValidationError

from zerolab.core.errors import UserError, quoted
from zerolab.web.laboratory import Lab, Laboratory
from zerolab.web.live_search import MAX_SIMULATIONS, SearchRequest
from zerolab.web.requests import (
    BusyError,
    Client,
    JsonWebSocket,
    SocketRequest,
    StopRequest,
    client_of,
    error_message,
    first_validation_error,
)
from zerolab.web.routes.analysis import (
    AgentSpec,
    SolutionRequest,
    analysis_response,
    node_response,
    solve,
)
from zerolab.web.routes.positions import MoveName, PositionRequest
from zerolab.web.searches import SearchHandle

router = APIRouter()

_MAX_AGENTS = 4


class AnalyseRequest(SocketRequest):
    """Request to search a position with one or more agents side by side."""

    do: Literal["analyse"]
    position: PositionRequest
    agents: list[AgentSpec] = Field(min_length=1, max_length=_MAX_AGENTS)
    simulations: int = Field(default=1000, ge=1, le=MAX_SIMULATIONS)
    """Number of simulations of each agent, which overrides the specs."""


class LookRequest(SocketRequest):
    """Request for a node of the search tree of one of the analysing agents."""

    do: Literal["look"]
    agent: AgentSpec
    path: list[MoveName] = Field(max_length=64)
    """Moves from the root to the node."""


class SolveRequest(SolutionRequest, SocketRequest):
    """Request for the exact score of every move."""

    do: Literal["solve"]


_REQUEST: TypeAdapter[AnalyseRequest | LookRequest | SolveRequest | StopRequest] = TypeAdapter(
    Annotated[AnalyseRequest | LookRequest | SolveRequest | StopRequest, Field(discriminator="do")]
)


@router.websocket("/live")
async def live(websocket: WebSocket, lab: Lab) -> None:
    """Serve one page until it closes."""
    socket = JsonWebSocket(websocket)
    await socket.accept()
    session = _Session(socket, lab, client_of(websocket))
    try:
        async for message in socket.messages():
            await session.receive(message)
    finally:
        session.cancel()


_Work = Callable[[], Awaitable[None]]


class _Session:
    """Requests in progress of one page."""

    def __init__(self, socket: JsonWebSocket, lab: Laboratory, client: Client) -> None:
        self._socket = socket
        self._lab = lab
        self._client = client
        self._tasks: dict[str, asyncio.Task[None]] = {}
        """Asyncio tasks by the `do` of their requests."""
        self._searches: dict[str, SearchHandle] = {}
        """Latest searches, by agent spec as sent by the page."""

    def cancel(self) -> None:
        """Cancel everything in progress."""
        for action in list(self._tasks):
            self._cancel(action)
        self._drop_searches()

    def _cancel(self, action: str) -> None:
        if task := self._tasks.pop(action, None):
            task.cancel()

    def _drop_searches(self) -> None:
        for search in self._searches.values():
            search.drop()
        self._searches = {}

    async def receive(self, message: Any) -> None:
        """Start the work that a message requests."""
        try:
            request = _REQUEST.validate_python(message)
        except ValidationError as error:
            await self._send_error(_id_of(message), first_validation_error(error))
            return
        if isinstance(request, AnalyseRequest):
            self._begin("analyse", request.id, partial(self._analyse, request))
        elif isinstance(request, SolveRequest):
            self._begin("solve", request.id, partial(self._solve, request))
        elif isinstance(request, LookRequest):
            self._begin("look", request.id, partial(self._look, request))
        else:
            self.cancel()
            await self._socket.send({"id": request.id, "done": True})

    def _begin(self, action: str, number: int, work: _Work) -> None:
        self._cancel(action)
        self._tasks[action] = asyncio.create_task(self._reporting(number, work))

    async def _reporting(self, number: int, work: _Work) -> None:
        try:
            await work()
        except Exception as error:  # any error is reported to the page
            await self._send_error(number, error_message(error))

    async def _send_error(self, number: int, message: str) -> None:
        await self._socket.send({"id": number, "error": message, "done": True})

    async def _analyse(self, request: AnalyseRequest) -> None:
        self._drop_searches()
        position = await asyncio.to_thread(request.position.position)
        for spec in dict.fromkeys(request.agents):
            search_request = SearchRequest(
                spec, position, self._lab.folders, request.simulations, shows_progress=True
            )
            try:
                search = self._lab.search_pool.begin(
                    self._client, search_request, is_low_priority=True
                )
            except BusyError:
                self._drop_searches()
                raise
            self._searches[spec] = search
        searches = list(self._searches.items())
        async with asyncio.TaskGroup() as group:
            for spec, search in searches:
                group.create_task(self._show_progress(request.id, spec, search))
        await self._socket.send({"id": request.id, "done": True})

    async def _show_progress(self, number: int, spec: str, search: SearchHandle) -> None:
        """Send an agent's analyses as they improve. Errors do not affect other agents."""
        header = {"id": number, "agent": spec, "done": False}
        try:
            async for analysis in search.results():
                response = analysis_response(analysis).model_dump(mode="json")
                await self._socket.send({**header, "analysis": response})
        except Exception as error:  # any error is reported to the page
            await self._socket.send({**header, "error": error_message(error)})

    async def _solve(self, request: SolveRequest) -> None:
        solution = await solve(self._lab.solver, self._client, request)
        response = solution.model_dump(mode="json")
        await self._socket.send({"id": request.id, "solution": response, "done": True})

    async def _look(self, request: LookRequest) -> None:
        search = self._searches.get(request.agent)
        if search is None:
            raise UserError(f"{quoted(request.agent)} is not searching: analyse the position first")
        node = await search.look(request.path)
        response = node_response(request.path, node).model_dump(mode="json")
        await self._socket.send({"id": request.id, "node": response, "done": True})


def _id_of(message: Any) -> int:
    number = message.get("id") if isinstance(message, dict) else None
    return number if isinstance(number, int) and 0 <= number < 1 << 53 else 0
