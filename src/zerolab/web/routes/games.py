"""Games and their positions."""

from __future__ import annotations

import numpy as np
from fastapi import APIRouter
from pydantic import BaseModel, Field

from zerolab.core import __version__, streams
from zerolab.play.pairings import random_openings
from zerolab.rules.catalogue import game_name, parse_game, registered_games
from zerolab.rules.position import Position
from zerolab.web.laboratory import Lab
from zerolab.web.positions import (
    PositionRequest,
    PositionResponse,
    RequestModel,
    line_response,
    position_response,
)

router = APIRouter(tags=["games"])


class Server(BaseModel):
    """The server that answers."""

    version: str
    allow_training: bool
    """Whether pages may start, stop and resume runs."""


class KindOfGame(BaseModel):
    """A kind of game, with the bounds of its fields."""

    name: str
    sizes: dict[str, tuple[int, int]]
    defaults: dict[str, int]
    """Of the fields that may be left out in a name such as gobang:6x6:4."""
    example: str


@router.get("/server")
def server(lab: Lab) -> Server:
    """Say who answers."""
    return Server(version=__version__, allow_training=lab.allow_training)


@router.get("/games")
def games() -> list[KindOfGame]:
    """List the games that can be played, those of plug-ins included."""
    return [
        KindOfGame(
            name=name,
            sizes=entry.sizes(),
            defaults=dict(entry.kind._field_defaults),
            example=_example(name, entry.sizes()),
        )
        for name, entry in registered_games().items()
    ]


@router.post("/position")
def position(asked: PositionRequest) -> PositionResponse:
    """Return the position to which moves lead."""
    return position_response(asked.position())


@router.post("/line")
def line(asked: PositionRequest) -> list[PositionResponse]:
    """Return all positions that a game passes through, the first one included."""
    return line_response(asked.position())


class OpeningRequest(RequestModel):
    """A wish for some random moves to begin a game with."""

    game: str = Field(max_length=60)
    plies: int = Field(ge=0, le=60)
    seed: int = Field(default=0, ge=0, lt=1 << 32)


@router.post("/opening")
def opening(asked: OpeningRequest) -> PositionResponse:
    """Draw an opening: uniformly among legal moves, in games that go on after it."""
    at = Position.start(asked.game)
    keys = np.array([streams.stream(asked.seed, 0, 0, 0, streams.ARENA_OPENING)], np.uint64)
    for action in random_openings(at.game, asked.plies, keys)[0]:
        at = at.play(int(action))
    return position_response(at)


def _example(name: str, sizes: dict[str, tuple[int, int]]) -> str:
    """Return a middling size: 6x6, or as near to it as the game allows."""
    rows, columns = (min(max(6, low), high) for low, high in list(sizes.values())[:2])
    if name == "connect_four":
        columns = 7
    return game_name(parse_game(f"{name}:{rows}x{columns}"))
