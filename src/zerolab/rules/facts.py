"""Facts about positions, from which network heads compute their targets.

A search records `SearchFacts` for every move, and the store saves them as columns of examples.
`Facts` adds the facts that follow from the rest of the game. docs/architecture.md lists the changes
that a new fact requires.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal, NamedTuple, Self, get_type_hints

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.floating[Any]]
"""Array of float16 or float32."""


class ColumnForm(NamedTuple):
    """Type and shape of a column."""

    dtype: str
    """Type on disk."""
    entry_per: Literal["position", "word", "action", "feature"]
    """Unit of one entry: a row has a single entry, or one per word, action or feature.

    Symmetries also permute the entries per action.
    """
    is_optional: bool = False
    """True if files omit the column when all its values are NaN."""

    @property
    def axis_count(self) -> int:
        """Number of axes: 1 for columns with one entry per position, otherwise 2."""
        return 1 if self.entry_per == "position" else 2


_ACTIONS_16 = ColumnForm("float16", "action")
_FEATURES_16 = ColumnForm("float16", "feature")
_NUMBER_16 = ColumnForm("float16", "position")
_OPTIONAL_16 = ColumnForm("float16", "position", is_optional=True)
_NUMBER_32 = ColumnForm("float32", "position")


@dataclass(frozen=True, eq=False)
class ColumnTable:
    """Base class of tables with columns of equal length and one row per position."""

    @classmethod
    def column_forms(cls) -> dict[str, ColumnForm]:
        """Return the form of each column, from its annotation, by name."""
        hints = get_type_hints(cls, include_extras=True)
        return {each.name: hints[each.name].__metadata__[0] for each in fields(cls)}

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return the columns by name."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def map_columns(self, change: Callable[[NDArray[Any]], NDArray[Any]]) -> Self:
        """Return a table with a function applied to every column."""
        return type(self)(**{name: change(each) for name, each in self.columns().items()})

    def take(self, index: Any) -> Self:
        """Return the rows at a numpy index; slices are views, other indices make copies."""
        return self.map_columns(lambda each: each[index])

    @classmethod
    def nan_columns(cls, row_count: int, action_count: int) -> dict[str, NDArray[Any]]:
        """Return columns of NaN with `row_count` rows, by name, with their types on disk.

        Feature columns are empty, [row_count, 0].
        """
        widths = {"action": (action_count,), "feature": (0,), "position": ()}
        return {
            name: np.full((row_count, *widths[form.entry_per]), np.nan, form.dtype)
            for name, form in cls.column_forms().items()
        }

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        """Return a table with the rows of all parts, in order."""
        names = [each.name for each in fields(cls)]
        return cls(**{
            name: np.concatenate([getattr(part, name) for part in parts]) for name in names
        })  # fmt: skip


@dataclass(frozen=True, eq=False)
class SearchFacts(ColumnTable):
    """Facts that a search records about positions.

    The search returns float32; examples have the annotated types.
    """

    policies: Annotated[FloatArray, _ACTIONS_16]
    """[N, actions]: policy recommended by the search, such as the visit distribution."""
    root_values: Annotated[FloatArray, _NUMBER_16]
    """[N]: expected outcome for the mover; NaN for plies that `selfplay.start` copies and, in modes
    with a service, for random plies."""
    root_draws: Annotated[FloatArray, _NUMBER_16]
    """[N]: probability of a draw; NaN if the search did not estimate it."""
    action_values: Annotated[FloatArray, _ACTIONS_16]
    """[N, actions]: expected outcome for the mover by action; NaN for actions not searched."""
    surprises: Annotated[FloatArray, _OPTIONAL_16]
    """[N]: divergence of the policy from the priors (`policy_surprises`); NaN if not recorded."""


@dataclass(frozen=True, eq=False)
class Facts(SearchFacts):
    """All facts about positions.

    If a row represents several merged positions, it contains their weighted means. Vector columns
    are float16 in the replay window and float32 in batches, or empty, [N, 0], if no head uses them.
    All other columns are float32.
    """

    reply_policies: Annotated[FloatArray, _ACTIONS_16]
    """[N, actions]: policy of the opponent's next search; NaN if there is none."""
    played_actions: Annotated[FloatArray, _ACTIONS_16]
    """[N, actions]: one-hot encoding of the played action."""
    features: Annotated[FloatArray, _FEATURES_16]
    """[N, features]: another network's features of this position and of later ones in the game.

    NaN after the end of the game. Symmetries do not change features.
    """
    values: Annotated[FloatArray, _NUMBER_32]
    """[N]: outcome for the mover, discounted by the number of plies until the end of the game."""
    draws: Annotated[FloatArray, _NUMBER_32]
    """[N]: probability of a draw, plus the amount by which discounting reduces a win or loss."""
    plies_left: Annotated[FloatArray, _NUMBER_32]
    """[N]: number of plies until the end of the game."""
    plies: Annotated[FloatArray, _NUMBER_32]
    """[N]: number of plies played before this position."""
    sampling_weights: Annotated[FloatArray, _NUMBER_32]
    """[N]: relative frequency of use in training; 1 on average over an iteration."""


ACTION_COLUMN_NAMES = tuple(
    name for name, form in Facts.column_forms().items() if form.entry_per == "action"
)
"""Names of the columns with one entry per action, which symmetries permute."""

VECTOR_COLUMN_NAMES = tuple(
    name for name, form in Facts.column_forms().items() if form.axis_count == 2
)
"""Names of the columns with several entries per position."""

_MIN_PRIOR = 1e-6
"""Lower limit of policies and priors in ratios, which limits surprises to 13.8 nats."""


def policy_surprises(policies: FloatArray, priors: FloatArray) -> NDArray[np.float32]:
    """Return D_KL(policy || priors) = sum_a pi(a) * ln(pi(a) / p(a)) in nats, float32[N].

    Policies and priors are distributions, [N, actions].
    """
    ratios = np.maximum(policies, _MIN_PRIOR) / np.maximum(priors, _MIN_PRIOR)
    surprises: NDArray[np.float32] = (policies * np.log(ratios)).sum(axis=1)
    return np.maximum(surprises, 0)  # rounding can make divergences negative
