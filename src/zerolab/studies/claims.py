"""Verdicts on the claims of a paper.

Claims are constants, written down before anything is measured; `judge` compares them with the
estimates of a study. A threshold that moved with the data would claim nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from zerolab.report.claims import Claim, Verdict, Word
from zerolab.studies.statistics import LEVEL, Estimate, holm


class Missing(NamedTuple):
    """Reason why there is no estimate."""

    note: str
    """Such as ``3 of 32 runs are not finished``."""


def judge(found: Mapping[Claim, Estimate | Missing | None]) -> list[Verdict]:
    """Return a verdict on each claim of a study, in the order given.

    A claim holds, or does not hold, if its p-value is below 0.05 after Holm's adjustment over all
    claims; otherwise it is undecided. Claims without data count in the adjustment, so that a
    verdict does not depend on how much is finished. Pass every claim of the study: leaving some out
    would make the others look more certain than they are.
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
    adjusted = dict(zip(found, holm([p_values.get(claim, 1.0) for claim in found]), strict=True))
    verdicts = []
    for claim, estimate in found.items():
        if claim in known:
            word = _word(claim, known[claim].value, adjusted[claim])
            verdict = Verdict(claim, known[claim].interval, p_values[claim], adjusted[claim], word)
        else:
            note = estimate.note if isinstance(estimate, Missing) else "nothing was measured"
            verdict = Verdict(claim, None, None, None, "no data", note)
        verdicts.append(verdict)
    return verdicts


def _word(claim: Claim, value: float, adjusted: float) -> Word:
    if not adjusted < LEVEL or value == claim.threshold:
        return "undecided at this scale"
    return "holds" if (value > claim.threshold) == (claim.direction == "above") else "does not hold"
