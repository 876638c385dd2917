"""League settings, with the values from [Clausen2021], and the simulation clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator, model_validator

from zerolab.core.config import Settings
from zerolab.core.errors import UserError, quoted
from zerolab.core.processes import available_cores
from zerolab.search.budgets import KlGainBudget, KlGainSettings, SimulationAllowance
from zerolab.search.evaluator import ExtraOutput
from zerolab.search.methods import has_fixed_schedule, playouts_per_leaf
from zerolab.search.search_settings import SearchSettings


class ClockSettings(KlGainSettings):
    """Thinking time controlled by the Kullback-Leibler divergence and a clock [Clausen2021].

    Each player has a clock in every game, which counts simulations instead of seconds. Every turn
    adds `increment` simulations, and the simulations used for the move are subtracted. A move uses
    at most `most` simulations, and no more than are left.
    """

    threshold: float = Field(default=-8.0, ge=-64, le=64)
    """Without effect: every player has its own threshold, from `ranges.threshold`."""

    start: int = Field(default=4650, ge=0, le=1_000_000_000)
    """Simulations on a player's clock at the start of a game. [Clausen2021]: 4650."""

    increment: int = Field(default=50, ge=1, le=1_000_000)
    """Simulations added to the clock at each turn of the player, so that every move can use some.
    [Clausen2021]: 50."""

    def check(self, search: SearchSettings) -> None:
        if has_fixed_schedule(search.root.build()):
            raise ValueError(
                f"parameters = threshold: search.root = {quoted(search.root.name)} plans all"
                " simulations of a move in advance; expected parameters without threshold, or a"
                " different search.root"
            )

    def new_budget(self, search: SearchSettings, slots: int, actions: int) -> SimulationClock:
        return SimulationClock(self, slots, actions)


class SimulationClock(KlGainBudget):
    """Budget of `ClockSettings`; each slot is for one player in one game."""

    def __init__(self, settings: ClockSettings, slots: int, actions: int) -> None:
        super().__init__(settings, slots, actions)
        self._start, self._increment, self._most = settings.start, settings.increment, settings.most
        self.simulations_left = np.full(slots, settings.start, np.int64)
        """int64[slots]: simulations left at the most recent turn, after the increment."""

    def reset(self, slots: NDArray[np.int64]) -> None:
        """Reset the clocks for new games."""
        self.simulations_left[slots] = self._start
        self.spent_simulations[slots] = 0

    def initial_allowance(
        self, slots: NDArray[np.int64], keys: NDArray[np.uint64]
    ) -> SimulationAllowance:
        self.simulations_left[slots] += self._increment - self.spent_simulations[slots]
        self.max_simulations[slots] = np.minimum(self.simulations_left[slots], self._most)
        return super().initial_allowance(slots, keys)


ParameterName = Literal["c", "fpu", "draw_value", "threshold", "check"]
"""Parameters that can evolve: `search.selection.c`, the value of `search.fpu`, `search.draw_value`,
the threshold of the thinking time, and the check parameter."""

SETTINGS_OF_PARAMETERS: Mapping[str, ParameterName] = {
    "clock": "threshold", "optimum": "check",
    **{f"ranges.{name}": name for name in get_args(ParameterName)},
}  # fmt: skip
"""Settings, with all keys below them, that have an effect only if the parameter evolves."""

UNUSED_THRESHOLD = "clock.threshold"
"""Setting without effect: every player has its own threshold if the threshold evolves, and
otherwise no player has a clock. Removing it would change the digests of published designs."""

THRESHOLD_REMEDY = "ranges.threshold, with threshold among the parameters"
"""Settings that messages recommend instead of `UNUSED_THRESHOLD`."""

_EVOLVED_SETTINGS: Mapping[str, ParameterName] = {
    "search.selection.c": "c", "search.fpu.value": "fpu", "search.draw_value": "draw_value",
}  # fmt: skip
"""Settings that have no effect if the parameter evolves."""

Fitness = Literal["results", "novelty", "novelty_of_winner"]

_MAX_THREADS = 64
_Range = Annotated[tuple[float, float], Field(min_length=2, max_length=2)]


