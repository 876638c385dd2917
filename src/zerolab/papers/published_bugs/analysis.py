"""Claims about the effects of published bugs, their statistics, and the report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import sqrt
from statistics import mean, stdev

from zerolab.papers.elo import (
    elo_sample,
    elo_table,
    mean_elo_gain,
    missing_for_removed_runs,
    missing_for_unfinished_tournaments,
    pair_by_seed,
    random_player_sample,
    ratings_sample,
)
from zerolab.papers.published_bugs.study import (
    ABSOLUTE_WINNER_PART,
    DEFECTIVE,
    FRESH_OPTIMIZER_PART,
    LEARNING_RATES,
    LOSSES,
    MIRRORED_POLICY_PART,
    PUBLISHED_LEARNING_RATE,
    RIGHT,
    SHARED_NETWORK_TOURNAMENT,
    TOURNAMENT_CLOSURE_PART,
    WIN_LABELS_PART,
)
from zerolab.ratings.ratings import Rating
from zerolab.report.claims import Claim
from zerolab.report.document import Block, Document, Heading, Paragraph, Picture
from zerolab.report.figures import RunSample
from zerolab.report.interval_plots import draw_grouped_runs
from zerolab.report.table import Cell, Column, Table
from zerolab.studies.claims import MissingEstimate
from zerolab.studies.joint_estimates import bootstrap, spread_ratio
from zerolab.studies.results import Results, provenance, verdict_section
from zerolab.studies.statistics import (
    POOLED_VARIANCE_NOTE,
    BinomialEstimate,
    ClaimEstimate,
    estimate_mean,
    run_sample,
    with_pooled_intervals,
)
from zerolab.studies.study import scale_caveats

CLOSURE_TOURNAMENTS = (
    TOURNAMENT_CLOSURE_PART,
    f"{TOURNAMENT_CLOSURE_PART}-{SHARED_NETWORK_TOURNAMENT}",
)
"""Tournaments of `TOURNAMENT_CLOSURE_PART`: with each run's own network, and with shared ones."""


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


MIRRORED_POLICY_CLAIM = _interaction(
    MIRRORED_POLICY_PART,
    "value",
    "The bug of unmirrored policies favours learning the value alone.",
    "zerolab, on [WangCode]",
)
ABSOLUTE_WINNER_CLAIM = _interaction(
    ABSOLUTE_WINNER_PART,
    "policy",
    "The bug of absolute winners favours learning the policy alone.",
    "zerolab, on [AZG]",
)
ABSOLUTE_WINNER_LOSS_CLAIM = Claim(
    "absolute-winner-loss",
    "The bug of absolute winners makes the value loss less than half as large.",
    "zerolab, on [Wang2020a]",
    "value loss in the last epoch of runs that minimise the sum: with the bug divided by without",
    0.5,
    "below",
    0.1,
    figure=ABSOLUTE_WINNER_PART,
)
TOURNAMENT_CLOSURE_CLAIM = Claim(
    "closure-hides-spread",
    "Sharing the last run's network hides the spread between runs.",
    "zerolab, on [WangCode]",
    "standard deviation of Elo within a loss, pooled over losses, between copies of one network"
    " divided by that between runs with their own networks",
    1.0,
    "below",
    0.2,
    figure=TOURNAMENT_CLOSURE_PART,
)
WIN_LABELS_CLAIM = Claim(
    "labels-are-no-ceiling",
    "A perfect predictor scores less than 90 % on the defective labels.",
    "zerolab, on [Clausen2021, Table 1]",
    "share of the distinct held-out positions of the first data set whose label is the true"
    " outcome",
    0.9,
    "below",
    0.02,
    figure=WIN_LABELS_PART,
)


