"""When a warm start ends: the weight of an enhancement in every iteration (FACTS 2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from pydantic import Field, field_validator

from zerolab.core.config import Choice, require_even
from zerolab.core.registry import Registry

SCHEDULES: Registry[type[Choice]] = Registry("schedule")


class WarmStartMatch(NamedTuple):
    """An arena between plain network search and the enhanced player."""

    games: int
    openings: int


class Schedule(Choice):
    """Base of schedules; an enhancement is in use while its weight is above 0."""

    @property
    def last(self) -> int | None:
        """The last iteration with a weight above 0, if it is known in advance."""
        return None

    def weight(self, iteration: int) -> float:
        """Return the weight, from 0 to 1, in an iteration counted from 1."""
        raise NotImplementedError

    def is_over(self, los: Callable[[WarmStartMatch], float]) -> bool:
        """Tell after an iteration whether the enhancement has had its day, whatever the weights.

        `los` plays a warm_start_match with the network now in force, and returns how likely it
        shows plain search to be the stronger player.
        """
        return False


class _Limited(Schedule):
    """Base of schedules that are over after I' iterations."""

    iterations: int = Field(default=5, ge=1)
    """I'. W: 5."""

    @property
    def last(self) -> int:
        """See `Schedule.last`."""
        return self.iterations


class Linear(_Limited):
    """The weight 1 - i / I', i = iteration - 1, while that is above 0: 1, .8, .6, .4, .2 in W.

    Rollout, Rave and RoRa, which have no weight, are in use throughout the I' iterations.
    """

    name: Literal["linear"] = "linear"

    def weight(self, iteration: int) -> float:
        """See `Schedule.weight`."""
        return max(0, self.iterations + 1 - iteration) / self.iterations


class Fixed(_Limited):
    """The full weight in the first I' iterations."""

    name: Literal["fixed"] = "fixed"

    def weight(self, iteration: int) -> float:
        """See `Schedule.weight`."""
        return 1.0 if iteration <= self.iterations else 0.0


class Never(Schedule):
    """The full weight to the end: the warm start never ends."""

    name: Literal["never"] = "never"

    def weight(self, iteration: int) -> float:
        """See `Schedule.weight`."""
        return 1.0


class Adaptive(Schedule):
    """The full weight until plain network search beats the enhanced player (arXiv 2105.06136).

    They meet after every iteration, with its network. The follow-up of W decides by an arena; here
    it is decided by how likely the games show plain search to be stronger. With 0.95, two players
    of one strength are told apart in about one warm_start_match of twenty, so the warm start ends some day
    even where nothing is lost or gained by it.
    """

    name: Literal["adaptive"] = "adaptive"
    games: int = Field(default=40, ge=2, le=1_000_000)
    """Of a warm_start_match, half with each colour."""
    los: float = Field(default=0.95, ge=0.5, lt=1)
    """What the likelihood of superiority of plain search has to reach."""
    openings: int = Field(default=2, ge=0, le=1000)
    """Random plies at the start of a game, so that games differ; each opening is played twice."""

    @field_validator("games")
    @classmethod
    def _even(cls, games: int) -> int:
        return require_even(games)

    def weight(self, iteration: int) -> float:
        """See `Schedule.weight`."""
        return 1.0

    def is_over(self, los: Callable[[WarmStartMatch], float]) -> bool:
        """See `Schedule.is_over`."""
        return los(WarmStartMatch(self.games, self.openings)) >= self.los


for _kind in (Linear, Fixed, Never, Adaptive):
    SCHEDULES.add(_kind.model_fields["name"].default, _kind)
