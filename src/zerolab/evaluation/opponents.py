"""Games against perfect play and baselines, and tables, JSON and figures of an agent's strength."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from rich.console import Console

from zerolab.agents.agent import FORFEIT_ACTION, Agent
from zerolab.agents.baselines import perfect_agent
from zerolab.agents.specs import parse_agent
from zerolab.core.errors import UserError
from zerolab.evaluation.accuracy import AccuracyReport
from zerolab.evaluation.position_statistics import MeanEstimate, mean_estimate, proportion_estimate
from zerolab.evaluation.positions import solve_states
from zerolab.oracles.oracle import NotSolvedError, Oracle
from zerolab.play.engine import ProgressCallback
from zerolab.play.match import play_match
from zerolab.play.pair_results import PairResult, pair_result
from zerolab.play.pairings import check_opening_length
from zerolab.ratings.results import repetition_key
from zerolab.report.figures import add_legend_below, new_figure, save_figure, series_colour
from zerolab.report.table import Cell, Column, Table, percent
from zerolab.report.text import print_table
from zerolab.rules import compiled_rules
from zerolab.rules.rules import Game
from zerolab.store.games import GameRecord

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BASELINES = ("random", "mcts:100?tie_break=random")
"""Specs of the baseline opponents. MCTS breaks ties at random; otherwise, with few simulations, it
would never try the last cells of a board, as happens in the papers' framework [AZG]."""


def play_baseline(
    agent: Agent,
    opponent: str,
    games: int,
    openings: int,
    seed: int,
    progress: ProgressCallback = lambda done, note: None,
) -> PairResult:
    """Return the result of a match against an opponent given by a spec (`play_match`)."""
    other = parse_agent(opponent, agent.game)
    match = play_match(agent.game, agent, other, games, seed, progress=progress, openings=openings)
    return pair_result(match.a, match.b, match.games)


class SolvedMove(NamedTuple):
    """Move of the player in a game, with exact scores for the player."""

    game_number: int
    ply: int
    best_score: int
    """Score of the best move."""
    played_score: int | None
    """Score of the move; None if the player forfeited."""

    @property
    def is_blunder(self) -> bool:
        """True if the move worsens the result under perfect play."""
        result = -1 if self.played_score is None else np.sign(self.played_score)
        return bool(result < np.sign(self.best_score))


class PerfectPlayReport(NamedTuple):
    """Summary of a player's games against perfect play; repeated games widen the intervals."""

    pair_result: PairResult
    """Scores from the player's point of view."""
    blunder_share: MeanEstimate | None
    """Share of games with a blunder; games that are lost from the start are not counted."""
    blunder_share_moving_first: MeanEstimate | None
    """Share of games with a blunder, among games where the player moved first."""
    blunder_share_moving_second: MeanEstimate | None
    """Share of games with a blunder, among games where the player moved second."""
    blunders_by_ply: dict[int, int]
    """Number of blunders at each ply, over all games. Two moves that turn a win into a draw and the
    draw into a loss are two blunders."""
    regret: MeanEstimate | None
    """Value of the best move minus the value of the chosen move; in Othello, a number of discs. In
    other games, values also depend on the speed of a win or loss."""


def play_against_perfect(
    game: Game,
    player: Agent,
    oracle: Oracle,
    games: int,
    openings: int,
    seed: int,
    progress: ProgressCallback = lambda done, note: None,
) -> tuple[list[GameRecord], list[SolvedMove]]:
    """Play games against perfect play, and solve every position where the player moved.

    The player moves first in even-numbered games. Games begin with `openings` random plies, which
    are identical in games 2j and 2j + 1. `progress` counts finished games. Raises NotSolvedError, a
    kind of UserError, if a position is too hard for the oracle's budget.
    """
    perfect = perfect_agent(game, oracle)
    try:
        match = play_match(game, player, perfect, games, seed, progress=progress, openings=openings)
        return match.games, solve_moves_of_player_a(game, match.games, oracle, openings)
    except NotSolvedError as error:
        raise NotSolvedError(
            f"perfect play from ply {openings} is too hard ({error.__cause__ or error}): expected a"
            f" larger --nodes or longer openings{_longer_openings(game, openings)}"
        ) from None


def _longer_openings(game: Game, openings: int) -> str:
    """Return an example of longer openings, or an empty string if games are too short for it."""
    try:
        check_opening_length(game, openings + 10)
    except UserError:
        return ""
    return f", such as --openings {openings + 10}"


