"""Search settings found by evolution against the original ones [Clausen2021, section 4.3]."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from zerolab.agents.agent import Agent
from zerolab.agents.kinds.run import agent_of_run
from zerolab.agents.options import NetworkOptions, parse_search_options
from zerolab.papers.connect_four.findings import (
    EVOLVED_CLAIM,
    EVOLVED_GAMES,
    EVOLVED_WINS_CLAIM,
)
from zerolab.papers.connect_four.variants import LEAGUE_BY_RESULTS, TRAINING
from zerolab.papers.solved_accuracy import accuracy_of
from zerolab.play.match import play_match
from zerolab.report.claims import Claim
from zerolab.report.document import Block
from zerolab.report.interval import Cell
from zerolab.report.table import Column, Table
from zerolab.rules.catalogue import parse_game
from zerolab.studies.claims import MissingEstimate
from zerolab.studies.collect import FinishedRun
from zerolab.studies.results import Results
from zerolab.studies.statistics import ClaimEstimate, mean_of, paired_difference
from zerolab.training.records import AccuracyRecord

_OPTIONS: Mapping[str, str] = {"c": "selection.c", "fpu": "fpu.value", "draw_value": "draw_value"}
"""Search option of each evolving parameter. The threshold is left out, so that both settings have
the same number of simulations."""
_OPENINGS = 4  # random plies, so that games differ


def _evolved_agent(run: FinishedRun, league: Mapping[str, Any]) -> Agent:
    """Return the final network with the league's best settings."""
    values = dict(zip(league["parameters"], league["best"], strict=True))
    text = "&".join(f"{_OPTIONS[name]}={values[name]}" for name in values if name in _OPTIONS)
    options = parse_search_options(NetworkOptions, text, run.planned.settings.search)
    return agent_of_run(run.folder, run.folder.progress.best, options)


def measure_evolved_accuracy(run: FinishedRun, league: Mapping[str, Any]) -> float | None:
    """Return the strong accuracy of the final network with the league's best settings.

    `league` is the result of `diversity.measure_league`. The positions and random numbers are those
    of the run's own measurements. None means that the positions are missing.
    """
    (planned,) = run.planned.datasets
    path = run.study_folder.dataset_path(planned)
    if not path.is_file():
        return None
    agent, seed = _evolved_agent(run, league), run.planned.settings.seed
    return accuracy_of(agent, path, planned.game, seed).strong


def measure_evolved_score(run: FinishedRun, league: Mapping[str, Any]) -> float:
    """Return the score rate of a league's best settings against the original ones.

    Both play with the final network. `league` is the result of `diversity.measure_league`.
    """
    match = play_match(
        parse_game(run.planned.settings.game),
        _evolved_agent(run, league),
        agent_of_run(run.folder, run.folder.progress.best),
        EVOLVED_GAMES,
        run.planned.settings.seed,
        openings=_OPENINGS,
    )
    return match.score.score_rate


def evolved_statistics(results: Results) -> Mapping[Claim, ClaimEstimate | MissingEstimate]:
    """Return the statistic of each claim about evolved settings, or why it is missing."""
    claims = (EVOLVED_CLAIM, EVOLVED_WINS_CLAIM)
    if unfinished_message := results.unfinished_message(TRAINING):
        return dict.fromkeys(claims, MissingEstimate(unfinished_message))
    if not results.runs_where(TRAINING, variant=LEAGUE_BY_RESULTS):
        return dict.fromkeys(claims, MissingEstimate("leagues are not studied at this scale"))
    pairs, scores = _accuracies(results), _scores(results)
    missing = MissingEstimate("the positions or the games of the runs are missing")
    return {
        EVOLVED_CLAIM: paired_difference(*zip(*pairs, strict=True)) if pairs else missing,
        EVOLVED_WINS_CLAIM: mean_of(scores) if scores else missing,
    }


def _scores(results: Results) -> list[float]:
    """Return the score rate of evolved against original settings, for each league."""
    return [
        run.measurements["evolved_score"]
        for run in results.runs_where(TRAINING, variant=LEAGUE_BY_RESULTS)
        if "evolved_score" in run.measurements
    ]


def _accuracies(results: Results) -> list[tuple[float, float]]:
    """Return the strong accuracy with evolved and with original settings, for each league."""
    return [
        (run.measurements["evolved"], run.records_of(AccuracyRecord)[-1].search_strong)
        for run in results.runs_where(TRAINING, variant=LEAGUE_BY_RESULTS)
        if "evolved" in run.measurements
    ]


def evolved_blocks(results: Results) -> Iterator[Block]:
    """Yield a table of accuracy with both settings, and of the games between them."""
    if not (pairs := _accuracies(results)):
        return
    evolved, original = zip(*pairs, strict=True)
    row: list[Cell] = [
        len(pairs), mean_of(evolved).interval, mean_of(original).interval,
        paired_difference(evolved, original).interval,
        mean_of(scores).interval if (scores := _scores(results)) else None,
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
            Column("points of evolved against original settings", ".1%"),
        ],
        [row],
    )
