"""Fig. 9 of [Clausen2021]: how many different positions each way to play meets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest

import numpy as np

from zerolab.evaluation.diversity import Diversity, run_diversity
from zerolab.studies.analyses.efficiency.variants import EXTENDED, LEAGUE, TRAINING, TREES, VARIANTS
from zerolab.studies.claims import Claim, Missing
from zerolab.studies.panels.curves import Curve, draw_curves
from zerolab.studies.report.cells import Cell
from zerolab.studies.report.document import Block, Column, DataTable, Heading, Picture
from zerolab.studies.results import Results
from zerolab.studies.statistics import Estimate, mean_of, paired_difference

_POINTS = 40  # of a curve over games

Found = Mapping[str, Mapping[Cell, Diversity]]
"""Of the runs of each way to play, by its name or title, and by seed."""

_EXPECTED: Mapping[str, str] = {
    "retry": "Games that go back to the loser's largest mistake meet more different positions per"
    " game than plain self-play.",
    "big-tree": "Games in one big tree meet more different positions per game than plain"
    " self-play.",
}

CLAIMS: Mapping[str, Claim] = {
    name: Claim(
        f"{name}-is-more-diverse",
        text,
        "expected here; [Clausen2021, Fig. 9] compares them",
        f"distinct positions per game of as many games as the shortest run of either has,"
        f" {VARIANTS[name].title} less {VARIANTS[EXTENDED].title}, by seed",
        0.0,
        "above",
    )
    for name, text in _EXPECTED.items()
}
"""By variant, written down before the runs of the committed report were looked at."""

_FIGURES: Mapping[str, Sequence[str]] = {"": (EXTENDED, *TREES), "-league": (EXTENDED, *LEAGUE)}
"""Which variants stand beside one another, by the endings of the figures' names."""


def measured(results: Results) -> dict[str, dict[Cell, Diversity]]:
    """Return the positions of all runs that are finished, by variant and seed."""
    return {
        name: {run.factors["seed"]: run_diversity(run.path) for run in runs}
        for name in (EXTENDED, *TREES, *LEAGUE)
        if (runs := results.where(TRAINING, variant=name))
    }


def found(results: Results, runs: Found) -> dict[Claim, Estimate | Missing]:
    """Return the statistic of every claim."""
    if missing := results.missing(TRAINING):
        return dict.fromkeys(CLAIMS.values(), Missing(missing))
    return {claim: _difference(name, runs) for name, claim in CLAIMS.items()}


def _difference(name: str, runs: Found) -> Estimate | Missing:
    if not {name, EXTENDED} <= runs.keys():
        return Missing(f"{VARIANTS[name].title} is not studied at this scale")
    one, other = runs[name], runs[EXTENDED]
    games = min(each.games for each in (*one.values(), *other.values()))
    per_game = ([of[seed].within(games) / games for seed in one] for of in (one, other))
    return paired_difference(*per_game)


def blocks(runs: Found) -> Iterator[Block]:
    """Yield what is shown of the positions of self-play."""
    if len(runs) < 2:
        return
    yield Heading("Different positions")
    for ending, names in _FIGURES.items():
        shown = {VARIANTS[name].title: runs[name] for name in names if name in runs}
        if len(shown) > 1:
            yield from _pictures(ending, shown)
    yield _table({VARIANTS[name].title: each for name, each in runs.items()})


def _pictures(ending: str, runs: Found) -> Iterator[Picture]:
    yield Picture(
        f"diversity{ending}",
        draw_curves(
            {"": {title: _by_games([*each.values()]) for title, each in runs.items()}},
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
            {"": {title: _by_ply([*each.values()]) for title, each in runs.items()}},
            "Different positions of self-play by ply",
            "ply",
            "share of distinct positions",
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


def _table(shown: Found) -> DataTable:
    rows: list[list[Cell]] = []
    least = min(run.games for runs in shown.values() for run in runs.values())
    for title, by_seed in shown.items():
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
