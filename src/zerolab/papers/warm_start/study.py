"""Warm starts [Wang2020b, section 5.5]; players without a network [Wang2021b, Table 5.1]."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from zerolab.papers.scales import CHANGES, OPENINGS
from zerolab.papers.warm_start.analysis import (
    BY_ITERATION,
    GAMES,
    SWITCH,
    UNTIL,
    WRORA,
    warm_start_report,
)
from zerolab.papers.warm_start.findings import ADAPTIVE, BASELINE, VARIANTS
from zerolab.papers.warm_start.table_5_1 import (
    BOARDS,
    PLAYERS,
    PUBLISHED_GAMES,
    PUBLISHED_PLAYOUTS,
    table_5_1_report,
)
from zerolab.report.document import Document
from zerolab.studies.design import Design, PlannedRun, PlannedTournament, planned_run
from zerolab.studies.results import Results
from zerolab.studies.study import Scale, Study, register_study

_GAMES: Mapping[Scale, tuple[str, ...]] = {
    "smoke": ("othello",),
    "mini": GAMES,
    "small": GAMES,
    "paper": GAMES,
}
_SEEDS: Mapping[Scale, int] = {"smoke": 1, "mini": 3, "small": 5, "paper": 8}
_ITERATIONS: Mapping[Scale, int] = {"smoke": 2, "mini": 10, "small": 20, "paper": 100}
_SWITCH: Mapping[Scale, int] = {"smoke": 1, "mini": 3, "small": 5, "paper": 5}
"""I', after which the warm start is over."""
_STAGES: Mapping[Scale, tuple[int, ...]] = {
    "smoke": (1, 2),
    "mini": (3, 6, 10),
    "small": (5, 10, 20),
    "paper": (5, 20, 100),
}
"""Iterations after which baseline and WRoRa are compared."""
_SWITCHES: Mapping[Scale, tuple[int, ...]] = {
    "smoke": (2,),
    "mini": (1, 5, 8),
    "small": (1, 10),
    "paper": (1, 2, 10, 20, 50),
}
"""Others of a grid, for WRoRa."""
_GRID_SEEDS: Mapping[Scale, int] = {"smoke": 1, "mini": 2, "small": 4, "paper": 8}


@register_study
class WarmStart(Study):
    """Compare warm starts of self-play with the baseline on three games, by tournament.

    Gobang, Connect Four and Othello on 6x6: baseline, Rollout, RAVE, RoRa, WRo and WRoRa, several
    runs each, and WRoRa with an adaptive end. All final networks and Random play a tournament. A
    grid of iterations in which WRoRa ends follows.

    Examples:
      zerolab study warm-start
      zerolab study warm-start --only gobang --workers 2
      zerolab study warm-start --scale paper --status
    """

    name: ClassVar[str] = "warm-start"

    def design(self, scale: Scale) -> Design:
        """See `Study.design`."""
        runs, tournaments = [], []
        for game in _GAMES[scale]:
            published, others = list(_variants(scale, game)), list(_switches(scale, game))
            known = [run for run in published if run.factors["variant"] in (BASELINE, WRORA)]
            runs += [*published, *others]
            tournaments += [
                _tournament(scale, game, "", published),
                _tournament(scale, game, SWITCH, [*known, *others]),
                _by_iteration(scale, game, known),
            ]
        return Design(runs, tournaments)

    def document(self, results: Results) -> Document:
        """See `Study.document`."""
        return warm_start_report(results)


def _tournament(
    scale: Scale, game: str, name: str, runs: Sequence[PlannedRun]
) -> PlannedTournament:
    return PlannedTournament(
        game,
        f"{game}:6x6",
        {run.label: run for run in runs},
        games=2 if scale == "smoke" else 20,
        openings=OPENINGS[scale],
        name=name,
    )


def _by_iteration(scale: Scale, game: str, runs: Sequence[PlannedRun]) -> PlannedTournament:
    """Return the tournament between networks of baseline and WRoRa after some iterations."""
    taken = {f"{run.label}@{each}": (run, each) for run in runs for each in _STAGES[scale]}
    return PlannedTournament(
        game,
        f"{game}:6x6",
        {name: run for name, (run, _) in taken.items()},
        {name: after for name, (_, after) in taken.items()},
        games=2 if scale == "smoke" else 10,
        openings=OPENINGS[scale],
        name=BY_ITERATION,
    )


def _changes(scale: Scale) -> dict[str, Any]:
    return {**CHANGES[scale], "iterations": _ITERATIONS[scale]}


def _variants(scale: Scale, game: str) -> Iterator[PlannedRun]:
    """Yield the published runs."""
    schedule = {"name": "linear", "iterations": _SWITCH[scale]}
    for variant in VARIANTS:
        for seed in range(_SEEDS[scale]):
            yield _run(scale, game, variant, variant, schedule, seed)


def _switches(scale: Scale, game: str) -> Iterator[PlannedRun]:
    """Yield runs of WRoRa that end the warm start when plain search wins, or elsewhere."""
    games = CHANGES[scale].get("gate.games", 40)
    for seed in range(_SEEDS[scale]):
        yield _run(scale, game, WRORA, ADAPTIVE, {"name": "adaptive", "games": games}, seed)
    for switch in _SWITCHES[scale]:
        for seed in range(_GRID_SEEDS[scale]):
            schedule = {"name": "linear", "iterations": switch}
            yield _run(scale, game, WRORA, f"{UNTIL}{switch}", schedule, seed)


def _run(
    scale: Scale, game: str, variant: str, name: str, schedule: Mapping[str, Any], seed: int
) -> PlannedRun:
    changes = {
        **_changes(scale),
        "warm_start.variant": variant,
        "warm_start.ramp": schedule,
    }
    return planned_run(game, f"{game}:6x6", "wang2020b", {"variant": name}, changes, seed)


FEWEST_PLAYOUTS = 20
"""Which RHEA needs for its first population."""


@register_study
class Table51(Study):
    """Reproduce Table 5.1 of the warm-start paper: Random, MCTS, RAVE and RHEA on three games.

    All pairs of the four players, none of which has a network, and of a RAVE that counts moves in
    the tree alone, play 500 games with 100 playouts per move on 6x6 Gobang, Connect Four and
    Othello. Win rates stand beside the published ones, each marked: agree, or differ. Half a minute
    is enough for that, so all scales but smoke are the published one.

    Examples:
      zerolab study table-5.1
      zerolab study table-5.1 --only othello --json
    """

    name: ClassVar[str] = "table-5.1"

    def design(self, scale: Scale) -> Design:
        """See `Study.design`."""
        smoke = scale == "smoke"
        games = 2 if smoke else PUBLISHED_GAMES
        playouts = FEWEST_PLAYOUTS if smoke else PUBLISHED_PLAYOUTS
        agents = [spec.format(playouts=playouts) for spec in PLAYERS.values()]
        tournaments = [
            PlannedTournament(part, game, agents=agents, games=games)
            for part, game in BOARDS.items()
        ]
        return Design([], tournaments)

    def document(self, results: Results) -> Document:
        """See `Study.document`."""
        return table_5_1_report(results)
