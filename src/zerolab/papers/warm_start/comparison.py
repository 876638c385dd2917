"""Comparisons of players: differences in Elo, and measured score rates against published ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import TYPE_CHECKING, Any, NamedTuple

from zerolab.papers.warm_start.study import BASELINE
from zerolab.ratings.results import MatchScore
from zerolab.report.figures import (
    PUBLISHED_STYLE,
    add_legend_below,
    new_figure,
    series_colour,
    series_legend_handle,
    with_minus_sign,
)
from zerolab.report.table import Z95, Interval, wilson_interval
from zerolab.studies.block_model import PerGameModels
from zerolab.studies.joint_estimates import (
    RankedEstimate,
    estimate_largest,
    estimate_ranked,
    estimate_smallest,
)
from zerolab.studies.statistics import StudentEstimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def gain_contrast_weights(variants: Sequence[str]) -> dict[str, float]:
    """Return the weights of the mean of some variants minus the baseline."""
    return {each: 1.0 / len(variants) for each in variants} | {BASELINE: -1.0}


def smallest_difference(
    model: PerGameModels, better: Sequence[str], worse: Sequence[str], games: Sequence[str]
) -> RankedEstimate:
    """Return the smallest lead of a variant in `better` over one in `worse` in any of `games`."""
    return estimate_smallest(
        [
            model.contrast({one: 1.0, other: -1.0}, [game])
            for game in games
            for one in better
            for other in worse
        ]
    )


def largest_variant_difference(
    model: PerGameModels, variants: Sequence[str], game: str
) -> RankedEstimate:
    """Return the largest difference between any two variants in a game."""
    return estimate_largest(
        [
            model.contrast({one: 1.0, other: -1.0}, [game])
            for one, other in permutations(variants, 2)
        ]
    )


def largest_contrast_change(
    model: PerGameModels, contrasts: Sequence[Mapping[str, float]], games: Sequence[str]
) -> RankedEstimate:
    """Return the largest change in any contrast from one game to another."""
    return estimate_largest(
        [
            model.sum_of_contrasts({one: weights, other: {v: -w for v, w in weights.items()}})
            for weights in contrasts
            for one, other in permutations(games, 2)
        ]
    )


def mean_contrast_change(
    model: PerGameModels, weights: Mapping[str, float], game: str, others: Sequence[str]
) -> StudentEstimate:
    """Return the mean change in a contrast from a game to the other games."""
    shares = {game: -1.0, **dict.fromkeys(others, 1.0 / len(others))}
    return model.sum_of_contrasts(
        {each: {v: share * w for v, w in weights.items()} for each, share in shares.items()}
    )


def ranked_gain(
    model: PerGameModels, cases: Sequence[tuple[str, str]], rank: int
) -> RankedEstimate:
    """Return the `rank`-th largest gain over the baseline in `cases`, pairs of variant and game."""
    gains = [model.contrast(gain_contrast_weights([variant]), [game]) for variant, game in cases]
    return estimate_ranked(gains, rank)


def smallest_best_gain(
    model: PerGameModels, variants: Sequence[str], games: Sequence[str]
) -> RankedEstimate:
    """Return the gain of a game's best variant, in the game where this gain is smallest."""
    best = [ranked_gain(model, [(each, game) for each in variants], 1) for game in games]
    return estimate_ranked(best, len(games))


def smallest_worst_deficit(
    model: PerGameModels, variants: Sequence[str], games: Sequence[str]
) -> RankedEstimate:
    """Return the smallest of all variants' worst deficits.

    The worst deficit of a variant is the largest lead of any rival in any game. The result is above
    0 unless a variant is the best in all games.
    """
    deficits = [
        estimate_ranked(
            [
                model.contrast({rival: 1.0, variant: -1.0}, [game])
                for game in games
                for rival in variants
                if rival != variant
            ],
            1,
        )
        for variant in variants
    ]
    return estimate_ranked(deficits, len(variants))


