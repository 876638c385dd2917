"""Position diversity and leagues of search settings [Clausen2021, Figs 9 to 13]."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np

from zerolab.evaluation.position_statistics import Diversity, parse_diversity
from zerolab.league.league_report import PARAMETER_TITLES
from zerolab.league.league_settings import ParameterRanges
from zerolab.league.playing import random_move_probability
from zerolab.league.population import ranking
from zerolab.papers.connect_four.findings import LEAGUE_NO_BETTER_CLAIM, SERVICE_CHEAPER_CLAIM
from zerolab.papers.connect_four.variants import (
    BIG_TREE_VARIANTS,
    EXTENDED,
    GAME_TREE_VARIANTS,
    LEAGUE_BY_NOVELTY,
    LEAGUE_VARIANTS,
    LEAGUE_WITH_CHECK_PARAMETER,
    SELF_PLAY_PART,
    VARIANTS,
)
from zerolab.report.claims import Claim, Direction
from zerolab.report.document import Block, Heading, Picture
from zerolab.report.table import Cell, Column, Table
from zerolab.report.xy_plots import Curve, draw_curves
from zerolab.studies.claims import MissingEstimate
from zerolab.studies.finished_work import TrainedRun
from zerolab.studies.results import Results
from zerolab.studies.statistics import ClaimEstimate, estimate_mean, paired_difference
from zerolab.studies.study_folder import FinishedRun
from zerolab.training.context import reconstruct_league
from zerolab.training.records import SelfPlayRecord

_POINTS = 40  # points per curve

DUPLICATE_FILTER_CLAIM = Claim(
    "service-filters-duplicates",
    "A service can filter out duplicate evaluations.",
    "[Clausen2021, section 4.1]",
    "share of the requests to the service that need no search, over a whole run, by seed",
    0.0,
    "above",
    0.01,
    SERVICE_CHEAPER_CLAIM.key,
)
CHECK_PARAMETER_OPTIMISED_CLAIM = Claim(
    "check-parameter-is-optimised",
    "An artificial parameter with a known best value is perfectly optimised, so the evolution"
    " works.",
    "[Clausen2021, section 4.3]",
    "probability of a random move of the best player after the last generation, 0 at the best value"
    " of the check parameter and 0.5 by chance, by seed",
    0.0,
    "not above",
    0.05,
    LEAGUE_NO_BETTER_CLAIM.key,
    "league-parameters",
)

_EARLY, _LATE, _WHOLE = "the first fifth of", "the last fifth of", ""
_PHASE_SHARE = 0.2
"""Share of the games in each phase of training."""
_SMALLEST_DIVERSITY = 0.5  # positions per game


def _diversity_claim(
    key: str, text: str, source: str, name: str, phase: str, direction: Direction, gatekeeper: Claim
) -> Claim:
    statistic = (
        f"new distinct positions per game in {phase} the first N games,"
        f" {VARIANTS[name].title} minus {VARIANTS[EXTENDED].title}, by seed, where N is the number"
        " of games in the shortest run of either"
    )
    figure = "diversity-league" if gatekeeper is LEAGUE_NO_BETTER_CLAIM else "diversity"
    return Claim(
        key, text, source, statistic, 0.0, direction, _SMALLEST_DIVERSITY, gatekeeper.key, figure
    )


_TREE, _, _TREE_WITH_LARGE_C = BIG_TREE_VARIANTS
_FIG_9, _FIG_13 = "[Clausen2021, section 4.1, Fig. 9]", "[Clausen2021, section 4.3, Fig. 13]"

_DIVERSITY_ROWS: Sequence[tuple[str, str, str, str, str, Direction, Claim]] = (
    ("big-tree-is-more-diverse-early", "Early in training, one large tree causes a quick spike"
     " in the diversity of games.", _FIG_9, _TREE, _EARLY, "above", SERVICE_CHEAPER_CLAIM),
    ("big-tree-is-less-diverse-later", "Later, one large tree gets stuck on a few game paths,"
     " which reduces the diversity of positions.", _FIG_9, _TREE, _LATE, "below",
     SERVICE_CHEAPER_CLAIM),
    ("large-c-does-not-help", "Even a massively increased exploration constant does not"
     " prevent the loss of diversity.", _FIG_9, _TREE_WITH_LARGE_C, _LATE, "below",
     SERVICE_CHEAPER_CLAIM),
    ("novelty-is-no-more-diverse-early", "Early in training, even pure novelty search produces"
     " no more novel games than the original settings.", _FIG_13, LEAGUE_BY_NOVELTY, _EARLY,
     "not above", LEAGUE_NO_BETTER_CLAIM),
    ("novelty-is-more-diverse-later", "Towards the end of training, novelty search produces"
     " more novel games than the original settings.", _FIG_13, LEAGUE_BY_NOVELTY, _LATE,
     "above", LEAGUE_NO_BETTER_CLAIM),
    ("novelty-is-more-diverse", "Novelty search finds (marginally) more new positions than the"
     " original settings.", "[Clausen2021, section 4.3]", LEAGUE_BY_NOVELTY, _WHOLE, "above",
     LEAGUE_NO_BETTER_CLAIM),
)  # fmt: skip
DIVERSITY_CLAIMS: Mapping[Claim, tuple[str, str]] = {
    _diversity_claim(key, text, source, name, phase, direction, gatekeeper): (name, phase)
    for key, text, source, name, phase, direction, gatekeeper in _DIVERSITY_ROWS
}
"""Claims about diversity, and the variant and phase of training that each concerns."""

DiversityByVariant = Mapping[str, Mapping[Cell, Diversity]]
"""Diversity by variant (as name or title) and seed."""

_TREES, _LEAGUES = (EXTENDED, *GAME_TREE_VARIANTS), (EXTENDED, *LEAGUE_VARIANTS)
_FIGURES: Mapping[str, tuple[int, Sequence[str]]] = {"": (9, _TREES), "-league": (13, _LEAGUES)}
"""Number of the published figure and variants shown, by the suffix of a figure's name."""


