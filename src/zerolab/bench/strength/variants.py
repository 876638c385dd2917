"""What is compared: the preset `strong`, and that preset without its pieces but for one.

Every variant trains for the same time, so that a piece which costs time has to earn it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

PRESET = "strong"
"""What all variants start from."""


class Variant(NamedTuple):
    """One way to train."""

    about: str
    """What it is, in a few words."""
    changes: tuple[str, ...] = ()
    """Settings that differ from the preset's, as ``a.b=c``."""


_PLAIN = (
    "search.discount=1.0",
    "search.proven_values=false",
    "selfplay.budget=fixed",
    "selfplay.random_plies=0",
    "learn.root_value_weight=0.0",
    "learn.average=0.0",
    "learn.merging=none",
)
"""The preset without any of the pieces that are measured one by one."""


def _plain_and(about: str, *changes: str) -> Variant:
    kept = {change.partition("=")[0] for change in changes}
    return Variant(
        about, (*(each for each in _PLAIN if each.partition("=")[0] not in kept), *changes)
    )


VARIANTS: Mapping[str, Variant] = {
    "strong": Variant("the preset"),
    "plain": _plain_and("the outcome as target, none of the pieces below"),
    "discount": _plain_and("plain, values discounted by 0.97 per ply", "search.discount=0.97"),
    "root-value": _plain_and("plain, targets half root value", "learn.root_value_weight=0.5"),
    "proven": _plain_and("plain, proven values", "search.proven_values=true"),
    "average": _plain_and("plain, weights averaged", "learn.average=0.9995"),
    "merging": _plain_and(
        "plain, equal positions merged", "learn.merging={name='newest', across_symmetries=true}"
    ),
    "random-plies": _plain_and(
        "plain, games begin with up to 8 random plies", "selfplay.random_plies=8"
    ),
    "caps": _plain_and(
        "plain, playout caps",
        "selfplay.budget={name='caps', share=0.25, simulations=20}",
        "search.simulations=160",
    ),
    "gumbel": _plain_and(
        "plain, Gumbel roots with 24 simulations",
        "search.root={name='gumbel', value_scale=0.25}",
        "search.noise.fraction=0.0",
        "search.simulations=24",
    ),
}
