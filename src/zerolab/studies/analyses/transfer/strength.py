"""Elo by iteration of what plays the tournaments: at once, on the way, and in the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from zerolab.studies.analyses.elo import standard_error
from zerolab.studies.analyses.transfer.measures import elo_gains, rating, runs_of, stages
from zerolab.studies.analyses.transfer.ways import (
    FINE_TUNED,
    MAPPED,
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
from zerolab.studies.results import Results
from zerolab.studies.statistics import mean_of


def blocks(results: Results) -> Iterator[Block]:
    """Yield what is shown of strength."""
    every = [pair for pair in pairs(results.design) if pair.target in results.tournaments]
    panels = {pair.title: _curves(results, pair) for pair in every}
    panels = {title: curves for title, curves in panels.items() if curves}
    if not panels:
        return
    yield Heading("Strength in games")
    yield Paragraph(
        "A tournament per board: the best networks of all its runs after some iterations, and"
        " Random. Before any training, only runs from scratch and mapped ones play: the others have"
        " the heads of the former then. Of frozen trunks, only the last networks play."
    )
    yield Picture(
        "elo",
        draw_curves(panels, "Tournament Elo by what a run starts from", "iteration",
                    "tournament Elo", columns=3),
        "Elo of a board's tournament, in which the mean of all players is 0. The line is the mean"
        " over runs, the band one standard deviation, a bar the error of measuring the mean.",
    )  # fmt: skip
    yield from _intervals(results, every)
    yield from _table(results, every)


def _curves(results: Results, pair: Pair) -> dict[str, Curve]:
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
        ("elo-at-once", MAPPED, "Elo of mapped networks before they have learnt", 0),
        ("elo-in-the-end", FINE_TUNED, "Elo of fine-tuned networks in the end", -1),
    ):
        lines = {
            pair.title: Row(mean_of(list(by_seed.values())), list(by_seed.values()))
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
        yield DataTable(
            "elo-gains",
            "Tournament Elo above that of runs from scratch, after equally many iterations",
            ["boards", "way", "iteration", "seeds", Column("Elo gained", "+.0f")],
            rows,
        )


def _rows(results: Results, pair: Pair, way: str) -> Iterator[list[Cell]]:
    boards = board_title(pair.target) if way == RANDOM_FROZEN else pair.title
    for stage in stages(results, pair.target):
        if by_seed := elo_gains(results, pair, way, stage):
            gained = mean_of(list(by_seed.values()))
            yield [boards, WAY_TITLES[way], stage, len(by_seed), gained]
