"""Reproductions of bugs in published code that may have affected published results.

The bugs are reproduced only in studies of those results, by the code in this module. Each bug
changes data passed between the parts of a run. Games, examples and networks are stored as usual, so
a resumed run equals an uninterrupted one. docs/papers.md numbers the bugs and explains their
effects. Bug 2, which concerns the selection of tournament participants, is left to studies.
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
class EnabledBugs:
    """Enabled bugs and their effects on a run's data; if there are none, the data are correct."""

    names: Sequence[BugName] = ()

    def new_window(self, game: Game, learn: LearnSettings) -> Window:
        """Return an empty replay window.

        With ``mirrored_policy``, bug 1, images of a board are paired with the policy of the
        original board instead of the policy's image. [WangCode] has this bug in Connect Four, where
        the only other image is the mirrored board.
        """
        kind = _OriginalPolicyWindow if "mirrored_policy" in self.names else Window
        return kind(
            game, learn.window, learn.merging, has_sampling_weights=learn.surprise_weight > 0
        )

    def relabelled_examples(self, examples: Examples) -> Examples:
        """Return examples with the outcomes to learn.

        ``absolute_winner`` is bug 3. At the end of a game, [AZG] requests the result from the point
        of view of the player to move next, and negates it for positions of the other player. In
        2019, its Gobang returned the colour of the winner instead, with 1 for the first player. All
        outcomes of a game are therefore negated if the second player is to move at the end. In
        games that only the last mover can win, all positions of the first player are then labelled
        -1, and all positions of the second player 1. Draws and search values were correct.
        """
        if "absolute_winner" not in self.names:
            return examples
        first_is_next = (examples.plies + examples.plies_left) % 2 == 0
        return replace(
            examples, outcomes=np.where(first_is_next, examples.outcomes, -examples.outcomes)
        )

    def learner_settings(self, learn: LearnSettings) -> LearnSettings:
        """Return the settings for the learner.

        With ``fresh_optimizer``, bug 5, the learning rate is Adam's default, because the PyTorch
        networks of [AZG] do not pass the configured rate to Adam.
        """
        changes = {"learning_rate": _DEFAULT_RATE} if "fresh_optimizer" in self.names else {}
        return learn.model_copy(update=changes)

    def carried_optimizer_state(
        self, optimizer: Mapping[str, NDArray[Any]]
    ) -> dict[str, NDArray[Any]]:
        """Return the optimiser state with which the next iteration begins training.

        With ``fresh_optimizer``, bug 5, it is empty, because the PyTorch networks of [AZG] create a
        new Adam in every iteration.
        """
        return {} if "fresh_optimizer" in self.names else dict(optimizer)

    def relabelled_outcomes(
        self, outcomes: NDArray[np.int8], first_to_move: NDArray[np.bool_]
    ) -> NDArray[np.int8]:
        """Return the outcomes to learn for solved positions (``losses_as_draws``, bug 4)."""
        if "losses_as_draws" not in self.names:
            return outcomes
        return label_losses_as_draws(outcomes, first_to_move)


class _OriginalPolicyWindow(Window):
    """Window that pairs images of boards with the original boards' facts per action."""

    def _transformed_vectors(
        self, name: str, numbers: RowNumbers, symmetries: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        identity = np.zeros_like(symmetries)
        return super()._transformed_vectors(name, numbers, identity)


def check_published_bugs(
    names: Sequence[BugName], learn: LearnSettings, is_supervised: bool = False
) -> None:
    """Raise ValueError for settings that contradict a bug or deprive it of its effect."""
    for name in names:
        if (name == "losses_as_draws") != is_supervised and name in _LABEL_BUGS:
            source = "solved positions" if name == "losses_as_draws" else "self-play games"
            raise ValueError(f"{quoted(name)} affects only {source}, which this run does not use")
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{quoted(name)} is listed twice: expected each bug at most once")
    if "mirrored_policy" in names:
        if learn.symmetries == "none":
            raise ValueError(
                '"mirrored_policy" has no effect with learn.symmetries = "none": expected'
                ' learn.symmetries = "all" or "random"'
            )
        if learn.merging.merges_across_symmetries:
            raise ValueError(
                '"mirrored_policy" requires positions as they were played, but'
                " learn.merging.across_symmetries = true stores symmetric images: expected false"
            )
    if "fresh_optimizer" in names:
        required = {
            "learn.optimizer": (learn.optimizer.name, "adam"),
            "learn.schedule": (learn.schedule.name, "constant"),
            "learn.ema_decay": (learn.ema_decay, 0.0),
        }
        for key, (value, expected) in required.items():
            if value != expected:
                raise ValueError(
                    '"fresh_optimizer" creates a new Adam in every iteration, with a learning rate'
                    f" of {_DEFAULT_RATE}: expected {key} = {quoted(expected)}, not {quoted(value)}"
                )


def label_losses_as_draws(
    outcomes: NDArray[np.int8], first_to_move: NDArray[np.bool_]
) -> NDArray[np.int8]:
    """Return the labels of solved positions with bug 4, found in [ClausenCode].

    `outcomes`, int8[N], are the exact outcomes for the side to move: -1, 0 or 1. Losses are
    labelled as draws where `first_to_move`, bool[N], is True.
    """
    return np.where(first_to_move & (outcomes < 0), np.int8(0), outcomes)
