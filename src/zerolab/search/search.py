"""Tree search over many games in parallel."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zerolab.core.memory import tuple_handle
from zerolab.core.processes import run_in_threads
from zerolab.rules import rules
from zerolab.rules.facts import SearchFacts, policy_surprises
from zerolab.rules.rules import Game, threads_for_playouts
from zerolab.search import kernels, roots, simulation_options
from zerolab.search.evaluator import (
    NO_EVALUATIONS,
    Evaluation,
    Evaluator,
    UniformEvaluator,
    evaluate,
    new_evaluation_cache,
    require_extra_outputs,
)
from zerolab.search.methods import (
    empty_root_rule_state,
    has_fixed_schedule,
    leaf_evaluator_for_kernels,
    playouts_per_leaf,
    statistics_width,
)
from zerolab.search.roots import NodeStatistics, SearchResult, node_statistics, principal_variation
from zerolab.search.search_settings import PerTreeSettings, SearchSettings, first_step_options
from zerolab.search.simulation_options import MctsSolver, NoSolver
from zerolab.search.tree import (
    INITIAL_NODE_CAPACITY,
    SIMULATIONS_INDEX,
    WORK_COUNT_NAMES,
    Forest,
    SearchMemory,
    empty_forest,
    empty_search_state,
    empty_workspace,
    evaluation_arrays,
    grown_forest,
    tree_arrays,
)

_NONE_PER_TREE = PerTreeSettings()


class Search:
    """Search in B independent trees, one per game.

    For each tree, call `set_root` and `start_search`, then `step` until the search is finished, or
    `run` to finish the searches of all trees. Read the `result`, and `advance` the tree by the
    moves played.

    If an exception interrupts a step, for example in the evaluator, its leaves keep waiting. The
    next step requests their evaluations again, so that the results are those of an undisturbed
    search. A tree with waiting leaves that is instead searched anew or advanced begins with an
    unexpanded root, without its interrupted search.
    """

    def __init__(
        self,
        game: Game,
        settings: SearchSettings,
        evaluator: Evaluator,
        trees: int,
        threads: int = 1,
        per_tree: PerTreeSettings = _NONE_PER_TREE,
    ) -> None:
        """Create `trees` trees without roots.

        Up to `threads` threads share the playouts of a batch. `per_tree` contains settings that
        differ between trees; raises ValueError if they are incompatible with `settings`.
        """
        per_tree.check(settings)
        self.game = game
        self.settings = settings
        self.evaluator = evaluator
        self.seconds_by_part = {"select": 0.0, "evaluate": 0.0, "backup": 0.0}
        """Total time of each part of a step so far, in seconds."""
        self.extra_outputs = per_tree.extra_outputs(settings)
        """Evaluator outputs that the search needs in addition to priors and values."""
        self._methods = per_tree.search_methods(settings)
        require_extra_outputs(evaluator, self.extra_outputs)
        self._threads = threads
        self._leaf_evaluator = leaf_evaluator_for_kernels(settings.leaf_evaluator.build())
        self._playouts_per_leaf = playouts_per_leaf(self._leaf_evaluator)
        self._step_options = first_step_options(settings, isinstance(evaluator, UniformEvaluator))
        words, actions = rules.word_count(game), rules.action_count(game)
        self._actions = actions
        nodes = max(INITIAL_NODE_CAPACITY, 2 * actions)
        forest = empty_forest(
            trees, nodes, words, statistics_width(self._methods.selection),
            per_tree.utility(settings), MctsSolver() if settings.proven_values else NoSolver(),
        )  # fmt: skip
        leaves = simulation_options.max_waiting_leaves(self._methods.virtual_loss)
        uses_cache = not self._step_options.skip_evaluator
        positions = max(settings.cache, 4 * trees * leaves) if uses_cache else 1
        cache = new_evaluation_cache(positions, words, actions, self.extra_outputs)
        root_rule_state = empty_root_rule_state(self._methods.root_rule, trees, actions)
        self._search_state = empty_search_state(trees, leaves, words, root_rule_state)
        self._memory = SearchMemory(forest, cache, self._search_state, empty_workspace(game))
        self._use_forest(forest)

    def _use_forest(self, forest: Forest) -> None:
        self._tree = tree_arrays(forest)
        self._memory = self._memory._replace(forest=forest)
        self._handle = tuple_handle(self._memory)

    @property
    def work_counts(self) -> dict[str, int]:
        """Number of simulations so far, and number of leaves by the source of their values.

        A leaf is evaluated, deduplicated (equal to another leaf of its step), cached, or terminal.
        Unexpanded roots count as leaves, not as simulations. `proven` counts proven nodes, if any.
        """
        counts = dict(zip(WORK_COUNT_NAMES, map(int, self._search_state.work_counts), strict=True))
        if not self.settings.proven_values:
            del counts["proven"]
        return counts

    def set_root(self, trees: NDArray[np.int64], states: NDArray[np.uint64]) -> None:
        """Replace trees with unexpanded roots, and end their searches.

        `states` are ongoing, uint64[n, words].
        """
        if len(trees):  # numba would compile the kernel again for the layout of no trees
            roots.set_root(self.game, self._tree, trees, states)
            state = self._search_state
            state.waiting_count[trees] = state.remaining_simulations[trees] = 0
            state.is_active[trees] = False

    def _reset_interrupted(self, trees: NDArray[np.int64]) -> None:
        """Replace the trees whose leaves are still waiting with their unexpanded roots.

        Their nodes could not be renumbered, and virtual losses cannot be removed exactly.
        """
        interrupted = trees[self._search_state.waiting_count[trees] > 0]
        self.set_root(interrupted, self.root_states(interrupted))

    def start_search(
        self,
        trees: NDArray[np.int64],
        playout_keys: NDArray[np.uint64],
        noise_keys: NDArray[np.uint64],
        simulations: int | NDArray[np.int32] | None = None,
        noise: NDArray[np.bool_] | None = None,
    ) -> None:
        """Request simulations and fresh root noise, by default as in the settings.

        `playout_keys` and `noise_keys` are random streams, uint64[n]. `simulations` is a number or
        int32[n]. `noise`, bool[n], selects the roots with noise if the settings enable noise.
        Proven roots receive no simulations. Raises ValueError for fewer than one simulation.
        """
        planned = has_fixed_schedule(self._methods.root_rule)
        noise_enabled = self.settings.noise.fraction > 0 or planned
        noisy = np.full(len(trees), noise_enabled) if noise is None else noise & noise_enabled
        self._reset_interrupted(trees)
        inherited = self.settings.noise.inherited_visits
        if noisy.any() and 0 < inherited < 1:
            roots.scale_visits(
                self._methods.selection, self._methods.fpu, self._tree, trees[noisy], inherited
            )
        if planned:
            self.set_root(trees, self.root_states(trees))
        self._activate(trees, self.settings.simulations if simulations is None else simulations)
        state = self._search_state
        state.requested_simulations[trees] = state.remaining_simulations[trees]
        state.playout_key[trees] = playout_keys
        state.noise_key[trees] = noise_keys
        state.has_noise[trees] = noisy
        state.is_root_unprepared[trees] = noisy | planned

    def extend(self, trees: NDArray[np.int64], simulations: int | NDArray[np.int32]) -> None:
        """Continue finished searches with more simulations, without new noise.

        New random streams are derived from the current streams. Raises ValueError for fewer than
        one simulation, for interrupted searches, and if the root rule plans all simulations in
        advance.
        """
        if has_fixed_schedule(self._methods.root_rule):
            raise ValueError(
                f'root = "{self.settings.root.name}" plans all simulations of a search in advance:'
                " expected a single request for all of them"
            )
        if self._search_state.waiting_count[trees].any():
            raise ValueError("the last step was interrupted: expected finished searches")
        self._activate(trees, simulations)
        kernels.renew_playout_keys(self._search_state, trees)

    def _activate(self, trees: NDArray[np.int64], simulations: int | NDArray[np.int32]) -> None:
        if np.min(simulations, initial=1) < 1:
            raise ValueError(f"{np.min(simulations)} simulations: expected at least 1")
        self._search_state.is_active[trees] = True
        self._search_state.remaining_simulations[trees] = simulations
        if self.settings.proven_values:
            proven = trees[self._tree.proven_result[trees, 0] != rules.ONGOING]
            self._search_state.remaining_simulations[proven] = 0

    @property
    def is_active(self) -> bool:
        """True while any tree is being searched."""
        return bool(self._search_state.is_active.any())

    def step(self) -> NDArray[np.int64]:
        """Run one step; return the trees whose searches finished, int64[n]."""
        states, evaluation = self.select_leaves(), NO_EVALUATIONS
        if len(states):
            start = perf_counter()
            evaluation = evaluate(self.evaluator, states, self.extra_outputs)
            self.seconds_by_part["evaluate"] += perf_counter() - start
        self.expand_and_backup(evaluation)
        return self.finish_step()

    def finish_step(self) -> NDArray[np.int64]:
        """End a step; return the trees whose searches finished, int64[n]."""
        finished = np.flatnonzero(
            self._search_state.is_active & (self._search_state.remaining_simulations == 0)
        )
        self._search_state.is_active[finished] = False
        return finished

    def run(self) -> None:
        """Run steps until all searches are finished."""
        while self.is_active:
            self.step()

    def select_leaves(self) -> NDArray[np.uint64]:
        """Begin a step; return the states of the leaves to evaluate, uint64[n, words].

        The array may be empty. The next step overwrites it.
        """
        start = perf_counter()
        self._step_options = self._step_options._replace(
            step_number=self._step_options.step_number + 1
        )
        rows, full = kernels.select_leaves(
            self.game, self._methods, self._leaf_evaluator, self._handle, self._step_options
        )
        if full:
            self._use_forest(grown_forest(self._memory.forest))
        self.seconds_by_part["select"] += perf_counter() - start
        return self._search_state.leaf_states[: int(rows)]

    def expand_and_backup(self, evaluation: Evaluation) -> None:
        """Expand all waiting leaves and back up their values, some of which may be cached."""
        if not self._search_state.waiting_count.any():
            return
        start = perf_counter()
        evaluations = evaluation_arrays(evaluation)
        if self._step_options.use_cache:
            kernels.cache_evaluations(self._handle, evaluations)

        def expand(memory: Any, begin: int, end: int) -> int:
            simulations: int = kernels.expand_and_backup(
                self.game, self._methods, self._leaf_evaluator, memory, evaluations, begin, end
            )
            return simulations

        def expand_part(begin: int, end: int) -> NDArray[np.int64]:
            counts = np.zeros_like(self._search_state.work_counts)
            thread_memory = self._memory._replace(
                search_state=self._search_state._replace(work_counts=counts),
                workspace=empty_workspace(self.game),
            )
            counts[SIMULATIONS_INDEX] += expand(tuple_handle(thread_memory), begin, end)
            return counts

        trees, parts = len(self._search_state.waiting_count), 1
        if self._threads > 1 and self._playouts_per_leaf:
            waiting = int(self._search_state.waiting_count.sum())
            parts = threads_for_playouts(waiting * self._playouts_per_leaf, self._threads)
        if parts == 1:
            self._search_state.work_counts[SIMULATIONS_INDEX] += expand(self._handle, 0, trees)
        else:
            self._search_state.work_counts[:] += sum(run_in_threads(expand_part, trees, parts))
        self._search_state.batch_size[0] = 0
        self.seconds_by_part["backup"] += perf_counter() - start

    def result(self, tree: int) -> SearchResult:
        """Return the current search result of one tree."""
        trees = np.array([tree])
        visits, values, priors = (column[0] for column in self._root_statistics(trees))
        value = float(self.root_values(trees)[0])
        chosen = None
        weights = self.move_weights(trees, np.zeros(1, np.bool_))[0] if visits.any() else visits
        if weights.any():  # the chosen action need not be the most visited
            chosen = int(np.where(weights == weights.max(), visits, -1).argmax())
        line = principal_variation(self._tree, tree, chosen)
        return SearchResult(visits, values, priors, value, line)

    def node(self, tree: int, path: Sequence[int]) -> NodeStatistics | None:
        """Return the node at the end of a path of actions from the root, or None if unvisited."""
        return node_statistics(self._methods, self._tree, tree, path)

    def root_visits(self, trees: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the visit counts of root actions, int32[n, actions]."""
        return self._root_statistics(trees)[0]

    def root_visits_and_values(
        self, trees: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Return visit counts, int32, and mean values, float32, of root actions [n, actions]."""
        return self._root_statistics(trees)[:2]

    def policies(self, trees: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the root rule's policies after finished searches, float32[n, actions].

        Each row is a distribution, such as the shares of the visits. At a root with a proven win,
        only the quickest wins have weight. Proven losses have weight only if no other action
        remains.
        """
        weights = np.empty((len(trees), self._actions), np.float64)
        roots.write_policies(self._methods, self._tree, self._search_state, trees, weights)
        shares: NDArray[np.float64] = weights / weights.sum(axis=1, keepdims=True)
        return shares.astype(np.float32)

    def choose(
        self, trees: NDArray[np.int64], keys: NDArray[np.uint64], sample: NDArray[np.bool_]
    ) -> NDArray[np.int64]:
        """Return the moves that the root rule chooses after finished searches, int64[n].

        See `roots.choose_actions`; root rules can use weights other than visit counts. The quickest
        proven win is chosen, and proven losses are avoided.
        """
        return roots.choose_actions(self.move_weights(trees, sample), keys, sample)

    def move_weights(
        self, trees: NDArray[np.int64], sample: NDArray[np.bool_]
    ) -> NDArray[np.int64]:
        """Return the weights with which `choose` selects moves, int64[n, actions].

        The sum of each row is below 2**32.
        """
        weights = np.empty((len(trees), self._actions), np.int64)
        roots.write_all_move_weights(
            self._methods, self._tree, self._search_state, trees, sample, weights
        )
        return weights

    def search_facts(self, trees: NDArray[np.int64]) -> SearchFacts:
        """Return root statistics for training targets, as float32 arrays."""
        visits, values, priors = self._root_statistics(trees)
        policies = self.policies(trees)
        return SearchFacts(
            policies=policies,
            root_values=self.root_values(trees),
            root_draws=self.root_draw_probabilities(trees),
            action_values=np.where(visits > 0, values, np.float32(np.nan)),
            surprises=policy_surprises(policies, priors),
        )

    def root_values(self, trees: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return mean root values, P(win) - P(loss) for the side to move, float32[n]."""
        return self._tree.value[trees, 0]

    def root_draw_probabilities(self, trees: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the mean draw probabilities at the roots, float32[n]; NaN if unknown."""
        if "draws" in self.extra_outputs:
            return self._tree.draw_probability[trees, 0]
        return np.full(len(trees), np.nan, np.float32)

    def root_priors(self, trees: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the priors of root actions, including noise, float32[n, actions]."""
        return self._root_statistics(trees)[2]

    def _root_statistics(
        self, trees: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.float32]]:
        shape = len(trees), self._actions
        visits = np.empty(shape, np.int32)
        values, priors = np.empty(shape, np.float32), np.empty(shape, np.float32)
        roots.write_root_statistics(self._tree, trees, visits, values, priors)
        return visits, values, priors

    def root_states(self, trees: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Return copies of the root states, uint64[n, words]."""
        return self._tree.states[trees, 0]

    def root_outcomes(self, trees: NDArray[np.int64]) -> NDArray[np.int8]:
        """Return ONGOING or the result for the side to move at each root, int8[n]."""
        return self._tree.outcome[trees, 0]

    def advance(self, trees: NDArray[np.int64], actions: NDArray[np.int64]) -> None:
        """Play actions, int64[n], at the roots; the settings determine whether subtrees are kept.

        The proofs of a discarded subtree are lost.
        """
        settings, root_rule = self.settings, self._methods.root_rule
        discarded = settings.noise.fraction > 0 and settings.noise.inherited_visits == 0
        keep = settings.reuse_tree and not discarded and not has_fixed_schedule(root_rule)
        self._reset_interrupted(trees)
        roots.advance(self.game, self._tree, trees, actions, keep)
