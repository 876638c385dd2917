"""Report on training efficiency on Connect Four: accuracy against cost [Clausen2021]."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from zerolab.networks.catalogue import count_parameters, evaluation_flops
from zerolab.papers.connect_four import diversity, smaller_findings
from zerolab.papers.connect_four.costs import (
    AccuracyPoint,
    PointsByVariant,
    cost_to_reach,
    difference_at_equal_cost,
    measured_accuracy_points,
    measured_move_times,
    peak_accuracy,
    training_statistics,
)
from zerolab.papers.connect_four.findings import (
    ABLATION_CLAIMS,
    EXTENDED_CHEAPER_CLAIM,
    EXTENSIONS_GAIN_LITTLE_CLAIM,
    EXTENSIONS_SAVE_EFFORT_CLAIM,
    FEATURES_DO_NOT_PAY_CLAIM,
    FINAL_ACCURACY_CLAIMS,
    FREE_FEATURES_NO_HELP_CLAIM,
    GROWING_NETWORK_CHEAPER_CLAIM,
    GROWING_NETWORK_EARLY_CLAIM,
    LEAGUE_NO_BETTER_CLAIM,
    PEAK_ACCURACY_CLAIMS,
    SERVICE_BEATS_BASELINE_CLAIM,
    SERVICE_CHEAPER_CLAIM,
    SMALL_NETWORK_COST_CLAIM,
)
from zerolab.papers.connect_four.study import MAIN_VARIANTS, TimedMoveKind, timed_move_kinds
from zerolab.papers.connect_four.variants import (
    BASELINE,
    EXTENDED,
    FEATURES,
    GAME_TREE_VARIANTS,
    GROWING_VARIANTS,
    LEAGUE_VARIANTS,
    MERGING_WEIGHT_VARIANTS,
    SELF_PLAY_PART,
    SMALL,
    VARIANTS,
)
from zerolab.report.claims import Claim
from zerolab.report.document import Block, Document, Heading, Paragraph, Picture
from zerolab.report.interval_plots import IntervalRow, draw_intervals
from zerolab.report.table import Cell, Column, Interval, Table, TimeUnit, time_unit
from zerolab.report.xy_plots import Curve, draw_curves
from zerolab.rules.catalogue import parse_game
from zerolab.studies.claims import ClaimStatistics, MissingEstimate
from zerolab.studies.results import Results, provenance, verdict_section
from zerolab.studies.statistics import ClaimEstimate, estimate_mean
from zerolab.studies.study import scale_caveats
from zerolab.training.optimization import TimeInRun

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_LEVELS = (88, 90, 91)
"""Strong accuracies, in percent, at which [Clausen2021] compares costs."""
_LOWER_LEVELS = (50, 60, 70, 80)
"""Lower accuracies, in percent, reached by shorter runs."""
_POINTS = 40  # points per curve
_CYCLE_STEPS = 200  # plotted steps per iteration
_HOUR = 3600.0  # seconds

_FIGURES: Mapping[str, tuple[str, Sequence[str]]] = {
    "accuracy": ("Baseline and extended version", (EXTENDED, BASELINE)),
    "accuracy-trees": ("Games as trees", (EXTENDED, *GAME_TREE_VARIANTS)),
    "accuracy-growing": ("Growing networks", (EXTENDED, *GROWING_VARIANTS)),
    "accuracy-league": ("Leagues of search settings", (EXTENDED, *LEAGUE_VARIANTS)),
    "accuracy-features": ("Features of a small network", (EXTENDED, FEATURES, SMALL)),
    "accuracy-ablation": (
        "Extended version with one ingredient removed",
        (EXTENDED, *(name for name, variant in VARIANTS.items() if variant.is_ablation)),
    ),
    "accuracy-merging": (
        "Weight of the newer of two equal positions",
        (EXTENDED, *MERGING_WEIGHT_VARIANTS, "no-merging"),
    ),
}
"""Title and variants of each figure of accuracy against cost, by name of the figure."""


_EXTENSION_CLAIMS = frozenset({
    EXTENDED_CHEAPER_CLAIM, SERVICE_CHEAPER_CLAIM, SERVICE_BEATS_BASELINE_CLAIM,
    diversity.DUPLICATE_FILTER_CLAIM, GROWING_NETWORK_CHEAPER_CLAIM, GROWING_NETWORK_EARLY_CLAIM,
    FEATURES_DO_NOT_PAY_CLAIM, FREE_FEATURES_NO_HELP_CLAIM, SMALL_NETWORK_COST_CLAIM,
    LEAGUE_NO_BETTER_CLAIM, EXTENSIONS_SAVE_EFFORT_CLAIM, EXTENSIONS_GAIN_LITTLE_CLAIM,
    smaller_findings.EVOLVED_SETTINGS_WORSE_CLAIM, smaller_findings.EVOLVED_SETTINGS_WIN_CLAIM,
    smaller_findings.EASY_POSITIONS_EASIER_CLAIM, smaller_findings.GROWTH_DROP_CLAIM,
    smaller_findings.LATER_GROWTH_DROP_CLAIM, smaller_findings.DROP_RECOVERY_CLAIM,
    *(
        claim for claim, pair in {**PEAK_ACCURACY_CLAIMS, **FINAL_ACCURACY_CLAIMS}.items()
        if set(pair) <= set(MAIN_VARIANTS)
    ),
})  # fmt: skip
"""Claims about the variants in the study of extensions."""


def efficiency_statistics(results: Results) -> dict[Claim, ClaimEstimate | MissingEstimate]:
    """Return the statistic of each claim, or the reason why it is missing."""
    return {
        **training_statistics(results, measured_accuracy_points(results)),
        **smaller_findings.growth_statistics(results),
        **smaller_findings.easy_position_statistics(results),
        **smaller_findings.evolved_settings_statistics(results),
        **diversity.check_parameter_statistics(results),
        **diversity.duplicate_filter_statistics(results),
        **diversity.diversity_statistics(results, diversity.measured_diversities(results)),
    }


def extension_statistics(results: Results) -> dict[Claim, ClaimEstimate | MissingEstimate]:
    """Return the statistics of the claims about extensions of the extended version."""
    return {
        claim: estimate for claim, estimate in efficiency_statistics(results).items()
        if claim in _EXTENSION_CLAIMS
    }  # fmt: skip


def efficiency_report(results: Results) -> Document:
    """Return the report on all finished work."""
    return _report("Efficiency on Connect Four", results, efficiency_statistics)


def extension_report(results: Results) -> Document:
    """Return the report on all finished work on extensions."""
    return _report("Extensions on Connect Four, with more seeds", results, extension_statistics)


def _report(
    title: str, results: Results, statistics: Callable[[Results], ClaimStatistics]
) -> Document:
    subject = (
        "which training method is cheapest for networks of other sizes or for accuracies beyond the"
        " reach of these runs"
    )
    runs, diversities = measured_accuracy_points(results), diversity.measured_diversities(results)
    easy_position_accuracies = smaller_findings.easy_position_accuracies(results)
    blocks: list[Block] = [
        *verdict_section(results, results.judge(statistics)),
        *training_section(results, runs),
        *learning_rate_cycle_section(results),
        *smaller_findings.growth_section(results),
        *smaller_findings.easy_position_section(results, easy_position_accuracies),
        *diversity.league_section(results),
        *smaller_findings.evolved_settings_section(results),
        *diversity.diversity_section(diversities),
    ]
    return Document(
        title,
        scale_caveats(
            results.scale, len(results.planned_levels("seed")), subject, symmetries=False
        ),
        blocks,
        provenance(results),
    )


def training_section(results: Results, runs: PointsByVariant) -> Iterator[Block]:
    """Yield the figures and tables on training."""
    if not runs:
        return
    yield Heading("Training by self-play")
    yield Paragraph(
        "Cost is the cost of self-play alone, as in [Clausen2021]. It is the number of simulations"
        " multiplied by the time per simulation on one core, measured under equal conditions for"
        " all networks. It excludes training steps and, except where a finding says otherwise, the"
        " training of a small network whose features another network learns. The small network has"
        " its own row ([Clausen2021] trained it for two additional hours). Accuracy is the strong"
        " accuracy of search on solved positions from games in which half of the plies are perfect."
        " All runs are measured on the same positions, so the intervals cover variation between"
        " runs but not the choice of positions. Comparisons at equal cost use the mean accuracy"
        " over the last fifth of that cost; averages at equal cost are taken over the whole range"
        " of costs that both curves cover."
    )
    for name, (title, variants) in _FIGURES.items():
        plotted = {variant: runs[variant] for variant in variants if variant in runs}
        if len(plotted) > 1:
            caption = "Mean over runs, with a band of one standard deviation between runs."
            yield Picture(name, _curves(plotted, title), caption)
    yield from _effects(runs)
    yield _costs(runs)
    if table := move_times_table(results):
        yield table


def learning_rate_cycle_section(results: Results) -> Iterator[Block]:
    """Yield the figure of the extended version's learning-rate and momentum cycle."""
    settings = next(
        (run.settings for run in results.design.runs if run.factors.get("variant") == EXTENDED),
        None,
    )
    if settings is None or settings.learn.schedule.name != "cycle":
        return
    fractions = np.arange(0.0, 1.0, 1.0 / _CYCLE_STEPS).tolist()
    last = settings.learn.schedule.last_scheduled_iteration or settings.iterations
    panels: dict[str, dict[str, Curve]] = {"learning rate": {}, "momentum": {}}
    for iteration in (1, last):
        times = [TimeInRun(iteration, fraction, settings.iterations) for fraction in fractions]
        rates = [settings.learn.schedule.step_rates(time) for time in times]
        name = f"iteration {iteration}"
        learning_rates = [
            settings.learn.learning_rate * each.learning_rate_factor for each in rates
        ]
        panels["learning rate"][name] = Curve(fractions, [learning_rates])
        panels["momentum"][name] = Curve(fractions, [[each.momentum or 0.0 for each in rates]])
    yield Picture(
        "cycle",
        draw_curves(panels, "Cycle of the extended version", "share of an iteration's steps", ""),
        "Planned learning rate and momentum, in the first iteration and in the iteration with the"
        " smallest cycle; the momentum is the same in both. Compare Fig. 2 of [Clausen2021].",
    )


