"""Gates, warm-start ramps and stop rules.

A gate accepts or rejects candidates, a ramp sets the weight and the end of the warm start, and a
stop rule can end a run before its last iteration and determine how much of the run is done. Other
packages can add types to `GATES`, `RAMPS` and `STOP_RULES` in modules named in the
``zerolab.training`` entry-point group.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from pydantic import Field, field_validator

from zerolab.core.config import VariantSettings
from zerolab.core.registry import Registry
from zerolab.play.pairings import require_even_games
from zerolab.ratings.results import MatchScore
from zerolab.training.optimization import CompletedShares
from zerolab.training.records import AccuracyRecord, Record, SelfPlayRecord


class Gate(VariantSettings):
    """Base class of gates, which decide whether a candidate replaces the best network."""

    games: int = Field(default=40, ge=2, le=1_000_000)
    """n: games per iteration, half of them with each colour. [Wang2019], [Wang2020a], [Wang2020b]:
    40 ([Wang2020a] sweeps 20 to 100); [Hongcharoen2018]: 100."""

    openings: int = Field(default=0, ge=0, le=1000)
    """Random plies at the start of each game, for variety. Each opening is played twice, with
    colours swapped. The papers use 0, so two deterministic networks keep playing the same
    games."""

    @field_validator("games")
    @classmethod
    def _require_even(cls, games: int) -> int:
        return require_even_games(games)

    def accepts(self, score: MatchScore, los: float) -> bool:
        """Return True if the candidate replaces the best network.

        `score` is the candidate's score over all games. `los` is the likelihood that the candidate
        is stronger, estimated from the effective number of games.
        """
        raise NotImplementedError


GATES: Registry[type[Gate]] = Registry("gate")


class WinRateGate(Gate):
    """Gate that accepts a candidate if wins / (wins + losses) >= u.

    Draws are ignored. If no game is decisive, the candidate is rejected, as in [AZG]. The Leiden
    papers write "more than u", but the framework that they ran, [AZG], accepts at exactly u.
    """

    name: Literal["win_rate"] = "win_rate"

    threshold: float = Field(default=0.6, ge=0, le=1)
    """u: smallest accepted share of wins among decisive games. [Wang2019], [Wang2020a],
    [Wang2020b]: 0.6 ([Wang2020a] sweeps 0.5 to 0.7)."""

    def accepts(self, score: MatchScore, los: float) -> bool:
        decisive = score.wins + score.losses
        return decisive > 0 and score.wins / decisive >= self.threshold


class StrictWinRateGate(WinRateGate):
    """Gate that accepts a candidate if wins / (wins + losses) > u, as in [Hongcharoen2018].

    `win_rate` differs from this gate only in accepting a candidate at exactly u.
    """

    name: Literal["strict_win_rate"] = "strict_win_rate"  # type: ignore[assignment]

    threshold: float = Field(default=0.55, ge=0, lt=1)
    """u: share of wins among decisive games that a candidate must exceed. [Hongcharoen2018]:
    0.55."""

    def accepts(self, score: MatchScore, los: float) -> bool:
        decisive = score.wins + score.losses
        return decisive > 0 and score.wins / decisive > self.threshold


class LosGate(Gate):
    """Gate that accepts a candidate if its likelihood of superiority is high enough.

    The likelihood is computed with the [BayesElo] model. Games start from paired random openings.
    Repeated games add no evidence (see `zerolab.ratings.results.EffectiveScore`).
    """

    name: Literal["los"] = "los"

    openings: int = Field(default=4, ge=1, le=1000)
    """Random plies at the start of each game. Each opening is played twice, with colours
    swapped."""

    min_los: float = Field(default=0.95, ge=0.5, lt=1)
    """Smallest accepted likelihood of superiority."""

    def accepts(self, score: MatchScore, los: float) -> bool:
        return los >= self.min_los


class AlwaysGate(Gate):
    """Gate that accepts every candidate, as in [Silver2018] and the factorial part of [Wang2020a].

    Games, if any, only measure the training Elo.
    """

    name: Literal["always"] = "always"

    games: int = Field(default=0, ge=0, le=1_000_000)
    """Games per iteration. [Wang2020a]: 0."""

    def accepts(self, score: MatchScore, los: float) -> bool:
        return True


for _gate in (WinRateGate, StrictWinRateGate, LosGate, AlwaysGate):
    GATES.add(_gate.model_fields["name"].default, _gate)


RAMPS: Registry[type[VariantSettings]] = Registry("ramp")


class MatchSize(NamedTuple):
    """Size of a match between plain search and warm-start search."""

    games: int
    opening_plies: int
    """Random plies at the start of every pair of games."""


class Ramp(VariantSettings):
    """Base class of ramps, which set the warm start's weight; at weight 0, the warm start ends."""

    @property
    def last_scheduled_iteration(self) -> int | None:
        """The last iteration with a weight above 0; None if unknown in advance."""
        return None

    @property
    def match_size(self) -> MatchSize | None:
        """Size of the match, if any, between plain and warm-start search after each iteration."""
        return None

    def weight(self, iteration: int) -> float:
        """Return the weight in an iteration, counted from 1; the weight is in [0, 1]."""
        raise NotImplementedError

    def is_over(self, los: float) -> bool:
        """Return True if the result of a match ends the warm start, regardless of later weights.

        `los` is the likelihood that plain search is stronger, estimated from the match.
        """
        return False


