"""Linear mixed model of runs: one fixed mean per variant, and seeds as random blocks.

Runs with the same seed share the initial network and, in a tournament per seed, their opponents, so
their results are correlated. The model of a game is::

    y[variant, seed] = mean[variant] + block[seed] + error

with independent normal blocks and errors. The model is fitted by restricted maximum likelihood
(REML) [Patterson1971]. The error variances of several games are shrunk towards each other by
empirical Bayes [Smyth2004], which borrows degrees of freedom from all games.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zerolab.report.table import Interval
from zerolab.studies.claims import MissingEstimate
from zerolab.studies.design import FactorLevel
from zerolab.studies.finished_work import TrainedRun
from zerolab.studies.joint_estimates import RelativeSpread, SpreadRatio
from zerolab.studies.results import Results
from zerolab.studies.statistics import SIGNIFICANCE_LEVEL, StudentEstimate, weighted_sum

# Limits the block variance to about 10^6 error variances, because the inverse of the design loses
# precision beyond it. If blocks vary even more, errors are overestimated.
_LARGEST_LOG_RATIO = 14.0
_TINY = 1e-12  # errors below this share of the largest value are rounding errors

ValuesByVariant = Mapping[Any, Mapping[Any, float]]
"""Measured values by variant and seed. Seeds can be missing from some variants."""


class ShrunkVariances(NamedTuple):
    """Variances of several groups, shrunk towards a common prior variance."""

    variances: list[float]
    """Posterior variance of each group."""
    degrees_of_freedom: list[float]
    """Degrees of freedom of each posterior variance."""
    prior_variance: float
    prior_degrees_of_freedom: float
    """Degrees of freedom of the prior; infinite if the variances differ only by chance."""


def shrink_variances(variances: ArrayLike, degrees_of_freedom: ArrayLike) -> ShrunkVariances:
    """Shrink independent variance estimates towards each other [Smyth2004, section 6].

    Each group has a positive variance and its degrees of freedom. The prior is estimated from the
    mean and the variance of the log variances. If these vary no more than expected by chance, all
    groups receive the pooled variance. No group receives more degrees of freedom than all groups
    have together.
    """
    observed = np.asarray(variances, np.float64)
    degrees = np.asarray(degrees_of_freedom, np.float64)
    total = float(degrees.sum())
    prior, prior_freedom = _prior(observed, degrees)
    if math.isinf(prior_freedom):
        return ShrunkVariances([prior] * len(observed), [total] * len(observed), prior, math.inf)
    posterior = (prior_freedom * prior + degrees * observed) / (prior_freedom + degrees)
    return ShrunkVariances(
        posterior.tolist(),
        np.minimum(prior_freedom + degrees, total).tolist(),
        prior,
        prior_freedom,
    )


def _prior(observed: NDArray[np.float64], degrees: NDArray[np.float64]) -> tuple[float, float]:
    """Return the prior variance and its degrees of freedom."""
    from scipy.special import digamma, polygamma  # noqa: PLC0415  slow to import

    pooled = float((degrees * observed).sum() / degrees.sum())
    if len(observed) < 2:
        return pooled, math.inf
    logs = np.log(observed) - digamma(degrees / 2) + np.log(degrees / 2)
    excess = float(logs.var(ddof=1) - polygamma(1, degrees / 2).mean())
    if excess <= 0.0:
        return pooled, math.inf
    prior_freedom = 2.0 * _inverse_trigamma(excess)
    prior = math.exp(logs.mean() + float(digamma(prior_freedom / 2)) - math.log(prior_freedom / 2))
    return prior, prior_freedom


def _inverse_trigamma(value: float) -> float:
    """Solve trigamma(x) = value for a positive value by Newton's method."""
    from scipy.special import polygamma  # noqa: PLC0415  slow to import

    x = 0.5 + 1.0 / value
    for _ in range(50):
        trigamma = float(polygamma(1, x))
        step = trigamma * (1.0 - trigamma / value) / float(polygamma(2, x))
        x += step
        if abs(step) < 1e-10 * x:
            break
    return x


