"""Four loss functions on three games of two sizes [Wang2019], [Wang2020a, section 6.3].

The functions that measure a run's losses and training Elo are at the end of the module.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar

from zerolab.papers.planning import (
    OPENING_PLIES,
    WANG2019_SEED_COUNTS,
    planned_dataset,
    wang2019_changes,
)
from zerolab.studies.design import Design, PlannedRun, PlannedTournament, plan_run
from zerolab.studies.looks import FIRST_SEED
from zerolab.studies.study import Scale, Study, register_study
from zerolab.training.records import GateRecord, LearnRecord

if TYPE_CHECKING:
    from zerolab.report.claims import Verdict
    from zerolab.report.document import Document
    from zerolab.studies.finished_work import TrainedRun
    from zerolab.studies.results import Results
    from zerolab.studies.study_folder import FinishedRun

LOSS_SYMBOLS = {"policy": "l_p", "value": "l_v", "sum": "l_+", "product": "l_x"}
"""Symbol in the papers, by name of the minimised loss."""
GAMES = ("othello", "connect_four", "gobang")
SIZES = ("5x5", "6x6")
LAMBDA = "lambda"
"""Name of the weight in the grid's levels of the ``loss`` factor, and of the grid's tournaments."""
LAMBDA_VALUES = (0.25, 0.5, 0.75)
"""Values of lambda in the grid. 0 and 1 are the value loss and the policy loss alone."""

_GRID_SEEDS: Mapping[Scale, int] = {"smoke": 1, "mini": 3, "small": 4, "paper": 8}
"""Number of seeds, counted from the first, for which the weight grid is trained."""
_GAMES: Mapping[Scale, tuple[str, ...]] = {
    "smoke": ("connect_four",),
    "mini": GAMES,
    "small": GAMES,
    "paper": GAMES,
}
_GAMES_PER_PAIR: Mapping[Scale, int] = {"smoke": 2, "mini": 40, "small": 40, "paper": 20}
_SOLVED: Mapping[Scale, int] = {"smoke": 10, "mini": 2000, "small": 2000, "paper": 2000}
"""Number of solved positions per board on which final networks are measured."""
_GRID_GAMES: Mapping[Scale, tuple[str, ...]] = {
    "smoke": ("connect_four",),
    "mini": ("connect_four", "gobang"),
    "small": GAMES,
    "paper": GAMES,
}
PUBLISHED_LOSSES: Mapping[tuple[str, str], Mapping[str, float]] = {
    ("othello-5x5", "policy"): {"policy": 0.6, "value": 1.0},
    ("othello-5x5", "value"): {"value": 0.2},
    ("othello-5x5", "sum"): {"policy": 0.5},
    ("othello-5x5", "product"): {"policy": 0.5},
    ("othello-6x6", "policy"): {"policy": 0.75},
    ("othello-6x6", "value"): {"value": 0.25},
    ("othello-6x6", "sum"): {"policy": 0.4, "value": 0.2},
    ("connect_four-5x5", "policy"): {"policy": 0.6, "value": 0.2},
    ("connect_four-5x5", "value"): {"policy": 1.6, "value": 0.15},
    ("gobang-5x5", "policy"): {"policy": 1.25, "value": 0.5},
}
"""Published final losses that are not about 0, by board and minimised loss."""


@register_study
class LossFunctionsStudy(Study):
    """Compare four loss functions on three games of two sizes, by training Elo and by tournament.

    Train several runs per loss on Othello, Connect Four and Gobang, on 5x5 and 6x6 boards. Training
    minimises the policy loss, the value loss, their sum or their product, and logs all four. The
    report compares training Elo with Elo in tournaments between final networks. The paper bases its
    conclusions on tournament Elo because training Elo is biased. The networks are also measured on
    solved positions. A further grid varies the relative weight of the policy and value losses.

    Examples:
      zerolab study loss-functions
      zerolab study loss-functions --only gobang-6x6 --workers 2
      zerolab study loss-functions --scale small --status
    """

    name: ClassVar[str] = "loss-functions"

    measurement_version: ClassVar[int] = 1

    def seed_count(self, scale: Scale) -> int:
        return WANG2019_SEED_COUNTS[scale]

    def design(self, scale: Scale, seeds: Sequence[int]) -> Design:
        runs: list[PlannedRun] = []
        tournaments: list[PlannedTournament] = []
        for game in _GAMES[scale]:
            for size in SIZES:
                blocks = [list(_runs(scale, game, size, seed)) for seed in seeds]
                grids = [list(_grid(scale, game, size, seed)) for seed in seeds]
                trained = list(chain.from_iterable(blocks))
                runs += [*trained, *chain.from_iterable(grids)]
                if scale == "paper":  # one tournament between all runs, as published
                    tournaments.append(_tournament(scale, game, size, trained))
                for seed, block, grid in zip(seeds, blocks, grids, strict=True):
                    if scale != "paper":
                        tournaments.append(_tournament(scale, game, size, block, seed=seed))
                    if grid:
                        ends = [run for run in block if run.factors["loss"] in ("policy", "value")]
                        tournaments.append(
                            _tournament(scale, game, size, [*ends, *grid], LAMBDA, seed=seed)
                        )
        solved = [
            planned_dataset(f"{game}:{size}", _SOLVED[scale], f"{game}-{size}")
            for game in _GAMES[scale] for size in SIZES
        ]  # fmt: skip
        return Design(runs, tournaments, report_datasets=solved)

    def measure_run(self, run: FinishedRun) -> Mapping[str, Any]:
        from zerolab.papers.solved_accuracy import measure_final_accuracy

        return measure_final_accuracy(run)

    def verdicts(self, results: Results) -> list[Verdict]:
        from zerolab.papers.loss_functions.findings import loss_statistics

        return results.judge(loss_statistics)

    def report(self, results: Results) -> Document:
        from zerolab.papers.loss_functions.analysis import loss_report

        return loss_report(results)


def _runs(scale: Scale, game: str, size: str, seed: int) -> Iterator[PlannedRun]:
    for target in LOSS_SYMBOLS:
        yield _run(scale, game, size, target, target, seed)


def _grid(scale: Scale, game: str, size: str, seed: int) -> Iterator[PlannedRun]:
    is_in_grid = seed < FIRST_SEED + _GRID_SEEDS[scale]
    if size != "6x6" or game not in _GRID_GAMES[scale] or not is_in_grid:
        return
    for balance in LAMBDA_VALUES:
        loss = {"name": "weighted", "balance": balance}
        yield _run(scale, game, size, f"{LAMBDA}={balance}", loss, seed)


def _run(scale: Scale, game: str, size: str, name: str, loss: Any, seed: int) -> PlannedRun:
    changed = {**wang2019_changes(scale, game, size), "learn.loss": loss}
    return plan_run(f"{game}-{size}", f"{game}:{size}", "wang2019", {"loss": name}, changed, seed)


def _tournament(
    scale: Scale,
    game: str,
    size: str,
    runs: Sequence[PlannedRun],
    name: str = "",
    *,
    seed: int | None = None,
) -> PlannedTournament:
    return PlannedTournament(
        f"{game}-{size}",
        f"{game}:{size}",
        {run.label: run for run in runs},
        games_per_pair=_GAMES_PER_PAIR[scale],
        opening_plies=OPENING_PLIES[scale],
        name=name,
        seed=seed,
    )


def final_loss(name: str, run: TrainedRun) -> float:
    """Return a loss at the end of training."""
    return run.last_epoch_losses[-1][name]


def loss_decrease(name: str, run: TrainedRun, share: float = 1.0) -> float:
    """Return the decrease in a loss over the first `share` of the iterations."""
    losses = run.last_epoch_losses
    return losses[0][name] - losses[round(share * (len(losses) - 1))][name]


def late_loss_decrease(name: str, share: float, run: TrainedRun) -> float:
    """Return the decrease in a loss after the first `share` of the iterations."""
    return loss_decrease(name, run) - loss_decrease(name, run, share)


def smaller_loss_decrease(run: TrainedRun) -> float:
    """Return the decrease in the policy loss or in the value loss, whichever is smaller."""
    return min(loss_decrease("policy", run), loss_decrease("value", run))


def value_loss_decrease_lead(run: TrainedRun) -> float:
    """Return the decrease in the value loss in the first quarter minus that in the policy loss."""
    return loss_decrease("value", run, 0.25) - loss_decrease("policy", run, 0.25)


def value_loss_early_decrease_excess(run: TrainedRun) -> float:
    """Return the decrease in the value loss in the first quarter minus that afterwards."""
    return loss_decrease("value", run, 0.25) - late_loss_decrease("value", 0.25, run)


def value_loss_hump(run: TrainedRun) -> float:
    """Return the mean value loss in the middle half minus the mean of its first and last value."""
    values = [losses["value"] for losses in run.last_epoch_losses]
    quarter = len(values) // 4
    return fmean(values[quarter : len(values) - quarter]) - (values[0] + values[-1]) / 2


def loss_elo_correlation(run: TrainedRun) -> float:
    """Return the rank correlation of the minimised loss and candidates' Elo over iterations."""
    import numpy as np

    from zerolab.papers.elo import rank_correlations

    target = str(run.factors["loss"])
    elos = {gate.iteration: gate.candidate_elo for gate in run.records_of(GateRecord)}
    pairs = [
        (record.loss[target], elos[record.iteration])
        for record in run.records_of(LearnRecord)
        if elos.get(record.iteration) is not None
    ]
    return float(rank_correlations(np.array([pairs]))[0])