class _LimitedRamp(Ramp):
    """Base class of ramps that end after I' iterations."""

    iterations: int = Field(default=5, ge=1)
    """I': length of the warm start in iterations. [Wang2020b]: 5."""

    @property
    def last_scheduled_iteration(self) -> int:
        return self.iterations


class LinearRamp(_LimitedRamp):
    """Linearly decreasing weight 1 - i / I' for i = iteration - 1 < I' [Wang2020b].

    For I' = 5 the weights are 1, 0.8, 0.6, 0.4 and 0.2. The variants Rollout, Rave and RoRa have no
    weight and stay active for all I' iterations.
    """

    name: Literal["linear"] = "linear"

    def weight(self, iteration: int) -> float:
        return max(0, self.iterations + 1 - iteration) / self.iterations


class ConstantRamp(_LimitedRamp):
    """Full weight in the first I' iterations."""

    name: Literal["constant"] = "constant"

    def weight(self, iteration: int) -> float:
        return 1.0 if iteration <= self.iterations else 0.0


class EndlessRamp(Ramp):
    """Full weight in every iteration, so the warm start never ends."""

    name: Literal["never"] = "never"

    def weight(self, iteration: int) -> float:
        return 1.0


class AdaptiveRamp(Ramp):
    """Warm start until plain search beats warm-start search [Wang2021a].

    After every iteration, the two searches play a match, both with the best network. [Wang2021a]
    compares their scores; this ramp uses the likelihood that plain search is stronger. At 0.95,
    about one match in twenty between equally strong searches ends the warm start, so it ends
    eventually even if plain search never becomes stronger. The weight is 1, or decreases over
    `iterations`.
    """

    name: Literal["adaptive"] = "adaptive"
    games: int = Field(default=40, ge=2, le=1_000_000)
    """Games per match, half of them with each colour."""
    min_los: float = Field(default=0.95, ge=0.5, lt=1)
    """Smallest likelihood that plain search is stronger for which the warm start ends."""
    openings: int = Field(default=2, ge=1, le=1000)
    """Random plies at the start of each game. Each opening is played twice, with colours
    swapped."""

    iterations: int | None = Field(default=None, ge=1)
    """I' of a linearly decreasing weight, as with `linear`, but staying at 1 / I' from iteration I'
    onwards; by default, the weight is 1 throughout. Without a decrease, WRo is Rollout, and WRoRa
    is RoRa."""

    @field_validator("games")
    @classmethod
    def _require_even(cls, games: int) -> int:
        return require_even_games(games)

    @property
    def match_size(self) -> MatchSize:
        return MatchSize(self.games, self.openings)

    def weight(self, iteration: int) -> float:
        if self.iterations is None:
            return 1.0
        return max(1, self.iterations + 1 - iteration) / self.iterations

    def is_over(self, los: float) -> bool:
        return los >= self.min_los


for _ramp in (LinearRamp, ConstantRamp, EndlessRamp, AdaptiveRamp):
    RAMPS.add(_ramp.model_fields["name"].default, _ramp)


class StopRule(VariantSettings):
    """Base class of stop rules.

    A rule depends only on the records in metrics.jsonl, so a resumed run ends in the same iteration
    as an uninterrupted one.
    """

    @property
    def needs_accuracy(self) -> bool:
        """True if the rule requires measurements of accuracy on solved positions."""
        return False

    def is_met(self, records: Sequence[Record]) -> bool:
        """Return True if the run ends after the iteration of the last record."""
        raise NotImplementedError

    def completed_share(self, records: Sequence[Record]) -> float:
        """Return the share of the run that is done after these records.

        The share grows from 0 to about 1 at the end of the run, so that schedules can span a run
        whose number of iterations is unknown. It is always 0 if the rule cannot tell.
        """
        return 0.0

    def seconds_left(self, records: Sequence[Record]) -> float | None:
        """Return the seconds of training left after these records; None if time is unlimited."""
        return None

    def completed_shares(self, records: Sequence[Record], iteration: int) -> CompletedShares:
        """Return the shares of the run before and after an iteration.

        The shares depend only on earlier iterations, so they are the same in a resumed run.
        """
        former, before = (
            self.completed_share([record for record in records if record.iteration < number])
            for number in (iteration - 1, iteration)
        )
        return CompletedShares(before, before + (before - former))


