"""Leagues of search settings, as Figs. 10 to 13 of [Clausen2021]: how parameters move.

Accuracy against cost stands beside that of the other ways to train.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from zerolab.evaluation.diversity import Diversity
from zerolab.league.figure import TITLES
from zerolab.league.players import Players, ranking
from zerolab.league.settings import LeagueSettings, Ranges
from zerolab.store.run_folder import RunFolder
from zerolab.studies.analyses.efficiency.diverse import Found
from zerolab.studies.analyses.efficiency.variants import LEAGUE, TRAINING, VARIANTS
from zerolab.studies.claims import Claim, Missing
from zerolab.studies.panels.curves import Curve, draw_curves
from zerolab.studies.report.cells import Cell
from zerolab.studies.report.document import Block, Column, DataTable, Heading, Picture
from zerolab.studies.results import Results, TrainedRun
from zerolab.studies.statistics import Estimate, paired_difference
from zerolab.training.league import run_league

_RESULTS, _NOVELTY = "league", "league-novelty"
_BASELINE = {"c": 3.09, "fpu": 0.709, "draw_value": 0.383}
"""Of [Clausen2021], on this project's scale."""

_STATISTIC = (
    f"distinct positions per game in the {{}} half of as many games as the shortest run of either"
    f" has, {VARIANTS[_NOVELTY].title} less {VARIANTS[_RESULTS].title}, by seed"
)

NOVELTY_CLAIM = Claim(
    "novelty-is-no-more-diverse-at-first",
    "With novelty as fitness, a league meets no more different positions in the first half of"
    " training.",
    "[Clausen2021, Fig. 13]",
    _STATISTIC.format("first"),
    0.0,
    "below",
)
LATE_NOVELTY_CLAIM = Claim(
    "novelty-is-more-diverse-later",
    "With novelty as fitness, a league meets more new positions towards the end of training.",
    "[Clausen2021, Fig. 13]",
    _STATISTIC.format("second"),
    0.0,
    "above",
)


class _Evolved(NamedTuple):
    """The league of a finished run."""

    seed: Cell
    settings: LeagueSettings
    players: Players
    games: int


def found(results: Results, diversities: Found) -> dict[Claim, Estimate | Missing]:
    """Return the statistic of every claim."""
    if missing := results.missing(TRAINING):
        return dict.fromkeys((NOVELTY_CLAIM, LATE_NOVELTY_CLAIM), Missing(missing))
    if not {_NOVELTY, _RESULTS} <= diversities.keys():
        unknown = Missing(f"{VARIANTS[_NOVELTY].title} is not studied at this scale")
        return dict.fromkeys((NOVELTY_CLAIM, LATE_NOVELTY_CLAIM), unknown)
    one, other = diversities[_NOVELTY], diversities[_RESULTS]
    half = min(each.games for each in (*one.values(), *other.values())) // 2
    first, second = (
        [[_new(runs[seed], begin, half) for seed in one] for runs in (one, other)]
        for begin in (0, half)
    )
    return {
        NOVELTY_CLAIM: paired_difference(*first),
        LATE_NOVELTY_CLAIM: paired_difference(*second),
    }


def _new(run: Diversity, begin: int, games: int) -> float:
    """Return the new positions per game of so many games after the first ones."""
    return (run.within(begin + games) - run.within(begin)) / max(1, games)


def blocks(results: Results) -> Iterator[Block]:
    """Yield what is shown of the players of leagues."""
    leagues = {
        VARIANTS[name].title: [_evolved(run) for run in runs]
        for name in LEAGUE
        if (runs := results.where(TRAINING, variant=name))
    }
    if not leagues:
        return
    yield Heading("Players of leagues")
    panels = {
        title: {
            name: _curve(each, parameter)
            for name, each in leagues.items()
            if parameter in each[0].settings.parameters
        }
        for parameter, title in TITLES.items()
    }
    yield Picture(
        "league-parameters",
        draw_curves(
            {title: curves for title, curves in panels.items() if curves},
            "Parameters of the active players",
            "generation",
            "value",
            units="active players",
        ),
        "Active players of all runs of a league when a generation begins. Values are on a scale of"
        " results from -1 to 1, on which c is twice that of [Clausen2021]. Ranges are rings:"
        " players may lie at both ends, and their mean between them. As Figs. 10 to 12.",
    )
    yield _table(leagues)


def _evolved(run: TrainedRun) -> _Evolved:
    """Return a run's league, computed from its games."""
    settings = run.planned.settings
    league = run_league(RunFolder.open(run.path).games, settings)
    assert league is not None
    state = league.before(settings.iterations + 1)
    return _Evolved(run.factors["seed"], league.settings, state.players, state.played)


def _curve(leagues: Sequence[_Evolved], parameter: str) -> Curve:
    """Return a parameter of every active player by generation, NaN where a run has fewer."""
    longest = max(len(each.players.active) for each in leagues)
    lines: list[list[float]] = []
    for _, settings, players, _ in leagues:
        column = settings.parameters.index(parameter)
        values = players.values[np.stack(players.active, axis=1), column]
        missing = longest - values.shape[1]
        lines += np.pad(values, ((0, 0), (0, missing)), constant_values=np.nan).tolist()
    return Curve(range(longest), lines)


def _table(leagues: Mapping[str, Sequence[_Evolved]]) -> DataTable:
    """Return the best player of every run's last generation, beside what was published."""
    known = Ranges().model_dump()
    shown = [
        name
        for name in TITLES
        if any(name in each.settings.parameters for runs in leagues.values() for each in runs)
    ]
    rows: list[list[Cell]] = [
        ["range in [Clausen2021]", *[None] * 3, *("{:g} to {:g}".format(*known[n]) for n in shown)],
        ["baseline of [Clausen2021]", *[None] * 3, *(_BASELINE.get(name) for name in shown)],
    ]
    for title, runs in leagues.items():
        for seed, settings, players, games in runs:
            best = players.values[ranking(players)[0]].tolist()
            values = dict(zip(settings.parameters, best, strict=True))
            row: list[Cell] = [title, seed, games, players.generation]
            rows.append([*row, *(values.get(name) for name in shown)])
    return DataTable(
        "league-best",
        "Best settings that leagues have found, on a scale of results from -1 to 1",
        [
            "league",
            "seed",
            Column("games", "d"),
            "newest generation",
            *(Column(TITLES[name], ".3g") for name in shown),
        ],
        rows,
    )
