"""Self-play games as simulations of a single large tree (see `BigTreeMode`).

This tree is separate from `search.tree`, which is designed for millions of simulations per second.
Here, every new node requires a complete search.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from zerolab.play.lockstep import LockstepResult, example_rows
from zerolab.play.position_search import PositionResults
from zerolab.play.search_service import SearchService
from zerolab.play.selfplay import SelfPlayProgress
from zerolab.play.selfplay_settings import BigTreeMode
from zerolab.rules import compiled_rules
from zerolab.rules.rules import ONGOING, Game
from zerolab.store.examples import Examples
from zerolab.store.games import GameRecord


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
        """int64[k]: legal actions; empty before `TranspositionTree.expand`."""
        self.priors = np.empty(0, np.float32)
        """float32[k]: prior of each action in `actions`."""
        self.action_visits = np.empty(0, np.int64)
        """int64[k]: N(s, a), visit count of each action in `actions`."""

    @property
    def is_expanded(self) -> bool:
        """True once `actions` and `priors` are set."""
        return len(self.actions) > 0


class TranspositionTree:
    """Tree of whole games in which equal positions share a node, descended with PUCT.

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
        """Begin a game and return the node of the start position."""
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
    """Self-play of an iteration in one big tree, in waves of games that descend ply by ply.

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
        report: Callable[[SelfPlayProgress], None],
    ) -> None:
        self.tree = TranspositionTree(game, mode.c, mode.first_play)
        self._at_once = mode.games_at_once
        self._service = service
        self._name = name
        self._report = report
        self._games = self._plies = 0
        self._results: list[PositionResults] = []
        self._rows: dict[Node, int] = {}

    def play(self, games: int) -> LockstepResult:
        """Play `games` games."""
        paths: list[_GamePath] = []
        for first in range(0, games, self._at_once):
            wave = [
                _GamePath(number, self.tree.begin_game())
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
                path.follow(*self.tree.select_child(path.nodes[-1]))
            self._plies += len(ongoing)
            ongoing = [path for path in ongoing if path.nodes[-1].outcome == ONGOING]
            self._show_progress()
        for path in wave:
            self.tree.back_up(path.nodes)
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
            self.tree.expand(node, policy)

    def _examples(self, paths: Sequence[_GamePath]) -> Examples:
        moves = [
            (path.number, ply, action, node)
            for path in paths
            for ply, (action, node) in enumerate(zip(path.actions, path.nodes, strict=False))
        ]
        numbers, plies, actions, nodes = zip(*moves, strict=True)
        results = PositionResults.concatenate(self._results)
        return example_rows(
            np.stack([node.state for node in nodes]),
            np.array(numbers),
            np.array(plies),
            np.array(actions),
            results.rows(np.array([self._rows[node] for node in nodes])),
            np.ones(len(moves), np.bool_),
        )

    def _show_progress(self) -> None:
        self._report(SelfPlayProgress(self._games, self._plies))
