"""Four loss functions on three games of two sizes [Wang2019], [Wang2020a, section 6.3]."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from zerolab.papers.planning import OPENINGS, WANG2019_SEEDS, planned_positions, wang2019_changes
from zerolab.studies.design import Design, PlannedRun, PlannedTournament, plan_run
from zerolab.studies.looks import FIRST_SEED
from zerolab.studies.study import Scale, Study, register_study

if TYPE_CHECKING:
    from zerolab.report.claims import Verdict
    from zerolab.report.document import Document
    from zerolab.studies.results import Results
    from zerolab.studies.study_folder import FinishedRun

TARGETS = {"policy": "l_p", "value": "l_v", "sum": "l_+", "product": "l_x"}
"""Symbol in the papers, by name of the minimised loss."""
GAMES = ("othello", "connect_four", "gobang")
SIZES = ("5x5", "6x6")
LAMBDA = "lambda"
"""Name of the weight grid's factor and tournaments."""
BALANCES = (0.25, 0.5, 0.75)
"""Values of lambda in the grid. 0 and 1 are the value loss and the policy loss alone."""

_GRID_SEEDS: Mapping[Scale, int] = {"smoke": 1, "mini": 3, "small": 4, "paper": 8}
"""Number of seeds, from the first, with the weight grid."""
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


@register_study
class LossFunctionsStudy(Study):
    """Compare four loss functions on three games of two sizes, by training Elo and by tournament.

    Train several runs per loss on Othello, Connect Four and Gobang, on 5x5 and 6x6 boards. Training
    minimises the policy loss, the value loss, their sum or their product, and logs all four. The
    report compares training Elo with Elo in tournaments between final networks. The paper
    bases its conclusions on the latter because training Elo is biased. The networks are also
    measured on solved positions. A further grid varies the relative weight of the two losses.

    Examples:
      zerolab study loss-functions
      zerolab study loss-functions --only gobang-6x6 --workers 2
      zerolab study loss-functions --scale small --status
    """

    name: ClassVar[str] = "loss-functions"

    measurement_version: ClassVar[int] = 1

    def seed_count(self, scale: Scale) -> int:
        return WANG2019_SEEDS[scale]

    def design(self, scale: Scale, seeds: Sequence[int]) -> Design:
        runs: list[PlannedRun] = []
        tournaments: list[PlannedTournament] = []
        for game in _GAMES[scale]:
            for size in SIZES:
                trained = [run for seed in seeds for run in _runs(scale, game, size, seed)]
                runs += [
                    *trained,
                    *(run for seed in seeds for run in _grid(scale, game, size, seed)),
                ]
                if scale == "paper":  # one tournament between all runs, as published
                    tournaments.append(_tournament(scale, game, size, trained))
                for seed in seeds:
                    block = list(_runs(scale, game, size, seed))
                    if scale != "paper":
                        tournaments.append(_tournament(scale, game, size, block, seed=seed))
                    if grid := list(_grid(scale, game, size, seed)):
                        ends = [run for run in block if run.factors["loss"] in ("policy", "value")]
                        tournaments.append(
                            _tournament(scale, game, size, [*ends, *grid], LAMBDA, seed=seed)
                        )
        solved = [
            planned_positions(f"{game}:{size}", _SOLVED[scale], f"{game}-{size}")
            for game in _GAMES[scale] for size in SIZES
        ]  # fmt: skip
        return Design(runs, tournaments, report_datasets=solved)

    def measure(self, run: FinishedRun) -> Mapping[str, Any]:
        from zerolab.papers.solved_accuracy import measure_final_accuracy

        return measure_final_accuracy(run)

    def verdicts(self, results: Results) -> list[Verdict]:
        from zerolab.papers.loss_functions.findings import loss_statistics

        return results.judge(loss_statistics)

    def document(self, results: Results) -> Document:
        from zerolab.papers.loss_functions.analysis import loss_report

        return loss_report(results)


def _runs(scale: Scale, game: str, size: str, seed: int) -> Iterator[PlannedRun]:
    for target in TARGETS:
        yield _run(scale, game, size, target, target, seed)


def _grid(scale: Scale, game: str, size: str, seed: int) -> Iterator[PlannedRun]:
    is_in_grid = seed < FIRST_SEED + _GRID_SEEDS[scale]
    if size != "6x6" or game not in _GRID_GAMES[scale] or not is_in_grid:
        return
    for balance in BALANCES:
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
        openings=OPENINGS[scale],
        name=name,
        seed=seed,
    )
