"""Bugs of published code that may have shaped published results, switched on by name.

They are for studies of these results alone: off by default, and confined to this module. Each acts
where a run's data pass from one part to the next. Games, examples and networks are stored as they
always are, so that a resumed run is the one that was interrupted. docs/papers.md numbers the
defects and says what each may have done; number 2, who entered which tournament, is up to a study.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from zerolab.core.errors import quoted
from zerolab.replay.rows import Slots
from zerolab.replay.window import Window
from zerolab.rules.facts import Numbers
from zerolab.rules.rules import Game
from zerolab.store.examples import Examples

if TYPE_CHECKING:
    from zerolab.training.learn_settings import LearnSettings


BugName = Literal["mirrored_policy", "absolute_winner", "fresh_optimizer", "losses_as_draws"]

_OF_LABELS = ("absolute_winner", "losses_as_draws")

_DEFAULT_RATE = 0.001
"""The learning rate of Adam [Kingma2015, Algorithm 1] and of torch, where none is given."""


@dataclass(frozen=True)
class PublishedBugs:
    """What a run's defects do to its data; without any, each method returns what is right."""

    names: Sequence[BugName] = ()

    def window(self, game: Game, learn: LearnSettings) -> Window:
        """Return the empty window of a run.

        ``mirrored_policy``, defect 1: the images of a board come with its own policy, not with the
        policy's image. [WangCode] does so in Connect Four, whose one image is the mirrored board.
        """
        kind = _UnturnedWindow if "mirrored_policy" in self.names else Window
        return kind(game, learn.window, learn.merging)

    def labelled(self, examples: Examples) -> Examples:
        """Return examples with the outcomes that are learnt from.

        ``absolute_winner``, defect 3: [AZG] asks, once a game is over, for its result as the
        player to move next sees it, and negates that for the positions of the other player. Gobang
        answered, in 2019, with the winner's colour: 1 for the first player. So all outcomes of a
        game are negated if the second player would be to move at its end. In games that only the
        last mover can win, first players' positions are then labelled -1 whoever won, and second
        players' 1. Draws stay, and what searches expected was right.
        """
        if "absolute_winner" not in self.names:
            return examples
        first_is_next = (examples.plies + examples.plies_left) % 2 == 0
        return examples._replace(
            outcomes=np.where(first_is_next, examples.outcomes, -examples.outcomes)
        )

    def learning(self, learn: LearnSettings) -> LearnSettings:
        """Return the settings that the learner gets.

        ``fresh_optimizer``, defect 5: the networks of [AZG] that use PyTorch give Adam no learning
        rate, so that it takes its own.
        """
        changes = {"learning_rate": _DEFAULT_RATE} if "fresh_optimizer" in self.names else {}
        return learn.model_copy(update=changes)

    def carried(self, optimizer: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Return the state of the optimiser with which an iteration's learning begins.

        ``fresh_optimizer``, defect 5: none, as the same networks make a new Adam every time.
        """
        return {} if "fresh_optimizer" in self.names else dict(optimizer)

    def solved_outcomes(
        self, outcomes: NDArray[np.int8], first_to_move: NDArray[np.bool_]
    ) -> NDArray[np.int8]:
        """Return the outcomes of solved positions that are learnt from; see `losses_as_draws`."""
        if "losses_as_draws" not in self.names:
            return outcomes
        return losses_as_draws(outcomes, first_to_move)


class _UnturnedWindow(Window):
    """A window that shows the images of boards, but facts per action as they were stored."""

    def _turned(self, name: str, slots: Slots, images: NDArray[np.int64]) -> Numbers:
        return super()._turned(name, slots, np.zeros_like(images))  # symmetry 0 is the identity


def check_published_bugs(
    names: Sequence[BugName], learn: LearnSettings, is_supervised: bool = False
) -> None:
    """Raise ValueError where a run's settings leave a defect nothing to do, or contradict it."""
    for name in names:
        if (name == "losses_as_draws") != is_supervised and name in _OF_LABELS:
            what = "solved positions" if name == "losses_as_draws" else "games of one's own"
            raise ValueError(f"{quoted(name)} is a defect of labels of {what}: expected none here")
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{quoted(name)} is there twice: expected every defect once")
    if "mirrored_policy" in names:
        if learn.symmetries == "none":
            raise ValueError(
                '"mirrored_policy" needs images of boards, and learn.symmetries = "none" shows'
                ' none: expected learn.symmetries = "all" or "random"'
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
            "learn.average": (learn.average, 0.0),
        }
        for key, (value, expected) in unfit.items():
            if value != expected:
                raise ValueError(
                    '"fresh_optimizer" makes Adam anew in every iteration, with a rate of'
                    f" {_DEFAULT_RATE}: expected {key} = {quoted(expected)}, not {quoted(value)}"
                )


def losses_as_draws(
    outcomes: NDArray[np.int8], first_to_move: NDArray[np.bool_]
) -> NDArray[np.int8]:
    """Return the labels of solved positions with defect 4, that of [ClausenCode].

    `outcomes`, int8[N], are the movers' under perfect play: -1, 0 or 1. A loss for the first
    player, where that is the mover, bool[N], is encoded as a draw.
    """
    return np.where(first_to_move & (outcomes < 0), np.int8(0), outcomes)
