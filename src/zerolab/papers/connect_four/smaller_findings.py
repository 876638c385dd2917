"""Smaller findings of [Clausen2021]: easy positions, drops after growth, and evolved settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from statistics import fmean
from typing import Any

from zerolab.agents.agent import Agent, NetworkOptions, parse_search_options
from zerolab.agents.run_agents import agent_of_run
from zerolab.papers.connect_four.findings import (
    EXTENDED_CHEAPER_CLAIM,
    GROWING_NETWORK_CHEAPER_CLAIM,
    LEAGUE_NO_BETTER_CLAIM,
)
from zerolab.papers.connect_four.variants import (
    BASELINE,
    EXTENDED,
    GROWING_VARIANTS,
    LEAGUE_BY_RESULTS,
    SELF_PLAY_PART,
    VARIANTS,
)
from zerolab.papers.solved_accuracy import measure_solved_accuracy
from zerolab.play.match import play_match
from zerolab.report.claims import Claim
from zerolab.report.document import Block
from zerolab.report.table import Cell, Column, Table
from zerolab.rules.catalogue import parse_game
from zerolab.studies.claims import MissingEstimate
from zerolab.studies.finished_work import TrainedRun
from zerolab.studies.joint_estimates import estimate_smallest
from zerolab.studies.results import Results
from zerolab.studies.statistics import ClaimEstimate, estimate_mean, paired_difference
from zerolab.studies.study_folder import FinishedRun
from zerolab.training.records import AccuracyRecord

EASY_POSITION_VARIANTS = (BASELINE, EXTENDED)
"""Variants measured on easy positions."""

_PUBLISHED_EASY = {BASELINE: 94.6, EXTENDED: 95.3}
"""Published strong accuracy of search, in percent [ClausenCode]."""

EASY_POSITIONS_EASIER_CLAIM = Claim(
    "easy-positions-are-easier",
    "For networks trained by self-play, too, positions from games with 50 % random moves are harder"
    " than positions from games with 10 %.",
    "zerolab, on [Clausen2021, section 3.2]",
    "strong accuracy of search on easy positions (10 %) minus that on hard ones (50 %), mean over"
    " the final networks of the baseline and the extended version, by seed",
    0.0,
    "above",
    0.01,
    EXTENDED_CHEAPER_CLAIM.key,
)

EVOLVED_SETTINGS_GAME_COUNT = 200
"""Games between evolved and original settings for each league."""

EVOLVED_SETTINGS_WORSE_CLAIM = Claim(
    "evolved-settings-play-worse",
    "Search settings evolved to win games play worse than the original settings, judged by the"
    " solver.",
    "[Clausen2021, section 4.3]",
    "strong accuracy of search with the final networks of leagues, with the best evolved settings"
    " minus with the original ones, at the same number of simulations, by seed",
    0.0,
    "below",
    0.01,
    LEAGUE_NO_BETTER_CLAIM.key,
)
EVOLVED_SETTINGS_WIN_CLAIM = Claim(
    "evolved-settings-win-more-games",
    "Search settings evolved to win games win more games than the original settings.",
    "[Clausen2021, section 4.3]",
    f"share of points of the best evolved settings in {EVOLVED_SETTINGS_GAME_COUNT} games against"
    " the original ones, both with the final network of the league and the same number of"
    " simulations, by seed",
    0.5,
    "above",
    0.05,
    LEAGUE_NO_BETTER_CLAIM.key,
)

GROWTH_DROP_CLAIM = Claim(
    "growing-costs-accuracy-at-first",
    "Steps to a larger network cause a drop in accuracy.",
    "[Clausen2021, Fig. 11]",
    "strong accuracy of search after the first iteration of a larger network minus that after the"
    " iteration before, mean over the growth steps of a run, by seed",
    0.0,
    "below",
    0.01,
    GROWING_NETWORK_CHEAPER_CLAIM.key,
    "accuracy-growing",
)
LATER_GROWTH_DROP_CLAIM = Claim(
    "later-growth-costs-more",
    "The drops of a growing network are larger towards the end.",
    "[Clausen2021, Fig. 11]",
    "change in strong accuracy of search at the last growth minus that at the first, by seed",
    0.0,
    "below",
    0.01,
    GROWING_NETWORK_CHEAPER_CLAIM.key,
    "accuracy-growing",
)

DROP_RECOVERY_CLAIM = Claim(
    "drops-are-temporary",
    "The drops in accuracy after steps to a larger network are temporary.",
    "[Clausen2021, Fig. 11]",
    "strong accuracy of search before the next growth, or at the end, minus that before a growth,"
    " minimum over the growth steps",
    0.0,
    "not below",
    0.01,
    GROWING_NETWORK_CHEAPER_CLAIM.key,
    "accuracy-growing",
)

AccuracyByVariant = Mapping[str, Mapping[Cell, float]]
"""Strong accuracy of search, by variant and seed."""


def easy_position_accuracies(results: Results) -> dict[str, dict[Cell, float]]:
    """Return the accuracies of finished runs; empty until the positions are solved."""
    measured: dict[str, dict[Cell, float]] = {
        name: {
            run.seed: run.measurements["easy"]
            for run in results.runs_where(SELF_PLAY_PART, variant=name)
            if "easy" in run.measurements
        }
        for name in _PUBLISHED_EASY
    }
    return {name: by_seed for name, by_seed in measured.items() if by_seed}


def easy_position_statistics(results: Results) -> dict[Claim, ClaimEstimate | MissingEstimate]:
    """Return the statistic of the claim about easy positions, or the reason why it is missing."""
    gains: dict[Cell, list[float]] = {}
    for name, by_seed in easy_position_accuracies(results).items():
        for run in results.runs_where(SELF_PLAY_PART, variant=name):
            if run.seed in by_seed:
                hard = run.records_of(AccuracyRecord)[-1].search_strong
                gains.setdefault(run.seed, []).append(by_seed[run.seed] - hard)
    whole = [fmean(each) for each in gains.values() if len(each) == len(EASY_POSITION_VARIANTS)]
    if not whole:
        return {
            EASY_POSITIONS_EASIER_CLAIM: MissingEstimate(
                "no accuracy on easy positions has been measured"
            )
        }
    return {EASY_POSITIONS_EASIER_CLAIM: estimate_mean(whole)}


def measure_easy_accuracy(run: FinishedRun) -> float | None:
    """Return the strong accuracy of search with the best network on easy positions.

    The result is None if the positions are not solved yet.
    """
    planned = next(plan for plan in run.design.report_datasets if plan.label == "easy")
    path = run.study_folder.dataset_path(planned)
    if not path.is_file():
        return None
    agent = agent_of_run(run.folder, run.folder.progress.best)
    return measure_solved_accuracy(agent, path, planned.game, run.planned.settings.seed).strong


def easy_position_section(results: Results, accuracies: AccuracyByVariant) -> Iterator[Block]:
    """Yield a table of accuracy on easy and hard positions."""
    rows: list[list[Cell]] = []
    for name, by_seed in accuracies.items():
        hard = [
            run.records_of(AccuracyRecord)[-1].search_strong
            for run in results.runs_where(SELF_PLAY_PART, variant=name)
        ]
        rows.append(
            [
                VARIANTS[name].title, len(by_seed), estimate_mean(list(by_seed.values())).interval,
                _PUBLISHED_EASY[name] / 100, estimate_mean(hard).interval,
            ]
        )  # fmt: skip
    if rows:
        yield Table(
            "easy",
            "Strong accuracy of search with each run's best network, on easy positions (from games"
            " with 90 % perfect plies) and on the hard positions of the figures",
            [
                "variant",
                "runs",
                Column("easy", ".1%"),
                Column("published easy", ".1%"),
                Column("hard", ".1%"),
            ],
            rows,
        )


def accuracy_changes_at_growth(run: TrainedRun) -> dict[int, float]:
    """Return the change in strong accuracy of search at each growth step, by iteration.

    Each key is an iteration after which the network grows. The change is the accuracy after the
    next iteration minus the accuracy after this one. Growth steps beyond the end of the run are
    left out.
    """
    accuracies = {each.iteration: each.search_strong for each in run.records_of(AccuracyRecord)}
    return {
        iteration: accuracies[iteration + 1] - accuracies[iteration]
        for iteration in run.planned.settings.growth.after
        if {iteration, iteration + 1} <= accuracies.keys()
    }


def changes_until_next_growth(run: TrainedRun) -> list[float]:
    """Return the change in accuracy from each growth step to the next one, or to the end."""
    accuracies = {each.iteration: each.search_strong for each in run.records_of(AccuracyRecord)}
    steps = [*accuracy_changes_at_growth(run), max(accuracies)]
    return [accuracies[end] - accuracies[begin] for begin, end in pairwise(steps)]


def growth_statistics(results: Results) -> Mapping[Claim, ClaimEstimate | MissingEstimate]:
    """Return the statistic of each claim about drops, or the reason why it is missing."""
    claims = (GROWTH_DROP_CLAIM, LATER_GROWTH_DROP_CLAIM, DROP_RECOVERY_CLAIM)
    if unfinished_message := results.unfinished_message(SELF_PLAY_PART):
        return dict.fromkeys(claims, MissingEstimate(unfinished_message))
    runs = results.runs_where(SELF_PLAY_PART, variant="growing")
    changes = [list(accuracy_changes_at_growth(run).values()) for run in runs]
    if not changes:
        return dict.fromkeys(claims, MissingEstimate("no growing network is studied"))
    if not all(changes):
        return dict.fromkeys(claims, MissingEstimate("some runs end before their network grows"))
    late: ClaimEstimate | MissingEstimate = MissingEstimate("some runs grow only once")
    if all(len(each) > 1 for each in changes):
        late = paired_difference([each[-1] for each in changes], [each[0] for each in changes])
    return {
        GROWTH_DROP_CLAIM: estimate_mean([sum(each) / len(each) for each in changes]),
        LATER_GROWTH_DROP_CLAIM: late,
        DROP_RECOVERY_CLAIM: estimate_smallest(
            [
                estimate_mean(each)
                for each in zip(*map(changes_until_next_growth, runs), strict=False)
            ]
        ),
    }


def growth_section(results: Results) -> Iterator[Block]:
    """Yield a table of the change in accuracy at each growth step."""
    rows: list[list[Cell]] = []
    for name in GROWING_VARIANTS:
        changes = [
            accuracy_changes_at_growth(run)
            for run in results.runs_where(SELF_PLAY_PART, variant=name)
        ]
        for iteration in sorted({at for each in changes for at in each}):
            values = [each[iteration] for each in changes if iteration in each]
            rows.append(
                [VARIANTS[name].title, iteration, len(values), estimate_mean(values).interval]
            )
    if rows:
        yield Table(
            "growth",
            "Change in strong accuracy of search from the last iteration of a network to the first"
            " of the next larger one (compare Fig. 11 of [Clausen2021])",
            ["variant", "grows after iteration", "runs", Column("change", "+.3f")],
            rows,
        )


_OPTIONS: Mapping[str, str] = {"c": "selection.c", "fpu": "fpu.value", "draw_value": "draw_value"}
"""Search option of each evolving parameter. The threshold is left out, so both settings use the
same number of simulations."""
_OPENING_PLIES = 4  # random, so that games differ


def _evolved_agent(run: FinishedRun, league: Mapping[str, Any]) -> Agent:
    """Return an agent with the final network and the league's best settings."""
    values = dict(zip(league["parameters"], league["best"], strict=True))
    text = "&".join(f"{_OPTIONS[name]}={values[name]}" for name in values if name in _OPTIONS)
    options = parse_search_options(NetworkOptions, text, run.planned.settings.search)
    return agent_of_run(run.folder, run.folder.progress.best, options)


