"""The settings of self-play; every docstring gives the papers' values."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from zerolab.core.config import Choice, Settings, choice_among
from zerolab.core.registry import import_modules, load_plugins
from zerolab.core.threads import available_cores
from zerolab.play.service.settings import BigTree, Retry, Service
from zerolab.search.budgets.interface import BUDGETS

import_modules("zerolab.search.budgets")
load_plugins("search")

_MOST_THREADS = 64


class Episodes(Choice):
    """`selfplay.episodes` games per iteration, each of them played to its end by one network."""

    name: Literal["episodes"] = "episodes"


class Continuous(Choice):
    """Games that go on from one iteration to the next, so that batches stay full to the end.

    Each of `selfplay.parallel_games` lanes plays equally many plies per iteration. A game that ends
    is followed by the next one in its lane; one that does not end goes on in the next iteration,
    with the network and the search then in force and with new trees. It gives examples in the
    iteration in which it ends. `selfplay.episodes` has no effect.
    """

    name: Literal["continuous"] = "continuous"

    plies: int = Field(default=30, ge=1, le=1_000_000)
    """Plies per lane and iteration, so that an iteration has `selfplay.parallel_games` times as
    many positions."""


_SCHEDULES: dict[str, type[Choice]] = {
    "episodes": Episodes,
    "continuous": Continuous,
    "service": Service,
    "retry": Retry,
    "big_tree": BigTree,
}


class SelfPlaySettings(Settings):
    """How the games of an iteration are played."""

    episodes: int = Field(default=50, ge=1, le=1_000_000)
    """E: games per iteration. [Wang2019], [Wang2020a], [Wang2020b]: 50 ([Wang2020a] sweeps 10 to
    100)."""

    schedule: choice_among(_SCHEDULES) = Field(default_factory=Episodes)  # type: ignore[valid-type]
    """Which games an iteration plays. [Wang2019], [Wang2020a], [Wang2020b]: episodes."""

    budget: choice_among(BUDGETS) = Field(default_factory=BUDGETS["fixed"])  # type: ignore[valid-type]
    """How many simulations a move gets. [Wang2019], [Wang2020a], [Wang2020b]: fixed."""

    sampled_plies: int = Field(default=14, ge=0)
    """Plies at the start of a game whose moves are drawn in proportion to the visits; later moves
    are the most visited ones. The papers' T' counts plies from 1 and samples while ply < T', so
    this is T' - 1. [Wang2019], [Wang2020a], [Wang2020b]: 14, T' = 15 ([Wang2020a] sweeps 9 to 19,
    T' = 10 to 20); [Clausen2021]: 30."""

    random_plies: int = Field(default=0, ge=0, le=1000)
    """Most plies at the start of a game that are played at random, with a search of one simulation,
    and are never learnt from; each game draws its number of them evenly from 0 to this. A network
    then learns positions that good play would never reach. [Wang2019], [Wang2020a], [Wang2020b],
    [Clausen2021]: 0."""

    early_targets: Literal["visits", "values"] = "visits"
    """The policy target of sampled plies: the visit distribution ([Wang2019], [Wang2020a],
    [Wang2020b]), or the values (Q + 1) / 2 of visited actions, normalised, as line 3 of
    [Wang2019, Alg. 4] may mean."""

    late_targets: Literal["move", "visits", "values"] = "move"
    """The policy target of later plies: the move played alone, as in [WangCode] and [AZG], or one
    of those above."""

    parallel_games: int = Field(default=512, ge=1)
    """Games in progress at once, in all threads together. Does not change which episodes are played
    where the network answers a position equally in every batch: in bfloat16, but not in float32
    (docs/decisions/0002). With a continuous schedule it is the number of lanes; with a service, of
    positions searched at once."""

    threads: int = Field(
        default_factory=lambda: min(_MOST_THREADS, available_cores()),
        ge=1,
        le=_MOST_THREADS,
        json_schema_extra={"default": "one per core"},
    )
    """Threads that play, so that search and network overlap; by default one for each core that this
    process may use, at most 64."""

    @model_validator(mode="after")
    def _schedule_fits(self) -> SelfPlaySettings:
        schedule = self.schedule
        if isinstance(schedule, Retry | BigTree) and self.random_plies:
            raise ValueError(
                f"random_plies = {self.random_plies}: games of schedule = "
                f'"{schedule.name}" begin in their own way; expected 0'
            )
        if isinstance(schedule, BigTree) and self.late_targets == "move":
            raise ValueError(
                'late_targets = "move": moves of schedule = "big_tree" explore and are not to be'
                ' learnt; expected late_targets = "visits" or "values"'
            )
        return self
