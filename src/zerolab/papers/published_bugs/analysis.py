"""Report on bugs of published code: each conclusion with the bug and without."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import sqrt
from statistics import mean, stdev

from zerolab.papers.elo import elo_sample, elo_table, gone, random_sample, rated_sample, unfinished
from zerolab.papers.published_bugs.findings import (
    CLOSURE_CLAIM,
    EASY_CLAIM,
    LABEL_CLAIM,
    MIRROR,
    MIRROR_CLAIM,
    WINNER,
    WINNER_CLAIM,
)
from zerolab.ratings.bayes import Rating
from zerolab.report.claims import Claim, ClaimTable
from zerolab.report.document import Block, Document, Heading, Paragraph, Picture
from zerolab.report.figures import Sample
from zerolab.report.interval import Cell
from zerolab.report.interval_plots import draw_bars
from zerolab.report.table import Column, Table
from zerolab.studies.claims import Missing, judge
from zerolab.studies.joint_estimates import spread_ratio
from zerolab.studies.results import Results, TrainedRun, provenance
from zerolab.studies.statistics import (
    BinomialEstimate,
    Estimate,
    bootstrap,
    difference_of_means,
    sample_of_runs,
)
from zerolab.studies.study import scale_caveats

OPTIMIZER = "fresh-optimizer"
CLOSURE = "tournament-closure"
LABELS = "win-labels"
"""The parts, one per defect."""
RIGHT, DEFECTIVE = "right", "defective"
CLOSED = "closed"
"""The tournament in which runs of a loss share the network of the last one."""
OWN, SHARED = "own networks", "the last run's network"
LOSSES = ("policy", "value", "sum")
RATES = (0.001, 0.005, 0.01)
DEFAULT_RATE = 0.005
"""The published learning rate, in place of which the defective code takes 0.001."""

_CLOSURES = (CLOSURE, f"{CLOSURE}-{CLOSED}")  # with their own networks, and with shared ones
_ABOUT = {
    MIRROR: "Connect Four's mirrored boards come with the policy of the board that they mirror"
    " [WangCode]. Conflicting targets for the policy should favour learning the value alone.",
    WINNER: "Gobang's results are read as if they were the mover's: the first player's positions"
    " are labelled lost, whoever won [AZG]. The value is then easy to learn and worth nothing,"
    " which should favour learning the policy alone.",
    OPTIMIZER: "Adam is made anew in every iteration, at its own rate of 0.001 [AZG]. A sweep of"
    " learning rates then compares equal runs.",
    CLOSURE: "All runs of a loss play with the network of the last one [WangCode]. The spread that"
    " is then published is that of games, not of training.",
    LABELS: "Positions that the first player has lost, it being its move, are labelled drawn"
    " [ClausenCode]. What is published as a share of right predictions is a share of labels.",
}


def bug_report(results: Results) -> Document:
    """Return the report on whatever is finished."""
    what = "how large the effect of a defect was in the published runs"
    blocks: list[Block] = [
        Heading("Findings"),
        ClaimTable(judge(_found(results))),
        *_trained(results, MIRROR, "loss"),
        *_trained(results, WINNER, "loss"),
        *_trained(results, OPTIMIZER, "rate"),
        *_rates(results),
        *_closed(results),
        *_labelled(results),
    ]
    return Document(
        "Defects of published code, switched on and off",
        scale_caveats(results.scale, len(results.levels("seed")), what), blocks,
        provenance(results),
    )  # fmt: skip


def _found(results: Results) -> dict[Claim, Estimate | Missing]:
    """Return the statistic of every claim."""
    return {
        MIRROR_CLAIM: _favour(results, MIRROR, "value"),
        WINNER_CLAIM: _favour(results, WINNER, "policy"),
        EASY_CLAIM: _easier(results),
        CLOSURE_CLAIM: _hidden(results),
        LABEL_CLAIM: _ceiling(results),
    }


def _elos(results: Results, part: str, runs: Sequence[TrainedRun]) -> list[float]:
    return list(elo_sample(results.tournaments[part], runs).values)


def _favour(results: Results, part: str, loss: str) -> Estimate | Missing:
    """Return by how much more a defect makes a loss look better than the sum."""
    if missing := unfinished(results, [part]):
        return missing
    groups = [
        _elos(results, part, results.where(part, defect=defect, loss=each))
        for defect in (DEFECTIVE, RIGHT)
        for each in (loss, "sum")
    ]
    if not all(groups):
        return gone(results, part)
    return bootstrap(*groups, statistic=lambda a, b, c, d: mean(a) - mean(b) - mean(c) + mean(d))


def _easier(results: Results) -> Estimate | Missing:
    groups = [
        [run.final_losses[-1]["value"] for run in results.where(WINNER, defect=each, loss="sum")]
        for each in (DEFECTIVE, RIGHT)
    ]
    if not all(groups):
        return Missing(results.missing(WINNER))
    return bootstrap(*groups, statistic=lambda wrong, right: mean(wrong) / mean(right))


def _closure_ratings(results: Results, key: str) -> dict[str, list[Rating]]:
    """Return the ratings of the players of a tournament of the closure, by loss."""
    rated = results.tournaments[key].by_name
    return {
        loss: [rated[run.planned.label] for run in results.where(CLOSURE, loss=loss)]
        for loss in LOSSES
    }


def _hidden(results: Results) -> Estimate | Missing:
    """Return how widely the names of one network vary, compared with runs.

    Names of one network are no runs. They vary as games do, all of which were played by each of
    them, so their Elo is a sample of what games alone make of one strength.
    """
    if missing := unfinished(results, _CLOSURES):
        return missing
    own, shared = (
        [[rating.elo for rating in ratings] for ratings in _closure_ratings(results, key).values()]
        for key in _CLOSURES
    )
    found = spread_ratio(shared, own)
    return Missing("one run per loss: no spread to compare") if found is None else found


def _computed(results: Results, defect: str, names: Sequence[str]) -> list[list[float]]:
    """Return some results of every computation that has them all, in order of seeds."""
    prefix = f"{LABELS}: {defect}/"
    return [
        [each[name] for name in names]
        for label, each in results.computed.items()
        if label.startswith(prefix) and set(names) <= each.keys()
    ]


def _uncomputed(results: Results) -> Missing:
    """Return why there are no numbers of the labels."""
    left = results.missing(LABELS)
    stale = "they were computed by an earlier version, without some numbers: remove"
    keys = [each.key for each in results.design.computations if each.part == LABELS]
    return Missing(left or f"{stale} {', '.join(f'computed/{key}.json' for key in keys)}")


def _ceiling(results: Results) -> Estimate | Missing:
    """Return the share in one data set: two would have positions in common."""
    counts = _computed(results, DEFECTIVE, ["true_labels", "distinct"])
    if not counts:
        return _uncomputed(results)
    true, distinct = counts[0]
    return BinomialEstimate(int(true), int(distinct))


def _rates(results: Results) -> Iterator[Block]:
    """Show what the learning rate does, and making Adam anew; the papers say nothing of either."""
    if OPTIMIZER not in results.tournaments:
        return
    published = f"{DEFAULT_RATE:g}"
    low, high = (f"{rate:g}" for rate in (min(RATES), max(RATES)))
    pairs = {
        f"rate {high} less {low}, without the defect": ((RIGHT, high), (RIGHT, low)),
        f"without the defect less with it, rate {published}": (
            (RIGHT, published), (DEFECTIVE, published),
        ),
    }  # fmt: skip
    rows: list[list[Cell]] = []
    for title, pair in pairs.items():
        one, other = (
            _elos(results, OPTIMIZER, results.where(OPTIMIZER, defect=defect, rate=rate))
            for defect, rate in pair
        )
        if one and other:
            rows.append([title, difference_of_means(one, other)])
    if not rows:
        return
    yield Paragraph(
        f"With the defect every rate is 0.001, so its runs stand at the published rate,"
        f" {published}, alone. No paper says what these differences are; they are shown without a"
        " verdict."
    )
    columns: list[str | Column] = ["difference", Column("Elo", "+.0f")]
    yield Table("rate-differences", "What learning rates and the defect do", columns, rows)


def _trained(results: Results, part: str, factor: str) -> Iterator[Block]:
    """Show the Elo of runs with and without a defect, by what the conclusion is about."""
    yield Heading(_title(part))
    yield Paragraph(_ABOUT[part])
    played = results.tournaments.get(part)
    if played is None:
        yield Paragraph(f"Not finished: {results.missing(part)}.")
        return
    groups: dict[str, dict[str, Sample]] = {}
    for level in results.levels(factor, part):
        groups[f"{factor} {level}"] = {
            defect: elo_sample(played, results.where(part, defect=defect, **{factor: level}))
            for defect in (RIGHT, DEFECTIVE)
            if results.where(part, defect=defect, **{factor: level})
        }
    groups = {title: samples for title, samples in groups.items() if samples}
    if not groups:
        yield Paragraph(f"{gone(results, part).note}.")
        return
    yield Picture(
        part,
        draw_bars(groups, f"{_title(part)}: Elo by {factor}", "tournament Elo"),
        "All runs, with and without the defect, and Random in one tournament, without defects.",
    )
    groups["random"] = {RIGHT: random_sample(played)}
    yield elo_table(f"{part}-elo", f"{_title(part)}: tournament Elo", groups, factor, "code")


def _title(part: str) -> str:
    return part.replace("-", " ").capitalize()


def _closed(results: Results) -> Iterator[Block]:
    yield Heading(_title(CLOSURE))
    yield Paragraph(_ABOUT[CLOSURE])
    if missing := unfinished(results, _CLOSURES):
        yield Paragraph(f"Not finished: {missing.note}.")
        return
    names = (OWN, SHARED)
    rated = dict(zip(names, (_closure_ratings(results, key) for key in _CLOSURES), strict=True))
    yield Picture(
        CLOSURE,
        draw_bars(
            {f"loss {loss}": {name: rated_sample(rated[name][loss]) for name in names}
             for loss in LOSSES},
            "Elo of the runs of a loss, by whose network plays", "tournament Elo",
        ),
        "With the last run's network, dots of a loss are one player under several names: their box"
        " shows what games vary by, and nothing about other runs.",
    )  # fmt: skip
    rows: list[list[Cell]] = []
    for loss in LOSSES:
        for name in names:
            if ratings := rated[name][loss]:
                rows.append([loss, name, 1 if name == SHARED else len(ratings), *_spread(ratings)])
    columns: list[str | Column] = [
        "loss", "networks", "runs", Column("Elo", "+.0f"), Column("SD between players", ".0f"),
        Column("error of measuring a player", ".0f"),
    ]  # fmt: skip
    yield Table(f"{CLOSURE}-elo", "Tournament Elo by whose network plays", columns, rows)


def _spread(ratings: Sequence[Rating]) -> tuple[float, float | None, float]:
    """Return the mean of some Elos, their standard deviation and the error of measuring one."""
    sample = rated_sample(ratings)
    error = sqrt(mean(each**2 for each in sample.errors))
    return mean(sample.values), stdev(sample.values) if len(ratings) > 1 else None, error


def _labelled(results: Results) -> Iterator[Block]:
    yield Heading(_title(LABELS))
    yield Paragraph(_ABOUT[LABELS])
    titles = {
        "on_labels": "right by the labels",
        "on_outcomes": "right by the true outcome",
        "ceiling": "a perfect predictor, by the labels",
    }
    groups = {
        title: {
            defect: sample_of_runs([100 * share for share, _ in found],
                           [100 * sqrt(share * (1 - share) / count) for share, count in found])
            for defect in (RIGHT, DEFECTIVE)
            if (found := _computed(results, defect, [name, "held_out"]))
        }
        for name, title in titles.items()
    }  # fmt: skip
    if not all(groups.values()):
        yield Paragraph(f"Not finished: {_uncomputed(results).note}.")
        return
    yield Picture(
        LABELS,
        draw_bars(groups, "Predicting win, draw or loss", "held-out positions, %"),
        "A small network learns the outcomes of solved positions, with the labels as published or"
        " with right ones. It is smaller than those of [Clausen2021] at every scale, and learns"
        " with other settings: what can be compared is a perfect predictor's limit.",
    )
