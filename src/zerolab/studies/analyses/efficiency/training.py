"""Ways to train beside one another: accuracy against cost, as in the figures of [Clausen2021]."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from zerolab.studies.analyses.efficiency.steps import (
    Step,
    accuracy_at,
    cost_to_reach,
    peak,
    steps,
)
from zerolab.studies.analyses.efficiency.variants import (
    BASELINE,
    EXTENDED,
    TRAINING,
    VARIANTS,
    Variant,
)
from zerolab.studies.claims import Claim, Missing
from zerolab.studies.panels.curves import Curve, draw_curves
from zerolab.studies.panels.intervals import Row, draw_intervals
from zerolab.studies.report.cells import Cell
from zerolab.studies.report.document import Block, Column, DataTable, Heading, Paragraph, Picture
from zerolab.studies.results import Results
from zerolab.studies.statistics import Estimate, mean_of, paired_difference

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LEVELS = (88, 90, 91)
"""Strong accuracies, in percent, that [Clausen2021] compares costs at."""
_LOWER_LEVELS = (50, 60, 70, 80)
"""Others, for runs that are too short for those."""
_POINTS = 40  # of a curve over cost

_EQUAL_COST = (
    "strong accuracy of search at equal cost of self-play (the least that a run of either has"
    " spent), by seed"
)


def _claim(key: str, text: str, source: str, one: str, other: str) -> Claim:
    statistic = f"{VARIANTS[one].title} less {VARIANTS[other].title}: {_EQUAL_COST}"
    return Claim(key, text, source, statistic, 0.0, "above")


EXTENDED_CLAIM = _claim(
    "extended-is-cheaper",
    "The extended version reaches more than the baseline at the same cost.",
    "[Clausen2021, section 3]",
    EXTENDED,
    BASELINE,
)
PEAK_CLAIM = Claim(
    "extended-peaks-higher",
    "The extended version reaches a higher accuracy than the baseline, whatever the cost.",
    "[Clausen2021, section 3]",
    "highest strong accuracy of search, extended less baseline, by seed",
    0.0,
    "above",
)
ABLATIONS: Mapping[str, Claim] = {
    name: _claim(
        f"{name.removeprefix('no-')}-helps",
        f"The extended version is better than {variant.title.replace('without', 'one without')}.",
        "[Clausen2021, section 3]",
        EXTENDED,
        name,
    )
    for name, variant in VARIANTS.items()
    if variant.is_ablation
}
"""By variant. The paper adds the ingredients and does not leave one out at a time."""


Steps = Mapping[str, Sequence[Sequence[Step]]]
"""Of the runs of each variant, by seed."""


def found(results: Results) -> dict[Claim, Estimate | Missing]:
    """Return the statistic of every claim."""
    claims = {EXTENDED_CLAIM: BASELINE, **{claim: name for name, claim in ABLATIONS.items()}}
    every = (*claims, PEAK_CLAIM)
    if missing := results.missing(TRAINING):
        return dict.fromkeys(every, Missing(missing))
    runs = _steps(results)
    compared: dict[Claim, Estimate | Missing] = {
        claim: _difference(runs[EXTENDED], runs[other])
        if other in runs
        else Missing(f"{VARIANTS[other].title} is not studied at this scale")
        for claim, other in claims.items()
    }
    compared[PEAK_CLAIM] = paired_difference(
        *([peak(each) for each in runs[name]] for name in (EXTENDED, BASELINE))
    )
    return compared


def _steps(results: Results) -> dict[str, list[list[Step]]]:
    return {
        name: [steps(run) for run in runs]
        for name in VARIANTS
        if (runs := results.where(TRAINING, variant=name))
    }


def _difference(one: Sequence[Sequence[Step]], other: Sequence[Sequence[Step]]) -> Estimate:
    """Return how much more accurate runs are than others at equal cost, seed by seed."""
    cost = min(run[-1].cost for run in (*one, *other))
    first, second = ([accuracy_at(run, cost) for run in runs] for runs in (one, other))
    return paired_difference(first, second)


def blocks(results: Results) -> Iterator[Block]:
    """Yield what is shown of training."""
    runs = _steps(results)
    if not runs:
        return
    yield Heading("Training by self-play")
    yield Paragraph(
        "Cost is that of self-play alone, as in [Clausen2021], in floating-point operations of the"
        " network instead of milliseconds of one machine; learning is not counted. Accuracy is"
        " strong accuracy of search on solved positions of games half of whose plies are perfect."
    )
    published = {name: each for name, each in runs.items() if not VARIANTS[name].is_ablation}
    yield Picture(
        "accuracy",
        _curves(published, "Accuracy of search against cost"),
        "The line is the mean over runs, the band one standard deviation between them.",
    )
    ablated = {name: each for name, each in runs.items() if _is_ablation(VARIANTS[name], name)}
    if len(ablated) > 1:
        yield Picture(
            "ablation",
            _curves(ablated, "Ingredients of the extended version left out in turn"),
            "The line is the mean over runs, the band one standard deviation between them. The"
            " paper has no such comparison.",
        )
        yield from _effects(runs)
    yield _costs(runs)


def _is_ablation(variant: Variant, name: str) -> bool:
    return variant.is_ablation or name == EXTENDED


def _curves(runs: Steps, title: str) -> Figure:
    """Draw accuracy over cost up to the cost that all runs of a variant have spent."""
    curves = {}
    for name, each in runs.items():
        first, last = max(run[0].cost for run in each), min(run[-1].cost for run in each)
        at = np.linspace(first, last, _POINTS)
        values = [
            np.interp(at, [step.cost for step in run], [step.strong for step in run]).tolist()
            for run in each
        ]
        curves[VARIANTS[name].title] = Curve(at.tolist(), values)
    return draw_curves({"": curves}, title, "TFLOP of self-play", "strong accuracy")


def _effects(runs: Steps) -> Iterator[Block]:
    rows = {
        f"{VARIANTS[name].title.removeprefix('without ')}": Row(
            _difference(runs[EXTENDED], runs[name])
        )
        for name in ABLATIONS
        if name in runs and EXTENDED in runs
    }
    if rows:
        yield Picture(
            "ablation-effects",
            draw_intervals(
                rows,
                "What each ingredient adds at equal cost",
                "difference in strong accuracy",
                threshold=0.0,
                number_format="+.3f",
            ),
            "Extended less the same without one ingredient, by seed.",
        )


def _costs(runs: Steps) -> DataTable:
    """Return what it costs to reach accuracies, beside what was published."""
    shown = [*_LOWER_LEVELS, *_LEVELS]
    rows: list[list[Cell]] = []
    for name, each in runs.items():
        published = VARIANTS[name].published
        row: list[Cell] = [VARIANTS[name].title, len(each)]
        row.append(mean_of([run[-1].cost for run in each]))
        row.append(mean_of([100 * peak(run) for run in each]))
        row += [_cost_cell(each, level / 100) for level in shown]
        row += [published.hours.get(level) if published else None for level in _LEVELS]
        row.append(published.peak if published else None)
        rows.append(row)
    return DataTable(
        "costs",
        "Cost to reach strong accuracies, and hours of an RTX 2070S in [Clausen2021]",
        [
            "variant",
            "runs",
            Column("TFLOP spent", ".3g"),
            Column("peak, %", ".1f"),
            *(Column(f"TFLOP to {level} %", ".3g") for level in shown),
            *(Column(f"published hours to {level} %", "g") for level in _LEVELS),
            Column("published peak, %", "g"),
        ],
        rows,
    )


def _cost_cell(runs: Sequence[Sequence[Step]], level: float) -> Cell:
    """Return the mean cost, or in how many runs an accuracy was reached where not in all."""
    costs = [cost_to_reach(run, level) for run in runs]
    known = [cost for cost in costs if cost is not None]
    if len(known) == len(costs):
        return mean_of(known)
    return f"{len(known)} of {len(costs)} runs" if known else "not reached"
