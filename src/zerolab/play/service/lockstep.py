"""Games that advance together: at every ply all their positions are one question."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.core import streams
from zerolab.play.random_starts import NO_ACTION, RandomStarts, random_opening
from zerolab.play.selfplay import SelfPlayProgress, in_order
from zerolab.play.selfplay_settings import SelfPlaySettings
from zerolab.play.service.answers import Answers
from zerolab.play.service.service import PositionSearcher
from zerolab.rules import host
from zerolab.rules.interface import MOST_PLIES, ONGOING, Game
from zerolab.search.search import choose_actions
from zerolab.store.examples import Examples
from zerolab.store.games import GameRecord

Ints = NDArray[np.int64]


class Begun(NamedTuple):
    """A game to be played on after given actions."""

    number: int
    opening: tuple[int, ...] = ()


class Played(NamedTuple):
    """Finished games, by number, and an example for every move of theirs.

    In the examples, what only the end of a game tells is still 0. Moves that nobody has searched,
    those of openings and random ones, are never learnt from: such a row has the move alone as its
    policy, and NaN for all that a search would have said.
    """

    games: list[GameRecord]
    examples: Examples


class Lockstep:
    """Plays games by a service's answers, choosing moves as plain self-play does."""

    def __init__(
        self,
        game: Game,
        settings: SelfPlaySettings,
        service: PositionSearcher,
        seed: int,
        iteration: int,
        name: str,
        report: Callable[[SelfPlayProgress], None],
    ) -> None:
        self._game = game
        self._settings = settings
        self._service = service
        self._seed = seed
        self._iteration = iteration
        self._name = name
        self._report = report
        self._games = self._plies = 0

    def opening(self, number: int, plies: int) -> tuple[int, ...]:
        """Return the random plies of a game; fewer where one more would end it."""
        game, ply = np.array([number]), np.zeros(1, np.int64)
        return random_opening(self._game, plies, self._keys(game, ply, streams.SELF_PLAY_START)[0])

    def play(self, begun: Sequence[Begun]) -> Played:
        """Play games from the start to their ends."""
        moves: list[list[int]] = [[] for _ in begun]
        numbers = np.array([game.number for game in begun], np.int64)
        states = np.repeat(host.start(self._game)[None], len(begun), axis=0)
        starts = RandomStarts(self._game, self._settings.random_plies, len(begun))
        outcomes = np.full(len(begun), ONGOING, np.int8)
        chunks: list[Examples] = []
        for ply in range(MOST_PLIES):
            going = np.flatnonzero(outcomes == ONGOING)
            if not going.size:
                break
            plies = np.full(len(going), ply)
            keys = self._keys(numbers[going], np.zeros_like(plies), streams.SELF_PLAY_START)
            at_random = starts.begin(going, states[going], plies, keys)
            actions = starts.replace(going, self._scripted(begun, going, ply))
            searched = ~at_random & (actions == NO_ACTION)
            found = self._decide(states[going], numbers[going], plies, searched, actions)
            chunks.append(
                example_rows(states[going], numbers[going], plies, actions, found, searched)
            )
            outcomes[going] = host.apply_batch(self._game, states, going, actions)
            for at, action in zip(going.tolist(), actions.tolist(), strict=True):
                moves[at].append(action)
            self._plies += len(going)
            self._games += int((outcomes[going] != ONGOING).sum())
            self._tell()
        return Played(sorted(self._records(begun, moves, outcomes)), in_order(chunks))

    @staticmethod
    def _scripted(begun: Sequence[Begun], going: Ints, ply: int) -> Ints:
        """Return the actions of openings at a ply, NO_ACTION in games beyond theirs."""
        openings = [begun[at].opening for at in going.tolist()]
        return np.array([each[ply] if ply < len(each) else NO_ACTION for each in openings])

    def _keys(self, numbers: Ints, plies: Ints, purpose: int) -> NDArray[np.uint64]:
        return streams.streams(self._seed, self._iteration, numbers, plies, purpose)

    def _records(
        self, begun: Sequence[Begun], moves: Sequence[Sequence[int]], outcomes: NDArray[np.int8]
    ) -> Iterator[GameRecord]:
        """Yield the records of games; outcomes are those of the players to move at the ends."""
        for game, played, outcome in zip(begun, moves, outcomes.tolist(), strict=True):
            result = -outcome if len(played) % 2 else outcome
            yield GameRecord(game.number, self._name, self._name, tuple(played), result)

    def _decide(
        self,
        states: NDArray[np.uint64],
        numbers: Ints,
        plies: Ints,
        searched: NDArray[np.bool_],
        actions: Ints,
    ) -> Answers:
        """Write the actions where `searched`; return the answers about those states."""
        answers = self._service.ask(states[searched], numbers[searched], self._tell)
        if searched.any():
            keys = self._keys(numbers[searched], plies[searched], streams.SELF_PLAY_MOVE)
            sample = plies[searched] < self._settings.sampled_plies
            weights = np.where(sample[:, None], answers.sampled, answers.best).astype(np.int64)
            actions[searched] = choose_actions(weights, keys, sample)
        return answers

    def _tell(self) -> None:
        self._report(SelfPlayProgress(self._games, self._plies))


def example_rows(
    states: NDArray[np.uint64],
    numbers: Ints,
    plies: Ints,
    actions: Ints,
    found: Answers,
    searched: NDArray[np.bool_],
) -> Examples:
    """Return the examples of moves, of which those that were `searched` have answers.

    What only the end of a game tells is still 0.
    """
    count, width = len(actions), found.policies.shape[1]
    policies = np.zeros((count, width), np.float16)
    policies[np.arange(count), actions] = 1
    values, draws = (np.full(count, np.nan, np.float16) for _ in range(2))
    action_values = np.full((count, width), np.nan, np.float16)
    full = np.zeros(count, np.bool_)
    policies[searched] = found.policies
    values[searched] = found.root_values
    draws[searched] = found.root_draws
    action_values[searched] = found.action_values
    full[searched] = found.full
    return Examples(
        states=states,
        policies=policies,
        root_values=values,
        root_draws=draws,
        action_values=action_values,
        outcomes=np.zeros(count, np.int8),
        plies_left=np.zeros(count, np.int16),
        games=numbers.astype(np.int32),
        plies=plies.astype(np.int16),
        actions=actions.astype(np.int16),
        full=full,
    )
