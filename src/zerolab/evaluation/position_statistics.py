"""Statistics of positions: means with intervals, and counts of distinct self-play positions.

Positions from one game are similar, so they provide less information than positions from different
games. With one position per game, a proportion has Wilson's interval [Wilson1927] and a mean has
the normal interval. Otherwise, the standard error is that of the jackknife by game [Efron1979].

Positions are identified by hashes, as in `play.game_files`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.core.errors import UserError, quoted
from zerolab.evaluation.positions import check_recorded_games
from zerolab.play.game_files import ReachedPositions, reached_positions
from zerolab.report.figures import add_legend_below, new_figure, series_colour, shorten_name
from zerolab.report.table import Z95, Interval, wilson_interval
from zerolab.rules.catalogue import parse_game
from zerolab.rules.rules import Game
from zerolab.store.checks import user_errors_on_read
from zerolab.store.games import SELF_PLAY_STAGE, GameRecord
from zerolab.store.run_folder import RunFolder

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class MeanEstimate(NamedTuple):
    """Mean or proportion with its 95 % interval."""

    interval: Interval
    sample_count: int
    """Number of positions, games or moves."""

    def as_dict(self) -> dict[str, float]:
        """Return the fields for JSON."""
        mean, low, high = self.interval
        return {"mean": mean, "low": low, "high": high, "samples": self.sample_count}


def proportion_estimate(hits: NDArray[Any], game_numbers: NDArray[np.int64]) -> MeanEstimate | None:
    """Return the mean of `hits`, [n], each 0 or 1; None if there are no positions.

    `game_numbers` is int64[n]. The Wilson interval uses the number of independent trials that would
    have the same standard error.
    """
    if not len(hits):
        return None
    interval = wilson_interval(float(np.mean(hits)), independent_trials(hits, game_numbers))
    return MeanEstimate(interval, len(hits))


def independent_trials(hits: NDArray[Any], game_numbers: NDArray[np.int64]) -> float:
    """Return n such that rate * (1 - rate) / n is the squared standard error of the rate of hits.

    `hits`, [positions], are 0 or 1 and not empty; `game_numbers` is int64[positions].
    """
    rate = float(np.mean(hits))
    _, counts = np.unique(game_numbers, return_counts=True)
    if len(counts) == len(hits):
        return len(hits)
    if len(counts) == 1 or rate in (0.0, 1.0):  # no differences between games
        return float(len(hits) ** 2 / (counts**2).sum())  # [Kish1965], as in EffectiveScore
    variance = jackknife_standard_error(hits.astype(np.float64), game_numbers) ** 2
    return min(len(hits), rate * (1.0 - rate) / variance) if variance else len(hits)


def mean_estimate(
    values: NDArray[np.float64], game_numbers: NDArray[np.int64]
) -> MeanEstimate | None:
    """Return the mean of the values, [n], that are not NaN, with a normal interval.

    The values are not negative, so the interval does not begin below 0. `game_numbers` is int64[n].
    Returns None for values from fewer than two games, which have no standard error.
    """
    known = ~np.isnan(values)
    values, game_numbers = values[known], game_numbers[known]
    distinct_games = len(np.unique(game_numbers))
    if distinct_games < 2:
        return None
    mean = float(values.mean())
    if distinct_games == len(values):
        error = float(values.std(ddof=1)) / math.sqrt(len(values))
    else:
        error = jackknife_standard_error(values, game_numbers)
    low, high = max(0.0, mean - Z95 * error), mean + Z95 * error
    return MeanEstimate(Interval(mean, low, high), len(values))


def exact_estimate(values: NDArray[Any]) -> MeanEstimate | None:
    """Return the mean of exact values with an interval of length 0; None if there are none."""
    if not len(values):
        return None
    mean = float(values.mean())
    return MeanEstimate(Interval(mean, mean, mean), len(values))


def jackknife_standard_error(values: NDArray[np.float64], game_numbers: NDArray[np.int64]) -> float:
    """Return the standard error of the mean of values, [n], from at least two games.

    `game_numbers` is int64[n]. The squared error is (G - 1) / G times the sum of squared deviations
    of the G means, each without one game, from their average. With few games of different lengths,
    it is larger and more accurate than the linear approximation of the same error.
    """
    _, indices = np.unique(game_numbers, return_inverse=True)
    counts = np.bincount(indices)
    sums = np.bincount(indices, weights=values)
    means = (sums.sum() - sums) / (len(values) - counts)
    return float(means.std()) * math.sqrt(len(means) - 1)


class Diversity(NamedTuple):
    """Counts of all and of distinct positions in a set of games."""

    name: str
    game_count: int
    position_count: int
    """Number of positions in all games, including repetitions."""
    distinct_count: int
    """Number of distinct positions in all games."""
    position_counts_by_ply: list[int]
    """Number of positions at each ply, including repetitions."""
    distinct_counts_by_ply: list[int]
    """Number of distinct positions at each ply; a position that occurs at two plies is counted at
    both."""
    new_counts_by_game: NDArray[np.int64]
    """int64[games], number of positions in each game that do not occur in earlier games."""
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
        return int(self.new_counts_by_game[:games].sum())

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
            "positions_by_ply": self.position_counts_by_ply,
            "distinct_by_ply": self.distinct_counts_by_ply,
            "distinct_by_games": np.cumsum(self.new_counts_by_game).tolist(),
        }


def parse_diversity(table: Mapping[str, Any]) -> Diversity:
    """Return the diversity in a table written by `Diversity.as_dict`."""
    return Diversity(
        str(table["run"]), table["games"], table["positions"], table["distinct"],
        table["positions_by_ply"], table["distinct_by_ply"],
        np.diff(table["distinct_by_games"], prepend=0), table["wall_seconds"],
    )  # fmt: skip


def diversity_of_run(path: Path) -> Diversity:
    """Count the self-play positions of a run in all finished iterations.

    Raises UserError if the folder is not a run, is damaged, or has no games.
    """
    run = RunFolder.open(path)
    game = run.config.get("game")
    if not isinstance(game, str):
        raise UserError(f"{path}: game = {quoted(game)}: expected the name of a game")
    lines = [line for line in run.metrics() if line.get("stage") == SELF_PLAY_STAGE]
    if not lines:
        raise UserError(f"{path} has no self-play games: expected a run with at least one")
    with user_errors_on_read(path / "metrics.jsonl"):
        iterations = [int(line["iteration"]) for line in lines]
        self_play_seconds = sum(float(line.get("wall_seconds", 0.0)) for line in lines)
    games = [run.games.stage_games(iteration, SELF_PLAY_STAGE) for iteration in iterations]
    played = parse_game(game)
    moves = (each.actions[: each.ply_count] for part in games for each in part)
    check_recorded_games(run.games.path, played, moves)
    return diversity_of_games(str(path), played, games, self_play_seconds)


def diversity_of_games(
    name: str, game: Game, parts: Iterable[Sequence[GameRecord]], self_play_seconds: float = 0.0
) -> Diversity:
    """Count the positions in games, given in parts such as iterations; moves must be legal."""
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
        position_counts_by_ply=[len(each) for each in by_ply],
        distinct_counts_by_ply=[len(np.unique(each)) for each in by_ply],
        new_counts_by_game=np.bincount(reached.game_indices[order][first], minlength=game_count),
        self_play_seconds=self_play_seconds,
    )


_MAX_POINTS = 500  # per line


def draw_diversity(runs: Sequence[Diversity]) -> Figure:
    """Draw distinct positions by number of games and by ply, one line per run."""
    figure = new_figure(9, 4)
    against_games, by_ply = figure.subplots(1, 2)
    for number, run in enumerate(runs):
        style = {"color": series_colour(number), "label": shorten_name(run.name)}
        distinct = np.concatenate([[0], np.cumsum(run.new_counts_by_game)])
        games = np.unique(np.linspace(0, run.game_count, _MAX_POINTS).astype(int))
        against_games.plot(games, distinct[games], **style)
        by_ply.plot(
            range(len(run.distinct_counts_by_ply)), run.distinct_counts_by_ply, marker=".", **style
        )
    against_games.set(xlabel="self-play games", ylabel="distinct positions")
    by_ply.set(xlabel="ply", ylabel="distinct positions at this ply")
    for axes in (against_games, by_ply):
        axes.grid(alpha=0.3)
    add_legend_below(figure, by_ply.get_legend_handles_labels()[0])
    return figure
