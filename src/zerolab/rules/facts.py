"""Facts about positions, from which heads compute their targets.

A search records `SearchFacts` of every move, the store keeps them as columns of examples, and
`Facts` adds those that follow from the rest of the game. A new fact of the search needs a field of
`SearchFacts`, a value in `Search.facts`, and a head whose target reads it: everything between
copies the columns that there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal, NamedTuple, Self, get_type_hints

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.floating[Any]]
"""float16 or float32."""


class ColumnForm(NamedTuple):
    """Type and shape of a column."""

    dtype: str
    """Type on disk."""
    per: Literal["position", "word", "action", "feature"]
    """Owners of the entries of a row; those per action turn with the position."""

    @property
    def axes(self) -> int:
        """Number of axes: 1 for one entry per position, else 2."""
        return 1 if self.per == "position" else 2


_ACTIONS_16 = ColumnForm("float16", "action")
_FEATURES_16 = ColumnForm("float16", "feature")
_NUMBER_16 = ColumnForm("float16", "position")
_NUMBER_32 = ColumnForm("float32", "position")


@dataclass(frozen=True, eq=False)
class ColumnTable:
    """Base of tables: columns of equal length, a row per position."""

    @classmethod
    def forms(cls) -> dict[str, ColumnForm]:
        """Return the forms of the columns, by name, with which the fields are annotated."""
        hints = get_type_hints(cls, include_extras=True)
        return {each.name: hints[each.name].__metadata__[0] for each in fields(cls)}

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return the columns by name."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def map(self, change: Callable[[NDArray[Any]], NDArray[Any]]) -> Self:
        """Return a table whose columns a function has changed."""
        return type(self)(**{name: change(each) for name, each in self.columns().items()})

    def rows(self, rows: Any) -> Self:
        """Return some rows, by any index of numpy; copies, except for slices."""
        return self.map(lambda each: each[rows])

    @classmethod
    def unknown(cls, count: int, actions: int) -> dict[str, NDArray[Any]]:
        """Return columns of NaN by name, in their types on disk; those of features are empty."""
        widths = {"action": (actions,), "feature": (0,), "position": ()}
        return {
            name: np.full((count, *widths[form.per]), np.nan, form.dtype)
            for name, form in cls.forms().items()
        }

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        """Return the rows of all parts."""
        names = [each.name for each in fields(cls)]
        return cls(**{
            name: np.concatenate([getattr(part, name) for part in parts]) for name in names
        })  # fmt: skip


@dataclass(frozen=True, eq=False)
class SearchFacts(ColumnTable):
    """Facts that a search records about a position.

    They are float32 from the search, float16 in examples and in the window.
    """

    policies: Annotated[Numbers, _ACTIONS_16]
    """[N, actions]: the policy recommended by the search, such as the shares of the visits."""
    root_values: Annotated[Numbers, _NUMBER_16]
    """[N]: the mover's expected outcome; NaN where there was no search, as for random plies by the
    search service."""
    root_draws: Annotated[Numbers, _NUMBER_16]
    """[N]: the probability of a draw; NaN where the search kept none."""
    action_values: Annotated[Numbers, _ACTIONS_16]
    """[N, actions]: the mover's expected outcome by action; NaN where not searched."""


@dataclass(frozen=True, eq=False)
class Facts(SearchFacts):
    """All facts about positions.

    Where a position stands for several, a column holds their weighted mean. Vector columns are
    float16 in the window and float32 in batches; they are empty, [N, 0], where no head needs them.
    All others are float32.
    """

    replies: Annotated[Numbers, _ACTIONS_16]
    """[N, actions]: the policy of the opponent's next search; NaN where there is none."""
    moves: Annotated[Numbers, _ACTIONS_16]
    """[N, actions]: 1 at the action that was played."""
    features: Annotated[Numbers, _FEATURES_16]
    """[N, features]: another network's features of the position and of later ones of its game; NaN
    where the game was over. They do not turn with the position."""
    values: Annotated[Numbers, _NUMBER_32]
    """[N]: the outcome for the mover, discounted by the plies to it."""
    draws: Annotated[Numbers, _NUMBER_32]
    """[N]: the probability of a draw; what the discount takes off a win or loss counts as one."""
    plies_left: Annotated[Numbers, _NUMBER_32]
    """[N]: plies to the end of the game."""
    plies: Annotated[Numbers, _NUMBER_32]
    """[N]: plies played before, counted from 0."""


ACTION_COLUMNS = tuple(name for name, form in Facts.forms().items() if form.per == "action")
"""Columns with an entry per action, which turn with the position."""

VECTOR_COLUMNS = tuple(name for name, form in Facts.forms().items() if form.axes == 2)
"""Columns with several entries per position."""
