"""What a paper found, as claims that were written down before anything was measured.

A study states its claims as constants; `judge` compares them with what was found. Nothing else goes
in: a claim whose threshold moves with the data claims nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from zerolab.studies.statistics import LEVEL, Estimate, holm

Direction = Literal["above", "below"]

Word = Literal["holds", "does not hold", "undecided at this scale", "no data"]


@dataclass(frozen=True)
class Claim:
    """A published finding, and the number that decides it."""

    key: str
    """Its short name, such as ``value-loss-best``."""
    text: str
    """The finding in one sentence."""
    source: str
    """Such as ``[Wang2020b, Fig. 5.1]``."""
    statistic: str
    """What is computed, in words: of which runs, in which unit."""
    threshold: float
    direction: Direction
    """On which side of the threshold the statistic lies if the claim holds."""


class Missing(NamedTuple):
    """In place of an estimate: why there is none."""

    note: str
    """Such as ``3 of 32 runs are not finished``."""


@dataclass(frozen=True)
class Verdict:
    """What became of a claim."""

    claim: Claim
    estimate: Estimate | None
    p: float | None
    """Two-sided, that the true statistic is the threshold; None without data."""
    adjusted: float | None
    """`p` adjusted for the number of claims of the study [Holm1979]."""
    word: Word
    note: str = ""
    """What is missing, where there are no data."""

    def as_dict(self) -> dict[str, Any]:
        """Return everything for JSON; ends of intervals that are not known are None."""
        found = self.estimate
        return {
            "key": self.claim.key,
            "claim": self.claim.text,
            "source": self.claim.source,
            "statistic": self.claim.statistic,
            "threshold": self.claim.threshold,
            "direction": self.claim.direction,
            "value": None if found is None else found.value,
            "low": None if found is None else _finite(found.low),
            "high": None if found is None else _finite(found.high),
            "p": self.p,
            "adjusted_p": self.adjusted,
            "verdict": self.word,
            "note": self.note,
        }


def judge(found: Mapping[Claim, Estimate | Missing | None]) -> list[Verdict]:
    """Return a verdict on each of a study's claims, in their order.

    A claim holds, or does not, where its p-value is below 0.05 after Holm's adjustment over all
    claims, those without data included: a verdict must not depend on what is finished. Everything
    else is undecided. Pass every claim of the study: those that are left out would make the others
    look surer than they are.
    """
    keys = [claim.key for claim in found]
    if len(set(keys)) < len(keys):
        raise ValueError(f"claims share a key: {sorted(keys)}")
    known = {
        claim: estimate
        for claim, estimate in found.items()
        if estimate is not None and not isinstance(estimate, Missing)
    }
    p_values = {claim: estimate.p_value(claim.threshold) for claim, estimate in known.items()}
    every = [p_values.get(claim, 1.0) for claim in found]
    adjusted = dict(zip(found, holm(every), strict=True))
    verdicts = []
    for claim, estimate in found.items():
        if claim in known:
            word = _word(claim, known[claim].value, adjusted[claim])
            verdict = Verdict(claim, known[claim], p_values[claim], adjusted[claim], word)
        else:
            note = estimate.note if isinstance(estimate, Missing) else "nothing was measured"
            verdict = Verdict(claim, None, None, None, "no data", note)
        verdicts.append(verdict)
    return verdicts


def _word(claim: Claim, value: float, adjusted: float) -> Word:
    if not adjusted < LEVEL or value == claim.threshold:
        return "undecided at this scale"
    return "holds" if (value > claim.threshold) == (claim.direction == "above") else "does not hold"


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
