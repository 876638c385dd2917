"""Players of many games at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from zerolab.core import streams
from zerolab.core.compiled import kernel
from zerolab.rules import calls
from zerolab.rules import interface as rules
from zerolab.rules.interface import Game
from zerolab.search.interface import Evaluator, UniformEvaluator, statistics
from zerolab.search.search import Search, choose_actions
from zerolab.search.settings import SearchSettings, mcts_settings
from zerolab.search.tree import empty_tree

_LEAST_NODES = 1024  # of a search's trees

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
class Thinker(Player, Protocol):
    """A player that can think about new games while it is still thinking about others.

    So the batches that a network evaluates stay large, and a thread can be stopped between two of
    them. A slot that was asked about is not asked again until it is decided.
    """

    def ask(
        self, slots: NDArray[np.int64], states: NDArray[np.uint64], keys: NDArray[np.uint64]
    ) -> None:
        """Begin to think about a move in some slots; the arguments are those of `choose`."""
        ...

    def think(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Think a little; return the slots decided just now and their actions, int64[n] each."""
        ...


@runtime_checkable
class Closable(Protocol):
    """A player that holds what outlives its games, such as a process."""

    def close(self) -> None:
        """Give it up; called when its games are over."""
        ...


@dataclass(frozen=True)
class Entrant:
    """Someone who takes part in matches: `player` makes a player for one thread.

    Players made by one entrant play alike and may share what they only read, such as a network.
    """

    name: str
    player: Callable[[], Player]
    slot_bytes: int = 0
    """About how much memory a player needs for each of its slots."""
    most_slots: int = 1 << 30
    """How many games a player can hold at once."""


@kernel
def _random_actions(game, states, keys, chosen):
    for i in range(states.shape[0]):
        chosen[i] = rules.random_action(game, states[i], streams.bits(keys[i], 0))


class Forgetful:
    """Base of players that look at the position alone."""

    def start(self, games: int) -> None:
        """See `Player.start`; there is nothing to forget."""

    def reset(self, slots: NDArray[np.int64]) -> None:
        """See `Player.reset`."""

    def advance(self, slots: NDArray[np.int64], actions: NDArray[np.int64]) -> None:
        """See `Player.advance`; there is nothing to note."""


class RandomPlayer(Forgetful):
    """Plays uniformly over the legal actions (FACTS 1)."""

    def __init__(self, game: Game, name: str = "Random") -> None:
        self.name = name
        self._game = game

    def choose(
        self, slots: NDArray[np.int64], states: NDArray[np.uint64], keys: NDArray[np.uint64]
    ) -> NDArray[np.int64]:
        """See `Player.choose`."""
        chosen = np.empty(len(slots), np.int64)
        _random_actions(self._game, states, keys, chosen)
        return chosen


class SearchPlayer:
    """Plays the most visited action of a search; equal counts are decided by lot.

    Moves of the first `sampled_plies` plies are drawn in proportion to the visits instead, which
    makes games differ. Root noise, which is for self-play, is left out.
    """

    def __init__(
        self,
        game: Game,
        name: str,
        settings: SearchSettings,
        evaluator: Evaluator,
        sampled_plies: int = 0,
    ) -> None:
        self.name = name
        quiet = settings.noise.model_copy(update={"fraction": 0.0})
        self._settings = settings.model_copy(update={"noise": quiet})
        self._game = game
        self._evaluator = evaluator
        self._sampled_plies = sampled_plies
        self.start(0)

    def start(self, games: int) -> None:
        """See `Player.start`."""
        self.search = Search(self._game, self._settings, self._evaluator, games)
        self._plies = np.zeros(games, np.int64)
        self._keys = np.zeros(games, np.uint64)
        self.reset(np.arange(games))

    def reset(self, slots: NDArray[np.int64]) -> None:
        """See `Player.reset`."""
        self._plies[slots] = 0
        states = np.repeat(calls.start_state(self._game)[None], len(slots), axis=0)
        self.search.plant(slots, states)

    def choose(
        self, slots: NDArray[np.int64], states: NDArray[np.uint64], keys: NDArray[np.uint64]
    ) -> NDArray[np.int64]:
        """See `Player.choose`."""
        self.ask(slots, states, keys)
        self.search.run()
        return self._decide(slots)

    def ask(
        self, slots: NDArray[np.int64], states: NDArray[np.uint64], keys: NDArray[np.uint64]
    ) -> None:
        """See `Thinker.ask`."""
        self._keys[slots] = keys
        self.search.begin(slots, keys, keys)

    def think(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """See `Thinker.think`: one wave of the search."""
        slots = self.search.wave()
        return slots, self._decide(slots)

    def _decide(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        if not slots.size:
            return slots
        sample = self._plies[slots] < self._sampled_plies
        return choose_actions(self.search.visits(slots), self._keys[slots], sample)

    def advance(self, slots: NDArray[np.int64], actions: NDArray[np.int64]) -> None:
        """See `Player.advance`."""
        self.search.advance(slots, actions)
        self._plies[slots] += 1


def mcts_player(game: Game, playouts: int) -> SearchPlayer:
    """Return plain MCTS: UCT, one random playout a simulation, no network."""
    uniform = UniformEvaluator(rules.actions(game))
    return SearchPlayer(game, f"MCTS {playouts}", mcts_settings(playouts), uniform)


def mcts_entrant(game: Game, playouts: int) -> Entrant:
    """Return plain MCTS as an entrant; see `mcts_player`."""
    settings = mcts_settings(playouts)
    name = f"MCTS {playouts}"
    return Entrant(name, lambda: mcts_player(game, playouts), search_bytes(game, settings))


def search_bytes(game: Game, settings: SearchSettings) -> int:
    """Estimate the memory of one slot of a search: every simulation adds a node's children."""
    own = statistics(settings.selection.build())
    node = sum(array.nbytes for array in empty_tree(1, 1, rules.words(game), own))
    return node * max(_LEAST_NODES, settings.simulations * rules.actions(game))
