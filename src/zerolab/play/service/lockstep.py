"""Games that advance together: at every ply all their positions are one question."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.core import streams
from zerolab.play.random_starts import RandomStarts
from zerolab.play.selfplay import SelfPlayProgress, in_order
from zerolab.play.selfplay_settings import SelfPlaySettings
from zerolab.play.service.answers import Answers
from zerolab.play.service.service import Service
from zerolab.rules import host
from zerolab.rules.interface import ONGOING, Game
from zerolab.search.search import choose_moves
from zerolab.store.examples import Examples
from zerolab.store.games import GameRecord

Ints = NDArray[np.int64]


class Begun(NamedTuple):
    """A game to be played on after actions that are not looked at any more."""

    number: int
    opening: tuple[int, ...] = ()


class Played(NamedTuple):
    """Finished games, by number, and an example for every move after their openings.

    In the examples, what only the end of a game tells is still 0.
    """

    games: list[GameRecord]
    examples: Examples


class Lockstep:
    """Plays games by a service's answers, choosing moves as plain self-play does."""

    def __init__(
        self,
        game: Game,
        settings: SelfPlaySettings,
        service: Service,
        seed: int,
        iteration: int,
        name: str,
        report: Callable[[SelfPlayProgress], None],
    ) -> None:
        self._game = game
        self._settings = settings
        self._service = service
        self._key = seed, iteration
        self._name = name
        self._report = report
        self._games = self._plies = 0

    def play(self, begun: Sequence[Begun]) -> Played:
        """Play games to their ends; their openings must leave them open."""
        moves = [list(game.opening) for game in begun]
        numbers = np.array([game.number for game in begun], np.int64)
        states = self._begin(begun)
        starts = RandomStarts(self._game, self._settings.random_plies, len(begun))
        outcomes = np.full(len(begun), ONGOING, np.int8)
        chunks: list[Examples] = []
        while (going := np.flatnonzero(outcomes == ONGOING)).size:
            plies = np.array([len(moves[at]) for at in going], np.int64)
            keys = streams.streams(
                *self._key, numbers[going], np.zeros_like(plies), streams.SELF_PLAY_START
            )
            at_random = starts.begin(going, states[going], plies, keys)
            actions = np.zeros(len(going), np.int64)
            found = self._decide(states[going], numbers[going], plies, ~at_random, actions)
            actions = starts.replace(going, actions)
            chunk = _examples(states[going], numbers[going], plies, actions, found, ~at_random)
            chunks.append(chunk)
            outcomes[going] = host.apply_batch(self._game, states, going, actions)
            for at, action in zip(going.tolist(), actions.tolist(), strict=True):
                moves[at].append(action)
            self._plies += len(going)
            self._games += int((outcomes[going] != ONGOING).sum())
            self._tell()
        games = [
            GameRecord(game.number, self._name, self._name, tuple(played), result)
            for game, played, result in zip(begun, moves, _results(moves, outcomes), strict=True)
        ]
        return Played(sorted(games), in_order(chunks))

    def _begin(self, begun: Sequence[Begun]) -> NDArray[np.uint64]:
        """Return the positions after the openings, uint64[games, words]."""
        states = np.repeat(host.start(self._game)[None], len(begun), axis=0)
        for ply in range(max((len(game.opening) for game in begun), default=0)):
            longer = [at for at, game in enumerate(begun) if len(game.opening) > ply]
            actions = np.array([begun[at].opening[ply] for at in longer])
            host.apply_batch(self._game, states, np.array(longer), actions)
        return states

    def _decide(
        self,
        states: NDArray[np.uint64],
        numbers: Ints,
        plies: Ints,
        searched: NDArray[np.bool_],
        actions: Ints,
    ) -> Answers:
        """Write the actions where `searched`; return the answers about those states."""
        answers = self._service.ask(states[searched], self._tell)
        if searched.any():
            keys = streams.streams(
                *self._key, numbers[searched], plies[searched], streams.SELF_PLAY_MOVE
            )
            sample = plies[searched] < self._settings.sampled_plies
            weights = np.where(sample[:, None], answers.sampled, answers.best).astype(np.int64)
            actions[searched] = choose_moves(weights, keys, sample)
        return answers

    def _tell(self) -> None:
        self._report(SelfPlayProgress(self._games, self._plies))


def _results(moves: Sequence[Sequence[int]], outcomes: NDArray[np.int8]) -> list[int]:
    """Return the results for the players who moved first; outcomes are those of the movers."""
    odd = np.array([len(played) % 2 for played in moves])
    results: list[int] = np.where(odd == 1, -outcomes, outcomes).tolist()
    return results


def _examples(
    states: NDArray[np.uint64],
    numbers: Ints,
    plies: Ints,
    actions: Ints,
    found: Answers,
    searched: NDArray[np.bool_],
) -> Examples:
    """Return the examples of moves; where none was searched, the move is all that is known."""
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
