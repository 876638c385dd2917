"""Counts of distinct self-play positions, as in [Clausen2021, Fig. 9].

Positions are counted as in `play.game_files`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.core.errors import UserError, quoted
from zerolab.play.game_files import ReachedPositions, reached_positions
from zerolab.report.figures import colour, legend_below, new_figure, shortened
from zerolab.rules.catalogue import parse_game
from zerolab.rules.rules import Game
from zerolab.store.games import SELF_PLAY, GameRecord
from zerolab.store.run_folder import RunFolder

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Diversity(NamedTuple):
    """Position counts of a set of games."""

    name: str
    games: int
    positions: int
    """Positions of all games, including repetitions."""
    distinct: int
    positions_by_ply: list[int]
    distinct_by_ply: list[int]
    """Distinct positions at each ply; a position that occurs at two plies counts at both."""
    new_by_game: NDArray[np.int64]
    """int64[games], positions of each game that did not occur in earlier games."""
    seconds: float
    """Wall-clock time of self-play; 0 if unknown."""

    @property
    def per_game(self) -> float:
        """Distinct positions per game."""
        return self.distinct / self.games if self.games else 0.0

    @property
    def per_hour(self) -> float | None:
        """Distinct positions per hour of self-play; None if the time is unknown."""
        return self.distinct / self.seconds * 3600 if self.seconds else None

    def within(self, games: int) -> int:
        """Return the number of distinct positions in the first `games` games."""
        return int(self.new_by_game[:games].sum())

    def as_dict(self) -> dict[str, Any]:
        """Return the counts for JSON, with cumulative sums of new positions by game."""
        return {
            "run": self.name,
            "games": self.games,
            "positions": self.positions,
            "distinct": self.distinct,
            "distinct_per_game": self.per_game,
            "distinct_per_hour": self.per_hour,
            "wall_seconds": self.seconds,
            "positions_by_ply": self.positions_by_ply,
            "distinct_by_ply": self.distinct_by_ply,
            "distinct_by_games": np.cumsum(self.new_by_game).tolist(),
        }


def run_diversity(path: Path) -> Diversity:
    """Count the self-play positions of a run over all finished iterations.

    Raises UserError if the folder is not a run, is damaged, or has no games.
    """
    run = RunFolder.open(path)
    config = run.config.get("game")
    if not isinstance(config, str):
        raise UserError(f"{path}: game = {quoted(config)}: expected the name of a game")
    lines = [line for line in run.metrics() if line.get("stage") == SELF_PLAY]
    if not lines:
        raise UserError(f"{path} has no self-play games: expected a run with at least one")
    games = [run.games.games(int(line["iteration"]), SELF_PLAY) for line in lines]
    seconds = sum(float(line.get("wall_seconds", 0.0)) for line in lines)
    return games_diversity(str(path), parse_game(config), games, seconds)


def games_diversity(
    name: str, game: Game, parts: Iterable[Sequence[GameRecord]], seconds: float = 0.0
) -> Diversity:
    """Count the positions in several parts, such as iterations, in order; moves must be legal."""
    reached = [reached_positions(game, [])]
    games = 0
    for part in parts:
        part_positions = reached_positions(game, part)
        reached.append(part_positions._replace(games=games + part_positions.games))
        games += len(part)
    return _count_positions(
        name, games, seconds, ReachedPositions(*map(np.concatenate, zip(*reached, strict=True)))
    )


def _count_positions(name: str, games: int, seconds: float, reached: ReachedPositions) -> Diversity:
    hashes, plies = reached.hashes, reached.plies
    order = np.lexsort((plies, reached.games))
    _, first = np.unique(hashes[order], return_index=True)
    ply_count = int(plies.max()) + 1 if len(plies) else 0
    by_ply = [hashes[plies == ply] for ply in range(ply_count)]
    return Diversity(
        name=name,
        games=games,
        positions=len(hashes),
        distinct=len(first),
        positions_by_ply=[len(each) for each in by_ply],
        distinct_by_ply=[len(np.unique(each)) for each in by_ply],
        new_by_game=np.bincount(reached.games[order][first], minlength=games),
        seconds=seconds,
    )


_MAX_POINTS = 500  # per line


def draw_diversity(runs: Sequence[Diversity]) -> Figure:
    """Draw distinct positions against games and by ply, one line per run."""
    figure = new_figure(9, 4)
    against_games, by_ply = figure.subplots(1, 2)
    for number, run in enumerate(runs):
        style = {"color": colour(number), "label": shortened(run.name)}
        distinct = np.concatenate([[0], np.cumsum(run.new_by_game)])
        games = np.unique(np.linspace(0, run.games, _MAX_POINTS).astype(int))
        against_games.plot(games, distinct[games], **style)
        by_ply.plot(range(len(run.distinct_by_ply)), run.distinct_by_ply, marker=".", **style)
    against_games.set(xlabel="self-play games", ylabel="distinct positions")
    by_ply.set(xlabel="ply", ylabel="distinct positions at this ply")
    for axes in (against_games, by_ply):
        axes.grid(alpha=0.3)
    legend_below(figure, by_ply.get_legend_handles_labels()[0])
    return figure
