"""The cross table of a tournament as a figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from zerolab.core.files import replacing

_LONGEST = 30  # characters of a name
_MOST_NUMBERED = 25  # players for whom cells are large enough for a number


def draw_cross_table(players: Sequence[str], table: NDArray[np.float64], title: str) -> Figure:
    """Draw points a game float64[n, n] of the players in the rows against those in the columns."""
    count = len(players)
    side = 2.5 + (0.45 if count <= _MOST_NUMBERED else 0.16) * count
    figure = Figure(figsize=(side + 1.0, side), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(table, cmap="RdBu", vmin=0.0, vmax=1.0)
    names = [_shortened(name) for name in players]
    size = 9 if count <= _MOST_NUMBERED else 6
    axes.set_xticks(range(count), names, rotation=90, fontsize=size, parse_math=False)
    axes.set_yticks(range(count), names, fontsize=size, parse_math=False)
    axes.set_title(title, parse_math=False)
    if count <= _MOST_NUMBERED:
        for i, j in zip(*np.nonzero(~np.isnan(table)), strict=True):
            dark = abs(table[i, j] - 0.5) > 0.35
            colour = "white" if dark else "black"
            share = f"{table[i, j]:.0%}"
            axes.text(j, i, share, ha="center", va="center", fontsize=8, color=colour)
    figure.colorbar(image, label="points a game of the row's player", shrink=0.7)
    return figure


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure to a file whose ending names its format."""
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=120, format=path.suffix[1:])


def _shortened(name: str) -> str:
    return name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"
