"""Measured shares of points beside published ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from zerolab.ratings.results import Score
from zerolab.report.figures import (
    PUBLISHED,
    colour,
    key_colour,
    legend_below,
    new_figure,
    with_minus,
)
from zerolab.report.interval import Z95, Interval, wilson

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Comparison(NamedTuple):
    """A measured result and a published share for the same two players.

    The published share is a measurement, too: two measurements of one number differ by sqrt(2)
    times the error of either, so the interval of ours need not include it. Both agree if the 95 %
    interval of the difference of two binomials includes 0: method 10 of [Newcombe1998], built from
    Wilson's intervals (l, u) of the two shares p,

        d - sqrt((p1 - l1)^2 + (u2 - p2)^2)  to  d + sqrt((u1 - p1)^2 + (p2 - l2)^2),  d = p1 - p2,

    which also serves shares of 0 and 1, unlike the usual standard error. z is d in standard errors,
    from the side of the interval that faces 0: both agree where |z| <= 1.96. Of twenty numbers that
    are truly equal, one is expected to differ. SciPy has no interval for a difference of shares,
    and its Wilson interval takes whole successes only, not half points.

    Draws count as half a win. Points per game then have a variance below p (1 - p), that of games
    without draws; so have those of a match in which both players move first equally often, if
    moving first matters. The intervals are therefore never too narrow because of draws or colours.
    They assume independent games, which repeated games are not: count the distinct ones. Rounding
    of the published share, by up to half a percent, is not allowed for.
    """

    score: Score
    published: float
    """Between 0 and 1."""
    published_games: int

    @property
    def interval(self) -> Interval:
        """The measured share with Wilson's 95 % interval."""
        return self.score.interval()

    @property
    def published_interval(self) -> Interval:
        """The published share with Wilson's 95 % interval."""
        return wilson(self.published, self.published_games)

    @property
    def difference(self) -> Interval:
        """The measured share less the published one, with Newcombe's 95 % interval."""
        (p1, l1, u1), (p2, l2, u2) = self.interval, self.published_interval
        down, up = math.hypot(p1 - l1, u2 - p2), math.hypot(u1 - p1, p2 - l2)
        return Interval(p1 - p2, p1 - p2 - down, p1 - p2 + up)

    @property
    def z(self) -> float:
        """The difference in standard errors."""
        d, low, high = self.difference
        return Z95 * d / (d - low if d > 0.0 else high - d)

    @property
    def agrees(self) -> bool:
        """True if the difference may be chance."""
        return abs(self.z) <= Z95

    @property
    def verdict(self) -> str:
        """`agrees` as a word for a table."""
        return "agree" if self.agrees else "differ"


_MEASURED: dict[str, Any] = {"color": colour(0), "marker": "o", "markersize": 5}
_PUBLISHED: dict[str, Any] = {**PUBLISHED, "color": "black", "mfc": "white", "markersize": 5}
_SHADE = "#ECECEC"
_APART = 0.14


def draw_comparisons(
    panels: Mapping[str, Mapping[str, Comparison]], title: str, axis: str
) -> Figure:
    """Draw shares in percent with 95 % intervals: one panel per title, one line per name.

    All panels must have the same names. A line whose shares differ is shaded and shows z.
    """
    names = list(next(iter(panels.values())))
    figure = new_figure(1.5 + 3.0 * len(panels), 1.7 + 0.42 * len(names))
    every = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, (heading, shown) in zip(every, panels.items(), strict=True):
        _draw_panel(axes, list(shown.values()))
        axes.set_title(heading, fontsize=11, parse_math=False)
        axes.set_xlabel(axis)
    every[0].set_yticks(range(len(names)), names, parse_math=False)
    every[0].set_ylim(len(names) - 0.5, -0.5)
    handles = [*every[0].get_legend_handles_labels()[0], key_colour(_SHADE, "differ")]
    legend_below(figure, handles)
    figure.suptitle(title, parse_math=False)
    return figure


def _draw_panel(axes: Axes, shown: Sequence[Comparison]) -> None:
    rows = range(len(shown))
    measured = [each.interval for each in shown]
    _draw_shares(axes, [row - _APART for row in rows], measured, "measured", _MEASURED)
    published = [each.published_interval for each in shown]
    _draw_shares(axes, [row + _APART for row in rows], published, "published", _PUBLISHED)
    for row, each in enumerate(shown):
        if not each.agrees:
            axes.axhspan(row - 0.5, row + 0.5, color=_SHADE, zorder=0)
            text = with_minus(f"z = {each.z:+.1f}")
            plain = {"facecolor": _SHADE, "edgecolor": "none", "pad": 1}
            gap = _widest_gap(each)
            axes.text(gap, row, text, ha="center", va="center", fontsize=8, bbox=plain)
    axes.set_xlim(-3, 103)
    axes.axvline(50, color="black", linewidth=0.6, alpha=0.5)
    axes.grid(axis="x", alpha=0.3)


def _widest_gap(compared: Comparison) -> float:
    """Return the middle, in percent, of the widest space outside both intervals."""
    intervals = sorted(each[1:] for each in (compared.interval, compared.published_interval))
    ends = [0.0, *(end for interval in intervals for end in interval), 1.0]
    gaps = [(ends[i + 1] - ends[i], ends[i] + ends[i + 1]) for i in range(0, len(ends), 2)]
    return 50 * max(gaps)[1]


def _draw_shares(
    axes: Axes,
    rows: Sequence[float],
    shares: Sequence[Interval],
    label: str,
    style: Mapping[str, Any],
) -> None:
    errors = [[100 * share.margins[side] for share in shares] for side in (0, 1)]
    percents = [100 * share.value for share in shares]
    axes.errorbar(percents, rows, xerr=errors, linestyle="", capsize=2.5, label=label, **style)
