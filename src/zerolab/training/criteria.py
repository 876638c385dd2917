"""Gates, warm-start ramps and stop rules.

Another package adds one by registering it in `GATES` from a module that the entry-point group
``zerolab.training`` names.

A rule looks at nothing but what metrics.jsonl says, so that a resumed run decides as one that was
never stopped. Another package adds one by registering it in `STOP_RULES` from a module that the
entry-point group ``zerolab.training`` names.
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
    """Base of gates: the games that candidate and best network play, and the verdict on them."""

    games: int = Field(default=40, ge=2, le=1_000_000)
    """n: games per iteration, half of them with each colour. [Wang2019], [Wang2020a], [Wang2020b]:
    40 ([Wang2020a] sweeps 20 to 100); [Hongcharoen2018]: 100."""

    openings: int = Field(default=0, ge=0, le=1000)
    """Random plies at the start of a game, so that games differ; each opening is played twice, with
    colours exchanged. The papers: 0, which lets two networks without randomness repeat games."""

    @field_validator("games")
    @classmethod
    def _even(cls, games: int) -> int:
        return require_even(games)

    def accepts(self, score: Score, los: float) -> bool:
        """Return whether the candidate replaces the best network.

        `score` is the candidate's in all games, `los` the likelihood that it is stronger, judged
        from distinct games.
        """
        raise NotImplementedError


GATES: Registry[type[Gate]] = Registry("gate")


class WinRateGate(Gate):
    """Accepts a candidate that wins a share of the decisive games.

    Accepted if wins / (wins + losses) >= u: draws are ignored, and without a decisive game the
    candidate is rejected, as in [AZG].
    """

    name: Literal["win_rate"] = "win_rate"

    threshold: float = Field(default=0.6, ge=0, le=1)
    """u: the least share of the decisive games that a candidate has to win. [Wang2019],
    [Wang2020a], [Wang2020b]: 0.6 ([Wang2020a] sweeps 0.5 to 0.7);
    [Hongcharoen2018]: 0.55."""

    def accepts(self, score: Score, los: float) -> bool:
        """See `Gate.accepts`."""
        decisive = score.wins + score.losses
        return decisive > 0 and score.wins / decisive >= self.threshold


class LosGate(Gate):
    """Accepts a candidate that its games show to be stronger with some likelihood.

    The likelihood of superiority is that of the model of [BayesElo]. Games start from paired random
    openings, and a repeated game counts once: otherwise a few games, played again and again, would
    pass for much evidence.
    """

    name: Literal["los"] = "los"

    openings: int = Field(default=4, ge=1, le=1000)
    """Random plies at the start of a game; each opening is played twice, with colours exchanged."""

    min_los: float = Field(default=0.95, ge=0.5, lt=1)
    """The likelihood of superiority that a candidate needs."""

    def accepts(self, score: Score, los: float) -> bool:
        """See `Gate.accepts`."""
        return los >= self.min_los


class AlwaysGate(Gate):
    """Accepts every candidate, as in the factorial part of [Wang2020a] and in [Silver2018].

    Games, if there are any, only measure the training Elo.
    """

    name: Literal["always"] = "always"

    games: int = Field(default=0, ge=0, le=1_000_000)
    """Games per iteration. [Wang2020a]: 0."""

    def accepts(self, score: Score, los: float) -> bool:
        """See `Gate.accepts`."""
        return True


for _gate in (WinRateGate, LosGate, AlwaysGate):
    GATES.add(_gate.model_fields["name"].default, _gate)


RAMPS: Registry[type[Variant]] = Registry("schedule")


class MatchSize(NamedTuple):
    """The size of a match between plain search and the search of the warm start."""

    games: int
    openings: int
    """Random plies at the start of every pair of games."""


class Ramp(Variant):
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


class _LimitedRamp(Ramp):
    """Base of schedules that are over after I' iterations."""

    iterations: int = Field(default=5, ge=1)
    """I'. [Wang2020b]: 5."""

    @property
    def last(self) -> int:
        """See `Schedule.last`."""
        return self.iterations


