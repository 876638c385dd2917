"""Bugs of published code that may have shaped published results, switched on by name.

They are for studies of those results, are off by default, and are confined to this module. Each
acts where data pass from one part of a run to the next. Games, examples and networks are stored as
always, so that a resumed run equals an uninterrupted one. docs/papers.md numbers the bugs and
explains the effect of each. Number 2, the choice of who enters which tournament, is left to
studies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from zerolab.core.errors import quoted
from zerolab.replay.rows import RowNumbers
from zerolab.replay.window import Window
from zerolab.rules.rules import Game
from zerolab.store.examples import Examples
from zerolab.training.learn_settings import LearnSettings

BugName = Literal["mirrored_policy", "absolute_winner", "fresh_optimizer", "losses_as_draws"]

_LABEL_BUGS = ("absolute_winner", "losses_as_draws")

_DEFAULT_RATE = 0.001
"""The default learning rate of Adam [Kingma2015, Algorithm 1] and of torch."""


@dataclass(frozen=True)
class PublishedBugs:
    """The effects of a run's bugs on its data; without bugs, every method returns correct data."""

    names: Sequence[BugName] = ()

    def window(self, game: Game, learn: LearnSettings) -> Window:
        """Return the empty window of a run.

        ``mirrored_policy``, bug 1: the images of a board come with the policy of the board itself
        instead of the policy's image. [WangCode] has it in Connect Four, where the one image is the
        mirrored board.
        """
        kind = _UnturnedWindow if "mirrored_policy" in self.names else Window
        return kind(game, learn.window, learn.merging)

    def labelled(self, examples: Examples) -> Examples:
        """Return examples with the outcomes that are learnt.

        ``absolute_winner``, bug 3: at the end of a game, [AZG] asks for its result from the view of
        the player to move next, and negates it for the positions of the other player. In 2019, its
        Gobang answered with the winner's colour instead: 1 for the first player. So all outcomes of
        a game are negated if the second player would be to move at its end. In games that only the
        last mover can win, all positions of the first player are then labelled -1 and all those of
        the second player 1. Draws and the values expected by searches were right.
        """
        if "absolute_winner" not in self.names:
            return examples
        first_is_next = (examples.plies + examples.plies_left) % 2 == 0
        return replace(
            examples, outcomes=np.where(first_is_next, examples.outcomes, -examples.outcomes)
        )

    def learn_settings(self, learn: LearnSettings) -> LearnSettings:
        """Return the settings of the learner.

        ``fresh_optimizer``, bug 5: the PyTorch networks of [AZG] do not pass a learning rate to
        Adam, which uses its default.
        """
        changes = {"learning_rate": _DEFAULT_RATE} if "fresh_optimizer" in self.names else {}
        return learn.model_copy(update=changes)

    def carried_optimizer(self, optimizer: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Return the optimiser's state at the start of learning.

        ``fresh_optimizer``, bug 5: empty, as those networks create a new Adam in every iteration.
        """
        return {} if "fresh_optimizer" in self.names else dict(optimizer)

    def solved_outcomes(
        self, outcomes: NDArray[np.int8], first_to_move: NDArray[np.bool_]
    ) -> NDArray[np.int8]:
        """Return the outcomes of solved positions that are learnt (`losses_as_draws`)."""
        if "losses_as_draws" not in self.names:
            return outcomes
        return losses_as_draws(outcomes, first_to_move)


class _UnturnedWindow(Window):
    """A window that returns images of boards with the facts per action of the boards themselves."""

    def _transformed_vectors(
        self, name: str, numbers: RowNumbers, symmetries: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        identity = np.zeros_like(symmetries)
        return super()._transformed_vectors(name, numbers, identity)


def check_published_bugs(
    names: Sequence[BugName], learn: LearnSettings, is_supervised: bool = False
) -> None:
    """Raise ValueError for settings that contradict a bug or leave it without effect."""
    for name in names:
        if (name == "losses_as_draws") != is_supervised and name in _LABEL_BUGS:
            what = "solved positions" if name == "losses_as_draws" else "self-play games"
            raise ValueError(f"{quoted(name)} is a bug of labels of {what}: expected none here")
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{quoted(name)} is listed twice: expected every bug at most once")
    if "mirrored_policy" in names:
        if learn.symmetries == "none":
            raise ValueError(
                '"mirrored_policy" needs images of boards, and there are none with'
                ' learn.symmetries = "none": expected learn.symmetries = "all" or "random"'
            )
        if learn.merging.is_symmetric:
            raise ValueError(
                '"mirrored_policy" needs every position as it was played, and'
                " learn.merging.across_symmetries = true stores images: expected false"
            )
    if "fresh_optimizer" in names:
        unfit = {
            "learn.optimizer": (learn.optimizer.name, "adam"),
            "learn.schedule": (learn.schedule.name, "constant"),
            "learn.ema_decay": (learn.ema_decay, 0.0),
        }
        for key, (value, expected) in unfit.items():
            if value != expected:
                raise ValueError(
                    '"fresh_optimizer" creates a new Adam in every iteration, with a learning rate'
                    f" of {_DEFAULT_RATE}: expected {key} = {quoted(expected)}, not {quoted(value)}"
                )


def losses_as_draws(
    outcomes: NDArray[np.int8], first_to_move: NDArray[np.bool_]
) -> NDArray[np.int8]:
    """Return the labels of solved positions with bug 4, of [ClausenCode].

    `outcomes`, int8[N], are those of the movers under perfect play: -1, 0 or 1. Where the first
    player is to move, bool[N], a loss is labelled as a draw.
    """
    return np.where(first_to_move & (outcomes < 0), np.int8(0), outcomes)
