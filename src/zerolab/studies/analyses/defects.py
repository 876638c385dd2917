"""The report on defects: each conclusion as it was published, with the defect and without."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import mean, stdev

from zerolab.studies.analyses.elo import elo_sample, elo_table, random_sample, rated_sample
from zerolab.studies.claims import Claim, Missing, judge
from zerolab.studies.limits import limits
from zerolab.studies.panels.bars import draw_bars
from zerolab.studies.panels.samples import Sample
from zerolab.studies.report.document import (
    Block,
    ClaimTable,
    Document,
    Heading,
    Paragraph,
    Picture,
)
from zerolab.studies.results import Results, TrainedRun, provenance
from zerolab.studies.statistics import Estimate, bootstrap, difference_of_means

MIRROR = "mirrored-policy"
WINNER = "absolute-winner"
OPTIMIZER = "fresh-optimizer"
CLOSURE = "tournament-closure"
LABELS = "win-labels"
"""The parts, one per defect."""
RIGHT, DEFECTIVE = "right", "defective"
CLOSED = "closed"
"""The tournament in which runs of a loss share the network of the last one."""
LOSSES = ("policy", "value", "sum")
RATES = (0.001, 0.005, 0.01)
DEFAULT_RATE = 0.005
"""The published learning rate, in place of which the defective code takes 0.001."""

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


def _interaction(part: str, loss: str, text: str, source: str) -> Claim:
    return Claim(
        f"{part}-favours-{loss}",
        text,
        source,
        f"Elo of runs that minimise {loss} above those that minimise the sum: with the defect less"
        " without it",
        0.0,
        "above",
    )


MIRROR_CLAIM = _interaction(
    MIRROR, "value", "Unmirrored policies favour learning the value alone.", "[WangCode]"
)
WINNER_CLAIM = _interaction(
    WINNER, "policy", "Absolute winners favour learning the policy alone.", "[AZG]"
)
EASY_CLAIM = Claim(
    "absolute-winner-loss",
    "With absolute winners the loss of the value falls to nearly nothing.",
    "[Wang2020a]",
    "loss of the value in the last epoch of runs that minimise the sum, with the defect divided by"
    " without",
    0.5,
    "below",
)
CLOSURE_CLAIM = Claim(
    "closure-hides-spread",
    "Sharing the last run's network hides how far runs differ.",
    "[WangCode]",
    "standard deviation of Elo between runs of a loss, mean over losses: shared networks less own",
    0.0,
    "below",
)
LABEL_CLAIM = Claim(
    "labels-are-no-ceiling",
    "A perfect predictor scores less than 90 % on the defective labels.",
    "[Clausen2021, Table 1]",
    "share of held-out positions whose label is the true outcome",
    0.9,
    "below",
)
RATE_CLAIM = Claim(
    "optimizer-costs-strength",
    "Making Adam anew, at its own rate, costs strength.",
    "[AZG]",
    "mean tournament Elo of runs with the published learning rate, without the defect less with it",
    0.0,
    "above",
)


def document(results: Results) -> Document:
    """Return the report on whatever is finished."""
    what = "how large the effect of a defect was in the published runs"
    blocks: list[Block] = [
        Heading("Findings"),
        ClaimTable(judge(_found(results))),
        *_trained(results, MIRROR, "loss"),
        *_trained(results, WINNER, "loss"),
        *_trained(results, OPTIMIZER, "rate"),
        *_closed(results),
        *_labelled(results),
    ]
    return Document(
        "Defects of published code, switched on and off",
        limits(results.scale, len(results.levels("seed")), what), blocks, provenance(results),
    )  # fmt: skip


def _found(results: Results) -> dict[Claim, Estimate | Missing]:
    """Return the statistic of every claim."""
    return {
        MIRROR_CLAIM: _favour(results, MIRROR, "value"),
        WINNER_CLAIM: _favour(results, WINNER, "policy"),
        EASY_CLAIM: _easier(results),
        CLOSURE_CLAIM: _hidden(results),
        LABEL_CLAIM: _ceiling(results),
        RATE_CLAIM: _rates(results),
    }


def _elos(results: Results, part: str, runs: Sequence[TrainedRun]) -> list[float]:
    return list(elo_sample(results.tournaments[part], runs).values)


def _favour(results: Results, part: str, loss: str) -> Estimate | Missing:
    """Return by how much more a defect makes a loss look better than the sum."""
    if part not in results.tournaments:
        return Missing(results.missing(part))
    groups = [
        _elos(results, part, results.where(part, defect=defect, loss=each))
        for defect in (DEFECTIVE, RIGHT)
        for each in (loss, "sum")
    ]
    return bootstrap(*groups, statistic=lambda a, b, c, d: mean(a) - mean(b) - mean(c) + mean(d))


def _easier(results: Results) -> Estimate | Missing:
    groups = [
        [run.final_losses[-1]["value"] for run in results.where(WINNER, defect=each, loss="sum")]
        for each in (DEFECTIVE, RIGHT)
    ]
    if not all(groups):
        return Missing(results.missing(WINNER))
    return bootstrap(*groups, statistic=lambda wrong, right: mean(wrong) / mean(right))


def _shared_elos(results: Results, key: str) -> list[list[float]]:
    """Return the Elo of the players of a tournament of the closure, by loss."""
    rated = results.tournaments[key].by_name
    return [
        [rated[run.planned.label].elo for run in results.where(CLOSURE, loss=loss)]
        for loss in LOSSES
    ]


def _hidden(results: Results) -> Estimate | Missing:
    keys = (f"{CLOSURE}-{CLOSED}", CLOSURE)
    if not all(key in results.tournaments for key in keys):
        return Missing(results.missing(CLOSURE))
    groups = [elos for key in keys for elos in _shared_elos(results, key)]
    if any(len(elos) < 2 for elos in groups):
        return Missing("one run per loss: no spread to compare")

    def difference(*drawn: list[float]) -> float:
        spreads = [stdev(elos) for elos in drawn]
        return mean(spreads[: len(LOSSES)]) - mean(spreads[len(LOSSES) :])

    return bootstrap(*groups, statistic=difference)


def _computed(results: Results, defect: str, name: str) -> list[float]:
    prefix = f"{LABELS}: {defect}/"
    return [each[name] for label, each in results.computed.items() if label.startswith(prefix)]


def _ceiling(results: Results) -> Estimate | Missing:
    shares = _computed(results, DEFECTIVE, "ceiling")
    if not shares:
        return Missing(results.missing(LABELS))
    return bootstrap(shares, statistic=mean)


def _rates(results: Results) -> Estimate | Missing:
    if OPTIMIZER not in results.tournaments:
        return Missing(results.missing(OPTIMIZER))
    rate = f"{DEFAULT_RATE:g}"
    groups = [
        _elos(results, OPTIMIZER, results.where(OPTIMIZER, defect=each, rate=rate))
        for each in (RIGHT, DEFECTIVE)
    ]
    return difference_of_means(*groups)


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
        }
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
    if not {CLOSURE, f"{CLOSURE}-{CLOSED}"} <= results.tournaments.keys():
        yield Paragraph(f"Not finished: {results.missing(CLOSURE)}.")
        return
    groups: dict[str, dict[str, Sample]] = {f"loss {loss}": {} for loss in LOSSES}
    for key, name in ((CLOSURE, "own networks"), (f"{CLOSURE}-{CLOSED}", "the last run's network")):
        rated = results.tournaments[key].by_name
        for loss in LOSSES:
            ratings = [rated[run.planned.label] for run in results.where(CLOSURE, loss=loss)]
            groups[f"loss {loss}"][name] = rated_sample(ratings)
    yield Picture(
        CLOSURE,
        draw_bars(groups, "Elo of the runs of a loss, by whose network plays", "tournament Elo"),
        "With the last run's network, dots of a loss are one player under several names.",
    )
    yield elo_table(
        f"{CLOSURE}-elo", "Tournament Elo by whose network plays", groups, "loss", "networks"
    )


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
            defect: Sample([100 * share for share in _computed(results, defect, name)])
            for defect in (RIGHT, DEFECTIVE)
            if _computed(results, defect, name)
        }
        for name, title in titles.items()
    }
    if not all(groups.values()):
        yield Paragraph(f"Not finished: {results.missing(LABELS)}.")
        return
    yield Picture(
        LABELS,
        draw_bars(groups, "Predicting win, draw or loss", "held-out positions, %"),
        "A small network learns the outcomes of solved positions, with the labels as published or"
        " with right ones.",
    )