def measure_evolved_accuracy(run: FinishedRun, league: Mapping[str, Any]) -> float | None:
    """Return the strong accuracy of the final network with the league's best settings.

    `league` is the result of `diversity.measure_league`. The positions and random numbers are the
    same as in the measurements during training. The result is None if the positions are missing.
    """
    (planned,) = run.planned.datasets
    path = run.study_folder.dataset_path(planned)
    if not path.is_file():
        return None
    agent, seed = _evolved_agent(run, league), run.planned.settings.seed
    return measure_solved_accuracy(agent, path, planned.game, seed).strong


def measure_evolved_score(run: FinishedRun, league: Mapping[str, Any]) -> float:
    """Return the score rate of a league's best settings against the original ones.

    Both play with the final network. `league` is the result of `diversity.measure_league`.
    """
    match = play_match(
        parse_game(run.planned.settings.game),
        _evolved_agent(run, league),
        agent_of_run(run.folder, run.folder.progress.best),
        EVOLVED_SETTINGS_GAME_COUNT,
        run.planned.settings.seed,
        openings=_OPENING_PLIES,
    )
    return match.score.score_rate


def evolved_settings_statistics(
    results: Results,
) -> Mapping[Claim, ClaimEstimate | MissingEstimate]:
    """Return the statistic of each claim about evolved settings, or why it is missing."""
    claims = (EVOLVED_SETTINGS_WORSE_CLAIM, EVOLVED_SETTINGS_WIN_CLAIM)
    if unfinished_message := results.unfinished_message(SELF_PLAY_PART):
        return dict.fromkeys(claims, MissingEstimate(unfinished_message))
    if not results.runs_where(SELF_PLAY_PART, variant=LEAGUE_BY_RESULTS):
        return dict.fromkeys(claims, MissingEstimate("leagues are not studied at this scale"))
    pairs, scores = _accuracies(results), _scores(results)
    missing = MissingEstimate("the positions or the games of the runs are missing")
    evolved = paired_difference(*zip(*pairs, strict=True)) if pairs else missing
    return {
        EVOLVED_SETTINGS_WORSE_CLAIM: evolved,
        EVOLVED_SETTINGS_WIN_CLAIM: estimate_mean(scores) if scores else missing,
    }