DIVERSITY_VARIANTS = (EXTENDED, *GAME_TREE_VARIANTS, *LEAGUE_VARIANTS)
"""Variants whose distinct positions are counted."""


def measured_diversities(results: Results) -> dict[str, dict[Cell, Diversity]]:
    """Return the diversity of all finished runs, by variant and seed."""
    return {
        name: {run.seed: parse_diversity(run.measurements["diversity"]) for run in runs}
        for name in DIVERSITY_VARIANTS
        if (runs := results.runs_where(SELF_PLAY_PART, variant=name))
    }


def diversity_statistics(
    results: Results, runs: DiversityByVariant
) -> dict[Claim, ClaimEstimate | MissingEstimate]:
    """Return the statistic of each claim about diversity, or the reason why it is missing."""
    if unfinished_message := results.unfinished_message(SELF_PLAY_PART):
        return dict.fromkeys(DIVERSITY_CLAIMS, MissingEstimate(unfinished_message))
    return {
        claim: _difference(name, phase, runs) for claim, (name, phase) in DIVERSITY_CLAIMS.items()
    }


def _difference(name: str, phase: str, runs: DiversityByVariant) -> ClaimEstimate | MissingEstimate:
    """Return the new positions per game of a variant minus those of the extended version."""
    for needed in (name, EXTENDED):
        if needed not in runs:
            return MissingEstimate(f"{VARIANTS[needed].title} is not studied at this scale")
    one, other = runs[name], runs[EXTENDED]
    games = min(run.game_count for run in (*one.values(), *other.values()))
    count = games if phase == _WHOLE else max(1, round(_PHASE_SHARE * games))
    begin = games - count if phase == _LATE else 0
    per_game = (
        [_new_positions(by_seed[seed], begin, count) for seed in one] for by_seed in (one, other)
    )
    return paired_difference(*per_game)


def _new_positions(run: Diversity, begin: int, games: int) -> float:
    """Return the number of new positions per game in the `games` games from number `begin`."""
    return (run.distinct_in_first(begin + games) - run.distinct_in_first(begin)) / games


