"""Diversity of positions [Clausen2021, Fig. 9], and leagues of search settings [Figs 10 to 13]."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from zerolab.evaluation.diversity import Diversity, run_diversity
from zerolab.league.league_report import TITLES
from zerolab.league.league_settings import LeagueSettings, Ranges
from zerolab.league.population import Population, ranking
from zerolab.papers.connect_four.findings import (
    DIVERSITY_CLAIMS,
    LATE_NOVELTY_CLAIM,
    NOVELTY_CLAIM,
)
from zerolab.papers.connect_four.variants import (
    EXTENDED,
    LEAGUE,
    LEAGUE_BY_NOVELTY,
    LEAGUE_BY_RESULTS,
    TRAINING,
    TREES,
    VARIANTS,
)
from zerolab.report.claims import Claim
from zerolab.report.document import Block, Heading, Picture
from zerolab.report.interval import Cell
from zerolab.report.table import Column, Table
from zerolab.report.xy_plots import Curve, draw_curves
from zerolab.store.run_folder import RunFolder
from zerolab.studies.claims import Missing
from zerolab.studies.results import Results, TrainedRun
from zerolab.studies.statistics import Estimate, mean_of, paired_difference
from zerolab.training.league import run_league

_POINTS = 40  # of a curve over games

Diversities = Mapping[str, Mapping[Cell, Diversity]]
"""By variant, as name or title, and seed."""

_FIGURES: Mapping[str, Sequence[str]] = {"": (EXTENDED, *TREES), "-league": (EXTENDED, *LEAGUE)}
"""Variants of each figure, by the ending of its name."""


def measure_diversity(results: Results) -> dict[str, dict[Cell, Diversity]]:
    """Return the diversity of all finished runs, by variant and seed."""
    return {
        name: {run.factors["seed"]: run_diversity(run.path) for run in runs}
        for name in (EXTENDED, *TREES, *LEAGUE)
        if (runs := results.where(TRAINING, variant=name))
    }


def diversity_findings(results: Results, runs: Diversities) -> dict[Claim, Estimate | Missing]:
    """Return the statistic of every claim."""
    if missing := results.missing(TRAINING):
        return dict.fromkeys(DIVERSITY_CLAIMS.values(), Missing(missing))
    return {claim: _difference(name, runs) for name, claim in DIVERSITY_CLAIMS.items()}


def _difference(name: str, runs: Diversities) -> Estimate | Missing:
    if not {name, EXTENDED} <= runs.keys():
        return Missing(f"{VARIANTS[name].title} is not studied at this scale")
    one, other = runs[name], runs[EXTENDED]
    games = min(each.games for each in (*one.values(), *other.values()))
    per_game = ([of[seed].within(games) / games for seed in one] for of in (one, other))
    return paired_difference(*per_game)


def diversity_blocks(runs: Diversities) -> Iterator[Block]:
    """Yield figures and a table of the distinct positions of self-play."""
    if len(runs) < 2:
        return
    yield Heading("Distinct positions")
    for ending, names in _FIGURES.items():
        shown = {VARIANTS[name].title: runs[name] for name in names if name in runs}
        if len(shown) > 1:
            yield from _pictures(ending, shown)
    yield _diversity_table({VARIANTS[name].title: each for name, each in runs.items()})


def _pictures(ending: str, runs: Diversities) -> Iterator[Picture]:
    yield Picture(
        f"diversity{ending}",
        draw_curves(
            {"": {title: _by_games([*each.values()]) for title, each in runs.items()}},
            "Distinct positions of self-play",
            "games",
            "distinct positions",
        ),
        "Distinct positions of a run so far in which a move was made; the band is one standard"
        " deviation between runs. As Fig. 9 of [Clausen2021].",
    )
    yield Picture(
        f"diversity-by-ply{ending}",
        draw_curves(
            {"": {title: _by_ply([*each.values()]) for title, each in runs.items()}},
            "Distinct positions of self-play by ply",
            "ply",
            "share of distinct positions",
        ),
        "Distinct positions of a ply in all games of a run, as a share of all positions of that"
        " ply; 1 where no position is repeated.",
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


def _diversity_table(shown: Diversities) -> Table:
    rows: list[list[Cell]] = []
    least = min(run.games for runs in shown.values() for run in runs.values())
    for title, by_seed in shown.items():
        runs = list(by_seed.values())
        hours = [run.per_hour for run in runs if run.per_hour is not None]
        rows.append(
            [
                title,
                len(runs),
                mean_of([run.games for run in runs]).interval,
                mean_of([run.distinct / run.positions for run in runs]).interval,
                mean_of([run.within(least) / least for run in runs]).interval,
                mean_of(hours).interval if hours else None,
            ]
        )
    return Table(
        "distinct-positions",
        "Distinct positions; per game of as many games as the shortest run has",
        [
            "variant",
            "runs",
            Column("games", ".0f"),
            Column("share of distinct positions", ".1%"),
            Column("distinct positions per game", ".2f"),
            Column("distinct positions per hour", ",.0f"),
        ],
        rows,
    )


_BASELINE = {"c": 3.09, "fpu": 0.709, "draw_value": 0.383}
"""Baseline settings of [Clausen2021], on zerolab's scale of values."""


