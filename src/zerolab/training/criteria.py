"""Gates, warm-start ramps and stop rules.

A gate accepts or rejects candidates, a ramp weights and ends the warm start, and a stop rule ends a
run before its last iteration. Other packages add types to `GATES`, `RAMPS` and `STOP_RULES` from
modules named in the entry-point group ``zerolab.training``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from pydantic import Field, field_validator

from zerolab.core.config import Variant, require_even
from zerolab.core.registry import Registry
from zerolab.ratings.results import Score
from zerolab.training.records import AccuracyRecord, Record, SelfPlayRecord


class Gate(Variant):
    """Base of gates: the games of a candidate against the best network, and the verdict."""

    games: int = Field(default=40, ge=2, le=1_000_000)
    """n: games per iteration, half of them with each colour. [Wang2019], [Wang2020a], [Wang2020b]:
    40 ([Wang2020a] sweeps 20 to 100); [Hongcharoen2018]: 100."""

    openings: int = Field(default=0, ge=0, le=1000)
    """Random plies at the start of a game, which make games differ; each opening is played twice,
    with colours exchanged. The papers: 0, with which two deterministic networks repeat games."""

    @field_validator("games")
    @classmethod
    def _even(cls, games: int) -> int:
        return require_even(games)

    def accepts(self, score: Score, los: float) -> bool:
        """Return True if the candidate replaces the best network.

        `score` is the candidate's score in all games, `los` the likelihood from distinct games that
        it is stronger.
        """
        raise NotImplementedError


GATES: Registry[type[Gate]] = Registry("gate")


class WinRateGate(Gate):
    """Accepts a candidate with wins / (wins + losses) >= u.

    Draws are ignored. Without a decisive game the candidate is rejected, as in [AZG].
    """

    name: Literal["win_rate"] = "win_rate"

    threshold: float = Field(default=0.6, ge=0, le=1)
    """u: the lowest accepted share of wins in decisive games. [Wang2019], [Wang2020a], [Wang2020b]:
    0.6 ([Wang2020a] sweeps 0.5 to 0.7); [Hongcharoen2018]: 0.55."""

    def accepts(self, score: Score, los: float) -> bool:
        decisive = score.wins + score.losses
        return decisive > 0 and score.wins / decisive >= self.threshold


class LosGate(Gate):
    """Accepts a candidate with a sufficient likelihood of superiority.

    The likelihood is that of the [BayesElo] model. Games start from paired random openings, and a
    repeated game counts once; otherwise a few games repeated many times would look like strong
    evidence.
    """

    name: Literal["los"] = "los"

    openings: int = Field(default=4, ge=1, le=1000)
    """Random plies at the start of a game; each opening is played twice, with colours exchanged."""

    min_los: float = Field(default=0.95, ge=0.5, lt=1)
    """The lowest accepted likelihood of superiority."""

    def accepts(self, score: Score, los: float) -> bool:
        return los >= self.min_los


class AlwaysGate(Gate):
    """Accepts every candidate, as in the factorial part of [Wang2020a] and in [Silver2018].

    Games, if there are any, only measure the training Elo.
    """

    name: Literal["always"] = "always"

    games: int = Field(default=0, ge=0, le=1_000_000)
    """Games per iteration. [Wang2020a]: 0."""

    def accepts(self, score: Score, los: float) -> bool:
        return True


for _gate in (WinRateGate, LosGate, AlwaysGate):
    GATES.add(_gate.model_fields["name"].default, _gate)


RAMPS: Registry[type[Variant]] = Registry("ramp")


class MatchSize(NamedTuple):
    """The size of a match between plain search and the search of the warm start."""

    games: int
    openings: int
    """Random plies at the start of every pair of games."""


class Ramp(Variant):
    """Base of ramps: the weight of a warm start in each iteration, and its end at weight 0."""

    @property
    def last(self) -> int | None:
        """The last iteration with a weight above 0, if it is known in advance."""
        return None

    @property
    def match(self) -> MatchSize | None:
        """The match of plain search against the warm start after an iteration, if there is one."""
        return None

    def weight(self, iteration: int) -> float:
        """Return the weight, from 0 to 1, in an iteration counted from 1."""
        raise NotImplementedError

    def is_over(self, los: float) -> bool:
        """Return True if a match ends the warm start, regardless of later weights.

        `los` is the likelihood from that match that plain search is stronger.
        """
        return False


class _LimitedRamp(Ramp):
    """Base of ramps that end after I' iterations."""

    iterations: int = Field(default=5, ge=1)
    """I'. [Wang2020b]: 5."""

    @property
    def last(self) -> int:
        return self.iterations


