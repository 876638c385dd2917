"""Games between individuals of a league, searched in shared batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.agents.agent import Actions, Slots
from zerolab.core import streams
from zerolab.core.compiled import kernel
from zerolab.core.processes import available_cores
from zerolab.league.league_settings import Clock, LeagueSettings
from zerolab.league.population import Population
from zerolab.play.pairings import Pairing
from zerolab.play.selfplay import (
    NO_ACTION,
    RandomOpeningPlies,
    SelfPlayer,
    SelfPlayProgress,
    SelfPlayResult,
    play_batches,
    with_outcomes,
)
from zerolab.play.selfplay_settings import SelfPlaySettings
from zerolab.rules import rules
from zerolab.rules.rules import Game
from zerolab.search.evaluator import Evaluation, Evaluator
from zerolab.search.per_tree import PerTreeSettings
from zerolab.search.search import Search
from zerolab.store.games import GameRecord


class LeagueSeating(NamedTuple):
    """Parameters of both players in games of successive numbers."""

    begin: int
    """The first number."""
    values: NDArray[np.float64]
    """float64[games, 2, n]: the parameters of both sides, as `LeagueSettings.parameters`."""


class LeaguePlayer(SelfPlayer):
    """Plays games between individuals that search differently; both share batches and cache.

    The sides of a game in slot s have the trees 2s and 2s + 1, the second one for the
    second player. Keys are those of `SelfPlayer`.
    """

    def __init__(
        self,
        game: Game,
        settings: LeagueSettings,
        self_play: SelfPlaySettings,
        evaluator: Evaluator,
        threads: int,
        seating: LeagueSeating,
    ) -> None:
        self._seating = seating  # before `start`, which `__init__` calls
        self._columns = {name: n for n, name in enumerate(settings.parameters)}
        self._optimum = settings.optimum
        super().__init__(game, self_play, settings.search, evaluator, threads)

    def start(self, games: int) -> None:
        super().start(2 * games)

    def new_search(self, games: int) -> Search:
        self._by_tree = PerTreeSettings(
            *(self._array(name, games) for name in PerTreeSettings._fields)
        )
        return Search(
            self._game, self._settings, self.evaluator, games, self._threads, self._by_tree
        )

    def _array(self, name: str, trees: int) -> NDArray[np.float64] | None:
        return np.zeros(trees) if name in self._columns else None

    def new_starts(self, games: int) -> RandomOpeningPlies:
        return _RandomMoves(self._game, games)

    def seat(self, slots: Slots, numbers: NDArray[np.int64]) -> None:
        values = self._seating.values[numbers - self._seating.begin]
        for name, column in self._columns.items():
            for side in range(2):
                self._set(name, 2 * slots + side, values[:, side, column])

    def _set(self, name: str, trees: Slots, values: NDArray[np.float64]) -> None:
        if name == "threshold":
            assert isinstance(self.budget, Clock)
            self.budget.thresholds[trees] = values
        elif name == "check":
            assert isinstance(self._starts, _RandomMoves)
            self._starts.probabilities[trees] = random_move_probability(values, self._optimum)
        else:
            getattr(self._by_tree, name)[trees] = values

    def reset(self, slots: Slots) -> None:
        trees = _both(slots)
        super().reset(trees)
        if isinstance(self.budget, Clock):
            self.budget.reset(trees)

    def choose(self, slots: Slots, states: NDArray[np.uint64], keys: NDArray[np.uint64]) -> Actions:
        self.submit(slots, states, keys)
        while self.search.active:
            self._without_extended(self.search.step())
        return self.decide(self._to_move(slots))

    def submit(self, slots: Slots, states: NDArray[np.uint64], keys: NDArray[np.uint64]) -> None:
        trees = self._to_move(slots)
        super().submit(trees, states, keys)
        if isinstance(self.budget, Clock):  # who slips has not thought
            self.budget.spent[trees[self._starts.is_random(trees)]] = 1

    def step(self) -> tuple[Slots, Actions]:
        trees, actions = super().step()
        return trees // 2, actions

    def expand_and_backup(self, evaluation: Evaluation) -> tuple[Slots, Actions]:
        trees, actions = super().expand_and_backup(evaluation)
        return trees // 2, actions

    def _to_move(self, slots: Slots) -> Slots:
        """Return the trees of the players to move in the given games."""
        return 2 * slots + self._plies[2 * slots] % 2

    def advance(self, slots: Slots, actions: Actions) -> None:
        super().advance(_both(slots), np.repeat(actions, 2))


def random_move_probability(values: NDArray[np.float64], optimum: float) -> NDArray[np.float64]:
    """Return the probability of a random move by check parameter, float64[n].

    It is twice the distance from the optimum on a ring of length 1: none there, 1 opposite.
    """
    distance = np.abs(values - optimum)
    return 2.0 * np.minimum(distance, 1.0 - distance)


class _RandomMoves(RandomOpeningPlies):
    """Random moves caused by the check parameter, at any ply."""

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
        actions = np.empty(len(slots), np.int64)
        _draw_random_moves(self._game, states, self.probabilities[slots], plies, keys, actions)
        self._actions[slots] = actions
        return actions != NO_ACTION


@kernel
def _draw_random_moves(game, states, probabilities, plies, keys, actions):
    for i in range(keys.shape[0]):
        actions[i] = NO_ACTION
        if streams.uniform(keys[i], 2 * plies[i]) < probabilities[i]:
            random = streams.bits(keys[i], 2 * plies[i] + 1)
            actions[i] = rules.random_action(game, states[i], random)


def _both(slots: Slots) -> Slots:
    """Return the trees of both sides of the given games."""
    return np.stack([2 * slots, 2 * slots + 1], axis=1).ravel()


_LEAGUE = "league"
_INDIVIDUAL = "player"


def play_league_games(
    game: Game,
    settings: LeagueSettings,
    evaluator: Evaluator,
    players: Population,
    met: NDArray[np.int64],
    begin: int,
    report: Callable[[SelfPlayProgress], None] = lambda _: None,
    *,
    iteration: int = 0,
) -> SelfPlayResult:
    """Play games numbered from `begin` on between the individuals `met`, int64[games, 2].

    A game depends on the seed, the iteration, its number and its players' parameters alone. Its
    moves become examples as in self-play: those of both players, random ones excepted. Raises
    UserError where the evaluator lacks what the searches need.
    """
    self_play = SelfPlaySettings(
        temperature_plies=settings.temperature_plies, parallel_games=settings.parallel_games,
        threads=settings.threads,
    )  # fmt: skip
    if "threshold" in settings.parameters:
        self_play = self_play.model_copy(update={"budget": settings.clock})
    seating = LeagueSeating(begin, players.values[met])
    threads = min(settings.threads, len(met))
    numbers = range(begin, begin + len(met))
    batches = [
        [Pairing(number, _LEAGUE, _LEAGUE, number) for number in numbers[thread::threads]]
        for thread in range(threads)
    ]
    cores = max(1, available_cores() // settings.threads)

    def new_player() -> SelfPlayer:
        return LeaguePlayer(game, settings, self_play, evaluator, cores, seating)

    played = play_batches(
        game, self_play, settings.search, evaluator, settings.seed, iteration, batches,
        max(1, settings.parallel_games // settings.threads), _LEAGUE, report, new_player,
    )  # fmt: skip
    games = _named(played.games, met, begin)
    return played._replace(examples=with_outcomes(played.examples, games), games=games)


def _named(games: Sequence[GameRecord], met: NDArray[np.int64], begin: int) -> list[GameRecord]:
    """Return games with the names of the individuals that played them."""
    named = []
    for game in games:
        first, second = (individual_name(number) for number in met[game.number - begin].tolist())
        named.append(game._replace(first=first, second=second))
    return named


def individual_name(number: int) -> str:
    """Return the name of an individual in records."""
    return f"{_INDIVIDUAL} {number}"


def individual_number(name: str) -> int:
    """Return the number of an individual by its name; raise ValueError for other names."""
    return int(name.removeprefix(f"{_INDIVIDUAL} "))