def diversity_section(runs: DiversityByVariant) -> Iterator[Block]:
    """Yield the figures and the table on distinct self-play positions."""
    if len(runs) < 2:
        return
    yield Heading("Distinct positions")
    for suffix, (published, names) in _FIGURES.items():
        plotted = {VARIANTS[name].title: runs[name] for name in names if name in runs}
        if len(plotted) > 1:
            yield from _pictures(suffix, published, plotted)
    yield _diversity_table({VARIANTS[name].title: by_seed for name, by_seed in runs.items()})


def _pictures(suffix: str, published: int, runs: DiversityByVariant) -> Iterator[Picture]:
    yield Picture(
        f"diversity{suffix}",
        draw_curves(
            {"": {title: _by_games([*by_seed.values()]) for title, by_seed in runs.items()}},
            "Distinct self-play positions",
            "games",
            "distinct positions",
        ),
        "Cumulative number of distinct positions in which a move was made. The band is one standard"
        f" deviation between runs. Compare Fig. {published} of [Clausen2021].",
    )
    yield Picture(
        f"diversity-by-ply{suffix}",
        draw_curves(
            {"": {title: _by_ply([*by_seed.values()]) for title, by_seed in runs.items()}},
            "Distinct self-play positions by ply",
            "ply",
            "share of distinct positions",
        ),
        "Distinct positions at each ply, as a share of all positions at that ply over all games of"
        " a run. A share of 1 means that no position is repeated.",
    )


def _by_games(runs: Sequence[Diversity]) -> Curve:
    games = np.unique(np.linspace(1, min(run.game_count for run in runs), _POINTS).astype(int))
    return Curve(games.tolist(), [[float(run.distinct_in_first(n)) for n in games] for run in runs])


def _by_ply(runs: Sequence[Diversity]) -> Curve:
    shares = [
        [
            distinct / played if played else float("nan")
            for distinct, played in zip(
                run.distinct_counts_by_ply, run.position_counts_by_ply, strict=True
            )
        ]
        for run in runs
    ]
    by_ply = list(zip_longest(*shares, fillvalue=float("nan")))
    return Curve(list(range(len(by_ply))), [list(run) for run in zip(*by_ply, strict=True)])


