"""Accuracy of trained networks on solved positions: a measure of strength without a tournament."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from zerolab.agents.agent import Agent, NetworkOptions, parse_search_options
from zerolab.agents.run_agents import agent_of_run
from zerolab.core.errors import UserError, quoted
from zerolab.evaluation.accuracy import accuracy_report, grade_moves, player_choices
from zerolab.evaluation.positions import read_positions
from zerolab.report.document import Block, Heading, Paragraph, Picture
from zerolab.report.interval_plots import draw_grouped_runs
from zerolab.report.table import Cell, Column, Table
from zerolab.rules.catalogue import parse_game
from zerolab.studies.block_model import PerGameModels, fit_measure_models
from zerolab.studies.claims import MissingEstimate
from zerolab.studies.design import FactorLevel
from zerolab.studies.results import Results
from zerolab.studies.statistics import (
    POOLED_VARIANCE_NOTE,
    estimate_mean,
    run_sample,
    with_pooled_intervals,
)
from zerolab.studies.study_folder import FinishedRun
from zerolab.training.window_facts import split_by_game


class SolvedAccuracy(NamedTuple):
    """Accuracy of an agent's moves on solved positions."""

    strong: float
    """Share of positions in which the agent chooses a best move."""
    regret: float
    """Mean value lost per move. In Othello, it is in discs; in other games, values also depend on
    the speed of a win or loss."""


def measure_solved_accuracy(agent: Agent, path: Path, game: str, seed: int) -> SolvedAccuracy:
    """Return the accuracy of an agent on the solved positions in a file.

    Raises UserError if the file is damaged or has positions from fewer than two games.
    """
    positions = read_positions(path, parse_game(game))[0]
    report = accuracy_report("", positions, player_choices(agent, positions, seed))
    strong, _, regret = report.all_positions
    if strong is None or regret is None:
        raise UserError(f"{quoted(path)}: expected positions from at least two games")
    return SolvedAccuracy(strong.interval.value, regret.interval.value)


def measure_final_accuracy(run: FinishedRun) -> dict[str, Any]:
    """Return the strong accuracy of a run's best network without and with search, and its regret.

    The regret is for search, with the search settings of the run. The values are None if the
    positions of the part are not solved yet.
    """
    planned = next(each for each in run.design.report_datasets if each.part == run.planned.part)
    path = run.study_folder.dataset_path(planned)
    if not path.is_file():
        return {"policy": None, "search": None, "regret": None}
    settings, best = run.planned.settings, run.folder.progress.best
    policy_only = parse_search_options(NetworkOptions, "simulations=0", settings.search)
    policy, search = (
        measure_solved_accuracy(
            agent_of_run(run.folder, best, options), path, planned.game, settings.seed
        )
        for options in (policy_only, None)
    )
    return {
        "policy": policy.strong,
        "search": search.strong,
        "regret": search.regret,
    }


AccuracyByPly = Mapping[str, Sequence[float]]
"""Number of positions, and share of them in which a best move is chosen, by ply."""


def measure_test_accuracy(run: FinishedRun) -> AccuracyByPly | None:
    """Return the policy's accuracy on the test positions of a supervised run, by ply.

    For each ply, the result has the number of positions and the share of them in which the policy
    chooses a best move. It is None if the positions are missing.
    """
    (planned,) = run.planned.datasets
    path = run.study_folder.dataset_path(planned)
    if not path.is_file():
        return None
    test = split_by_game(read_positions(path, parse_game(planned.game))[0]).test
    settings = run.planned.settings
    options = parse_search_options(NetworkOptions, "simulations=0", settings.search)
    agent = agent_of_run(run.folder, run.folder.progress.best, options)
    strong = grade_moves(test, player_choices(agent, test, settings.seed).actions).is_best
    return {
        str(ply): [int((test.plies == ply).sum()), float(strong[test.plies == ply].mean())]
        for ply in np.unique(test.plies).tolist()
    }


