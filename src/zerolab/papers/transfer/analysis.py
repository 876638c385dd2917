"""Report on transfer: learning curves, time saved and tournament Elo."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from zerolab.papers.transfer import findings, similarity
from zerolab.papers.transfer.measures import (
    METHOD_TITLES,
    BoardPair,
    CurveMeasure,
    accuracy_gains,
    board_title,
    curve_mean,
    early_mean,
    elo_gains,
    iterations_saved,
    iterations_to_reach,
    late_mean,
    planned_board_pairs,
    policy_accuracy_curve,
    runs_by_seed,
    search_accuracy_curve,
    seconds_until,
    threshold_accuracy,
    tournament_iterations,
    tournament_rating,
)
from zerolab.papers.transfer.study import FINE_TUNED, MAPPED, RANDOM_FROZEN, SCRATCH, SOURCE_METHODS
from zerolab.report.document import Block, Document, Heading, Paragraph, Picture
from zerolab.report.interval_plots import IntervalRow, draw_intervals
from zerolab.report.table import Cell, Column, Table
from zerolab.report.xy_plots import Curve, draw_curves
from zerolab.studies.design import FactorLevel
from zerolab.studies.finished_work import TrainedRun
from zerolab.studies.results import Results, provenance, verdict_section
from zerolab.studies.statistics import estimate_mean
from zerolab.studies.study import scale_caveats

_MEASURES: Mapping[str, CurveMeasure] = {
    "first quarter": early_mean,
    "all": curve_mean,
    "last quarter": late_mean,
}


def learning_section(results: Results) -> Iterator[Block]:
    """Yield the figures and tables on learning curves."""
    board_pairs = planned_board_pairs(results.design)
    panels = _panels(results, board_pairs, policy_accuracy_curve)
    if not panels:
        return
    yield Heading("Learning curves")
    yield Paragraph(
        "Strong accuracy is the share of solved positions of the target board in which the chosen"
        " move preserves the exact score, measured after each iteration. Most figures show the"
        " accuracy of the policy alone, which reflects the network's knowledge best. One figure"
        " shows the accuracy of search. Comparisons pair runs with the same seed, which share"
        " random numbers and the initial weights of new heads. The cost of training the source is"
        " not included."
    )
    yield Picture(
        "accuracy",
        draw_curves(panels, "Accuracy by transfer method", "iteration", "strong accuracy",
                    columns=3),
        "One panel per source and target board. Runs from scratch and with a random trunk have no"
        " source, so they are the same in all panels of a target. Mean over runs, with a band of"
        " one standard deviation between runs.",
    )  # fmt: skip
    yield Picture(
        "accuracy-of-search",
        draw_curves(_panels(results, board_pairs, search_accuracy_curve),
                    "Search accuracy by transfer method", "iteration",
                    "strong accuracy", columns=3),
        "Accuracy of search with the training settings. Even with an untrained network, search"
        " finds wins.",
    )  # fmt: skip
    yield from _gains(results, board_pairs)
    yield from _times(results, board_pairs)


def _panels(
    results: Results,
    board_pairs: Sequence[BoardPair],
    accuracy: Callable[[TrainedRun], list[float]],
) -> dict[str, dict[str, Curve]]:
    panels = {pair.title: _accuracy_curves(results, pair, accuracy) for pair in board_pairs}
    return {title: curves for title, curves in panels.items() if curves}


def _accuracy_curves(
    results: Results, pair: BoardPair, accuracy: Callable[[TrainedRun], list[float]]
) -> dict[str, Curve]:
    """Return the curves of a pair by transfer method, or nothing if no run is finished.

    Runs without a source do not count as finished runs of the pair.
    """
    curves_by_title = {
        METHOD_TITLES[method]: [
            accuracy(run) for run in runs_by_seed(results, pair, method).values()
        ]
        for method in (SCRATCH, *SOURCE_METHODS, RANDOM_FROZEN)
    }
    if not any(curves_by_title[METHOD_TITLES[method]] for method in SOURCE_METHODS):
        return {}
    return {
        title: Curve(range(1, len(curves[0]) + 1), curves)
        for title, curves in curves_by_title.items()
        if curves
    }


def _gains(results: Results, board_pairs: Sequence[BoardPair]) -> Iterator[Block]:
    for name, measure, title in (
        ("gain-early", early_mean, "Accuracy gained by a fine-tuned trunk in the first quarter"),
        ("gain", curve_mean, "Area between the learning curves, fine-tuned and from scratch"),
    ):
        lines = {
            pair.title: _row(by_seed)
            for pair in board_pairs
            if (by_seed := accuracy_gains(results, pair, FINE_TUNED, measure))
        }
        if lines:
            yield Picture(
                name,
                draw_intervals(lines, title, "difference in strong accuracy per iteration",
                               threshold=0.0, number_format="+.3f"),
                "Fine-tuned minus from scratch. Each dot is a pair of runs with the same seed.",
            )  # fmt: skip
    rows = [
        row
        for pair in board_pairs
        for method in SOURCE_METHODS
        for row in _gain_row(results, pair, method)
    ]
    for pair in {pair.target: pair for pair in board_pairs}.values():
        rows += _gain_row(results, pair, RANDOM_FROZEN)
    if rows:
        yield Table(
            "gains",
            "Strong accuracy relative to runs from scratch, by range of iterations",
            ["boards", "way", "seeds", *(Column(title, "+.3f") for title in _MEASURES)],
            rows,
        )


def _row(by_seed: Mapping[FactorLevel, float]) -> IntervalRow:
    """Return a plot row with the values for all seeds and their mean."""
    numbers = list(by_seed.values())
    return IntervalRow(estimate_mean(numbers).interval, numbers)


def _gain_row(results: Results, pair: BoardPair, method: str) -> Iterator[list[Cell]]:
    """Yield a row with the gain of a method over training from scratch, if they share seeds."""
    by_measure = [accuracy_gains(results, pair, method, measure) for measure in _MEASURES.values()]
    if all(by_measure):
        boards = board_title(pair.target) if method == RANDOM_FROZEN else pair.title
        means = (estimate_mean(list(by_seed.values())).interval for by_seed in by_measure)
        yield [boards, METHOD_TITLES[method], len(by_measure[0]), *means]


def _times(results: Results, board_pairs: Sequence[BoardPair]) -> Iterator[Block]:
    """Yield a figure and a table of the iterations and time needed for the threshold accuracy."""
    rows: list[list[Cell]] = []
    lines: dict[str, IntervalRow] = {}
    for pair in board_pairs:
        target_accuracy = threshold_accuracy(results, pair.target)
        for method in (SCRATCH, *SOURCE_METHODS):
            runs = runs_by_seed(results, pair, method)
            if target_accuracy is None or not runs:
                continue
            by_seed = iterations_saved(results, pair, method) if method != SCRATCH else {}
            rows.append(
                [
                    pair.title, METHOD_TITLES[method], target_accuracy,
                    *_time_cells(list(runs.values()), target_accuracy),
                    _row(by_seed).estimate if by_seed else None,
                ]
            )  # fmt: skip
            if method == FINE_TUNED and by_seed:
                lines[pair.title] = _row(by_seed)
    if lines:
        yield Picture(
            "saved",
            draw_intervals(lines, "Iterations saved by a fine-tuned trunk", "iterations",
                           threshold=0.0, number_format="+.1f"),
            "Iterations saved in reaching the mean accuracy that runs from scratch attain after"
            " half of their iterations. A run that never reaches it counts with all its"
            " iterations.",
        )  # fmt: skip
    if rows:
        columns: list[str | Column] = [
            "boards", "way", Column("accuracy to reach", ".1%"), "runs that reach it",
            Column("iterations, median", ".1f"), Column("seconds, median", ".0f"),
            Column("iterations saved", "+.1f"),
        ]  # fmt: skip
        yield Table("times", "Time to a fixed accuracy", columns, rows)


def _time_cells(runs: Sequence[TrainedRun], accuracy: float) -> list[Cell]:
    """Return the number of runs that reach an accuracy, and their median iterations and seconds."""
    reached = [
        (run, iterations)
        for run in runs
        if (iterations := iterations_to_reach(policy_accuracy_curve(run), accuracy)) is not None
    ]
    count = f"{len(reached)} of {len(runs)}"
    if not reached:
        return [count, None, None]
    seconds = [seconds_until(run, iterations) for run, iterations in reached]
    return [
        count,
        float(np.median([iterations for _, iterations in reached])),
        float(np.median(seconds)),
    ]


def strength_section(results: Results) -> Iterator[Block]:
    """Yield the figures and tables on playing strength."""
    board_pairs = [
        pair for pair in planned_board_pairs(results.design) if pair.target in results.tournaments
    ]
    panels = {pair.title: _elo_curves(results, pair) for pair in board_pairs}
    panels = {title: curves for title, curves in panels.items() if curves}
    if not panels:
        return
    yield Heading("Playing strength")
    yield Paragraph(
        "Each board has one tournament per seed, between Random and the best networks of all runs"
        " after several iterations. At iteration 0, only networks from scratch and mapped networks"
        " play, because the others still have the same untrained heads as networks from scratch."
        " For runs with a frozen trunk, only the final networks play."
    )
    yield Picture(
        "elo",
        draw_curves(panels, "Tournament Elo by transfer method", "iteration",
                    "tournament Elo", columns=3),
        "Elo in a tournament, relative to the mean of its players. Mean over runs, with a"
        " band of one standard deviation between runs. Error bars show the 95 %"
        " measurement error of the mean.",
    )  # fmt: skip
    yield from _intervals(results, board_pairs)
    yield from _table(results, board_pairs)


def _elo_curves(results: Results, pair: BoardPair) -> dict[str, Curve]:
    curves_by_title: dict[str, Curve] = {}
    for method in (SCRATCH, *SOURCE_METHODS, RANDOM_FROZEN):
        runs = list(runs_by_seed(results, pair, method).values())
        points, elos, errors = [], [], []
        for iteration in tournament_iterations(results, pair.target):
            ratings = [
                rated
                for run in runs
                if (rated := tournament_rating(results, run, iteration)) is not None
            ]
            if ratings and len(ratings) == len(runs):
                points.append(iteration)
                elos.append([rated.elo for rated in ratings])
                errors.append([rated.standard_error for rated in ratings])
        if points:
            by_run = [list(row) for row in zip(*elos, strict=True)]
            error_by_run = [list(row) for row in zip(*errors, strict=True)]
            curves_by_title[METHOD_TITLES[method]] = Curve(points, by_run, error_by_run)
    return curves_by_title


def _intervals(results: Results, board_pairs: Sequence[BoardPair]) -> Iterator[Block]:
    for name, method, title, index in (
        ("elo-at-once", MAPPED, "Elo of mapped networks before training", 0),
        ("elo-in-the-end", FINE_TUNED, "Elo of fine-tuned networks after training", -1),
    ):
        lines = {
            pair.title: _row(by_seed)
            for pair in board_pairs
            if (
                by_seed := elo_gains(
                    results, pair, method, tournament_iterations(results, pair.target)[index]
                )
            )
        }
        if lines:
            yield Picture(
                name,
                draw_intervals(lines, title, "Elo relative to the network from scratch",
                               threshold=0.0, number_format="+.0f"),
                "Each dot is a pair of networks with the same seed after the same number of"
                " iterations.",
            )  # fmt: skip


def _table(results: Results, board_pairs: Sequence[BoardPair]) -> Iterator[Block]:
    rows = [
        row
        for pair in board_pairs
        for method in SOURCE_METHODS
        for row in _rows(results, pair, method)
    ]
    for pair in {pair.target: pair for pair in board_pairs}.values():
        rows += _rows(results, pair, RANDOM_FROZEN)
    if rows:
        yield Table(
            "elo-gains",
            "Tournament Elo relative to runs from scratch after the same number of iterations",
            ["boards", "way", "iteration", "seeds", Column("Elo gained", "+.0f")],
            rows,
        )


def _rows(results: Results, pair: BoardPair, method: str) -> Iterator[list[Cell]]:
    boards = board_title(pair.target) if method == RANDOM_FROZEN else pair.title
    for iteration in tournament_iterations(results, pair.target):
        if by_seed := elo_gains(results, pair, method, iteration):
            yield [boards, METHOD_TITLES[method], iteration, len(by_seed), _row(by_seed).estimate]


def transfer_report(results: Results) -> Document:
    """Return the report on all finished work."""
    subject = "the benefit of transferring networks that are larger or were trained for longer"
    trunks = similarity.compare_trunks(results)
    blocks: list[Block] = [
        *verdict_section(results, results.judge(findings.transfer_statistics)),
        *learning_section(results),
        *strength_section(results),
        *similarity.similarity_section(results, trunks),
    ]
    return Document(
        "Transfer between games and board sizes",
        scale_caveats(results.scale, len(results.planned_levels("seed")), subject),
        blocks,
        provenance(results),
    )
