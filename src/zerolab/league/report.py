"""What a league has found: its best players, how parameters moved, and the best as a preset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import tomli_w
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from zerolab.core.figures import save_figure
from zerolab.core.files import write_text
from zerolab.league.figure import draw
from zerolab.league.league import League
from zerolab.league.player import slip_probability
from zerolab.league.players import Players, ranking
from zerolab.league.settings import LeagueSettings

_SHOWN = 10  # players in a terminal


@dataclass(frozen=True)
class LeagueReport:
    """The players of a league, and what has become of their parameters."""

    league: League
    network: Mapping[str, Any] | None = None
    """The settings of the network that they search with."""

    @property
    def settings(self) -> LeagueSettings:
        """The league's."""
        return self.league.settings

    @property
    def players(self) -> Players:
        """All players so far."""
        return self.league.state.players

    @cached_property
    def ranking(self) -> NDArray[np.int64]:
        """See `players.ranking`."""
        return ranking(self.players)

    @property
    def best(self) -> int:
        """The number of the best player."""
        return int(self.ranking[0])

    def best_settings(self) -> dict[str, Any]:
        """Return the best player's settings as a run has them: a preset."""
        values = dict(zip(self.settings.parameters, self.players.values[self.best], strict=True))
        search = self.settings.search.model_dump()
        for name, key, field in (("c", "selection", "c"), ("fpu", "fpu", "value")):
            if name in values:
                search[key][field] = float(values[name])
        if "draw_value" in values:
            search["draw_value"] = float(values["draw_value"])
        self_play: dict[str, Any] = {"sampled_plies": self.settings.sampled_plies}
        if "threshold" in values:
            clock = self.settings.clock
            budget = clock.model_dump(include={"name", "every", "least", "most"})
            self_play["budget"] = {**budget, "threshold": float(values["threshold"])}
        tables = {"game": self.settings.game, "selfplay": self_play, "search": search}
        return tables if self.network is None else {**tables, "network": dict(self.network)}

    def spread(self) -> list[dict[str, Any]]:
        """Return mean and standard deviation of the active players' parameters by generation."""
        found = []
        for generation, active in enumerate(self.players.active):
            values = self.players.values[active]
            found.append(
                {
                    "generation": generation,
                    "mean": self._named(values.mean(axis=0)),
                    "deviation": self._named(values.std(axis=0)),
                    "slips": self._slips(values),
                }
            )
        return found

    def _slips(self, values: NDArray[np.float64]) -> float | None:
        """Return the mean probability of a slip, for players with a check parameter."""
        if "check" not in self.settings.parameters:
            return None
        column = values[:, self.settings.parameters.index("check")]
        return float(slip_probability(column, self.settings.optimum).mean())

    def _named(self, values: NDArray[np.float64]) -> dict[str, float]:
        return dict(zip(self.settings.parameters, values.tolist(), strict=True))

    def _player(self, number: int) -> dict[str, Any]:
        players = self.players
        games = int(players.games[number])
        return {
            "player": number,
            "elo": float(players.ratings[number]),
            "games": games,
            "score": float(players.points[number] / games) if games else None,
            "generation": int(players.generations[number]),
            "parent": int(players.parents[number]),
            "values": self._named(players.values[number]),
            "sigmas": self._named(players.sigmas[number]),
        }

    def as_dict(self) -> dict[str, Any]:
        """Return everything for JSON."""
        return {
            "game": self.settings.game,
            "network": self.settings.network,
            "fitness": self.settings.fitness,
            "games": self.league.state.played,
            "generation": self.players.generation,
            "best": self.best,
            "players": [self._player(number) for number in self.ranking.tolist()],
            "generations": self.spread(),
        }

    def save(self) -> None:
        """Write the figure and the best player's settings into the folder."""
        best = self._player(self.best)
        head = (
            f"# Player {best['player']} of a league: Elo {best['elo']:.0f} within it, after"
            f" {best['games']} games\n"
        )
        write_text(self.league.path / "best.toml", head + tomli_w.dumps(self.best_settings()))
        figure = draw(self.players, self.settings)
        for ending in ("png", "svg"):
            save_figure(figure, self.league.path / f"league.{ending}")

    def show(self, console: Console) -> None:
        """Print the best players, and the spread of parameters by generation."""
        names = self.settings.parameters
        title = (
            f"{self.settings.game}: {self.league.state.played} games, by {self.settings.fitness}"
        )
        table = Table(
            "player", "Elo", "games", "score", "generation", *names, title=title, box=None
        )
        for number in self.ranking[:_SHOWN].tolist():
            each = self._player(number)
            score = "" if each["score"] is None else f"{each['score']:.1%}"
            table.add_row(
                str(number), f"{each['elo']:.0f}", str(each["games"]), score,
                str(each["generation"]), *(f"{each['values'][name]:.3g}" for name in names),
            )  # fmt: skip
        console.print(table)
        slips = ["random moves"] if "check" in names else []
        spread = Table("generation", *names, *slips, title="active players: mean, sd", box=None)
        for row in self.spread():
            cells = (f"{row['mean'][name]:.3g}, {row['deviation'][name]:.2g}" for name in names)
            spread.add_row(str(row["generation"]), *cells, *(f"{row['slips']:.1%}" for _ in slips))
        console.print(spread)
