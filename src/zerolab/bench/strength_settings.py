"""Variants, settings and published curves of the strength benchmark.

Every variant trains for the same time, so a feature that takes time must be worth its cost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pydantic import Field, field_validator

from zerolab.core.config import Settings
from zerolab.core.errors import did_you_mean, quoted
from zerolab.rules.catalogue import canonical_game_name

PUBLISHED: Mapping[str, tuple[tuple[float, float], ...]] = {
    "[Clausen2021] baseline": ((6.7, 0.88), (12.0, 0.90)),
    "[Clausen2021] extended": ((5.3, 0.88), (10.4, 0.90), (13.1, 0.91)),
    "[Clausen2021] evaluation service": ((4.6, 0.88), (8.3, 0.90), (10.0, 0.91)),
    "[Clausen2021] growing network": ((3.2, 0.88), (8.4, 0.90), (11.8, 0.91)),
    "[Clausen2021] evolution": ((5.8, 0.88), (11.4, 0.90)),
    "[Clausen2021] auxiliary features": ((6.8, 0.88), (16.0, 0.90), (27.0, 0.91)),
}
"""Hours of self-play on one GPU (RTX 2070S), and the strong accuracy reached by then with 343
simulations on the hard Connect Four 6x7 test set. Hours exclude learning and the two hours spent
training the auxiliary features."""


PRESET = "strong"
"""Preset on which all variants are based."""


class StrengthVariant(NamedTuple):
    """Set of changes to the preset, with a description."""

    description: str
    changes: tuple[str, ...] = ()
    """Settings that differ from the preset, as ``a.b=c``."""


_PLAIN = (
    "search.discount=1.0",
    "search.proven_values=false",
    "selfplay.budget=fixed",
    "selfplay.random_opening_plies=0",
    "learn.value_target_search_weight=0.0",
    "learn.ema_decay=0.0",
    "learn.merging=none",
)
"""Settings that turn off the features of the preset that other variants measure one by one."""


def _plain_and(description: str, *changes: str) -> StrengthVariant:
    changed_keys = {change.partition("=")[0] for change in changes}
    unchanged = [each for each in _PLAIN if each.partition("=")[0] not in changed_keys]
    return StrengthVariant(description, (*unchanged, *changes))


VARIANTS: Mapping[str, StrengthVariant] = {
    "strong": StrengthVariant("the preset"),
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


class StrengthSettings(Settings):
    """Settings of the strength benchmark."""

    game: str = "connect_four:6x7"
    """Game to learn."""

    variants: tuple[str, ...] = ("plain", "strong")
    """Variants to compare."""

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
    """Changes for the test to the search settings used in training, as ``a.b=c``. A search for the
    best move uses no noise and needs less exploration."""

    changes: tuple[str, ...] = ()
    """Changes to the preset in all variants, as ``a.b=c``."""

    @field_validator("game")
    @classmethod
    def _known_game(cls, text: str) -> str:
        return canonical_game_name(text)

    @field_validator("variants")
    @classmethod
    def _known_variants(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if name not in VARIANTS:
                raise ValueError(
                    f"unknown variant {quoted(name)}: expected one of {', '.join(VARIANTS)}"
                    f"{did_you_mean(name, VARIANTS)}"
                )
        return tuple(dict.fromkeys(names))