@dataclass(frozen=True)
class BlockModel:
    """Fitted model of the runs of a game."""

    variants: tuple[Hashable, ...]
    means: NDArray[np.float64]
    """float64[variants]: estimated means."""
    unscaled_covariance: NDArray[np.float64]
    """float64[variants, variants]: covariance of the means divided by the error variance."""
    error_variance: float
    """Variance of the errors."""
    degrees_of_freedom: float
    """Degrees of freedom of the error variance: runs minus variants minus blocks plus groups of
    variants connected by common seeds, usually one group; larger after shrinkage."""
    block_variance: float
    """Variance of the blocks."""

    def contrast(self, weights: Mapping[Any, float]) -> StudentEstimate:
        """Return a weighted sum of means; the weights of the variants must add up to 0.

        Raises ValueError if they do not, and KeyError for an unknown variant.
        """
        if abs(sum(weights.values())) > 1e-9:
            raise ValueError(f"the weights {dict(weights)} do not add up to 0")
        vector = np.zeros(len(self.variants))
        for variant, weight in weights.items():
            if variant not in self.variants:
                raise KeyError(variant)
            vector[self.variants.index(variant)] = weight
        if self.degrees_of_freedom <= 0:
            return StudentEstimate(float(vector @ self.means), math.inf, 0)
        error = math.sqrt(self.error_variance * float(vector @ self.unscaled_covariance @ vector))
        return StudentEstimate(float(vector @ self.means), error, self.degrees_of_freedom)


def fit_block_model(values: ValuesByVariant) -> BlockModel:
    """Fit the model to measured values; raise ValueError if a variant has no values."""
    variants = tuple(values)
    if not variants or not all(values.values()):
        raise ValueError("expected at least one run per variant")
    seeds = list(dict.fromkeys(seed for by_seed in values.values() for seed in by_seed))
    present = np.array([[seed in values[variant] for variant in variants] for seed in seeds])
    table = np.array([[values[variant].get(seed, 0.0) for variant in variants] for seed in seeds])
    runs = int(present.sum())
    fit = _Fit(table, present)
    degrees_of_freedom = runs - len(variants) - len(seeds) + _components(values, seeds)
    ratio = fit.best_ratio() if degrees_of_freedom > 0 and len(seeds) > 1 else 0.0
    means, unscaled, squares = fit.at(ratio)
    largest = max(abs(value) for by_seed in values.values() for value in by_seed.values())
    variance = squares / (runs - len(variants)) if runs > len(variants) else math.inf
    if variance <= (_TINY * largest) ** 2:
        variance = 0.0
    return BlockModel(variants, means, unscaled, variance, degrees_of_freedom, ratio * variance)


def _components(values: ValuesByVariant, seeds: Sequence[Hashable]) -> int:
    """Return the number of groups of variants that are connected by common seeds."""
    group = {variant: {seed for seed in seeds if seed in values[variant]} for variant in values}
    groups: list[set[Hashable]] = []
    for seeds_of_variant in group.values():
        touching = [each for each in groups if each & seeds_of_variant]
        groups = [each for each in groups if each not in touching]
        groups.append(set().union(seeds_of_variant, *touching))
    return len(groups)


class _Fit:
    """Generalised least squares for a given ratio of block variance to error variance.

    The covariance of a block of n runs is V = I + ratio 11'. Its inverse is
    I - ratio / (1 + ratio n) 11'.
    """

    def __init__(self, table: NDArray[np.float64], present: NDArray[np.bool_]) -> None:
        """Prepare a table, float64[blocks, variants], with 0 where a run is not `present`."""
        self._values = table
        self._present = present.astype(np.float64)
        self._sizes = self._present.sum(axis=1)
        self._freedom = int(present.sum()) - present.shape[1]

    def at(self, ratio: float) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
        """Return the means, their unscaled covariance, and the weighted sum of squared errors."""
        weights = ratio / (1.0 + ratio * self._sizes)
        weighted = self._present * weights[:, None]
        unscaled = np.linalg.inv(np.diag(self._present.sum(axis=0)) - self._present.T @ weighted)
        means = unscaled @ (self._values.sum(axis=0) - self._values.sum(axis=1) @ weighted)
        residuals = self._values - self._present * means
        squares = (residuals**2).sum() - weights @ residuals.sum(axis=1) ** 2
        return means, unscaled, float(squares)

    def best_ratio(self) -> float:
        """Return the ratio that maximises the restricted likelihood."""
        from scipy.optimize import minimize_scalar  # noqa: PLC0415  slow to import

        bounds = (-_LARGEST_LOG_RATIO, _LARGEST_LOG_RATIO)
        best = minimize_scalar(lambda log: self._deviance(math.exp(log)), bounds=bounds,
                               method="bounded", options={"xatol": 1e-8})  # fmt: skip
        return math.exp(best.x) if best.fun < self._deviance(0.0) else 0.0

    def _deviance(self, ratio: float) -> float:
        """Return minus twice the restricted log-likelihood, up to a constant."""
        _, unscaled, squares = self.at(ratio)
        log_determinants = np.log1p(ratio * self._sizes).sum() - np.linalg.slogdet(unscaled)[1]
        return float(self._freedom * math.log(max(squares, 1e-300)) + log_determinants)


