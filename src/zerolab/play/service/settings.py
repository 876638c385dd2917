"""The schedules of self-play that ask a service for the searches of positions."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from zerolab.core.config import Choice


class Service(Choice):
    """Games of an iteration in lockstep, ply by ply, by one player that asks for all searches.

    A position is searched once for each network, whatever games it occurs in, with root noise and
    playouts of its own and without the trees of earlier moves. Of the "games as trees" of
    [Clausen2021], this is what they have in common.
    """

    name: Literal["service"] = "service"

    cache: int = Field(default=1 << 17, ge=0, le=1 << 26)
    """Answers kept within an iteration; beyond that the oldest one makes room, and its position is
    searched again when it is asked for. 0 keeps none. Changes nothing but the work on the same
    condition as `search.deduplicate`."""