def difference_due_to_plies(hard: AccuracyByPly, easy: AccuracyByPly) -> float | None:
    """Return the part of a difference in accuracy that is due to the plies, minus the other part.

    The other part is the mean difference at equal plies, weighted by the number of `hard` positions
    at each ply that both sets contain. The result is None if the sets have no plies in common.
    """
    easy_mean, hard_mean = (
        sum(count * share for count, share in each.values()) / sum(n for n, _ in each.values())
        for each in (easy, hard)
    )
    common = [ply for ply in hard if ply in easy]
    if not common:
        return None
    counts = [hard[ply][0] for ply in common]
    differences = [easy[ply][1] - hard[ply][1] for ply in common]
    return easy_mean - hard_mean - 2.0 * float(np.average(differences, weights=counts))


def fit_accuracy_model(
    results: Results, parts: Sequence[str], factor: str, levels: Sequence[str], measure: str
) -> PerGameModels | MissingEstimate:
    """Fit a model per part to a measure of the final networks, with seeds as random blocks.

    `measure` is a key of the result of `measure_final_accuracy`.
    """
    unmeasured = [
        part
        for part in parts
        if not all(measure in run.measurements for run in results.runs_where(part))
    ]
    if unmeasured:
        missing = f"networks not measured on solved positions: {', '.join(unmeasured)}"
        return MissingEstimate(missing)
    return fit_measure_models(results, parts, factor, levels, lambda run: run.measurements[measure])


def _measured(
    results: Results, part: str, factor: str, level: str, measure: str
) -> dict[FactorLevel, float]:
    """Return a measure of the runs that have been measured, by seed."""
    return {
        run.seed: run.measurements[measure]
        for run in results.runs_where(part, **{factor: level})
        if measure in run.measurements
    }


def accuracy_section(
    results: Results,
    part_titles: Mapping[str, str],
    factor: str,
    level_titles: Mapping[str, str],
    drawn: Literal["policy", "search"] = "policy",
) -> Iterator[Block]:
    """Yield a figure and a table of accuracy on solved positions, by part and level of a factor.

    The figure shows the accuracy of the policy alone or of search.
    """
    values = {
        title: {
            level_title: [
                list(_measured(results, part, factor, level, measure).values())
                for measure in ("policy", "search", "regret")
            ]
            for level, level_title in level_titles.items()
        }
        for part, title in part_titles.items()
    }
    rows: list[list[Cell]] = [
        [
            title,
            level,
            len(policy),
            *(estimate_mean(each).interval for each in (policy, search, regret)),
        ]
        for title, by_level in values.items()
        for level, (policy, search, regret) in by_level.items()
        if policy
    ]
    if not rows:
        return
    yield Heading("Accuracy on solved positions")
    yield Paragraph(
        "Share of solved positions, each from a different game, in which the final network chooses"
        " a best move: a fastest win, a slowest loss or, in Othello, the most discs. Only positions"
        " that are quick to solve are included, so on large boards they cover the middle and the"
        " end of games. Regret is the mean value that search loses per move. In Othello, it is in"
        " discs; in other games, values also depend on the speed of a win or loss."
    )
    yield Picture(
        "accuracy",
        draw_grouped_runs(
            with_pooled_intervals(
                {
                    title: {
                        level: run_sample(policy if drawn == "policy" else search)
                        for level, (policy, search, _) in by_level.items()
                        if policy
                    }
                    for title, by_level in values.items()
                }
            ),
            f"Strong accuracy of the final networks ({drawn})",
            "strong accuracy",
        ),
        "Each dot is a run, and each line the mean with its 95 % interval over runs. All runs are"
        f" measured on the same positions. {POOLED_VARIANCE_NOTE}",
    )
    yield Table(
        "solved-accuracy",
        "Strong accuracy and regret of the final networks",
        [
            "game", factor, "runs", Column("policy", ".1%"), Column("search", ".1%"),
            Column("regret of search", ".3f"),
        ],
        rows,
    )  # fmt: skip
