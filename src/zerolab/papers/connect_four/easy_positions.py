"""Accuracy on easy solved positions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from zerolab.agents.kinds.run import agent_of_run
from zerolab.papers.connect_four.variants import BASELINE, EXTENDED, TRAINING, VARIANTS
from zerolab.papers.solved_accuracy import accuracy_of
from zerolab.report.document import Block
from zerolab.report.interval import Cell
from zerolab.report.table import Column, Table
from zerolab.studies.collect import FinishedRun
from zerolab.studies.results import Results
from zerolab.studies.statistics import mean_of
from zerolab.training.records import AccuracyRecord

EASY_VARIANTS = (BASELINE, EXTENDED)
"""Variants measured on easy positions."""

_PUBLISHED_EASY = {BASELINE: 94.6, EXTENDED: 95.3}
"""Published strong accuracy of search, in percent [ClausenCode]; the paper has no claim on it."""

ByVariant = Mapping[str, Mapping[Cell, float]]
"""Strong accuracy of search, by variant and seed."""


def easy_accuracies(results: Results) -> dict[str, dict[Cell, float]]:
    """Return the accuracies of the finished runs, or nothing before the positions are solved."""
    measured: dict[str, dict[Cell, float]] = {
        name: {
            run.seed: run.measurements["easy"]
            for run in results.runs_where(TRAINING, variant=name)
            if "easy" in run.measurements
        }
        for name in _PUBLISHED_EASY
    }
    return {name: by_seed for name, by_seed in measured.items() if by_seed}


def measure_easy_accuracy(run: FinishedRun) -> float | None:
    """Return the strong accuracy of search with the best network on easy positions.

    The variants with a published accuracy are measured. None means that the positions are not
    solved yet.
    """
    planned = next(plan for plan in run.design.report_datasets if plan.label == "easy")
    path = run.study_folder.dataset_path(planned)
    if not path.is_file():
        return None
    agent = agent_of_run(run.folder, run.folder.progress.best)
    return accuracy_of(agent, path, planned.game, run.planned.settings.seed).strong


def easy_blocks(results: Results, accuracies: ByVariant) -> Iterator[Block]:
    """Yield a table of accuracy on easy and hard positions."""
    rows: list[list[Cell]] = []
    for name, by_seed in accuracies.items():
        hard = [
            run.records_of(AccuracyRecord)[-1].search_strong
            for run in results.runs_where(TRAINING, variant=name)
        ]
        rows.append(
            [
                VARIANTS[name].title, len(by_seed), mean_of(list(by_seed.values())).interval,
                _PUBLISHED_EASY[name] / 100, mean_of(hard).interval,
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
