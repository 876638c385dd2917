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
from zerolab.play.search_service import PositionSearcher
from zerolab.play.selfplay import SelfPlayProgress
from zerolab.play.selfplay_settings import BigTreeMode
from zerolab.rules import python
from zerolab.rules.rules import ONGOING, Game
from zerolab.store.examples import Examples
from zerolab.store.games import GameRecord


class Node:
    """A position reached by at least one game."""

    __slots__ = ("action_visits", "actions", "outcome", "priors", "state", "visits", "worth")

    def __init__(self, state: NDArray[np.uint64], outcome: int) -> None:
        self.state = state
        """uint64[words]: state of the position."""
        self.outcome = outcome
        """ONGOING, or the result for the side to move."""
        self.visits = 0
        """N(s): number of games through this position, including unfinished ones."""
        self.worth = 0
        """Sum of the results of these games for the side to move. An unfinished game counts as a
        win, and thus as a loss for the player who moved here."""
        self.actions = np.empty(0, np.int64)
        """int64[k]: legal actions; empty before `TranspositionTree.expand`."""
        self.priors = np.empty(0, np.float32)
        """float32[k]: prior of each legal action."""
        self.action_visits = np.empty(0, np.int64)
        """int64[k]: N(s, a), visit count of each action."""

    @property
    def is_expanded(self) -> bool:
        """True once actions and priors are set."""
        return len(self.actions) > 0


class TranspositionTree:
    """PUCT over whole games; see `BigTreeMode` for the formula."""

    def __init__(self, game: Game, c: float, first_play: float) -> None:
        self._game = game
        self._c = c
        self._first_play = first_play
        self._nodes: dict[bytes, Node] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def begin(self) -> Node:
        """Begin a game; return the node of the start position."""
        state = python.start(self._game)
        return self._visit(state, ONGOING)

    def expand(self, node: Node, policy: NDArray[np.float32]) -> None:
        """Set a node's actions and priors from the policy of a search, float32[actions]."""
        node.actions = np.flatnonzero(python.legal(self._game, node.state))
        node.priors = policy[node.actions]
        node.action_visits = np.zeros(len(node.actions), np.int64)

    def descend(self, node: Node) -> tuple[int, Node]:
        """Return the action with the highest score and the node that it leads to.

        Ties go to the lowest action number. The node must be expanded.
        """
        states = np.repeat(node.state[None], len(node.actions), axis=0)
        rows = np.arange(len(states))
        outcomes = python.apply_batch(self._game, states, rows, node.actions)
        children = [self._nodes.get(state.tobytes()) for state in states]
        visits = np.array([child.visits if child else 0 for child in children])
        worth = np.array([child.worth if child else 0 for child in children])
        values = np.where(visits > 0, -worth / np.maximum(visits, 1), self._first_play)
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
        node.worth += 1
        return node

    @staticmethod
    def back_up(path: Sequence[Node]) -> None:
        """Back up the result of a finished game through all its positions."""
        result = path[-1].outcome
        for node in reversed(path):
            node.worth += result - 1
            result = -result


class _Line:
    """A game in progress, with all its positions and the actions between them."""

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


class BigTreePlayer:
    """Player of the games of an iteration, in waves of games that descend together ply by ply.

    The games of a wave move in numerical order, and their results are backed up in the same order
    once the whole wave is finished. Results therefore do not depend on the timing of searches.
    """

    def __init__(
        self,
        game: Game,
        mode: BigTreeMode,
        service: PositionSearcher,
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
        lines: list[_Line] = []
        for first in range(0, games, self._at_once):
            wave = [
                _Line(number, self.tree.begin())
                for number in range(first, min(games, first + self._at_once))
            ]
            self._play_wave(wave)
            lines += wave
        return LockstepResult([line.record(self._name) for line in lines], self._examples(lines))

    def _play_wave(self, wave: Sequence[_Line]) -> None:
        ongoing = wave
        while ongoing:
            self._expand(ongoing)
            for line in ongoing:
                line.follow(*self.tree.descend(line.nodes[-1]))
            self._plies += len(ongoing)
            ongoing = [line for line in ongoing if line.nodes[-1].outcome == ONGOING]
            self._show_progress()
        for line in wave:
            self.tree.back_up(line.nodes)
        self._games += len(wave)

    def _expand(self, lines: Sequence[_Line]) -> None:
        """Search all new positions in a single request."""
        new = {line.nodes[-1]: line.number for line in lines if not line.nodes[-1].is_expanded}
        if not new:
            return
        states, affinity = np.stack([node.state for node in new]), np.array(list(new.values()))
        results = self._service.search(states, affinity, self._show_progress)
        self._results.append(results)
        for node, policy in zip(new, results.policies, strict=True):
            self._rows[node] = len(self._rows)
            self.tree.expand(node, policy)

    def _examples(self, lines: Sequence[_Line]) -> Examples:
        moves = [
            (line.number, ply, action, node)
            for line in lines
            for ply, (action, node) in enumerate(zip(line.actions, line.nodes, strict=False))
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
