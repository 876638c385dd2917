"""Report on loss functions: four losses while one is minimised, and two kinds of Elo."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from zerolab.papers.elo import (
    GAME_TITLES,
    both_elos,
    elo_correlation,
    elo_difference,
    elo_sample,
    elo_table,
    gone,
    standard_error,
    training_elo_errors,
    unfinished,
)
from zerolab.papers.loss_functions.findings import (
    BIAS_CLAIM,
    LEARNING_CLAIM,
    POLICY_CLAIM,
    PUBLISHED,
    VALUE_CLAIMS,
    part_title,
)
from zerolab.report.claims import Claim, ClaimTable
from zerolab.report.document import Block, Document, Heading, Paragraph, Picture
from zerolab.report.figures import Sample
from zerolab.report.interval_plots import draw_bars
from zerolab.report.xy_plots import Curve, draw_curves
from zerolab.studies.claims import Missing, judge
from zerolab.studies.joint_estimates import smallest
from zerolab.studies.results import Results, TrainedRun, provenance
from zerolab.studies.statistics import (
    Estimate,
    StudentEstimate,
    mean_of,
    sample_of_runs,
    weighted_sum,
)
from zerolab.studies.study import scale_caveats

TARGETS = {"policy": "l_p", "value": "l_v", "sum": "l_+", "product": "l_x"}
"""The losses that are minimised, and what the papers call them."""
GAMES = ("othello", "connect_four", "gobang")
SIZES = ("5x5", "6x6")
LAMBDA = "lambda"
"""The name of the tournaments of the grid of weights, and of its factor."""


def loss_report(results: Results) -> Document:
    """Return the report on whatever is finished."""
    seeds = len(results.levels("seed"))
    what = (
        "which loss is best for networks of another size or after longer training: a loss that"
        " learns slowly looks weak in short runs"
    )
    blocks: list[Block] = [
        Heading("Findings"),
        ClaimTable(judge(_found(results))),
        *_tournaments(results),
        *_training_elo(results),
        *_losses(results),
        *_grid(results),
    ]
    return Document(
        "Four loss functions on three games of two sizes",
        scale_caveats(results.scale, seeds, what),
        blocks, provenance(results),
    )  # fmt: skip


def _parts(results: Results) -> list[str]:
    """Return the parts whose tournament is finished."""
    return [part for part in results.design.parts if part in results.tournaments]


def _found(results: Results) -> dict[Claim, Estimate | Missing]:
    """Return the statistic of every claim."""
    found: dict[Claim, Estimate | Missing] = {
        claim: elo_difference(results, part, "loss", "value", "sum")
        for part, claim in VALUE_CLAIMS.items()
    }
    found[POLICY_CLAIM] = elo_difference(results, "gobang-6x6", "loss", "policy", "sum")
    found[LEARNING_CLAIM] = _weakest(results)
    found[BIAS_CLAIM] = _correlation(results)
    return found


def _weakest(results: Results) -> Estimate | Missing:
    """Return the Elo above Random's of the weakest combination, which was not known beforehand.

    The error of Random's own rating is one more source of error for each of them. Its correlation
    with those of the runs is left out: it is that of any two of the dozens of ratings whose sum is
    0.
    """
    parts = list(results.design.parts)
    if missing := unfinished(results, parts):
        return missing
    above = []
    for part in parts:
        played = results.tournaments[part]
        lowest = played.by_name["random"]
        known = StudentEstimate(lowest.elo, standard_error(lowest), math.inf)
        for target in TARGETS:
            elos = elo_sample(played, results.where(part, loss=target)).values
            if not elos:
                return gone(results, part)
            above.append(weighted_sum([(1.0, mean_of(elos)), (-1.0, known)]))
    return smallest(above)


def _correlation(results: Results) -> Estimate | Missing:
    """Return how both kinds of Elo correlate, from all runs of all parts."""
    parts = list(results.design.parts)
    if missing := unfinished(results, parts):
        return missing
    groups = []
    for part in parts:
        runs = [run for target in TARGETS for run in results.where(part, loss=target)]
        if not runs:
            return gone(results, part)
        groups.append(both_elos(results.tournaments[part], runs))
    return elo_correlation(groups)


def _above_random(
    results: Results, part: str, target: str, published: Sequence[float] | None
) -> Sample:
    """Return the Elo of runs above Random's; `published` are all means of the game and size."""
    played = results.tournaments[part]
    lowest = played.by_name["random"].elo
    found = elo_sample(played, results.where(part, loss=target))
    known = published[list(TARGETS).index(target)] - published[-1] if published else None
    return sample_of_runs([elo - lowest for elo in found.values], found.errors, known)


