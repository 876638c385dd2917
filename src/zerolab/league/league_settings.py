"""Settings of a league, with the values of [Clausen2021], and its clock of simulations."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator, model_validator

from zerolab.core.config import Settings
from zerolab.core.errors import quoted
from zerolab.core.processes import available_cores
from zerolab.search.budgets import Allowance, KlGain, KlGainSettings
from zerolab.search.evaluator import ExtraOutput
from zerolab.search.methods import plans_ahead, playouts
from zerolab.search.search_settings import SearchSettings


class ClockSettings(KlGainSettings):
    """Thinking time by Kullback-Leibler divergence, limited by a clock [Clausen2021].

    A player has a clock in every game. Each of its turns adds `increment` simulations to it, and
    the move takes off what it was searched with; it may take all that is left, up to `most`.
    """

    start: int = Field(default=4650, ge=0, le=1_000_000_000)
    """Simulations on a player's clock at the start of a game. [Clausen2021]: 4650."""

    increment: int = Field(default=50, ge=1, le=1_000_000)
    """Simulations that each turn of the player adds, so that every move gets some.
    [Clausen2021]: 50."""

    def check(self, search: SearchSettings) -> None:
        if plans_ahead(search.root.build()):
            raise ValueError(
                f"parameters = threshold: search.root = {quoted(search.root.name)} plans the"
                " simulations of a move ahead; expected parameters without threshold, or another"
                " search.root"
            )

    def new_budget(self, search: SearchSettings, slots: int, actions: int) -> Clock:
        return Clock(self, slots, actions)


class Clock(KlGain):
    """Budget of `ClockSettings`; a slot is one player in one game."""

    def __init__(self, settings: ClockSettings, slots: int, actions: int) -> None:
        super().__init__(settings, slots, actions)
        self._start, self._increment, self._most = settings.start, settings.increment, settings.most
        self.left = np.full(slots, settings.start, np.int64)
        """int64[slots]: simulations left at the last turn, including its increment."""

    def reset(self, slots: NDArray[np.int64]) -> None:
        """Reset the clocks for new games."""
        self.left[slots] = self._start
        self.spent[slots] = 0

    def begin(self, slots: NDArray[np.int64], keys: NDArray[np.uint64]) -> Allowance:
        self.left[slots] += self._increment - self.spent[slots]
        self.most[slots] = np.minimum(self.left[slots], self._most)
        return super().begin(slots, keys)


Parameter = Literal["c", "fpu", "draw_value", "threshold", "check"]
"""Parameters that may evolve: `search.selection.c`, the value of `search.fpu`, `search.draw_value`,
the threshold of the thinking time, and the check parameter."""

Fitness = Literal["results", "novelty", "novelty_of_winner"]

_MAX_THREADS = 64
_Range = Annotated[tuple[float, float], Field(min_length=2, max_length=2)]


class Ranges(Settings):
    """Low and high ends of the parameters, which are the same point, as on a ring."""

    c: _Range = (0.5, 8.0)
    """Of `search.selection.c`. [Clausen2021]: 0.25 to 4 for Q in [0, 1], which is 0.5 to 8 here."""

    fpu: _Range = (-1.0, 1.0)
    """Of the value of `search.fpu`. [Clausen2021]: 0 to 1 for Q in [0, 1]."""

    draw_value: _Range = (-1.0, 1.0)
    """Of `search.draw_value`. [Clausen2021]: 0 to 1 for Q in [0, 1]."""

    threshold: _Range = (-14.0, 1.0)
    """Of `clock.threshold`. [Clausen2021]: -14 to 1."""

    check: _Range = (0.0, 1.0)
    """Range of the check parameter."""

    @model_validator(mode="after")
    def _possible(self) -> Ranges:
        for name, (low, high) in self:
            least, most = _POSSIBLE[name]
            if low >= high:
                raise ValueError(
                    f"{name} = [{low}, {high}] is empty: expected a lower end below the higher one"
                )
            if low < least or high > most:
                raise ValueError(
                    f"{name} = [{low}, {high}]: expected ends from {least:g} to {most:g}"
                )
        return self


_POSSIBLE = {
    "c": (0.0, 1e6),
    "fpu": (-1.0, 1.0),
    "draw_value": (-1.0, 1.0),
    "threshold": (-64.0, 64.0),
    "check": (0.0, 1.0),
}


def _search_of_clausen() -> SearchSettings:
    values: dict[str, Any] = {
        "simulations": 343,
        "selection": {"name": "puct", "c": 3.09},
        "fpu": {"name": "fixed", "value": 0.709},
        "noise": {"fraction": 0.25, "concentration": 20.38},
    }
    return SearchSettings.model_validate(values)


def even(games: int) -> int:
    """Return a number of games; raise ValueError unless it is even."""
    if games % 2:
        raise ValueError(
            f"{games} is odd: expected an even number, since novelty compares two games, such as"
            f" {games + 1}"
        )
    return games


