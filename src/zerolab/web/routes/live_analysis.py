"""Live analysis over a websocket, single search simulations, and an agent's values over a game.

The page sends ``{"id": 7, "do": "analyse", ...}`` and receives messages with the same ``id``. The
last message has ``done`` set. A new request cancels the previous request with the same ``do``.
Closing the page cancels everything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request, WebSocket
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from zerolab.core.errors import UserError, quoted
from zerolab.rules.position import Position
from zerolab.search.stepwise import Backup, ScoredMove, Selection
from zerolab.web.laboratory import Lab, Laboratory
from zerolab.web.live_search import MAX_SIMULATIONS, SearchRequest
from zerolab.web.requests import (
    BusyError,
    Client,
    JsonWebSocket,
    RequestModel,
    SocketRequest,
    StopRequest,
    client_of,
    error_message,
    invalid_message_response,
)
from zerolab.web.routes.analysis import (
    AgentSpec,
    SolutionRequest,
    analysis_response,
    cancel_on_disconnect,
    node_response,
    solve,
)
from zerolab.web.routes.positions import MoveName, PositionRequest
from zerolab.web.searches import (
    MAX_TRACED_SIMULATION,
    GameValuesRequest,
    SearchHandle,
    SimulationRequest,
    SimulationTrace,
)

router = APIRouter(tags=["analysis"])

_MAX_AGENTS = 4


class AnalyseRequest(SocketRequest):
    """Request to search a position with one or more agents side by side."""

    do: Literal["analyse"]
    position: PositionRequest
    agents: list[AgentSpec] = Field(min_length=1, max_length=_MAX_AGENTS)
    simulations: Annotated[int, Field(ge=1, le=MAX_SIMULATIONS)] | None = 1000
    """Number of simulations for each agent that searches, overriding any number in its spec; None
    to keep each agent's own number."""


class NodeRequest(SocketRequest):
    """Request for a node in the search tree of one of the analysing agents."""

    do: Literal["node"]
    agent: AgentSpec
    path: list[MoveName] = Field(max_length=64)
    """Moves from the root to the node."""


class SolveRequest(SolutionRequest, SocketRequest):
    """Request for the exact score of every move."""

    do: Literal["solve"]


_REQUEST: TypeAdapter[AnalyseRequest | NodeRequest | SolveRequest | StopRequest] = TypeAdapter(
    Annotated[AnalyseRequest | NodeRequest | SolveRequest | StopRequest, Field(discriminator="do")]
)


@router.websocket("/analysis/live")
async def analysis_socket(websocket: WebSocket, lab: Lab) -> None:
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
    """One page's requests in progress."""

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
            await self._socket.send(invalid_message_response(message, error))
            return
        if isinstance(request, AnalyseRequest):
            self._begin("analyse", request.id, partial(self._analyse, request))
        elif isinstance(request, SolveRequest):
            self._begin("solve", request.id, partial(self._solve, request))
        elif isinstance(request, NodeRequest):
            self._begin("node", request.id, partial(self._send_node, request))
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
            message = error_message(error)
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

    async def _send_node(self, request: NodeRequest) -> None:
        search = self._searches.get(request.agent)
        if search is None:
            raise UserError(f"{quoted(request.agent)} is not searching: analyse the position first")
        node = await search.node(request.path)
        response = node_response(request.path, node).model_dump(mode="json")
        await self._socket.send({"id": request.id, "node": response, "done": True})


class ValuesRequest(RequestModel):
    """Request for an agent's values of all positions of a game."""

    position: PositionRequest
    """Final position."""
    agent: AgentSpec


class ValuesResponse(BaseModel):
    """Values of all positions of a game."""

    agent: str
    """Agent spec, as in the request."""
    values: list[float]
    """Expected outcomes for the first player in [-1, 1], from the start to the final position."""


class SimulationTraceRequest(RequestModel):
    """Request for one simulation of an agent's search."""

    position: PositionRequest
    agent: AgentSpec
    number: int = Field(ge=0, le=MAX_TRACED_SIMULATION)
    """Number of the simulation; number 0 evaluates the root."""


class ScoredMoveResponse(BaseModel):
    """Statistics of a move before the simulation, for the side to move at its node on the path."""

    name: str
    visits: int
    """Visit count N."""
    prior: float
    """Prior P."""
    value: float
    """Mean value Q, or first-play urgency if the move is unvisited."""
    bonus: float
    """Exploration bonus U."""
    score: float
    """Q + U."""


class SelectionResponse(BaseModel):
    """Choice of a move at a node on the path."""

    path: list[str]
    """Moves from the root to the node."""
    first_to_move: bool
    """True if it is the first player's turn."""
    visits: int
    """Visit count N of the node before the simulation."""
    moves: list[ScoredMoveResponse]
    """All legal moves, highest score first."""
    chosen: str


