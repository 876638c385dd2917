"""Games in lockstep: every ply of all of them is one request to the search service."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.core import streams
from zerolab.play.pairings import random_opening
from zerolab.play.position_search import PositionResults
from zerolab.play.search_service import PositionSearcher
from zerolab.play.selfplay import NO_ACTION, RandomOpeningPlies, SelfPlayProgress, in_game_order
from zerolab.play.selfplay_settings import RetryMode, SelfPlaySettings
from zerolab.rules import python
from zerolab.rules.facts import SearchFacts
from zerolab.rules.rules import MAX_PLIES, ONGOING, Game
from zerolab.search.roots import choose_actions
from zerolab.store.examples import Examples
from zerolab.store.games import GameRecord

Ints = NDArray[np.int64]


class LockstepGame(NamedTuple):
    """A game to play after the given actions."""

    number: int
    opening: tuple[int, ...] = ()


class LockstepResult(NamedTuple):
    """Finished games, ordered by number, and an example for every move.

    Columns of the examples that depend on the end of a game are still 0. Moves without a search,
    those of openings and random ones, are never learnt from: such a row has the move alone as its
    policy and NaN in the other columns of a search.
    """

    games: list[GameRecord]
    examples: Examples


class Lockstep:
    """Plays games by the results of a search service; chooses moves as in episodic mode."""

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
        """Return `plies` random actions for a game; fewer where the next one would end it."""
        game, ply = np.array([number]), np.zeros(1, np.int64)
        return random_opening(self._game, plies, self._keys(game, ply, streams.SELF_PLAY_START)[0])

    def play(self, begun: Sequence[LockstepGame]) -> LockstepResult:
        """Play games from the start to their ends."""
        moves: list[list[int]] = [[] for _ in begun]
        numbers = np.array([game.number for game in begun], np.int64)
        states = np.repeat(python.start(self._game)[None], len(begun), axis=0)
        starts = RandomOpeningPlies(self._game, self._settings.random_opening_plies, len(begun))
        outcomes = np.full(len(begun), ONGOING, np.int8)
        chunks: list[Examples] = []
        for ply in range(MAX_PLIES):
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
            outcomes[going] = python.apply_batch(self._game, states, going, actions)
            for at, action in zip(going.tolist(), actions.tolist(), strict=True):
                moves[at].append(action)
            self._plies += len(going)
            self._games += int((outcomes[going] != ONGOING).sum())
            self._show_progress()
        return LockstepResult(sorted(self._records(begun, moves, outcomes)), in_game_order(chunks))

    @staticmethod
    def _scripted(begun: Sequence[LockstepGame], going: Ints, ply: int) -> Ints:
        """Return the actions of openings at a ply, NO_ACTION for games past theirs."""
        openings = [begun[at].opening for at in going.tolist()]
        return np.array([each[ply] if ply < len(each) else NO_ACTION for each in openings])

    def _keys(self, numbers: Ints, plies: Ints, purpose: int) -> NDArray[np.uint64]:
        return streams.streams(self._seed, self._iteration, numbers, plies, purpose)

    def _records(
        self,
        begun: Sequence[LockstepGame],
        moves: Sequence[Sequence[int]],
        outcomes: NDArray[np.int8],
    ) -> Iterator[GameRecord]:
        """Yield the records of games; outcomes are for the players to move at the ends."""
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
    ) -> PositionResults:
        """Write the actions where `searched`; return the results of those states."""
        results = self._service.search(states[searched], numbers[searched], self._show_progress)
        if searched.any():
            keys = self._keys(numbers[searched], plies[searched], streams.SELF_PLAY_MOVE)
            sample = plies[searched] < self._settings.temperature_plies
            weights = np.where(sample[:, None], results.sampled, results.best).astype(np.int64)
            actions[searched] = choose_actions(weights, keys, sample)
        return results

    def _show_progress(self) -> None:
        self._report(SelfPlayProgress(self._games, self._plies))


def example_rows(
    states: NDArray[np.uint64],
    numbers: Ints,
    plies: Ints,
    actions: Ints,
    found: PositionResults,
    searched: NDArray[np.bool_],
) -> Examples:
    """Return the examples of moves; `found` has the results of those that were `searched`.

    Columns that depend on the end of a game are still 0.
    """
    count = len(actions)
    facts = SearchFacts.unknown(count, found.policies.shape[1])
    facts["policies"][:] = 0
    facts["policies"][np.arange(count), actions] = 1
    for name, column in facts.items():
        column[searched] = getattr(found, name)
    full = np.zeros(count, np.bool_)
    full[searched] = found.full
    return Examples(
        **facts,
        states=states,
        outcomes=np.zeros(count, np.int8),
        plies_left=np.zeros(count, np.int16),
        games=numbers.astype(np.int32),
        plies=plies.astype(np.int16),
        actions=actions.astype(np.int16),
        full=full,
    )


class Branch(NamedTuple):
    """A move to try in place of the one that a game played."""

    game: GameRecord
    """The lost game."""
    ply: int
    action: int

    @property
    def opening(self) -> tuple[int, ...]:
        """The actions of the new game up to this move."""
        return (*self.game.actions[: self.ply], self.action)


def play_retries(lockstep: Lockstep, mode: RetryMode, games: int) -> LockstepResult:
    """Play `games` games: openings, rounds of retries, and openings again while games are left.

    Games are numbered in the order in which they begin.
    """
    finder = BranchFinder(mode.branches)
    family = sum(mode.branches**back for back in range(mode.rounds + 1))
    parts: list[LockstepResult] = []
    begun = 0
    while begun < games:
        numbers = range(begun, begun + -(-(games - begun) // family))
        latest = lockstep.play(
            [
                LockstepGame(number, lockstep.opening(number, mode.opening_plies))
                for number in numbers
            ]
        )
        parts.append(latest)
        begun = numbers.stop
        for _ in range(mode.rounds):
            branches = finder.branches(latest, games - begun)
            if not branches:
                break
            latest = _played_on(lockstep, branches, latest.examples, begun)
            parts.append(latest)
            begun += len(branches)
    everything = in_game_order([part.examples for part in parts])
    return LockstepResult(sorted(game for part in parts for game in part.games), everything)


def _played_on(
    lockstep: Lockstep, branches: Sequence[Branch], former: Examples, first: int
) -> LockstepResult:
    """Play new games from branches of earlier ones, whose examples are `former`.

    Results of searches up to the branch are taken over.
    """
    numbers = range(first, first + len(branches))
    played = lockstep.play(
        [
            LockstepGame(number, branch.opening)
            for number, branch in zip(numbers, branches, strict=True)
        ]
    )
    for number, branch in zip(numbers, branches, strict=True):
        own, other = (
            _rows_of_games(played.examples, number),
            _rows_of_games(former, branch.game.number),
        )
        for name in SearchFacts.forms():
            column, source = getattr(played.examples, name), getattr(former, name)
            column[own][: branch.ply + 1] = source[other][: branch.ply + 1]
    return played


class BranchFinder:
    """Finds the plies where games were lost, and untried moves there."""

    def __init__(self, most: int) -> None:
        """Find at most `most` branches of a game."""
        self._most = most
        self._tried: defaultdict[bytes, set[int]] = defaultdict(set)

    def branches(self, played: LockstepResult, most: int) -> list[Branch]:
        """Return at most `most` branches of the games, in the order of their numbers."""
        examples = played.examples
        known = np.flatnonzero(~np.isnan(examples.root_values))
        for row, action in zip(known.tolist(), examples.actions[known].tolist(), strict=True):
            self._tried[examples.states[row].tobytes()].add(action)
        found: list[Branch] = []
        for game in played.games:
            if len(found) < most and game.result:
                found += self._of_game(game, examples, min(self._most, most - len(found)))
        return found

    def _of_game(self, game: GameRecord, examples: Examples, most: int) -> Iterator[Branch]:
        """Yield the best untried moves at the largest drop that has any, and mark them as tried."""
        rows = _rows_of_games(examples, game.number)
        loser = 0 if game.result < 0 else 1
        for ply in value_drops(examples.root_values[rows], loser):
            policy = examples.policies[rows][ply]
            tried = self._tried[examples.states[rows][ply].tobytes()]
            best_first = np.argsort(-policy, kind="stable").tolist()
            untried = [each for each in best_first if policy[each] > 0 and each not in tried]
            if untried:
                tried.update(untried[:most])
                yield from (Branch(game, ply, action) for action in untried[:most])
                return


def value_drops(root_values: NDArray[np.float16], loser: int) -> list[int]:
    """Return the plies from which the loser's prospects fell, the largest drop first.

    `root_values`, float16[plies], are for the players to move, NaN where unknown; plies of parity
    `loser` are the loser's. Its prospects, win + 0.5 draw, are (1 + value) / 2, and 0 at the end of
    the game. Of equal drops the earliest comes first.
    """
    plies = np.arange(loser, len(root_values), 2)
    plies = plies[~np.isnan(root_values[plies])]
    prospects = np.append((1 + root_values[plies].astype(np.float64)) / 2, 0.0)
    fallen = prospects[:-1] - prospects[1:]
    order = np.argsort(-fallen, kind="stable")
    return [int(plies[at]) for at in order if fallen[at] > 0]


def _rows_of_games(examples: Examples, number: int) -> slice:
    """Return the rows of a game, in examples ordered by game."""
    return slice(*np.searchsorted(examples.games, (number, number + 1)).tolist())
