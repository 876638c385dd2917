"""Games that go back to where their losers lost most, and try another move; see `Retry`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.play.selfplay import in_order
from zerolab.play.service.lockstep import Begun, Lockstep, Played
from zerolab.play.service.settings import Retry
from zerolab.store.examples import Examples
from zerolab.store.games import GameRecord

_SEARCHED = ("policies", "root_values", "root_draws", "action_values")
"""What a search says in an example."""


class Branch(NamedTuple):
    """A move to be tried in place of another one."""

    game: GameRecord
    """The game that is gone back into."""
    ply: int
    action: int

    @property
    def opening(self) -> tuple[int, ...]:
        """The actions of the new game up to this move."""
        return (*self.game.actions[: self.ply], self.action)


def play_retries(lockstep: Lockstep, schedule: Retry, games: int) -> Played:
    """Play so many games: openings, rounds of retries, and openings again while games are left.

    A game's number is its place in the order in which the games are begun.
    """
    finder = BranchFinder(schedule.branches)
    family = sum(schedule.branches**back for back in range(schedule.rounds + 1))
    parts: list[Played] = []
    begun = 0
    while begun < games:
        numbers = range(begun, begun + -(-(games - begun) // family))
        latest = lockstep.play(
            [Begun(number, lockstep.opening(number, schedule.opening_plies)) for number in numbers]
        )
        parts.append(latest)
        begun = numbers.stop
        for _ in range(schedule.rounds):
            branches = finder.branches(latest, games - begun)
            if not branches:
                break
            latest = _played_on(lockstep, branches, latest.examples, begun)
            parts.append(latest)
            begun += len(branches)
    everything = in_order([part.examples for part in parts])
    return Played(sorted(game for part in parts for game in part.games), everything)


def _played_on(
    lockstep: Lockstep, branches: Sequence[Branch], former: Examples, first: int
) -> Played:
    """Play new games from branches of earlier ones, whose examples are given.

    What the searches said of the positions up to the branch is taken over.
    """
    numbers = range(first, first + len(branches))
    played = lockstep.play(
        [Begun(number, branch.opening) for number, branch in zip(numbers, branches, strict=True)]
    )
    for number, branch in zip(numbers, branches, strict=True):
        own, other = _rows(played.examples, number), _rows(former, branch.game.number)
        for name in _SEARCHED:
            column, source = getattr(played.examples, name), getattr(former, name)
            column[own][: branch.ply + 1] = source[other][: branch.ply + 1]
    return played


class BranchFinder:
    """Finds where games were lost, and remembers which moves have been tried."""

    def __init__(self, most: int) -> None:
        """Find at most so many branches of a game."""
        self._most = most
        self._tried: defaultdict[bytes, set[int]] = defaultdict(set)

    def branches(self, played: Played, most: int) -> list[Branch]:
        """Return at most so many branches of the games, in the order of their numbers."""
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
        """Yield the best untried moves at the largest drop that has any, and note them as tried."""
        rows = _rows(examples, game.number)
        loser = 0 if game.result < 0 else 1
        for ply in drops(examples.root_values[rows], loser):
            policy = examples.policies[rows][ply]
            tried = self._tried[examples.states[rows][ply].tobytes()]
            best_first = np.argsort(-policy, kind="stable").tolist()
            untried = [each for each in best_first if policy[each] > 0 and each not in tried]
            if untried:
                tried.update(untried[:most])
                yield from (Branch(game, ply, action) for action in untried[:most])
                return


def drops(root_values: NDArray[np.float16], loser: int) -> list[int]:
    """Return the plies from which the loser's prospects fell, the largest drop first.

    `root_values` float16[plies] are those of the movers, NaN where unknown; plies of parity `loser`
    are the loser's. Win + 0.5 draw is (1 + value) / 2, and 0 at the end of the game. Of equal drops
    the earliest comes first.
    """
    plies = np.arange(loser, len(root_values), 2)
    plies = plies[~np.isnan(root_values[plies])]
    prospects = np.append((1 + root_values[plies].astype(np.float64)) / 2, 0.0)
    fallen = prospects[:-1] - prospects[1:]
    order = np.argsort(-fallen, kind="stable")
    return [int(plies[at]) for at in order if fallen[at] > 0]


def _rows(examples: Examples, number: int) -> slice:
    """Return where the moves of a game are, in examples ordered by game."""
    return slice(*np.searchsorted(examples.games, (number, number + 1)).tolist())