STOP_RULES: Registry[type[StopRule]] = Registry("stop rule")


class NeverStop(StopRule):
    """No early stop."""

    name: Literal["never"] = "never"

    def is_met(self, records: Sequence[Record]) -> bool:
        return False


class NoGainStop(StopRule):
    """Rule that ends a run once its accuracy on solved positions stops rising [Clausen2021]."""

    name: Literal["no_gain"] = "no_gain"

    iterations: int = Field(default=10, ge=1)
    """Number of iterations without a new maximum after which the run ends. [ClausenCode]: 10."""

    accuracy: Literal["search_strong", "search_weak", "network_strong", "network_weak"] = (
        "search_strong"
    )
    """Accuracy that must improve, named as in metrics.jsonl. [Clausen2021]: search_strong,
    on its hard test set."""

    @property
    def needs_accuracy(self) -> bool:
        return True

    def is_met(self, records: Sequence[Record]) -> bool:
        measured = [record for record in records if isinstance(record, AccuracyRecord)]
        if not measured:
            return False
        best = max(measured, key=lambda record: getattr(record, self.accuracy))  # the first maximum
        return measured[-1].iteration - best.iteration >= self.iterations


class EvaluationLimitStop(StopRule):
    """Rule that ends a run after a number of network evaluations in self-play.

    With this rule, runs with different searches or numbers of games can be compared at equal cost,
    regardless of the load on the machine.
    """

    name: Literal["spent"] = "spent"

    evaluations: int = Field(default=1_000_000, ge=1, le=1 << 62)
    """Number of network evaluations in self-play after which no further iteration begins. The last
    iteration is completed, so the limit is exceeded by up to one iteration."""

    def is_met(self, records: Sequence[Record]) -> bool:
        return _evaluations(records) >= self.evaluations

    def completed_share(self, records: Sequence[Record]) -> float:
        return _evaluations(records) / self.evaluations


def _evaluations(records: Iterable[Record]) -> int:
    """Return the number of network evaluations in self-play."""
    return sum(record.evaluated for record in records if isinstance(record, SelfPlayRecord))


_SECONDS_PER_HOUR = 3600.0


class TimeLimitStop(StopRule):
    """Rule that ends a run as close as possible to a number of hours of training.

    An iteration begins only if more than half of it is expected to fall within the limit, assuming
    that it takes as long as the last one. The first iteration always begins. The limit applies to
    all time between the start and the end of training, including gates and measurements. It does
    not apply to the final evaluation, to the time between an interruption and the next command, or
    to stages that were killed and had to be repeated.

    [ClausenCode] limits every trial of its hyperparameter search to two hours. On a different or
    busier machine, a run with this rule has a different number of iterations.
    """

    name: Literal["hours"] = "hours"

    hours: float = Field(default=1.0, gt=0, le=1_000_000)
    """Hours of training; ``stop=1.5h`` is a short form. `iterations` is still the maximum number of
    iterations. [ClausenCode]: 2."""

    def is_met(self, records: Sequence[Record]) -> bool:
        last = records[-1].iteration if records else 0
        length = elapsed_training_seconds(record for record in records if record.iteration == last)
        return elapsed_training_seconds(records) + length / 2 >= self.hours * _SECONDS_PER_HOUR

    def completed_share(self, records: Sequence[Record]) -> float:
        return elapsed_training_seconds(records) / _SECONDS_PER_HOUR / self.hours

    def seconds_left(self, records: Sequence[Record]) -> float:
        return self.hours * _SECONDS_PER_HOUR - elapsed_training_seconds(records)


def elapsed_training_seconds(records: Iterable[Record]) -> float:
    """Return the seconds spent on training.

    A record without elapsed time, such as one of an earlier version, counts with its duration.
    """
    return sum(
        record.wall_seconds if record.wall_elapsed_seconds is None else record.wall_elapsed_seconds
        for record in records
    )


for _stop_rule in (NeverStop, NoGainStop, EvaluationLimitStop, TimeLimitStop):
    STOP_RULES.add(_stop_rule.model_fields["name"].default, _stop_rule)
