"""The settings of learning from solved positions."""

from __future__ import annotations

from pydantic import model_validator

from zerolab.core.config import Settings
from zerolab.networks.heads.interface import TargetOptions

TARGETS = TargetOptions(0, "visits", "visits", 0.0)
"""The target of the policy is what `label_facts` calls policies, that of values the outcome."""


class SupervisedSettings(Settings):
    """Solved positions to learn from, in place of self-play."""

    positions: str = ""
    """A file of the run's game that `zerolab dataset` has written; self-play where it is empty.
    80 % of its games are learnt from, 10 % are for validation and 10 % for the test
    [Clausen2021]."""

    digest: str = ""
    """The digest of its content, which must stay as it is; `zerolab fit` fills it in."""

    @model_validator(mode="after")
    def _both(self) -> SupervisedSettings:
        if bool(self.positions) != bool(self.digest):
            raise ValueError("expected positions and digest together: zerolab fit FILE sets both")
        return self
