"""Bugs of published code, switched on and off: the effect of each on a published conclusion."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from zerolab.papers.loss_functions import study
from zerolab.papers.published_bugs.analysis import (
    CLOSED,
    CLOSURE,
    DEFAULT_RATE,
    DEFECTIVE,
    LABELS,
    LOSSES,
    OPTIMIZER,
    RATES,
    RIGHT,
    bug_report,
)
from zerolab.papers.published_bugs.findings import MIRROR, WINNER
from zerolab.papers.scales import OPENINGS
from zerolab.report.document import Document
from zerolab.studies.design import (
    Design,
    PlannedComputation,
    PlannedRun,
    PlannedTournament,
    planned_run,
)
from zerolab.studies.results import Results
from zerolab.studies.study import Scale, Study, register_study

_GAMES: Mapping[str, str] = {
    MIRROR: "connect_four:6x6",
    WINNER: "gobang:6x6",
    OPTIMIZER: "othello:6x6",
}
_SETTINGS: Mapping[str, str] = {
    MIRROR: "mirrored_policy",
    WINNER: "absolute_winner",
    OPTIMIZER: "fresh_optimizer",
}
"""The names of the bugs in the setting `published_bugs`."""
_LABELLED: Mapping[Scale, tuple[str, int, int]] = {
    "smoke": ("connect_four:4x4", 300, 1),
    "mini": ("connect_four:5x5", 4000, 10),
    "small": ("connect_four:5x6", 20_000, 20),
    "paper": ("connect_four:6x7", 1_000_000, 10),
}
"""Game, positions and epochs of the supervised set of [Clausen2021]."""
_LABEL_SEEDS: Mapping[Scale, int] = {"smoke": 1, "mini": 3, "small": 4, "paper": 1}


@register_study
class PublishedBugs(Study):
    """Switch five defects of published code on and off: what each would have done to a conclusion.

    Unmirrored policies in Connect Four, absolute winners in Gobang and an optimiser made anew in
    every iteration act in training; a tournament in which all runs of a family play with the last
    one's network, and labels that call losses draws, do so in what was measured.

    Examples:
      zerolab study defects
      zerolab study defects --only absolute-winner --workers 2
      zerolab study defects --scale small --status
    """

    name: ClassVar[str] = "defects"

    def design(self, scale: Scale) -> Design:
        """See `Study.design`."""
        mirror = list(_losses(scale, MIRROR))
        winner = list(_losses(scale, WINNER))
        optimizer = list(_rates(scale))
        closure, closed = _closure(scale)
        return Design(
            [*mirror, *winner, *optimizer, *closure],
            [
                _tournament(scale, MIRROR, {run.label: run for run in mirror}),
                _tournament(scale, WINNER, {run.label: run for run in winner}),
                _tournament(scale, OPTIMIZER, {run.label: run for run in optimizer}),
                _tournament(scale, CLOSURE, {run.label: run for run in closure}),
                _tournament(scale, CLOSURE, closed, CLOSED),
            ],
            list(_labels(scale)),
        )

    def document(self, results: Results) -> Document:
        """See `Study.document`."""
        return bug_report(results)


def _run(scale: Scale, part: str, defect: str, loss: str, seed: int, rate: float) -> PlannedRun:
    """Return a run; those without a defect are runs of the study of loss functions, too."""
    changes = {
        **study.changes(scale, "6x6"), "learn.loss": loss, "learn.learning_rate": rate
    }  # fmt: skip
    if defect == DEFECTIVE:
        changes["published_bugs"] = [_SETTINGS[part]]
    factors = {"defect": defect, "loss": loss, "rate": f"{rate:g}"}
    return planned_run(part, _GAMES[part], "wang2019", factors, changes, seed)


def _losses(scale: Scale, part: str) -> Iterator[PlannedRun]:
    for defect in (RIGHT, DEFECTIVE):
        for loss in LOSSES:
            for seed in range(study.SEEDS[scale]):
                yield _run(scale, part, defect, loss, seed, DEFAULT_RATE)


def _rates(scale: Scale) -> Iterator[PlannedRun]:
    """Yield runs of several learning rates; with the defect they would all be the same runs."""
    chosen = [(RIGHT, rate) for rate in RATES] + [(DEFECTIVE, DEFAULT_RATE)]
    for defect, rate in chosen:
        for seed in range(study.SEEDS[scale]):
            yield _run(scale, OPTIMIZER, defect, "sum", seed, rate)


def _closure(scale: Scale) -> tuple[list[PlannedRun], dict[str, PlannedRun]]:
    """Return the runs of the tournament, and who plays under their names with the defect."""
    runs = [
        planned_run(
            CLOSURE, _GAMES[MIRROR], "wang2019", {"loss": loss},
            {**study.changes(scale, "6x6"), "learn.loss": loss}, seed,
        )
        for loss in LOSSES
        for seed in range(study.SEEDS[scale])
    ]  # fmt: skip
    last = {run.factors["loss"]: run for run in runs}
    return runs, {run.label: last[run.factors["loss"]] for run in runs}


def _tournament(
    scale: Scale, part: str, entrants: Mapping[str, PlannedRun], name: str = ""
) -> PlannedTournament:
    game = _GAMES.get(part, _GAMES[MIRROR])
    games = 2 if scale == "smoke" else 20
    return PlannedTournament(part, game, entrants, games=games, openings=OPENINGS[scale], name=name)


def _labels(scale: Scale) -> Iterator[PlannedComputation]:
    game, positions, epochs = _LABELLED[scale]
    for defect in (RIGHT, DEFECTIVE):
        for seed in range(_LABEL_SEEDS[scale]):
            yield PlannedComputation(
                LABELS,
                f"{defect}/seed={seed}",
                "zerolab.papers.published_bugs.win_labels:learn_outcomes",
                {
                    "game": game, "positions": positions, "epochs": epochs,
                    "defect": defect == DEFECTIVE, "seed": seed,
                },
                seconds=0.008 * positions,
            )  # fmt: skip
