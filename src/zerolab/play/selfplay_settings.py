"""The settings of self-play; every docstring gives the papers' values."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from zerolab.core.config import Settings


class SelfPlaySettings(Settings):
    """How the games of an iteration are played."""

    episodes: int = Field(default=50, ge=1, le=1_000_000)
    """E: games an iteration. W, H, L: 50 (H sweeps 10 to 100)."""

    temperature_threshold: int = Field(default=15, ge=1)
    """T': moves are sampled from the visit counts while ply < T', plies counted from 1, and are
    the most visited from there. W, H, L: 15 (H sweeps 10 to 20); C: 31."""

    early_targets: Literal["visits", "values"] = "visits"
    """The policy target before ply T': the visit distribution (W, H, L), or the values (Q + 1) / 2
    of visited actions, normalised, as line 3 of L's Algorithm 4 may mean (FACTS 1)."""

    late_targets: Literal["move", "visits", "values"] = "move"
    """The policy target from ply T' on: the move played alone, as W's and L's code does, or one of
    those above."""

    parallel_games: int = Field(default=512, ge=1)
    """Games in progress at once; does not change what is played where the network answers a
    position equally in every batch (decision 0002: in bfloat16 it does)."""

    threads: int = Field(default=2, ge=1, le=64)
    """Groups of games, each searched by a thread of its own, so that search and network overlap."""
