"""Report on transfer: learning curves, time saved, tournaments."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from zerolab.papers.elo import standard_error
from zerolab.papers.transfer import findings, similarity
from zerolab.papers.transfer.measures import (
    WAY_TITLES,
    Measure,
    Pair,
    accuracies,
    board_title,
    early,
    elo_gains,
    gains,
    iterations_to,
    late,
    level,
    pairs,
    rating,
    runs_of,
    saved,
    search_accuracies,
    seconds_to,
    stages,
    whole,
)
from zerolab.papers.transfer.study import FINE_TUNED, MAPPED, RANDOM_FROZEN, SCRATCH, TRANSFERRED
from zerolab.report.claims import ClaimTable
from zerolab.report.document import Block, Document, Heading, Paragraph, Picture
from zerolab.report.interval import Cell
from zerolab.report.interval_plots import Row, draw_intervals
from zerolab.report.table import Column, Table
from zerolab.report.xy_plots import Curve, draw_curves
from zerolab.studies.claims import judge
from zerolab.studies.design import Level
from zerolab.studies.results import Results, TrainedRun, provenance
from zerolab.studies.statistics import mean_of
from zerolab.studies.study import scale_caveats

_MEASURES: Mapping[str, Measure] = {"first quarter": early, "all": whole, "last quarter": late}


def learning_blocks(results: Results) -> Iterator[Block]:
    """Yield figures and tables of learning curves."""
    every = pairs(results.design)
    panels = _panels(results, every, accuracies)
    if not panels:
        return
    yield Heading("Learning curves")
    yield Paragraph(
        "Strong accuracy on solved positions of the target board, measured after every iteration:"
        " the share of positions in which the chosen move keeps the exact score. It is that of the"
        " policy alone, which shows what a network has learned; one more figure is of its search."
        " Runs of equal seeds are compared: they have the same random numbers, and new heads start"
        " alike. The training of the source is not counted."
    )
    yield Picture(
        "accuracy",
        draw_curves(panels, "Accuracy by way of transfer", "iteration", "strong accuracy",
                    columns=3),
        "A panel per source and target; the lines from scratch and with a random trunk are the"
        " target's. The line is the mean over runs, the band one standard deviation between them.",
    )  # fmt: skip
    yield Picture(
        "accuracy-of-search",
        draw_curves(_panels(results, every, search_accuracies),
                    "Accuracy of the search by way of transfer", "iteration",
                    "strong accuracy", columns=3),
        "The same with the search of training; even that of an untrained network finds wins.",
    )  # fmt: skip
    yield from _gains(results, every)
    yield from _times(results, every)


def _panels(
    results: Results, every: Sequence[Pair], accuracy: Callable[[TrainedRun], list[float]]
) -> dict[str, dict[str, Curve]]:
    panels = {pair.title: _accuracy_curves(results, pair, accuracy) for pair in every}
    return {title: curves for title, curves in panels.items() if curves}


def _accuracy_curves(
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
            pair.title: _row(by_seed)
            for pair in every
            if (by_seed := gains(results, pair, FINE_TUNED, measure))
        }
        if lines:
            yield Picture(
                name,
                draw_intervals(lines, title, "difference in strong accuracy per iteration",
                               threshold=0.0, number_format="+.3f"),
                "Fine-tuned minus from scratch; a dot is two runs of one seed.",
            )  # fmt: skip
    rows = [row for pair in every for way in TRANSFERRED for row in _gain_row(results, pair, way)]
    for pair in {each.target: each for each in every}.values():
        rows += _gain_row(results, pair, RANDOM_FROZEN)
    if rows:
        yield Table(
            "gains",
            "Strong accuracy above that of runs from scratch, by iterations",
            ["boards", "way", "seeds", *(Column(title, "+.3f") for title in _MEASURES)],
            rows,
        )


def _row(by_seed: Mapping[Level, float]) -> Row:
    """Return the numbers of all seeds, and their mean."""
    numbers = list(by_seed.values())
    return Row(mean_of(numbers).interval, numbers)


def _gain_row(results: Results, pair: Pair, way: str) -> Iterator[list[Cell]]:
    """Yield the gain of a way over scratch, if runs of equal seeds are finished."""
    measured = [gains(results, pair, way, each) for each in _MEASURES.values()]
    if all(measured):
        boards = board_title(pair.target) if way == RANDOM_FROZEN else pair.title
        means = (mean_of(list(by_seed.values())).interval for by_seed in measured)
        yield [boards, WAY_TITLES[way], len(measured[0]), *means]


def _times(results: Results, every: Sequence[Pair]) -> Iterator[Block]:
    """Show iterations and seconds to the halfway accuracy of runs from scratch."""
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
                    _row(by_seed).estimate if by_seed else None,
                ]
            )  # fmt: skip
            if way == FINE_TUNED and by_seed:
                lines[pair.title] = _row(by_seed)
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
        yield Table("times", "Time to a fixed accuracy", columns, rows)


def _taken(results: Results, pair: Pair, way: str, wanted: float) -> list[Cell]:
    """Return the number of runs that reach an accuracy, and their median iterations and seconds."""
    runs = list(runs_of(results, pair, way).values())
    taken = [(run, iterations_to(accuracies(run), wanted)) for run in runs]
    reached = [(run, iterations) for run, iterations in taken if iterations is not None]
    count = f"{len(reached)} of {len(runs)}"
    if not reached:
        return [count, None, None]
    seconds = [seconds_to(run, iterations) for run, iterations in reached]
    iterations = [each for _, each in reached]
    return [count, float(np.median(iterations)), float(np.median(seconds))]


def strength_blocks(results: Results) -> Iterator[Block]:
    """Yield figures and tables of strength in games."""
    every = [pair for pair in pairs(results.design) if pair.target in results.tournaments]
    panels = {pair.title: _elo_curves(results, pair) for pair in every}
    panels = {title: curves for title, curves in panels.items() if curves}
    if not panels:
        return
    yield Heading("Strength in games")
    yield Paragraph(
        "One tournament per board: the best networks of all its runs after some iterations, and"
        " Random. Before any training, only runs from scratch and mapped ones play, because the"
        " others still have the heads of the former. Of frozen trunks, only the last networks play."
    )
    yield Picture(
        "elo",
        draw_curves(panels, "Tournament Elo by way of transfer", "iteration",
                    "tournament Elo", columns=3),
        "Elo of a board's tournament, in which the mean of all players is 0. The line is the mean"
        " over runs, the band one standard deviation, a bar the error of measuring the mean.",
    )  # fmt: skip
    yield from _intervals(results, every)
    yield from _table(results, every)


def _elo_curves(results: Results, pair: Pair) -> dict[str, Curve]:
    found: dict[str, Curve] = {}
    for way in (SCRATCH, *TRANSFERRED, RANDOM_FROZEN):
        runs = list(runs_of(results, pair, way).values())
        points, elos, errors = [], [], []
        for stage in stages(results, pair.target):
            ratings = [rating(results, run, stage) for run in runs]
            known = [each for each in ratings if each is not None]
            if known and len(known) == len(runs):
                points.append(stage)
                elos.append([each.elo for each in known])
                errors.append([standard_error(each) for each in known])
        if points:
            by_run = [list(row) for row in zip(*elos, strict=True)]
            error_by_run = [list(row) for row in zip(*errors, strict=True)]
            found[WAY_TITLES[way]] = Curve(points, by_run, error_by_run)
    return found


def _intervals(results: Results, every: Sequence[Pair]) -> Iterator[Block]:
    for name, way, title, place in (
        ("elo-at-once", MAPPED, "Elo of mapped networks before any learning", 0),
        ("elo-in-the-end", FINE_TUNED, "Elo of fine-tuned networks in the end", -1),
    ):
        lines = {
            pair.title: _row(by_seed)
            for pair in every
            if (by_seed := elo_gains(results, pair, way, stages(results, pair.target)[place]))
        }
        if lines:
            yield Picture(
                name,
                draw_intervals(lines, title, "Elo above the network from scratch of equal seed",
                               threshold=0.0, number_format="+.0f"),
                "A dot is two networks of one seed after equally many iterations.",
            )  # fmt: skip


def _table(results: Results, every: Sequence[Pair]) -> Iterator[Block]:
    rows = [row for pair in every for way in TRANSFERRED for row in _rows(results, pair, way)]
    for pair in {each.target: each for each in every}.values():
        rows += _rows(results, pair, RANDOM_FROZEN)
    if rows:
        yield Table(
            "elo-gains",
            "Tournament Elo above that of runs from scratch, after equally many iterations",
            ["boards", "way", "iteration", "seeds", Column("Elo gained", "+.0f")],
            rows,
        )


def _rows(results: Results, pair: Pair, way: str) -> Iterator[list[Cell]]:
    boards = board_title(pair.target) if way == RANDOM_FROZEN else pair.title
    for stage in stages(results, pair.target):
        if by_seed := elo_gains(results, pair, way, stage):
            yield [boards, WAY_TITLES[way], stage, len(by_seed), _row(by_seed).estimate]


def transfer_report(results: Results) -> Document:
    """Return the report on the finished work."""
    what = "the benefit of networks that are larger or have learned for longer"
    trunks = similarity.compare_trunks(results)
    blocks: list[Block] = [
        Heading("Findings"),
        ClaimTable(judge(findings.transfer_findings(results, trunks))),
        *learning_blocks(results),
        *strength_blocks(results),
        *similarity.similarity_blocks(results, trunks),
    ]
    return Document(
        "Transfer between games and sizes of boards",
        scale_caveats(results.scale, len(results.levels("seed")), what),
        blocks,
        provenance(results),
    )