def minimised_loss_margin(run: TrainedRun) -> float:
    """Return the lowest other final loss minus the minimised one."""
    return loss_margin(str(run.factors["loss"]), run)


def loss_margin(name: str, run: TrainedRun) -> float:
    """Return the lowest of the other final losses minus the final loss called `name`."""
    losses = run.last_epoch_losses[-1]
    return min(losses[each] for each in LOSS_SYMBOLS if each != name) - losses[name]


def last_training_elo(run: TrainedRun) -> float:
    """Return the training Elo of the best network at the end of training."""
    return run.training_elos[-1]


def candidate_elos(run: TrainedRun) -> list[float]:
    """Return the training Elo of every candidate, including rejected ones.

    Unlike the best network's Elo, the candidates' Elo can fall.
    """
    gates = [gate for gate in run.records_of(GateRecord) if gate.candidate_elo is not None]
    return [gate.candidate_elo for gate in gates]


def training_elo_change(run: TrainedRun) -> float:
    """Return the candidates' mean training Elo in the last quarter minus that in the first."""
    elos = candidate_elos(run)
    quarter = max(1, len(elos) // 4)
    return fmean(elos[-quarter:]) - fmean(elos[:quarter])


def late_training_elo_change(run: TrainedRun) -> float:
    """Return the candidates' mean training Elo in the last quarter minus that in the second."""
    elos = candidate_elos(run)
    quarter = max(1, len(elos) // 4)
    return fmean(elos[-quarter:]) - fmean(elos[quarter : 2 * quarter] or elos[:1])