def bug_statistics(results: Results) -> dict[Claim, ClaimEstimate | MissingEstimate]:
    """Return the statistic of each claim, or the reason why it is missing."""
    return {
        MIRRORED_POLICY_CLAIM: bug_loss_interaction(results, MIRRORED_POLICY_PART, "value"),
        ABSOLUTE_WINNER_CLAIM: bug_loss_interaction(results, ABSOLUTE_WINNER_PART, "policy"),
        ABSOLUTE_WINNER_LOSS_CLAIM: _loss_ratio(results),
        TOURNAMENT_CLOSURE_CLAIM: shared_network_spread_ratio(results),
        WIN_LABELS_CLAIM: true_label_share(results),
    }


def bug_loss_interaction(results: Results, part: str, loss: str) -> ClaimEstimate | MissingEstimate:
    """Return the Elo gain of `loss` over the sum with the bug, minus the gain without the bug.

    The gains are differences within a seed, because the runs of a seed play one tournament.
    """
    if missing := missing_for_unfinished_tournaments(results, [part]):
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
        return missing_for_removed_runs(results, part)
    return estimate_mean(
        [wrong[seed] - wrong_sum[seed] - right[seed] + right_sum[seed] for seed in seeds]
    )


def _loss_ratio(results: Results) -> ClaimEstimate | MissingEstimate:
    groups = [
        [
            run.last_epoch_losses[-1]["value"]
            for run in results.runs_where(ABSOLUTE_WINNER_PART, code=code, loss="sum")
        ]
        for code in (DEFECTIVE, RIGHT)
    ]
    if not all(groups):
        return MissingEstimate(results.unfinished_message(ABSOLUTE_WINNER_PART))
    return bootstrap(*groups, statistic=lambda wrong, right: mean(wrong) / mean(right))


def ratings_by_loss(results: Results, key: str) -> dict[str, list[Rating]]:
    """Return the ratings of the players of a tournament in `CLOSURE_TOURNAMENTS`, by loss."""
    rated = results.tournaments[key].rating_by_player
    return {
        loss: [
            rated[run.planned.label]
            for run in results.runs_where(TOURNAMENT_CLOSURE_PART, loss=loss)
        ]
        for loss in LOSSES
    }


def shared_network_spread_ratio(results: Results) -> ClaimEstimate | MissingEstimate:
    """Return the Elo spread between copies of one network, divided by the spread between runs.

    Copies of a network have the same strength and play separate games, so their spread in Elo is
    due to the games alone.
    """
    if missing := missing_for_unfinished_tournaments(results, CLOSURE_TOURNAMENTS):
        return missing
    own, shared = (
        [[rating.elo for rating in ratings] for ratings in ratings_by_loss(results, key).values()]
        for key in CLOSURE_TOURNAMENTS
    )
    ratio = spread_ratio(shared, own)
    return MissingEstimate("one run per loss: no spread to compare") if ratio is None else ratio


def win_label_results(results: Results, code: str, names: Sequence[str]) -> list[list[float]]:
    """Return the results in `names` of each computation that provides them all, ordered by seed."""
    prefix = f"{WIN_LABELS_PART}: {code}/"
    return [
        [numbers[name] for name in names]
        for label, numbers in results.computation_results.items()
        if label.startswith(prefix) and set(names) <= numbers.keys()
    ]


def missing_win_label_results(results: Results) -> MissingEstimate:
    """Return the reason why results of label computations are missing."""
    stale = "an earlier version computed results without some numbers: remove"
    keys = [
        planned.key for planned in results.design.computations if planned.part == WIN_LABELS_PART
    ]
    files = ", ".join(f"computed/{key}.json" for key in keys)
    return MissingEstimate(results.unfinished_message(WIN_LABELS_PART) or f"{stale} {files}")


def true_label_share(results: Results) -> ClaimEstimate | MissingEstimate:
    """Return the share of true labels in the first data set.

    The other data sets share positions with the first, so they cannot be pooled. The positions of a
    game count as the number of independent positions with the same standard error.
    """
    names = ["true_labels", "distinct", "true_labels_trials"]
    counts = win_label_results(results, DEFECTIVE, names)
    if not counts:
        return missing_win_label_results(results)
    true, distinct, trials = counts[0]
    return BinomialEstimate(true / distinct * trials, trials)


