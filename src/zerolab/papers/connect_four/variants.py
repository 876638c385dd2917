"""Training variants, their changes at each scale, and their published results [Clausen2021]."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from zerolab.studies.study import Scale

SUPERVISED_PART = "supervised"
"""Part of the study that learns from solved positions."""
SELF_PLAY_PART = "training"
"""Part of the study that learns by self-play."""

ALL_POSITIONS, ONE_PER_GAME, EASY = "v1", "v2", "easy"
"""Sets of solved positions: all positions of each game (v1) or one per game (v2), from games with
half of the plies random, and all positions of games with a tenth of the plies random (easy)."""

BASELINE_PRESET = "connect4-baseline"
_EXTENDED_PRESET = "connect4-extended"

SettingChanges = Mapping[str, Any]
"""Settings by dotted key."""


class PublishedResults(NamedTuple):
    """Published results on an RTX 2070S, read off the figures of [Clausen2021]."""

    hours_by_percent: Mapping[int, float]
    """Hours of self-play to reach a strong accuracy of search on the hard set, by percentage."""
    peak_percent: float
    """Highest strong accuracy, in percent."""


class RunLengthChanges(NamedTuple):
    """Changes that set the length of runs, with matching windows and learning-rate schedules."""

    baseline: SettingChanges
    extended: SettingChanges


class TrainingVariant(NamedTuple):
    """Method of training, as a preset with changes."""

    title: str
    preset: str = _EXTENDED_PRESET
    changes_for: Callable[[RunLengthChanges], SettingChanges] = lambda lengths: {}
    """Function that returns the changes to the preset for a given length of runs."""
    published: PublishedResults | None = None
    is_ablation: bool = False
    """True if the variant removes an ingredient from the extended version."""


def _longer_iterations(lengths: RunLengthChanges) -> SettingChanges:
    """Return changes that make iterations of the extended version as long as the baseline's.

    The window and the learning-rate cycle are rescaled so that they still change after the same
    number of positions.
    """
    baseline_keys = ("iterations", "selfplay.mode")
    window, cycle = (lengths.extended[f"learn.{key}"] for key in ("window", "schedule"))
    ends = {key: _fewer(window[key]) for key in ("begin", "end")}
    return {
        **{key: value for key, value in lengths.baseline.items() if key in baseline_keys},
        "learn.window": {**window, **ends},
        "learn.schedule": {**cycle, "anneal_iterations": _fewer(cycle["anneal_iterations"])},
    }


def _fewer(iterations: int) -> int:
    return math.ceil(3 * iterations / 5)


BASELINE, EXTENDED = "baseline", "extended"
BIG_TREE_VARIANTS = ("big-tree", "big-tree-3", "big-tree-30")
GAME_TREE_VARIANTS = ("service", "retry", *BIG_TREE_VARIANTS)
"""Variants that play games as trees."""
GROWING_VARIANTS = ("growing", "net2net")
LEAGUE_BY_RESULTS, LEAGUE_BY_NOVELTY = "league", "league-novelty"
LEAGUE_WITH_CHECK_PARAMETER = "league-check"
LEAGUE_VARIANTS = (
    LEAGUE_BY_RESULTS,
    LEAGUE_BY_NOVELTY,
    "league-novelty-winner",
    LEAGUE_WITH_CHECK_PARAMETER,
)
"""Variants with a league of search settings.

They differ in the fitness of players. One has the check parameter, whose best value is known."""

MERGING_WEIGHT_VARIANTS = ("merging-0.2", "merging-0.5")
"""Variants in which the newer of two equal positions has a weight other than 0.8."""

SMALL, FEATURES = "small", "features"
"""Small network, and a larger network that learns to predict its features."""
WITHOUT_FEATURES, POLICY_FEATURES = "without features", "policy features"
"""Additional targets of networks that learn from solved positions: none, or features of the small
network's policy head."""

POLICY_FEATURES_HEAD = {"name": "features", "heads": ["policy"], "plies": [0, 2], "weight": 1.0}
"""Head for the best of ten choices of features in supervised learning [ClausenCode]: those of the
policy head, for the position and the position two plies later."""


