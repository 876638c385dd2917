"""Games in which positions are solved and collected [Clausen2021]."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from pydantic import Field, model_validator

from zerolab.agents.interface import Agent
from zerolab.core import streams
from zerolab.core.config import Settings
from zerolab.evaluation.positions import Positions
from zerolab.evaluation.solved_games import EVERY_POSITION, ONE_PER_GAME, SolvedPosition
from zerolab.oracles.interface import Oracle
from zerolab.oracles.solver import Budget
from zerolab.play.engine import play_schedule
from zerolab.play.schedule import ScheduledGame
from zerolab.play.worker import Setup
from zerolab.rules import host
from zerolab.rules.interface import Game
from zerolab.rules.interface import actions as actions_of

_PLY_LIMIT = 1 << 15  # a ply is kept in 16 bits


class DatasetSettings(Settings):
    """Which positions are collected; a game's positions depend on them and its number alone."""

    seed: int = Field(default=0, ge=0, lt=1 << 63)
    """What all random streams derive from."""

    perfect: float = Field(default=0.5, ge=0, le=1)
    """Probability that a ply is a best move; other plies are uniformly random.

    [Clausen2021]: 0.5; its easy test set: 0.9.
    """

    one_per_game: bool = False
    """One random position per game instead of all. [Clausen2021]: all in version 1, one in 2."""

    first_ply: int = Field(default=0, ge=0, lt=_PLY_LIMIT)
    """Before this ply moves are uniformly random, and nothing is solved. [Clausen2021]: 0."""

    last_ply: int = Field(default=_PLY_LIMIT - 1, ge=0, lt=_PLY_LIMIT)
    """Games end after this ply. [Clausen2021]: they are played to their end."""

    nodes: int | None = Field(default=None, ge=1, lt=1 << 63)
    """Positions that take the solver more nodes are left out; None: none are."""

    @property
    def budget(self) -> Budget | None:
        """The solver's budget for each position, None where it has none."""
        return None if self.nodes is None else Budget(nodes=self.nodes)

    @model_validator(mode="after")
    def _not_empty(self) -> DatasetSettings:
        if self.first_ply > self.last_ply:
            raise ValueError(f"plies {self.first_ply}:{self.last_ply}: nothing lies between them")
        return self


class CollectionCounts(NamedTuple):
    """How many games were played, and how many of their positions were left out."""

    games: int = 0
    all_optimal: int = 0
    """Left out because every move is a best one, of those that were looked at."""
    unsolved: int = 0
    """Left out because the oracle's budget was spent."""

    def plus(self, other: CollectionCounts) -> CollectionCounts:
        """Return the sums."""
        return CollectionCounts(*(a + b for a, b in zip(self, other, strict=True)))


class Collection(NamedTuple):
    """The positions of some games, by game and ply."""

    positions: Positions
    counts: CollectionCounts


def collect(game: Game, oracle: Oracle, settings: DatasetSettings, numbers: range) -> Collection:
    """Play the games of these numbers and collect their positions.

    The positions of a game depend on its number alone, provided that what the oracle can solve does
    not depend on what it has solved before.
    """
    new_player, new_collector = ONE_PER_GAME if settings.one_per_game else EVERY_POSITION
    agent = Agent(
        "solver", lambda: new_player(game, oracle, settings.first_ply, settings.perfect), game=game
    )
    schedule = [
        ScheduledGame(number, agent.name, agent.name, number, plies=settings.last_ply + 1)
        for number in numbers
    ]
    setup = Setup(game, [agent], settings.seed, 0, 1, len(schedule), (streams.DATASET_MOVE,))
    collector = new_collector(game, oracle, settings.seed, settings.last_ply)
    play_schedule(setup, [schedule] if schedule else [], moves=[collector])
    rows = sorted(collector.found(), key=lambda row: (row.game, len(row.line)))
    counts = CollectionCounts(len(numbers), collector.all_optimal, collector.unsolved)
    return Collection(_as_positions(game, rows), counts)


def _as_positions(game: Game, rows: list[SolvedPosition]) -> Positions:
    state = host.start(game)
    return Positions(
        game,
        np.array([row.game for row in rows], np.int64),
        np.array([move for row in rows for move in row.line], np.int16),
        np.cumsum([0, *(len(row.line) for row in rows)], dtype=np.int64),
        np.array([row.state for row in rows], np.uint64).reshape(len(rows), len(state)),
        np.array([row.values for row in rows], np.int32).reshape(len(rows), actions_of(game)),
    )
