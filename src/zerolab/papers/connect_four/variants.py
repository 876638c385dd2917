"""Training variants and their published results [Clausen2021]."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

SUPERVISED = "supervised"
"""Part of the study that learns from solved positions."""
TRAINING = "training"
"""Part of the study that learns by self-play."""

BASELINE_PRESET = "connect4-baseline"
_EXTENDED_PRESET = "connect4-extended"

Changes = Mapping[str, Any]
"""Settings by dotted key."""


class Published(NamedTuple):
    """Published results on an RTX 2070S, read off the figures of [Clausen2021]."""

    hours: Mapping[int, float]
    """Hours of self-play by strong accuracy of search on the hard set, in percent."""
    peak: float
    """Highest accuracy, in percent."""


class Lengths(NamedTuple):
    """Changes that set the length of runs, with matching windows and learning-rate schedules."""

    baseline: Changes
    extended: Changes


class Variant(NamedTuple):
    """Training variant."""

    title: str
    preset: str = _EXTENDED_PRESET
    changes: Callable[[Lengths], Changes] = lambda lengths: {}
    """Changes to the preset."""
    published: Published | None = None
    is_ablation: bool = False
    """True if the variant removes an ingredient from the extended version."""


def _longer_iterations(lengths: Lengths) -> Changes:
    """Return changes that give the extended version the iterations of the baseline.

    The window and the learning-rate cycle are rescaled to change after the same number of positions
    as before.
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
TREES = ("service", "retry", "big-tree", "big-tree-3", "big-tree-30")
"""Variants that play games as trees."""
GROWING = ("growing", "net2net")
LEAGUE_BY_RESULTS, LEAGUE_BY_NOVELTY = "league", "league-novelty"
LEAGUE = (LEAGUE_BY_RESULTS, LEAGUE_BY_NOVELTY, "league-novelty-winner")
"""Leagues of search settings, by the fitness of players."""

SMALL, FEATURES = "small", "features"
"""Small network, and a larger network that learns its features."""

VARIANTS: Mapping[str, Variant] = {
    BASELINE: Variant("baseline", BASELINE_PRESET, published=Published({88: 6.7, 90: 12.0}, 90.6)),
    EXTENDED: Variant("extended", published=Published({88: 5.3, 90: 10.4, 91: 13.1}, 91.65)),
    "service": Variant(
        "service",
        changes=lambda _: {"selfplay.mode": "service"},
        published=Published({88: 4.6, 90: 8.3, 91: 10.0}, 91.6),
    ),
    "retry": Variant("retry", changes=lambda _: {"selfplay.mode": "retry"}),
    "big-tree": Variant("big tree, c = 10", changes=lambda _: _big_tree(10.0)),
    "big-tree-3": Variant("big tree, c = 3", changes=lambda _: _big_tree(3.0)),
    "big-tree-30": Variant("big tree, c = 30", changes=lambda _: _big_tree(30.0)),
    "growing": Variant(
        "growing",
        changes=lambda _: {"growth.name": "reinitialise"},
        published=Published({88: 3.2, 90: 8.4, 91: 11.8}, 91.3),
    ),
    "net2net": Variant("widening", changes=lambda _: {"growth.name": "net2net"}),
    LEAGUE_BY_RESULTS: Variant(
        "league",
        changes=lambda _: _league("results"),
        published=Published({88: 5.8, 90: 11.4}, 90.8),
    ),
    LEAGUE_BY_NOVELTY: Variant("league by novelty", changes=lambda _: _league("novelty")),
    "league-novelty-winner": Variant(
        "league by novelty of winners", changes=lambda _: _league("novelty_of_winner")
    ),
    SMALL: Variant("small network", "connect4-small"),
    FEATURES: Variant(
        "auxiliary features",
        "connect4-features",
        published=Published({88: 6.8, 90: 16.0, 91: 27.0}, 91.1),
    ),
    "no-merging": Variant(
        "without merging", changes=lambda _: {"learn.merging": "none"}, is_ablation=True
    ),
    "no-cycle": Variant(
        "without cycle",
        changes=lambda lengths: {"learn.schedule": _slower(lengths.baseline["learn.schedule"])},
        is_ablation=True,
    ),
    "no-slow-window": Variant(
        "without slow window",
        changes=lambda lengths: {"learn.window": lengths.baseline["learn.window"]},
        is_ablation=True,
    ),
    "no-short-iterations": Variant(
        "without short iterations",
        changes=_longer_iterations,
        is_ablation=True,
    ),
    "no-reply": Variant(
        "without reply",
        changes=lambda _: {"network.heads": ["policy", {"name": "outcome", "weight": 0.01}]},
        is_ablation=True,
    ),
    "no-squeeze-excite": Variant(
        "without squeeze-and-excite",
        changes=lambda _: {"network.squeeze_excite": 0},
        is_ablation=True,
    ),
}
"""Training variants by level of the factor ``variant``."""


def _big_tree(c: float) -> Changes:
    return {"selfplay.mode": {"name": "big_tree", "c": c}}


def _league(fitness: str) -> Changes:
    return {
        "selfplay.mode": "episodic",
        "league.fitness": fitness,
        "league.parameters": ["c", "fpu", "draw_value", "threshold"],
    }


def _slower(schedule: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the baseline's learning-rate schedule to iterations of the extended version."""
    steps = [5 * iteration // 3 for iteration in schedule["iterations"]]
    return {**schedule, "iterations": steps}