def _curves(runs: PointsByVariant, title: str) -> Figure:
    """Draw accuracy over the range of costs that all runs of a variant cover."""
    curves, unit = {}, _unit_of(runs)
    for name, by_seed in runs.items():
        first = max(run[0].core_hours for run in by_seed.values())
        last = min(run[-1].core_hours for run in by_seed.values())
        costs = np.linspace(first, last, _POINTS)
        accuracies = [
            np.interp(
                costs, [point.core_hours for point in run], [point.strong_accuracy for point in run]
            ).tolist()
            for run in by_seed.values()
        ]
        curves[VARIANTS[name].title] = Curve((costs * _HOUR / unit.seconds).tolist(), accuracies)
    return draw_curves({"": curves}, title, f"{unit.plural} of self-play", "strong accuracy")


def _unit_of(runs: PointsByVariant) -> TimeUnit:
    """Return the unit in which to show the costs of runs, which are stored in hours."""
    longest = (run[-1].core_hours for by_seed in runs.values() for run in by_seed.values())
    return time_unit(hours * _HOUR for hours in longest)


def _effects(runs: PointsByVariant) -> Iterator[Block]:
    differences = {
        VARIANTS[name].title.removeprefix("without "): difference_at_equal_cost(
            runs, EXTENDED, name
        )
        for name in ABLATION_CLAIMS
        if name in runs and EXTENDED in runs
    }
    rows = {
        title: IntervalRow(difference.interval)
        for title, difference in differences.items()
        if not isinstance(difference, MissingEstimate)
    }
    if rows:
        yield Picture(
            "ablation-effects",
            draw_intervals(
                rows,
                "Gain from each ingredient at equal cost",
                "difference in strong accuracy",
                threshold=0.0,
                number_format="+.3f",
            ),
            "Extended version minus the extended version without the ingredient.",
        )


