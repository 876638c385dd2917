"""Report on the full grid: heat maps of Elo, and Elo against time [Wang2020a, Figs 4 to 6]."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from statistics import fmean, stdev
from typing import TYPE_CHECKING

import numpy as np

from zerolab.papers.hyperparameters.grid import (
    EPOCHS_SATURATED_CLAIM,
    FEW_EPOCHS_CLAIM,
    GRID_CLAIMS,
    GRID_SYMBOLS,
    HIGH_ELO_LOW_COST_CLAIM,
    ITERATIONS_AND_GAMES_CLAIM,
    ITERATIONS_EQUAL_TIME_CLAIM,
    ITERATIONS_LEAD_CLAIMS,
    ITERATIONS_SUBSUME_CLAIM,
    LONG_SESSION_FRUGAL_CLAIM,
    LONG_SESSION_SIMULATIONS_CLAIM,
    MORE_OF_ALL_CLAIM,
    MORE_OF_EACH_CLAIMS,
    MORE_TIME_HELPS_CLAIM,
    OUTER,
    OVERTRAINED_CLAIM,
    POSITIVE_INTERACTION_CLAIM,
    Grid,
    RatedGridRun,
    counted_work,
    mean_elo_point,
    read_grid,
)
from zerolab.papers.hyperparameters.regression import (
    elo_change_at_most_epochs,
    elo_in_long_sessions,
    elo_per_doubled_work,
    elo_spread_between_runs,
    fit_grid,
    interaction_of_iterations,
    lead_at_equal_time,
    lead_of_iterations,
    lead_over_costly_runs,
    leads_of_few_epochs,
    leads_of_iterations_and_games,
    pareto_front_shares,
    regression_section,
)
from zerolab.report.claims import Claim, Verdict
from zerolab.report.document import Block, Document, Heading, Paragraph, Picture
from zerolab.report.table import Cell, Column, Table, cell_text, time_unit
from zerolab.report.xy_plots import (
    HeatMap,
    MapPoint,
    ScatterPoint,
    draw_heat_maps,
    draw_point_map,
    draw_scatter,
    pareto_front_indices,
)
from zerolab.studies.claims import MissingEstimate, estimate_unless_missing
from zerolab.studies.finished_work import TrainedRun
from zerolab.studies.joint_estimates import (
    estimate_largest,
    estimate_smallest,
)
from zerolab.studies.results import Results, provenance, timing_caveat, verdict_section
from zerolab.studies.statistics import ClaimEstimate
from zerolab.studies.study import scale_caveats

if TYPE_CHECKING:
    from matplotlib.figure import Figure


DurationMeasure = Callable[[RatedGridRun], float]
"""Function that returns a duration of a run, in seconds."""

ELO_NOTE = (
    "Elo is relative to Random in each tournament because networks with different seeds do not play"
    " each other."
)
_SELECTION_BIAS = (
    "The front selects the best of many noisy points, so it contains lucky points and is biased"
    " upwards."
)


def heat_map_section(grid: Grid) -> Iterator[Block]:
    """Yield heat maps of Elo over simulations and epochs, one for each I and E."""
    yield Heading("Elo of all combinations")
    iterations, games = grid.levels["I"], grid.levels["E"]
    maps = {f"I = {i}, E = {e}": _map(grid, i, e) for i, e in product(iterations, games)}
    yield Picture(
        "elo",
        draw_heat_maps(
            maps, "Elo of final networks relative to Random", "m, simulations", "ep, epochs", "Elo",
            columns=len(games),
        ),
        "One map for each number of iterations (I, down) and games per iteration (E, across)."
        f" {ELO_NOTE} {_scale_note(grid)} {search_settings_note(grid)} The standard deviation"
        " between runs includes the variation of Random's rating between tournaments. Compare"
        " Fig. 4 of [Wang2020a].",
    )  # fmt: skip


def search_settings_note(grid: Grid) -> str:
    """Return a note about the search settings in tournaments."""
    planned = grid.results.design.tournaments
    options = ", ".join(dict.fromkeys(tournament.search_options for tournament in planned))
    return (
        f"All networks use the same search settings in tournaments ({options}), whatever m they"
        " were trained with, so the effect of m is its effect on training."
    )


def _scale_note(grid: Grid) -> str:
    low, high = f"{grid.bayes_elo_scales[0]:.3f}", f"{grid.bayes_elo_scales[-1]:.3f}"
    return (
        "The Elo scale is that of the model, which is the same in all tournaments. BayesElo would"
        f" multiply it by {low}"
        + (f" to {high}, depending on the tournament." if high != low else ".")
    )


def _map(grid: Grid, i: int, e: int) -> HeatMap:
    rows, columns = grid.levels["m"], grid.levels["ep"]
    values, spread, errors = (np.full((len(rows), len(columns)), np.nan) for _ in range(3))
    for (row, m), (column, ep) in product(enumerate(rows), enumerate(columns)):
        runs = grid.runs_at(I=i, E=e, m=m, ep=ep)
        if runs:
            values[row, column] = fmean(run.elo for run in runs)
            errors[row, column] = fmean(run.elo_standard_error for run in runs)
        if len(runs) > 1:
            spread[row, column] = stdev(run.elo for run in runs)
    repeated = len(grid.runs_by_tournament) > 1
    return HeatMap([*map(str, rows)], [*map(str, columns)], values, spread if repeated else None,
                errors)  # fmt: skip


def elo_time_section(grid: Grid) -> Iterator[Block]:
    """Yield figures of Elo against self-play, learning and total time, and a table of the front."""
    yield Heading("Elo against time")
    combinations = grid.runs_by_combination()
    for name, title, stage in (
        ("elo-selfplay-time", "Elo against self-play time", "selfplay"),
        ("elo-learning-time", "Elo against learning time", "learn"),
    ):
        yield Picture(
            name,
            _scatter(combinations.values(), OUTER, title, _stage_seconds(stage)),
            f"Each point is a combination of I, E, m and ep. {ELO_NOTE} {_SELECTION_BIAS}",
        )
    yield Picture(
        "elo-both-times",
        _time_map(combinations.values()),
        "Each point is a combination of I, E, m and ep, with the means of its runs. High Elo near"
        f" the origin is cheap. {ELO_NOTE} Compare Fig. 5 of [Wang2020a].",
    )
    largest = {symbol: grid.levels[symbol][-1] for symbol in ("I", "E")}
    subset = [
        runs
        for runs in combinations.values()
        if all(runs[0].level(symbol) == level for symbol, level in largest.items())
    ]
    if subset:
        levels = " and ".join(f"{symbol} = {level}" for symbol, level in largest.items())
        for name, time, cost, panel in (
            ("front-most-selfplay", "self-play time", _stage_seconds("selfplay"), "6(a)"),
            ("front-most", "time", _total_seconds, "6(b)"),
        ):
            yield Picture(
                name,
                _scatter(subset, "m", f"Elo against {time} with {levels}", cost),
                "All combinations of m and ep with the largest numbers of iterations and games."
                f" {ELO_NOTE} {_SELECTION_BIAS} Compare Fig. {panel} of [Wang2020a].",
            )
    yield Picture(
        "front",
        _scatter(combinations.values(), OUTER, "Elo against time", _total_seconds),
        f"Means of all combinations. {ELO_NOTE} {_SELECTION_BIAS} The table below shows how often"
        " each combination is on the front.",
    )
    yield Paragraph(_bootstrap_note(grid))
    yield pareto_front_table(grid)


def _bootstrap_note(grid: Grid) -> str:
    resampling = (
        "Each sample adds resampled residuals of Elo and time to the means. The residuals of all"
        " runs are pooled and include both variation between runs and measurement error."
        if elo_spread_between_runs(grid) is not None
        else "Each sample adds measurement error to Elo. With one run per combination, the"
        " variation between runs is unknown, so these shares are overconfident."
    )
    return (
        "The share of samples is the share of bootstrap samples with the combination on the front"
        f" of Elo and total time. {resampling} If the share is far from both 0 and 1, the place of"
        " the combination on or off the plotted front is due to chance."
    )


def pareto_front_table(grid: Grid) -> Table:
    """Return a table of combinations, with their means and the share of samples on the front."""
    combinations = list(grid.runs_by_combination().values())
    unit = time_unit(run.training_seconds for run in grid.runs)
    points = [
        mean_elo_point(runs, [run.training_seconds for run in runs], unit) for runs in combinations
    ]
    front = pareto_front_indices(
        [point.cost for point in points], [point.value for point in points]
    )
    shares = pareto_front_shares(grid)
    rows: list[list[Cell]] = [
        [
            points[i].label, len(combinations[i]), points[i].cost, points[i].value,
            "yes" if i in front else "no", shares[i],
        ]
        for i in sorted(range(len(points)), key=lambda i: -shares[i])
    ]  # fmt: skip
    columns: list[str | Column] = [
        "combination", "runs", Column(f"mean time ({unit.symbol})", ".3g"),
        Column("mean Elo above Random", "+.0f"), "on the front", Column("share of samples", ".0%"),
    ]  # fmt: skip
    return Table("front-shares", "Combinations on the Pareto front", columns, rows)


def _stage_seconds(name: str) -> DurationMeasure:
    return lambda run: run.trained_run.seconds_by_stage[name]


def _total_seconds(run: RatedGridRun) -> float:
    return run.training_seconds


def _scatter(
    combinations: Iterable[Sequence[RatedGridRun]], symbol: str, title: str, cost: DurationMeasure
) -> Figure:
    """Draw the means of combinations, coloured by the level of `symbol`."""
    combinations = list(combinations)
    unit = time_unit(cost(run) for runs in combinations for run in runs)
    series: dict[str, list[ScatterPoint]] = {}
    for runs in sorted(combinations, key=lambda runs: runs[0].level(symbol)):
        name = f"{symbol} = {runs[0].level(symbol)}"
        series.setdefault(name, []).append(mean_elo_point(runs, [*map(cost, runs)], unit))
    return draw_scatter(series, title, f"time ({unit.symbol})", "Elo, Random = 0")


def _time_map(combinations: Iterable[Sequence[RatedGridRun]]) -> Figure:
    """Draw mean Elo over mean self-play time and learning time."""
    selfplay, learning = _stage_seconds("selfplay"), _stage_seconds("learn")
    means = [
        [fmean(map(measure, runs)) for measure in (selfplay, learning, lambda run: run.elo)]
        for runs in combinations
    ]
    unit = time_unit(seconds for *times, _ in means for seconds in times)
    points = [MapPoint(x / unit.seconds, y / unit.seconds, elo) for x, y, elo in means]
    return draw_point_map(
        points, "Elo against self-play time and learning time", f"self-play time ({unit.symbol})",
        f"learning time ({unit.symbol})", "Elo, Random = 0",
    )  # fmt: skip


_SUBJECT = "whether time is better spent on more iterations or on more work within each iteration"


def grid_statistics(grid: Grid) -> dict[Claim, ClaimEstimate | MissingEstimate]:
    """Return the statistic of each claim about the grid, or the reason why it is missing."""
    unfinished_message = grid.results.unfinished_message()
    if unfinished_message or not grid.runs:
        return dict.fromkeys(
            GRID_CLAIMS, MissingEstimate(unfinished_message or "nothing is planned")
        )
    fits = fit_grid(grid)
    leads = {symbol: lead_of_iterations(grid, fits, symbol) for symbol in ITERATIONS_LEAD_CLAIMS}
    return {
        MORE_OF_ALL_CLAIM: estimate_smallest(
            [fits.elo_coefficients[symbol] for symbol in GRID_SYMBOLS]
        ),
        ITERATIONS_SUBSUME_CLAIM: estimate_unless_missing(estimate_smallest, [*leads.values()]),
        **{claim: fits.elo_coefficients[symbol] for symbol, claim in MORE_OF_EACH_CLAIMS.items()},
        OVERTRAINED_CLAIM: elo_change_at_most_epochs(grid),
        EPOCHS_SATURATED_CLAIM: elo_in_long_sessions(grid, "ep", "m"),
        LONG_SESSION_SIMULATIONS_CLAIM: elo_in_long_sessions(grid, "m", "ep"),
        MORE_TIME_HELPS_CLAIM: estimate_smallest(elo_per_doubled_work(grid)),
        FEW_EPOCHS_CLAIM: estimate_largest(leads_of_few_epochs(grid)),
        HIGH_ELO_LOW_COST_CLAIM: lead_at_equal_time(grid),
        LONG_SESSION_FRUGAL_CLAIM: lead_over_costly_runs(grid),
        ITERATIONS_AND_GAMES_CLAIM: estimate_smallest(leads_of_iterations_and_games(grid)),
        POSITIVE_INTERACTION_CLAIM: interaction_of_iterations(grid),
        ITERATIONS_EQUAL_TIME_CLAIM: fits.elo_at_equal_counted_time[OUTER],
        **{claim: leads[symbol] for symbol, claim in ITERATIONS_LEAD_CLAIMS.items()},
    }


def correlation_verdicts(results: Results) -> list[Verdict]:
    """Return the verdicts on the claims about the grid."""
    return results.judge(lambda part: grid_statistics(read_grid(part)))


def correlation_report(results: Results) -> Document:
    """Return the report on all finished work."""
    grid = read_grid(results)
    blocks = verdict_section(results, correlation_verdicts(results))
    if grid.runs:
        blocks += [
            *regression_section(grid),
            *heat_map_section(grid),
            Paragraph(_spread_note(grid)),
        ]
        blocks += elo_time_section(grid)
    else:
        blocks.append(Paragraph("There is no Elo yet because no tournament is finished."))
    if results.runs:
        blocks += [Heading("All runs"), _runs_table(grid)]
    scale = scale_caveats(results.scale, len(results.planned_levels("seed")), _SUBJECT)
    caveats = f"{scale} {search_settings_note(grid)} {timing_caveat(results)}"
    title = "Iterations, games, simulations and epochs together"
    return Document(title, caveats, blocks, provenance(results))


def _spread_note(grid: Grid) -> str:
    components = elo_spread_between_runs(grid)
    if components is None:
        return (
            "Each combination has one run, so the variation between runs of a combination is"
            " unknown. A fit over all runs averages over this variation; a single cell does not."
        )
    return (
        f"{ELO_NOTE} Runs of a combination vary with a standard deviation of"
        f" {components.observed_sd:.0f} Elo. This excludes common shifts of all networks in a"
        " tournament, such as the error of Random's own rating, which the constants of the fits"
        f" absorb. Measurement error accounts for {cell_text(components.error_share, '.0%')} of"
        f" that variance ({components.measurement_standard_error:.0f} Elo per run)."
    )


def _runs_table(grid: Grid) -> Table:
    rated_runs = {run.trained_run.planned.key: run for run in grid.runs}
    rows: list[list[Cell]] = []
    for run in grid.results.runs:
        key = run.planned.key
        rated = rated_runs.get(key)
        rows.append(
            [*_run_cells(run), rated and rated.elo, rated and rated.elo_standard_error, key]
        )
    columns = [
        "seed", *GRID_SYMBOLS, "self-play (s)", "learning (s)", "total (s)",
        "simulations", "examples seen", "positions", "last policy loss", "last value loss",
        "Elo above Random", "its standard error", "run",
    ]  # fmt: skip
    return Table("runs", "All runs", columns, rows)


def _run_cells(run: TrainedRun) -> list[Cell]:
    levels = [int(run.factors[symbol]) for symbol in GRID_SYMBOLS]
    losses, run_work = run.last_epoch_losses[-1], counted_work(run)
    return [
        run.factors["seed"], *levels,
        run.seconds_by_stage["selfplay"], run.seconds_by_stage["learn"], run.training_seconds,
        run_work.simulations, run_work.examples, run.selfplay_position_count,
        losses["policy"], losses["value"],
    ]  # fmt: skip