class ParameterRanges(Settings):
    """Cyclic ranges of the parameters: values wrap around from the upper to the lower end."""

    c: _Range = (0.5, 8.0)
    """Range of `search.selection.c`. [Clausen2021]: 0.25 to 4 for Q in [0, 1], which is 0.5 to 8
    here."""

    fpu: _Range = (-1.0, 1.0)
    """Range of the value of `search.fpu`. [Clausen2021]: 0 to 1 for Q in [0, 1]."""

    draw_value: _Range = (-1.0, 1.0)
    """Range of `search.draw_value`. [Clausen2021]: 0 to 1 for Q in [0, 1]."""

    threshold: _Range = (-14.0, 1.0)
    """Range of a player's threshold: the base-2 logarithm of the divergence, in bits, at or below
    which its search of a move ends. [Clausen2021]: -14 to 1."""

    check: _Range = (0.0, 1.0)
    """Range of the check parameter."""

    @model_validator(mode="after")
    def _within_limits(self) -> ParameterRanges:
        for name, (low, high) in self:
            minimum, maximum = _LIMITS[name]
            if low >= high:
                raise ValueError(
                    f"{name} = [{low}, {high}] is empty: expected the lower end below the upper end"
                )
            if low < minimum or high > maximum:
                raise ValueError(
                    f"{name} = [{low}, {high}]: expected ends from {minimum:g} to {maximum:g}"
                )
        return self


_LIMITS = {
    "c": (0.0, 1e6),
    "fpu": (-1.0, 1.0),
    "draw_value": (-1.0, 1.0),
    "threshold": (-64.0, 64.0),
    "check": (0.0, 1.0),
}


def _clausen_search() -> SearchSettings:
    values: dict[str, Any] = {
        "simulations": 343,
        "selection": {"name": "puct", "c": 3.09},
        "fpu": {"name": "fixed", "value": 0.709},
        "noise": {"fraction": 0.25, "concentration": 20.38},
    }
    return SearchSettings.model_validate(values)


def require_even(games: int) -> int:
    """Return `games`; raise ValueError unless it is even."""
    if games % 2:
        raise ValueError(
            f"{games} is odd: expected an even number, such as {games + 1}, because novelty"
            " compares games in pairs"
        )
    return games


class EvolutionSettings(Settings):
    """Settings of a league's players and their evolution."""

    parameters: tuple[ParameterName, ...] = Field(
        default=("c", "fpu", "threshold"), min_length=1, max_length=len(_LIMITS)
    )
    """Parameters that evolve. Other parameters have the values in `search`; if the threshold does
    not evolve, moves use `search.simulations` instead of `clock`. [Clausen2021]: c, fpu,
    draw_value, threshold."""

    ranges: ParameterRanges = ParameterRanges()
    """Parameter ranges for initial values and wrap-around."""

    optimum: float = Field(default=0.7, ge=0, le=1)
    """Best value of the check parameter. A move is replaced by a random move with a probability of
    twice the parameter's distance from this value, on a circle of length 1."""

    fitness: Fitness = "results"
    """Basis of ratings: game results, or the number of new positions, credited to both players or
    only to the winner. [Clausen2021]: all three."""

    active: int = Field(default=50, ge=2, le=10_000)
    """Number of active players, which are those with the highest ratings. [Clausen2021]: 50."""

    parents: int = Field(default=15, ge=1, le=10_000)
    """Number of highest-rated players that produce children at the end of a generation.
    [Clausen2021]: 15."""

    children: int = Field(default=2, ge=1, le=1000)
    """Number of mutated children per parent. A child inherits the parent's rating. [Clausen2021]:
    2."""

    generation: int = Field(default=1500, ge=2, le=10_000_000)
    """Number of games per generation. [Clausen2021]: 1500."""

    first_rating: float = Field(default=1600.0, ge=-1e6, le=1e6)
    """Initial Elo of the players of the first generation. [Clausen2021]: 1600."""

    gain: float = Field(default=32.0, gt=0, le=1000)
    """K-factor of Elo: maximum rating change per game. [Clausen2021]: 32, on the usual scale of
    400."""

    clock: ClockSettings = ClockSettings()
    """Thinking time if the threshold evolves."""

    @field_validator("generation")
    @classmethod
    def _require_even(cls, games: int) -> int:
        return require_even(games)

    @model_validator(mode="after")
    def _has_room(self) -> EvolutionSettings:
        needed = self.parents * (1 + self.children)
        if needed > self.active:
            raise ValueError(
                f"active = {self.active} is too small for parents = {self.parents} with children ="
                f" {self.children} each: expected at least {needed}"
            )
        if len(set(self.parameters)) < len(self.parameters):
            raise ValueError(
                f"parameters = {', '.join(self.parameters)}: expected each parameter once"
            )
        return self