def _costs(runs: PointsByVariant) -> Table:
    """Return a table of the cost to reach smoothed accuracies, with the published hours."""
    levels = [*_LOWER_LEVELS, *_LEVELS]
    unit = _unit_of(runs)
    factor = _HOUR / unit.seconds
    rows: list[list[Cell]] = []
    for name, by_seed in runs.items():
        published = VARIANTS[name].published
        row: list[Cell] = [VARIANTS[name].title, len(by_seed)]
        last = [run[-1] for run in by_seed.values()]
        row.append(estimate_mean([factor * point.core_hours for point in last]).interval)
        row.append(estimate_mean([point.operations for point in last]).interval)
        peaks = [
            100 * highest
            for points in by_seed.values()
            if (highest := peak_accuracy(points)) is not None
        ]
        row.append(estimate_mean(peaks).interval if peaks else None)
        row += [_cost_cell(list(by_seed.values()), level / 100, factor) for level in levels]
        row += [published.hours_by_percent.get(level) if published else None for level in _LEVELS]
        row.append(published.peak_percent if published else None)
        rows.append(row)
    return Table(
        "costs",
        "Cost to reach a strong accuracy, and hours on an RTX 2070S in [Clausen2021]",
        [
            "variant",
            "runs",
            Column(f"{unit.plural} spent", ".3g"),
            Column("10^12 operations spent", ".3g"),
            Column("peak, %", ".1f"),
            *(Column(f"{unit.plural} to {level} %", ".3g") for level in levels),
            *(Column(f"published hours to {level} %", "g") for level in _LEVELS),
            Column("published peak, %", "g"),
        ],
        rows,
    )


