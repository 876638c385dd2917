"""Claims about the effects of published bugs, and their statistics."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

from zerolab.papers.elo import removed_runs_note, unfinished_tournaments_note
from zerolab.papers.published_bugs.study import (
    CLOSED,
    CLOSURE,
    DEFECTIVE,
    LABELS,
    LOSSES,
    MIRROR,
    RIGHT,
    WINNER,
)
from zerolab.ratings.ratings import Rating
from zerolab.report.claims import Claim
from zerolab.studies.claims import MissingEstimate
from zerolab.studies.joint_estimates import bootstrap, spread_ratio
from zerolab.studies.results import Results
from zerolab.studies.statistics import BinomialEstimate, ClaimEstimate, mean_of

CLOSURES = (CLOSURE, f"{CLOSURE}-{CLOSED}")
"""Tournaments of the part `CLOSURE`: with each run's own network, and with shared networks."""


def _interaction(part: str, loss: str, text: str, source: str) -> Claim:
    return Claim(
        f"{part}-favours-{loss}",
        text,
        source,
        f"Elo of runs that minimise {loss} relative to runs that minimise the sum, with the bug"
        " minus without it",
        0.0,
        "above",
        50.0,
        figure=part,
    )


MIRROR_CLAIM = _interaction(
    MIRROR,
    "value",
    "The bug of unmirrored policies favours learning the value alone.",
    "zerolab, on [WangCode]",
)
WINNER_CLAIM = _interaction(
    WINNER,
    "policy",
    "The bug of absolute winners favours learning the policy alone.",
    "zerolab, on [AZG]",
)
EASY_CLAIM = Claim(
    "absolute-winner-loss",
    "The bug of absolute winners makes the value loss less than half as large.",
    "zerolab, on [Wang2020a]",
    "value loss in the last epoch of runs that minimise the sum: with the bug divided by without",
    0.5,
    "below",
    0.1,
    figure=WINNER,
)
CLOSURE_CLAIM = Claim(
    "closure-hides-spread",
    "Sharing the last run's network hides the spread between runs.",
    "zerolab, on [WangCode]",
    "standard deviation of Elo within a loss, pooled over losses, between copies of one network"
    " divided by that between runs with their own networks",
    1.0,
    "below",
    0.2,
    figure=CLOSURE,
)
LABEL_CLAIM = Claim(
    "labels-are-no-ceiling",
    "A perfect predictor scores less than 90 % on the defective labels.",
    "zerolab, on [Clausen2021, Table 1]",
    "share of the distinct held-out positions of the first data set whose label is the true"
    " outcome",
    0.9,
    "below",
    0.02,
    figure=LABELS,
)


def bug_statistics(results: Results) -> dict[Claim, ClaimEstimate | MissingEstimate]:
    """Return the statistic of each claim, or the reason why it is missing."""
    return {
        MIRROR_CLAIM: bug_loss_interaction(results, MIRROR, "value"),
        WINNER_CLAIM: bug_loss_interaction(results, WINNER, "policy"),
        EASY_CLAIM: _loss_ratio(results),
        CLOSURE_CLAIM: shared_network_spread_ratio(results),
        LABEL_CLAIM: true_label_share(results),
    }


def bug_loss_interaction(results: Results, part: str, loss: str) -> ClaimEstimate | MissingEstimate:
    """Return the Elo gain of `loss` over the sum with the bug, minus the gain without the bug.

    The gains are differences within a seed, whose runs play one tournament.
    """
    if missing := unfinished_tournaments_note(results, [part]):
        return missing
    tournament = results.tournaments[part]
    wrong, wrong_sum, right, right_sum = (
        {
            run.seed: tournament.final_rating(run).elo
            for run in results.runs_where(part, code=code, loss=level)
        }
        for code in (DEFECTIVE, RIGHT)
        for level in (loss, "sum")
    )
    seeds = sorted(wrong.keys() & wrong_sum.keys() & right.keys() & right_sum.keys(), key=str)
    if not seeds:
        return removed_runs_note(results, part)
    return mean_of(
        [wrong[seed] - wrong_sum[seed] - right[seed] + right_sum[seed] for seed in seeds]
    )


def _loss_ratio(results: Results) -> ClaimEstimate | MissingEstimate:
    groups = [
        [
            run.last_epoch_losses[-1]["value"]
            for run in results.runs_where(WINNER, code=code, loss="sum")
        ]
        for code in (DEFECTIVE, RIGHT)
    ]
    if not all(groups):
        return MissingEstimate(results.unfinished_message(WINNER))
    return bootstrap(*groups, statistic=lambda wrong, right: mean(wrong) / mean(right))


def ratings_by_loss(results: Results, key: str) -> dict[str, list[Rating]]:
    """Return the ratings of the players of a tournament in `CLOSURES`, by loss."""
    rated = results.tournaments[key].rating_by_player
    return {
        loss: [rated[run.planned.label] for run in results.runs_where(CLOSURE, loss=loss)]
        for loss in LOSSES
    }


def shared_network_spread_ratio(results: Results) -> ClaimEstimate | MissingEstimate:
    """Return the Elo spread between copies of one network, divided by the spread between runs.

    Copies of a network have the same strength and play separate games, so their spread in Elo is
    due to the games alone.
    """
    if missing := unfinished_tournaments_note(results, CLOSURES):
        return missing
    own, shared = (
        [[rating.elo for rating in ratings] for ratings in ratings_by_loss(results, key).values()]
        for key in CLOSURES
    )
    ratio = spread_ratio(shared, own)
    return MissingEstimate("one run per loss: no spread to compare") if ratio is None else ratio


def label_results(results: Results, code: str, names: Sequence[str]) -> list[list[float]]:
    """Return the results `names` of each computation that has all these results, by seed."""
    prefix = f"{LABELS}: {code}/"
    return [
        [numbers[name] for name in names]
        for label, numbers in results.computation_results.items()
        if label.startswith(prefix) and set(names) <= numbers.keys()
    ]


def missing_label_results(results: Results) -> MissingEstimate:
    """Return the reason why results of label computations are missing."""
    stale = "an earlier version computed results without some numbers: remove"
    keys = [planned.key for planned in results.design.computations if planned.part == LABELS]
    files = ", ".join(f"computed/{key}.json" for key in keys)
    return MissingEstimate(results.unfinished_message(LABELS) or f"{stale} {files}")


def true_label_share(results: Results) -> ClaimEstimate | MissingEstimate:
    """Return the share of true labels in the first data set.

    The other data sets share positions with the first, so they cannot be pooled.
    """
    counts = label_results(results, DEFECTIVE, ["true_labels", "distinct"])
    if not counts:
        return missing_label_results(results)
    true, distinct = counts[0]
    return BinomialEstimate(int(true), int(distinct))
