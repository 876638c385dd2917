"""A search over many games at once."""

from __future__ import annotations

from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from zerolab.core.threads import in_parts
from zerolab.rules import interface as rules
from zerolab.rules.interface import Game
from zerolab.rules.playouts import threads_for_playouts
from zerolab.search import kernels, roots
from zerolab.search.cache import empty_cache
from zerolab.search.interface import Evaluator, UniformEvaluator, playouts, statistics, with_budget
from zerolab.search.kernels import COUNTS, NO_LEAF, Methods, SearchState, StepOptions
from zerolab.search.result import SearchResult, principal_variation
from zerolab.search.settings import SearchSettings
from zerolab.search.tie_break import TIE_BREAK_TYPES
from zerolab.search.tree import by_field, empty_forest, grown
from zerolab.search.utility import ZeroSum

_FIRST_NODES = 1024


class Search:
    """B trees, each searching a game of its own; a tree's number is its slot.

    Slots are independent: `set_root` a position, `start_search`, call `step` until the slot is
    finished or `run` until all are, read its `result`, `advance` it over the moves that are played.
    """

    def __init__(
        self,
        game: Game,
        settings: SearchSettings,
        evaluator: Evaluator,
        slots: int,
        threads: int = 1,
    ) -> None:
        """Make `slots` trees without roots; `threads` may share the playouts of a batch."""
        self.game = game
        self.settings = settings
        self.evaluator = evaluator
        self.seconds = {"select": 0.0, "evaluate": 0.0, "backup": 0.0}
        self._methods = Methods(
            with_budget(settings.selection.build(), settings.simulations),
            settings.fpu.build(),
            TIE_BREAK_TYPES[settings.tie_break](),
            settings.leaf_evaluator.build(),
        )
        self._threads = threads
        self._workspace = kernels.empty_workspace(game)
        self._uniform = isinstance(evaluator, UniformEvaluator)
        self._options = StepOptions(
            number=0,
            deduplicate=settings.deduplicate and not self._uniform,
            cached=settings.cache > 0 and not self._uniform,
            uniform=self._uniform,
            noise_fraction=settings.noise.fraction,
            noise_concentration=settings.noise.concentration,
        )
        words, actions = rules.words(game), rules.actions(game)
        self._actions = actions
        nodes = max(_FIRST_NODES, 2 * actions)
        self._forest = empty_forest(
            slots, nodes, words, statistics(self._methods.selection), ZeroSum(settings.discount)
        )
        self._tree = by_field(self._forest)
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
        """How many simulations ran so far, and where the values of their leaves came from.

        Leaves are evaluated, deduplicated (an equal one of their step is evaluated), cached, or
        terminal. Evaluations of bare roots count among these, but not among the simulations.
        """
        return dict(zip(COUNTS, map(int, self._state.counts), strict=True))

    def set_root(self, slots: NDArray[np.int64], states: NDArray[np.uint64]) -> None:
        """Set bare roots: uint64[n, words] states, which must be ongoing."""
        roots.set_root(self.game, self._tree, slots, states)

    def start_search(
        self,
        slots: NDArray[np.int64],
        playout_keys: NDArray[np.uint64],
        noise_keys: NDArray[np.uint64],
        simulations: int | NDArray[np.int32] | None = None,
        noise: NDArray[np.bool_] | None = None,
    ) -> None:
        """Request simulations and new root noise, by default what the settings say.

        `playout_keys` and `noise_keys` are random streams, uint64[n]. `simulations` may be one
        number or int32[n]; `noise` bool[n] says which roots get noise, if the settings have any.
        Raises ValueError for fewer than one simulation.
        """
        some = self.settings.noise.fraction > 0
        noisy = np.full(len(slots), some) if noise is None else noise & some
        inherited = self.settings.noise.inherited_visits
        if noisy.any() and 0 < inherited < 1:
            roots.discount(self._tree, slots[noisy], inherited)
        self._run(slots, self.settings.simulations if simulations is None else simulations)
        self._state.playout_key[slots] = playout_keys
        self._state.noise_key[slots] = noise_keys
        self._state.noise_due[slots] = noisy

    def extend(self, slots: NDArray[np.int64], simulations: int | NDArray[np.int32]) -> None:
        """Go on with finished searches for more simulations, without new noise.

        The searches' random streams go on, too. Raises ValueError for fewer than one simulation.
        """
        self._run(slots, simulations)
        kernels.extend_streams(self._state, slots)

    def _run(self, slots: NDArray[np.int64], simulations: int | NDArray[np.int32]) -> None:
        if np.min(simulations, initial=1) < 1:
            raise ValueError(f"{np.min(simulations)} simulations: expected at least 1")
        self._state.active[slots] = True
        self._state.remaining[slots] = simulations

    @property
    def active(self) -> bool:
        """Whether any slot is still searching."""
        return bool(self._state.active.any())

    def step(self) -> NDArray[np.int64]:
        """Run one step; return the slots int64[n] that have finished and are idle now."""
        states = self.select_leaves()
        if len(states):
            began = perf_counter()
            priors, values = self.evaluator.evaluate(states)
            self.seconds["evaluate"] += perf_counter() - began
            self.expand_and_backup(priors, values)
        return self.finish()

    def finish(self) -> NDArray[np.int64]:
        """End a step: return the slots that have finished, which are idle now."""
        finished = np.flatnonzero(self._state.active & (self._state.remaining == 0))
        self._state.active[finished] = False
        return finished

    def run(self) -> None:
        """Run steps until every slot is finished."""
        while self.active:
            self.step()

    def select_leaves(self) -> NDArray[np.uint64]:
        """Begin a step: return the states of the leaves to evaluate, uint64[n, words].

        There may be none. The array is overwritten by the next step.
        """
        began = perf_counter()
        self._options = self._options._replace(number=self._options.number + 1)
        rows, full = kernels.select_leaves(
            self.game,
            self._methods,
            self._forest,
            self._cache,
            self._state,
            self._options,
            self._workspace,
        )
        if full:
            self._forest = grown(self._forest)
            self._tree = by_field(self._forest)
        self.seconds["select"] += perf_counter() - began
        return self._state.states[: int(rows)]

    def expand_and_backup(self, priors: NDArray[np.float32], values: NDArray[np.float32]) -> None:
        """Take in priors float32[n, actions] and values float32[n] of the selected leaves."""
        began = perf_counter()
        kernels.store(self._cache, self._state, len(values), priors, values)

        def part(begin: int, end: int) -> int:
            ended: int = kernels.expand_and_backup(
                self.game,
                self._methods,
                self._forest,
                self._state,
                priors,
                values,
                self._workspace if begin == 0 else kernels.empty_workspace(self.game),
                begin,
                end,
            )
            return ended

        waiting = int(np.count_nonzero(self._state.leaf != NO_LEAF))
        parts = threads_for_playouts(
            waiting * playouts(self._methods.leaf_evaluator), self._threads
        )
        ended = sum(in_parts(part, len(self._state.leaf), parts))
        self._state.counts[COUNTS.index("simulations")] += ended
        self.seconds["backup"] += perf_counter() - began

    def result(self, slot: int) -> SearchResult:
        """Return what the search of one slot has found out so far."""
        slots = np.array([slot])
        visits, values, priors = (column[0] for column in self._root_children(slots))
        value = float(self.root_values(slots)[0])
        return SearchResult(visits, values, priors, value, principal_variation(self._tree, slot))

    def visits(self, slots: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the visit counts of the roots' actions, int32[n, actions]."""
        return self._root_children(slots)[0]

    def root_actions(
        self, slots: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Return visit counts int32[n, actions] and mean values float32[n, actions] of actions."""
        return self._root_children(slots)[:2]

    def policies(self, slots: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return what finished searches make of the roots' actions, float32[n, actions].

        Each row is a distribution: the shares of the visits.
        """
        visits = self.visits(slots)
        shares: NDArray[np.float64] = visits / visits.sum(axis=1, keepdims=True)
        return shares.astype(np.float32)

    def choose(
        self, slots: NDArray[np.int64], keys: NDArray[np.uint64], sample: NDArray[np.bool_]
    ) -> NDArray[np.int64]:
        """Return the moves int64[n] that finished searches lead to; see `choose_actions`."""
        return choose_actions(self.visits(slots), keys, sample)

    def root_values(self, slots: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the mean values of the roots for their movers, float32[n]."""
        return self._tree.value[slots, 0]

    def root_draws(self, slots: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the mean probabilities of a draw at the roots, float32[n]; NaN if not known."""
        return np.full(len(slots), np.nan, np.float32)

    def root_priors(self, slots: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the priors of the roots' actions, noise included, float32[n, actions]."""
        return self._root_children(slots)[2]

    def _root_children(
        self, slots: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.float32]]:
        shape = len(slots), self._actions
        visits = np.empty(shape, np.int32)
        values, priors = np.empty(shape, np.float32), np.empty(shape, np.float32)
        roots.root_children(self._tree, slots, visits, values, priors)
        return visits, values, priors

    def states(self, slots: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Return copies of the root states, uint64[n, words]."""
        return self._tree.states[slots, 0]

    def outcomes(self, slots: NDArray[np.int64]) -> NDArray[np.int8]:
        """Return ONGOING or the result for the mover at the roots, int8[n]."""
        return self._tree.outcome[slots, 0]

    def advance(self, slots: NDArray[np.int64], actions: NDArray[np.int64]) -> None:
        """Play actions int64[n] at the roots; the settings say whether subtrees are kept."""
        settings = self.settings
        discarded = settings.noise.fraction > 0 and settings.noise.inherited_visits == 0
        keep = settings.reuse_tree and not discarded
        roots.advance(self.game, self._tree, slots, actions, keep)


def choose_actions(
    visits: NDArray[np.int32], keys: NDArray[np.uint64], sample: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Return actions int64[n] chosen from visit counts int32[n, actions].

    In proportion to the visits where `sample` bool[n] is set, else the most visited one, ties
    broken at random. `keys` uint64[n] are the random streams.
    """
    chosen = np.empty(len(visits), np.int64)
    roots.choose(visits, keys, sample, chosen)
    return chosen
