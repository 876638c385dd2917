"""Self-play as the simulations of one tree; see `BigTree`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from zerolab.play.selfplay import SelfPlayProgress
from zerolab.play.service.answers import Answers
from zerolab.play.service.lockstep import Played, example_rows
from zerolab.play.service.service import PositionSearcher
from zerolab.play.service.settings import BigTree
from zerolab.play.service.tree import Node, TranspositionTree
from zerolab.rules.interface import ONGOING, Game
from zerolab.store.examples import Examples
from zerolab.store.games import GameRecord


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
        schedule: BigTree,
        service: PositionSearcher,
        name: str,
        report: Callable[[SelfPlayProgress], None],
    ) -> None:
        self.tree = TranspositionTree(game, schedule.c, schedule.first_play)
        self._at_once = schedule.games_at_once
        self._service = service
        self._name = name
        self._report = report
        self._games = self._plies = 0
        self._answers: list[Answers] = []
        self._rows: dict[Node, int] = {}

    def play(self, games: int) -> Played:
        """Play so many games."""
        lines: list[_Line] = []
        for first in range(0, games, self._at_once):
            wave = [
                _Line(number, self.tree.begin())
                for number in range(first, min(games, first + self._at_once))
            ]
            self._play_wave(wave)
            lines += wave
        return Played([line.record(self._name) for line in lines], self._examples(lines))

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
        answers = Answers(*map(np.concatenate, zip(*self._answers, strict=True)))
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
