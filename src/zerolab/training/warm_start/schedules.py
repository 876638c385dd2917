"""When a warm start ends: its weight in every iteration."""

from __future__ import annotations

from typing import Literal, NamedTuple

from pydantic import Field, field_validator

from zerolab.core.config import Choice, require_even
from zerolab.core.registry import Registry

SCHEDULES: Registry[type[Choice]] = Registry("schedule")


class MatchSize(NamedTuple):
    """The size of a match between plain search and the search of the warm start."""

    games: int
    openings: int
    """Random plies at the start of every pair of games."""


class Schedule(Choice):
    """Base of schedules; the warm start acts while its weight is above 0."""

    @property
    def last(self) -> int | None:
        """The last iteration with a weight above 0, if it is known in advance."""
        return None

    @property
    def match(self) -> MatchSize | None:
        """What plain search plays against the warm start after an iteration, if anything."""
        return None

    def weight(self, iteration: int) -> float:
        """Return the weight, from 0 to 1, in an iteration counted from 1."""
        raise NotImplementedError

    def is_over(self, los: float) -> bool:
        """Return whether the warm start ends after a match, whatever the weights to come.

        `los` is the likelihood, by the match, that plain search is stronger.
        """
        return False


class _Limited(Schedule):
    """Base of schedules that are over after I' iterations."""

    iterations: int = Field(default=5, ge=1)
    """I'. [Wang2020b]: 5."""

    @property
    def last(self) -> int:
        """See `Schedule.last`."""
        return self.iterations


class Linear(_Limited):
    """The weight 1 - i / I', i = iteration - 1, while that is above 0 [Wang2020b].

    With I' = 5 that is 1, .8, .6, .4, .2. Rollout, Rave and RoRa, which have no weight, act
    throughout the I' iterations.
    """

    name: Literal["linear"] = "linear"

    def weight(self, iteration: int) -> float:
        """See `Schedule.weight`."""
        return max(0, self.iterations + 1 - iteration) / self.iterations


class Constant(_Limited):
    """The full weight in the first I' iterations."""

    name: Literal["constant"] = "constant"

    def weight(self, iteration: int) -> float:
        """See `Schedule.weight`."""
        return 1.0 if iteration <= self.iterations else 0.0


class Never(Schedule):
    """The full weight throughout: the warm start never ends."""

    name: Literal["never"] = "never"

    def weight(self, iteration: int) -> float:
        """See `Schedule.weight`."""
        return 1.0


class Adaptive(Schedule):
    """The full weight until plain search beats the search of the warm start [Wang2021a].

    They meet after every iteration, with its best network. [Wang2021a] decides by the score of an
    arena; here it takes a likelihood of superiority of plain search. At 0.95, one match in about
    twenty between equal players ends the warm start, so it ends some day even where it makes no
    difference.
    """

    name: Literal["adaptive"] = "adaptive"
    games: int = Field(default=40, ge=2, le=1_000_000)
    """Games of a match, half of them with each colour."""
    min_los: float = Field(default=0.95, ge=0.5, lt=1)
    """The likelihood of superiority of plain search that ends the warm start."""
    openings: int = Field(default=2, ge=1, le=1000)
    """Random plies at the start of a game; each opening is played twice, with colours exchanged."""

    @field_validator("games")
    @classmethod
    def _even(cls, games: int) -> int:
        return require_even(games)

    @property
    def match(self) -> MatchSize:
        """See `Schedule.match`."""
        return MatchSize(self.games, self.openings)

    def weight(self, iteration: int) -> float:
        """See `Schedule.weight`."""
        return 1.0

    def is_over(self, los: float) -> bool:
        """See `Schedule.is_over`."""
        return los >= self.min_los


for _kind in (Linear, Constant, Never, Adaptive):
    SCHEDULES.add(_kind.model_fields["name"].default, _kind)