class SupervisedTargets(NamedTuple):
    """Targets of a network that learns from solved positions."""

    labels: str = "right"
    weight: float = 0.01
    """Weight of the outcome."""
    features: str = WITHOUT_FEATURES


VARIANTS: Mapping[str, TrainingVariant] = {
    BASELINE: TrainingVariant(
        "baseline", BASELINE_PRESET, published=PublishedResults({88: 6.7, 90: 12.0}, 90.6)
    ),
    EXTENDED: TrainingVariant(
        "extended", published=PublishedResults({88: 5.3, 90: 10.4, 91: 13.1}, 91.65)
    ),
    "service": TrainingVariant(
        "service",
        changes_for=lambda _: {"selfplay.mode": "service"},
        published=PublishedResults({88: 4.6, 90: 8.3, 91: 10.0}, 91.6),
    ),
    "retry": TrainingVariant("retry", changes_for=lambda _: {"selfplay.mode": "retry"}),
    "big-tree": TrainingVariant("big tree, c = 10", changes_for=lambda _: _big_tree(10.0)),
    "big-tree-3": TrainingVariant("big tree, c = 3", changes_for=lambda _: _big_tree(3.0)),
    "big-tree-30": TrainingVariant("big tree, c = 30", changes_for=lambda _: _big_tree(30.0)),
    "growing": TrainingVariant(
        "growing",
        changes_for=lambda _: {"growth.name": "reinitialise"},
        published=PublishedResults({88: 3.2, 90: 8.4, 91: 11.8}, 91.3),
    ),
    "net2net": TrainingVariant("widening", changes_for=lambda _: {"growth.name": "net2net"}),
    LEAGUE_BY_RESULTS: TrainingVariant(
        "league",
        changes_for=lambda _: _league("results"),
        published=PublishedResults({88: 5.8, 90: 11.4}, 90.8),
    ),
    LEAGUE_BY_NOVELTY: TrainingVariant(
        "league by novelty", changes_for=lambda _: _league("novelty")
    ),
    "league-novelty-winner": TrainingVariant(
        "league by novelty of winners", changes_for=lambda _: _league("novelty_of_winner")
    ),
    LEAGUE_WITH_CHECK_PARAMETER: TrainingVariant(
        "league with check parameter", changes_for=lambda _: _league("results", "check")
    ),
    SMALL: TrainingVariant("small network", "connect4-small"),
    FEATURES: TrainingVariant(
        "auxiliary features",
        "connect4-features",
        published=PublishedResults({88: 6.8, 90: 16.0, 91: 27.0}, 91.1),
    ),
    "merging-0.2": TrainingVariant("merging, weight 0.2", changes_for=lambda _: _merging(0.2)),
    "merging-0.5": TrainingVariant("merging, weight 0.5", changes_for=lambda _: _merging(0.5)),
    "no-merging": TrainingVariant(
        "without merging", changes_for=lambda _: {"learn.merging": "none"}, is_ablation=True
    ),
    "no-cycle": TrainingVariant(
        "without cycle",
        changes_for=lambda lengths: {"learn.schedule": _slower(lengths.baseline["learn.schedule"])},
        is_ablation=True,
    ),
    "no-slow-window": TrainingVariant(
        "without slow window",
        changes_for=lambda lengths: {"learn.window": lengths.baseline["learn.window"]},
        is_ablation=True,
    ),
    "no-short-iterations": TrainingVariant(
        "without short iterations",
        changes_for=_longer_iterations,
        is_ablation=True,
    ),
    "no-reply": TrainingVariant(
        "without reply",
        changes_for=lambda _: {"network.heads": ["policy", {"name": "outcome", "weight": 0.01}]},
        is_ablation=True,
    ),
    "no-squeeze-excite": TrainingVariant(
        "without squeeze-and-excite",
        changes_for=lambda _: {"network.squeeze_excite": 0},
        is_ablation=True,
    ),
}
"""Training variants by level of the factor ``variant``."""


def _merging(weight: float) -> SettingChanges:
    return {"learn.merging": {"name": "newest", "weight": weight}}


def _big_tree(c: float) -> SettingChanges:
    return {"selfplay.mode": {"name": "big_tree", "c": c}}


