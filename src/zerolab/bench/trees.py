"""Tree and rules alone, on one core: a constant evaluator, 100 simulations.

`Trees` need no batches, so each is searched to the end while it lies in the processor's caches.
`BatchedTrees` are searched as with a network: a step touches every tree once. Each begins with a
position of its own, and nothing is deduplicated or cached: every simulation but those that end in
a finished game requests an evaluation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zerolab.bench.measure import GAMES, Measurement, in_turns
from zerolab.core import streams
from zerolab.core.compiled import kernel
from zerolab.core.memory import copy_row
from zerolab.rules import host
from zerolab.rules import interface as rules
from zerolab.rules.catalogue import parse_game
from zerolab.rules.interface import ONGOING, Game
from zerolab.search.interface import UniformEvaluator
from zerolab.search.search import Search
from zerolab.search.settings import SearchSettings

_TREES = 256
_SIMULATIONS = 100
_REPEATS = 4
_BATCHED_GAMES = GAMES[:2]
_BATCHES = (256, 2048)
_OPENING_PLIES = 6
_POSITIONS = 200_000


def measure_trees(rounds: int) -> Iterator[Measurement]:
    """Measure each game, compared with the rules without a tree."""
    for name in GAMES:
        subject, limit = Trees(name), RulesWalk(name)
        rate, best = in_turns(subject.search_all, limit.walk, 5 * rounds)
        yield Measurement(f"tree/{name}", "simulations/s", rate, best, "rules without a tree")
    for name in _BATCHED_GAMES:
        unbatched = Trees(name)
        for trees in _BATCHES:
            batched = BatchedTrees(name, trees)
            rate, best = in_turns(batched.search_all, unbatched.search_all, 2 * rounds)
            yield Measurement(
                f"tree/{name}/batched/{trees}",
                "simulations/s",
                rate,
                best,
                "the same without batches",
                batched.shares(),
            )


class Trees:
    """Trees that are searched from the first position with a constant evaluator."""

    def __init__(self, name: str, selection: str = "puct") -> None:
        game = parse_game(name)
        evaluator = UniformEvaluator(rules.actions(game))
        chosen = {"simulations": _SIMULATIONS, "selection": selection}
        self._search = Search(game, SearchSettings.model_validate(chosen), evaluator, _TREES)
        self._slots = np.arange(_TREES)
        self._keys = np.zeros(_TREES, np.uint64)
        self._states = np.repeat(host.start(game)[None], _TREES, axis=0)

    def search_all(self) -> float:
        """Search all trees from the start; return the number of simulations."""
        for _ in range(_REPEATS):
            self._search.set_root(self._slots, self._states)
            self._search.start_search(self._slots, self._keys, self._keys)
            self._search.run()
        return float(_REPEATS * _TREES * _SIMULATIONS)


class ConstantEvaluator:
    """The same priors and values for all, as views of arrays that are ready."""

    def __init__(self, positions: int, actions: int) -> None:
        self._priors = np.full((positions, actions), 1 / actions, np.float32)
        self._values = np.zeros(positions, np.float32)

    def evaluate(
        self, states: NDArray[np.uint64]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """See `Evaluator.evaluate`."""
        return self._priors[: len(states)], self._values[: len(states)]


class BatchedTrees:
    """Trees that are searched from random openings with an evaluator that takes batches."""

    def __init__(self, name: str, trees: int) -> None:
        game = parse_game(name)
        evaluator = ConstantEvaluator(trees, rules.actions(game))
        settings = SearchSettings(simulations=_SIMULATIONS, deduplicate=False, cache=0)
        self._search = Search(game, settings, evaluator, trees)
        self._slots = np.arange(trees)
        self._keys = np.zeros(trees, np.uint64)
        self._states = np.repeat(host.start(game)[None], trees, axis=0)
        _open(game, self._states, np.empty(self._states.shape[1], np.uint64), _OPENING_PLIES)

    def search_all(self) -> float:
        """Search all trees from their openings; return the number of simulations."""
        self._search.seconds = dict.fromkeys(self._search.seconds, 0.0)
        self._search.set_root(self._slots, self._states)
        self._search.start_search(self._slots, self._keys, self._keys)
        self._search.run()
        return float(len(self._slots) * _SIMULATIONS)

    def shares(self) -> dict[str, float]:
        """Return how the time was spent, in shares of 1."""
        total = sum(self._search.seconds.values())
        return {part: seconds / total for part, seconds in self._search.seconds.items()}


@kernel
def _open(game: Any, states: Any, next_state: Any, plies: int) -> None:
    """Play random plies from each state, as long as games go on."""
    for i in range(states.shape[0]):
        for ply in range(plies):
            action = rules.random_action(game, states[i], streams.bits(np.uint64(i), ply))
            rules.apply(game, states[i], action, next_state)
            if rules.outcome(game, next_state) != ONGOING:
                break
            copy_row(next_state, states[i])


class RulesWalk:
    """The rules alone, one random game after another: no search can be faster."""

    def __init__(self, name: str) -> None:
        self._game: Game = parse_game(name)
        self._start = host.start(self._game)
        self._mask = np.empty(rules.actions(self._game), np.bool_)

    def walk(self) -> float:
        """Make random moves, with outcome and legal actions at each, as a search must."""
        _walk(self._game, self._start, self._start.copy(), self._mask, _POSITIONS)
        return float(_POSITIONS)


@kernel
def _walk(game: Any, start: Any, state: Any, mask: Any, positions: int) -> None:
    copy_row(start, state)
    for position in range(positions):
        rules.legal(game, state, mask)
        drawn = rules.random_action(game, state, streams.bits(np.uint64(1), position))
        rules.apply(game, state, drawn, state)
        if rules.outcome(game, state) != ONGOING:
            copy_row(start, state)
