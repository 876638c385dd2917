"""One player for all players of a league: it plays both sides of a game with settings of each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.agents.interface import Actions, Slots
from zerolab.core import streams
from zerolab.core.compiled import kernel
from zerolab.league.clock import Clock
from zerolab.league.settings import LeagueSettings
from zerolab.play.random_starts import NO_ACTION, RandomStarts
from zerolab.play.selfplay import SelfPlayer
from zerolab.play.selfplay_settings import SelfPlaySettings
from zerolab.rules import interface as rules
from zerolab.rules.interface import Game
from zerolab.search.by_tree import TreeSettings
from zerolab.search.interface import Evaluation, Evaluator
from zerolab.search.search import Search


class Seating(NamedTuple):
    """Who plays with which parameters in games of successive numbers."""

    begin: int
    """The first number."""
    values: NDArray[np.float64]
    """float64[games, 2, n]: the parameters of both sides, as `LeagueSettings.parameters`."""


class LeaguePlayer(SelfPlayer):
    """Plays games between players that search differently; both sides share batches and cache.

    The sides of a game in slot s have the trees 2s and 2s + 1, the second one for whoever moves
    second. Keys are those of `SelfPlayer`.
    """

    def __init__(
        self,
        game: Game,
        settings: LeagueSettings,
        self_play: SelfPlaySettings,
        evaluator: Evaluator,
        threads: int,
        seating: Seating,
    ) -> None:
        self._seating = seating  # before `start`, which `__init__` calls
        self._columns = {name: n for n, name in enumerate(settings.parameters)}
        self._optimum = settings.optimum
        super().__init__(game, self_play, settings.search, evaluator, threads)

    def start(self, games: int) -> None:
        """See `Player.start`."""
        super().start(2 * games)

    def new_search(self, games: int) -> Search:
        """See `SearchPlayer.new_search`."""
        self._by_tree = TreeSettings(*(self._array(name, games) for name in TreeSettings._fields))
        return Search(
            self._game, self._settings, self.evaluator, games, self._threads, self._by_tree
        )

    def _array(self, name: str, trees: int) -> NDArray[np.float64] | None:
        return np.zeros(trees) if name in self._columns else None

    def new_starts(self, games: int) -> RandomStarts:
        """See `SelfPlayer.new_starts`."""
        return _Slips(self._game, games)

    def seat(self, slots: Slots, numbers: NDArray[np.int64]) -> None:
        """See `SeatedPlayer.seat`."""
        values = self._seating.values[numbers - self._seating.begin]
        for name, column in self._columns.items():
            for side in range(2):
                self._set(name, 2 * slots + side, values[:, side, column])

    def _set(self, name: str, trees: Slots, values: NDArray[np.float64]) -> None:
        if name == "threshold":
            assert isinstance(self.budget, Clock)
            self.budget.thresholds[trees] = values
        elif name == "check":
            assert isinstance(self._starts, _Slips)
            self._starts.probabilities[trees] = slip_probability(values, self._optimum)
        else:
            getattr(self._by_tree, name)[trees] = values

    def reset(self, slots: Slots) -> None:
        """See `Player.reset`."""
        trees = _both(slots)
        super().reset(trees)
        if isinstance(self.budget, Clock):
            self.budget.reset(trees)

    def choose(self, slots: Slots, states: NDArray[np.uint64], keys: NDArray[np.uint64]) -> Actions:
        """See `Player.choose`."""
        self.submit(slots, states, keys)
        while self.search.active:
            self._settled(self.search.step())
        return self.decide(self._to_move(slots))

    def submit(self, slots: Slots, states: NDArray[np.uint64], keys: NDArray[np.uint64]) -> None:
        """See `AsyncPlayer.submit`."""
        trees = self._to_move(slots)
        super().submit(trees, states, keys)
        if isinstance(self.budget, Clock):  # who slips has not thought
            self.budget.spent[trees[self._starts.are_at_random(trees)]] = 1

    def poll(self) -> tuple[Slots, Actions]:
        """See `AsyncPlayer.poll`."""
        trees, actions = super().poll()
        return trees // 2, actions

    def expand_and_backup(self, evaluation: Evaluation) -> tuple[Slots, Actions]:
        """See `LeafPlayer.expand_and_backup`."""
        trees, actions = super().expand_and_backup(evaluation)
        return trees // 2, actions

    def _to_move(self, slots: Slots) -> Slots:
        """Return the trees of those who are to move in some games."""
        return 2 * slots + self._plies[2 * slots] % 2

    def advance(self, slots: Slots, actions: Actions) -> None:
        """See `Player.advance`."""
        super().advance(_both(slots), np.repeat(actions, 2))


def slip_probability(values: NDArray[np.float64], optimum: float) -> NDArray[np.float64]:
    """Return how likely players with check parameters float64[n] are to move at random.

    It is twice the distance from the optimum on a ring of length 1: none there, 1 opposite.
    """
    distance = np.abs(values - optimum)
    return 2.0 * np.minimum(distance, 1.0 - distance)


class _Slips(RandomStarts):
    """Random moves that the check parameter causes, at any ply."""

    def __init__(self, game: Game, trees: int) -> None:
        super().__init__(game, 0, trees)
        self.probabilities = np.zeros(trees)

    def begin(
        self,
        slots: Slots,
        states: NDArray[np.uint64],
        plies: NDArray[np.int64],
        keys: NDArray[np.uint64],
    ) -> NDArray[np.bool_]:
        """See `RandomStarts.begin`."""
        actions = np.empty(len(slots), np.int64)
        _draw(self._game, states, self.probabilities[slots], plies, keys, actions)
        self._actions[slots] = actions
        return actions != NO_ACTION


@kernel
def _draw(game, states, probabilities, plies, keys, actions):
    for i in range(keys.shape[0]):
        actions[i] = NO_ACTION
        if streams.uniform(keys[i], 2 * plies[i]) < probabilities[i]:
            random = streams.bits(keys[i], 2 * plies[i] + 1)
            actions[i] = rules.random_action(game, states[i], random)


def _both(slots: Slots) -> Slots:
    """Return the trees of both sides of some games."""
    return np.stack([2 * slots, 2 * slots + 1], axis=1).ravel()
