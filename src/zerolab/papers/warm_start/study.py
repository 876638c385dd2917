"""Warm starts of self-play [Wang2020b] and players without a network [Wang2021b, Table 5.1]."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

from zerolab.papers.planning import OPENING_PLIES, PRESET_CHANGES, planned_dataset
from zerolab.studies.design import Design, PlannedRun, PlannedTournament, plan_run
from zerolab.studies.looks import FIRST_SEED
from zerolab.studies.study import Scale, Study, register_study

if TYPE_CHECKING:
    from zerolab.report.claims import Verdict
    from zerolab.report.document import Document
    from zerolab.studies.results import Results
    from zerolab.studies.study_folder import FinishedRun

GAMES = ("gobang", "connect_four", "othello")
BASELINE, WRORA = "baseline", "wrora"
VARIANTS = (BASELINE, "rollout", "rave", "rora", "wro", WRORA)
"""Values of the setting `warm_start.variant` [Wang2021b, section 5.3.3]."""
ADAPTIVE_VARIANT = "wrora-adaptive"
"""Variant of WRoRa whose warm start ends when plain search wins a match [Wang2021a]."""
WARM_START_LENGTH_PREFIX = "wrora-until-"
"""Prefix of variants of WRoRa with a different value of I', which follows the prefix."""
WARM_START_LENGTH_TOURNAMENT = "switch"
"""Name of the tournament between the baseline and WRoRa with warm starts of different lengths."""
BY_ITERATION_TOURNAMENT = "by-iteration"
"""Name of the tournament between networks of the baseline and WRoRa from several iterations."""

_GAMES: Mapping[Scale, tuple[str, ...]] = {
    "smoke": ("othello",),
    "mini": GAMES,
    "small": GAMES,
    "paper": GAMES,
}
_SIZE: Mapping[Scale, str] = {"smoke": "4x4", "mini": "6x6", "small": "6x6", "paper": "6x6"}
_SEEDS: Mapping[Scale, int] = {"smoke": 1, "mini": 12, "small": 6, "paper": 8}
_ITERATIONS: Mapping[Scale, int] = {"smoke": 2, "mini": 40, "small": 60, "paper": 100}
_SWITCH: Mapping[Scale, int] = {"smoke": 1, "mini": 2, "small": 3, "paper": 5}
"""Default value of I', the last iteration of the warm start: 5 % of the run, as in the paper."""
_PLAYING_ITERATIONS: Mapping[Scale, tuple[int, ...]] = {
    "smoke": (1, 2),
    "mini": (2, 5, 15, 40),
    "small": (3, 10, 30, 60),
    "paper": (5, 20, 100),
}
"""Iterations after which the baseline and WRoRa are compared."""
_SWITCHES: Mapping[Scale, tuple[int, ...]] = {
    "smoke": (2,),
    "mini": (5, 20),
    "small": (10, 30),
    "paper": (1, 2, 10, 20, 50),
}
"""Further values of I' for WRoRa."""
_GRID_SEEDS: Mapping[Scale, int] = {"smoke": 1, "mini": 3, "small": 3, "paper": 8}
"""Number of seeds, counted from the first, that are trained with further values of I'."""
_SOLVED: Mapping[Scale, int] = {"smoke": 10, "mini": 2000, "small": 2000, "paper": 2000}
"""Number of solved positions per game on which final networks are measured."""
_MATCH_GAMES = 40
"""Games of the match that can end an adaptive warm start, at every scale [Wang2021a]."""


@register_study
class WarmStartStudy(Study):
    """Compare warm starts of self-play with the baseline on three games, by tournament.

    Train several runs of the baseline, Rollout, RAVE, RoRa, WRo, WRoRa and adaptive WRoRa on 6x6
    Gobang, Connect Four and Othello. Random and the final networks play tournaments in each game.
    The networks are also measured on solved positions. A further grid varies the last iteration of
    WRoRa's warm start.

    Examples:
      zerolab study warm-start
      zerolab study warm-start --only gobang --workers 2
      zerolab study warm-start --scale paper --status
    """

    name: ClassVar[str] = "warm-start"

    measurement_version: ClassVar[int] = 1

    def seed_count(self, scale: Scale) -> int:
        return _SEEDS[scale]

    def design(self, scale: Scale, seeds: Sequence[int]) -> Design:
        runs: list[PlannedRun] = []
        tournaments: list[PlannedTournament] = []
        for game in _GAMES[scale]:
            blocks = [list(_variants(scale, game, seed)) for seed in seeds]
            all_ends = [list(_ends(scale, game, seed)) for seed in seeds]
            published = list(chain.from_iterable(blocks))
            runs += [*published, *chain.from_iterable(all_ends)]
            if scale == "paper":  # one tournament between all runs, as published
                tournaments.append(_tournament(scale, game, published))
            for seed, block, other_ends in zip(seeds, blocks, all_ends, strict=True):
                compared = [run for run in block if run.factors["variant"] in (BASELINE, WRORA)]
                if scale != "paper":
                    tournaments.append(_tournament(scale, game, block, seed=seed))
                ends = [*compared, *other_ends]
                tournaments.append(
                    _tournament(scale, game, ends, WARM_START_LENGTH_TOURNAMENT, seed=seed)
                )
                tournaments.append(_by_iteration(scale, game, compared, seed))
        solved = [
            planned_dataset(f"{game}:{_SIZE[scale]}", _SOLVED[scale], game)
            for game in _GAMES[scale]
        ]
        return Design(runs, tournaments, report_datasets=solved)

    def measure_run(self, run: FinishedRun) -> Mapping[str, Any]:
        from zerolab.papers.solved_accuracy import measure_final_accuracy

        return measure_final_accuracy(run)

    def verdicts(self, results: Results) -> list[Verdict]:
        from zerolab.papers.warm_start.findings import warm_start_statistics

        return results.judge(warm_start_statistics)

    def report(self, results: Results) -> Document:
        from zerolab.papers.warm_start.analysis import warm_start_report

        return warm_start_report(results)


