"""Fig. 9 of [Clausen2021]: how many different positions each way to play meets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest

import numpy as np

from zerolab.evaluation.diversity import Diversity, run_diversity
from zerolab.studies.analyses.efficiency.variants import EXTENDED, LEAGUE, TRAINING, TREES, VARIANTS
from zerolab.studies.panels.curves import Curve, draw_curves
from zerolab.studies.report.cells import Cell
from zerolab.studies.report.document import Block, Column, DataTable, Heading, Picture
from zerolab.studies.results import Results
from zerolab.studies.statistics import mean_of

_POINTS = 40  # of a curve over games

Found = Mapping[str, Mapping[Cell, Diversity]]
"""Of the runs of each way to play, by its name or title, and by seed."""

_FIGURES: Mapping[str, Sequence[str]] = {"": (EXTENDED, *TREES), "-league": (EXTENDED, *LEAGUE)}
"""Which variants stand beside one another, by the endings of the figures' names."""


def measured(results: Results) -> dict[str, dict[Cell, Diversity]]:
    """Return the positions of all runs that are finished, by variant and seed."""
    return {
        name: {run.factors["seed"]: run_diversity(run.path) for run in runs}
        for name in (EXTENDED, *TREES, *LEAGUE)
        if (runs := results.where(TRAINING, variant=name))
    }


def blocks(found: Found) -> Iterator[Block]:
    """Yield what is shown of the positions of self-play."""
    if len(found) < 2:
        return
    yield Heading("Different positions")
    for ending, names in _FIGURES.items():
        shown = {VARIANTS[name].title: found[name] for name in names if name in found}
        if len(shown) > 1:
            yield from _pictures(ending, shown)
    yield _table({VARIANTS[name].title: runs for name, runs in found.items()})


def _pictures(ending: str, found: Found) -> Iterator[Picture]:
    yield Picture(
        f"diversity{ending}",
        draw_curves(
            {"": {title: _by_games([*each.values()]) for title, each in found.items()}},
            "Different positions of self-play",
            "games",
            "distinct positions",
        ),
        "All positions of a run so far in which a move was made, equal ones counted once; the band"
        " is one standard deviation between runs. As Fig. 9 of [Clausen2021].",
    )
    yield Picture(
        f"diversity-by-ply{ending}",
        draw_curves(
            {"": {title: _by_ply([*each.values()]) for title, each in found.items()}},
            "Different positions of self-play by ply",
            "ply",
            "share of positions that are distinct",
        ),
        "Distinct positions of a ply in all games of a run, as a share of all positions of that"
        " ply: 1 where no position is repeated.",
    )


def _by_games(runs: Sequence[Diversity]) -> Curve:
    games = np.unique(np.linspace(1, min(run.games for run in runs), _POINTS).astype(int))
    return Curve(games.tolist(), [[float(run.within(n)) for n in games] for run in runs])


def _by_ply(runs: Sequence[Diversity]) -> Curve:
    shares = [
        [
            distinct / played if played else float("nan")
            for distinct, played in zip(run.distinct_by_ply, run.positions_by_ply, strict=True)
        ]
        for run in runs
    ]
    by_ply = list(zip_longest(*shares, fillvalue=float("nan")))
    return Curve(list(range(len(by_ply))), [list(run) for run in zip(*by_ply, strict=True)])


def _table(found: Found) -> DataTable:
    rows: list[list[Cell]] = []
    least = min(run.games for runs in found.values() for run in runs.values())
    for title, by_seed in found.items():
        runs = list(by_seed.values())
        hours = [run.per_hour for run in runs if run.per_hour is not None]
        rows.append(
            [
                title,
                len(runs),
                mean_of([run.games for run in runs]),
                mean_of([run.distinct / run.positions for run in runs]),
                mean_of([run.within(least) / least for run in runs]),
                mean_of(hours) if hours else None,
            ]
        )
    return DataTable(
        "distinct-positions",
        "Distinct positions; per game of as many games as the shortest run has",
        [
            "way to play",
            "runs",
            Column("games", ".0f"),
            Column("share of distinct positions", ".1%"),
            Column("distinct positions per game", ".2f"),
            Column("distinct positions per hour", ",.0f"),
        ],
        rows,
    )