class LinearRamp(_LimitedRamp):
    """The weight 1 - i / I', i = iteration - 1, while that is above 0 [Wang2020b].

    With I' = 5 that is 1, .8, .6, .4, .2. Rollout, Rave and RoRa, which have no weight, act
    throughout the I' iterations.
    """

    name: Literal["linear"] = "linear"

    def weight(self, iteration: int) -> float:
        """See `Schedule.weight`."""
        return max(0, self.iterations + 1 - iteration) / self.iterations


class ConstantRamp(_LimitedRamp):
    """The full weight in the first I' iterations."""

    name: Literal["constant"] = "constant"

    def weight(self, iteration: int) -> float:
        """See `Schedule.weight`."""
        return 1.0 if iteration <= self.iterations else 0.0


class EndlessRamp(Ramp):
    """The full weight throughout: the warm start never ends."""

    name: Literal["never"] = "never"

    def weight(self, iteration: int) -> float:
        """See `Schedule.weight`."""
        return 1.0


class AdaptiveRamp(Ramp):
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


for _ramp in (LinearRamp, ConstantRamp, EndlessRamp, AdaptiveRamp):
    RAMPS.add(_ramp.model_fields["name"].default, _ramp)


class StopRule(Variant):
    """Base of rules."""

    @property
    def needs_accuracy(self) -> bool:
        """Whether the rule rests on accuracy on solved positions."""
        return False

    def is_met(self, records: Sequence[Record]) -> bool:
        """Return whether a run ends after the iteration whose records are the last ones."""
        raise NotImplementedError


STOP_RULES: Registry[type[StopRule]] = Registry("stop rule")


class NeverStop(StopRule):
    """Every iteration is run."""

    name: Literal["never"] = "never"

    def is_met(self, records: Sequence[Record]) -> bool:
        """See `StopRule.is_met`."""
        return False


class NoGainStop(StopRule):
    """Ends a run whose accuracy on solved positions no longer grows, as in [Clausen2021]."""

    name: Literal["no_gain"] = "no_gain"

    iterations: int = Field(default=10, ge=1)
    """Iterations without a higher accuracy than the best one before. [Clausen2021]: 10."""

    accuracy: Literal["search_strong", "search_weak", "network_strong", "network_weak"] = (
        "search_strong"
    )
    """The accuracy that has to grow, as metrics.jsonl names it. [Clausen2021]: search_strong, on
    its hard test set."""

    @property
    def needs_accuracy(self) -> bool:
        """See `StopRule.needs_accuracy`."""
        return True

    def is_met(self, records: Sequence[Record]) -> bool:
        """See `StopRule.is_met`."""
        measured = [each for each in records if isinstance(each, AccuracyRecord)]
        if not measured:
            return False
        best = max(measured, key=lambda each: getattr(each, self.accuracy))  # the first of equals
        return measured[-1].iteration - best.iteration >= self.iterations


class SpentStop(StopRule):
    """Ends a run once its self-play has cost so much, whatever the settings make of that.

    Runs with other searches or other numbers of games can then be compared at equal cost, as in
    [Clausen2021], which gave every trial of its search over settings two hours.
    """

    name: Literal["spent"] = "spent"

    evaluations: int = Field(default=1_000_000, ge=1, le=1 << 62)
    """Positions evaluated by the network in self-play, after which no further iteration begins. The
    last iteration is played to its end, so have many that are small."""

    def is_met(self, records: Sequence[Record]) -> bool:
        """See `StopRule.is_met`."""
        played = (each.evaluated for each in records if isinstance(each, SelfPlayRecord))
        return sum(played) >= self.evaluations


for _stop_rule in (NeverStop, NoGainStop, SpentStop):
    STOP_RULES.add(_stop_rule.model_fields["name"].default, _stop_rule)
