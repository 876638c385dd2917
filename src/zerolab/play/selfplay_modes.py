"""Self-play in continuous mode, in modes with a search service, and in a single large tree.

In continuous mode, lane l of L plays games l, l + L, l + 2 L and so on, with the same number of
plies in every iteration. Game numbers are therefore unique in a run, a game keeps its random
streams across iterations, and no lane has to wait for a long game in another lane.

The large tree is separate from `search.tree`, which is designed for millions of simulations per
second. In the large tree, every new node requires a complete search.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from zerolab.play.engine import useful_thread_count
from zerolab.play.executors import THREAD_EXECUTOR, Executor, PlayProgress, PlayProgressCallback
from zerolab.play.game_starts import NO_OPENINGS, Openings, given_ply_examples
from zerolab.play.lockstep import (
    LockstepGame,
    LockstepResult,
    LockstepSelfPlay,
    move_examples,
    play_retries,
)
from zerolab.play.pairings import Pairing
from zerolab.play.position_search import PositionResults
from zerolab.play.search_service import (
    EvaluatorFactory,
    SearchService,
    ServiceSettings,
    ThreadSearchService,
)
from zerolab.play.selfplay import (
    SelfPlayer,
    SelfPlayJob,
    SelfPlayResult,
    merge_in_game_order,
    merge_results,
    play_batches,
    with_given_plies,
    with_outcomes,
)
from zerolab.play.selfplay_settings import (
    BigTreeMode,
    ContinuousMode,
    RetryMode,
    SelfPlaySettings,
    ServiceMode,
)
from zerolab.rules import compiled_rules
from zerolab.rules.catalogue import game_name
from zerolab.rules.rules import ONGOING, Game
from zerolab.search.evaluator import Evaluator, has_network
from zerolab.search.search_settings import SearchSettings
from zerolab.store.examples import Examples, UnfinishedGames
from zerolab.store.games import GameRecord

if TYPE_CHECKING:
    from zerolab.play.ray_service import RaySearchService

_ALL_ITERATIONS = 0
"""Stream key used in place of the iteration; in other modes, iterations start at 1."""


def play_continuous(
    game: Game,
    settings: SelfPlaySettings,
    search: SearchSettings,
    evaluator: Evaluator,
    seed: int,
    previous: UnfinishedGames | None,
    report: PlayProgressCallback = lambda _: None,
    *,
    openings: Openings = NO_OPENINGS,
    name: str = "self-play",
    executor: Executor = THREAD_EXECUTOR,
) -> SelfPlayResult:
    """Play an iteration in continuous mode.

    `previous` contains the unfinished games of the previous iteration. Returns the finished games
    with all their examples, and the unfinished games. A game depends on the seed, the game number,
    its opening, and the networks and search settings of the iterations in which it is played. See
    `play_episodes` for the other arguments.
    """
    assert isinstance(settings.mode, ContinuousMode)
    lanes, plies = settings.parallel_games, settings.mode.plies
    in_progress = previous.games if previous else [_unplayed(lane, name) for lane in range(lanes)]
    threads = useful_thread_count(settings.threads, lanes, has_network(evaluator))
    continued = {each.number for each in in_progress if each.actions}
    pairings = [
        Pairing(
            number, name, name, number, actions or openings.opening(number), plies, lanes, openings
        )
        for number, _, _, actions, *_ in in_progress
    ]
    chunks = min(settings.chunk_count or threads, lanes)
    job = SelfPlayJob(
        game, settings, search, lambda: evaluator, seed, _ALL_ITERATIONS, threads,
        -(-lanes // chunks), name, SelfPlayer,
    )  # fmt: skip
    batches = [pairings[chunk::chunks] for chunk in range(chunks)]
    played = merge_results(executor.run(play_batches, job, batches, report))
    in_progress_by_number = {each.number: each for each in in_progress}
    games = [
        _with_agent_spans(each, in_progress_by_number.get(each.number)) for each in played.games
    ]
    begun = [each for each in played.games if each.number not in continued]
    parts = [previous.examples] if previous else []
    moves = merge_in_game_order([*parts, played.examples, *given_ply_examples(game, begun)])
    finished = with_given_plies([each for each in games if each.result != ONGOING], moves, job)
    is_finished = np.isin(moves.games, [each.number for each in finished])
    examples = with_outcomes(moves.take(is_finished), finished)
    unfinished = UnfinishedGames(_in_progress(games, lanes, name), moves.take(~is_finished))
    return played._replace(examples=examples, games=finished, unfinished_games=unfinished)


def _unplayed(number: int, name: str) -> GameRecord:
    return GameRecord(number, name, name, (), 0)


def _with_agent_spans(game: GameRecord, previous: GameRecord | None) -> GameRecord:
    """Return a game with agent spans that cover all its moves, including those in `previous`."""
    if previous is None or not previous.actions:
        return game
    if previous.last_mover == game.first:
        return game._replace(agent_spans=previous.agent_spans)
    spans = previous.agent_spans or ((0, previous.first),)
    return game._replace(agent_spans=(*spans, (len(previous.actions), game.first)))


def _in_progress(games: Sequence[GameRecord], lanes: int, name: str) -> tuple[GameRecord, ...]:
    """Return the games that the lanes continue or begin next, ordered by number."""
    latest = {game.number % lanes: game for game in sorted(games)}
    return tuple(
        sorted(
            game._replace(result=0, given_plies=0)  # counted once the game is finished
            if game.result == ONGOING
            else _unplayed(game.number + lanes, name)
            for game in latest.values()
        )
    )


def play_with_service(
    game: Game,
    settings: SelfPlaySettings,
    search: SearchSettings,
    evaluator: Evaluator,
    seed: int,
    iteration: int,
    report: PlayProgressCallback = lambda _: None,
    *,
    name: str = "self-play",
    evaluator_factory: Callable[[], EvaluatorFactory] | None = None,
) -> SelfPlayResult:
    """Play the games of an iteration in a mode with a search service; see `play_episodes`.

    Games depend only on the seed, the iteration, the network and the settings, not on the number of
    threads or of positions searched in parallel, provided that the network's output for a position
    does not depend on the rest of the batch. In a mode with actors, `evaluator_factory` returns the
    function with which each actor creates its evaluator.
    """
    mode = settings.mode
    assert isinstance(mode, ServiceMode)
    service_settings = ServiceSettings(
        search, seed, iteration, settings.budget, settings.parallel_games, settings.threads,
        mode.cache,
    )  # fmt: skip
    with _new_service(game, evaluator, service_settings, mode.actors, evaluator_factory) as service:
        lockstep = LockstepSelfPlay(game, settings, service, seed, iteration, name, report)
        if isinstance(mode, RetryMode):
            played = play_retries(lockstep, mode, settings.episodes)
        elif isinstance(mode, BigTreeMode):
            big_tree = BigTreeSelfPlay(game, mode, service, name, report)
            played = big_tree.play(settings.episodes)
        else:
            played = lockstep.play([LockstepGame(number) for number in range(settings.episodes)])
        # In other modes, some moves are copied or random.
        all_searched = isinstance(mode, BigTreeMode)
        searched_move_count = (
            len(played.examples.plies) if all_searched else service.search_counts["asked"]
        )
        return SelfPlayResult(
            with_outcomes(played.examples, played.games),
            played.games,
            service.search_counts,
            service.seconds_by_part,
            searched_move_count,
        )


def _new_service(
    game: Game,
    evaluator: Evaluator,
    service_settings: ServiceSettings,
    actors: int,
    evaluator_factory: Callable[[], EvaluatorFactory] | None,
) -> ThreadSearchService | RaySearchService:
    if not actors:
        return ThreadSearchService(game, evaluator, service_settings)
    from zerolab.play.ray_service import RaySearchService  # noqa: PLC0415  needs an extra

    assert evaluator_factory is not None
    return RaySearchService(game_name(game), evaluator_factory(), service_settings, actors)


class Node:
    """A position reached by at least one game."""

    __slots__ = ("action_visits", "actions", "outcome", "priors", "state", "value_sum", "visits")

    def __init__(self, state: NDArray[np.uint64], outcome: int) -> None:
        self.state = state
        """uint64[words]: state of the position."""
        self.outcome = outcome
        """ONGOING, or the result for the side to move."""
        self.visits = 0
        """N(s): number of games through this position, including unfinished ones."""
        self.value_sum = 0
        """W(s): sum of the results of games through this position, for the side to move. An
        unfinished game counts as a win, and thus as a loss for the player who moved here."""
        self.actions = np.empty(0, np.int64)
        """int64[k]: legal actions; empty before `BigTree.expand`."""
        self.priors = np.empty(0, np.float32)
        """float32[k]: prior of each action in `actions`."""
        self.action_visits = np.empty(0, np.int64)
        """int64[k]: N(s, a), visit count of each action in `actions`."""

    @property
    def is_expanded(self) -> bool:
        """True once `actions` and `priors` are set."""
        return len(self.actions) > 0


class BigTree:
    """Graph of complete games, with moves selected by PUCT; equal positions share a node.

    `BigTreeMode` defines the formula.
    """

    def __init__(self, game: Game, c: float, first_play: float) -> None:
        self._game = game
        self._c = c
        self._first_play = first_play
        self._nodes: dict[bytes, Node] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def begin_game(self) -> Node:
        """Begin a game and return the node of its start position."""
        state = compiled_rules.start(self._game)
        return self._visit(state, ONGOING)

    def expand(self, node: Node, policy: NDArray[np.float32]) -> None:
        """Set a node's actions and priors from the policy of a search, float32[actions]."""
        node.actions = np.flatnonzero(compiled_rules.legal(self._game, node.state))
        node.priors = policy[node.actions]
        node.action_visits = np.zeros(len(node.actions), np.int64)

    def select_child(self, node: Node) -> tuple[int, Node]:
        """Return the action with the highest PUCT score and the node to which it leads.

        Ties go to the lowest action number. The node must be expanded.
        """
        states = np.repeat(node.state[None], len(node.actions), axis=0)
        rows = np.arange(len(states))
        outcomes = compiled_rules.apply_batch(self._game, states, rows, node.actions)
        children = [self._nodes.get(state.tobytes()) for state in states]
        visits = np.array([child.visits if child else 0 for child in children])
        value_sum = np.array([child.value_sum if child else 0 for child in children])
        values = np.where(visits > 0, -value_sum / np.maximum(visits, 1), self._first_play)
        exploration = self._c * math.sqrt(node.visits) * node.priors / (1 + node.action_visits)
        best = int(np.argmax(values + exploration))
        node.action_visits[best] += 1
        return int(node.actions[best]), self._visit(states[best].copy(), int(outcomes[best]))

    def _visit(self, state: NDArray[np.uint64], outcome: int) -> Node:
        key = state.tobytes()
        node = self._nodes.get(key)
        if node is None:
            node = self._nodes[key] = Node(state, outcome)
        node.visits += 1
        node.value_sum += 1
        return node

    @staticmethod
    def back_up(path: Sequence[Node]) -> None:
        """Back up the result of a finished game through all its positions."""
        result = path[-1].outcome
        for node in reversed(path):
            node.value_sum += result - 1
            result = -result