def _tournaments(results: Results) -> Iterator[Block]:
    yield Heading("Tournament Elo")
    groups: dict[str, dict[str, Sample]] = {
        part_title(part): {
            symbol: _above_random(results, part, target, PUBLISHED.get(part))
            for target, symbol in TARGETS.items()
        }
        for part in _parts(results)
    }
    if not groups:
        yield Paragraph(f"No tournament is finished: {results.missing()}.")
        return
    yield Picture(
        "tournament-elo",
        draw_bars(groups, "Elo of final networks by the loss that was minimised",
                  "tournament Elo above Random's", baseline=0.0),
        "All final networks of a game and size and Random play each other. As Fig. 11 of"
        " [Wang2020a], but above Random's: the mean of all players is 0 there, and our runs are"
        " fewer. The error of Random's own rating, which shifts all runs of a game alike, is left"
        " out. Published means are drawn beside, as far above the published Random's; they are of"
        " larger networks and longer runs, and two defects of the published code shaped them.",
    )  # fmt: skip
    yield elo_table("elo", "Tournament Elo above Random's by loss", groups, "game", "loss")


def _training_elo(results: Results) -> Iterator[Block]:
    trained = {
        part_title(part): {
            symbol: runs
            for target, symbol in TARGETS.items()
            if (runs := results.where(part, loss=target))
        }
        for part in results.design.parts
    }
    panels = {
        title: {symbol: _training_curve(runs) for symbol, runs in each.items()}
        for title, each in trained.items()
        if each
    }
    if not panels:
        return
    yield Heading("Training Elo")
    yield Picture(
        "training-elo",
        draw_curves(panels, "Training Elo by the loss that is minimised", "iteration",
                    "training Elo", columns=2),
        "Elo of the best network after every iteration, from the games of the gates; the untrained"
        " network has 0. As Fig. 10 of [Wang2020a]. Every candidate meets its predecessor alone, so"
        " the errors of all gates add up, as thin bars show. They do not show that gates accept"
        " candidates which were lucky in them, nor that networks which beat themselves gain most.",
    )  # fmt: skip
    groups = {
        title: {
            symbol: sample_of_runs(
                [run.training_elo[-1] for run in runs],
                [training_elo_errors(run)[-1] for run in runs],
            )
            for symbol, runs in each.items()
        }
        for title, each in trained.items()
        if each
    }
    yield Picture(
        "training-elo-final",
        draw_bars(groups, "Training Elo after the last iteration", "training Elo"),
        "To be compared with tournament Elo above, by which the paper judges.",
    )


def _training_curve(runs: Sequence[TrainedRun]) -> Curve:
    return _curve([run.training_elo for run in runs], [training_elo_errors(run) for run in runs])


def _curve(runs: Sequence[Sequence[float]], errors: Sequence[Sequence[float]] = ()) -> Curve:
    longest = max(map(len, runs))
    padded, padded_errors = (
        [[*each, *[float("nan")] * (longest - len(each))] for each in rows]
        for rows in (runs, errors)
    )
    return Curve(range(1, longest + 1), padded, padded_errors)


def _losses(results: Results) -> Iterator[Block]:
    yield Heading("All losses while one is minimised")
    for game in GAMES:
        panels = {
            f"{symbol} minimised, {size}": {
                name: _curve([[losses[loss] for losses in run.final_losses] for run in runs])
                for loss, name in TARGETS.items()
            }
            for size in SIZES
            for target, symbol in TARGETS.items()
            if (runs := results.where(f"{game}-{size}", loss=target))
        }
        if panels:
            yield Picture(
                f"losses-{game.replace('_', '-')}",
                draw_curves(
                    panels, f"Losses of {GAME_TITLES[game]}", "iteration", "loss", columns=4
                ),
                "Means over the last epoch of every iteration; the band is one standard deviation"
                " between runs. They are those of all examples that were learned from, so there is"
                " no error of measuring them. As Figs 7 to 9 of [Wang2020a].",
            )


def _grid(results: Results) -> Iterator[Block]:
    groups: dict[str, dict[str, Sample]] = {}
    for part in results.design.parts:
        played = results.tournaments.get(f"{part}-{LAMBDA}")
        if played is None:
            continue
        weights = [str(level).partition("=")[2] for level in results.levels("loss", part)]
        levels = {"0": "value", "1": "policy"} | {
            weight: f"{LAMBDA}={weight}" for weight in weights if weight
        }
        for weight, level in sorted(levels.items(), key=lambda each: float(each[0])):
            sample = elo_sample(played, results.where(part, loss=level))
            groups.setdefault(f"{LAMBDA} = {weight}", {})[part_title(part)] = sample
    if groups:
        yield Heading("Weights between policy and value")
        yield Picture(
            "lambda",
            draw_bars(groups, "Elo by the weight of the policy's loss", "tournament Elo"),
            "l = lambda l_p + (1 - lambda) l_v [Wang2019]: 0 is the loss of the value alone, 1 that"
            " of the policy. A tournament of its own per game.",
        )
        yield elo_table("lambda-elo", "Tournament Elo by weight", groups, "weight", "game")
