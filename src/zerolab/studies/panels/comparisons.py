"""Measured shares of points beside published ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from zerolab.core.figures import colour, legend_below, new_figure
from zerolab.studies.comparison import Comparison
from zerolab.studies.panels.samples import PUBLISHED, key_colour, with_minus

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MEASURED: dict[str, Any] = {"color": colour(0), "marker": "o", "markersize": 5}
_PUBLISHED: dict[str, Any] = {**PUBLISHED, "color": "black", "mfc": "white", "markersize": 5}
_SHADE = "#ECECEC"
_APART = 0.14


def draw_comparisons(
    panels: Mapping[str, Mapping[str, Comparison]], title: str, axis: str
) -> Figure:
    """Draw shares in percent with 95 % intervals, a panel a title and a line a name.

    Names must be the same in all panels. Where both differ, the line is shaded and says by
    how many standard errors.
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
    measured = [each.score.score_rate for each in shown]
    intervals = [each.interval for each in shown]
    _draw_shares(axes, [row - _APART for row in rows], measured, intervals, "measured", _MEASURED)
    published = [each.published for each in shown]
    intervals = [each.published_interval for each in shown]
    _draw_shares(
        axes, [row + _APART for row in rows], published, intervals, "published", _PUBLISHED
    )
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
    """Return the middle, in percent, of the widest space that neither interval takes."""
    taken = sorted([compared.interval, compared.published_interval])
    ends = [0.0, *(end for interval in taken for end in interval), 1.0]
    gaps = [(ends[i + 1] - ends[i], ends[i] + ends[i + 1]) for i in range(0, len(ends), 2)]
    return 50 * max(gaps)[1]


def _draw_shares(
    axes: Axes,
    rows: Sequence[float],
    shares: Sequence[float],
    intervals: Sequence[tuple[float, float]],
    label: str,
    style: Mapping[str, Any],
) -> None:
    # A share of 0 or 1 may lie outside its interval by the last bit.
    pairs = list(zip(shares, intervals, strict=True))
    below = [100 * max(0.0, share - low) for share, (low, _) in pairs]
    above = [100 * max(0.0, high - share) for share, (_, high) in pairs]
    percents = [100 * share for share in shares]
    axes.errorbar(
        percents, rows, xerr=[below, above], linestyle="", capsize=2.5, label=label, **style
    )
