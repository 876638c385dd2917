"""Self-play as the simulations of one tree over whole games (see `BigTreeMode`).

It is a second type of tree beside that of `search.tree`: there every simulation adds one leaf, and
millions of them a second have to be fast; here every new node costs a whole search.
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
    """A position that games have reached."""

    __slots__ = ("actions", "chosen", "outcome", "priors", "state", "visits", "worth")

    def __init__(self, state: NDArray[np.uint64], outcome: int) -> None:
        self.state = state
        """uint64[words]"""
        self.outcome = outcome
        """ONGOING, or the result for the mover."""
        self.visits = 0
        """N(s): games that went through it, those under way included."""
        self.worth = 0
        """The sum of their results for the mover; a game under way counts as won, which is lost
        for the player who chose to come here."""
        self.actions = np.empty(0, np.int64)
        """int64[k]: the legal ones; none before `TranspositionTree.expand`."""
        self.priors = np.empty(0, np.float32)
        """float32[k]"""
        self.chosen = np.empty(0, np.int64)
        """int64[k]: N(s, a), how often each action was taken here."""

    @property
    def is_expanded(self) -> bool:
        """Whether it is known which actions lead on, and how promising they are."""
        return len(self.actions) > 0


class TranspositionTree:
    """PUCT over whole games; see `BigTree` for the formula."""

    def __init__(self, game: Game, c: float, first_play: float) -> None:
        self._game = game
        self._c = c
        self._first_play = first_play
        self._nodes: dict[bytes, Node] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def begin(self) -> Node:
        """Begin a game; return the first position."""
        state = python.start(self._game)
        return self._visit(state, ONGOING)

    def expand(self, node: Node, policy: NDArray[np.float32]) -> None:
        """Take in the policy float32[actions] that a search of a node's position has found."""
        node.actions = np.flatnonzero(python.legal(self._game, node.state))
        node.priors = policy[node.actions]
        node.chosen = np.zeros(len(node.actions), np.int64)

    def descend(self, node: Node) -> tuple[int, Node]:
        """Take the action of the highest score, the lowest of equal ones, and go there.

        The node must be expanded.
        """
        states = np.repeat(node.state[None], len(node.actions), axis=0)
        rows = np.arange(len(states))
        outcomes = python.apply_batch(self._game, states, rows, node.actions)
        behind = [self._nodes.get(state.tobytes()) for state in states]
        visits = np.array([child.visits if child else 0 for child in behind])
        worth = np.array([child.worth if child else 0 for child in behind])
        values = np.where(visits > 0, -worth / np.maximum(visits, 1), self._first_play)
        exploration = self._c * math.sqrt(node.visits) * node.priors / (1 + node.chosen)
        best = int(np.argmax(values + exploration))
        node.chosen[best] += 1
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
        """Take in the result of a game, given all its positions, of which the last one is final."""
        result = path[-1].outcome
        for node in reversed(path):
            node.worth += result - 1
            result = -result


class _Line:
    """The positions of a game, from the first one on, and the actions between them."""

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
    """Plays the games of an iteration, in waves that descend together ply by ply.

    Within a wave simulations move in the order of their numbers, and their results are backed up
    in this order once all are over. So nothing depends on when searches finish.
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
        self._answers: list[PositionResults] = []
        self._rows: dict[Node, int] = {}

    def play(self, games: int) -> LockstepResult:
        """Play so many games."""
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
        going = wave
        while going:
            self._expand(going)
            for line in going:
                line.follow(*self.tree.descend(line.nodes[-1]))
            self._plies += len(going)
            going = [line for line in going if line.nodes[-1].outcome == ONGOING]
            self._tell()
        for line in wave:
            self.tree.back_up(line.nodes)
        self._games += len(wave)

    def _expand(self, lines: Sequence[_Line]) -> None:
        """Ask for the searches of all positions that are new, at once."""
        new = {line.nodes[-1]: line.number for line in lines if not line.nodes[-1].is_expanded}
        if not new:
            return
        states, near = np.stack([node.state for node in new]), np.array(list(new.values()))
        answers = self._service.ask(states, near, self._tell)
        self._answers.append(answers)
        for node, policy in zip(new, answers.policies, strict=True):
            self._rows[node] = len(self._rows)
            self.tree.expand(node, policy)

    def _examples(self, lines: Sequence[_Line]) -> Examples:
        moves = [
            (line.number, ply, action, node)
            for line in lines
            for ply, (action, node) in enumerate(zip(line.actions, line.nodes, strict=False))
        ]
        numbers, plies, actions, nodes = zip(*moves, strict=True)
        answers = PositionResults.concatenate(self._answers)
        return example_rows(
            np.stack([node.state for node in nodes]),
            np.array(numbers),
            np.array(plies),
            np.array(actions),
            answers.rows(np.array([self._rows[node] for node in nodes])),
            np.ones(len(moves), np.bool_),
        )

    def _tell(self) -> None:
        self._report(SelfPlayProgress(self._games, self._plies))