def _cost_cell(runs: Sequence[Sequence[AccuracyPoint]], level: float, factor: float) -> Cell:
    """Return `factor` times the mean cost to reach `level`, or how many runs reach it, if not all.

    The cost is in hours of one core.
    """
    costs = [factor * cost for run in runs if (cost := cost_to_reach(run, level)) is not None]
    if len(costs) == len(runs):
        return estimate_mean(costs).interval
    return f"{len(costs)} of {len(runs)} runs" if costs else "not reached"


def move_times_table(results: Results) -> Table | None:
    """Return a table of the time per move of each network, or None if no moves have been timed.

    The interval of a ratio of times combines the opposite ends of both intervals.
    """
    times = measured_move_times(results)
    if times is None:
        return None
    planned = (run for run in results.design.runs if run.part == SELF_PLAY_PART)
    found = [
        (timed, time)
        for timed in timed_move_kinds(planned).values()
        if (time := times.find(timed.kind)) is not None
    ]
    if not found:
        return None
    title = VARIANTS[EXTENDED].title
    base, base_time = next((each for each in found if title in each[0].variant_titles), found[0])
    rows: list[list[Cell]] = []
    for timed, time in found:
        settings = timed.run.settings
        network, game = settings.network_settings_at(timed.iteration), parse_game(settings.game)
        ratio = Interval(
            time.milliseconds / base_time.milliseconds,
            time.low / base_time.high,
            time.high / base_time.low,
        )
        rows.append(
            [
                str(timed.kind), ", ".join(timed.variant_titles), count_parameters(network, game),
                _operations(timed) / 1e6, Interval(time.milliseconds, time.low, time.high),
                _operations(timed) / _operations(base), 1.0 if timed is base else ratio,
            ]
        )  # fmt: skip
    return Table(
        "time-of-a-move",
        "Networks and their time per move on one core of the reference machine. With a small"
        " network, most of the time is spent in the search itself, so time is not proportional to"
        " operations",
        [
            "network",
            "variants",
            Column("weights", ",d"),
            Column("million operations per position", ".3g"),
            Column("ms per move", ".3g"),
            Column("operations relative to extended", ".2f"),
            Column("time relative to extended", ".2f"),
        ],
        rows,
    )


def _operations(timed: TimedMoveKind) -> int:
    """Return the number of floating-point operations of a network per position."""
    settings = timed.run.settings
    return evaluation_flops(
        settings.network_settings_at(timed.iteration), parse_game(settings.game)
    )
