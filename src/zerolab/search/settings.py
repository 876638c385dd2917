"""The settings of a search; every docstring gives the papers' values."""

from __future__ import annotations

from pydantic import Field

from zerolab.core.config import Settings, choice_among
from zerolab.core.registry import import_modules, load_plugins
from zerolab.search.interface import FPU_SETTINGS, LEAF_EVALUATOR_SETTINGS, SELECTION_SETTINGS

import_modules("zerolab.search.selections")
import_modules("zerolab.search.leaf_evaluators")
import_modules("zerolab.search.fpu")
load_plugins("search")


class RootNoise(Settings):
    """Dirichlet noise in the priors of the root, drawn anew for every move."""

    fraction: float = Field(default=0.0, ge=0, le=1)
    """Share of the noise. W, H, L: 0. C: 0.25."""

    concentration: float = Field(default=10.0, gt=0)
    """Alpha times the number of legal actions. C: 20.38."""


class SearchSettings(Settings):
    """How a move is searched."""

    simulations: int = Field(default=100, ge=1, le=1_000_000)
    """m: simulations a move, each ending in a visit to a child of the root. W, H, L: 100
    (H sweeps 25 to 200); C: 343."""

    selection: choice_among(SELECTION_SETTINGS) = Field(  # type: ignore[valid-type]
        default_factory=SELECTION_SETTINGS["puct"]
    )
    """Which child to descend to. H, L: PUCT with c = 1; W: RAVE, too, in the first iterations."""

    fpu: choice_among(FPU_SETTINGS) = Field(  # type: ignore[valid-type]
        default_factory=FPU_SETTINGS["zero"]
    )
    """The value of children not yet visited. W, H, L: zero; C: fixed."""

    leaf_evaluator: choice_among(LEAF_EVALUATOR_SETTINGS) = Field(  # type: ignore[valid-type]
        default_factory=LEAF_EVALUATOR_SETTINGS["network"]
    )
    """The value of new leaves. H, L: the network's; W: playouts, too, in the first iterations."""

    noise: RootNoise = RootNoise()
    """Noise in the root's priors; none in W, H and L."""

    reuse_tree: bool = True
    """Keep the subtree of the move played. W, H, L: kept within an episode."""

    deduplicate: bool = True
    """Evaluate equal positions of a step once; exact (but for last bits, see decision 0002)."""

    cache: int = Field(default=1 << 16, ge=0, le=1 << 26)
    """Positions whose evaluations are kept until the network changes; 0 keeps none; exact."""


def mcts_settings(simulations: int) -> SearchSettings:
    """Return plain MCTS: UCT selection and random playouts, no network."""
    return _with_playouts(simulations, "uct")


def rave_settings(simulations: int) -> SearchSettings:
    """Return RAVE with random playouts, no network (FACTS 2, Table 5.1)."""
    return _with_playouts(simulations, "rave")


def _with_playouts(simulations: int, selection: str) -> SearchSettings:
    values = {"simulations": simulations, "selection": selection, "leaf_evaluator": "playout"}
    return SearchSettings.model_validate(values)
