"""What is drawn of some runs, and how it is explained."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from zerolab.ratings.score import Z95

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

RUN: dict[str, Any] = {"marker": "o", "markersize": 4.5, "mec": "white", "mew": 0.5}
"""How one run is drawn."""
ERROR: dict[str, Any] = {"elinewidth": 0.8, "capsize": 0}
"""How the error of measuring it is drawn."""
PUBLISHED: dict[str, Any] = {"marker": "D", "markersize": 6, "mfc": "none", "mec": "black"}
"""How a published number is drawn."""
BAND = 0.22
"""Opacity of what surrounds a mean."""


class Sample(NamedTuple):
    """Runs that differ in nothing but their seed."""

    values: Sequence[float]
    """One per run."""
    errors: Sequence[float] = ()
    """The standard error of measuring each; empty where they are known exactly."""
    published: float | None = None


def margins(errors: Iterable[float]) -> list[float]:
    """Return half the 95 % intervals of standard errors."""
    return [Z95 * error for error in errors]


def key_run(colour: str = "0.35") -> Artist:
    """Return the legend's entry of a run."""
    from matplotlib.lines import Line2D  # noqa: PLC0415

    return Line2D([], [], linestyle="", color=colour, label="one run", **RUN)


def key_error(what: str = "error of measuring a run, 95 %") -> Artist:
    """Return the legend's entry of an error of measurement."""
    from matplotlib.lines import Line2D  # noqa: PLC0415

    return Line2D(
        [], [], linestyle="", marker="|", markersize=11, color="0.35", mew=0.8, label=what
    )


def key_published() -> Artist:
    """Return the legend's entry of a published number."""
    from matplotlib.lines import Line2D  # noqa: PLC0415

    return Line2D([], [], linestyle="", label="published", **PUBLISHED)


def key_colour(colour: str, label: str) -> Artist:
    """Return the legend's entry of a series."""
    from matplotlib.patches import Patch  # noqa: PLC0415

    return Patch(color=colour, label=label)


def finish(axes: Axes, heading: str = "") -> None:
    """Give axes what all of them have."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.3, linewidth=0.6)
    axes.set_axisbelow(True)
    if heading:
        axes.set_title(heading, fontsize=11, parse_math=False)


def with_minus(text: str) -> str:
    """Return a number with a minus sign in place of the hyphen, as the ticks of axes have."""
    return text.replace("-", "\N{MINUS SIGN}")