class _Evolved(NamedTuple):
    """League of a finished run."""

    seed: Cell
    settings: LeagueSettings
    players: Population
    games: int


def league_findings(results: Results, diversities: Diversities) -> dict[Claim, Estimate | Missing]:
    """Return the statistic of every claim."""
    if missing := results.missing(TRAINING):
        return dict.fromkeys((NOVELTY_CLAIM, LATE_NOVELTY_CLAIM), Missing(missing))
    if not {LEAGUE_BY_NOVELTY, LEAGUE_BY_RESULTS} <= diversities.keys():
        unknown = Missing(f"{VARIANTS[LEAGUE_BY_NOVELTY].title} is not studied at this scale")
        return dict.fromkeys((NOVELTY_CLAIM, LATE_NOVELTY_CLAIM), unknown)
    one, other = diversities[LEAGUE_BY_NOVELTY], diversities[LEAGUE_BY_RESULTS]
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
    """Return the new positions per game in `games` games from game `begin` on."""
    return (run.within(begin + games) - run.within(begin)) / max(1, games)


def league_blocks(results: Results) -> Iterator[Block]:
    """Yield the figure and the table of the players of leagues."""
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
            name: _parameter_curve(each, parameter)
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
        "Active players of all runs of a league at the start of a generation. Results are on a"
        " scale from -1 to 1, on which c is twice that of [Clausen2021]. Ranges are rings: players"
        " may lie at both ends, and their mean in the middle. As Figs 10 to 12.",
    )
    yield _league_table(leagues)


def _evolved(run: TrainedRun) -> _Evolved:
    """Return the league of a run, computed from its games."""
    settings = run.planned.settings
    league = run_league(RunFolder.open(run.path).games, settings)
    assert league is not None
    state = league.before(settings.iterations + 1)
    return _Evolved(run.factors["seed"], league.settings, state.population, state.played)


def _parameter_curve(leagues: Sequence[_Evolved], parameter: str) -> Curve:
    """Return a parameter of all active players by generation; NaN after a run's last one."""
    longest = max(len(each.players.active) for each in leagues)
    lines: list[list[float]] = []
    for _, settings, players, _ in leagues:
        column = settings.parameters.index(parameter)
        values = players.values[np.stack(players.active, axis=1), column]
        missing = longest - values.shape[1]
        lines += np.pad(values, ((0, 0), (0, missing)), constant_values=np.nan).tolist()
    return Curve(range(longest), lines)


def _league_table(leagues: Mapping[str, Sequence[_Evolved]]) -> Table:
    """Return the best player of every run's last generation, beside published values."""
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
    return Table(
        "league-best",
        "Best settings found by leagues, on a scale of results from -1 to 1",
        [
            "league",
            "seed",
            Column("games", "d"),
            "newest generation",
            *(Column(TITLES[name], ".3g") for name in shown),
        ],
        rows,
    )