def _league(fitness: str, *more: str) -> SettingChanges:
    return {
        "selfplay.mode": "episodic",
        "league.fitness": fitness,
        "league.parameters": ["c", "fpu", "draw_value", "threshold", *more],
    }


def _slower(schedule: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the baseline's learning-rate schedule to iterations of the extended version."""
    steps = [5 * iteration // 3 for iteration in schedule["iterations"]]
    return {**schedule, "iterations": steps}


_EPISODES: Mapping[Scale, int] = {"smoke": 4, "mini": 120, "small": 480, "paper": 7000}
"""Games per iteration in self-play modes that play whole games.

With the long games of strong agents, these modes search about as many moves as the continuous mode;
at the `mini` scale, games are shorter, so they search about 40 % fewer. Retries search fewer still
because they start in the middle of a game."""

_SMALL: Mapping[Scale, Mapping[str, Any]] = {
    "smoke": {},
    "mini": {
        "network.blocks": 1, "network.filters": 8, "network.stem_filters": 16,
        "stop": {"name": "spent", "evaluations": 490_000},
    },
    "small": {
        "network.blocks": 2, "network.filters": 16, "network.stem_filters": 32,
        "stop": {"name": "spent", "evaluations": 9_800_000},
    },
    "paper": {"stop": {"name": "spent", "evaluations": 900_000_000}},
}  # fmt: skip
"""Size and training budget of the small network, scaled as for the other networks.

At the `mini` scale, training the small network costs about a third as much as training another
network. [Clausen2021] trained the small network for 2 hours and the others for 13 to 27 hours."""

_LEAGUE: Mapping[Scale, Mapping[str, Any]] = {
    "mini": {
        "league.generation": 240, "league.clock.start": 434, "league.clock.increment": 5,
        "league.clock.every": 5, "league.clock.least": 5, "league.clock.most": 187,
    },
    "small": {
        "league.clock.start": 1085, "league.clock.increment": 12,
        "league.clock.every": 12, "league.clock.least": 12, "league.clock.most": 466,
    },
    "paper": {},
}  # fmt: skip
"""League clocks, scaled like the simulations, and games per generation.

Generations are short enough for a run to have ten or more."""

_GROWTH: Mapping[Scale, Mapping[str, Any]] = {
    "smoke": {"network.filters": 2, "growth.after": [2]},
    "mini": {"network.filters": 4, "growth.after": [4, 10]},
    "small": {"network.filters": 4, "growth.after": [3, 8, 20]},
    "paper": {"network.filters": 16},
}
"""Filters of the first network, and iterations after which the number of filters doubles.

The final network is as large as that of the other variants, or twice as large at the `paper`
scale."""
_EPOCHS_WHEN_NEW: Mapping[Scale, Mapping[str, Any]] = {
    "smoke": {"growth.epochs": 2},
    "mini": {"growth.epochs": 4},
    "small": {"growth.epochs": 4},
    "paper": {},
}
"""Passes over the window after a network is reinitialised, at scales with small windows."""


def changes_for_scale(scale: Scale, name: str) -> dict[str, Any]:
    """Return changes that adapt a variant's games per iteration or network size to the scale."""
    if name in GAME_TREE_VARIANTS:
        return {"selfplay.episodes": _EPISODES[scale]}
    if name in LEAGUE_VARIANTS:
        return {"selfplay.episodes": _EPISODES[scale], **_LEAGUE[scale]}
    if name == SMALL:
        return {**_SMALL[scale], "network.head_filters": 1}
    if name in GROWING_VARIANTS:
        return {**_GROWTH[scale], **(_EPOCHS_WHEN_NEW[scale] if name == "growing" else {})}
    return {}


SELFPLAY_CHANGES: Mapping[Scale, Mapping[str, Any]] = {
    "smoke": {
        "selfplay.parallel_games": 4, "search.simulations": 4, "network.blocks": 1,
        "network.filters": 4, "network.stem_filters": 2, "network.head_filters": 4,
        "learn.batch_size": 32,
    },
    "mini": {
        "selfplay.parallel_games": 128, "search.simulations": 32, "network.blocks": 2,
        "network.filters": 16, "network.stem_filters": 8, "network.head_filters": 8,
        "learn.batch_size": 128,
    },
    "small": {
        "selfplay.parallel_games": 256, "search.simulations": 80, "network.blocks": 3,
        "network.filters": 32, "network.stem_filters": 16, "network.head_filters": 16,
    },
    "paper": {},
}  # fmt: skip
"""Changes to the self-play presets, by dotted key."""

SUPERVISED_CHANGES: Mapping[Scale, Mapping[str, Any]] = {
    "smoke": {
        "iterations": 2, "network.filters": 4, "network.stem_filters": 2, "network.head_filters": 4,
        "search.simulations": 4, "learn.batch_size": 32, "learn.schedule": "constant",
    },
    "mini": {
        "iterations": 8, "network.filters": 16, "network.stem_filters": 8,
        "network.head_filters": 8,
        "learn.schedule": {"name": "steps", "iterations": [5, 7], "factor": 0.1},
    },
    "small": {
        "iterations": 8, "network.filters": 32, "network.stem_filters": 16,
        "network.head_filters": 16,
        "learn.schedule": {"name": "steps", "iterations": [5, 7], "factor": 0.1},
    },
    "paper": {},
}  # fmt: skip
"""Changes to the `supervised` preset, by dotted key."""


class _RunLength(NamedTuple):
    """Length of training runs and of their schedules."""

    iterations: int
    """Iterations of the baseline. The extended version has 5/3 as many."""
    plies: int
    """Plies per parallel game and baseline iteration. The extended version plays 3/5 as many."""
    steps: tuple[int, int]
    """Baseline iterations at which the learning rate drops (7 and 14 in [ClausenCode])."""
    window: tuple[int, int]
    """Iterations between which the slow window grows (5 and 15 in [ClausenCode])."""
    cycle: int
    """Iteration at which learning-rate cycles stop shrinking (20 in [ClausenCode])."""


_PUBLISHED = RunLengthChanges(
    baseline={
        "learn.window": {"name": "positions", "size": 2_000_000},
        "learn.schedule": {"name": "steps", "iterations": [7, 14], "factor": 0.1},
        "selfplay.mode": {"name": "continuous", "plies": 1172},
    },
    extended={
        "learn.window": {
            "name": "slow", "first": 500_000, "final": 2_000_000, "begin": 5, "end": 15,
        },
        "learn.schedule": {"name": "cycle", "anneal_iterations": 20},
    },
)  # fmt: skip
"""Settings of the two presets, which some variants combine."""

_LENGTHS: Mapping[Scale, _RunLength] = {
    "smoke": _RunLength(3, 10, (2, 3), (1, 2), 2),
    "mini": _RunLength(12, 40, (4, 8), (5, 15), 20),
    "small": _RunLength(24, 80, (7, 14), (5, 15), 20),
}


def run_length_changes(scale: Scale) -> RunLengthChanges:
    """Return the changes that set the length of runs.

    An iteration of the extended version plays 3/5 as many positions as one of the baseline
    [Clausen2021]. The extended version has 5/3 as many iterations, so both play the same number of
    positions.
    """
    if scale == "paper":
        return RunLengthChanges(*({"stop": "no_gain", **changes} for changes in _PUBLISHED))
    length = _LENGTHS[scale]
    unit = length.plies * SELFPLAY_CHANGES[scale]["selfplay.parallel_games"]
    begin, end = length.window
    window = {"first": 5 * unit // 3, "final": 20 * unit // 3, "begin": begin, "end": end}
    return RunLengthChanges(
        baseline={
            "iterations": length.iterations,
            "selfplay.mode": {"name": "continuous", "plies": length.plies},
            "learn.window": {"name": "positions", "size": 20 * unit // 3},
            "learn.schedule": {"name": "steps", "iterations": list(length.steps), "factor": 0.1},
        },
        extended={
            "iterations": 5 * length.iterations // 3,
            "selfplay.mode": {"name": "continuous", "plies": 3 * length.plies // 5},
            "learn.window": {"name": "slow", **window},
            "learn.schedule": {"name": "cycle", "anneal_iterations": length.cycle},
        },
    )


MOVE_TIMING_FUNCTION = "zerolab.papers.connect_four.costs:measure"
"""Name, as stored in ledgers, of the function that times moves."""
TIMED_PLIES = 2
"""Plies per game and round in which moves are timed."""