def _tournament(
    scale: Scale,
    game: str,
    runs: Sequence[PlannedRun],
    name: str = "",
    *,
    seed: int | None = None,
) -> PlannedTournament:
    return PlannedTournament(
        game,
        f"{game}:{_SIZE[scale]}",
        {run.label: run for run in runs},
        games_per_pair=2 if scale == "smoke" else 20,
        opening_plies=OPENING_PLIES[scale],
        name=name,
        seed=seed,
    )


def _by_iteration(
    scale: Scale, game: str, runs: Sequence[PlannedRun], seed: int
) -> PlannedTournament:
    """Plan the tournament between networks of `runs` after several iterations."""
    players = {
        f"{run.label}@{after}": (run, after) for run in runs for after in _PLAYING_ITERATIONS[scale]
    }
    return PlannedTournament(
        game,
        f"{game}:{_SIZE[scale]}",
        {name: run for name, (run, _) in players.items()},
        {name: after for name, (_, after) in players.items()},
        games_per_pair=2 if scale == "smoke" else 10,
        opening_plies=OPENING_PLIES[scale],
        name=BY_ITERATION_TOURNAMENT,
        seed=seed,
    )


def _variants(scale: Scale, game: str, seed: int) -> Iterator[PlannedRun]:
    """Yield the runs of the published variants."""
    ramp = {"name": "linear", "iterations": _SWITCH[scale]}
    for variant in VARIANTS:
        yield _run(scale, game, variant, variant, ramp, seed)


def _ends(scale: Scale, game: str, seed: int) -> Iterator[PlannedRun]:
    """Yield the runs of WRoRa with an adaptive warm start or with other values of I'."""
    # Without a decreasing weight, adaptive WRoRa would be RoRa.
    adaptive = {"name": "adaptive", "games": _MATCH_GAMES, "iterations": _SWITCH[scale]}
    yield _run(scale, game, WRORA, ADAPTIVE_VARIANT, adaptive, seed)
    if seed < FIRST_SEED + _GRID_SEEDS[scale]:
        for end in _SWITCHES[scale]:
            ramp = {"name": "linear", "iterations": end}
            yield _run(scale, game, WRORA, f"{WARM_START_LENGTH_PREFIX}{end}", ramp, seed)


def _run(
    scale: Scale, game: str, variant: str, name: str, ramp: Mapping[str, Any], seed: int
) -> PlannedRun:
    changes = {
        **PRESET_CHANGES[scale],
        "iterations": _ITERATIONS[scale],
        "warm_start.variant": variant,
        "warm_start.ramp": ramp,
    }
    board = f"{game}:{_SIZE[scale]}"
    return plan_run(game, board, "wang2020b", {"variant": name}, changes, seed)


BOARDS = {"gobang": "gobang:6x6:4", "connect_four": "connect_four:6x6", "othello": "othello:6x6"}
"""Boards of Table 5.1, by part of the study."""
RANDOM, MCTS, RAVE, RHEA = "Random", "MCTS", "RAVE", "RHEA"
TREE_ONLY, LITERAL, NORMALISED = "RAVE, tree only", "RAVE, literal", "RAVE, normalised"
HALF_RHEA, SINGLE_RHEA = "RHEA, half", "RHEA, single"
CHANGED_RHEA_SPECS: Mapping[str, str] = {
    f"RHEA, {name} {value}": f"rhea:{{playouts}}?{name}={value}"
    for name, values in {"mutation": (0.1, 0.4), "population": (5, 20), "horizon": (5, 20)}.items()
    for value in values
}
"""Agent specs of RHEA with one parameter, other than the playouts, halved or doubled, by player."""

