"""Effects of bugs in published code on published conclusions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from zerolab.papers.planning import OPENING_PLIES, wang2019_changes
from zerolab.studies.design import (
    Design,
    PlannedComputation,
    PlannedRun,
    PlannedTournament,
    plan_run,
)
from zerolab.studies.study import Scale, Study, register_study

if TYPE_CHECKING:
    from zerolab.report.claims import Verdict
    from zerolab.report.document import Document
    from zerolab.studies.results import Results

MIRRORED_POLICY_PART = "mirrored-policy"
ABSOLUTE_WINNER_PART = "absolute-winner"
FRESH_OPTIMIZER_PART = "fresh-optimizer"
TOURNAMENT_CLOSURE_PART = "tournament-closure"
WIN_LABELS_PART = "win-labels"
"""Parts of the study, one per bug."""
RIGHT, DEFECTIVE = "right", "defective"
"""Levels of the ``code`` factor: without and with the bug."""
SHARED_NETWORK_TOURNAMENT = "closed"
"""Name of the tournament in which all runs of a loss share the last run's network."""
LOSSES = ("policy", "value", "sum")
LEARNING_RATES = (0.001, 0.005, 0.01)
PUBLISHED_LEARNING_RATE = 0.005
"""Published learning rate, which the defective code replaces with 0.001."""

_GAMES: Mapping[str, str] = {
    MIRRORED_POLICY_PART: "connect_four:6x6",
    ABSOLUTE_WINNER_PART: "gobang:6x6",
    FRESH_OPTIMIZER_PART: "othello:6x6",
}
_SMOKE_GAMES: Mapping[str, str] = {
    **_GAMES,
    ABSOLUTE_WINNER_PART: "gobang:4x4:3",
    FRESH_OPTIMIZER_PART: "othello:4x4",
}
_SETTINGS: Mapping[str, str] = {
    MIRRORED_POLICY_PART: "mirrored_policy",
    ABSOLUTE_WINNER_PART: "absolute_winner",
    FRESH_OPTIMIZER_PART: "fresh_optimizer",
}
"""Value of the setting ``published_bugs``, by part."""
_LABELLED: Mapping[Scale, tuple[str, int, int]] = {
    "smoke": ("connect_four:4x4", 100, 1),
    "mini": ("connect_four:5x5", 4000, 10),
    "small": ("connect_four:5x6", 20_000, 20),
    "paper": ("connect_four:6x7", 1_000_000, 10),
}
"""Game, number of positions and epochs of supervised learning, as in [Clausen2021]."""
_SEEDS: Mapping[Scale, int] = {"smoke": 1, "mini": 10, "small": 6, "paper": 8}
_LABEL_SEEDS: Mapping[Scale, int] = {"smoke": 1, "mini": 3, "small": 4, "paper": 1}


@register_study
class PublishedBugsStudy(Study):
    """Switch five bugs of published code on and off and measure their effect on conclusions.

    Three bugs affect training: unmirrored policies in Connect Four, absolute winners in Gobang, and
    an optimizer re-created in every iteration. Two affect measurement: a tournament in which all
    runs of a loss play with the last run's network, and labels that turn losses into draws.

    Examples:
      zerolab study published-bugs
      zerolab study published-bugs --only absolute-winner --workers 2
      zerolab study published-bugs --scale small --status
    """

    name: ClassVar[str] = "published-bugs"

    def seed_count(self, scale: Scale) -> int:
        return _SEEDS[scale]

    def design(self, scale: Scale, seeds: Sequence[int]) -> Design:
        mirror = [run for seed in seeds for run in _losses(scale, MIRRORED_POLICY_PART, seed)]
        winner = [run for seed in seeds for run in _losses(scale, ABSOLUTE_WINNER_PART, seed)]
        optimizer = [run for seed in seeds for run in _rates(scale, seed)]
        closure, closed = _closure(scale, seeds)
        return Design(
            [*mirror, *winner, *optimizer, *closure],
            [
                *_tournaments(scale, MIRRORED_POLICY_PART, mirror),
                *_tournaments(scale, ABSOLUTE_WINNER_PART, winner),
                *_tournaments(scale, FRESH_OPTIMIZER_PART, optimizer),
                _tournament(scale, TOURNAMENT_CLOSURE_PART, {run.label: run for run in closure}),
                _tournament(scale, TOURNAMENT_CLOSURE_PART, closed, SHARED_NETWORK_TOURNAMENT),
            ],
            list(_labels(scale)),
        )

    def verdicts(self, results: Results) -> list[Verdict]:
        from zerolab.papers.published_bugs.analysis import bug_statistics

        return results.judge(bug_statistics)

    def report(self, results: Results) -> Document:
        from zerolab.papers.published_bugs.analysis import bug_report

        return bug_report(results)


