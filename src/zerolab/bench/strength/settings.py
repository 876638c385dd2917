"""The settings of the strength benchmark."""

from __future__ import annotations

from pydantic import Field, field_validator

from zerolab.bench.strength.variants import VARIANTS
from zerolab.core.config import Settings
from zerolab.core.errors import nearest, quoted
from zerolab.rules.catalogue import known_game


class StrengthSettings(Settings):
    """What is trained for how long, and how its strength is measured."""

    game: str = "connect_four:6x7"
    """What to learn."""

    variants: tuple[str, ...] = ("plain", "strong")
    """What to compare; see `variants.VARIANTS`."""

    seeds: int = Field(default=2, ge=1, le=1000)
    """Runs per variant."""

    hours: float = Field(default=0.5, gt=0, le=1000)
    """Wall clock per run: self-play, learning and gates, not the measurements."""

    every: float = Field(default=0.1, gt=0)
    """Hours between two measurements of a run."""

    positions: int = Field(default=1200, ge=10, le=10_000_000)
    """Solved positions that strength is measured on: one per game, half of the moves before it
    perfect, as in the hard test set of [Clausen2021]."""

    simulations: int = Field(default=343, ge=1, le=1_000_000)
    """Simulations per move at the test. [Clausen2021]: 343."""

    test_search: tuple[str, ...] = ("root=puct", "selection.c=0.5")
    """Settings of the search at the test that differ from training's, as ``a.b=c``: a search
    without noise that looks for the best move wants less exploration."""

    changes: tuple[str, ...] = ()
    """Settings that differ from the preset's in all variants, as ``a.b=c``."""

    @field_validator("game")
    @classmethod
    def _known_game(cls, text: str) -> str:
        return known_game(text)

    @field_validator("variants")
    @classmethod
    def _known_variants(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if name not in VARIANTS:
                raise ValueError(
                    f"unknown variant {quoted(name)}: expected some of {', '.join(VARIANTS)}"
                    f"{nearest(name, VARIANTS)}"
                )
        return tuple(dict.fromkeys(names))
