"""What an agent is: someone who plays, named by a spec, who makes players of many games at once.

A new kind of agent is one new file in `agents/kinds`, or a module of another package that a plug-in
entry point names (see `core.registry`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from zerolab.core.registry import Registry
from zerolab.rules.interface import Game
from zerolab.search.interface import Evaluator

FORFEIT = -1
"""Chosen in place of an action by a player that gives a game up, such as a program that crashed."""


class Player(Protocol):
    """Chooses moves in a batch of games, each in a slot of its own.

    A player is told every move of its games, those of an opening, its own and the opponent's,
    through `advance`. Slots are independent: their games may be at different plies.
    """

    name: str

    def start(self, games: int) -> None:
        """Forget all games and begin as many new ones, in the slots 0..games-1."""
        ...

    def reset(self, slots: NDArray[np.int64]) -> None:
        """Begin new games, from the first position, in some slots."""
        ...

    def choose(
        self, slots: NDArray[np.int64], states: NDArray[np.uint64], keys: NDArray[np.uint64]
    ) -> NDArray[np.int64]:
        """Return legal actions int64[n], or FORFEIT, in ongoing states uint64[n, words].

        `keys` are random streams uint64[n], different for every game, ply and match.
        """
        ...

    def advance(self, slots: NDArray[np.int64], actions: NDArray[np.int64]) -> None:
        """Take note of moves int64[n] just played in some slots."""
        ...


@runtime_checkable
class AsyncPlayer(Player, Protocol):
    """A player that accepts new games while it is still searching others.

    So the batches that a network evaluates stay large, and a thread can be stopped between two of
    them. A slot that has been submitted is not submitted again until it is decided.
    """

    def submit(
        self, slots: NDArray[np.int64], states: NDArray[np.uint64], keys: NDArray[np.uint64]
    ) -> None:
        """Start to search a move in some slots; the arguments are those of `choose`."""
        ...

    def poll(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Search one step; return the slots decided in it and their actions, int64[n] each."""
        ...


@runtime_checkable
class Closable(Protocol):
    """A player that holds what outlives its games, such as a process."""

    def close(self) -> None:
        """Release it; called when its games are over."""
        ...


class StatelessPlayer:
    """Base of players that look at the position alone."""

    def start(self, games: int) -> None:
        """See `Player.start`; there is nothing to forget."""

    def reset(self, slots: NDArray[np.int64]) -> None:
        """See `Player.reset`."""

    def advance(self, slots: NDArray[np.int64], actions: NDArray[np.int64]) -> None:
        """See `Player.advance`; there is nothing to note."""


@dataclass(frozen=True)
class Agent:
    """Someone who plays: `name` says in full what it is, `new_player` makes a player for a thread.

    Players made by one agent play alike and may share what they only read, such as a network.
    """

    name: str
    """The canonical spec, from which `specs.parse_agent` makes an equal agent."""
    new_player: Callable[[], Player]
    slot_bytes: int = 0
    """About how much memory a player needs for each of its slots."""
    max_games: int = 1 << 30
    """How many games a player can hold at once."""
    game: Game = None
    identity: str = ""
    """Equal for equal agents, different where a run of the same name was trained otherwise."""
    evaluator: Callable[[], Evaluator] | None = None
    """Loads its network, if it has one."""


class AgentKind(Protocol):
    """A way to name agents; `argument` is what follows the kind's name and its colon."""

    form: str
    """How such agents are written, such as ``mcts:N``."""

    def game(self, argument: str) -> Game | None:
        """Return the game that such an agent brings with it; None if it plays any."""
        ...

    def agent(self, argument: str, game: Game) -> Agent:
        """Return the agent; raise UserError for every mistake in `argument`."""
        ...


AGENT_KINDS: Registry[AgentKind] = Registry("kind of agent")
