"""Values of a whole game, and single simulations of a search with all their numbers."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from zerolab.core.errors import UserError
from zerolab.rules.position import Position
from zerolab.search.stepwise import Backup, ScoredMove, Selection
from zerolab.web.explanations import (
    MAX_SIMULATION,
    GameValuesRequest,
    SimulationRequest,
    SimulationTrace,
)
from zerolab.web.laboratory import Lab
from zerolab.web.requests import RequestModel, client_of
from zerolab.web.routes.analysis import AgentSpec, unless_disconnected
from zerolab.web.routes.positions import PositionRequest

router = APIRouter(tags=["analysis"])


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


class StepRequest(RequestModel):
    """Request for one simulation of an agent's search."""

    position: PositionRequest
    agent: AgentSpec
    number: int = Field(ge=0, le=MAX_SIMULATION)
    """Number of the simulation; number 0 evaluates the root."""


class ScoredMoveResponse(BaseModel):
    """Move at a node on the path, before the simulation, for the side to move there."""

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
    """Update of a node on the path with the value of the leaf."""

    path: list[str]
    """Moves from the root to the node."""
    first_to_move: bool
    added: float
    """Value of the leaf for the side to move at the node."""
    visits: int
    """Visit count N of the node after the update."""
    mean_before: float
    mean_after: float


class StepResponse(BaseModel):
    """One simulation of a search."""

    number: int
    exploration: float
    """Constant c of PUCT."""
    selections: list[SelectionResponse]
    """From the root to the parent of the leaf."""
    leaf: LeafResponse
    backups: list[BackupResponse]
    """From the root to the leaf."""
    root_visits: dict[str, int]
    """Visit counts of the moves at the root after the simulation."""


@router.post("/values")
async def game_values(request: ValuesRequest, lab: Lab, connection: Request) -> ValuesResponse:
    """Return an agent's values of all positions of a game, from a single batch of its network.

    An agent without a network searches every position with few simulations.
    """
    position = await asyncio.to_thread(request.position.position)
    if position.outcome is not None and not position.history:
        raise UserError("the game is over: expected a game with moves")
    work = lab.search_pool.game_values(
        client_of(connection), GameValuesRequest(request.agent, position, lab.folders)
    )
    return ValuesResponse(agent=request.agent, values=await unless_disconnected(connection, work))


@router.post("/simulation")
async def simulation(request: StepRequest, lab: Lab, connection: Request) -> StepResponse:
    """Return one simulation of an agent's search: selection, expansion, evaluation and backup.

    The search is PUCT with the network and the settings of the agent, without proven results and
    with one leaf per step. Agents with 1,000 simulations or more select several leaves per step.
    """
    position = await asyncio.to_thread(request.position.position)
    step = SimulationRequest(request.agent, position, lab.folders, request.number)
    work = lab.search_pool.simulation(client_of(connection), step)
    trace = await unless_disconnected(connection, work)
    return await asyncio.to_thread(_step_response, position, trace)


def _step_response(root: Position, trace: SimulationTrace) -> StepResponse:
    simulation = trace.simulation
    path = [root]
    for selection in simulation.selections:
        path.append(path[-1].play(selection.chosen))
    leaf, end = simulation.leaf, path[-1]
    return StepResponse(
        number=simulation.number,
        exploration=trace.exploration,
        selections=[
            _selection_response(root, at, selection)
            for at, selection in zip(path, simulation.selections, strict=False)
        ],
        leaf=LeafResponse(
            path=_path(root, end),
            first_to_move=end.first_to_move,
            outcome=leaf.outcome,
            value=leaf.value,
            priors={end.name(action): prior for action, prior in leaf.priors.items()},
        ),
        backups=[
            _backup_response(root, at, backup)
            for at, backup in zip(path, simulation.backups, strict=True)
        ],
        root_visits={root.name(action): count for action, count in trace.root_visits.items()},
    )


def _selection_response(root: Position, at: Position, selection: Selection) -> SelectionResponse:
    ranked = sorted(selection.moves, key=lambda each: -each.score)
    moves = [ScoredMoveResponse(name=at.name(each.action), **_numbers(each)) for each in ranked]
    return SelectionResponse(
        path=_path(root, at),
        first_to_move=at.first_to_move,
        visits=selection.visits,
        moves=moves,
        chosen=at.name(selection.chosen),
    )


def _numbers(move: ScoredMove) -> dict[str, Any]:
    return {key: each for key, each in move._asdict().items() if key != "action"}


def _backup_response(root: Position, at: Position, backup: Backup) -> BackupResponse:
    return BackupResponse(path=_path(root, at), first_to_move=at.first_to_move, **backup._asdict())


def _path(root: Position, at: Position) -> list[str]:
    """Return the names of the moves from the root to a position."""
    line = at.line()[len(root.history) :]
    actions = at.history[len(root.history) :]
    return [each.name(action) for each, action in zip(line, actions, strict=False)]
