"""Arrays of a search: trees, their progress, the current batch, and scratch memory.

A tree is an array of nodes in which siblings are contiguous. When many trees are searched in turn,
the nodes of the next tree are no longer in the CPU caches. For speed, a simulation touches few
cache lines and prefetches them early (docs/decisions/0016). A node takes half a cache line.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.core.compiled import inlined
from zerolab.core.memory import CACHE_LINE_BYTES, borrowed_view, copy_row, prefetch
from zerolab.rules import rules
from zerolab.rules.rules import Game
from zerolab.search.evaluator import Evaluation, EvaluationCache
from zerolab.search.simulation_options import NoSolver
from zerolab.search.values import ZeroSumUtility

INITIAL_NODE_CAPACITY = 1024
"""Minimum initial capacity of a tree in nodes; when one tree is full, all capacities double."""

UNSEEN_OUTCOME = 3
"""Outcome of a node that no simulation has reached yet; its state is not set."""

_PLAIN = ZeroSumUtility()
_NO_SOLVER = NoSolver()

NODE_DTYPE = np.dtype(
    {
        "names": [
            "visits", "value", "prior", "first_child", "parent", "child_count", "action", "outcome",
            "proven_result", "proven_distance", "draw_probability",
        ],
        "formats": ["<i4", "<f4", "<f4", "<i4", "<i4", "<i2", "<i2", "i1", "i1", "<i2", "<f4"],
        "offsets": [0, 4, 8, 12, 16, 20, 22, 24, 25, 26, 28],
        "itemsize": 32,
    }
)  # fmt: skip
"""Memory layout of a node; see `TreeArrays` for the fields."""

_NODE_BYTES = NODE_DTYPE.itemsize

_SPARE = 2
"""Number of unused nodes at the end of each tree. Without them, trees would begin at multiples of a
power of two, and their roots would compete for the same few CPU cache lines."""


class Forest(NamedTuple):
    """Memory of B trees in contiguous arrays: the form that kernels receive."""

    node_count: NDArray[np.int32]  # [B] nodes in use
    nodes: NDArray[np.void]  # [B, nodes] NODE_DTYPE
    statistics: NDArray[np.float32]  # [B, nodes, K] used by the selection rule
    states: NDArray[np.uint64]  # [B, nodes, words] set together with the outcome
    utility: Any  # ZeroSumUtility or DrawValueUtility: how backup values become numbers
    solver: Any  # NoSolver or MctsSolver: whether proven results are recorded and used


class TreeArrays(NamedTuple):
    """Fields of B trees of up to `nodes` nodes, as views of a `Forest`; node 0 is the root.

    Values are from the point of view of the side to move at the node (negamax).
    """

    node_count: NDArray[np.int32]  # [B] nodes in use
    parent: NDArray[np.int32]  # [B, nodes] -1 at the root
    first_child: NDArray[np.int32]  # [B, nodes] 0 until expanded
    child_count: NDArray[np.int16]  # [B, nodes] number of legal actions, once expanded
    action: NDArray[np.int16]  # [B, nodes] action that leads to the node
    outcome: NDArray[np.int8]  # [B, nodes] UNSEEN_OUTCOME, ONGOING or result for the side to move
    visits: NDArray[np.int32]  # [B, nodes] simulations through the node, including its evaluation
    value: NDArray[np.float32]  # [B, nodes] mean of the values backed up
    prior: NDArray[np.float32]  # [B, nodes] probability of the action at the parent
    proven_result: NDArray[np.int8]  # [B, nodes] ONGOING or the proven result for the side to move
    proven_distance: NDArray[np.int16]  # [B, nodes] plies to the end of the game, if proven
    draw_probability: NDArray[np.float32]  # [B, nodes] mean draw probability; see `search.values`
    statistics: NDArray[np.float32]  # [B, nodes, K] used by the selection rule
    states: NDArray[np.uint64]  # [B, nodes, words] set together with the outcome
    utility: Any  # ZeroSumUtility or DrawValueUtility: how backup values become numbers
    solver: Any  # NoSolver or MctsSolver: whether proven results are recorded and used


def empty_forest(
    tree_count: int,
    node_capacity: int,
    word_count: int,
    statistics_width: int,
    utility: Any = _PLAIN,
    solver: Any = _NO_SOLVER,
) -> Forest:
    """Allocate trees without roots, with room for `node_capacity` nodes each."""
    width = node_capacity + _SPARE
    return Forest(
        node_count=np.zeros(tree_count, np.int32),
        nodes=np.zeros((tree_count, width), NODE_DTYPE),
        statistics=np.zeros((tree_count, width, statistics_width), np.float32),
        states=np.zeros((tree_count, width, word_count), np.uint64),
        utility=utility,
        solver=solver,
    )


def node_bytes(word_count: int, statistics_width: int) -> int:
    """Return the size of a node in bytes, including its state and statistics."""
    return _NODE_BYTES + 8 * word_count + 4 * statistics_width


def grown_forest(forest: Forest) -> Forest:
    """Return a copy of the trees with twice the capacity."""
    trees, width, words = forest.states.shape
    nodes, statistics_width = 2 * (width - _SPARE), forest.statistics.shape[2]
    larger = empty_forest(trees, nodes, words, statistics_width, forest.utility, forest.solver)
    larger.node_count[:] = forest.node_count
    for field in ("nodes", "statistics", "states"):
        getattr(larger, field)[:, :width] = getattr(forest, field)
    return larger


def tree_arrays(forest):
    """Return views of the fields of all trees in a forest."""
    forest = borrowed_view(forest)
    nodes = forest.nodes
    return TreeArrays(
        forest.node_count,
        nodes["parent"],
        nodes["first_child"],
        nodes["child_count"],
        nodes["action"],
        nodes["outcome"],
        nodes["visits"],
        nodes["value"],
        nodes["prior"],
        nodes["proven_result"],
        nodes["proven_distance"],
        nodes["draw_probability"],
        forest.statistics,
        forest.states,
        forest.utility,
        forest.solver,
    )


kernel_tree_arrays = inlined(tree_arrays)
"""Version of `tree_arrays` for use in kernels."""


@inlined
def has_room(tree, b, nodes):
    """Return whether a tree has room for `nodes` more nodes."""
    return tree.node_count[b] + nodes <= tree.states.shape[1] - _SPARE


@inlined
def prefetch_nodes(tree, b, first, count):
    """Prefetch `count` nodes starting at `first`; `visits` is the first field of a node."""
    for line in range((count * _NODE_BYTES + CACHE_LINE_BYTES - 1) // CACHE_LINE_BYTES):
        prefetch(tree.visits, (b, first), line)


@inlined
def keep_subtree(tree, b, root, moved):
    """Move a node and its subtree to the front of the tree's arrays.

    Children are stored after their parents. A single pass in ascending order therefore moves every
    node to its final index without overwriting nodes that have not moved. Siblings stay contiguous.
    """
    used = tree.node_count[b]
    moved[:used] = -1
    moved[root] = 0
    count = 1
    for node in range(root + 1, used):
        parent = tree.parent[b, node]
        if parent >= 0 and moved[parent] >= 0:
            moved[node] = count
            count += 1
    for node in range(root, used):
        target = moved[node]
        if target < 0:
            continue
        tree.parent[b, target] = -1 if node == root else moved[tree.parent[b, node]]
        first = tree.first_child[b, node]
        tree.first_child[b, target] = moved[first] if first != 0 else 0
        tree.child_count[b, target] = tree.child_count[b, node]
        tree.action[b, target] = tree.action[b, node]
        tree.outcome[b, target] = tree.outcome[b, node]
        tree.visits[b, target] = tree.visits[b, node]
        tree.value[b, target] = tree.value[b, node]
        tree.draw_probability[b, target] = tree.draw_probability[b, node]
        tree.proven_result[b, target] = tree.proven_result[b, node]
        tree.proven_distance[b, target] = tree.proven_distance[b, node]
        tree.prior[b, target] = tree.prior[b, node]
        copy_row(tree.statistics[b, node], tree.statistics[b, target])
        copy_row(tree.states[b, node], tree.states[b, target])
    tree.node_count[b] = count


TREES_PER_GROUP = 32
"""Number of trees searched together: some proceed while the memory of others is being loaded."""

WORK_COUNT_NAMES = ("simulations", "evaluated", "deduplicated", "cached", "terminal", "proven")
"""Names of the elements of `SearchState.work_counts`.

