"""What a paper found, as claims that were written down before anything was measured.

A study states its claims as constants; `judge` compares them with what was found. Nothing else goes
in: a claim whose threshold moves with the data claims nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from zerolab.report.claims import Claim, Verdict, Word
from zerolab.studies.statistics import LEVEL, Estimate, holm


class Missing(NamedTuple):
    """In place of an estimate: why there is none."""

    note: str
    """Such as ``3 of 32 runs are not finished``."""


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
