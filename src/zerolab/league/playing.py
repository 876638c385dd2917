"""Games between the players of a league, searched in shared batches."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.agents.agent import Actions, Slots
from zerolab.core import streams
from zerolab.core.compiled import kernel
from zerolab.league.league_settings import LeagueSettings, SimulationClock
from zerolab.league.population import Population
from zerolab.play.engine import useful_thread_count
from zerolab.play.executors import THREAD_EXECUTOR, Executor, PlayProgressCallback
from zerolab.play.game_starts import NO_ACTION, RandomOpeningPlies
from zerolab.play.pairings import Pairing
from zerolab.play.selfplay import (
    SelfPlayer,
    SelfPlayJob,
    SelfPlayResult,
    merge_results,
    play_batches,
    with_outcomes,
)
from zerolab.play.selfplay_settings import SelfPlaySettings
from zerolab.rules import rules
from zerolab.rules.rules import Game
from zerolab.search.evaluator import Evaluation, Evaluator, has_network
from zerolab.search.search import Search
from zerolab.search.search_settings import PerTreeSettings, SearchSettings
from zerolab.store.games import GameRecord


class GameParameters(NamedTuple):
    """Parameters of both players in consecutively numbered games."""

    first_number: int
    """Number of the first game."""
    values: NDArray[np.float64]
    """float64[games, 2, n]: parameters of both sides, ordered as `LeagueSettings.parameters`."""


class LeaguePlayer(SelfPlayer):
    """Player that plays both sides of league games, with separate search parameters for each side.

    Both sides share the batches and the evaluation cache. In slot s, the first player uses tree 2s
    and the second player tree 2s + 1. Random-stream keys are the same as in `SelfPlayer`.
    """

    def __init__(
        self,
        game: Game,
        settings: LeagueSettings,
        self_play: SelfPlaySettings,
        evaluator: Evaluator,
        threads: int,
        parameters: GameParameters,
    ) -> None:
        self._parameters = parameters
        # Used by `start`, which super().__init__ calls.
        self._columns = {name: n for n, name in enumerate(settings.parameters)}
        self._optimum = settings.optimum
        super().__init__(game, self_play, settings.search, evaluator, threads)

    def start(self, games: int) -> None:
        super().start(2 * games)

    def new_search(self, games: int) -> Search:
        evolving = [name for name in PerTreeSettings._fields if name in self._columns]
        self._per_tree = PerTreeSettings(**{name: np.zeros(games) for name in evolving})
        return Search(
            self._game, self._settings, self.evaluator, games, self._threads, self._per_tree
        )

    def new_random_plies(self, games: int) -> RandomOpeningPlies:
        return _RandomMoves(self._game, games)

    def assign_games(self, slots: Slots, game_numbers: NDArray[np.int64]) -> None:
        values = self._parameters.values[game_numbers - self._parameters.first_number]
        for name, column in self._columns.items():
            for side in range(2):
                self._set(name, 2 * slots + side, values[:, side, column])

    def _set(self, name: str, trees: Slots, values: NDArray[np.float64]) -> None:
        if name == "threshold":
            assert isinstance(self.budget, SimulationClock)
            self.budget.thresholds[trees] = values
        elif name == "check":
            assert isinstance(self._random_plies, _RandomMoves)
            self._random_plies.probabilities[trees] = random_move_probability(values, self._optimum)
        else:
            getattr(self._per_tree, name)[trees] = values

    def reset(self, slots: Slots) -> None:
        trees = _trees_of(slots)
        super().reset(trees)
        if isinstance(self.budget, SimulationClock):
            self.budget.reset(trees)

    def choose(self, slots: Slots, states: NDArray[np.uint64], keys: NDArray[np.uint64]) -> Actions:
        self.submit(slots, states, keys)
        while self.search.is_active:
            self._extend_unfinished(self.search.step())
        return self.decide(self._trees_to_move(slots))

    def submit(self, slots: Slots, states: NDArray[np.uint64], keys: NDArray[np.uint64]) -> None:
        trees = self._trees_to_move(slots)
        super().submit(trees, states, keys)
        if isinstance(self.budget, SimulationClock):  # a random move costs only one simulation
            self.budget.spent_simulations[trees[self._random_plies.is_random(trees)]] = 1

    def step(self) -> tuple[Slots, Actions]:
        trees, actions = super().step()
        return trees // 2, actions

    def expand_and_backup(self, evaluation: Evaluation) -> tuple[Slots, Actions]:
        trees, actions = super().expand_and_backup(evaluation)
        return trees // 2, actions

    def _trees_to_move(self, slots: Slots) -> Slots:
        """Return the trees of the sides to move in the given slots."""
        return 2 * slots + self._plies[2 * slots] % 2

    def advance(self, slots: Slots, actions: Actions) -> None:
        super().advance(_trees_of(slots), np.repeat(actions, 2))


def random_move_probability(
    check_values: NDArray[np.float64], optimum: float
) -> NDArray[np.float64]:
    """Return the probability of a random move for each check parameter, float64[n].

    It is twice the distance from the optimum on a circle of length 1, ranging from 0 at the optimum
    to 1 at the opposite point.
    """
    distance = np.abs(check_values - optimum)
    return 2.0 * np.minimum(distance, 1.0 - distance)


class _RandomMoves(RandomOpeningPlies):
    """Source of random moves at any ply, with a probability given by the check parameter."""

    def __init__(self, game: Game, trees: int) -> None:
        super().__init__(game, 0, trees)
        self.probabilities = np.zeros(trees)

    def draw(
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
            random = streams.random_bits(keys[i], 2 * plies[i] + 1)
            actions[i] = rules.random_action(game, states[i], random)


def _trees_of(slots: Slots) -> Slots:
    """Return the trees of both sides in the given slots."""
    return np.stack([2 * slots, 2 * slots + 1], axis=1).ravel()


_LEAGUE = "league"
_PLAYER = "player"


def play_league_games(
    game: Game,
    settings: LeagueSettings,
    evaluator: Evaluator,
    players: Population,
    pairs: NDArray[np.int64],
    first_number: int,
    report: PlayProgressCallback = lambda _: None,
    *,
    iteration: int = 0,
    executor: Executor = THREAD_EXECUTOR,
    chunks: int | None = None,
) -> SelfPlayResult:
    """Play games between pairs of players, int64[games, 2], numbered from `first_number`.

    Games depend only on the seed, the iteration, the game number and the parameters of both
    players. As in self-play, the moves of both players become examples, except random moves. Raises
    UserError if the evaluator does not provide all outputs that the searches need.
    """
    self_play = SelfPlaySettings(
        temperature_plies=settings.temperature_plies, parallel_games=settings.parallel_games,
        threads=settings.threads,
    )  # fmt: skip
    if "threshold" in settings.parameters:
        self_play = self_play.model_copy(update={"budget": settings.clock})
    parameters = GameParameters(first_number, players.values[pairs])
    at_once = min(settings.parallel_games, len(pairs))
    threads = useful_thread_count(settings.threads, at_once, has_network(evaluator))
    numbers = range(first_number, first_number + len(pairs))
    chunks = min(chunks or threads, len(pairs))
    batches = [
        [Pairing(number, _LEAGUE, _LEAGUE, number) for number in numbers[chunk::chunks]]
        for chunk in range(chunks)
    ]
    job = SelfPlayJob(
        game, self_play, settings.search, lambda: evaluator, settings.seed, iteration, threads,
        max(1, settings.parallel_games // threads), _LEAGUE,
        partial(_new_player, settings, parameters),
    )  # fmt: skip
    played = merge_results(executor.run(play_batches, job, batches, report))
    games = _with_names(played.games, pairs, first_number)
    return played._replace(examples=with_outcomes(played.examples, games), games=games)


def _new_player(
    settings: LeagueSettings,
    parameters: GameParameters,
    game: Game,
    self_play: SelfPlaySettings,
    _: SearchSettings,
    evaluator: Evaluator,
    threads: int,
) -> LeaguePlayer:
    return LeaguePlayer(game, settings, self_play, evaluator, threads, parameters)


def _with_names(
    games: Sequence[GameRecord], pairs: NDArray[np.int64], first_number: int
) -> list[GameRecord]:
    """Return the games with the names of their league players."""
    renamed = []
    for game in games:
        first, second = (
            player_name(number) for number in pairs[game.number - first_number].tolist()
        )
        renamed.append(game._replace(first=first, second=second))
    return renamed


def player_name(number: int) -> str:
    """Return the name of league player `number` in game records."""
    return f"{_PLAYER} {number}"


def player_number(name: str) -> int:
    """Return the number in the name of a league player; raise ValueError for other names."""
    return int(name.removeprefix(f"{_PLAYER} "))