OWN, SHARED = "own networks", "the last run's network"

_BUGS = {
    MIRRORED_POLICY_PART: "In Connect Four, mirrored boards are paired with the policy of the"
    " original board [WangCode]. The conflicting policy targets should favour learning the value"
    " alone.",
    ABSOLUTE_WINNER_PART: "Gobang results are interpreted as if they were relative to the side to"
    " move, so every position of the first player is labelled a loss, regardless of the winner"
    " [AZG]. The value is then easy to learn but worthless, which should favour learning the policy"
    " alone.",
    FRESH_OPTIMIZER_PART: "Adam is re-created in every iteration with its default learning rate of"
    " 0.001 [AZG]. A sweep over learning rates then compares identical runs.",
    TOURNAMENT_CLOSURE_PART: "All runs of a loss play with the last run's network [WangCode]. The"
    " published spread then reflects variation between games, not between training runs.",
    WIN_LABELS_PART: "Lost positions with the first player to move are labelled draws"
    " [ClausenCode]. The published accuracy then measures agreement with wrong labels.",
}


def bug_report(results: Results) -> Document:
    """Return the report on all finished runs, tournaments and computations."""
    subject = "the effect of a bug on the published runs"
    blocks: list[Block] = [
        *verdict_section(results, results.judge(bug_statistics)),
        *_elo_blocks(results, MIRRORED_POLICY_PART, "loss"),
        *_elo_blocks(results, ABSOLUTE_WINNER_PART, "loss"),
        *_elo_blocks(results, FRESH_OPTIMIZER_PART, "rate"),
        *_rate_blocks(results),
        *_closure_blocks(results),
        *_label_blocks(results),
    ]
    return Document(
        "Bugs in published code, switched on and off",
        scale_caveats(results.scale, len(results.planned_levels("seed")), subject),
        blocks,
        provenance(results),
    )


def _rate_blocks(results: Results) -> Iterator[Block]:
    """Yield the effects of the learning rate and of the bug, which no paper reports."""
    tournament = results.tournaments.get(FRESH_OPTIMIZER_PART)
    if tournament is None:
        return
    published = f"{PUBLISHED_LEARNING_RATE:g}"
    low, high = (f"{rate:g}" for rate in (min(LEARNING_RATES), max(LEARNING_RATES)))
    comparisons = {
        f"rate {high} minus {low}, without the bug": ((RIGHT, high), (RIGHT, low)),
        f"without the bug minus with it, rate {published}": (
            (RIGHT, published), (DEFECTIVE, published),
        ),
    }  # fmt: skip
    rows: list[list[Cell]] = []
    for title, pair in comparisons.items():
        ratings, others = (
            {run.seed: tournament.final_rating(run)
             for run in results.runs_where(FRESH_OPTIMIZER_PART, code=code, rate=rate)}
            for code, rate in pair
        )  # fmt: skip
        if pairs := pair_by_seed(ratings, others):
            rows.append([title, mean_elo_gain(pairs).interval])
    if not rows:
        return
    yield Paragraph(
        "With the bug, every learning rate is 0.001, so these runs appear only at the published"
        f" rate of {published}. No paper reports these differences, so they have no verdict."
    )
    columns: list[str | Column] = ["difference", Column("Elo", "+.0f")]
    yield Table("rate-differences", "Effects of the learning rate and of the bug", columns, rows)


