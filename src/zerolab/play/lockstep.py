"""Self-play in lockstep: one request to the search service per ply, for all games."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.core import streams
from zerolab.play.executors import PlayProgress, PlayProgressCallback
from zerolab.play.game_starts import NO_ACTION, RandomOpeningPlies, unsearched_examples
from zerolab.play.pairings import random_opening
from zerolab.play.position_search import PositionResults
from zerolab.play.search_service import SearchService
from zerolab.play.selfplay import merge_in_game_order
from zerolab.play.selfplay_settings import RetryMode, SelfPlaySettings
from zerolab.rules import compiled_rules
from zerolab.rules.facts import SearchFacts
from zerolab.rules.rules import MAX_PLIES, ONGOING, Game
from zerolab.search.roots import choose_actions
from zerolab.store.examples import Examples
from zerolab.store.games import GameRecord

Ints = NDArray[np.int64]


class LockstepGame(NamedTuple):
    """A game to play."""

    number: int
    opening: tuple[int, ...] = ()
    """Actions to play before the searches begin."""


class LockstepResult(NamedTuple):
    """Finished games, ordered by number, and an example for every move.

    Example columns that depend on the end of the game are still 0. Opening and random moves are
    played without a search and never used for training: their rows have all policy weight on the
    move played and NaN in the other search columns.
    """

    games: list[GameRecord]
    examples: Examples


class LockstepSelfPlay:
    """Self-play with a search service; moves are chosen as in episodic mode."""

    def __init__(
        self,
        game: Game,
        settings: SelfPlaySettings,
        service: SearchService,
        seed: int,
        iteration: int,
        name: str,
        report: PlayProgressCallback,
    ) -> None:
        self._game = game
        self._settings = settings
        self._service = service
        self._seed = seed
        self._iteration = iteration
        self._name = name
        self._report = report
        self._games = self._plies = 0

    def random_opening(self, game_number: int, plies: int) -> tuple[int, ...]:
        """Return `plies` random actions for a game; fewer if the next would end the game."""
        game, ply = np.array([game_number]), np.zeros(1, np.int64)
        return random_opening(self._game, plies, self._keys(game, ply, streams.SELF_PLAY_START)[0])

    def play(self, games: Sequence[LockstepGame]) -> LockstepResult:
        """Play games from the start position to the end."""
        moves: list[list[int]] = [[] for _ in games]
        numbers = np.array([game.number for game in games], np.int64)
        states = np.repeat(compiled_rules.start(self._game)[None], len(games), axis=0)
        random_plies = RandomOpeningPlies(
            self._game, self._settings.random_opening_plies, len(games)
        )
        outcomes = np.full(len(games), ONGOING, np.int8)
        given_plies = np.zeros(len(games), np.int64)
        chunks: list[Examples] = []
        for ply in range(MAX_PLIES):
            ongoing = np.flatnonzero(outcomes == ONGOING)
            if not ongoing.size:
                break
            plies = np.full(len(ongoing), ply)
            keys = self._keys(numbers[ongoing], np.zeros_like(plies), streams.SELF_PLAY_START)
            is_random = random_plies.draw(ongoing, states[ongoing], plies, keys)
            actions = self._opening_actions(games, ongoing, ply)
            actions = random_plies.with_random_actions(ongoing, actions)
            searched = ~is_random & (actions == NO_ACTION)
            given_plies[ongoing] += ~searched
            results = self._decide(states[ongoing], numbers[ongoing], plies, searched, actions)
            chunks.append(
                move_examples(states[ongoing], numbers[ongoing], plies, actions, results, searched)
            )
            outcomes[ongoing] = compiled_rules.apply_batch(self._game, states, ongoing, actions)
            for at, action in zip(ongoing.tolist(), actions.tolist(), strict=True):
                moves[at].append(action)
            self._plies += len(ongoing)
            self._games += int((outcomes[ongoing] != ONGOING).sum())
            self._show_progress()
        records = self._records(games, moves, outcomes, given_plies)
        return LockstepResult(sorted(records), merge_in_game_order(chunks))

    @staticmethod
    def _opening_actions(games: Sequence[LockstepGame], ongoing: Ints, ply: int) -> Ints:
        """Return each game's opening action at a ply, or NO_ACTION after its opening."""
        openings = [games[at].opening for at in ongoing.tolist()]
        return np.array([each[ply] if ply < len(each) else NO_ACTION for each in openings])

    def _keys(self, numbers: Ints, plies: Ints, purpose: int) -> NDArray[np.uint64]:
        return streams.stream_keys(self._seed, self._iteration, numbers, plies, purpose)

    def _records(
        self,
        games: Sequence[LockstepGame],
        moves: Sequence[Sequence[int]],
        outcomes: NDArray[np.int8],
        given_plies: Ints,
    ) -> Iterator[GameRecord]:
        """Yield game records; outcomes are for the side to move in the final position."""
        for game, actions, outcome, given in zip(
            games, moves, outcomes.tolist(), given_plies.tolist(), strict=True
        ):
            result = -outcome if len(actions) % 2 else outcome
            yield GameRecord(
                game.number, self._name, self._name, tuple(actions), result, given_plies=given
            )

    def _decide(
        self,
        states: NDArray[np.uint64],
        numbers: Ints,
        plies: Ints,
        searched: NDArray[np.bool_],
        actions: Ints,
    ) -> PositionResults:
        """Search the states where `searched` is set; write the moves to `actions`; return results.

        `searched` is bool[n], and `actions` is int64[n].
        """
        results = self._service.search(states[searched], numbers[searched], self._show_progress)
        if searched.any():
            keys = self._keys(numbers[searched], plies[searched], streams.SELF_PLAY_MOVE)
            sample = plies[searched] < self._settings.temperature_plies
            weights = np.where(
                sample[:, None], results.sampled_move_weights, results.greedy_move_weights
            ).astype(np.int64)
            actions[searched] = choose_actions(weights, keys, sample)
        return results

    def _show_progress(self) -> None:
        self._report(PlayProgress(self._games, self._plies))


