"""League reports: best players, parameter statistics, a figure and a preset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import tomli_w
from numpy.typing import NDArray
from rich.console import Console

from zerolab.core.files import write_text
from zerolab.league.league import League
from zerolab.league.league_settings import LeagueSettings
from zerolab.league.playing import random_move_probability
from zerolab.league.population import Population, ranking
from zerolab.report.figures import add_legend_below, new_figure, save_figure, series_colour
from zerolab.report.table import Cell, Column, Table
from zerolab.report.text import print_table

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


PARAMETER_TITLES = {
    "c": "exploration constant c",
    "fpu": "first-play urgency",
    "draw_value": "draw value",
    "threshold": "log2 of the KL threshold",
    "check": "check parameter",
}
"""Parameter titles in figures."""


def draw_parameter_evolution(players: Population, settings: LeagueSettings) -> Figure:
    """Draw one panel per parameter, with all active players and their mean by generation."""
    count = len(settings.parameters)
    figure = new_figure(0.6 + 3.0 * count, 3.8)
    panels = figure.subplots(1, count, squeeze=False)[0]
    handles: dict[str, Artist] = {}
    for column, axes in enumerate(panels):
        _draw_parameter(axes, players, settings, column)
        artists, labels = axes.get_legend_handles_labels()
        handles |= dict(zip(labels, artists, strict=True))
    add_legend_below(figure, list(handles.values()))
    figure.suptitle(f"{settings.game}, league rated by {settings.fitness}", parse_math=False)
    return figure


def _draw_parameter(axes: Axes, players: Population, settings: LeagueSettings, column: int) -> None:
    name = settings.parameters[column]
    values = [players.values[active, column] for active in players.active]
    x = np.repeat(np.arange(len(values)), settings.active)
    axes.plot(
        x, np.concatenate(values), "o", markersize=2.5, alpha=0.35, markeredgewidth=0,
        color=series_colour(0), label="active players",
    )  # fmt: skip
    means = [each.mean() for each in values]
    axes.plot(range(len(means)), means, color=series_colour(1), label="mean")
    if name == "check":
        axes.axhline(
            settings.optimum, color=series_colour(2), linestyle="--", label="optimum of the check"
        )
    axes.set_ylim(*getattr(settings.ranges, name))
    axes.set_title(PARAMETER_TITLES[name], fontsize=10)
    axes.set_xlabel("generation")
    axes.locator_params(axis="x", integer=True)
    axes.grid(alpha=0.3)


_MAX_PLAYERS = 10  # shown in a terminal


@dataclass(frozen=True)
class LeagueReport:
    """Players of a league and the evolution of their parameters."""

    league: League
    network_settings: Mapping[str, Any] | None = None
    """Settings of the network shared by all players; None if there is no network."""

    @property
    def settings(self) -> LeagueSettings:
        """League settings."""
        return self.league.settings

    @property
    def population(self) -> Population:
        """All past and active players."""
        return self.league.state.population

    @cached_property
    def ranked_players(self) -> NDArray[np.int64]:
        """Numbers of the active players, from best to worst; see `population.ranking`."""
        return ranking(self.population)

    @property
    def best_player(self) -> int:
        """Number of the best player."""
        return int(self.ranked_players[0])

    def best_settings(self) -> dict[str, Any]:
        """Return the best player's settings as a preset for runs."""
        values = dict(
            zip(self.settings.parameters, self.population.values[self.best_player], strict=True)
        )
        search = self.settings.search.model_dump()
        for name, key, field in (("c", "selection", "c"), ("fpu", "fpu", "value")):
            if name in values:
                search[key][field] = float(values[name])
        if "draw_value" in values:
            search["draw_value"] = float(values["draw_value"])
        self_play: dict[str, Any] = {"temperature_plies": self.settings.temperature_plies}
        if "threshold" in values:
            clock = self.settings.clock
            budget = clock.model_dump(include={"name", "every", "least", "most"})
            self_play["budget"] = {**budget, "threshold": float(values["threshold"])}
        tables = {"game": self.settings.game, "selfplay": self_play, "search": search}
        if self.network_settings is None:
            del search["leaf_evaluator"]  # playouts: a run has a network to evaluate leaves
            return tables
        return {**tables, "network": dict(self.network_settings)}

    def generation_statistics(self) -> list[dict[str, Any]]:
        """Return means and standard deviations of the active players' parameters by generation."""
        statistics = []
        for generation, active in enumerate(self.population.active):
            values = self.population.values[active]
            statistics.append(
                {
                    "generation": generation,
                    "mean": self._by_name(values.mean(axis=0)),
                    "deviation": self._by_name(values.std(axis=0)),
                    "slips": self._random_move_rate(values),
                }
            )
        return statistics

    def _random_move_rate(self, values: NDArray[np.float64]) -> float | None:
        """Return the mean probability of a random move, or None if there is no check parameter."""
        if "check" not in self.settings.parameters:
            return None
        column = values[:, self.settings.parameters.index("check")]
        return float(random_move_probability(column, self.settings.optimum).mean())

    def _by_name(self, values: NDArray[np.float64]) -> dict[str, float]:
        return dict(zip(self.settings.parameters, values.tolist(), strict=True))

    def _player(self, number: int) -> dict[str, Any]:
        players = self.population
        games = int(players.games[number])
        return {
            "player": number,
            "elo": float(players.ratings[number]),
            "games": games,
            "score": float(players.points[number] / games) if games else None,
            "generation": int(players.generations[number]),
            "parent": int(players.parents[number]),
            "values": self._by_name(players.values[number]),
            "sigmas": self._by_name(players.sigmas[number]),
        }

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        return {
            "game": self.settings.game,
            "network": self.settings.network,
            "fitness": self.settings.fitness,
            "games": self.league.state.game_count,
            "generation": self.population.generation,
            "best": self.best_player,
            "players": [self._player(number) for number in self.ranked_players.tolist()],
            "generations": self.generation_statistics(),
        }

    def save(self) -> None:
        """Write the figure and the best player's settings to the league folder."""
        best = self._player(self.best_player)
        comment = (
            f"# Player {best['player']} of a league, with Elo {best['elo']:.0f} within the league"
            f" after {best['games']} games\n"
        )
        write_text(self.league.path / "best.toml", comment + tomli_w.dumps(self.best_settings()))
        figure = draw_parameter_evolution(self.population, self.settings)
        for ending in ("png", "svg"):
            save_figure(figure, self.league.path / f"league.{ending}")

    def show(self, console: Console) -> None:
        """Print the best players and the parameter statistics by generation."""
        names = self.settings.parameters
        games = self.league.state.game_count
        title = f"{self.settings.game}: {games} games, rated by {self.settings.fitness}"
        columns: list[str | Column] = [
            "player", Column("Elo", ".0f"), "games", Column("score", ".1%"), "generation",
            *(Column(name, ".3g") for name in names),
        ]  # fmt: skip
        best = [self._player(number) for number in self.ranked_players[:_MAX_PLAYERS].tolist()]
        rows: list[list[Cell]] = [
            [
                each["player"], each["elo"], each["games"], each["score"], each["generation"],
                *each["values"].values(),
            ]
            for each in best
        ]  # fmt: skip
        print_table(console, Table("league", title, columns, rows))
        print_table(console, self._generation_table())

    def _generation_table(self) -> Table:
        """Return a table with the mean and standard deviation of each parameter by generation."""
        names = self.settings.parameters
        random_moves = [Column("random moves", ".1%")] if "check" in names else []
        rows: list[list[Cell]] = [
            [
                row["generation"],
                *(f"{row['mean'][name]:.3g}, {row['deviation'][name]:.2g}" for name in names),
                *(row["slips"] for _ in random_moves),
            ]
            for row in self.generation_statistics()
        ]
        columns: list[str | Column] = ["generation", *names, *random_moves]
        return Table("spread", "active players: mean, sd", columns, rows)