The last element is `simulation_options.PROVEN_INDEX`.
"""

SIMULATIONS_INDEX, EVALUATED_INDEX, DEDUPLICATED_INDEX, CACHED_INDEX, TERMINAL_INDEX = range(5)


class StepOptions(NamedTuple):
    """Options of one step."""

    step_number: int
    """Number of the step, counted from 1."""
    deduplicate: bool
    """Request equal positions within the step only once."""
    use_cache: bool
    """Use cached evaluations of earlier steps."""
    skip_evaluator: bool
    """Use equal priors and the value 0, which need no evaluator."""
    noise_fraction: float
    noise_concentration: float


class SearchState(NamedTuple):
    """Progress of the search in each tree, and the batch of the current step."""

    is_active: NDArray[np.bool_]  # [B] True while the tree is being searched
    remaining_simulations: NDArray[np.int32]  # [B] simulations that have not finished
    waiting_count: NDArray[np.int32]  # [B] leaves waiting for evaluations
    waiting_leaves: NDArray[np.int32]  # [B, leaves] nodes waiting for evaluations
    batch_rows: NDArray[np.int32]  # [B, leaves] row in the batch, or -1 - cache entry, of each leaf
    playout_key: NDArray[np.uint64]  # [B] random stream of leaf evaluators and ties
    noise_key: NDArray[np.uint64]  # [B] random stream of root noise
    is_root_unprepared: NDArray[np.bool_]  # [B] True until the root rule prepares the root
    has_noise: NDArray[np.bool_]  # [B] True if this search has root noise
    requested_simulations: NDArray[np.int32]  # [B] simulations requested at the start
    root_rule_state: Any  # see `methods.empty_root_rule_state`
    leaf_states: NDArray[np.uint64]  # [B * leaves, words] positions to evaluate
    batch_size: NDArray[np.int64]  # [1] number of positions to evaluate, 0 between steps
    cache_entries: NDArray[np.int64]  # [B * leaves] cache entry of each row, or NO_ENTRY
    work_counts: NDArray[np.int64]  # [6] see `WORK_COUNT_NAMES`


class EvaluationArrays(NamedTuple):
    """An `Evaluation` for kernels: extra outputs that were not requested are empty arrays."""

    priors: NDArray[np.float32]  # [N, actions]
    values: NDArray[np.float32]  # [N]
    draw_probabilities: NDArray[np.float32]  # [N] or [0]
    action_values: NDArray[np.float32]  # [N, actions] or [N, 0]


def evaluation_arrays(evaluation: Evaluation) -> EvaluationArrays:
    """Convert evaluations to the form that kernels receive."""
    priors, values, draws, action_values = evaluation
    return EvaluationArrays(
        priors,
        values,
        np.empty(0, np.float32) if draws is None else draws,
        np.empty((len(values), 0), np.float32) if action_values is None else action_values,
    )


class Workspace(NamedTuple):
    """Scratch memory of one thread."""

    legal_mask: NDArray[np.bool_]  # [actions] legal actions
    legal_words: NDArray[np.uint64]  # [ceil(actions / 8)] the memory of `legal_mask`
    playout_state: NDArray[np.uint64]  # [words] the position of a playout
    playout_moves: NDArray[np.int32]  # [1 + MAX_PLIES] length and actions of a playout
    uniform_priors: NDArray[np.float32]  # [actions] equal priors
    trees: NDArray[np.int64]  # [TREES_PER_GROUP] a group of trees
    nodes: NDArray[np.int64]  # [TREES_PER_GROUP] current node of each tree, and at the end its leaf
    hashes: NDArray[np.uint64]  # [TREES_PER_GROUP] hashes of the leaf states
    unfinished: NDArray[np.int64]  # [TREES_PER_GROUP] indices in `trees` of unfinished paths


class SearchMemory(NamedTuple):
    """All memory used by the kernels of a search; the addresses of its arrays must not change.

    The type is the same for all games, selection rules and leaf evaluators.
    """

    forest: Forest
    cache: EvaluationCache
    search_state: SearchState
    workspace: Workspace


def empty_workspace(game: Game) -> Workspace:
    """Allocate scratch memory."""
    actions = rules.action_count(game)
    words = np.zeros(-(-actions // 8), np.uint64)
    return Workspace(
        words.view(np.bool_)[:actions],
        words,
        np.zeros(rules.word_count(game), np.uint64),
        np.zeros(1 + rules.MAX_PLIES, np.int32),
        np.ones(actions, np.float32),
        np.zeros(TREES_PER_GROUP, np.int64),
        np.zeros(TREES_PER_GROUP, np.int64),
        np.zeros(TREES_PER_GROUP, np.uint64),
        np.zeros(TREES_PER_GROUP, np.int64),
    )


def empty_search_state(
    tree_count: int, max_leaves: int, word_count: int, root_rule_state: Any
) -> SearchState:
    """Allocate the state of idle trees with up to `max_leaves` waiting leaves each."""
    return SearchState(
        is_active=np.zeros(tree_count, np.bool_),
        remaining_simulations=np.zeros(tree_count, np.int32),
        waiting_count=np.zeros(tree_count, np.int32),
        waiting_leaves=np.zeros((tree_count, max_leaves), np.int32),
        batch_rows=np.zeros((tree_count, max_leaves), np.int32),
        playout_key=np.zeros(tree_count, np.uint64),
        noise_key=np.zeros(tree_count, np.uint64),
        is_root_unprepared=np.zeros(tree_count, np.bool_),
        has_noise=np.zeros(tree_count, np.bool_),
        requested_simulations=np.zeros(tree_count, np.int32),
        root_rule_state=root_rule_state,
        leaf_states=np.zeros((tree_count * max_leaves, word_count), np.uint64),
        batch_size=np.zeros(1, np.int64),
        cache_entries=np.zeros(tree_count * max_leaves, np.int64),
        work_counts=np.zeros(len(WORK_COUNT_NAMES), np.int64),
    )