class LinearRamp(_LimitedRamp):
    """The weight 1 - i / I', i = iteration - 1, while it is above 0 [Wang2020b].

    With I' = 5 that is 1, .8, .6, .4, .2. Rollout, Rave and RoRa, which have no weight, act
    throughout the I' iterations.
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
    """Full weight throughout: the warm start never ends."""

    name: Literal["never"] = "never"

    def weight(self, iteration: int) -> float:
        return 1.0


class AdaptiveRamp(Ramp):
    """Full weight until plain search beats warm-start search [Wang2021a].

    Both play a match after every iteration, with its best network. [Wang2021a] decides by the score
    of an arena, this ramp by the likelihood that plain search is stronger. At 0.95, about one match
    in twenty between equal players ends the warm start, so it ends eventually even if it makes no
    difference.
    """

    name: Literal["adaptive"] = "adaptive"
    games: int = Field(default=40, ge=2, le=1_000_000)
    """Games of a match, half of them with each colour."""
    min_los: float = Field(default=0.95, ge=0.5, lt=1)
    """The likelihood of superiority of plain search at which the warm start ends."""
    openings: int = Field(default=2, ge=1, le=1000)
    """Random plies at the start of a game; each opening is played twice, with colours exchanged."""

    @field_validator("games")
    @classmethod
    def _even(cls, games: int) -> int:
        return require_even(games)

    @property
    def match(self) -> MatchSize:
        return MatchSize(self.games, self.openings)

    def weight(self, iteration: int) -> float:
        return 1.0

    def is_over(self, los: float) -> bool:
        return los >= self.min_los


for _ramp in (LinearRamp, ConstantRamp, EndlessRamp, AdaptiveRamp):
    RAMPS.add(_ramp.model_fields["name"].default, _ramp)


class StopRule(Variant):
    """Base of stop rules.

    A rule reads only the records of metrics.jsonl, so that a resumed run ends where an
    uninterrupted one would.
    """

    @property
    def needs_accuracy(self) -> bool:
        """True for a rule that depends on accuracy on solved positions."""
        return False

    def is_met(self, records: Sequence[Record]) -> bool:
        """Return True if a run ends after the iteration of the last records."""
        raise NotImplementedError


STOP_RULES: Registry[type[StopRule]] = Registry("stop rule")


class NeverStop(StopRule):
    """Never ends a run early."""

    name: Literal["never"] = "never"

    def is_met(self, records: Sequence[Record]) -> bool:
        return False


class NoGainStop(StopRule):
    """Ends a run whose accuracy on solved positions no longer improves, as in [Clausen2021]."""

    name: Literal["no_gain"] = "no_gain"

    iterations: int = Field(default=10, ge=1)
    """Iterations without a new highest accuracy. [Clausen2021]: 10."""

    accuracy: Literal["search_strong", "search_weak", "network_strong", "network_weak"] = (
        "search_strong"
    )
    """The accuracy that has to improve, by its name in metrics.jsonl. [Clausen2021]: search_strong,
    on its hard test set."""

    @property
    def needs_accuracy(self) -> bool:
        return True

    def is_met(self, records: Sequence[Record]) -> bool:
        measured = [each for each in records if isinstance(each, AccuracyRecord)]
        if not measured:
            return False
        best = max(measured, key=lambda each: getattr(each, self.accuracy))  # the first of equals
        return measured[-1].iteration - best.iteration >= self.iterations


class SpentStop(StopRule):
    """Ends a run after a number of evaluations in self-play.

    Runs with different searches or numbers of games can then be compared at equal cost, as in
    [Clausen2021], where every trial of the search over settings had two hours.
    """

    name: Literal["spent"] = "spent"

    evaluations: int = Field(default=1_000_000, ge=1, le=1 << 62)
    """Positions evaluated by the network in self-play after which no further iteration begins. The
    last iteration is completed, so short iterations keep the limit more precisely."""

    def is_met(self, records: Sequence[Record]) -> bool:
        played = (each.evaluated for each in records if isinstance(each, SelfPlayRecord))
        return sum(played) >= self.evaluations


for _stop_rule in (NeverStop, NoGainStop, SpentStop):
    STOP_RULES.add(_stop_rule.model_fields["name"].default, _stop_rule)
