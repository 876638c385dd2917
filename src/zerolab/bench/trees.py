"""Tree and rules alone, on one core: a constant evaluator, 100 simulations, 256 trees."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from zerolab.bench.measure import GAMES, Measurement, in_turns
from zerolab.core import streams
from zerolab.core.compiled import kernel
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
_POSITIONS = 200_000


def measure_trees(rounds: int) -> Iterator[Measurement]:
    """Measure each game, compared with the rules without a tree."""
    for name in GAMES:
        subject, limit = Trees(name), RulesWalk(name)
        rate, best = in_turns(subject.search_all, limit.walk, 5 * rounds)
        yield Measurement(f"tree/{name}", "simulations/s", rate, best, "rules without a tree")


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
    state[:] = start
    for position in range(positions):
        rules.legal(game, state, mask)
        drawn = rules.random_action(game, state, streams.bits(np.uint64(1), position))
        rules.apply(game, state, drawn, state)
        if rules.outcome(game, state) != ONGOING:
            state[:] = start
