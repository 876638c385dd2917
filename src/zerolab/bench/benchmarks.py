"""Suites of the speed benchmark, and variants of the strength benchmark.

All variants train for the same amount of time, so a feature that takes time must be worth its cost.
"""

from __future__ import annotations

import importlib
import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, NamedTuple

from pydantic import Field, field_validator

from zerolab.core.config import Settings
from zerolab.core.errors import did_you_mean, quoted
from zerolab.rules.catalogue import canonical_game_name
from zerolab.training.shorthands import preset_names, preset_title

GAMES = ("connect_four:6x7", "othello:6x6", "gobang:6x6")

WorkFunction = Callable[[], float]
"""Function that does some work and returns the number of units of work."""


@dataclass(frozen=True)
class BenchmarkResult:
    """Median rate, time or memory of a subject, and of the limit with which it is compared.

    A limit is either a bound set by the machine or another way to do the same work; `limit_of`
    describes it.
    """

    name: str
    unit: str
    """Unit of `median` and `limit_median`, such as ``simulations/s``, ``s`` or ``MiB``."""
    median: float
    """Median of the subject over the rounds."""
    limit_median: float
    """Median of the limit over the rounds."""
    limit_of: str
    """Description of the limit."""
    time_shares: dict[str, float] = field(default_factory=dict)
    """Share of the subject's time by part, in [0, 1]."""
    note: str = ""
    """Additional remarks."""

    @property
    def ratio(self) -> float:
        """Median of the subject divided by that of the limit; it can exceed 1.

        Higher is better for rates, lower for times and memory.
        """
        return self.median / self.limit_median

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON, rounded to a reproducible precision."""
        entry = {
            "name": self.name,
            "unit": self.unit,
            "median": float(f"{self.median:.4g}"),
            "limit": float(f"{self.limit_median:.4g}"),
            "ratio": round(self.ratio, 3),
            "limit_of": self.limit_of,
        }
        shares = {part: round(share, 3) for part, share in self.time_shares.items()}
        note = {"note": self.note} if self.note else {}
        return entry | ({"shares": shares} if shares else {}) | note


def measure_rate(work: WorkFunction) -> float:
    """Do some work and return the units of work per second."""
    began = perf_counter()
    units = work()
    return units / (perf_counter() - began)


def measure_median_rates(
    subject: WorkFunction, limit: WorkFunction, rounds: int
) -> tuple[float, float]:
    """Return the median rates of subject and limit, in units per second, after a warm-up.

    Subject and limit alternate, so that noise from the machine affects both equally.
    """
    subject()
    limit()
    limits, subjects = [], []
    for _ in range(rounds):
        limits.append(measure_rate(limit))
        subjects.append(measure_rate(subject))
    return statistics.median(subjects), statistics.median(limits)


SUITES = {
    "tree": "kernels:measure_tree_search",
    "playout": "kernels:measure_playouts",
    "solve": "kernels:measure_solving",
    "selfplay": "selfplay:measure_self_play",
    "service": "selfplay:measure_search_service",
    "single-root": "selfplay:measure_single_root",
    "warm-start": "selfplay:measure_warm_start",
    "replay": "learning:measure_replay_window",
    "learn": "learning:measure_learning",
    "heads": "learning:measure_convolutional_heads",
    "train": "learning:measure_complete_run",
    "tournament": "tournaments:measure_tournament",
    "league": "tournaments:measure_league",
    "int8": "learning:measure_int8",
    "startup": "programs:measure_startup",
    "memory": "programs:measure_memory",
    "web": "programs:measure_web_server",
    "studies": "programs:measure_study_workers",
    "cluster": "tournaments:measure_cluster",
}
"""Module in zerolab.bench and its function, as ``MODULE:FUNCTION``, by suite name."""


def run_suite(suite: str, rounds: int) -> Iterator[BenchmarkResult]:
    """Yield the results of a suite, measured in `rounds` rounds."""
    module, _, function = SUITES[suite].partition(":")
    measure: Callable[[int], Iterator[BenchmarkResult]]
    measure = getattr(importlib.import_module(f"zerolab.bench.{module}"), function)
    return measure(rounds)


PUBLISHED_ACCURACY: Mapping[str, tuple[tuple[float, float], ...]] = {
    "[Clausen2021] baseline": ((6.7, 0.88), (12.0, 0.90)),
    "[Clausen2021] extended": ((5.3, 0.88), (10.4, 0.90), (13.1, 0.91)),
    "[Clausen2021] evaluation service": ((4.6, 0.88), (8.3, 0.90), (10.0, 0.91)),
    "[Clausen2021] growing network": ((3.2, 0.88), (8.4, 0.90), (11.8, 0.91)),
    "[Clausen2021] evolution": ((5.8, 0.88), (11.4, 0.90)),
    "[Clausen2021] auxiliary features": ((6.8, 0.88), (16.0, 0.90), (27.0, 0.91)),
}
"""Hours of self-play on one GPU (RTX 2070S), and the strong accuracy reached by then with 343
simulations on the hard Connect Four 6x7 test set. Hours exclude learning and the two hours spent
training the small network that provides the auxiliary features."""


class StrengthVariant(NamedTuple):
    """Changes to a preset, with a description."""

    description: str
    changes: tuple[str, ...] = ()
    """Settings that differ from the preset, as ``a.b=c``."""
    preset: str = "strong"
    """Preset on which the variant is based."""


_PLAIN = (
    "search.discount=1.0",
    "search.proven_values=false",
    "selfplay.budget=fixed",
    "selfplay.random_opening_plies=0",
    "learn.value_target_search_weight=0.0",
    "learn.ema_decay=0.0",
    "learn.merging=none",
)
"""Settings that turn off the features of `strong` that other variants measure separately."""


def _plain_and(description: str, *changes: str) -> StrengthVariant:
    changed_keys = {change.partition("=")[0] for change in changes}
    unchanged = [each for each in _PLAIN if each.partition("=")[0] not in changed_keys]
    return StrengthVariant(description, (*unchanged, *changes))


STRENGTH_VARIANTS: Mapping[str, StrengthVariant] = {
    "strong": StrengthVariant("the strong preset"),
    "plain": _plain_and("the outcome as value target, none of the features below"),
    "discount": _plain_and("plain, values discounted by 0.97 per ply", "search.discount=0.97"),
    "root-value": _plain_and(
        "plain, root values with weight 0.5 in value targets",
        "learn.value_target_search_weight=0.5",
    ),
    "proven": _plain_and("plain, proven values", "search.proven_values=true"),
    "average": _plain_and("plain, weights averaged", "learn.ema_decay=0.9995"),
    "merging": _plain_and(
        "plain, equal positions merged", "learn.merging={name='newest', across_symmetries=true}"
    ),
    "random-plies": _plain_and(
        "plain, games begin with up to 8 random plies", "selfplay.random_opening_plies=8"
    ),
    "playout_cap": _plain_and(
        "plain, playout caps",
        "selfplay.budget={name='playout_cap', share=0.25, simulations=20}",
        "search.simulations=160",
    ),
    "gumbel": _plain_and(
        "plain, Gumbel roots with 24 simulations",
        "search.root={name='gumbel', value_scale=0.25}",
        "search.noise.fraction=0.0",
        "search.simulations=24",
    ),
}


def strength_variant(name: str) -> StrengthVariant:
    """Return one of `STRENGTH_VARIANTS` or, for another name, the preset of that name unchanged."""
    return STRENGTH_VARIANTS.get(name) or StrengthVariant(preset_title(name), preset=name)


class StrengthSettings(Settings):
    """Settings of the strength benchmark."""

    game: str = "connect_four:6x7"
    """Game to learn."""

    variants: tuple[str, ...] = ("plain", "strong")
    """Variants to compare: names in `STRENGTH_VARIANTS` or names of presets."""

    seeds: int = Field(default=2, ge=1, le=1000)
    """Runs per variant."""

    hours: float = Field(default=0.5, gt=0, le=1000)
    """Wall-clock hours per run, including self-play, learning and gates but not measurements."""

    every: float = Field(default=0.1, gt=0)
    """Hours of training between measurements of a run."""

    positions: int = Field(default=1200, ge=10, le=10_000_000)
    """Number of solved test positions. Each is from a different game in which half of the moves
    are perfect, as in the hard test set of [Clausen2021]."""

    simulations: int = Field(default=343, ge=1, le=1_000_000)
    """Simulations per move in the test. [Clausen2021]: 343."""

    test_search: tuple[str, ...] = ("root=puct", "selection.c=0.5")
    """Changes to the search settings of training, for the test only, as ``a.b=c``. A search for the
    best move uses no noise and needs less exploration."""

    changes: tuple[str, ...] = ()
    """Changes to the presets in all variants, as ``a.b=c``."""

    @field_validator("game")
    @classmethod
    def _known_game(cls, text: str) -> str:
        return canonical_game_name(text)

    @field_validator("variants")
    @classmethod
    def _known_variants(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        known = [*STRENGTH_VARIANTS, *(name for name in preset_names() if name != "supervised")]
        for name in names:
            if name not in known:
                raise ValueError(
                    f"unknown variant {quoted(name)}: expected a preset or one of"
                    f" {', '.join(STRENGTH_VARIANTS)}{did_you_mean(name, known)}"
                )
        return tuple(dict.fromkeys(names))