def _scores(results: Results) -> list[float]:
    """Return the score rate of evolved against original settings, for each league."""
    return [
        run.measurements["evolved_score"]
        for run in results.runs_where(SELF_PLAY_PART, variant=LEAGUE_BY_RESULTS)
        if "evolved_score" in run.measurements
    ]


def _accuracies(results: Results) -> list[tuple[float, float]]:
    """Return the strong accuracy with evolved and with original settings, for each league."""
    return [
        (run.measurements["evolved"], run.records_of(AccuracyRecord)[-1].search_strong)
        for run in results.runs_where(SELF_PLAY_PART, variant=LEAGUE_BY_RESULTS)
        if "evolved" in run.measurements
    ]


def evolved_settings_section(results: Results) -> Iterator[Block]:
    """Yield a table of the accuracy with evolved and original settings, and their score."""
    if not (pairs := _accuracies(results)):
        return
    evolved, original = zip(*pairs, strict=True)
    row: list[Cell] = [
        len(pairs), estimate_mean(evolved).interval, estimate_mean(original).interval,
        paired_difference(evolved, original).interval,
        estimate_mean(scores).interval if (scores := _scores(results)) else None,
    ]  # fmt: skip
    yield Table(
        "evolved-settings",
        "Strong accuracy of the final networks of leagues, with the best evolved settings (c,"
        " first-play urgency, draw value) and with the original ones, at the same number of"
        " simulations",
        [
            "runs",
            Column("evolved settings", ".1%"),
            Column("original settings", ".1%"),
            Column("difference", "+.3f"),
            Column("score of evolved against original settings", ".1%"),
        ],
        [row],
    )