class LeagueSettings(EvolutionSettings):
    """Settings of a league: game, network, search and speed, in addition to `EvolutionSettings`."""

    game: str
    """Game specification, name:ROWSxCOLUMNS[:K]."""

    network: str = ""
    """Network of a run, shared by all players; empty if there is none."""

    identity: str = ""
    """Identity of the run's agent, which depends on the network's weights."""

    seed: int = Field(default=0, ge=0, lt=1 << 63)
    """Seed of all random streams."""

    temperature_plies: int = Field(default=30, ge=0)
    """Number of initial plies whose moves are sampled in proportion to visits. [Clausen2021]:
    30."""

    search: SearchSettings = Field(default_factory=_clausen_search)
    """Search settings shared by all players. [Clausen2021]: PUCT, fixed first-play urgency, 343
    simulations, root noise of 0.25 with a concentration of 20.38."""

    parallel_games: int = Field(default=256, ge=1, le=100_000)
    """Number of games in progress, over all threads. Affects only the speed if network outputs do
    not depend on the batch (docs/decisions/0002)."""

    threads: int = Field(
        default_factory=lambda: min(_MAX_THREADS, available_cores()),
        ge=1,
        le=_MAX_THREADS,
        json_schema_extra={"default": "one per core"},
    )
    """Number of game threads. Affects only the speed, under the same condition as
    `parallel_games`."""

    batch: int = Field(default=500, ge=2, le=10_000_000)
    """Number of games between saves. Affects only the speed, like `parallel_games`."""

    @field_validator("batch")
    @classmethod
    def _even_batch(cls, games: int) -> int:
        return require_even(games)

    @model_validator(mode="after")
    def _compatible(self) -> LeagueSettings:
        for name, key, kind, expected in (
            ("c", "selection", self.search.selection.name, "puct"),
            ("fpu", "fpu", self.search.fpu.name, "fixed"),
        ):
            if name in self.parameters and kind != expected:
                raise ValueError(
                    f"search.{key} = {quoted(kind)} does not use parameters = {name}:"
                    f" expected {quoted(expected)}"
                )
        if "draw_value" in self.parameters and playouts_per_leaf(
            self.search.leaf_evaluator.build()
        ):
            raise ValueError(
                "parameters = draw_value: playouts provide no draw probabilities; expected"
                ' search.leaf_evaluator = "network"'
            )
        self.search.check_self_play()
        if "threshold" in self.parameters:
            self.clock.check(self.search)
        return self

    @property
    def extra_outputs(self) -> frozenset[ExtraOutput]:
        """Evaluator outputs that the searches need in addition to priors and values."""
        draws: tuple[ExtraOutput, ...] = ("draws",) if "draw_value" in self.parameters else ()
        return frozenset((*self.search.extra_outputs, *draws))


CHANGEABLE_LEAGUE_SETTINGS = ("parallel_games", "threads", "batch")
"""Settings that may change when a league is resumed."""


def require_effects(settings: LeagueSettings, keys: Iterable[str]) -> None:
    """Raise UserError for a dotted key that has no effect in a league with these settings."""
    evolving, fraction = settings.parameters, settings.search.noise.fraction
    parameters = f"parameters = {', '.join(evolving)}"
    for key in keys:
        if key == UNUSED_THRESHOLD:
            raise UserError(f"{key} has no effect with {parameters}: expected {THRESHOLD_REMEDY}")
        for prefix, parameter in SETTINGS_OF_PARAMETERS.items():
            if parameter not in evolving and f"{key}.".startswith(f"{prefix}."):
                raise UserError(
                    f"{key} has no effect with {parameters}: expected {parameter} among them"
                )
        if _EVOLVED_SETTINGS.get(key) in evolving:
            raise UserError(
                f"{key} has no effect with {parameters}: expected"
                f" ranges.{_EVOLVED_SETTINGS[key]}, because it evolves"
            )
        if not fraction and key.startswith("search.noise.") and not key.endswith(".fraction"):
            raise UserError(
                f"{key} has no effect with search.noise.fraction = 0: expected a larger fraction"
            )
