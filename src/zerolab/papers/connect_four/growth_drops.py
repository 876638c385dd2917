"""Drops in accuracy when a network grows [Clausen2021, Fig. 11]."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from zerolab.papers.connect_four.findings import DROP_CLAIM, LATE_DROP_CLAIM
from zerolab.papers.connect_four.variants import GROWING, TRAINING, VARIANTS
from zerolab.report.claims import Claim
from zerolab.report.document import Block
from zerolab.report.interval import Cell
from zerolab.report.table import Column, Table
from zerolab.studies.claims import MissingEstimate
from zerolab.studies.finished_work import TrainedRun
from zerolab.studies.results import Results
from zerolab.studies.statistics import ClaimEstimate, mean_of, paired_difference
from zerolab.training.records import AccuracyRecord


def growth_changes(run: TrainedRun) -> dict[int, float]:
    """Return the change in strong accuracy of search at each growth, by iteration.

    The network grows after the iteration. The change is the accuracy after the next iteration minus
    that after this one. Growths beyond the end of the run are left out.
    """
    accuracies = {each.iteration: each.search_strong for each in run.records_of(AccuracyRecord)}
    return {
        iteration: accuracies[iteration + 1] - accuracies[iteration]
        for iteration in run.planned.settings.growth.after
        if {iteration, iteration + 1} <= accuracies.keys()
    }


def growth_statistics(results: Results) -> Mapping[Claim, ClaimEstimate | MissingEstimate]:
    """Return the statistic of each claim about drops, or the reason why it is missing."""
    claims = (DROP_CLAIM, LATE_DROP_CLAIM)
    if unfinished_message := results.unfinished_message(TRAINING):
        return dict.fromkeys(claims, MissingEstimate(unfinished_message))
    runs = results.runs_where(TRAINING, variant="growing")
    changes = [list(growth_changes(run).values()) for run in runs]
    if not changes:
        return dict.fromkeys(claims, MissingEstimate("no growing network is studied"))
    if not all(changes):
        return dict.fromkeys(claims, MissingEstimate("some runs end before their network grows"))
    late: ClaimEstimate | MissingEstimate = MissingEstimate("some runs grow only once")
    if all(len(each) > 1 for each in changes):
        late = paired_difference([each[-1] for each in changes], [each[0] for each in changes])
    return {
        DROP_CLAIM: mean_of([sum(each) / len(each) for each in changes]),
        LATE_DROP_CLAIM: late,
    }


def growth_blocks(results: Results) -> Iterator[Block]:
    """Yield a table of the change in accuracy at each growth."""
    rows: list[list[Cell]] = []
    for name in GROWING:
        changes = [growth_changes(run) for run in results.runs_where(TRAINING, variant=name)]
        for iteration in sorted({at for each in changes for at in each}):
            values = [each[iteration] for each in changes if iteration in each]
            rows.append([VARIANTS[name].title, iteration, len(values), mean_of(values).interval])
    if rows:
        yield Table(
            "growth",
            "Change in strong accuracy of search from the last iteration of a network to the first"
            " of the next larger one (compare Fig. 11 of [Clausen2021])",
            ["variant", "grows after iteration", "runs", Column("change", "+.3f")],
            rows,
        )
