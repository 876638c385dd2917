"""Transfer of networks between games and board sizes [Hongcharoen2018], [Soemers2023].

Each part of the study is a board. Runs without a source are the baselines. All other runs start
from a run on another board that was trained from scratch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations
from typing import TYPE_CHECKING, Any, ClassVar

from zerolab.papers.planning import OPENING_PLIES, planned_dataset
from zerolab.rules.catalogue import canonical_game_name
from zerolab.studies.design import (
    Design,
    PlannedRun,
    PlannedTournament,
    plan_run,
)
from zerolab.studies.study import Scale, Study, register_study

if TYPE_CHECKING:
    from zerolab.report.claims import Verdict
    from zerolab.report.document import Document
    from zerolab.studies.results import Results
    from zerolab.studies.study_folder import FinishedRun

SCRATCH = "scratch"
RANDOM_FROZEN = "random-frozen"
FINE_TUNED = "fine-tuned"
FROZEN = "frozen"
MAPPED = "mapped"
SOURCE_METHODS = (FINE_TUNED, FROZEN, MAPPED)
"""Transfer methods with a source board, named by the ``source`` factor."""

PLAYING_AT_START_AND_END = (SCRATCH, MAPPED)
"""Methods whose initial network also plays. The other methods start with the same untrained heads
as runs from scratch."""
PLAYING_ONLY_AT_END = (FROZEN, RANDOM_FROZEN)
"""Methods for which only the final network plays."""

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
"""Boards by game. Transfer between games uses the first board of each game."""

SEED_COUNTS: Mapping[Scale, int] = {"smoke": 1, "mini": 12, "small": 6, "paper": 8}

PRESET_CHANGES: Mapping[Scale, Mapping[str, Any]] = {
    "smoke": {
        "network.blocks": 1, "network.filters": 4, "network.head_filters": 2, "network.hidden": 4,
        "iterations": 2, "selfplay.episodes": 2, "search.simulations": 2, "learn.window": 2,
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
"""Changes to the preset at each scale, by dotted key.

Smaller scales always accept candidates because gates with few games would be decided by chance."""

_PLAYING_ITERATIONS: Mapping[Scale, Sequence[int]] = {
    "smoke": (2,),
    "mini": (2, 4, 8),
    "small": (2, 5, 10, 20),
    "paper": (2, 5, 12, 25, 50),
}
"""Iterations whose networks play in the tournaments, in addition to initial networks."""
_GAMES_PER_PAIR = 2


_MEASURED: Mapping[Scale, int] = {"smoke": 10, "mini": 300, "small": 1000, "paper": 2000}
"""Number of solved positions per board on which accuracy is measured after each iteration."""


def part_name(board: str) -> str:
    """Return the name of a board's part, such as ``gobang-5x5`` for ``gobang:5x5:4``."""
    name, size, *_ = board.split(":")
    return f"{name}-{size}"


def source_and_target_boards(games: Mapping[str, Sequence[str]]) -> list[tuple[str, str]]:
    """Return the pairs of source and target boards between which networks are transferred.

    `games` maps each game to its boards. The result contains all ordered pairs of the first boards
    of two games, followed by all ordered pairs of boards of the same game.
    """
    first = [canonical_game_name(boards[0]) for boards in games.values()]
    far = list(permutations(first, 2))
    near = [
        pair
        for boards in games.values()
        for pair in permutations(map(canonical_game_name, boards), 2)
    ]
    return [*far, *near]


def network_player_name(run: PlannedRun, iteration: int) -> str:
    """Return the tournament name of a run's network after an iteration."""
    return f"{run.label}@{iteration}"