class LeafResponse(BaseModel):
    """End of the path."""

    path: list[str]
    """Moves from the root to the leaf."""
    first_to_move: bool
    outcome: int | None
    """Outcome for the side to move, 1, 0 or -1, if the game is over there; otherwise None."""
    value: float
    """Outcome, or the network's value for the side to move."""
    priors: dict[str, float]
    """Priors of the moves that the leaf adds to the tree."""


class BackupResponse(BaseModel):
    """Update of the visit count and mean value Q of a node on the path."""

    path: list[str]
    """Moves from the root to the node."""
    first_to_move: bool
    leaf_value: float
    """Value of the leaf for the side to move at the node."""
    visits: int
    """Visit count N of the node after the update."""
    mean_before: float
    mean_after: float


class SimulationTraceResponse(BaseModel):
    """One simulation of a search."""

    number: int
    exploration_constant: float
    """Constant c of PUCT."""
    selections: list[SelectionResponse]
    """Choices of moves, from the root to the parent of the leaf."""
    leaf: LeafResponse
    backups: list[BackupResponse]
    """Updates of the nodes, from the root to the leaf."""
    root_visits: dict[str, int]
    """Visit counts of the moves at the root after the simulation."""


@router.post("/values")
async def game_values(request: ValuesRequest, lab: Lab, connection: Request) -> ValuesResponse:
    """Return an agent's values of all positions of a game, from a single network batch.

    An agent without a network searches every position with few simulations.
    """
    position = await asyncio.to_thread(request.position.position)
    if position.outcome is not None and not position.history:
        raise UserError("the game is over and has no moves: expected a game with moves")
    work = lab.search_pool.game_values(
        client_of(connection), GameValuesRequest(request.agent, position, lab.folders)
    )
    return ValuesResponse(agent=request.agent, values=await cancel_on_disconnect(connection, work))


@router.post("/simulation")
async def simulation(
    request: SimulationTraceRequest, lab: Lab, connection: Request
) -> SimulationTraceResponse:
    """Return one simulation of an agent's search: selection, expansion, evaluation and backup.

    The search is PUCT with the agent's network and settings, without MCTS-Solver and with one leaf
    per step. This differs from actual play, where agents with 1,000 simulations or more select
    several leaves per step.
    """
    position = await asyncio.to_thread(request.position.position)
    traced = SimulationRequest(request.agent, position, lab.folders, request.number)
    work = lab.search_pool.simulation(client_of(connection), traced)
    trace = await cancel_on_disconnect(connection, work)
    return await asyncio.to_thread(_trace_response, position, trace)


def _trace_response(root: Position, trace: SimulationTrace) -> SimulationTraceResponse:
    simulation = trace.simulation
    path = [root]
    for selection in simulation.selections:
        path.append(path[-1].play(selection.chosen))
    leaf, end = simulation.leaf, path[-1]
    return SimulationTraceResponse(
        number=simulation.number,
        exploration_constant=trace.exploration_constant,
        selections=[
            _selection_response(root, at, selection)
            for at, selection in zip(path, simulation.selections, strict=False)
        ],
        leaf=LeafResponse(
            path=_path(root, end),
            first_to_move=end.first_to_move,
            outcome=leaf.outcome,
            value=leaf.value,
            priors={end.action_name(action): prior for action, prior in leaf.priors.items()},
        ),
        backups=[
            _backup_response(root, at, backup)
            for at, backup in zip(path, simulation.backups, strict=True)
        ],
        root_visits={
            root.action_name(action): count for action, count in trace.root_visits.items()
        },
    )


def _selection_response(root: Position, at: Position, selection: Selection) -> SelectionResponse:
    ranked = sorted(selection.moves, key=lambda each: -each.score)
    moves = [
        ScoredMoveResponse(name=at.action_name(each.action), **_numbers(each)) for each in ranked
    ]
    return SelectionResponse(
        path=_path(root, at),
        first_to_move=at.first_to_move,
        visits=selection.visits,
        moves=moves,
        chosen=at.action_name(selection.chosen),
    )


def _numbers(move: ScoredMove) -> dict[str, Any]:
    return {key: each for key, each in move._asdict().items() if key != "action"}


def _backup_response(root: Position, at: Position, backup: Backup) -> BackupResponse:
    return BackupResponse(path=_path(root, at), first_to_move=at.first_to_move, **backup._asdict())


def _path(root: Position, at: Position) -> list[str]:
    """Return the names of the moves from the root to a position."""
    line = at.positions_so_far()[len(root.history) :]
    actions = at.history[len(root.history) :]
    return [each.action_name(action) for each, action in zip(line, actions, strict=False)]