class PublishedScoreComparison(NamedTuple):
    """Measured score and published score rate of the same pair of players.

    The published rate is itself a measurement with sampling error, so it can lie outside the
    interval of the measured rate by chance. The two rates agree if the 95 % confidence interval of
    their difference includes 0. This interval is method 10 of [Newcombe1998], computed from the
    Wilson intervals (l, u) of the two rates p:

        d - sqrt((p1 - l1)^2 + (u2 - p2)^2)  to  d + sqrt((u1 - p1)^2 + (p2 - l2)^2),  d = p1 - p2

    Unlike an interval from the usual standard error, it is also valid for rates of 0 and 1.
    `z_score` is d divided by the standard error, which is derived from the end of the interval
    nearer to 0. The rates agree if -1.96 <= z_score <= 1.96. If all true rates are equal, about one
    comparison in twenty differs by chance. SciPy has no interval for a difference in rates, and its
    Wilson interval requires an integer number of successes, which excludes half points.

    Draws count as half a win, which makes the variance per game less than p (1 - p), the variance
    without draws. The variance is also lower if moving first matters and both players move first
    equally often. Neither effect therefore makes the intervals too narrow. Repeated games are taken
    into account for the measured rate only. The rounding of the published rate, by up to half a
    percentage point, is not accounted for.
    """

    score: MatchScore
    """Measured score."""
    effective_games: float
    """Effective number of games of the measured score; see `EffectiveScore`."""
    published_rate: float
    """Published score rate, from 0 to 1."""
    published_game_count: int
    """Number of games behind the published rate."""

    @property
    def measured_interval(self) -> Interval:
        """Measured rate with Wilson's 95 % confidence interval."""
        return self.score.interval(self.effective_games)

    @property
    def published_interval(self) -> Interval:
        """Published rate with Wilson's 95 % confidence interval."""
        return wilson_interval(self.published_rate, self.published_game_count)

    @property
    def difference(self) -> Interval:
        """Measured rate minus published rate, with Newcombe's 95 % confidence interval."""
        (p1, l1, u1), (p2, l2, u2) = self.measured_interval, self.published_interval
        lower, upper = math.hypot(p1 - l1, u2 - p2), math.hypot(u1 - p1, p2 - l2)
        return Interval(p1 - p2, p1 - p2 - lower, p1 - p2 + upper)

    @property
    def z_score(self) -> float:
        """Difference in standard errors."""
        d, low, high = self.difference
        return Z95 * d / (d - low if d > 0.0 else high - d)

    @property
    def agrees(self) -> bool:
        """True if the difference is not significant at the 5 % level."""
        return abs(self.z_score) <= Z95

    @property
    def agreement(self) -> str:
        """Value of `agrees` in words, for tables."""
        return "agree" if self.agrees else "differ"


_MEASURED: dict[str, Any] = {"color": series_colour(0), "marker": "o", "markersize": 5}
_PUBLISHED: dict[str, Any] = {**PUBLISHED_STYLE, "color": "black", "mfc": "white", "markersize": 5}
_SHADE = "#ECECEC"
_OFFSET = 0.14  # distance of each marker from the middle of its row


def draw_score_comparisons(
    panels: Mapping[str, Mapping[str, PublishedScoreComparison]], title: str, axis: str
) -> Figure:
    """Draw score rates in percent with 95 % intervals, in one panel per heading.

    All panels must have the same row names. Rows whose rates do not agree are shaded and show z.
    """
    names = list(next(iter(panels.values())))
    figure = new_figure(1.5 + 3.0 * len(panels), 1.7 + 0.42 * len(names))
    all_axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, (heading, rows) in zip(all_axes, panels.items(), strict=True):
        _draw_panel(axes, list(rows.values()))
        axes.set_title(heading, fontsize=11, parse_math=False)
        axes.set_xlabel(axis)
    all_axes[0].set_yticks(range(len(names)), names, parse_math=False)
    all_axes[0].set_ylim(len(names) - 0.5, -0.5)
    handles = [*all_axes[0].get_legend_handles_labels()[0], series_legend_handle(_SHADE, "differ")]
    add_legend_below(figure, handles)
    figure.suptitle(title, parse_math=False)
    return figure


def _draw_panel(axes: Axes, comparisons: Sequence[PublishedScoreComparison]) -> None:
    rows = range(len(comparisons))
    measured = [comparison.measured_interval for comparison in comparisons]
    _draw_rates(axes, [row - _OFFSET for row in rows], measured, "measured", _MEASURED)
    published = [comparison.published_interval for comparison in comparisons]
    _draw_rates(axes, [row + _OFFSET for row in rows], published, "published", _PUBLISHED)
    for row, comparison in enumerate(comparisons):
        if not comparison.agrees:
            axes.axhspan(row - 0.5, row + 0.5, color=_SHADE, zorder=0)
            text = with_minus_sign(f"z = {comparison.z_score:+.1f}")
            box = {"facecolor": _SHADE, "edgecolor": "none", "pad": 1}
            gap = _widest_gap(comparison)
            axes.text(gap, row, text, ha="center", va="center", fontsize=8, bbox=box)
    axes.set_xlim(-3, 103)
    axes.axvline(50, color="black", linewidth=0.6, alpha=0.5)
    axes.grid(axis="x", alpha=0.3)


def _widest_gap(comparison: PublishedScoreComparison) -> float:
    """Return the centre of the widest gap outside both intervals, in percent."""
    intervals = sorted(
        each[1:] for each in (comparison.measured_interval, comparison.published_interval)
    )
    ends = [0.0, *(end for interval in intervals for end in interval), 1.0]
    gaps = [(ends[i + 1] - ends[i], ends[i] + ends[i + 1]) for i in range(0, len(ends), 2)]
    return 50 * max(gaps)[1]


def _draw_rates(
    axes: Axes,
    rows: Sequence[float],
    rates: Sequence[Interval],
    label: str,
    style: Mapping[str, Any],
) -> None:
    errors = [[100 * rate.margins[side] for rate in rates] for side in (0, 1)]
    percents = [100 * rate.value for rate in rates]
    axes.errorbar(percents, rows, xerr=errors, linestyle="", capsize=2.5, label=label, **style)
