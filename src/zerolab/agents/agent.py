"""Agents, and the players that move for them.

A spec such as ``mcts:100`` names an agent. An agent makes players, one per thread, each of which
plays many games at once. A new kind of agent is one new file in `agents/kinds`, or a module of
another package that a plug-in entry point names (see `core.registry`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from zerolab.core.config import Settings
from zerolab.core.registry import Registry
from zerolab.networks.network_settings import NetworkSettings
from zerolab.rules.catalogue import game_name
from zerolab.rules.rules import Game
from zerolab.search.evaluator import Evaluation, Evaluator, ExtraOutput

FORFEIT = -1
"""Returned in place of an action by a player that gives up, such as a program that crashed."""

Slots = NDArray[np.int64]
"""int64[n]: which of a player's games; a player holds each of its games in a slot."""
Actions = NDArray[np.int64]
"""int64[n]: an action per slot."""


class Player(Protocol):
    """Chooses moves in a batch of games, each in a slot of its own.

    A player is told every move of its games, those of an opening, its own and the opponent's,
    through `advance`. Slots are independent: their games may be at different plies.
    """

    name: str

    def start(self, games: int) -> None:
        """Forget all games and begin as many new ones, in the slots 0 to games - 1."""
        ...

    def reset(self, slots: Slots) -> None:
        """Begin new games, from the first position, in some slots."""
        ...

    def choose(self, slots: Slots, states: NDArray[np.uint64], keys: NDArray[np.uint64]) -> Actions:
        """Return legal actions, or FORFEIT, in ongoing states uint64[n, words].

        `keys` are random streams uint64[n], different for every game, ply and match.
        """
        ...

    def advance(self, slots: Slots, actions: Actions) -> None:
        """Follow the moves just played in some slots."""
        ...


@runtime_checkable
class AsyncPlayer(Player, Protocol):
    """A player that accepts new games while it is still searching others.

    So the batches that a network evaluates stay large, and a thread can be stopped between two of
    them. A slot that has been submitted is not submitted again until it is decided.
    """

    def submit(self, slots: Slots, states: NDArray[np.uint64], keys: NDArray[np.uint64]) -> None:
        """Start to search a move in some slots; the arguments are those of `choose`."""
        ...

    def poll(self) -> tuple[Slots, Actions]:
        """Search one step; return the slots decided in it and their actions."""
        ...


@runtime_checkable
class LeafPlayer(AsyncPlayer, Protocol):
    """An asynchronous player whose leaves somebody else may evaluate.

    Players with one evaluator can so share its batches: the caller collects the leaves of all of
    them, evaluates them at once, and hands each player its part. `poll` is both calls with the
    player's own evaluator in between.
    """

    evaluator: Evaluator
    wanted: frozenset[ExtraOutput]
    """What it needs beyond priors and values; see `search.evaluator.evaluate`."""

    def select_leaves(self) -> NDArray[np.uint64]:
        """Begin a step; return the states to evaluate, uint64[n, words], perhaps none."""
        ...

    def expand_and_backup(self, evaluation: Evaluation) -> tuple[Slots, Actions]:
        """End the step with the evaluations of its states; see `poll`."""
        ...


@runtime_checkable
class SeatedPlayer(Player, Protocol):
    """A player that plays differently from game to game."""

    def seat(self, slots: Slots, numbers: NDArray[np.int64]) -> None:
        """Take seats in the scheduled games of some numbers, int64[n]; called before `reset`."""
        ...


@runtime_checkable
class PlacedPlayer(Player, Protocol):
    """A player whose games can begin with any position."""

    def place(self, slots: Slots, states: NDArray[np.uint64]) -> None:
        """Begin new games, from ongoing states uint64[n, words], in some slots."""
        ...


@runtime_checkable
class ProgramPlayer(Protocol):
    """A player that runs an outside program."""

    def interrupt(self) -> None:
        """End the program, and any call that waits for it, at once; called by another thread."""
        ...

    def close(self) -> None:
        """End the program; called when the player's games are over."""
        ...


class StatelessPlayer:
    """Base of players that look at the position alone."""

    def start(self, games: int) -> None:
        """See `Player.start`; there is nothing to forget."""

    def reset(self, slots: Slots) -> None:
        """See `Player.reset`."""

    def place(self, slots: Slots, states: NDArray[np.uint64]) -> None:
        """See `PlacedPlayer.place`."""

    def advance(self, slots: Slots, actions: Actions) -> None:
        """See `Player.advance`; there is nothing to follow."""


@dataclass(frozen=True)
class Agent:
    """Someone who plays: `name` says in full who, `new_player` makes a player for a thread.

    Players made by one agent play alike and may share what they only read, such as a network.
    Agents are equal if their names, games and identities are. An agent travels to another process
    as its name and its game's, and is parsed again there: its name must be a spec, and a relative
    path in it lead to the same folder.
    """

    name: str
    """The canonical spec: `specs.parse_agent` makes an equal agent of it."""
    new_player: Callable[[], Player] = field(compare=False, repr=False)
    bytes_per_game: int = field(default=0, compare=False)
    """About how much memory a player needs for each of its slots."""
    kept_bytes: int = field(default=0, compare=False)
    """Bytes that a player needs beside its slots, such as for cached evaluations."""
    settings: Settings | None = field(default=None, compare=False, repr=False)
    """Settings of its search, resolved; None if it does not search. Pages check them against
    their bounds."""
    max_games: int = field(default=1 << 30, compare=False)
    """How many games a player can hold at once."""
    game: Game = None
    identity: str = ""
    """Equal for equal agents, different for networks of one name but other weights."""
    evaluator: Callable[[], Evaluator] | None = field(default=None, compare=False, repr=False)
    """Loads its network, if it has one."""
    network: NetworkSettings | None = field(default=None, compare=False, repr=False)
    """The settings of its network, if it has one."""
    varies: bool = field(default=True, compare=False)
    """Whether it draws moves or playouts at random, so that its games differ without openings."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the agent as two names."""
        from zerolab.agents.specs import agent_of_game

        return agent_of_game, (self.name, game_name(self.game))


Access = Literal["nothing", "path", "program"]


class AgentKind(Protocol):
    """A way to name agents; `argument` is what follows the kind's name and its colon."""

    form: str
    """How such agents are written, such as ``mcts:N``; help texts list it."""
    access: Access
    """What such agents use: nothing but themselves, the file or folder that their argument names,
    or a program. Pages may name no programs, and only paths that are served to them."""

    def game(self, argument: str) -> Game | None:
        """Return the game that such an agent brings with it; None if it plays any."""
        ...

    def agent(self, argument: str, game: Game) -> Agent:
        """Return the agent; raise UserError for every mistake in `argument`."""
        ...


AGENT_KINDS: Registry[AgentKind] = Registry("kind of agent")