class Evolution(Settings):
    """Individuals of a league and their reproduction."""

    parameters: tuple[Parameter, ...] = Field(
        default=("c", "fpu", "threshold"), min_length=1, max_length=len(_POSSIBLE)
    )
    """Parameters that evolve. The others are those of `search` and `clock`; without the threshold,
    moves get `search.simulations`. [Clausen2021]: c, fpu, draw_value, threshold."""

    ranges: Ranges = Ranges()
    """Ranges in which parameters are drawn and wrap around."""

    optimum: float = Field(default=0.7, ge=0, le=1)
    """Best value of the check parameter. A move is replaced by a random one with a probability of
    twice the parameter's distance from this value, on a ring of length 1."""

    fitness: Fitness = "results"
    """Basis of ratings: results of games, or the number of new positions that they reach, credited
    to both players or to the winner alone. [Clausen2021]: all three."""

    active: int = Field(default=50, ge=2, le=10_000)
    """Active players: those with the highest ratings. [Clausen2021]: 50."""

    parents: int = Field(default=15, ge=1, le=10_000)
    """Players with the highest ratings, who have children when a generation ends.
    [Clausen2021]: 15."""

    children: int = Field(default=2, ge=1, le=1000)
    """Mutants of each parent, which inherit its rating. [Clausen2021]: 2."""

    generation: int = Field(default=1500, ge=2, le=10_000_000)
    """Games of a generation's players before it has children. [Clausen2021]: 1500."""

    first_rating: float = Field(default=1600.0, ge=-1e6, le=1e6)
    """Elo of the first players. [Clausen2021]: 1600."""

    gain: float = Field(default=32.0, gt=0, le=1000)
    """K: largest change of Elo by a game. [Clausen2021]: 32, on the usual scale of 400."""

    clock: ClockSettings = ClockSettings()
    """Thinking time, if the threshold evolves."""

    @field_validator("generation")
    @classmethod
    def _even(cls, games: int) -> int:
        return even(games)

    @model_validator(mode="after")
    def _has_room(self) -> Evolution:
        needed = self.parents * (1 + self.children)
        if needed > self.active:
            raise ValueError(
                f"active = {self.active} has no room for parents = {self.parents} and children ="
                f" {self.children} of each: expected at least {needed}"
            )
        if len(set(self.parameters)) < len(self.parameters):
            raise ValueError(f"parameters = {', '.join(self.parameters)}: expected each once")
        return self


class LeagueSettings(Evolution):
    """Settings of a league: game, network, search and speed, beside those of `Evolution`."""

    game: str
    """name:ROWSxCOLUMNS[:K]"""

    network: str = ""
    """Network of a run with which all players search; empty for none."""

    identity: str = ""
    """Identity of the network's weights."""

    seed: int = Field(default=0, ge=0, lt=1 << 63)
    """Seed of all random streams."""

    temperature_plies: int = Field(default=30, ge=0)
    """Plies at the start of a game whose moves are drawn in proportion to the visits.
    [Clausen2021]: 30."""

    search: SearchSettings = Field(default_factory=_search_of_clausen)
    """Common settings of the players' searches. [Clausen2021]: PUCT, fixed first-play urgency,
    343 simulations, root noise of 0.25 with a concentration of 20.38."""

    parallel_games: int = Field(default=256, ge=1, le=100_000)
    """Games in progress at once, in all threads together. Changes the speed alone."""

    threads: int = Field(
        default_factory=lambda: min(_MAX_THREADS, available_cores()),
        ge=1,
        le=_MAX_THREADS,
        json_schema_extra={"default": "one per core"},
    )
    """Threads that play. Changes the speed alone."""

    batch: int = Field(default=500, ge=2, le=10_000_000)
    """Games between two saves. Changes the speed alone."""

    @field_validator("batch")
    @classmethod
    def _even_batch(cls, games: int) -> int:
        return even(games)

    @model_validator(mode="after")
    def _compatible(self) -> LeagueSettings:
        for name, key, kind, expected in (
            ("c", "selection", self.search.selection.name, "puct"),
            ("fpu", "fpu", self.search.fpu.name, "fixed"),
        ):
            if name in self.parameters and kind != expected:
                raise ValueError(
                    f"search.{key} = {quoted(kind)} has nothing that parameters = {name} could"
                    f" change: expected {quoted(expected)}"
                )
        if "draw_value" in self.parameters and playouts(self.search.leaf_evaluator.build()):
            raise ValueError(
                "parameters = draw_value: playouts do not say how likely draws are; expected"
                ' search.leaf_evaluator = "network"'
            )
        self.search.check_self_play()
        if "threshold" in self.parameters:
            self.clock.check(self.search)
        return self

    @property
    def extra_outputs(self) -> frozenset[ExtraOutput]:
        """Outputs that the searches need beyond priors and values."""
        draws: tuple[ExtraOutput, ...] = ("draws",) if "draw_value" in self.parameters else ()
        return frozenset((*self.search.extra_outputs, *draws))


SPEED_ALONE = ("parallel_games", "threads", "batch")
"""Settings that may change when a league is resumed."""
