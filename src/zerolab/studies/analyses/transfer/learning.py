"""Learning curves by pair of boards: how far apart they are, and the time to a fixed accuracy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from zerolab.studies.analyses.transfer.measures import (
    Measure,
    accuracies,
    early,
    gains,
    iterations_to,
    late,
    level,
    runs_of,
    saved,
    search_accuracies,
    seconds_to,
    whole,
)
from zerolab.studies.analyses.transfer.ways import (
    FINE_TUNED,
    RANDOM_FROZEN,
    SCRATCH,
    TRANSFERRED,
    WAY_TITLES,
    Pair,
    board_title,
    pairs,
)
from zerolab.studies.panels.curves import Curve, draw_curves
from zerolab.studies.panels.intervals import Row, draw_intervals
from zerolab.studies.report.cells import Cell
from zerolab.studies.report.document import Block, Column, DataTable, Heading, Paragraph, Picture
from zerolab.studies.results import Results, TrainedRun
from zerolab.studies.statistics import mean_of

_MEASURES: Mapping[str, Measure] = {"first quarter": early, "all": whole, "last quarter": late}


def blocks(results: Results) -> Iterator[Block]:
    """Yield what is shown of learning curves."""
    every = pairs(results.design)
    panels = _panels(results, every, accuracies)
    if not panels:
        return
    yield Heading("Learning curves")
    yield Paragraph(
        "Strong accuracy on solved positions of the target board, measured after every iteration:"
        " how often a move is chosen that keeps the exact score. It is that of the policy alone,"
        " which says what a network has learnt; one more figure is of its search. Runs of equal"
        " seeds are compared: both have the same random numbers, and new heads begin alike. What it"
        " took to train the source is not counted."
    )
    yield Picture(
        "accuracy",
        draw_curves(panels, "Accuracy by what a run starts from", "iteration", "strong accuracy",
                    columns=3),
        "A panel per source and target; the lines from scratch and with a random trunk are the"
        " target's. The line is the mean over runs, the band one standard deviation between them.",
    )  # fmt: skip
    yield Picture(
        "accuracy-of-search",
        draw_curves(_panels(results, every, search_accuracies),
                    "Accuracy of the search by what a run starts from", "iteration",
                    "strong accuracy", columns=3),
        "The same with the search of training: even an untrained network's finds wins.",
    )  # fmt: skip
    yield from _gains(results, every)
    yield from _times(results, every)


def _panels(
    results: Results, every: Sequence[Pair], accuracy: Callable[[TrainedRun], list[float]]
) -> dict[str, dict[str, Curve]]:
    panels = {pair.title: _curves(results, pair, accuracy) for pair in every}
    return {title: curves for title, curves in panels.items() if curves}


def _curves(
    results: Results, pair: Pair, accuracy: Callable[[TrainedRun], list[float]]
) -> dict[str, Curve]:
    """Return the curves of a pair by way, where a run of the pair itself is finished."""
    found = {
        WAY_TITLES[way]: [accuracy(run) for run in runs_of(results, pair, way).values()]
        for way in (SCRATCH, *TRANSFERRED, RANDOM_FROZEN)
    }
    if not any(found[WAY_TITLES[way]] for way in TRANSFERRED):
        return {}
    return {
        title: Curve(range(1, len(curves[0]) + 1), curves)
        for title, curves in found.items()
        if curves
    }


def _gains(results: Results, every: Sequence[Pair]) -> Iterator[Block]:
    for name, measure, title in (
        ("gain-early", early, "Accuracy gained by a fine-tuned trunk in the first quarter"),
        ("gain", whole, "Area between the learning curves, fine-tuned and from scratch"),
    ):
        lines = {
            pair.title: Row(mean_of(list(by_seed.values())), list(by_seed.values()))
            for pair in every
            if (by_seed := gains(results, pair, FINE_TUNED, measure))
        }
        if lines:
            yield Picture(
                name,
                draw_intervals(lines, title, "difference in strong accuracy per iteration",
                               threshold=0.0, number_format="+.3f"),
                "Fine-tuned less from scratch; a dot is two runs of one seed.",
            )  # fmt: skip
    rows = [row for pair in every for way in TRANSFERRED for row in _gain_row(results, pair, way)]
    for pair in {each.target: each for each in every}.values():
        rows += _gain_row(results, pair, RANDOM_FROZEN)
    if rows:
        yield DataTable(
            "gains",
            "Strong accuracy above that of runs from scratch, by iterations",
            ["boards", "way", "seeds", *(Column(title, "+.3f") for title in _MEASURES)],
            rows,
        )


def _gain_row(results: Results, pair: Pair, way: str) -> Iterator[list[Cell]]:
    """Yield what a way gains over scratch, where runs of equal seeds are finished."""
    measured = [gains(results, pair, way, each) for each in _MEASURES.values()]
    if all(measured):
        boards = board_title(pair.target) if way == RANDOM_FROZEN else pair.title
        means = (mean_of(list(by_seed.values())) for by_seed in measured)
        yield [boards, WAY_TITLES[way], len(measured[0]), *means]


def _times(results: Results, every: Sequence[Pair]) -> Iterator[Block]:
    """Show iterations and seconds to the accuracy that scratch has halfway."""
    rows: list[list[Cell]] = []
    lines: dict[str, Row] = {}
    for pair in every:
        wanted = level(results, pair.target)
        for way in (SCRATCH, *TRANSFERRED):
            runs = runs_of(results, pair, way)
            if wanted is None or not runs:
                continue
            by_seed = saved(results, pair, way) if way != SCRATCH else {}
            rows.append(
                [
                    pair.title, WAY_TITLES[way], wanted, *_taken(results, pair, way, wanted),
                    mean_of(list(by_seed.values())) if by_seed else None,
                ]
            )  # fmt: skip
            if way == FINE_TUNED and by_seed:
                lines[pair.title] = Row(mean_of(list(by_seed.values())), list(by_seed.values()))
    if lines:
        yield Picture(
            "saved",
            draw_intervals(lines, "Iterations saved by a fine-tuned trunk", "iterations",
                           threshold=0.0, number_format="+.1f"),
            "To the accuracy that runs from scratch have, on average, after half of their"
            " iterations. Runs that never reach it count with all of theirs.",
        )  # fmt: skip
    if rows:
        columns: list[str | Column] = [
            "boards", "way", Column("accuracy to reach", ".1%"), "runs that reach it",
            Column("iterations, median", ".1f"), Column("seconds, median", ".0f"),
            Column("iterations saved", "+.1f"),
        ]  # fmt: skip
        yield DataTable("times", "Time to a fixed accuracy", columns, rows)


def _taken(results: Results, pair: Pair, way: str, wanted: float) -> list[Cell]:
    """Return how many runs reach an accuracy, and the median iterations and seconds of those."""
    runs = list(runs_of(results, pair, way).values())
    taken = [(run, iterations_to(accuracies(run), wanted)) for run in runs]
    reached = [(run, iterations) for run, iterations in taken if iterations is not None]
    told = f"{len(reached)} of {len(runs)}"
    if not reached:
        return [told, None, None]
    seconds = [seconds_to(run, iterations) for run, iterations in reached]
    iterations = [each for _, each in reached]
    return [told, float(np.median(iterations)), float(np.median(seconds))]