class _GamePath:
    """A game in progress: its nodes and the actions between them."""

    def __init__(self, number: int, start: Node) -> None:
        self.number = number
        self.nodes = [start]
        self.actions: list[int] = []

    def follow(self, action: int, node: Node) -> None:
        self.actions.append(action)
        self.nodes.append(node)

    def record(self, name: str) -> GameRecord:
        outcome = self.nodes[-1].outcome
        result = -outcome if len(self.actions) % 2 else outcome
        return GameRecord(self.number, name, name, tuple(self.actions), result)


class BigTreeSelfPlay:
    """Self-play for one iteration in a single tree: waves of games descend through it ply by ply.

    The games of a wave move in order of game number, and their results are backed up in the same
    order once the whole wave is finished. Results therefore do not depend on the timing of
    searches.
    """

    def __init__(
        self,
        game: Game,
        mode: BigTreeMode,
        service: SearchService,
        name: str,
        report: PlayProgressCallback,
    ) -> None:
        self.graph = BigTree(game, mode.c, mode.first_play)
        self._at_once = mode.games_at_once
        self._service = service
        self._name = name
        self._report = report
        self._games = self._plies = 0
        self._results: list[PositionResults] = []
        self._rows: dict[Node, int] = {}

    def play(self, games: int) -> LockstepResult:
        """Play `games` games and return their records and examples."""
        paths: list[_GamePath] = []
        for first in range(0, games, self._at_once):
            wave = [
                _GamePath(number, self.graph.begin_game())
                for number in range(first, min(games, first + self._at_once))
            ]
            self._play_wave(wave)
            paths += wave
        return LockstepResult([path.record(self._name) for path in paths], self._examples(paths))

    def _play_wave(self, wave: Sequence[_GamePath]) -> None:
        ongoing = wave
        while ongoing:
            self._expand(ongoing)
            for path in ongoing:
                path.follow(*self.graph.select_child(path.nodes[-1]))
            self._plies += len(ongoing)
            ongoing = [path for path in ongoing if path.nodes[-1].outcome == ONGOING]
            self._show_progress()
        for path in wave:
            self.graph.back_up(path.nodes)
        self._games += len(wave)

    def _expand(self, paths: Sequence[_GamePath]) -> None:
        """Search all new positions in a single request."""
        new = {path.nodes[-1]: path.number for path in paths if not path.nodes[-1].is_expanded}
        if not new:
            return
        states, affinity = np.stack([node.state for node in new]), np.array(list(new.values()))
        results = self._service.search(states, affinity, self._show_progress)
        self._results.append(results)
        for node, policy in zip(new, results.policies, strict=True):
            self._rows[node] = len(self._rows)
            self.graph.expand(node, policy)

    def _examples(self, paths: Sequence[_GamePath]) -> Examples:
        moves = [
            (path.number, ply, action, node)
            for path in paths
            for ply, (action, node) in enumerate(zip(path.actions, path.nodes, strict=False))
        ]
        numbers, plies, actions, nodes = zip(*moves, strict=True)
        results = PositionResults.concatenate(self._results)
        return move_examples(
            np.stack([node.state for node in nodes]),
            np.array(numbers),
            np.array(plies),
            np.array(actions),
            results.take(np.array([self._rows[node] for node in nodes])),
            np.ones(len(moves), np.bool_),
        )

    def _show_progress(self) -> None:
        self._report(PlayProgress(self._games, self._plies))
