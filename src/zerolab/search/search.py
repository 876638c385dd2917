"""A search over many games at once."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zerolab.core.threads import in_parts
from zerolab.rules import interface as rules
from zerolab.rules.interface import Game
from zerolab.rules.playouts import threads_for_playouts
from zerolab.search import kernels
from zerolab.search.cache import empty_cache
from zerolab.search.interface import Evaluator, UniformEvaluator, playouts, statistics, with_budget
from zerolab.search.kernels import COUNTS, NO_LEAF, SearchState
from zerolab.search.settings import SearchSettings
from zerolab.search.tree import empty_tree, grown_tree

_FIRST_NODES = 1024


class Search:
    """B trees, each searching a game of its own; a tree's number is its slot.

    Slots advance independently: `set_root` a position, `start_search` with a number of simulations, call `step`
    until the slot is finished, read its root, `advance` it over the moves that are played.
    """

    def __init__(
        self,
        game: Game,
        settings: SearchSettings,
        evaluator: Evaluator,
        slots: int,
        threads: int = 1,
    ) -> None:
        """Make trees without roots; the playouts of a batch of leaves may be shared by threads."""
        self.game = game
        self.settings = settings
        self.evaluator = evaluator
        self.seconds = {"select": 0.0, "evaluate": 0.0, "backup": 0.0}
        self._selection = with_budget(settings.selection.build(), settings.simulations)
        self._fpu = settings.fpu.build()
        self._leaf_evaluator = settings.leaf_evaluator.build()
        self._noise = (settings.noise.fraction, settings.noise.concentration)
        self._threads = threads
        self._uniform = isinstance(evaluator, UniformEvaluator)
        self._step = 0
        words, actions = rules.words(game), rules.actions(game)
        self._actions = actions
        nodes = max(_FIRST_NODES, 2 * actions)
        self._tree = empty_tree(slots, nodes, words, statistics(self._selection))
        positions = 1 if self._uniform else max(settings.cache, 4 * slots)
        self._cache = empty_cache(positions, words, actions)
        self._state = SearchState(
            active=np.zeros(slots, np.bool_),
            remaining=np.zeros(slots, np.int32),
            leaf=np.full(slots, NO_LEAF, np.int32),
            row=np.zeros(slots, np.int32),
            playout_key=np.zeros(slots, np.uint64),
            noise_key=np.zeros(slots, np.uint64),
            noise_due=np.zeros(slots, np.bool_),
            states=np.zeros((slots, words), np.uint64),
            slot=np.zeros(slots, np.int64),
            counts=np.zeros(len(COUNTS), np.int64),
        )

    @property
    def counts(self) -> dict[str, int]:
        """How many simulations ran, and how their leaves were evaluated, since the start.

        Leaves are evaluated, deduplicated with an equal one of their step, found in the cache, or
        terminal; evaluations of bare roots are among them, but not among the simulations.
        """
        return dict(zip(COUNTS, map(int, self._state.counts), strict=True))

    def set_root(self, slots: NDArray[np.int64], states: NDArray[np.uint64]) -> None:
        """Start anew from uint64[n, words] states, which must be ongoing."""
        kernels.set_root(self.game, self._tree, slots, states)

    def start_search(
        self,
        slots: NDArray[np.int64],
        playout_keys: NDArray[np.uint64],
        noise_keys: NDArray[np.uint64],
        simulations: int | None = None,
    ) -> None:
        """Order simulations, the settings' number by default, with random streams uint64[n]."""
        self._state.active[slots] = True
        self._state.remaining[slots] = simulations or self.settings.simulations
        self._state.playout_key[slots] = playout_keys
        self._state.noise_key[slots] = noise_keys
        self._state.noise_due[slots] = self.settings.noise.fraction > 0

    @property
    def active(self) -> bool:
        """Whether any slot is still searching."""
        return bool(self._state.active.any())

    def step(self) -> NDArray[np.int64]:
        """Run one step; return the slots that have finished and are idle now."""
        rows = self._select_leaves()
        if rows:
            began = perf_counter()
            priors, values = self.evaluator.evaluate(self._state.states[:rows])
            self.seconds["evaluate"] += perf_counter() - began
            self._expand_and_backup(rows, priors, values)
        finished = np.flatnonzero(self._state.active & (self._state.remaining == 0))
        self._state.active[finished] = False
        return finished

    def run(self) -> None:
        """Run steps until every slot is finished."""
        while self.active:
            self.step()

    def _select_leaves(self) -> int:
        began = perf_counter()
        self._step += 1
        settings = self.settings
        rows, short = kernels.select_leaves(
            self.game, self._selection, self._fpu, self._leaf_evaluator, self._tree, self._cache,
            self._state, self._step, settings.deduplicate and not self._uniform,
            settings.cache > 0 and not self._uniform, self._uniform,
            self._noise,
        )  # fmt: skip
        if short:
            self._tree = grown_tree(self._tree, 2 * self._tree.parent.shape[1])
        self.seconds["select"] += perf_counter() - began
        return int(rows)

    def _expand_and_backup(self, rows: int, priors: NDArray[Any], values: NDArray[Any]) -> None:
        began = perf_counter()
        kernels.store(self._cache, self._state, rows, priors, values)

        def expand_and_backup(begin: int, end: int) -> int:
            ended: int = kernels.expand_and_backup(
                self.game, self._selection, self._leaf_evaluator, self._tree, self._state, priors, values,
                begin, end,
            )  # fmt: skip
            return ended

        waiting = int(np.count_nonzero(self._state.leaf != NO_LEAF))
        parts = threads_for_playouts(waiting * playouts(self._leaf_evaluator), self._threads)
        ended = sum(in_parts(expand_and_backup, len(self._state.leaf), parts))
        self._state.counts[COUNTS.index("simulations")] += ended
        self.seconds["backup"] += perf_counter() - began

    def visits(self, slots: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the visit counts of the roots' actions, int32[n, actions]."""
        return self.root_actions(slots)[0]

    def root_actions(
        self, slots: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Return visit counts int32[n, actions] and mean values float32[n, actions] of actions."""
        visits = np.empty((len(slots), self._actions), np.int32)
        values = np.empty((len(slots), self._actions), np.float32)
        kernels.root_children(self._tree, slots, visits, values)
        return visits, values

    def root_values(self, slots: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the mean values of the roots for their movers, float32[n]."""
        return self._tree.value[slots, 0]

    def root_priors(self, slots: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the priors of the roots' actions, noise included, float32[n, actions]."""
        priors = np.zeros((len(slots), self._actions), np.float32)
        for i, b in enumerate(slots):
            first = self._tree.first_child[b, 0]
            children = slice(first, first + self._tree.children[b, 0])
            priors[i, self._tree.action[b, children]] = self._tree.prior[b, children]
        return priors

    def states(self, slots: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Return copies of the root states, uint64[n, words]."""
        return self._tree.states[slots, 0]

    def outcomes(self, slots: NDArray[np.int64]) -> NDArray[np.int8]:
        """Return ONGOING or the result for the mover at the roots, int8[n]."""
        return self._tree.outcome[slots, 0]

    def advance(self, slots: NDArray[np.int64], actions: NDArray[np.int64]) -> None:
        """Play actions int64[n] at the roots; the subtrees they lead to are kept if wanted."""
        kernels.advance(self.game, self._tree, slots, actions, self.settings.reuse_tree)


def choose_actions(
    visits: NDArray[np.int32], keys: NDArray[np.uint64], sample: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Choose from visit counts int32[n, actions]: at random in proportion where `sample`, else most.

    Equal counts are decided at random as well; the random streams are `keys`, uint64[n].
    """
    chosen = np.empty(len(visits), np.int64)
    kernels.choose(visits, keys, sample, chosen)
    return chosen