class PerGameModels(NamedTuple):
    """Models of several games, with error variances shrunk towards each other."""

    models: Mapping[Hashable, BlockModel]
    degrees_of_freedom: float
    """Total degrees of freedom of all error variances, before shrinkage."""

    def contrast(
        self, weights: Mapping[Any, float], games: Sequence[Hashable] = ()
    ) -> StudentEstimate:
        """Return the mean over `games`, by default all, of a contrast between variants."""
        chosen = games or tuple(self.models)
        shares = {variant: weight / len(chosen) for variant, weight in weights.items()}
        return self.sum_of_contrasts(dict.fromkeys(chosen, shares))

    def sum_of_contrasts(
        self, weights_by_game: Mapping[Any, Mapping[Any, float]]
    ) -> StudentEstimate:
        """Return the sum of contrasts between variants, each within a game.

        The degrees of freedom follow [Satterthwaite1946] but do not exceed those of all games
        together, because shrunk variances share them.
        """
        contrasts = [
            self.models[game].contrast(weights) for game, weights in weights_by_game.items()
        ]
        total = weighted_sum([(1.0, each) for each in contrasts])
        return total._replace(
            degrees_of_freedom=min(total.degrees_of_freedom, self.degrees_of_freedom)
        )


def fit_per_game_models(values: Mapping[Any, Mapping[Any, Mapping[Any, float]]]) -> PerGameModels:
    """Fit a model per game and shrink the error variances of all games towards each other.

    `values` are by game, variant and seed.
    """
    models = {game: fit_block_model(of_game) for game, of_game in values.items()}
    estimated = {
        game: model
        for game, model in models.items()
        if model.degrees_of_freedom > 0 and model.error_variance > 0.0
    }
    total_freedom = sum(model.degrees_of_freedom for model in models.values())
    if len(estimated) < 2:
        return PerGameModels(models, total_freedom)
    shrunk = shrink_variances(
        [model.error_variance for model in estimated.values()],
        [model.degrees_of_freedom for model in estimated.values()],
    )
    shrunk_by_game = zip(estimated, shrunk.variances, shrunk.degrees_of_freedom, strict=True)
    for game, variance, degrees in shrunk_by_game:
        models[game] = replace(estimated[game], error_variance=variance, degrees_of_freedom=degrees)
    return PerGameModels(models, total_freedom)


_Choices = Sequence[Sequence[tuple[int, StudentEstimate]]]
"""Estimates by choice, each with the number by which its p-value is multiplied."""


class RankedLead(NamedTuple):
    """Lead of a level over its closest rival in the part where this lead has a given rank.

    To show that the lead with rank k of n parts is above a threshold, one must reject, for every
    choice of n - k + 1 parts with a rival in each, that all these leads are at most the threshold.
    The mean of the leads or a single lead can do so; the two tests share the level.

    To show that the lead is below a threshold, one must reject, for every choice of k parts, that
    the leads over all rivals in these parts are at least the threshold. The mean lead over one
    rival or a single lead can do so. The interval contains the thresholds that are not rejected.
    """

    value: float
    leads_by_choice: _Choices
    """Leads by choice; in each choice, one must be above the threshold."""
    negated_leads_by_choice: _Choices
    """Negated leads by choice; in each choice, one must be above the negated threshold."""

    @property
    def interval(self) -> Interval:
        """Lead with its 95 % confidence interval."""
        return Interval(
            self.value, _lower_end(self.leads_by_choice), -_lower_end(self.negated_leads_by_choice)
        )

    def p_value(self, threshold: float) -> float:
        """Return the two-sided p-value of the hypothesis that the lead is the threshold."""
        below = _p_above(self.negated_leads_by_choice, -threshold)
        return min(1.0, 2.0 * _p_above(self.leads_by_choice, threshold), 2.0 * below)


