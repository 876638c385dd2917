"""Transfer of networks between games and board sizes [Hongcharoen2018], [Soemers2023]."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from zerolab.evaluation.collecting import DatasetSettings
from zerolab.papers.scales import OPENINGS
from zerolab.papers.transfer.analysis import transfer_report
from zerolab.papers.transfer.ways import (
    FINE_TUNED,
    FROZEN,
    MAPPED,
    PLAY_AT_ONCE,
    PLAY_IN_THE_END,
    RANDOM_FROZEN,
    SCRATCH,
    board_pairs,
    part_of,
    player_name,
)
from zerolab.report.document import Document
from zerolab.rules.catalogue import canonical_game_name
from zerolab.studies.design import (
    Design,
    PlannedPositions,
    PlannedRun,
    PlannedTournament,
    planned_run,
)
from zerolab.studies.results import Results
from zerolab.studies.study import Scale, Study, register_study

PRESET = "hongcharoen2018"

_GAMES: Mapping[str, Sequence[str]] = {
    "othello": ("othello:6x6", "othello:5x5"),
    "connect_four": ("connect_four:6x6", "connect_four:5x5"),
    "gobang": ("gobang:6x6:4", "gobang:5x5:4"),
}
BOARDS: Mapping[Scale, Mapping[str, Sequence[str]]] = {
    "smoke": {
        "connect_four": ("connect_four:4x4",),
        "gobang": ("gobang:4x4:3", "gobang:3x3:3"),
    },
    "mini": _GAMES,
    "small": _GAMES,
    "paper": _GAMES,
}
"""Boards by game, the one on which games are compared first."""

SEEDS: Mapping[Scale, int] = {"smoke": 1, "mini": 4, "small": 6, "paper": 8}

CHANGES: Mapping[Scale, Mapping[str, Any]] = {
    "smoke": {
        "network.blocks": 1, "network.filters": 4, "network.head_filters": 2, "network.hidden": 4,
        "iterations": 2, "selfplay.episodes": 4, "search.simulations": 4, "learn.window": 2,
        "learn.batch_size": 16, "gate": "always",
    },
    "mini": {
        "network.blocks": 2, "network.filters": 16, "network.head_filters": 8, "network.hidden": 32,
        "iterations": 8, "selfplay.episodes": 64, "search.simulations": 24, "learn.window": 3,
        "learn.batch_size": 128, "learn.epochs": 2, "gate": "always",
    },
    "small": {
        "network.blocks": 3, "network.filters": 32, "network.head_filters": 16,
        "network.hidden": 64, "iterations": 20, "selfplay.episodes": 200, "learn.window": 8,
        "learn.batch_size": 256, "learn.epochs": 2, "gate": "always",
    },
    "paper": {},
}  # fmt: skip
"""On top of the preset, by dotted keys. Gates of a few games would accept by chance."""

_STAGES: Mapping[Scale, Sequence[int]] = {
    "smoke": (1, 2),
    "mini": (2, 4, 8),
    "small": (2, 5, 10, 20),
    "paper": (2, 5, 12, 25, 50),
}
"""Iterations after which networks play the tournaments, beside those that play at once."""
_GAMES_PER_PAIR = 2


class _Solved(NamedTuple):
    """How positions of a board are collected so that all of them are solved in reasonable time."""

    first_ply: int
    seconds: float
    """About how long one takes on one core."""
    nodes: int | None = None


_SOLVED: Mapping[str, _Solved] = {
    "othello:6x6": _Solved(18, 0.05),
    "connect_four:6x6": _Solved(10, 0.15),
    "gobang:6x6": _Solved(8, 0.15, nodes=200_000),
    "gobang:5x5": _Solved(8, 0.05, nodes=200_000),
}
"""By the one spelling of boards; others are solved from the start."""
_FROM_THE_START = _Solved(0, 0.03)
_MEASURED: Mapping[Scale, int] = {"smoke": 10, "mini": 300, "small": 1000, "paper": 2000}
"""Solved positions per board on which runs are measured after every iteration."""


@register_study
class Transfer(Study):
    """Carry networks from game to game and from size to size, and see what that saves.

    Othello, Connect Four and Gobang on 6x6, and a smaller board of each. Every run from scratch is
    the source of runs on other boards: its trunk fine-tuned below new heads, its trunk frozen, and
    all of it mapped by meaning. A random trunk that is frozen is the control. Accuracy on solved
    positions after every iteration, time to a fixed accuracy, Elo of tournaments between networks
    of several iterations, and how alike trunks see positions, layer by layer.

    Examples:
      zerolab study transfer
      zerolab study transfer --only gobang-6x6 --workers 2
      zerolab study transfer --scale small --status
    """

    name: ClassVar[str] = "transfer"

    def design(self, scale: Scale) -> Design:
        """See `Study.design`."""
        sources = {
            board: list(_runs(scale, number, board, SCRATCH))
            for number, board in enumerate(_boards(scale))
        }
        runs: list[PlannedRun] = []
        tournaments: list[PlannedTournament] = []
        for number, (board, scratch) in enumerate(sources.items()):
            here = [*scratch, *_runs(scale, number, board, RANDOM_FROZEN)]
            for source, target in board_pairs(BOARDS[scale]):
                if target == board:
                    for way in (FINE_TUNED, FROZEN, MAPPED):
                        here += _runs(scale, number, board, way, sources[source])
            runs += here
            tournaments.append(_tournament(scale, board, here))
        return Design(runs, tournaments)

    def document(self, results: Results) -> Document:
        """See `Study.document`."""
        return transfer_report(results)


def _boards(scale: Scale) -> list[str]:
    """Return all boards, those on which games are compared first."""
    every = BOARDS[scale].values()
    first = [boards[0] for boards in every]
    return [
        canonical_game_name(board)
        for board in (*first, *(b for boards in every for b in boards[1:]))
    ]


def _runs(
    scale: Scale, number: int, board: str, way: str, sources: Sequence[PlannedRun] = ()
) -> Iterator[PlannedRun]:
    """Yield the runs of a board in one way, from the sources of equal seeds if there are some.

    Runs of different boards have nothing in common but what they take: not the random trunk either.
    """
    positions = {"accuracy.positions": _positions(scale, board)}
    for seed in range(SEEDS[scale]):
        start = sources[seed] if sources else None
        changes = {**CHANGES[scale], "accuracy.every": 1, **_taken(way, board, start)}
        factors = {"way": way} if start is None else {"way": way, "source": start.part}
        yield planned_run(
            part_of(board), board, PRESET, factors, changes, seed,
            group=number, positions=positions, start=start,
        )  # fmt: skip


def _taken(way: str, board: str, start: PlannedRun | None) -> dict[str, Any]:
    """Return the settings of a way."""
    changes: dict[str, Any] = {}
    if way in (FROZEN, RANDOM_FROZEN):
        changes["learn.frozen"] = "trunk"
    if start is not None:
        is_same_game = start.settings.game.partition(":")[0] == board.partition(":")[0]
        mapped = "all" if is_same_game else "channels"
        changes["start.transfer"] = mapped if way == MAPPED else "trunk"
    return changes


def _positions(scale: Scale, board: str) -> PlannedPositions:
    solved = _SOLVED.get(board, _FROM_THE_START)
    count = _MEASURED[scale]
    settings = DatasetSettings(one_per_game=True, first_ply=solved.first_ply, nodes=solved.nodes)
    return PlannedPositions(board, board, count, settings, count * solved.seconds)


def _stages(scale: Scale, way: str) -> Sequence[int]:
    """Return the iterations after which networks of a way play."""
    if way in PLAY_IN_THE_END:
        return _STAGES[scale][-1:]
    return (0, *_STAGES[scale]) if way in PLAY_AT_ONCE else _STAGES[scale]


def _tournament(scale: Scale, board: str, runs: Sequence[PlannedRun]) -> PlannedTournament:
    """Return the tournament of a board: networks of all its runs after some iterations."""
    players = {
        player_name(run, stage): (run, stage)
        for run in runs
        for stage in _stages(scale, str(run.factors["way"]))
    }
    return PlannedTournament(
        part_of(board),
        board,
        {name: run for name, (run, _) in players.items()},
        {name: stage for name, (_, stage) in players.items()},
        games=_GAMES_PER_PAIR,
        openings=OPENINGS[scale] or 2,
    )
