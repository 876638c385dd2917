"""Distinct positions of several runs as a figure like [Clausen2021, Fig. 9]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from zerolab.core.figures import colour, legend_below, new_figure, shortened
from zerolab.evaluation.diversity import Diversity

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_POINTS = 500  # of a line at most


def draw_diversity(runs: Sequence[Diversity]) -> Figure:
    """Draw distinct positions against games and by ply, one line per run."""
    figure = new_figure(9, 4)
    against_games, by_ply = figure.subplots(1, 2)
    for number, run in enumerate(runs):
        look = {"color": colour(number), "label": shortened(run.name)}
        distinct = np.concatenate([[0], np.cumsum(run.new_by_game)])
        games = np.unique(np.linspace(0, run.games, _POINTS).astype(int))
        against_games.plot(games, distinct[games], **look)
        by_ply.plot(range(len(run.distinct_by_ply)), run.distinct_by_ply, marker=".", **look)
    against_games.set(xlabel="games of self-play", ylabel="distinct positions")
    by_ply.set(xlabel="ply", ylabel="distinct positions of this ply")
    for axes in (against_games, by_ply):
        axes.grid(alpha=0.3)
    legend_below(figure, by_ply.get_legend_handles_labels()[0])
    return figure