def _lower_end(choices: _Choices) -> float:
    return min(
        max(each.value - each.margin(SIGNIFICANCE_LEVEL / count) for count, each in choice)
        for choice in choices
    )


def _p_above(choices: _Choices, threshold: float) -> float:
    """Return the one-sided p-value for a value above the threshold in every choice."""
    return max(
        min(
            count * each.p_value(threshold) / 2.0 if each.value > threshold else 1.0
            for count, each in choice
        )
        for choice in choices
    )


def ranked_lead(
    model: PerGameModels, level: Any, rivals: Sequence[Any], parts: Sequence[str], rank: int
) -> RankedLead:
    """Return a level's lead with a given rank among `parts`; the largest lead has rank 1."""
    lead = {
        (part, rival): model.contrast({level: 1.0, rival: -1.0}, [part])
        for part, rival in product(parts, rivals)
    }

    def mean(pairs: Sequence[tuple[str, Any]], sign: float) -> StudentEstimate:
        size = sign / len(pairs)
        return model.sum_of_contrasts({part: {level: size, rival: -size} for part, rival in pairs})

    above = [
        [(min(2, len(pairs)), mean(pairs, 1.0)), *((2 * len(pairs), lead[pair]) for pair in pairs)]
        for chosen in combinations(parts, len(parts) - rank + 1)
        for pairs in product(*(product([part], rivals) for part in chosen))
    ]
    below = []
    for chosen in combinations(parts, rank):
        means = [mean([(part, rival) for part in chosen], -1.0) for rival in rivals]
        singles = [mean([pair], -1.0) for pair in product(chosen, rivals)]
        below.append([(2 * len(group), each) for group in (means, singles) for each in group])
    closest = [min(lead[part, rival].value for rival in rivals) for part in parts]
    return RankedLead(sorted(closest, reverse=True)[rank - 1], above, below)


def relative_spread_within_blocks(values: NDArray[np.float64]) -> RelativeSpread | None:
    """Return the error spread of the first of V variants relative to that of the others.

    `values` are float64[blocks, V], with V of at least 3. The effects of blocks cancel in the first
    variant minus the mean of the others, and in the others' deviations from their mean
    [Grubbs1948]. The others are assumed to have equal error variances. Returns None if they have no
    spread.
    """
    others = values[:, 1:]
    blocks, count = others.shape
    means = others.mean(axis=1)
    deviations = others - means[:, None]
    squares = float(((deviations - deviations.mean(axis=0)) ** 2).sum())
    if not squares:
        return None
    degrees_of_freedom = (blocks - 1) * (count - 1)
    # The variance of the numerator is that of the others plus `count` times that of the first.
    f = count * float((values[:, 0] - means).var(ddof=1)) / (squares / degrees_of_freedom)
    return RelativeSpread(SpreadRatio(math.sqrt(f), blocks - 1, degrees_of_freedom), count)


def fit_measure_models(
    results: Results,
    parts: Sequence[str],
    factor: str,
    levels: Sequence[FactorLevel],
    measure: Callable[[TrainedRun], float],
) -> PerGameModels | MissingEstimate:
    """Fit a model per part to a measure of the runs, with seeds as random blocks.

    `levels` are the levels of `factor` to compare; all of them contribute to the estimate of the
    variance.
    """
    values: dict[str, dict[Any, dict[Any, float]]] = {
        part: {
            level: {run.seed: measure(run) for run in results.runs_where(part, **{factor: level})}
            for level in levels
        }
        for part in parts
    }
    for part, by_level in values.items():
        if part not in results.design.part_names or not all(by_level.values()):
            return MissingEstimate(results.unfinished_message(part) or f"no runs of {part}")
    return fit_per_game_models(values)