def _diversity_table(by_title: DiversityByVariant) -> Table:
    rows: list[list[Cell]] = []
    fewest = min(run.game_count for runs in by_title.values() for run in runs.values())
    for title, by_seed in by_title.items():
        runs = list(by_seed.values())
        hours = [run.distinct_per_hour for run in runs if run.distinct_per_hour is not None]
        rows.append(
            [
                title,
                len(runs),
                estimate_mean([run.game_count for run in runs]).interval,
                estimate_mean([run.distinct_count / run.position_count for run in runs]).interval,
                estimate_mean([run.distinct_in_first(fewest) / fewest for run in runs]).interval,
                estimate_mean(hours).interval if hours else None,
            ]
        )
    return Table(
        "distinct-positions",
        "Distinct positions (per-game numbers use the first N games of each run, where N is the"
        " number of games in the shortest run)",
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
"""Baseline settings of [Clausen2021], converted for game results from -1 to 1."""


class _League(NamedTuple):
    """Final state of a finished run's league."""

    seed: Cell
    parameters: list[str]
    """Names of the evolving parameters."""
    active: list[list[list[float]]]
    """Parameters of the active players of each generation."""
    best: list[float]
    """Parameters of the best player after the last generation."""
    games: int
    """Number of games played."""


def measure_league(run: FinishedRun) -> dict[str, Any]:
    """Return the final state of a run's league, computed from its games."""
    settings = run.planned.settings
    league = reconstruct_league(run.folder.games, settings)
    assert league is not None
    state = league.state_before(settings.iterations + 1)
    players = state.population
    return {
        "parameters": list(league.settings.parameters),
        "active": [players.values[numbers].tolist() for numbers in players.active],
        "best": players.values[ranking(players)[0]].tolist(),
        "games": state.game_count,
    }


def duplicate_filter_statistics(results: Results) -> dict[Claim, ClaimEstimate | MissingEstimate]:
    """Return the statistic of the claim about duplicate evaluations, or why it is missing."""
    if unfinished_message := results.unfinished_message(SELF_PLAY_PART):
        return {DUPLICATE_FILTER_CLAIM: MissingEstimate(unfinished_message)}
    runs = results.runs_where(SELF_PLAY_PART, variant="service")
    if not runs:
        return {DUPLICATE_FILTER_CLAIM: MissingEstimate("no service is studied at this scale")}
    records = [run.records_of(SelfPlayRecord) for run in runs]
    return {
        DUPLICATE_FILTER_CLAIM: estimate_mean(
            [1.0 - sum(one.searched for one in each) / sum(one.asked for one in each)
             for each in records]
        )
    }  # fmt: skip


def check_parameter_statistics(results: Results) -> dict[Claim, ClaimEstimate | MissingEstimate]:
    """Return the statistic of the claim about the check parameter, or why it is missing."""
    if unfinished_message := results.unfinished_message(SELF_PLAY_PART):
        return {CHECK_PARAMETER_OPTIMISED_CLAIM: MissingEstimate(unfinished_message)}
    runs = results.runs_where(SELF_PLAY_PART, variant=LEAGUE_WITH_CHECK_PARAMETER)
    if not runs:
        missing = MissingEstimate("the check parameter is not studied at this scale")
        return {CHECK_PARAMETER_OPTIMISED_CLAIM: missing}
    return {CHECK_PARAMETER_OPTIMISED_CLAIM: estimate_mean(list(map(_random_moves_of_best, runs)))}


def _random_moves_of_best(run: TrainedRun) -> float:
    """Return the probability that the best player of a run moves at random."""
    league, settings = _final_league(run), run.planned.settings.league
    assert settings is not None
    value = np.array([league.best[league.parameters.index("check")]])
    return float(random_move_probability(value, settings.optimum)[0])


def league_section(results: Results) -> Iterator[Block]:
    """Yield the figure and the table on league players."""
    leagues = {
        VARIANTS[name].title: [_final_league(run) for run in runs]
        for name in LEAGUE_VARIANTS
        if (runs := results.runs_where(SELF_PLAY_PART, variant=name))
    }
    if not leagues:
        return
    yield Heading("League players")
    panels = {
        title: {
            name: _parameter_curve(runs, parameter)
            for name, runs in leagues.items()
            if parameter in runs[0].parameters
        }
        for parameter, title in PARAMETER_TITLES.items()
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
        "Active players of all runs at the start of each generation. Game results range from -1 to"
        " 1, so c is twice the value in [Clausen2021]. Parameter ranges wrap around, so a mean in"
        " the middle of a range can hide players at both ends.",
    )
    yield _league_table(leagues)


def _final_league(run: TrainedRun) -> _League:
    return _League(run.seed, **run.measurements["league"])


def _parameter_curve(leagues: Sequence[_League], parameter: str) -> Curve:
    """Return a parameter of all active players by generation, padded with NaN."""
    longest = max(len(league.active) for league in leagues)
    lines: list[list[float]] = []
    for league in leagues:
        column = league.parameters.index(parameter)
        values = np.array(league.active)[:, :, column].T
        padding = longest - values.shape[1]
        lines += np.pad(values, ((0, 0), (0, padding)), constant_values=np.nan).tolist()
    return Curve(range(longest), lines)


def _league_table(leagues: Mapping[str, Sequence[_League]]) -> Table:
    """Return a table of each run's best player after the last generation, with published values."""
    ranges = ParameterRanges().model_dump()
    names = [
        name
        for name in PARAMETER_TITLES
        if any(name in run.parameters for runs in leagues.values() for run in runs)
    ]
    range_texts = ("{:g} to {:g}".format(*ranges[name]) for name in names)
    rows: list[list[Cell]] = [
        ["range in [Clausen2021]", *[None] * 3, *range_texts],
        ["baseline of [Clausen2021]", *[None] * 3, *(_BASELINE.get(name) for name in names)],
    ]
    for title, runs in leagues.items():
        for seed, parameters, active, best, games in runs:
            values = dict(zip(parameters, best, strict=True))
            row: list[Cell] = [title, seed, games, len(active) - 1]
            rows.append([*row, *(values.get(name) for name in names)])
    return Table(
        "league-best",
        "Best settings found by leagues, for game results from -1 to 1",
        [
            "league",
            "seed",
            Column("games", "d"),
            "newest generation",
            *(Column(PARAMETER_TITLES[name], ".3g") for name in names),
        ],
        rows,
    )
