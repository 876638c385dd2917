"""Self-play: one agent plays both sides, and every move becomes an example."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.agents.agent import FORFEIT_ACTION, Actions, Agent, Player, Slots
from zerolab.agents.network_players import SearchPlayer
from zerolab.core import streams
from zerolab.core.processes import available_cores
from zerolab.play.engine import EngineSetup, play_pairings, useful_thread_count
from zerolab.play.executors import (
    THREAD_EXECUTOR,
    Executor,
    GameBatch,
    MakeEvaluatorPortable,
    PlayProgress,
    PlayProgressCallback,
)
from zerolab.play.game_starts import (
    NO_OPENINGS,
    Openings,
    RandomOpeningPlies,
    draw_random_ply_counts,
    given_ply_examples,
)
from zerolab.play.observers import (
    ChosenMoves,
    GameRecorder,
    draw_resignation_free_games,
    should_resign,
)
from zerolab.play.pairings import Pairing
from zerolab.play.selfplay_settings import SelfPlaySettings
from zerolab.rules.facts import SearchFacts
from zerolab.rules.rules import DRAW, ONGOING, Game
from zerolab.search.evaluator import Evaluator, has_network
from zerolab.search.search_settings import SearchSettings
from zerolab.store.examples import Examples, UnfinishedGames
from zerolab.store.games import GameRecord

_MOVE_STREAM_PURPOSES = (
    streams.SELF_PLAY_MOVE,
    streams.PLAYOUT,
    streams.ROOT_NOISE,
    streams.SELF_PLAY_BUDGET,
)
_GAME_STREAM_PURPOSES = (streams.SELF_PLAY_START, streams.SELF_PLAY_RESIGNATION)

_FACT_TYPES = {name: form.dtype for name, form in SearchFacts.column_forms().items()}


class SelfPlayResult(NamedTuple):
    """Self-play games, with their examples, search counts and search times."""

    examples: Examples
    """One example for every move of every game."""
    games: list[GameRecord]
    """Games ordered by number."""
    search_counts: dict[str, int]
    """Search counts by name, as in `Search.work_counts`."""
    seconds_by_part: dict[str, float]
    """Thread time in seconds, by part of the search."""
    searched_move_count: int
    """Number of moves and resignations decided by searches. In episodic and continuous mode, this
    includes random plies, which use one simulation each. If a game continues over several
    iterations, each move is counted in the iteration that played it. Moves copied from another game
    are counted only in the original game."""
    unfinished_games: UnfinishedGames | None = None
    """Games to continue in the next iteration, in continuous mode."""


class SelfPlayJob(NamedTuple):
    """Data shared by all games of self-play."""

    game: Game
    settings: SelfPlaySettings
    search_settings: SearchSettings
    load_evaluator: Callable[[], Evaluator]
    seed: int
    iteration: int
    threads: int
    """Number of threads that play batches in parallel."""
    slots: int
    """Game slots per batch."""
    name: str
    """Agent name in the records."""
    new_player: Callable[[Game, SelfPlaySettings, SearchSettings, Evaluator, int], SelfPlayer]
    """Picklable function that creates players; see `SelfPlayer` for the arguments."""

    def to_portable(self, make_portable: MakeEvaluatorPortable) -> SelfPlayJob:
        return self._replace(load_evaluator=make_portable(self.load_evaluator()))


def play_episodes(
    game: Game,
    settings: SelfPlaySettings,
    search: SearchSettings,
    evaluator: Evaluator,
    seed: int,
    iteration: int,
    report: PlayProgressCallback = lambda _: None,
    *,
    numbers: range | None = None,
    openings: Openings = NO_OPENINGS,
    name: str = "self-play",
    executor: Executor = THREAD_EXECUTOR,
) -> SelfPlayResult:
    """Play the games of an iteration in episodic mode, or only those with the given `numbers`.

    A game depends only on (seed, iteration, number) and its opening, so an iteration can be played
    in parts, which `merge_results` joins. Games are distributed among `settings.chunk_count` chunks
    by number, by default one per thread. `name` is the agent name in the records. `report` is
    called a few times per second. An exception, such as KeyboardInterrupt in `report`, stops all
    threads.
    """
    numbers = range(settings.episodes) if numbers is None else numbers
    at_once = min(settings.parallel_games, len(numbers))
    threads = useful_thread_count(settings.threads, at_once, has_network(evaluator))
    chunks = min(settings.chunk_count or threads, len(numbers))
    pairings = [
        _opened(Pairing(number, name, name, number, max_plies=settings.max_plies), openings)
        for number in numbers
    ]
    batches = [pairings[chunk::chunks] for chunk in range(chunks)]
    players = settings.processes if settings.processes > 1 else threads
    slots = max(1, settings.parallel_games // players)
    job = SelfPlayJob(
        game, settings, search, lambda: evaluator, seed, iteration, threads, slots, name, SelfPlayer
    )
    played = merge_results(executor.run(play_batches, job, batches, report))
    moves = merge_in_game_order([played.examples, *given_ply_examples(game, played.games)])
    games = [
        each._replace(result=DRAW) if each.result == ONGOING else each for each in played.games
    ]
    games = with_given_plies(games, moves, job)
    return played._replace(examples=with_outcomes(moves, games), games=games)


def _opened(pairing: Pairing, openings: Openings) -> Pairing:
    """Return the pairing with its opening, whose plies count towards `Pairing.max_plies`."""
    opening = openings.opening(pairing.number)
    limit = pairing.max_plies
    return pairing._replace(opening=opening, max_plies=limit and limit - len(opening))


def play_batches(
    job: SelfPlayJob, batches: Sequence[GameBatch], report: PlayProgressCallback = lambda _: None
) -> SelfPlayResult:
    """Play batches of games, each in a thread with separate game slots; see `play_episodes`.

    Games may remain unfinished, so example columns that depend on the end of the game are still 0.
    """
    evaluator = job.load_evaluator()
    counts: list[dict[str, int]] = []
    seconds: list[dict[str, float]] = []

    def next_player() -> SelfPlayer:
        cores = max(1, available_cores() // max(job.threads, job.settings.processes))
        return job.new_player(job.game, job.settings, job.search_settings, evaluator, cores)

    def release_player(player: Player) -> None:  # players are not kept: caches are large
        assert isinstance(player, SelfPlayer)
        counts.append(player.search.work_counts)
        seconds.append(player.search.seconds_by_part)

    agent = Agent(job.name, next_player, game=job.game, load_evaluator=lambda: evaluator)
    setup = EngineSetup(
        job.game,
        [agent],
        job.seed,
        job.iteration,
        job.threads,
        job.slots,
        _MOVE_STREAM_PURPOSES,
        _GAME_STREAM_PURPOSES,
    )
    moves, recorder = _ExampleRecorder(), GameRecorder()
    play_pairings(
        setup, batches, move_observers=[moves], game_observers=[recorder],
        progress=lambda done, note: report(
            PlayProgress(done, moves.move_count, recorder.latest_game, note)
        ),
        release_player=release_player,
    )  # fmt: skip
    return SelfPlayResult(
        moves.examples(), recorder.games, sum_by_key(counts), sum_by_key(seconds), moves.move_count
    )


def with_given_plies(
    games: Sequence[GameRecord], examples: Examples, job: SelfPlayJob
) -> list[GameRecord]:
    """Return the records with the number of random or copied plies at the start of each game.

    `examples` are the examples from the games. The engine counts all plies before the first search
    as given, which in continuous mode includes moves that were searched in earlier iterations.
    """
    numbers = np.array([game.number for game in games], np.int64)
    keys = streams.stream_keys(
        job.seed, job.iteration, numbers, np.zeros_like(numbers), streams.SELF_PLAY_START
    )
    random = np.empty(len(games), np.int64)
    draw_random_ply_counts(keys, job.settings.random_opening_plies, random)
    copied_games = examples.games[np.isnan(examples.root_values)]
    copied = np.searchsorted(copied_games, numbers, "right") - np.searchsorted(
        copied_games, numbers
    )
    return [
        game._replace(given_plies=min(count, game.ply_count))
        for game, count in zip(games, np.maximum(random, copied).tolist(), strict=True)
    ]


def merge_results(parts: Sequence[SelfPlayResult]) -> SelfPlayResult:
    """Combine the results of parts of an iteration, as if they had been played together."""
    examples = merge_in_game_order([part.examples for part in parts])
    games = sorted(game for part in parts for game in part.games)
    counts = sum_by_key(part.search_counts for part in parts)
    seconds = sum_by_key(part.seconds_by_part for part in parts)
    return SelfPlayResult(
        examples, games, counts, seconds, sum(part.searched_move_count for part in parts)
    )


class SelfPlayer(SearchPlayer):
    """Player that searches for both sides of a self-play game in one tree, with root noise.

    The keys, uint64[n, 6], are random streams for `_MOVE_STREAM_PURPOSES` and
    `_GAME_STREAM_PURPOSES`.
    """

    def __init__(
        self,
        game: Game,
        settings: SelfPlaySettings,
        search: SearchSettings,
        evaluator: Evaluator,
        threads: int,
    ) -> None:
        # Used by `start`, which super().__init__ calls.
        self._max_random_plies = settings.random_opening_plies
        self._resignation = settings.resignation
        super().__init__(
            game, "self-play", search, evaluator, settings.temperature_plies,
            noise=True, threads=threads, budget=settings.budget,
        )  # fmt: skip

    def start(self, games: int) -> None:
        super().start(games)
        self._random_plies = self.new_random_plies(games)
        self._full = np.zeros(games, np.bool_)
        self._played_on = np.zeros(games, np.bool_)

    def new_random_plies(self, games: int) -> RandomOpeningPlies:
        """Return a source of random plies for `games` games."""
        return RandomOpeningPlies(self._game, self._max_random_plies, games)

    def submit(self, slots: Slots, states: NDArray[np.uint64], keys: NDArray[np.uint64]) -> None:
        self._keys[slots] = keys[:, 0]
        simulations, full = self.budget.initial_allowance(slots, keys[:, 3])
        is_random = self._random_plies.draw(slots, states, self._plies[slots], keys[:, 4])
        full &= ~is_random
        self._full[slots] = full
        simulations[is_random] = 1
        if self._resignation:
            played_on = np.empty(len(slots), np.bool_)
            draw_resignation_free_games(keys[:, 5], self._resignation.played_on, played_on)
            self._played_on[slots] = played_on
        self.search.start_search(slots, keys[:, 1], keys[:, 2], simulations, full)

    def grant_simulations(self, slots: Slots) -> NDArray[np.int32]:
        more = np.zeros(len(slots), np.int32)
        searched = ~self._random_plies.is_random(slots)
        more[searched] = super().grant_simulations(slots[searched])
        return more

    def decide(self, slots: Slots) -> Actions:
        """Choose the moves of finished searches, and store `facts` and `full` for observers.

        The action `FORFEIT_ACTION` resigns the game.
        """
        if not slots.size:
            return slots
        columns = self.search.search_facts(slots).columns()
        self.facts = SearchFacts(**{
            name: column.astype(_FACT_TYPES[name]) for name, column in columns.items()
        })  # fmt: skip
        self.full = self._full[slots]
        chosen = self.search.choose(slots, self._keys[slots], self.is_sampled(slots))
        actions = self._random_plies.with_random_actions(slots, chosen)
        if not self._resignation:
            return actions
        resigns = should_resign(self.facts.root_values, self.full, self._resignation.threshold)
        return np.where(resigns & ~self._played_on[slots], FORFEIT_ACTION, actions)


class _ExampleRecorder:
    """`MoveObserver` that collects an example for every move, but none for a resignation."""

    def __init__(self) -> None:
        self.move_count = 0
        self._chunks: list[Examples] = []

    def on_moves_chosen(self, moves: ChosenMoves) -> None:
        assert isinstance(moves.player, SelfPlayer)
        count = len(moves.actions)
        self.move_count += count
        examples = Examples(
            states=moves.states,
            outcomes=np.zeros(count, np.int8),
            plies_left=np.zeros(count, np.int16),
            games=moves.game_numbers.astype(np.int32),
            plies=moves.plies.astype(np.int16),
            actions=moves.actions.astype(np.int16),
            full=moves.player.full,
            **moves.player.facts.columns(),
        )
        is_move = moves.actions != FORFEIT_ACTION
        self._chunks.append(examples if is_move.all() else examples.take(is_move))

    def examples(self) -> Examples:
        """Return the examples, with `outcomes` and `plies_left` still 0."""
        return merge_in_game_order(self._chunks)


def with_outcomes(examples: Examples, games: Sequence[GameRecord]) -> Examples:
    """Return the examples of finished `games`, ordered by number, with outcomes and plies left."""
    numbers = np.array([game.number for game in games])
    rows = np.searchsorted(numbers, examples.games)
    results = np.array([game.result for game in games], np.int8)
    lengths = np.array([game.ply_count for game in games], np.int16)
    signs = np.where(examples.plies % 2 == 0, 1, -1).astype(np.int8)
    return replace(
        examples, outcomes=signs * results[rows], plies_left=lengths[rows] - examples.plies
    )


def merge_in_game_order(parts: Sequence[Examples]) -> Examples:
    """Concatenate examples and order them by game and ply."""
    examples = Examples.concatenate(parts)
    return examples.take(np.lexsort((examples.plies, examples.games)))


def sum_by_key(tables: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the sums of the values in several dictionaries, by key."""
    sums: dict[str, Any] = {}
    for table in tables:
        for key, value in table.items():
            sums[key] = sums.get(key, 0) + value
    return sums
