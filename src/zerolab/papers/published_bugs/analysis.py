"""Report on bugs of published code: each conclusion with the bug and without."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import sqrt
from statistics import mean, stdev

from zerolab.papers.elo import (
    elo_sample,
    elo_table,
    random_sample,
    rated_sample,
    removed_runs,
    unfinished,
)
from zerolab.papers.published_bugs.findings import (
    CLOSURES,
    bug_findings,
    closure_ratings,
    computed_labels,
    uncomputed_labels,
)
from zerolab.papers.published_bugs.study import (
    CLOSURE,
    DEFAULT_RATE,
    DEFECTIVE,
    LABELS,
    LOSSES,
    MIRROR,
    OPTIMIZER,
    RATES,
    RIGHT,
    WINNER,
)
from zerolab.ratings.bayes import Rating
from zerolab.report.claims import ClaimTable
from zerolab.report.document import Block, Document, Heading, Paragraph, Picture
from zerolab.report.figures import Sample
from zerolab.report.interval import Cell
from zerolab.report.interval_plots import draw_bars
from zerolab.report.table import Column, Table
from zerolab.studies.claims import judge
from zerolab.studies.results import Results, provenance
from zerolab.studies.statistics import difference_of_means, sample_of_runs
from zerolab.studies.study import scale_caveats

OWN, SHARED = "own networks", "the last run's network"

_BUGS = {
    MIRROR: "Connect Four's mirrored boards come with the policy of the original board [WangCode]."
    " Conflicting targets for the policy should favour learning the value alone.",
    WINNER: "Gobang's results are read as if they were the mover's: the first player's positions"
    " are labelled lost, whichever side won [AZG]. The value is then easy to learn and worthless,"
    " which should favour learning the policy alone.",
    OPTIMIZER: "Adam is made anew in every iteration, at its own rate of 0.001 [AZG]. A sweep of"
    " learning rates then compares equal runs.",
    CLOSURE: "All runs of a loss play with the network of the last one [WangCode]. The published"
    " spread is then that of games, not of training.",
    LABELS: "Positions that the first player, to move, has lost are labelled drawn [ClausenCode]."
    " The published share of right predictions is then a share of labels.",
}


def bug_report(results: Results) -> Document:
    """Return the report on the runs, tournaments and computations that are finished."""
    subject = "the effect of a bug on the published runs"
    blocks: list[Block] = [
        Heading("Findings"),
        ClaimTable(judge(bug_findings(results))),
        *_trained(results, MIRROR, "loss"),
        *_trained(results, WINNER, "loss"),
        *_trained(results, OPTIMIZER, "rate"),
        *_rates(results),
        *_closed(results),
        *_labelled(results),
    ]
    return Document(
        "Bugs of published code, switched on and off",
        scale_caveats(results.scale, len(results.levels("seed")), subject),
        blocks,
        provenance(results),
    )


def _rates(results: Results) -> Iterator[Block]:
    """Show the effects of the learning rate and of the bug, which no paper reports."""
    if OPTIMIZER not in results.tournaments:
        return
    published = f"{DEFAULT_RATE:g}"
    low, high = (f"{rate:g}" for rate in (min(RATES), max(RATES)))
    pairs = {
        f"rate {high} minus {low}, without the bug": ((RIGHT, high), (RIGHT, low)),
        f"without the bug minus with it, rate {published}": (
            (RIGHT, published), (DEFECTIVE, published),
        ),
    }  # fmt: skip
    rows: list[list[Cell]] = []
    for title, pair in pairs.items():
        one, other = (
            elo_sample(
                results.tournaments[OPTIMIZER], results.where(OPTIMIZER, code=code, rate=rate)
            ).values
            for code, rate in pair
        )
        if one and other:
            rows.append([title, difference_of_means(one, other).interval])
    if not rows:
        return
    yield Paragraph(
        f"With the bug every rate is 0.001, so its runs appear at the published rate, {published},"
        " only. No paper reports these differences; they are shown without a verdict."
    )
    columns: list[str | Column] = ["difference", Column("Elo", "+.0f")]
    yield Table("rate-differences", "Effects of the learning rate and of the bug", columns, rows)


def _trained(results: Results, part: str, factor: str) -> Iterator[Block]:
    """Show the Elo of runs with and without a bug, by the factor of the conclusion."""
    yield Heading(_title(part))
    yield Paragraph(_BUGS[part])
    played = results.tournaments.get(part)
    if played is None:
        yield Paragraph(f"Not finished: {results.missing(part)}.")
        return
    groups: dict[str, dict[str, Sample]] = {}
    for level in results.levels(factor, part):
        groups[f"{factor} {level}"] = {
            code: elo_sample(played, results.where(part, code=code, **{factor: level}))
            for code in (RIGHT, DEFECTIVE)
            if results.where(part, code=code, **{factor: level})
        }
    groups = {title: samples for title, samples in groups.items() if samples}
    if not groups:
        yield Paragraph(f"{removed_runs(results, part).note}.")
        return
    yield Picture(
        part,
        draw_bars(groups, f"{_title(part)}: Elo by {factor}", "tournament Elo"),
        "All runs, with and without the bug, and Random, in one tournament without bugs.",
    )
    groups["random"] = {RIGHT: random_sample(played)}
    yield elo_table(f"{part}-elo", f"{_title(part)}: tournament Elo", groups, factor, "code")


def _title(part: str) -> str:
    return part.replace("-", " ").capitalize()


def _closed(results: Results) -> Iterator[Block]:
    yield Heading(_title(CLOSURE))
    yield Paragraph(_BUGS[CLOSURE])
    if missing := unfinished(results, CLOSURES):
        yield Paragraph(f"Not finished: {missing.note}.")
        return
    names = (OWN, SHARED)
    rated = dict(zip(names, (closure_ratings(results, key) for key in CLOSURES), strict=True))
    yield Picture(
        CLOSURE,
        draw_bars(
            {f"loss {loss}": {name: rated_sample(rated[name][loss]) for name in names}
             for loss in LOSSES},
            "Elo of the runs of a loss, by whose network plays", "tournament Elo",
        ),
        "With the last run's network, the dots of a loss are one player under several names: their"
        " box shows the variation of games, and nothing about other runs.",
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
    yield Paragraph(_BUGS[LABELS])
    titles = {
        "on_labels": "right by the labels",
        "on_outcomes": "right by the true outcome",
        "ceiling": "a perfect predictor, by the labels",
    }
    groups = {
        title: {
            code: sample_of_runs([100 * share for share, _ in found],
                         [100 * sqrt(share * (1 - share) / count) for share, count in found])
            for code in (RIGHT, DEFECTIVE)
            if (found := computed_labels(results, code, [name, "held_out"]))
        }
        for name, title in titles.items()
    }  # fmt: skip
    if not all(groups.values()):
        yield Paragraph(f"Not finished: {uncomputed_labels(results).note}.")
        return
    yield Picture(
        LABELS,
        draw_bars(groups, "Predicting win, draw or loss", "held-out positions, %"),
        "A small network learns the outcomes of solved positions, from the published labels or from"
        " right ones. It is smaller than those of [Clausen2021] at every scale, and learns with"
        " other settings; only a perfect predictor's limit can be compared.",
    )
