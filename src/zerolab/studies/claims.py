"""Verdicts on the claims of a paper.

Claims are constants, fixed before any measurement, because a threshold chosen after seeing the data
would be meaningless. `judge_claims` compares the claims of a study with its estimates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from zerolab.report.claims import Claim, Verdict, Word
from zerolab.studies.statistics import LEVEL, ClaimEstimate, holm


class MissingEstimate(NamedTuple):
    """Reason why there is no estimate for a claim."""

    note: str
    """Reason in words, such as ``3 of 32 runs are not finished``."""


def judge_claims(
    statistics: Mapping[Claim, ClaimEstimate | MissingEstimate | None],
) -> list[Verdict]:
    """Return a verdict on each claim of a study, in the order of `statistics`.

    A claim is decided if its p-value is below 0.05 after Holm's adjustment over all claims. Claims
    without data count in the adjustment, so the number of finished runs does not affect it.
    `statistics` must contain all claims of the study, because omitting some would overstate the
    certainty of the others.
    """
    keys = [claim.key for claim in statistics]
    if len(set(keys)) < len(keys):
        raise ValueError(f"claims share a key: {sorted(keys)}")
    estimates = {
        claim: estimate
        for claim, estimate in statistics.items()
        if estimate is not None and not isinstance(estimate, MissingEstimate)
    }
    p_values = {claim: estimate.p_value(claim.threshold) for claim, estimate in estimates.items()}
    all_p_values = [p_values.get(claim, 1.0) for claim in statistics]
    adjusted = dict(zip(statistics, holm(all_p_values), strict=True))
    verdicts = []
    for claim, estimate in statistics.items():
        if claim in estimates:
            interval = estimates[claim].interval
            word = _word(claim, estimates[claim].value, adjusted[claim])
            verdict = Verdict(claim, interval, p_values[claim], adjusted[claim], word)
        else:
            note = (
                estimate.note if isinstance(estimate, MissingEstimate) else "nothing was measured"
            )
            verdict = Verdict(claim, None, None, None, "no data", note)
        verdicts.append(verdict)
    return verdicts


def _word(claim: Claim, value: float, adjusted: float) -> Word:
    if not adjusted < LEVEL or value == claim.threshold:
        return "undecided at this scale"
    return "holds" if (value > claim.threshold) == (claim.direction == "above") else "does not hold"
