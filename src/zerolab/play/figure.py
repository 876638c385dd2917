"""The cross table of a tournament as a figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from zerolab.core.figures import new_figure, shortened

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LONGEST = 30  # characters of a name
_MOST_NUMBERED = 25  # players for whom cells are large enough for a number


def draw_cross_table(players: Sequence[str], table: NDArray[np.float64], title: str) -> Figure:
    """Draw points per game float64[n, n] of the rows' players against those of the columns."""
    count = len(players)
    side = 2.5 + (0.45 if count <= _MOST_NUMBERED else 0.16) * count
    figure = new_figure(side + 1.0, side)
    axes = figure.subplots()
    image = axes.imshow(table, cmap="RdBu", vmin=0.0, vmax=1.0)
    names = [shortened(name, _LONGEST) for name in players]
    size = 9 if count <= _MOST_NUMBERED else 6
    axes.set_xticks(range(count), names, rotation=90, fontsize=size, parse_math=False)
    axes.set_yticks(range(count), names, fontsize=size, parse_math=False)
    axes.set_title(title, parse_math=False)
    if count <= _MOST_NUMBERED:
        for i, j in zip(*np.nonzero(~np.isnan(table)), strict=True):
            dark = abs(table[i, j] - 0.5) > 0.35
            colour = "white" if dark else "black"
            points = f"{table[i, j]:.0%}"
            axes.text(j, i, points, ha="center", va="center", fontsize=8, color=colour)
    figure.colorbar(image, label="points per game of the row's player", shrink=0.7)
    return figure
