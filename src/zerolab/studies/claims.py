"""Verdicts on the claims of a paper.

Claims are constants, fixed before any measurement, because a threshold chosen after seeing the data
would be meaningless. Each claim also states the smallest effect worth knowing, so that a study can
find two methods equal, and a report can tell how large a study would have to be.

The primary claims of a study are one family. A secondary claim, about a single game for example, is
tested only once the primary claim that opens it is decided; all claims with the same opener are a
family. Within a family, p-values are adjusted [Holm1979], and repeated looks at growing data keep
the level [OBrien1979]. In each family, the probability of any wrong verdict is at most 5 %.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from zerolab.report.claims import Claim, Verdict, Word
from zerolab.report.table import Z95
from zerolab.studies.looks import TakenLook, last_level
from zerolab.studies.statistics import LEVEL, ClaimEstimate

_POWER = 0.8


class MissingEstimate(NamedTuple):
    """Reason for a missing estimate."""

    note: str
    """Reason in words, such as ``3 of 32 runs are not finished``."""


Statistics = Mapping[Claim, ClaimEstimate | MissingEstimate | None]
"""Statistic of each claim of a study, or the reason why it is missing."""


class Look(NamedTuple):
    """Look at the claims of a study after some of its planned seeds."""

    taken: tuple[TakenLook, ...] = ()
    """This look and all earlier ones; empty for an only look."""
    seed_count: int = 0
    """Number of seeds so far; 0 if unknown."""
    core_hours: float = 0.0
    """Core hours of these seeds."""
    untested_note: str = ""
    """Reason why nothing is tested; empty at a look."""

    def nominal_level(self, level: float) -> float:
        """Return the level of a test at this look if all looks together have `level`."""
        return last_level(level, self.taken) if self.taken else level


ONLY_LOOK = Look()
"""Look at estimates that belong to no study."""


def judge_claims(
    statistics: Statistics, look: Look = ONLY_LOOK, earlier: Sequence[Verdict] = ()
) -> list[Verdict]:
    """Return a verdict on each claim of a study, in the order of `statistics`.

    `earlier` are the verdicts of the previous look, whose decisions are kept. `statistics` must
    contain all claims of the study, because omitting some would overstate the certainty of the
    others. Claims without data count in the adjustment.

    Raises ValueError if claims share a key or are opened by an unknown claim.
    """
    keys = [claim.key for claim in statistics]
    if len(set(keys)) < len(keys):
        raise ValueError(f"claims share a key: {sorted(keys)}")
    openers = {claim.opened_by for claim in statistics if claim.opened_by}
    primary = {claim.key for claim in statistics if claim.is_primary}
    if not openers <= primary:
        raise ValueError(f"claims are opened by unknown claims: {sorted(openers - primary)}")
    kept = {verdict.claim: verdict for verdict in earlier if verdict.is_decided}
    verdicts: dict[Claim, Verdict] = {}
    for opener in ["", *(key for key in keys if key in openers)]:
        family = {claim: each for claim, each in statistics.items() if claim.opened_by == opener}
        is_open = not opener or any(
            verdict.is_decided for claim, verdict in verdicts.items() if claim.key == opener
        )
        note = look.untested_note or ("" if is_open else "its primary claim is undecided")
        verdicts |= _judge_family(family, look, kept, note)
    return [verdicts[claim] for claim in statistics]


def _judge_family(
    statistics: Statistics, look: Look, kept: Mapping[Claim, Verdict], untested_note: str
) -> dict[Claim, Verdict]:
    """Judge the claims of a family by Holm's step-down procedure.

    `untested_note` is the reason why the family is not tested, or empty.
    """
    estimates = {
        claim: estimate
        for claim, estimate in statistics.items()
        if estimate is not None and not isinstance(estimate, MissingEstimate)
    }
    p_values = {claim: decision_p_values(claim, each) for claim, each in estimates.items()}
    smallest = {claim: min(by_word.values()) for claim, by_word in p_values.items()}
    order = sorted(estimates, key=lambda claim: (claim not in kept, smallest[claim]))
    words: dict[Claim, Word] = {}
    adjusted: dict[Claim, float] = {}
    stopped, largest = bool(untested_note), 0.0
    for rank, claim in enumerate(order):
        if claim in kept:
            continue
        remaining = len(statistics) - rank
        largest = max(largest, min(1.0, remaining * smallest[claim]))
        adjusted[claim] = largest
        level = look.nominal_level(LEVEL / remaining)
        word = _decision(p_values[claim], level)
        stopped = stopped or word is None
        words[claim] = "undecided" if stopped or word is None else word
    verdicts = {}
    for claim, estimate in statistics.items():
        if claim in kept:
            verdicts[claim] = replace(kept[claim], note="decided at an earlier look")
            continue
        if claim not in estimates:
            note = (
                estimate.note if isinstance(estimate, MissingEstimate) else "nothing was measured"
            )
            verdicts[claim] = Verdict(claim, None, None, None, "no data", note)
            continue
        note = f"not tested: {untested_note}" if untested_note else ""
        level = LEVEL / len(statistics)
        verdict = Verdict(
            claim, estimates[claim].interval, smallest[claim], adjusted[claim], words[claim], note,
            power=power(estimates[claim], claim.smallest, level),
        )  # fmt: skip
        verdicts[claim] = _with_needs(verdict, estimates[claim], level, look)
    return verdicts


def decision_p_values(claim: Claim, estimate: ClaimEstimate) -> dict[Word, float]:
    """Return the p-value of every decision about a claim.

    At most one of the decisions is wrong for any true statistic close to its boundary, so that each
    can be tested at the full level. Equality is tested by two one-sided tests [Schuirmann1987].
    """
    threshold, smallest = claim.threshold, claim.smallest
    match claim.direction:
        case "above" | "below":
            is_above = estimate.value > threshold
            word: Word = "holds" if is_above == (claim.direction == "above") else "does not hold"
            return {word: estimate.p_value(threshold), "equal": _equality_p(claim, estimate)}
        case "equal to":
            beyond = math.copysign(smallest, estimate.value - threshold)
            is_beyond = abs(estimate.value - threshold) > smallest
            p = estimate.p_value(threshold + beyond) if is_beyond else 1.0
            return {"holds": _equality_p(claim, estimate), "does not hold": p}
        case "not below" | "not above":
            sign = 1.0 if claim.direction == "not below" else -1.0
            edge = threshold - sign * smallest
            is_good = sign * (estimate.value - edge) > 0.0
            return {"holds" if is_good else "does not hold": estimate.p_value(edge)}


def _equality_p(claim: Claim, estimate: ClaimEstimate) -> float:
    """Return the p-value of the two one-sided tests for a difference below the smallest effect."""
    return max(
        _one_sided_p(estimate, claim.threshold - claim.smallest, 1.0),
        _one_sided_p(estimate, claim.threshold + claim.smallest, -1.0),
    )


def _one_sided_p(estimate: ClaimEstimate, threshold: float, sign: float) -> float:
    """Return the p-value for a statistic above (`sign` 1) or below (-1) the threshold."""
    two_sided = estimate.p_value(threshold)
    if two_sided == 1.0:  # also if the error is unknown
        return 1.0
    half = two_sided / 2.0
    return half if sign * (estimate.value - threshold) > 0.0 else 1.0 - half


def _decision(p_values: Mapping[Word, float], level: float) -> Word | None:
    """Return the first decision that is significant; relations come before equality."""
    return next((word for word, p in p_values.items() if p < level), None)


def power(estimate: ClaimEstimate, effect: float, level: float) -> float | None:
    """Return the probability that a two-sided test at `level` finds a true effect.

    The standard error is that of the estimate; None if it is unknown.
    """
    from scipy.special import stdtr, stdtrit  # noqa: PLC0415  slow to import

    error, freedom = _error_and_freedom(estimate)
    if not math.isfinite(error):
        return None
    if error == 0.0:
        return 1.0
    critical = float(stdtrit(freedom, 1.0 - level / 2.0))
    return float(stdtr(freedom, effect / error - critical))


def _with_needs(verdict: Verdict, estimate: ClaimEstimate, level: float, look: Look) -> Verdict:
    """Add the number of seeds and core hours that would decide an undecided claim."""
    from scipy.special import ndtri  # noqa: PLC0415  slow to import

    error, _ = _error_and_freedom(estimate)
    known = math.isfinite(error) and look.seed_count and not look.untested_note
    if verdict.word != "undecided" or not known:
        return verdict
    distance = float(ndtri(1.0 - level / 2.0) + ndtri(_POWER))
    needed = math.ceil(look.seed_count * (distance * error / verdict.claim.smallest) ** 2)
    needed = max(needed, look.seed_count + 1)
    hours = (needed - look.seed_count) * look.core_hours / look.seed_count
    return replace(verdict, needed_seeds=needed, needed_hours=hours)


def _error_and_freedom(estimate: ClaimEstimate) -> tuple[float, float]:
    """Return the standard error and degrees of freedom, from the interval if there is no other."""
    error, freedom = getattr(estimate, "error", None), getattr(estimate, "freedom", math.inf)
    if error is None:
        interval = estimate.interval
        error = (interval.high - interval.low) / (2.0 * Z95)
    if freedom <= 0:
        return math.inf, 1.0
    return float(error), min(float(freedom), 1e6)