def move_examples(
    states: NDArray[np.uint64],
    game_numbers: Ints,
    plies: Ints,
    actions: Ints,
    results: PositionResults,
    searched: NDArray[np.bool_],
) -> Examples:
    """Return one example per move; `results` has rows only for moves with `searched` set.

    Columns that depend on the end of the game are still 0.
    """
    moves = unsearched_examples(states, game_numbers, plies, actions, results.policies.shape[1])
    for name in SearchFacts.column_forms():
        getattr(moves, name)[searched] = getattr(results, name)
    moves.full[searched] = results.full
    return moves


class Branch(NamedTuple):
    """An untried move to play in a new game instead of the move that was played."""

    game: GameRecord
    """Decisive game in which the original move was played."""
    ply: int
    action: int

    @property
    def opening(self) -> tuple[int, ...]:
        """Actions of the new game up to and including the alternative move."""
        return (*self.game.actions[: self.ply], self.action)


def play_retries(lockstep: LockstepSelfPlay, mode: RetryMode, games: int) -> LockstepResult:
    """Play `games` games, alternating between openings and rounds of retries.

    Games are numbered in the order in which they begin.
    """
    finder = BranchFinder(mode.branches)
    games_per_opening = sum(mode.branches**level for level in range(mode.rounds + 1))
    parts: list[LockstepResult] = []
    begun = 0
    while begun < games:
        numbers = range(begun, begun + -(-(games - begun) // games_per_opening))
        latest = lockstep.play(
            [
                LockstepGame(number, lockstep.random_opening(number, mode.opening_plies))
                for number in numbers
            ]
        )
        parts.append(latest)
        begun = numbers.stop
        for _ in range(mode.rounds):
            branches = finder.find_branches(latest, games - begun)
            if not branches:
                break
            latest = _play_branches(lockstep, branches, latest.examples, begun)
            parts.append(latest)
            begun += len(branches)
    examples = merge_in_game_order([part.examples for part in parts])
    return LockstepResult(sorted(game for part in parts for game in part.games), examples)


def _play_branches(
    lockstep: LockstepSelfPlay, branches: Sequence[Branch], originals: Examples, first: int
) -> LockstepResult:
    """Play new games from branches of games whose examples are `originals`.

    Search results up to and including the branching position are copied from the original games.
    """
    numbers = range(first, first + len(branches))
    played = lockstep.play(
        [
            LockstepGame(number, branch.opening)
            for number, branch in zip(numbers, branches, strict=True)
        ]
    )
    for number, branch in zip(numbers, branches, strict=True):
        target = _game_rows(played.examples, number)
        source = _game_rows(originals, branch.game.number)
        for name in SearchFacts.column_forms():
            column, original = getattr(played.examples, name), getattr(originals, name)
            column[target][: branch.ply + 1] = original[source][: branch.ply + 1]
    return played


class BranchFinder:
    """Finder of untried moves at the plies where the losers' expected scores dropped."""

    def __init__(self, max_per_game: int) -> None:
        """Allow at most `max_per_game` branches per game in each call."""
        self._max_per_game = max_per_game
        self._tried: defaultdict[bytes, set[int]] = defaultdict(set)

    def find_branches(self, played: LockstepResult, max_branches: int) -> list[Branch]:
        """Return at most `max_branches` branches of the games, ordered by game number."""
        examples = played.examples
        searched = np.flatnonzero(~np.isnan(examples.root_values))
        for row, action in zip(searched.tolist(), examples.actions[searched].tolist(), strict=True):
            self._tried[examples.states[row].tobytes()].add(action)
        branches: list[Branch] = []
        for game in played.games:
            if len(branches) < max_branches and game.result:
                remaining = max_branches - len(branches)
                branches += self._game_branches(game, examples, min(self._max_per_game, remaining))
        return branches

    def _game_branches(self, game: GameRecord, examples: Examples, limit: int) -> Iterator[Branch]:
        """Yield the best untried moves at the largest drop with any left; mark them as tried."""
        rows = _game_rows(examples, game.number)
        loser = 0 if game.result < 0 else 1
        for ply in loser_plies_by_value_drop(examples.root_values[rows], loser):
            policy = examples.policies[rows][ply]
            tried = self._tried[examples.states[rows][ply].tobytes()]
            best_first = np.argsort(-policy, kind="stable").tolist()
            untried = [each for each in best_first if policy[each] > 0 and each not in tried]
            if untried:
                tried.update(untried[:limit])
                yield from (Branch(game, ply, action) for action in untried[:limit])
                return


def loser_plies_by_value_drop(root_values: NDArray[np.float16], loser: int) -> list[int]:
    """Return the loser's plies after which its expected score dropped, largest drop first.

    `root_values`, float16[plies], are for the side to move, NaN if unknown. `loser` is 0 if the
    first player lost, otherwise 1. The expected score, P(win) + 0.5 P(draw), is (1 + value) / 2,
    and 0 at the end of the game. Equal drops are ordered by ply.
    """
    plies = np.arange(loser, len(root_values), 2)
    plies = plies[~np.isnan(root_values[plies])]
    expected_scores = np.append((1 + root_values[plies].astype(np.float64)) / 2, 0.0)
    drops = expected_scores[:-1] - expected_scores[1:]
    order = np.argsort(-drops, kind="stable")
    return [int(plies[at]) for at in order if drops[at] > 0]


def _game_rows(examples: Examples, number: int) -> slice:
    """Return the rows of a game in examples ordered by game."""
    return slice(*np.searchsorted(examples.games, (number, number + 1)).tolist())
