"""How the parameters of a league's players moved, generation by generation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zerolab.core.figures import colour, legend_below, new_figure
from zerolab.league.players import Players
from zerolab.league.settings import LeagueSettings

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLES = {
    "c": "exploration constant c",
    "fpu": "first-play urgency",
    "draw_value": "draw value",
    "threshold": "log2 of the KL threshold",
    "check": "check parameter",
}
"""Of parameters, for figures."""


def draw(players: Players, settings: LeagueSettings) -> Figure:
    """Draw a panel for each parameter: every active player of each generation, and their mean."""
    count = len(settings.parameters)
    figure = new_figure(0.6 + 3.0 * count, 3.8)
    panels = figure.subplots(1, count, squeeze=False)[0]
    handles: dict[str, Artist] = {}
    for column, axes in enumerate(panels):
        _draw_parameter(axes, players, settings, column)
        shown, labels = axes.get_legend_handles_labels()
        handles |= dict(zip(labels, shown, strict=True))
    legend_below(figure, list(handles.values()))
    figure.suptitle(f"{settings.game}, league by {settings.fitness}", parse_math=False)
    return figure


def _draw_parameter(axes: Axes, players: Players, settings: LeagueSettings, column: int) -> None:
    name = settings.parameters[column]
    values = [players.values[active, column] for active in players.active]
    x = np.repeat(np.arange(len(values)), settings.active)
    axes.plot(
        x, np.concatenate(values), "o", markersize=2.5, alpha=0.35, markeredgewidth=0,
        color=colour(0), label="active players",
    )  # fmt: skip
    means = [each.mean() for each in values]
    axes.plot(range(len(means)), means, color=colour(1), label="mean")
    if name == "check":
        axes.axhline(
            settings.optimum, color=colour(2), linestyle="--", label="optimum of the check"
        )
    axes.set_ylim(*getattr(settings.ranges, name))
    axes.set_title(TITLES[name], fontsize=10)
    axes.set_xlabel("generation")
    axes.locator_params(axis="x", integer=True)
    axes.grid(alpha=0.3)
