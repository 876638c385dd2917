"""Four loss functions on three games of two sizes [Wang2019], [Wang2020a, section 6.3]."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar

from zerolab.papers.scales import OPENINGS, WANG2019_SEEDS, wang2019_changes
from zerolab.studies.design import Design, PlannedRun, PlannedTournament, plan_run
from zerolab.studies.study import Scale, Study, register_study

if TYPE_CHECKING:
    from zerolab.report.document import Document
    from zerolab.studies.results import Results

TARGETS = {"policy": "l_p", "value": "l_v", "sum": "l_+", "product": "l_x"}
"""Symbol in the papers, by name of the minimised loss."""
GAMES = ("othello", "connect_four", "gobang")
SIZES = ("5x5", "6x6")
LAMBDA = "lambda"
"""Name of the weight grid's factor and tournaments."""
BALANCES = (0.25, 0.5, 0.75)
"""Values of lambda in the grid. 0 and 1 are the value loss and the policy loss alone."""

_GRID_SEEDS: Mapping[Scale, int] = {"smoke": 1, "mini": 2, "small": 4, "paper": 8}
_GAMES: Mapping[Scale, tuple[str, ...]] = {
    "smoke": ("connect_four",),
    "mini": GAMES,
    "small": GAMES,
    "paper": GAMES,
}
_GAMES_PER_PAIR: Mapping[Scale, int] = {"smoke": 2, "mini": 20, "small": 20, "paper": 20}
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
    report compares training Elo with Elo in a tournament between all final networks. The paper
    bases its conclusions on the latter because training Elo is biased. A further grid varies the
    relative weight of the two losses.

    Examples:
      zerolab study loss-functions
      zerolab study loss-functions --only gobang-6x6 --workers 2
      zerolab study loss-functions --scale small --status
    """

    name: ClassVar[str] = "loss-functions"

    def design(self, scale: Scale) -> Design:
        runs, tournaments = [], []
        for game in _GAMES[scale]:
            for size in SIZES:
                part = f"{game}-{size}"
                trained = list(_runs(scale, part, game, size))
                grid = list(_grid(scale, part, game, size))
                runs += [*trained, *grid]
                tournaments.append(_tournament(scale, part, f"{game}:{size}", trained))
                if grid:
                    ends = trained[: 2 * WANG2019_SEEDS[scale]]  # policy and value
                    tournaments.append(
                        _tournament(scale, part, f"{game}:{size}", [*ends, *grid], LAMBDA)
                    )
        return Design(runs, tournaments)

    def document(self, results: Results) -> Document:
        from zerolab.papers.loss_functions.analysis import loss_report

        return loss_report(results)


def _runs(scale: Scale, part: str, game: str, size: str) -> Iterator[PlannedRun]:
    for target in TARGETS:
        for seed in range(WANG2019_SEEDS[scale]):
            changed = {**wang2019_changes(scale, size), "learn.loss": target}
            yield plan_run(part, f"{game}:{size}", "wang2019", {"loss": target}, changed, seed)


def _grid(scale: Scale, part: str, game: str, size: str) -> Iterator[PlannedRun]:
    if size != "6x6" or game not in _GRID_GAMES[scale]:
        return
    for balance in BALANCES:
        for seed in range(_GRID_SEEDS[scale]):
            loss = {"name": "weighted", "balance": balance}
            changed = {**wang2019_changes(scale, size), "learn.loss": loss}
            factors = {"loss": f"{LAMBDA}={balance}"}
            yield plan_run(part, f"{game}:{size}", "wang2019", factors, changed, seed)


def _tournament(
    scale: Scale, part: str, game: str, runs: list[PlannedRun], name: str = ""
) -> PlannedTournament:
    run_by_player = {run.label: run for run in runs}
    return PlannedTournament(
        part,
        game,
        run_by_player,
        games_per_pair=_GAMES_PER_PAIR[scale],
        openings=OPENINGS[scale],
        name=name,
    )
