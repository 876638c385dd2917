"""Report on efficiency on Connect Four: accuracy against cost, as in [Clausen2021]."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from zerolab.networks.flops import count_parameters, evaluation_flops
from zerolab.papers.connect_four import diversity, solved_positions
from zerolab.papers.connect_four.costs import (
    Step,
    accuracy_at,
    cost_to_reach,
    measured_moves,
    movers,
    peak,
    steps,
)
from zerolab.papers.connect_four.findings import (
    ABLATIONS,
    EXTENDED_CLAIM,
    FEATURES_CLAIM,
    FEATURES_PEAK_CLAIM,
    GROWING_CLAIM,
    GROWING_PEAK_CLAIM,
    LEAGUE_CLAIM,
    LEAGUE_PEAK_CLAIM,
    PEAK_CLAIM,
    SERVICE_CLAIM,
    SERVICE_PEAK_CLAIM,
)
from zerolab.papers.connect_four.variants import (
    BASELINE,
    EXTENDED,
    FEATURES,
    GROWING,
    LEAGUE,
    SMALL,
    TRAINING,
    TREES,
    VARIANTS,
)
from zerolab.report.claims import Claim, ClaimTable
from zerolab.report.document import Block, Document, Heading, Paragraph, Picture
from zerolab.report.interval import Cell
from zerolab.report.interval_plots import Row, draw_intervals
from zerolab.report.table import Column, Table
from zerolab.report.xy_plots import Curve, draw_curves
from zerolab.rules.catalogue import parse_game
from zerolab.studies.claims import Missing, judge
from zerolab.studies.results import Results, provenance
from zerolab.studies.statistics import Estimate, mean_of, paired_difference
from zerolab.studies.study import scale_caveats

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_LEVELS = (88, 90, 91)
"""Strong accuracies, in percent, at which [Clausen2021] compares costs."""
_LOWER_LEVELS = (50, 60, 70, 80)
"""Lower accuracies, for shorter runs."""
_SMALL_SHARE = 0.25
_POINTS = 40  # of a curve over cost


_FIGURES: Mapping[str, tuple[str, Sequence[str]]] = {
    "accuracy": ("Baseline and extended version", (BASELINE, EXTENDED)),
    "accuracy-trees": ("Games as trees", (EXTENDED, *TREES)),
    "accuracy-growing": ("Growing networks", (EXTENDED, *GROWING)),
    "accuracy-league": ("Leagues of search settings", (EXTENDED, *LEAGUE)),
    "accuracy-features": ("Features of a small network", (EXTENDED, FEATURES, SMALL)),
    "accuracy-ablation": (
        "Ingredients of the extended version left out in turn",
        (EXTENDED, *ABLATIONS),
    ),
}
"""Titles and variants of the figures of accuracy against cost."""

_COMPARED: Mapping[Claim, tuple[str, str, float]] = {
    EXTENDED_CLAIM: (EXTENDED, BASELINE, 1.0),
    SERVICE_CLAIM: ("service", EXTENDED, 1.0),
    GROWING_CLAIM: ("growing", EXTENDED, _SMALL_SHARE),
    FEATURES_CLAIM: (FEATURES, EXTENDED, 1.0),
    LEAGUE_CLAIM: ("league", EXTENDED, 1.0),
    **{claim: (EXTENDED, name, 1.0) for name, claim in ABLATIONS.items()},
}
"""Variants that claims compare, and the share of their common cost at which they do."""

_PEAKS: Mapping[Claim, tuple[str, str]] = {
    PEAK_CLAIM: (EXTENDED, BASELINE),
    SERVICE_PEAK_CLAIM: ("service", EXTENDED),
    GROWING_PEAK_CLAIM: ("growing", EXTENDED),
    FEATURES_PEAK_CLAIM: (FEATURES, EXTENDED),
    LEAGUE_PEAK_CLAIM: ("league", EXTENDED),
}
"""Variants whose highest accuracies claims compare."""

BySeed = Mapping[Cell, Sequence[Step]]
"""Steps of the finished runs of a variant, by seed."""
Steps = Mapping[str, BySeed]
"""By variant with finished runs."""


def efficiency_report(results: Results) -> Document:
    """Return the report on the finished work."""
    subject = (
        "which way to train is the cheapest for networks of another size or for accuracies that"
        " these runs do not reach"
    )
    runs, diversities = measured_steps(results), diversity.measure_diversity(results)
    easy_accuracies = solved_positions.measure_easy(results)
    statistics = {
        **solved_positions.supervised_findings(results),
        **training_findings(results, runs),
        **solved_positions.easy_findings(results, easy_accuracies),
        **diversity.diversity_findings(results, diversities),
        **diversity.league_findings(results, diversities),
    }
    blocks: list[Block] = [
        Heading("Findings"),
        ClaimTable(judge(statistics)),
        *solved_positions.supervised_blocks(results),
        *training_blocks(results, runs),
        *solved_positions.easy_blocks(results, easy_accuracies),
        *diversity.league_blocks(results),
        *diversity.diversity_blocks(diversities),
    ]
    return Document(
        "Efficiency on Connect Four",
        scale_caveats(results.scale, len(results.levels("seed")), subject, symmetries=False),
        blocks,
        provenance(results),
    )


def training_findings(results: Results, runs: Steps) -> dict[Claim, Estimate | Missing]:
    """Return the statistic of every claim about training."""
    if missing := results.missing(TRAINING):
        return dict.fromkeys((*_COMPARED, *_PEAKS), Missing(missing))
    compared = {
        claim: _not_studied(runs, one, other) or _difference(runs[one], runs[other], share)
        for claim, (one, other, share) in _COMPARED.items()
    }
    peaks = {
        claim: _not_studied(runs, *pair) or _paired(*(_peaks(runs[name]) for name in pair))
        for claim, pair in _PEAKS.items()
    }
    return {**compared, **peaks}


def _not_studied(runs: Steps, *names: str) -> Missing | None:
    left_out = (VARIANTS[name].title for name in names if name not in runs)
    return next((Missing(f"{title} is not studied at this scale") for title in left_out), None)


def measured_steps(results: Results) -> dict[str, BySeed]:
    """Return the steps of all finished runs; none before moves are timed."""
    times = measured_moves(results)
    if times is None:
        return {}
    return {
        name: {run.factors["seed"]: steps(run, times) for run in runs}
        for name in VARIANTS
        if (runs := results.where(TRAINING, variant=name))
    }


def _difference(one: BySeed, other: BySeed, share: float = 1.0) -> Estimate | Missing:
    """Return the accuracy of runs above that of others, seed by seed.

    The cost is a share of the least that any of them has spent.
    """
    cost = share * min(run[-1].cost for run in (*one.values(), *other.values()))
    return _paired(
        *({seed: accuracy_at(run, cost) for seed, run in runs.items()} for runs in (one, other))
    )


def _peaks(runs: BySeed) -> dict[Cell, float | None]:
    return {seed: peak(run) for seed, run in runs.items()}


def _paired(
    first: Mapping[Cell, float | None], second: Mapping[Cell, float | None]
) -> Estimate | Missing:
    """Return the difference between runs of equal seeds, over the seeds of both."""
    pairs = [(first[seed], second[seed]) for seed in first if seed in second]
    known = [(one, other) for one, other in pairs if one is not None and other is not None]
    if not pairs:
        return Missing("no seed of both is finished")
    if len(known) < len(pairs):
        return Missing("runs of this scale are not measured early enough")
    return paired_difference(*zip(*known, strict=True))


def training_blocks(results: Results, runs: Steps) -> Iterator[Block]:
    """Yield figures and tables of training."""
    if not runs:
        return
    yield Heading("Training by self-play")
    yield Paragraph(
        "Cost is that of self-play alone, as in [Clausen2021]: simulations times the time of one on"
        " one core, measured for all networks side by side. Learning is not counted, nor is the"
        " small network whose features another one learns, which has its own row ([Clausen2021]"
        " trained it for two additional hours). Accuracy is strong accuracy of search on solved"
        " positions of games half of whose plies are perfect. The positions are the same for all"
        " runs: intervals are over runs, and other positions would shift all of them. In"
        " comparisons, accuracy is averaged over the last fifth of the cost."
    )
    for name, (title, variants) in _FIGURES.items():
        shown = {each: runs[each] for each in variants if each in runs}
        if len(shown) > 1:
            caption = (
                "The line is the mean over runs, the band one standard deviation between them."
            )
            yield Picture(name, _curves(shown, title), caption)
    yield from _effects(runs)
    yield _costs(runs)
    if table := times_table(results):
        yield table


def _curves(runs: Steps, title: str) -> Figure:
    """Draw accuracy over cost, up to the cost that all runs of a variant have spent."""
    curves = {}
    for name, each in runs.items():
        steps_of_all = each.values()
        first = max(run[0].cost for run in steps_of_all)
        last = min(run[-1].cost for run in steps_of_all)
        at = np.linspace(first, last, _POINTS)
        values = [
            np.interp(at, [step.cost for step in run], [step.strong for step in run]).tolist()
            for run in steps_of_all
        ]
        curves[VARIANTS[name].title] = Curve(at.tolist(), values)
    return draw_curves({"": curves}, title, "hours of self-play", "strong accuracy")


def _effects(runs: Steps) -> Iterator[Block]:
    differences = {
        VARIANTS[name].title.removeprefix("without "): _difference(runs[EXTENDED], runs[name])
        for name in ABLATIONS
        if name in runs and EXTENDED in runs
    }
    rows = {
        title: Row(each.interval)
        for title, each in differences.items()
        if not isinstance(each, Missing)
    }
    if rows:
        yield Picture(
            "ablation-effects",
            draw_intervals(
                rows,
                "Gain from each ingredient at equal cost",
                "difference in strong accuracy",
                threshold=0.0,
                number_format="+.3f",
            ),
            "Extended version minus the same without one ingredient, by seed.",
        )


def _costs(runs: Steps) -> Table:
    """Return the cost of reaching smoothed accuracies, beside the published hours."""
    shown = [*_LOWER_LEVELS, *_LEVELS]
    rows: list[list[Cell]] = []
    for name, each in runs.items():
        published = VARIANTS[name].published
        row: list[Cell] = [VARIANTS[name].title, len(each)]
        row.append(mean_of([run[-1].cost for run in each.values()]).interval)
        peaks = [100 * highest for highest in _peaks(each).values() if highest is not None]
        row.append(mean_of(peaks).interval if peaks else None)
        row += [_cost_cell(list(each.values()), level / 100) for level in shown]
        row += [published.hours.get(level) if published else None for level in _LEVELS]
        row.append(published.peak if published else None)
        rows.append(row)
    return Table(
        "costs",
        "Cost to reach strong accuracies, and hours of an RTX 2070S in [Clausen2021]",
        [
            "variant",
            "runs",
            Column("hours spent", ".3g"),
            Column("peak, %", ".1f"),
            *(Column(f"hours to {level} %", ".3g") for level in shown),
            *(Column(f"published hours to {level} %", "g") for level in _LEVELS),
            Column("published peak, %", "g"),
        ],
        rows,
    )


def _cost_cell(runs: Sequence[Sequence[Step]], level: float) -> Cell:
    """Return the mean cost, or the number of runs that reached the accuracy if not all did."""
    costs = [cost_to_reach(run, level) for run in runs]
    known = [cost for cost in costs if cost is not None]
    if len(known) == len(costs):
        return mean_of(known).interval
    return f"{len(known)} of {len(costs)} runs" if known else "not reached"


def times_table(results: Results) -> Table | None:
    """Return the time of a move with every network; None before it is measured."""
    times = measured_moves(results)
    if times is None:
        return None
    planned = (run for run in results.design.runs if run.part == TRAINING)
    rows: list[list[Cell]] = []
    for mover in movers(planned).values():
        measured = times.of(mover.kind)
        if measured is not None:
            settings = mover.run.settings
            network, game = settings.network_of(mover.iteration), parse_game(settings.game)
            interval = f"{measured.low:.3g} to {measured.high:.3g}"
            rows.append(
                [
                    str(mover.kind), ", ".join(mover.titles), count_parameters(network, game),
                    evaluation_flops(network, game) / 1e6, measured.milliseconds, interval,
                ]
            )  # fmt: skip
    return Table(
        "time-of-a-move",
        "Networks, and the time of a move on one core of the reference machine",
        [
            "network",
            "variants",
            Column("weights", ",d"),
            Column("million operations per position", ".3g"),
            Column("ms a move", ".3g"),
            "interval of the median",
        ],
        rows,
    )
