"""Report on loss functions: four losses while one is minimised, and two kinds of Elo."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from zerolab.papers.elo import GAME_TITLES, elo_sample, elo_table, training_elo_errors
from zerolab.papers.loss_functions.findings import PUBLISHED, loss_findings, part_title
from zerolab.papers.loss_functions.study import GAMES, LAMBDA, SIZES, TARGETS
from zerolab.report.claims import ClaimTable
from zerolab.report.document import Block, Document, Heading, Paragraph, Picture
from zerolab.report.figures import Sample
from zerolab.report.interval_plots import draw_bars
from zerolab.report.xy_plots import Curve, draw_curves
from zerolab.studies.claims import judge
from zerolab.studies.results import Results, TrainedRun, provenance
from zerolab.studies.statistics import sample_of_runs
from zerolab.studies.study import scale_caveats


def loss_report(results: Results) -> Document:
    """Return the report on the runs and tournaments that are finished."""
    subject = (
        "which loss is best for networks of another size or after longer training: a loss that"
        " learns slowly looks weak in short runs"
    )
    blocks: list[Block] = [
        Heading("Findings"),
        ClaimTable(judge(loss_findings(results))),
        *_tournaments(results),
        *_training_elo(results),
        *_losses(results),
        *_grid(results),
    ]
    return Document(
        "Four loss functions on three games of two sizes",
        scale_caveats(results.scale, len(results.levels("seed")), subject),
        blocks,
        provenance(results),
    )


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
        for part in results.design.parts
        if part in results.tournaments
    }
    if not groups:
        yield Paragraph(f"No tournament is finished: {results.missing()}.")
        return
    yield Picture(
        "tournament-elo",
        draw_bars(groups, "Elo of final networks by the loss that was minimised",
                  "tournament Elo above Random's", baseline=0.0),
        "A round robin of all final networks of a game and size and Random. As Fig. 11 of"
        " [Wang2020a], but above Random's: there the mean of all players is 0, and our runs are"
        " fewer. The error of Random's own rating, which shifts all runs of a game alike, is left"
        " out. Published means stand beside, above the published Random's; they come from larger"
        " networks and longer runs, and two bugs of the published code shaped them.",
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
        " network has 0. As Fig. 10 of [Wang2020a]. Every candidate meets only its predecessor, so"
        " the errors of all gates add up, as thin bars show. They show neither the bias of gates"
        " towards lucky candidates nor that of networks that learn to beat themselves.",
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
        "For comparison with the tournament Elo above, by which the paper judges.",
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
                " between runs. They cover all examples learned from, so they have no error of"
                " measuring. As Figs 7 to 9 of [Wang2020a].",
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
            " of the policy. One tournament per game.",
        )
        yield elo_table("lambda-elo", "Tournament Elo by weight", groups, "weight", "game")
