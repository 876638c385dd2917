"""Verdicts on the claims of a paper.

Claims are constants. A threshold chosen after seeing the data would be meaningless, so claims are
fixed before the runs that test them; docs/decisions/0079 lists the exceptions. Each claim also
states the smallest effect of interest, so a study can conclude that two methods are equal, and a
report can state how large a study would have to be.

The primary claims of a study form one family. A secondary claim, for example about a single game,
is tested only after the primary claim that opens it is decided; all claims with the same gatekeeper
form a family. Within a family, p-values are adjusted [Holm1979], and repeated looks at accumulating
data share the level [OBrien1979]. In each family, the probability of any wrong verdict is at most
5 %.

Tests of other differences between runs, which no claim states, are also here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zerolab.report.claims import Claim, Direction, Verdict, VerdictWord
from zerolab.report.table import Z95
from zerolab.studies.looks import TakenLook, level_at_last_look
from zerolab.studies.statistics import (
    SIGNIFICANCE_LEVEL,
    BinomialEstimate,
    ClaimEstimate,
    StudentEstimate,
)

_POWER = 0.8
_QUANTILES = 1000  # number of quantiles of the estimated standard error
_MAX_DEGREES_OF_FREEDOM = 1e6  # makes Student's t distribution practically normal
_MOST_SEEDS = 1 << 40  # ends the search for the number of seeds needed


class MissingEstimate(NamedTuple):
    """Reason for a missing estimate."""

    reason: str
    """Reason in words, such as ``3 of 32 runs are not finished``."""


ClaimStatistics = Mapping[Claim, ClaimEstimate | MissingEstimate | None]
"""Statistic of each claim of a study, or the reason why it is missing."""


def estimate_unless_missing(
    estimate: Callable[[Sequence[StudentEstimate]], ClaimEstimate],
    parts: Sequence[StudentEstimate | MissingEstimate],
) -> ClaimEstimate | MissingEstimate:
    """Return the joint estimate of `parts`, or the first reason why one of them is missing."""
    known = [part for part in parts if isinstance(part, StudentEstimate)]
    missing = [part for part in parts if isinstance(part, MissingEstimate)]
    return missing[0] if missing else estimate(known)


class Look(NamedTuple):
    """One look at the claims of a study, after some of its planned seeds."""

    taken_looks: tuple[TakenLook, ...] = ()
    """This look and all earlier ones; empty if there is only one look."""
    seed_count: int = 0
    """Number of seeds so far; 0 if unknown."""
    core_hours: float = 0.0
    """Core hours spent on these seeds."""
    untested_note: str = ""
    """Reason why nothing is tested, such as seeds that are still missing; empty at a look."""

    def level_at_this_look(self, level: float) -> float:
        """Return the level of a test at this look, given the total `level` of all looks."""
        return level_at_last_look(level, self.taken_looks) if self.taken_looks else level


SINGLE_LOOK = Look()
"""The only look, for estimates that are not part of a study."""


def judge_claims(
    statistics: ClaimStatistics, look: Look = SINGLE_LOOK, earlier: Sequence[Verdict] = ()
) -> list[Verdict]:
    """Return a verdict on each claim of a study, in the order of `statistics`.

    `earlier` are the verdicts of the previous look; their decisions are kept. `statistics` must
    contain all claims of the study, because omitting some would overstate the certainty of the
    others. Claims without data are included in the adjustment.

    Raises ValueError if claims share a key or are opened by an unknown claim.
    """
    keys = [claim.key for claim in statistics]
    if len(set(keys)) < len(keys):
        raise ValueError(f"claims share a key: {sorted(keys)}")
    gatekeepers = {claim.gatekeeper for claim in statistics if claim.gatekeeper}
    primary = {claim.key for claim in statistics if claim.is_primary}
    if not gatekeepers <= primary:
        raise ValueError(f"claims are opened by unknown claims: {sorted(gatekeepers - primary)}")
    kept = {verdict.claim: verdict for verdict in earlier if verdict.is_decided}
    verdicts: dict[Claim, Verdict] = {}
    for gatekeeper in ["", *(key for key in keys if key in gatekeepers)]:
        family = {
            claim: each for claim, each in statistics.items() if claim.gatekeeper == gatekeeper
        }
        is_open = not gatekeeper or any(
            verdict.is_decided for claim, verdict in verdicts.items() if claim.key == gatekeeper
        )
        note = look.untested_note or ("" if is_open else "its primary claim is undecided")
        verdicts |= _judge_family(family, look, kept, note)
    return [verdicts[claim] for claim in statistics]


def _judge_family(
    statistics: ClaimStatistics, look: Look, kept: Mapping[Claim, Verdict], untested_note: str
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
    words: dict[Claim, VerdictWord] = {}
    adjusted: dict[Claim, float] = {}
    stopped, largest = bool(untested_note), 0.0
    for rank, claim in enumerate(order):
        if claim in kept:
            continue
        remaining = len(statistics) - rank
        largest = max(largest, min(1.0, remaining * smallest[claim]))
        adjusted[claim] = largest
        level = look.level_at_this_look(SIGNIFICANCE_LEVEL / remaining)
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
                estimate.reason if isinstance(estimate, MissingEstimate) else "nothing was measured"
            )
            verdicts[claim] = Verdict(claim, None, None, None, "no data", note)
            continue
        note = f"not tested: {untested_note}" if untested_note else ""
        if not note and words[claim] == "undecided" and smallest[claim] < SIGNIFICANCE_LEVEL:
            note = "not significant after correction"
        total_level = SIGNIFICANCE_LEVEL / len(statistics)
        level = look.level_at_this_look(total_level)
        verdict = Verdict(
            claim, estimates[claim].interval, smallest[claim], adjusted[claim], words[claim], note,
            power=power(estimates[claim], claim, level),
            detectable_effect=detectable_effect(estimates[claim], claim, level),
        )  # fmt: skip
        verdicts[claim] = _with_needs(verdict, estimates[claim], total_level, look)
    return verdicts


def decision_p_values(claim: Claim, estimate: ClaimEstimate) -> dict[VerdictWord, float]:
    """Return the p-value of every decision about a claim.

    For any true statistic, at most one wrong decision has a boundary close to it, so each decision
    can be tested at the full level. Equality is tested by two one-sided tests [Schuirmann1987].
    """
    threshold, smallest = claim.threshold, claim.smallest_effect
    match claim.direction:
        case "above" | "below":
            is_above = estimate.value > threshold
            word: VerdictWord = (
                "holds" if is_above == (claim.direction == "above") else "does not hold"
            )
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
        _one_sided_p(estimate, claim.threshold - claim.smallest_effect, 1.0),
        _one_sided_p(estimate, claim.threshold + claim.smallest_effect, -1.0),
    )


def _one_sided_p(estimate: ClaimEstimate, threshold: float, sign: float) -> float:
    """Return the p-value for a statistic above (`sign` 1) or below (-1) the threshold."""
    two_sided = estimate.p_value(threshold)
    if two_sided == 1.0:  # includes unknown errors
        return 1.0
    half = two_sided / 2.0
    return half if sign * (estimate.value - threshold) > 0.0 else 1.0 - half


def _decision(p_values: Mapping[VerdictWord, float], level: float) -> VerdictWord | None:
    """Return the first significant decision in the order of `p_values`, or None."""
    return next((word for word, p in p_values.items() if p < level), None)


def power(estimate: ClaimEstimate, claim: Claim, level: float) -> float | None:
    """Return the probability of a correct decision if the true effect is the smallest of interest.

    For a claim of *above* or *below*, the true statistic differs from the threshold by the smallest
    effect of interest; for the other relations it equals the threshold. The test is two-sided and
    has significance level `level`, except that equality is decided by two one-sided tests. The
    variability is taken from the estimate. Returns None if it is unknown.
    """
    error, degrees_of_freedom = _error_and_degrees_of_freedom(estimate, claim)
    if not math.isfinite(error):
        return None
    if not level:
        return 0.0
    if error == 0.0:
        return 1.0
    return _found(claim.smallest_effect / error, degrees_of_freedom, claim.direction, level)


def detectable_effect(estimate: ClaimEstimate, claim: Claim, level: float) -> float | None:
    """Return the smallest effect of interest that would give a power of 80 %.

    For a claim of *above* or *below*, this is the smallest true difference from the threshold that
    is found with this probability; for the other relations, it is the smallest difference that is
    excluded with this probability. Returns None if the error is unknown, or if `level` is 0 or too
    small for any decision.
    """
    error, degrees_of_freedom = _error_and_degrees_of_freedom(estimate, claim)
    if not math.isfinite(error):
        return None
    if not level or not math.isfinite(_critical(degrees_of_freedom, claim.direction, level)):
        return None
    return error * _detectable_distance(degrees_of_freedom, claim.direction, level)


@lru_cache(256)
def _detectable_distance(degrees_of_freedom: float, direction: Direction, level: float) -> float:
    """Return the distance, in standard errors, at which the power is 80 %."""
    from scipy.optimize import brentq  # noqa: PLC0415  slow to import

    farthest = 10.0 * (1.0 + _critical(degrees_of_freedom, direction, level))
    return float(
        brentq(
            lambda distance: _found(distance, degrees_of_freedom, direction, level) - _POWER,
            0.0,
            farthest,
        )
    )


def _found(distance: float, degrees_of_freedom: float, direction: Direction, level: float) -> float:
    """Return the power at a distance in standard errors, averaged over the possible errors."""
    from scipy.special import ndtr  # noqa: PLC0415  slow to import

    critical = _critical(degrees_of_freedom, direction, level)
    found = ndtr(distance - critical * _possible_errors(degrees_of_freedom))
    if direction == "equal to":  # both one-sided tests decide
        found = np.maximum(0.0, 2.0 * found - 1.0)
    return float(found.mean())


@lru_cache(256)
def _possible_errors(degrees_of_freedom: float) -> NDArray[np.float64]:
    """Return quantiles of the standard errors that runs may yield, relative to the true error.

    The square of this ratio is distributed as chi-squared, divided by the degrees of freedom.
    """
    from scipy.special import gammaincinv  # noqa: PLC0415  slow to import

    quantiles = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
    errors: NDArray[np.float64] = np.sqrt(
        gammaincinv(degrees_of_freedom / 2.0, quantiles) * 2.0 / degrees_of_freedom
    )
    return errors


def _critical(degrees_of_freedom: float, direction: Direction, level: float) -> float:
    """Return the number of estimated standard errors beyond which a test decides."""
    from scipy.special import stdtrit  # noqa: PLC0415  slow to import

    tail = level if direction == "equal to" else level / 2.0
    # 1 - tail would be rounded, and scipy returns inf instead of -inf for the smallest tails.
    return abs(float(stdtrit(degrees_of_freedom, tail)))


def _with_needs(verdict: Verdict, estimate: ClaimEstimate, level: float, look: Look) -> Verdict:
    """Add the seeds and core hours that would give an undecided claim a power of 80 %.

    Shares of trials are left out: their trials come from one computation or tournament, so more
    seeds add none.
    """
    error, degrees_of_freedom = _error_and_degrees_of_freedom(estimate, verdict.claim)
    known = math.isfinite(error) and look.seed_count and not look.untested_note
    if verdict.word != "undecided" or not known or isinstance(estimate, BinomialEstimate):
        return verdict

    def is_enough(seeds: int) -> bool:
        distance = verdict.claim.smallest_effect / error * math.sqrt(seeds / look.seed_count)
        growth = (seeds - 1) / max(1, look.seed_count - 1)
        freedom = min(degrees_of_freedom * growth, _MAX_DEGREES_OF_FREEDOM)
        return _found(distance, freedom, verdict.claim.direction, level) >= _POWER

    few = look.seed_count
    many = few + 1
    while error and many < _MOST_SEEDS and not is_enough(many):
        few, many = many, 2 * many
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if is_enough(middle) else (middle, many)
    hours = (many - look.seed_count) * look.core_hours / look.seed_count
    return replace(verdict, needed_seeds=many, needed_hours=hours)


def _error_and_degrees_of_freedom(estimate: ClaimEstimate, claim: Claim) -> tuple[float, float]:
    """Return the standard error and degrees of freedom near the threshold of a claim.

    The error of a share depends on the share itself. If an estimate has no standard error, one is
    derived from its interval.
    """
    if isinstance(estimate, BinomialEstimate):
        share = min(max(claim.threshold, 0.0), 1.0)
        variance = share * (1.0 - share) / estimate.trials if estimate.trials else math.inf
        return math.sqrt(variance), _MAX_DEGREES_OF_FREEDOM
    error = getattr(estimate, "standard_error", None)
    degrees_of_freedom = getattr(estimate, "degrees_of_freedom", math.inf)
    if error is None:
        interval = estimate.interval
        error = (interval.high - interval.low) / (2.0 * Z95)
        degrees_of_freedom = math.inf  # the interval already accounts for it
    if degrees_of_freedom <= 0:
        return math.inf, 1.0
    return float(error), min(float(degrees_of_freedom), _MAX_DEGREES_OF_FREEDOM)


def sign_test(differences: ArrayLike) -> float:
    """Return the two-sided p-value of the hypothesis that both signs are equally likely.

    Zeros are ignored. If there are no other numbers, p is 1.
    """
    numbers = np.asarray(differences, np.float64)
    positive, negative = int((numbers > 0).sum()), int((numbers < 0).sum())
    return BinomialEstimate(positive, positive + negative).p_value(0.5)


_MOST_ENUMERATED_SIGNS = 13


def signed_rank_test(differences: ArrayLike) -> float:
    """Return the two-sided p-value of the hypothesis that differences are symmetric around 0.

    The signed-rank test of [Wilcoxon1945] is exact for up to 13 differences, and for up to 50
    without ties. Zeros are ignored. If there are no other numbers, p is 1.
    """
    numbers = np.asarray(differences, np.float64)
    numbers = numbers[numbers != 0.0]
    count = len(numbers)
    if not count:
        return 1.0
    from scipy.stats import rankdata, wilcoxon  # noqa: PLC0415  slow to import

    if count > _MOST_ENUMERATED_SIGNS:
        return float(wilcoxon(numbers).pvalue)
    # Whether SciPy allows for ties depends on its version.
    ranks = rankdata(np.abs(numbers))
    signs = np.arange(2**count)[:, None] >> np.arange(count) & 1
    expected = ranks.sum() / 2
    distance = abs(ranks[numbers > 0].sum() - expected)
    return float(np.mean(np.abs(signs @ ranks - expected) >= distance))


def holm_adjust(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values to control the family-wise error rate [Holm1979]."""
    adjusted, largest = [0.0] * len(p_values), 0.0
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = largest
    return adjusted