def solve_moves_of_player_a(
    game: Game, games: Sequence[GameRecord], oracle: Oracle, openings: int = 0
) -> list[SolvedMove]:
    """Return the moves of player A in a match, after the opening, with their exact values.

    Raises NotSolvedError if a position is too hard for the oracle's budget.
    """
    moves, states = [], []
    for record in games:
        state = compiled_rules.start(game)
        for ply, action in enumerate(record.actions):
            if ply >= openings and (ply + record.number) % 2 == 0:
                moves.append((record.number, ply, action))
                states.append(state)
            if action != FORFEIT_ACTION:
                state = compiled_rules.apply(game, state, action)
    if not states:
        return []
    values, solved = solve_states(game, oracle, np.array(states))
    if not solved.all():
        raise NotSolvedError("a position in the games cannot be solved within the budget")
    return [
        SolvedMove(
            number, ply, int(row.max()), None if action == FORFEIT_ACTION else int(row[action])
        )
        for (number, ply, action), row in zip(moves, values, strict=True)
    ]


def perfect_play_report(
    games: Sequence[GameRecord], moves: Sequence[SolvedMove]
) -> PerfectPlayReport:
    """Summarise the games and moves returned by `play_against_perfect`."""
    first_equal: dict[Hashable, int] = {}
    line_by_game = {
        record.number: first_equal.setdefault(repetition_key(record), record.number)
        for record in games
    }
    regrets = [
        (m.best_score - m.played_score, line_by_game[m.game_number])
        for m in moves
        if m.played_score is not None
    ]
    return PerfectPlayReport(
        pair_result(games[0].first, games[0].second, games),
        _blunder_rate(moves, line_by_game),
        _blunder_rate([move for move in moves if move.game_number % 2 == 0], line_by_game),
        _blunder_rate([move for move in moves if move.game_number % 2 == 1], line_by_game),
        dict(sorted(Counter(move.ply for move in moves if move.is_blunder).items())),
        mean_estimate(
            np.array([regret for regret, _ in regrets], np.float64),
            np.array([line for _, line in regrets], np.int64),
        ),
    )


def _blunder_rate(
    moves: Sequence[SolvedMove], line_by_game: Mapping[int, int]
) -> MeanEstimate | None:
    """Return the share of games with a blunder, among games not lost from the start.

    `line_by_game` maps identical games to the same number.
    """
    games = sorted({move.game_number for move in moves if move.best_score >= 0})
    games_with_blunder = {move.game_number for move in moves if move.is_blunder}
    return proportion_estimate(
        np.isin(games, sorted(games_with_blunder)),
        np.array([line_by_game[game] for game in games], np.int64),
    )


def json_value(value: Any) -> Any:
    """Return a value that JSON can represent, with nested NamedTuples as dictionaries."""
    if isinstance(value, MeanEstimate):
        return value.as_dict()
    if hasattr(value, "_asdict"):
        return {name: json_value(field) for name, field in value._asdict().items()}
    if isinstance(value, dict):
        return {str(key): json_value(field) for key, field in value.items()}
    return [json_value(each) for each in value] if isinstance(value, list | tuple) else value


def perfect_play_dict(report: PerfectPlayReport) -> dict[str, Any]:
    """Return a report on games against perfect play as a dictionary for JSON."""
    others = {
        name: json_value(field) for name, field in report._asdict().items() if name != "pair_result"
    }
    return {"score": report.pair_result.as_dict(), **others}


def print_accuracy(console: Console, reports: Sequence[AccuracyReport]) -> None:
    """Print accuracies with intervals: overall, in non-trivial positions, and by ply."""
    rows: list[list[Cell]] = [
        [f"{report.name}, {title}", *map(_cell, (accuracy.strong, accuracy.weak, accuracy.regret))]
        for part, title in (
            ("all_positions", "all positions"),
            ("non_trivial", "non-trivial positions"),
        )
        for report in reports
        for accuracy in [getattr(report, part)]
    ]
    columns: list[str | Column] = ["player", Column("strong", ".1%"), Column("weak", ".1%")]
    columns.append(Column("regret per move", ".3f"))
    print_table(console, Table("accuracy", "", columns, rows))
    for report in reports:
        if report.value_accuracy is not None:
            error, sign = report.value_accuracy
            console.print(
                f"{report.name}: squared error of the value {_number(error)}; correct winner in"
                f" {_percent_text(sign)} of the won and lost positions"
            )
    print_table(console, _table_by_ply(reports))


def _table_by_ply(reports: Sequence[AccuracyReport]) -> Table:
    """Return a table with one row per range of plies.

    Exact accuracies are omitted if there are measured ones. JSON and the figure include them and
    show every ply separately.
    """
    measured = [each for each in reports if each.has_intervals] or list(reports)
    columns = [
        Column(f"{each.name}, {kind}", ".0%") for each in measured for kind in ("strong", "weak")
    ]
    rows: list[list[Cell]] = []
    for index, (first, last, accuracy) in enumerate(measured[0].by_ply_range):
        count = accuracy.strong.sample_count if accuracy.strong else 0
        in_range = [report.by_ply_range[index].accuracy for report in measured]
        cells = [_cell(each) for accuracy in in_range for each in (accuracy.strong, accuracy.weak)]
        rows.append([str(first) if first == last else f"{first}-{last}", count, *cells])
    return Table("by-ply", "", ["plies", "positions", *columns], rows)