@register_study
class TransferStudy(Study):
    """Transfer networks between games and board sizes, and measure the savings.

    Train on Othello, Connect Four and Gobang, each on a 6x6 board and a smaller one. Each run from
    scratch is the source of runs on other boards, which fine-tune its trunk under new heads, freeze
    it, or transfer the whole network by matching planes and actions. A frozen random trunk is the
    control. Measure accuracy on solved positions after each iteration, time to a fixed accuracy,
    Elo in tournaments between networks from several iterations, and layer-by-layer similarity of
    trunks.

    Examples:
      zerolab study transfer
      zerolab study transfer --only gobang-6x6 --workers 2
      zerolab study transfer --scale small --status
    """

    name: ClassVar[str] = "transfer"

    measurement_version: ClassVar[int] = 1

    def seed_count(self, scale: Scale) -> int:
        return SEED_COUNTS[scale]

    def design(self, scale: Scale, seeds: Sequence[int]) -> Design:
        sources = {
            board: list(_runs(scale, number, board, SCRATCH, seeds))
            for number, board in enumerate(_boards(scale))
        }
        runs: list[PlannedRun] = []
        tournaments: list[PlannedTournament] = []
        for number, (board, scratch) in enumerate(sources.items()):
            board_runs = [*scratch, *_runs(scale, number, board, RANDOM_FROZEN, seeds)]
            for source, target in source_and_target_boards(BOARDS[scale]):
                if target == board:
                    for method in (FINE_TUNED, FROZEN, MAPPED):
                        board_runs += _runs(scale, number, board, method, seeds, sources[source])
            runs += board_runs
            for seed in seeds:
                block = [run for run in board_runs if run.factors["seed"] == seed]
                tournaments.append(_tournament(scale, board, block, seed))
        return Design(runs, tournaments)

    def measure_run(self, run: FinishedRun) -> Mapping[str, Any]:
        from zerolab.papers.transfer.similarity import measure_similarity

        return measure_similarity(run)

    def verdicts(self, results: Results) -> list[Verdict]:
        from zerolab.papers.transfer.findings import transfer_statistics

        return results.judge(transfer_statistics)

    def report(self, results: Results) -> Document:
        from zerolab.papers.transfer.analysis import transfer_report

        return transfer_report(results)


def _boards(scale: Scale) -> list[str]:
    """Return all boards, starting with the first board of each game."""
    by_game = BOARDS[scale].values()
    first = [boards[0] for boards in by_game]
    others = [board for boards in by_game for board in boards[1:]]
    return [canonical_game_name(board) for board in (*first, *others)]


def _runs(
    scale: Scale,
    number: int,
    board: str,
    method: str,
    seeds: Sequence[int],
    sources: Sequence[PlannedRun] = (),
) -> Iterator[PlannedRun]:
    """Yield the runs of a board with one method, starting from `sources` with the same seed.

    `number` gives each board its own random streams, including those of random trunks.
    """
    datasets = {"accuracy.positions": planned_dataset(board, _MEASURED[scale])}
    for index, seed in enumerate(seeds):
        start = sources[index] if sources else None
        changes = {
            **PRESET_CHANGES[scale],
            "accuracy.every": 1,
            **_method_changes(method, board, start),
        }
        factors = {"way": method} if start is None else {"way": method, "source": start.part}
        yield plan_run(
            part_name(board), board, PRESET, factors, changes, seed,
            group=number, datasets=datasets, start_run=start,
        )  # fmt: skip


def _method_changes(method: str, board: str, start: PlannedRun | None) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    if method in (FROZEN, RANDOM_FROZEN):
        changes["learn.frozen"] = "trunk"
    if start is not None:
        is_same_game = start.settings.game.partition(":")[0] == board.partition(":")[0]
        mapped = "all" if is_same_game else "channels"
        changes["start.transfer"] = mapped if method == MAPPED else "trunk"
    return changes


def _playing_iterations(scale: Scale, method: str) -> Sequence[int]:
    """Return the iterations whose networks play, for a transfer method."""
    if method in PLAYING_ONLY_AT_END:
        return _PLAYING_ITERATIONS[scale][-1:]
    iterations = _PLAYING_ITERATIONS[scale]
    return (0, *iterations) if method in PLAYING_AT_START_AND_END else iterations


def _tournament(
    scale: Scale, board: str, runs: Sequence[PlannedRun], seed: int
) -> PlannedTournament:
    """Plan the tournament between the networks from several iterations of a seed's runs."""
    players = {
        network_player_name(run, iteration): (run, iteration)
        for run in runs
        for iteration in _playing_iterations(scale, str(run.factors["way"]))
    }
    return PlannedTournament(
        part_name(board),
        board,
        {name: run for name, (run, _) in players.items()},
        {name: iteration for name, (_, iteration) in players.items()},
        games_per_pair=_GAMES_PER_PAIR,
        opening_plies=OPENING_PLIES[scale] or 2,
        seed=seed,
    )