def _game(scale: Scale, part: str) -> str:
    """Return a part's game; TOURNAMENT_CLOSURE_PART has the game of MIRRORED_POLICY_PART."""
    games = _SMOKE_GAMES if scale == "smoke" else _GAMES
    return games.get(part, games[MIRRORED_POLICY_PART])


def _run(scale: Scale, part: str, code: str, loss: str, seed: int, rate: float) -> PlannedRun:
    """Plan a run.

    Without the bug and at `PUBLISHED_LEARNING_RATE`, the run is shared with ``loss-functions``.
    """
    game = _GAMES[part].partition(":")[0]
    changes = {
        **wang2019_changes(scale, game, "6x6"), "learn.loss": loss, "learn.learning_rate": rate,
    }  # fmt: skip
    if code == DEFECTIVE:
        changes["published_bugs"] = [_SETTINGS[part]]
    factors = {"code": code, "loss": loss, "rate": f"{rate:g}"}
    return plan_run(part, _game(scale, part), "wang2019", factors, changes, seed)


def _losses(scale: Scale, part: str, seed: int) -> Iterator[PlannedRun]:
    for code in (RIGHT, DEFECTIVE):
        for loss in LOSSES:
            yield _run(scale, part, code, loss, seed, PUBLISHED_LEARNING_RATE)


def _rates(scale: Scale, seed: int) -> Iterator[PlannedRun]:
    """Yield a run per learning rate; with the bug, only one run, as all rates are equivalent."""
    for code, rate in [
        *((RIGHT, rate) for rate in LEARNING_RATES),
        (DEFECTIVE, PUBLISHED_LEARNING_RATE),
    ]:
        yield _run(scale, FRESH_OPTIMIZER_PART, code, "sum", seed, rate)


def _closure(scale: Scale, seeds: Sequence[int]) -> tuple[list[PlannedRun], dict[str, PlannedRun]]:
    """Plan the runs of the tournament, and the run that plays under each label with the bug."""
    runs = [
        plan_run(
            TOURNAMENT_CLOSURE_PART, _game(scale, TOURNAMENT_CLOSURE_PART), "wang2019",
            {"loss": loss},
            {**wang2019_changes(scale, "connect_four", "6x6"), "learn.loss": loss}, seed,
        )
        for loss in LOSSES
        for seed in seeds
    ]  # fmt: skip
    last = {run.factors["loss"]: run for run in runs}
    return runs, {run.label: last[run.factors["loss"]] for run in runs}


def _tournaments(
    scale: Scale, part: str, runs: Sequence[PlannedRun]
) -> Iterator[PlannedTournament]:
    """Yield a tournament per seed."""
    for seed in dict.fromkeys(int(run.factors["seed"]) for run in runs):
        block = {run.label: run for run in runs if run.factors["seed"] == seed}
        yield replace(_tournament(scale, part, block), seed=seed)


def _tournament(
    scale: Scale, part: str, run_by_player: Mapping[str, PlannedRun], name: str = ""
) -> PlannedTournament:
    games = 2 if scale == "smoke" else 20
    return PlannedTournament(
        part, _game(scale, part), run_by_player,
        games_per_pair=games, opening_plies=OPENING_PLIES[scale], name=name,
    )  # fmt: skip


def _labels(scale: Scale) -> Iterator[PlannedComputation]:
    game, positions, epochs = _LABELLED[scale]
    for code in (RIGHT, DEFECTIVE):
        for seed in range(_LABEL_SEEDS[scale]):
            yield PlannedComputation(
                WIN_LABELS_PART,
                f"{code}/seed={seed}",
                "zerolab.papers.published_bugs.win_labels:learn_outcomes",
                {
                    "game": game, "positions": positions, "epochs": epochs,
                    "bug": code == DEFECTIVE, "seed": seed,
                },
                estimated_seconds=0.008 * positions,
            )  # fmt: skip
