"""Counts of distinct self-play positions, as in [Clausen2021, Fig. 9].

Positions are identified by hashes, as in `play.game_files`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
    """Counts of all and of distinct positions in a set of games."""

    name: str
    game_count: int
    position_count: int
    """Number of positions in all games, including repetitions."""
    distinct_count: int
    """Number of distinct positions in all games."""
    positions_by_ply: list[int]
    """Number of positions at each ply, including repetitions."""
    distinct_by_ply: list[int]
    """Number of distinct positions at each ply; a position that occurs at two plies counts at
    both."""
    new_by_game: NDArray[np.int64]
    """int64[games], number of positions of each game that do not occur in earlier games."""
    self_play_seconds: float
    """Wall-clock time of self-play; 0 if unknown."""

    @property
    def distinct_per_game(self) -> float:
        """Distinct positions per game."""
        return self.distinct_count / self.game_count if self.game_count else 0.0

    @property
    def distinct_per_hour(self) -> float | None:
        """Distinct positions per hour of self-play; None if the time is unknown."""
        if not self.self_play_seconds:
            return None
        return self.distinct_count / self.self_play_seconds * 3600

    def distinct_in_first(self, games: int) -> int:
        """Return the number of distinct positions in the first `games` games."""
        return int(self.new_by_game[:games].sum())

    def as_dict(self) -> dict[str, Any]:
        """Return the counts for JSON, with the number of distinct positions after each game."""
        return {
            "run": self.name,
            "games": self.game_count,
            "positions": self.position_count,
            "distinct": self.distinct_count,
            "distinct_per_game": self.distinct_per_game,
            "distinct_per_hour": self.distinct_per_hour,
            "wall_seconds": self.self_play_seconds,
            "positions_by_ply": self.positions_by_ply,
            "distinct_by_ply": self.distinct_by_ply,
            "distinct_by_games": np.cumsum(self.new_by_game).tolist(),
        }


def parse_diversity(table: Mapping[str, Any]) -> Diversity:
    """Return the diversity in a table written by `Diversity.as_dict`."""
    return Diversity(
        str(table["run"]), table["games"], table["positions"], table["distinct"],
        table["positions_by_ply"], table["distinct_by_ply"],
        np.diff(table["distinct_by_games"], prepend=0), table["wall_seconds"],
    )  # fmt: skip


def run_diversity(path: Path) -> Diversity:
    """Count the self-play positions of a run in all finished iterations.

    Raises UserError if the folder is not a run, is damaged, or has no games.
    """
    run = RunFolder.open(path)
    game = run.config.get("game")
    if not isinstance(game, str):
        raise UserError(f"{path}: game = {quoted(game)}: expected the name of a game")
    lines = [line for line in run.metrics() if line.get("stage") == SELF_PLAY]
    if not lines:
        raise UserError(f"{path} has no self-play games: expected a run with at least one")
    games = [run.games.stage_games(int(line["iteration"]), SELF_PLAY) for line in lines]
    self_play_seconds = sum(float(line.get("wall_seconds", 0.0)) for line in lines)
    return games_diversity(str(path), parse_game(game), games, self_play_seconds)


def games_diversity(
    name: str, game: Game, parts: Iterable[Sequence[GameRecord]], self_play_seconds: float = 0.0
) -> Diversity:
    """Count the positions in parts, such as iterations, in the given order; moves must be legal."""
    reached = [reached_positions(game, [])]
    game_count = 0
    for part in parts:
        part_positions = reached_positions(game, part)
        reached.append(
            part_positions._replace(game_indices=game_count + part_positions.game_indices)
        )
        game_count += len(part)
    joined = ReachedPositions(*map(np.concatenate, zip(*reached, strict=True)))
    return _count_positions(name, game_count, self_play_seconds, joined)


def _count_positions(
    name: str, game_count: int, self_play_seconds: float, reached: ReachedPositions
) -> Diversity:
    hashes, plies = reached.hashes, reached.plies
    order = np.lexsort((plies, reached.game_indices))
    _, first = np.unique(hashes[order], return_index=True)
    ply_count = int(plies.max()) + 1 if len(plies) else 0
    by_ply = [hashes[plies == ply] for ply in range(ply_count)]
    return Diversity(
        name=name,
        game_count=game_count,
        position_count=len(hashes),
        distinct_count=len(first),
        positions_by_ply=[len(each) for each in by_ply],
        distinct_by_ply=[len(np.unique(each)) for each in by_ply],
        new_by_game=np.bincount(reached.game_indices[order][first], minlength=game_count),
        self_play_seconds=self_play_seconds,
    )


_MAX_POINTS = 500  # per line


def draw_diversity(runs: Sequence[Diversity]) -> Figure:
    """Draw distinct positions against games and by ply, one line per run."""
    figure = new_figure(9, 4)
    against_games, by_ply = figure.subplots(1, 2)
    for number, run in enumerate(runs):
        style = {"color": colour(number), "label": shortened(run.name)}
        distinct = np.concatenate([[0], np.cumsum(run.new_by_game)])
        games = np.unique(np.linspace(0, run.game_count, _MAX_POINTS).astype(int))
        against_games.plot(games, distinct[games], **style)
        by_ply.plot(range(len(run.distinct_by_ply)), run.distinct_by_ply, marker=".", **style)
    against_games.set(xlabel="self-play games", ylabel="distinct positions")
    by_ply.set(xlabel="ply", ylabel="distinct positions at this ply")
    for axes in (against_games, by_ply):
        axes.grid(alpha=0.3)
    legend_below(figure, by_ply.get_legend_handles_labels()[0])
    return figure
