"""What a kind of player is. A new kind is one new file in `agents/kinds`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from zerolab.arena.players import Entrant
from zerolab.core.registry import Registry
from zerolab.rules.interface import Game
from zerolab.search.interface import Evaluator


@dataclass(frozen=True, kw_only=True)
class Agent(Entrant):
    """A player that was named on a command line; `name` says in full what it is."""

    game: Game
    identity: str
    """Equal for equal players, different where a run of the same name was trained otherwise."""
    evaluator: Callable[[], Evaluator] | None = None
    """Loads its network, if it has one."""


class Kind(Protocol):
    """A way to name players; `argument` is what follows the kind's name and its colon."""

    form: str
    """How such players are written, such as ``mcts:N``."""

    def game(self, argument: str) -> Game | None:
        """Return the game that such a player brings with it; None if it plays any."""
        ...

    def agent(self, argument: str, game: Game) -> Agent:
        """Return the player; raise UserError for every mistake in `argument`."""
        ...


KINDS: Registry[Kind] = Registry("kind of player")
