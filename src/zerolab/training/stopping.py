"""When a run ends before its last iteration: one type per rule.

A rule looks at nothing but what metrics.jsonl says, so that a resumed run decides as one that was
never stopped. Another package adds one by registering it in `STOP_RULES` from a module that the
entry-point group ``zerolab.training`` names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from zerolab.core.config import Choice
from zerolab.core.registry import Registry
from zerolab.training.records import AccuracyRecord, Record, SelfPlayRecord


class StopRule(Choice):
    """Base of rules."""

    @property
    def needs_accuracy(self) -> bool:
        """Whether the rule rests on accuracy on solved positions."""
        return False

    def is_met(self, records: Sequence[Record]) -> bool:
        """Return whether a run ends after the iteration whose records are the last ones."""
        raise NotImplementedError


STOP_RULES: Registry[type[StopRule]] = Registry("stop rule")


class Never(StopRule):
    """Every iteration is run."""

    name: Literal["never"] = "never"

    def is_met(self, records: Sequence[Record]) -> bool:
        """See `StopRule.is_met`."""
        return False


class NoGain(StopRule):
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


class Spent(StopRule):
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


for _kind in (Never, NoGain, Spent):
    STOP_RULES.add(_kind.model_fields["name"].default, _kind)