PLAYER_SPECS: Mapping[str, str] = {
    RANDOM: "random",
    MCTS: "mcts:{playouts}?selection.name=puct",
    RAVE: "rave:{playouts}",
    RHEA: "rhea:{playouts}",
    TREE_ONLY: "rave:{playouts}?selection.playout_moves=false",
    LITERAL: "rave:{playouts}?selection.reading=literal",
    NORMALISED: "rave:{playouts}?root.name=rave_values",
    HALF_RHEA: "rhea:{half}",
    SINGLE_RHEA: "rhea:{playouts}?playouts_each=1",
    **CHANGED_RHEA_SPECS,
}
"""Agent spec of each player, with placeholders for the number of playouts and for half of it.

The paper's MCTS is PUCT with uniform priors and c = 1, and evaluates each leaf with one random
playout. `RAVE` counts actions and playout moves as in [Gelly2011], and plays the most visited
action. Three players follow other readings of the paper: `TREE_ONLY` counts only moves within the
tree, `LITERAL` counts later actions of both players, and `NORMALISED` plays the action with the
highest Q_rave, since line 3 of the algorithm normalises Q_rave. `HALF_RHEA` has 50 playouts, and
`SINGLE_RHEA` evaluates each individual with one playout instead of two."""

RAVE_INTERPRETATIONS: Mapping[str, str] = {
    TREE_ONLY: "counts only moves within the tree",
    LITERAL: "counts actions of both players strictly after a state, at their first occurrence",
    NORMALISED: "plays the action with the highest Q_rave",
}
"""Behaviour of the players that follow other readings of RAVE."""

PUBLISHED_GAMES_PER_PAIR = 500
"""Games of each pair of players in [Wang2021b, Table 5.1]."""

PUBLISHED_PLAYOUTS = 100
PUBLISHED_SCORES: Mapping[str, Mapping[tuple[str, str], float]] = {
    "gobang": {
        (MCTS, RANDOM): 0.970,
        (RAVE, RANDOM): 1.000,
        (RHEA, RANDOM): 0.900,
        (RAVE, MCTS): 0.894,
        (RHEA, MCTS): 0.340,
        (RHEA, RAVE): 0.170,
    },
    "connect_four": {
        (MCTS, RANDOM): 0.996,
        (RAVE, RANDOM): 1.000,
        (RHEA, RANDOM): 0.800,
        (RAVE, MCTS): 0.730,
        (RHEA, MCTS): 0.030,
        (RHEA, RAVE): 0.040,
    },
    "othello": {
        (MCTS, RANDOM): 0.985,
        (RAVE, RANDOM): 0.980,
        (RHEA, RANDOM): 0.480,
        (RAVE, MCTS): 0.460,
        (RHEA, MCTS): 0.010,
        (RHEA, RAVE): 0.050,
    },
}
"""Score rate of the first-listed player of each pair [Wang2021b, Table 5.1].

The other half of the paper's matrix contains the complements."""
MIN_PLAYOUTS = 40
"""Smallest number of playouts that evaluates the largest initial population in `PLAYER_SPECS`."""


@register_study
class Table51Study(Study):
    """Reproduce Table 5.1 of the warm-start paper: Random, MCTS, RAVE and RHEA on three games.

    The four players have no network. All pairs of these players, three other readings of RAVE and
    eight other settings of RHEA play 500 games with 100 playouts per move on 6x6 Gobang, Connect
    Four and Othello. The report compares the measured score rates with the published ones and marks
    those that differ. The study takes minutes, so all scales except smoke use the published
    settings. Smoke plays only Othello, with two games per pair and fewer playouts.

    Examples:
      zerolab study table-5.1
      zerolab study table-5.1 --only othello --json
    """

    name: ClassVar[str] = "table-5.1"

    def seed_count(self, scale: Scale) -> int:
        return 0

    def design(self, scale: Scale, seeds: Sequence[int]) -> Design:
        smoke = scale == "smoke"
        games = 2 if smoke else PUBLISHED_GAMES_PER_PAIR
        playouts = MIN_PLAYOUTS if smoke else PUBLISHED_PLAYOUTS
        specs = [
            spec.format(playouts=playouts, half=playouts // 2) for spec in PLAYER_SPECS.values()
        ]
        tournaments = [
            PlannedTournament(part, board, agent_specs=specs, games_per_pair=games)
            for part, board in BOARDS.items()
            if not smoke or part == "othello"
        ]
        return Design([], tournaments)

    def verdicts(self, results: Results) -> list[Verdict]:
        from zerolab.papers.warm_start.table_5_1 import table_5_1_statistics

        return results.judge(table_5_1_statistics)

    def report(self, results: Results) -> Document:
        from zerolab.papers.warm_start.table_5_1 import table_5_1_report

        return table_5_1_report(results)
