"""Numbers over two settings at a time, as grids of coloured cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.core.figures import new_figure
from zerolab.studies.panels.samples import with_minus

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure

_MAP = "viridis"  # in order of brightness to all kinds of colour vision
_CELL = (0.85, 0.66)  # inches
_EMPTY = "#E4E4E4"


class Heat(NamedTuple):
    """A map of means over runs; NaN where there are none."""

    rows: Sequence[str]
    columns: Sequence[str]
    values: NDArray[np.float64]
    """[rows, columns]"""
    spread: NDArray[np.float64] | None = None
    """[rows, columns]: standard deviations between runs; NaN where there are not two of them."""
    errors: NDArray[np.float64] | None = None
    """[rows, columns]: standard errors of measuring one run."""


def draw_heat(
    maps: Mapping[str, Heat],
    title: str,
    row_axis: str,
    column_axis: str,
    scale: str,
    *,
    columns: int = 3,
    number_format: str = ".0f",
) -> Figure:
    """Draw maps of equal shape with one scale of colours, the numbers in their cells.

    Below the mean stand, smaller, the standard deviation between runs and the standard error of
    measuring one.
    """
    from matplotlib.cm import ScalarMappable  # noqa: PLC0415

    columns = min(columns, len(maps))
    rows = -(-len(maps) // columns)
    first = next(iter(maps.values()))
    width = _CELL[0] * len(first.columns) + 0.35
    height = _CELL[1] * len(first.rows) + 0.55
    figure = new_figure(max(5.0, width * columns + 1.9), height * rows + 1.5)
    every = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    norm = _scale(maps)
    for axes, (heading, heat) in zip(every.flat, maps.items(), strict=False):
        _draw_map(axes, heat, norm, number_format)
        axes.set_title(heading if len(maps) > 1 else "", fontsize=10, parse_math=False)
    for axes in every.flat[len(maps) :]:
        axes.set_axis_off()
    figure.supxlabel(column_axis, fontsize=10, parse_math=False)
    figure.supylabel(row_axis, fontsize=10, parse_math=False)
    figure.colorbar(ScalarMappable(norm, _MAP), ax=every, label=scale, fraction=0.06, aspect=30)
    figure.suptitle("\n".join(part for part in (title, _legend(maps)) if part), parse_math=False,
                    fontsize=11)  # fmt: skip
    return figure


def _scale(maps: Mapping[str, Heat]) -> Normalize:
    """Return from which number to which one the colours run, the same in all maps."""
    from matplotlib.colors import Normalize  # noqa: PLC0415

    known = np.concatenate([np.ravel(heat.values) for heat in maps.values()])
    known = known[~np.isnan(known)]
    low, high = (known.min(), known.max()) if len(known) else (0.0, 1.0)
    return Normalize(low, high if high > low else low + 1.0)


def _draw_map(axes: Axes, heat: Heat, norm: Normalize, number_format: str) -> None:
    from matplotlib import colormaps  # noqa: PLC0415

    axes.set_facecolor(_EMPTY)
    axes.imshow(np.ma.masked_invalid(heat.values), cmap=_MAP, norm=norm, aspect="auto")
    for row, column in np.ndindex(heat.values.shape):
        value = heat.values[row, column]
        if np.isnan(value):
            axes.text(column, row, "no data", ha="center", va="center", fontsize=7, color="0.35")
            continue
        small = _small(heat, row, column, number_format)
        ink = "white" if _luminance(colormaps[_MAP](norm(value))) < 0.5 else "black"
        lift = 0.16 * small.count("\n") + 0.16 if small else 0.0
        axes.text(
            column, row - lift, with_minus(format(value, number_format)), ha="center", va="center",
            fontsize=10, color=ink,
        )  # fmt: skip
        if small:
            axes.text(column, row - lift + 0.2, small, ha="center", va="top", fontsize=7, color=ink)
    axes.set_xticks(range(len(heat.columns)), heat.columns, parse_math=False)
    axes.set_yticks(range(len(heat.rows)), heat.rows, parse_math=False)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def _small(heat: Heat, row: int, column: int, number_format: str) -> str:
    lines = []
    for mark, numbers in (("SD", heat.spread), ("SE", heat.errors)):
        if numbers is not None and not np.isnan(numbers[row, column]):
            lines.append(f"{mark} {format(numbers[row, column], number_format)}")
    return "\n".join(lines)


def _legend(maps: Mapping[str, Heat]) -> str:
    spread = any(heat.spread is not None for heat in maps.values())
    errors = any(heat.errors is not None for heat in maps.values())
    parts = ["mean of runs"]
    parts += ["SD: between runs"] if spread else []
    parts += ["SE: error of measuring one run"] if errors else []
    return "; ".join(parts) if spread or errors else ""


def _luminance(rgba: Sequence[float]) -> float:
    return 0.299 * rgba[0] + 0.587 * rgba[1] + 0.114 * rgba[2]
