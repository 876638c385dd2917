"""Agents, and the players that move for them.

A spec such as ``mcts:100`` names an agent. An agent makes players, one per thread, each of which
plays many games at once. A new kind of agent is one new file in `agents/kinds`, or a module of
another package that a plug-in entry point names (see `core.registry`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from zerolab.core.config import Settings
from zerolab.core.registry import Registry
from zerolab.networks.network_settings import NetworkSettings
from zerolab.rules.rules import Game
from zerolab.search.evaluator import Evaluation, Evaluator, ExtraOutput

FORFEIT = -1
"""Returned instead of an action by a player that gives up, such as a program that crashed."""

Slots = NDArray[np.int64]
"""int64[n]: game slots of a player, which holds each of its games in one."""
Actions = NDArray[np.int64]
"""int64[n]: an action per game slot."""


class Player(Protocol):
    """Chooses moves in a batch of games, each in its own slot.

    `advance` reports every move of its games to a player: those of an opening, its own and the
    opponent's. Slots are independent: their games may be at different plies.
    """

    name: str

    def start(self, games: int) -> None:
        """Forget all games and begin `games` new ones, in the slots 0 to games - 1."""
        ...

    def reset(self, slots: Slots) -> None:
        """Begin new games, from the first position, in the given slots."""
        ...

    def choose(self, slots: Slots, states: NDArray[np.uint64], keys: NDArray[np.uint64]) -> Actions:
        """Return legal actions, or FORFEIT, in ongoing states uint64[n, words].

        `keys` are random streams uint64[n], different for every game, ply and match.
        """
        ...

    def advance(self, slots: Slots, actions: Actions) -> None:
        """Follow the moves just played in the given slots."""
        ...


@runtime_checkable
class AsyncPlayer(Player, Protocol):
    """A player that accepts further positions while it is still searching others.

    This keeps the batches of its network large, and lets a thread stop between two of them. A slot
    that has been submitted is not submitted again until it is decided.
    """

    def submit(self, slots: Slots, states: NDArray[np.uint64], keys: NDArray[np.uint64]) -> None:
        """Start to search a move in the given slots; the arguments are those of `choose`."""
        ...

    def step(self) -> tuple[Slots, Actions]:
        """Search one step; return the slots that it decided and their actions."""
        ...


@runtime_checkable
class LeafPlayer(AsyncPlayer, Protocol):
    """An asynchronous player whose leaves the caller may evaluate.

    Players of one evaluator share its batches this way: the caller collects the leaves of all of
    them, evaluates them at once, and hands each player its part. `step` makes both calls, with the
    player's own evaluator in between.
    """

    evaluator: Evaluator
    extra_outputs: frozenset[ExtraOutput]
    """Outputs needed besides priors and values; see `search.evaluator.evaluate`."""

    def select_leaves(self) -> NDArray[np.uint64]:
        """Begin a step; return the states to evaluate, uint64[n, words], n >= 0."""
        ...

    def expand_and_backup(self, evaluation: Evaluation) -> tuple[Slots, Actions]:
        """End the step with the evaluations of its states; see `step`."""
        ...


@runtime_checkable
class SeatedPlayer(Player, Protocol):
    """A player whose settings differ from game to game, such as that of a league."""

    def seat(self, slots: Slots, numbers: NDArray[np.int64]) -> None:
        """Assign the games of these numbers, int64[n], to slots; called before `reset`."""
        ...


@runtime_checkable
class PlacedPlayer(Player, Protocol):
    """A player whose games can begin at any position."""

    def place(self, slots: Slots, states: NDArray[np.uint64]) -> None:
        """Begin new games, from ongoing states uint64[n, words], in the given slots."""
        ...


@runtime_checkable
class ProgramPlayer(Protocol):
    """A player that runs an outside program."""

    def interrupt(self) -> None:
        """End the program and any call that waits for it at once; called by another thread."""
        ...

    def close(self) -> None:
        """End the program; called when the player's games are over."""
        ...


class StatelessPlayer:
    """Base class of players that look at the position alone."""

    def start(self, games: int) -> None:
        """Do nothing: there are no games to forget."""

    def reset(self, slots: Slots) -> None:
        """Do nothing: every position is new."""

    def place(self, slots: Slots, states: NDArray[np.uint64]) -> None:
        """Do nothing: every position is new."""

    def advance(self, slots: Slots, actions: Actions) -> None:
        """Do nothing: every position is new."""


@dataclass(frozen=True)
class Agent:
    """An agent as named by a spec; `new_player` makes a player for a thread.

    Players made by one agent play alike and may share what they only read, such as a network.
    Agents are equal if their names, games and identities are. An agent is pickled as its name and
    that of its game (`specs` registers this) and is parsed again in the other process: its name
    must be a spec, and a relative path in it must lead to the same folder there.
    """

    name: str
    """The canonical spec: `specs.parse_agent` makes an equal agent of it."""
    new_player: Callable[[], Player] = field(compare=False, repr=False)
    bytes_per_game: int = field(default=0, compare=False)
    """Approximate memory that a player needs for each of its game slots."""
    kept_bytes: int = field(default=0, compare=False)
    """Bytes that a player needs beside its game slots, such as for cached evaluations."""
    settings: Settings | None = field(default=None, compare=False, repr=False)
    """Resolved settings of its search; None if it does not search. Web pages check them against
    their bounds."""
    max_games: int = field(default=1 << 30, compare=False)
    """Largest number of games that a player holds at once."""
    game: Game = None
    identity: str = ""
    """Equal for equal agents; differs between networks of one name with different weights."""
    evaluator: Callable[[], Evaluator] | None = field(default=None, compare=False, repr=False)
    """Loads its network; None without one."""
    network: NetworkSettings | None = field(default=None, compare=False, repr=False)
    """Settings of its network; None without one."""
    varies: bool = field(default=True, compare=False)
    """True if it draws moves or playouts at random, so that its games differ without openings."""


Access = Literal["nothing", "path", "program"]


class AgentKind:
    """A kind of agent, registered under the name that its specs begin with.

    `argument` is what follows that name and its colon, or the whole spec of a claimed one.
    """

    form: str
    """Form of its specs, such as ``mcts:N``, for help texts."""
    access: Access = "nothing"
    """Resources of an agent: nothing but itself, the file or folder that its argument names,
    or a program. Web pages may name no programs, and only paths that are served to them."""

    def claims(self, spec: str) -> bool:
        """Return whether a spec without the name of a kind, such as a path, is of this kind."""
        return False

    def game(self, argument: str) -> Game | None:
        """Return the game that such an agent brings with it; None if it plays any."""
        return None

    def agent(self, argument: str, game: Game) -> Agent:
        """Return the agent; raise UserError for every mistake in `argument`."""
        raise NotImplementedError


AGENT_KINDS: Registry[AgentKind] = Registry("kind of agent")