def _cell(estimate: MeanEstimate | None) -> Cell:
    """Return an estimate as a cell, without an interval if it is exact."""
    if estimate is None:
        return "unknown"
    value, low, high = estimate.interval
    return estimate.interval if low < high else value


def print_perfect_play(console: Console, report: PerfectPlayReport) -> None:
    """Print the results of games against perfect play."""
    console.print(f"against perfect play: {describe_score(report.pair_result)}")
    for share, games_played in (
        (report.blunder_share, "overall"),
        (report.blunder_share_moving_first, "as first player"),
        (report.blunder_share_moving_second, "as second player"),
    ):
        count = share.sample_count if share else 0
        games = "1 game that was" if count == 1 else f"{count} games that were"
        console.print(
            f"blundered {games_played}: {_percent_text(share)} of {games} not lost from the start"
        )
    if report.blunders_by_ply:
        counts = ", ".join(f"{ply}: {count}" for ply, count in report.blunders_by_ply.items())
        console.print(f"blunders by ply: {counts}")
    console.print(f"regret per move: {_number(report.regret)}")


def describe_score(pair: PairResult) -> str:
    """Return the score of `pair.first` with its interval, and the effect of repeated games."""
    score, (score_rate, low, high) = pair.score, pair.interval
    repeated = pair.effective_games < score.game_count
    return (
        f"{percent(score_rate)} (95 % interval {percent(low)} to {percent(high)}),"
        f" {score.wins} won, {score.draws} drawn, {score.losses} lost"
        + (f", {pair.effective_games:.0f} effective games" if repeated else "")
    )


def _percent_text(estimate: MeanEstimate | None) -> str:
    """Return a proportion as a percentage, with its interval unless the proportion is exact."""
    if estimate is None:
        return "unknown"
    mean, low, high = estimate.interval
    return f"{percent(mean)}" + (f" ({percent(low)} to {percent(high)})" if low < high else "")


def _number(estimate: MeanEstimate | None) -> str:
    if estimate is None:
        return "unknown"
    mean, _, high = estimate.interval
    margin = high - mean
    return f"{mean:.3f}" + (f" ± {margin:.3f}" if margin > 0 else "")


MIN_POSITIONS_PER_PLY = 10
"""Minimum number of positions at a plotted ply; with fewer, the interval would be too wide."""

_OFFSET = 0.25  # distance in plies between the error bars of two players


def draw_accuracy(title: str, reports: Sequence[AccuracyReport]) -> Figure:
    """Draw strong and weak accuracy by ply with 95 % intervals, one line per player."""
    figure = new_figure(9, 4)
    panels = figure.subplots(1, 2, sharey=True)
    for axes, kind in zip(panels, ("strong", "weak"), strict=True):
        for number, report in enumerate(reports):
            _draw(axes, report, kind, number)
        axes.set(title=f"{kind} accuracy", ylim=(0, 1.02))
        axes.set_xlabel(f"ply (with at least {MIN_POSITIONS_PER_PLY} positions)")
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("moves")
    panels[0].yaxis.set_major_formatter(lambda rate, _: f"{100 * rate:.0f} %")
    add_legend_below(figure, panels[1].get_legend_handles_labels()[0])
    figure.suptitle(title, parse_math=False)
    return figure


def save_accuracy_figure(path: Path, title: str, reports: Sequence[AccuracyReport]) -> None:
    """Save the figure of `draw_accuracy` in the format of the extension, such as .png or .svg."""
    save_figure(draw_accuracy(title, reports), path)


def _draw(axes: Axes, report: AccuracyReport, kind: str, number: int) -> None:
    """Draw one player with error bars, or as a dashed line if the accuracy is exact."""
    intervals = {
        ply: estimate.interval
        for ply, accuracy in report.by_ply.items()
        if (estimate := getattr(accuracy, kind)) is not None
        and estimate.sample_count >= MIN_POSITIONS_PER_PLY
    }
    means = [interval.value for interval in intervals.values()]
    if not report.has_intervals:
        axes.plot(list(intervals), means, linestyle="--", color="0.5", label=report.name)
        return
    errors = [[interval.margins[side] for interval in intervals.values()] for side in (0, 1)]
    axes.errorbar(
        [ply + _OFFSET * number for ply in intervals], means, yerr=errors, marker=".",
        linewidth=1, elinewidth=0.7, capsize=1.5, color=series_colour(number), label=report.name,
    )  # fmt: skip
