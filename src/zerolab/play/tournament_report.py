"""Reports on matches and tournaments for the terminal, and as JSON, CSV and figures."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.text import Text

from zerolab.core.errors import UserError
from zerolab.core.files import write_text
from zerolab.play.match import Match
from zerolab.play.pair_results import (
    CycleStatistics,
    Floats,
    GameCounts,
    GoodnessOfFit,
    PairResult,
    count_games,
    cross_table,
    find_cycles,
    goodness_of_fit,
    pair_result,
    pair_results,
)
from zerolab.play.tournament import Tournament
from zerolab.ratings.bayes import rate
from zerolab.ratings.ratings import (
    EloDifference,
    Ratings,
    draw_ratings,
    ratings_csv,
    ratings_json,
    ratings_table,
)
from zerolab.ratings.sprt import SprtVerdict, verdict_text
from zerolab.report.document import Block, Paragraph
from zerolab.report.figures import new_figure, save_figure, shorten_name
from zerolab.report.html import NotebookView
from zerolab.report.table import (
    Cell,
    Column,
    Interval,
    Table,
    data_frame,
    percent,
    rows_as_csv,
)
from zerolab.report.text import print_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame


RATINGS_FILE_NAME = "ratings.json"
"""Name of the file in a tournament folder that contains the complete report."""

_MAX_NAME_LENGTH = 30
_MAX_NUMBERED = 25  # with more players, percentages do not fit in the cells


def draw_cross_table(players: Sequence[str], table: NDArray[np.float64], title: str) -> Figure:
    """Draw the points per game, float64[n, n], of row players against column players."""
    count = len(players)
    side = 2.5 + (0.45 if count <= _MAX_NUMBERED else 0.16) * count
    figure = new_figure(side + 1.0, side)
    axes = figure.subplots()
    image = axes.imshow(table, cmap="RdBu", vmin=0.0, vmax=1.0)
    names = [shorten_name(name, _MAX_NAME_LENGTH) for name in players]
    size = 9 if count <= _MAX_NUMBERED else 6
    axes.set_xticks(range(count), names, rotation=90, fontsize=size, parse_math=False)
    axes.set_yticks(range(count), names, fontsize=size, parse_math=False)
    axes.set_title(title, parse_math=False)
    if count <= _MAX_NUMBERED:
        for i, j in zip(*np.nonzero(~np.isnan(table)), strict=True):
            dark = abs(table[i, j] - 0.5) > 0.35
            colour = "white" if dark else "black"
            points = f"{percent(table[i, j], 0)}"
            axes.text(j, i, points, ha="center", va="center", fontsize=8, color=colour)
    figure.colorbar(image, label="points per game of the row player", shrink=0.7)
    return figure


_MAX_PLAYERS_IN_TABLE = 12  # with more, the cross table does not fit in a terminal
_MAX_PAIRS = 30
_MAX_CYCLES = 10
_MAX_RESIDUALS = 5
_VARIETY_HINT = "use --openings 4, or ?temperature_plies=4 after a network, to vary games"


@dataclass(frozen=True)
class MatchReport:
    """Result of a match from the point of view of agent A.

    Repeated games widen intervals. Elo is on the BayesElo scale; JSON also contains it on the scale
    of the model, as `elo_model`.
    """

    pair_result: PairResult
    """Result of the pair of agents, with A first."""
    game_counts: GameCounts
    elo_difference: EloDifference
    """Elo of A minus Elo of B."""
    model_elo_difference: EloDifference
    """The same difference on the scale of the model."""
    verdict: SprtVerdict | None
    """Verdict of the sequential test, if any."""

    @classmethod
    def from_match(cls, match: Match, verdict: SprtVerdict | None = None) -> MatchReport:
        """Return the report on a match, with the verdict of its sequential test, if any."""
        ratings = rate(match.games)
        return cls(
            pair_result(match.a, match.b, match.games),
            count_games(match.games),
            ratings.elo_difference(match.a, match.b),
            ratings.model.elo_difference(match.a, match.b),
            verdict,
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        return {
            "players": [self.pair_result.first, self.pair_result.second],
            "games": self.game_counts.game_count,
            **self.pair_result.as_dict(),
            "elo": self.elo_difference.interval.value,
            "elo_low": self.elo_difference.interval.low,
            "elo_high": self.elo_difference.interval.high,
            "elo_model": self.model_elo_difference.interval.value,
            "elo_model_low": self.model_elo_difference.interval.low,
            "elo_model_high": self.model_elo_difference.interval.high,
            "los": self.elo_difference.los,
            "forfeits": self.game_counts.forfeit_counts,
            "sprt": self.verdict._asdict() if self.verdict else None,
        }

    def lines(self) -> list[str]:
        """Return the lines to print in a terminal."""
        (a, b, score), elo, counts = self.pair_result[:3], self.elo_difference, self.game_counts
        (score_rate, low, high), (lead, lowest, highest) = self.pair_result.interval, elo.interval
        lines = [
            f"{a} against {b}: {score.wins} won, {score.draws} drawn, {score.losses} lost",
            f"score rate {percent(score_rate)} (95 % interval {percent(low)} to {percent(high)})",
            f"Elo difference {lead:+.1f} (95 % interval {lowest:+.1f} to {highest:+.1f});"
            f" likelihood of superiority {percent(elo.los)}",
            _describe_counts(counts, self.pair_result.effective_games),
            *_forfeits(counts),
        ]
        return lines + ([verdict_text(self.verdict)] if self.verdict else [])


def _describe_counts(counts: GameCounts, effective_games: float) -> str:
    text = f"{counts.game_count} games, {counts.distinct_count} distinct"
    if counts.distinct_count == counts.game_count:
        return text
    return (
        f"{text}, {effective_games:.0f} effective: repeated games widen intervals; {_VARIETY_HINT}"
    )


def _forfeits(counts: GameCounts) -> list[str]:
    return [
        f"{name} forfeited {games} {'game' if games == 1 else 'games'}"
        for name, games in counts.forfeit_counts.items()
    ]


@dataclass(frozen=True)
class TournamentReport(NotebookView):
    """Ratings, pairwise results, cycles and goodness of fit of a tournament."""

    tournament: Tournament
    ratings: Ratings
    game_counts: GameCounts
    pairs: list[PairResult]
    score_rates: Floats
    """Cross table, float64[n, n]: points per game of the row player, strongest players first."""
    cycles: CycleStatistics
    goodness_of_fit: GoodnessOfFit

    @classmethod
    def from_tournament(cls, tournament: Tournament) -> TournamentReport:
        """Return the report on the stored games of a tournament."""
        games = tournament.games()
        ratings, pairs = rate(games), pair_results(games)
        table = cross_table([each.player for each in ratings.player_ratings], pairs)
        return cls(
            tournament, ratings, count_games(games), pairs, table, find_cycles(pairs),
            goodness_of_fit(pairs, ratings),
        )  # fmt: skip

    @property
    def players(self) -> list[str]:
        """Player names from strongest to weakest."""
        return [rating.player for rating in self.ratings.player_ratings]

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON, with ratings as in `zerolab rate --json`."""
        score_rate, low, high = _first_player_interval(self.game_counts)
        return {
            "folder": None if self.tournament.is_temporary else str(self.tournament.path),
            **self.tournament.settings.model_dump(exclude={"players"}),
            **ratings_json(self.ratings),
            "games_played": self.game_counts.game_count,
            "distinct_games": self.game_counts.distinct_count,
            "moving_first": {
                **self.game_counts.first_player_score._asdict(),
                "score_rate": score_rate,
                "low": low,
                "high": high,
            },
            "forfeits": self.game_counts.forfeit_counts,
            "pairs": [_pair_dict(pair) for pair in self.pairs],
            "cycles": {
                **self.cycles._asdict(),
                "cyclic_fraction": self.cycles.cyclic_fraction,
                "significant_cycles": [cycle._asdict() for cycle in self.cycles.significant_cycles],
            },
            "fit": {
                "chi_square": self.goodness_of_fit.chi_square,
                "degrees_of_freedom": self.goodness_of_fit.degrees_of_freedom,
                "p_value": self.goodness_of_fit.p_value,
                "residuals": [each._asdict() for each in self.goodness_of_fit.residuals],
            },
        }

    def save(self) -> None:
        """Write tables and figures to the tournament folder; raise UserError if there is none."""
        if self.tournament.is_temporary:
            raise UserError(
                "the tournament was played without a folder: expected folder=..., as in"
                ' play_tournament(..., folder="tournaments/first")'
            )
        folder = self.tournament.path
        title = f"{self.tournament.settings.game}, {self.game_counts.game_count} games"
        write_text(folder / RATINGS_FILE_NAME, json.dumps(self.as_dict(), indent=1) + "\n")
        write_text(folder / "ratings.csv", ratings_csv(self.ratings))
        write_text(folder / "crosstable.csv", self._cross_table_csv())
        pairs = [_pair_dict(pair) for pair in self.pairs]
        columns, rows = list(pairs[0]), [list(pair.values()) for pair in pairs]
        write_text(folder / "pairs.csv", rows_as_csv([columns, *rows]))
        figures = {
            "ratings": draw_ratings(self.ratings, title),
            "crosstable": draw_cross_table(self.players, self.score_rates, title),
        }
        for name, figure in figures.items():
            for extension in ("png", "svg"):
                save_figure(figure, folder / f"{name}.{extension}")

    def _cross_table_csv(self) -> str:
        rows = [
            [name, *("" if math.isnan(rate) else f"{rate:.6g}" for rate in row)]
            for name, row in zip(self.players, self.score_rates.tolist(), strict=True)
        ]
        return rows_as_csv([["player", *self.players], *rows])

    def to_pandas(self) -> DataFrame:
        """Return one row per pair of players, with results and interval bounds.

        `ratings.to_pandas` returns one row per player. Raises MissingExtraError if pandas is not
        installed.
        """
        return data_frame([_pair_dict(pair) for pair in self.pairs])

    def _blocks(self) -> Iterable[Block]:
        yield from self.ratings._blocks()
        if len(self.players) <= _MAX_PLAYERS_IN_TABLE:
            yield self._cross_table()
        if len(self.pairs) <= _MAX_PAIRS:
            yield self._pair_table()
        for line in [*self._describe_games(), *self._describe_cycles(), *self._describe_fit()]:
            yield Paragraph(line)

    def __repr__(self) -> str:
        count = self.game_counts.game_count
        return (
            f"<TournamentReport of {len(self.players)} players, {count} games,"
            f" strongest {shorten_name(self.players[0])}>"
        )

    def show(self, console: Console) -> None:
        """Print ratings, tables and statistics."""
        print_table(console, ratings_table(self.ratings))
        if len(self.players) <= _MAX_PLAYERS_IN_TABLE:
            print_table(console, self._cross_table())
        if len(self.pairs) <= _MAX_PAIRS:
            print_table(console, self._pair_table())
        lines = [*self._describe_games(), *self._describe_cycles(), *self._describe_fit()]
        for line in lines:
            console.print(Text(line), highlight=False)

    def _cross_table(self) -> Table:
        numbers = [Column(str(number), ".0%") for number in range(1, len(self.players) + 1)]
        rows: list[list[Cell]] = [
            [number, player, *(None if math.isnan(rate) else rate for rate in row)]
            for number, (player, row) in enumerate(
                zip(self.players, self.score_rates.tolist(), strict=True), start=1
            )
        ]
        return Table("crosstable", "points per game", ["", "player", *numbers], rows)

    def _pair_table(self) -> Table:
        rows: list[list[Cell]] = [
            [
                pair.first, pair.second, *pair.score, pair.interval,
                f"{pair.effective_games:.0f} of {pair.score.game_count}",
            ]
            for pair in self.pairs
        ]  # fmt: skip
        columns: list[str | Column] = [
            "player", "opponent", "won", "drawn", "lost",
            Column("score rate (95 % interval)", ".1%"), "effective games",
        ]  # fmt: skip
        return Table("pairs", "pairs", columns, rows)

    def _describe_games(self) -> list[str]:
        counts = self.game_counts
        score_rate, low, high = _first_player_interval(counts)
        return [
            _describe_counts(counts, sum(pair.effective_games for pair in self.pairs)),
            f"moving first: {percent(score_rate)} of the points"
            f" (95 % interval {percent(low)} to {percent(high)})",
            *_forfeits(counts),
        ]

    def _describe_cycles(self) -> list[str]:
        cycles = self.cycles
        if not cycles.triple_count:
            return []
        fraction = cycles.cyclic_fraction
        rate = (
            "" if fraction is None else f" ({percent(fraction)}; 25 % if results were coin tosses)"
        )
        count = len(cycles.significant_cycles)
        lines = [
            f"cycles: {cycles.triple_count} triples of players, {cycles.decided_count} without tied"
            f" pairs, {cycles.cyclic_count} cyclic by score{rate}",
            f"significant cycles: {count} (three sign tests, each at the 5 % level; at most"
            f" {cycles.max_expected_by_chance:.2g} expected by chance among equal players)",
        ]
        for players, values in cycles.significant_cycles[:_MAX_CYCLES]:
            chain = " beats ".join([*players, players[0]])
            lines.append(f"  {chain} (p = {', '.join(f'{value:.2g}' for value in values)})")
        if count > _MAX_CYCLES:
            lines.append(f"  and {count - _MAX_CYCLES} more in ratings.json")
        return lines

    def _describe_fit(self) -> list[str]:
        fit = self.goodness_of_fit
        if fit.p_value is None:
            return []
        lines = [
            f"fit of the ratings to pairwise results: chi-square {fit.chi_square:.1f} with"
            f" {fit.degrees_of_freedom} degrees of freedom, p = {fit.p_value:.2g};"
            " largest deviations:"
        ]
        for each in fit.residuals[:_MAX_RESIDUALS]:
            lines.append(
                f"  {each.first} against {each.second}: {each.total_points:g} points,"
                f" {each.expected_points:.1f} expected"
                f" ({each.standardised_difference:+.1f} standard errors)"
            )
        return lines


def _first_player_interval(counts: GameCounts) -> Interval:
    return counts.first_player_score.interval(counts.effective_count)


def _pair_dict(pair: PairResult) -> dict[str, Any]:
    return {"first": pair.first, "second": pair.second, **pair.as_dict()}