def _elo_blocks(results: Results, part: str, factor: str) -> Iterator[Block]:
    """Yield the Elo of runs with and without a bug, by level of `factor`."""
    yield Heading(_title(part))
    yield Paragraph(_BUGS[part])
    tournament = results.tournaments.get(part)
    if tournament is None:
        yield Paragraph(f"Not finished: {results.unfinished_message(part)}.")
        return
    groups: dict[str, dict[str, RunSample]] = {}
    for level in results.planned_levels(factor, part):
        groups[f"{factor} {level}"] = {
            code: elo_sample(tournament, results.runs_where(part, code=code, **{factor: level}))
            for code in (RIGHT, DEFECTIVE)
            if results.runs_where(part, code=code, **{factor: level})
        }
    groups = {title: samples for title, samples in groups.items() if samples}
    if not groups:
        yield Paragraph(f"{missing_for_removed_runs(results, part).reason}.")
        return
    groups = with_pooled_intervals(groups)
    yield Picture(
        part,
        draw_grouped_runs(groups, f"{_title(part)}: Elo by {factor}", "tournament Elo"),
        "One tournament per seed, itself free of bugs, between Random and the runs with and without"
        f" the bug. {POOLED_VARIANCE_NOTE}",
    )
    groups["random"] = {RIGHT: random_player_sample(tournament)}
    yield elo_table(f"{part}-elo", f"{_title(part)}: tournament Elo", groups, factor, "code")


def _title(part: str) -> str:
    return part.replace("-", " ").capitalize()


def _closure_blocks(results: Results) -> Iterator[Block]:
    yield Heading(_title(TOURNAMENT_CLOSURE_PART))
    yield Paragraph(_BUGS[TOURNAMENT_CLOSURE_PART])
    if missing := missing_for_unfinished_tournaments(results, CLOSURE_TOURNAMENTS):
        yield Paragraph(f"Not finished: {missing.reason}.")
        return
    names = (OWN, SHARED)
    rated = dict(
        zip(names, (ratings_by_loss(results, key) for key in CLOSURE_TOURNAMENTS), strict=True)
    )
    yield Picture(
        TOURNAMENT_CLOSURE_PART,
        draw_grouped_runs(
            {f"loss {loss}": {name: ratings_sample(rated[name][loss]) for name in names}
             for loss in LOSSES},
            "Elo of the runs of each loss, by network used", "tournament Elo",
        ),
        "When all runs play with the last run's network, the dots of a loss are one player under"
        " several names. Their box then shows variation between games, not between runs.",
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
    yield Table(f"{TOURNAMENT_CLOSURE_PART}-elo", "Tournament Elo by network used", columns, rows)


def _spread(ratings: Sequence[Rating]) -> tuple[float, float | None, float]:
    """Return the mean and standard deviation of Elo, and the standard error of one rating."""
    sample = ratings_sample(ratings)
    rms_error = sqrt(mean(error**2 for error in sample.standard_errors))
    return mean(sample.values), stdev(sample.values) if len(ratings) > 1 else None, rms_error


def _label_blocks(results: Results) -> Iterator[Block]:
    yield Heading(_title(WIN_LABELS_PART))
    yield Paragraph(_BUGS[WIN_LABELS_PART])
    titles = {
        "on_labels": "accuracy on the labels",
        "on_outcomes": "accuracy on the true outcomes",
        "ceiling": "perfect predictor on the labels",
    }
    groups = {
        title: {
            code: run_sample([100 * share for share, _ in shares],
                         [100 * sqrt(share * (1 - share) / count) for share, count in shares])
            for code in (RIGHT, DEFECTIVE)
            if (shares := win_label_results(results, code, [name, f"{name}_trials"]))
        }
        for name, title in titles.items()
    }  # fmt: skip
    if not all(groups.values()):
        yield Paragraph(f"Not finished: {missing_win_label_results(results).reason}.")
        return
    yield Picture(
        WIN_LABELS_PART,
        draw_grouped_runs(groups, "Predicting win, draw or loss", "held-out positions, %"),
        "Accuracy of a small network trained on solved positions with either the published or the"
        " correct labels. At every scale it is smaller than the networks of [Clausen2021] and"
        " trained with different settings, so only the limit of a perfect predictor is comparable."
        " Error bars allow for the similarity of positions from one game.",
    )
