"""Arrays of a search: trees, their progress, the current batch, and scratch memory.

A tree is an array of nodes in which siblings are contiguous. When many trees are searched in turn,
the nodes of the next tree are no longer in the CPU caches. Speed therefore depends on touching few
cache lines per simulation and prefetching them early (docs/decisions/0016). A node takes half a
cache line.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.core.compiled import inlined
from zerolab.core.memory import LINE, borrowed, prefetch
from zerolab.rules import rules
from zerolab.rules.rules import Game
from zerolab.search.evaluator import Cache
from zerolab.search.mcts_solver import NoSolver
from zerolab.search.values import ZeroSum

FIRST_NODES = 1024
"""Initial capacity of a tree in nodes, doubled whenever a tree is full."""

UNSEEN = 3
"""Outcome of a node that no simulation has reached yet; its state is not set."""

_PLAIN = ZeroSum()
_NO_SOLVER = NoSolver()

NODE = np.dtype(
    {
        "names": [
            "visits", "value", "prior", "first_child", "parent", "children", "action", "outcome",
            "proven", "distance", "draws",
        ],
        "formats": ["<i4", "<f4", "<f4", "<i4", "<i4", "<i2", "<i2", "i1", "i1", "<i2", "<f4"],
        "offsets": [0, 4, 8, 12, 16, 20, 22, 24, 25, 26, 28],
        "itemsize": 32,
    }
)  # fmt: skip
"""Memory layout of a node; see `Tree` for the fields."""

_NODE_BYTES = NODE.itemsize

_SPARE = 2
"""Unused nodes at the end of each tree. Otherwise trees would begin at multiples of a power of two,
and their roots would compete for the same few CPU cache lines."""


class Forest(NamedTuple):
    """Memory of B trees in contiguous arrays, the form that kernels receive."""

    used: NDArray[np.int32]  # [B] nodes in use
    nodes: NDArray[np.void]  # [B, nodes] NODE
    statistics: NDArray[np.float32]  # [B, nodes, K] of the selection rule
    states: NDArray[np.uint64]  # [B, nodes, words] set together with the outcome
    utility: Any  # worth of values; see `search.values`
    solver: Any  # node solver; see `search.mcts_solver`


class Tree(NamedTuple):
    """B trees of up to `nodes` nodes; node 0 is the root of each tree.

    Values are from the view of the side to move at the node (negamax).
    """

    used: NDArray[np.int32]  # [B] nodes in use
    parent: NDArray[np.int32]  # [B, nodes] -1 at the root
    first_child: NDArray[np.int32]  # [B, nodes] 0 until expanded
    children: NDArray[np.int16]  # [B, nodes] number of legal actions, once expanded
    action: NDArray[np.int16]  # [B, nodes] the action that led here
    outcome: NDArray[np.int8]  # [B, nodes] UNSEEN, ONGOING or the result for the side to move
    visits: NDArray[np.int32]  # [B, nodes] simulations through the node, including its evaluation
    value: NDArray[np.float32]  # [B, nodes] mean backed-up value
    prior: NDArray[np.float32]  # [B, nodes] probability of the action at the parent
    proven: NDArray[np.int8]  # [B, nodes] ONGOING or the proven result for the side to move
    distance: NDArray[np.int16]  # [B, nodes] plies to the end of the game, if proven
    draws: NDArray[np.float32]  # [B, nodes] mean draw probability; see `search.values`
    statistics: NDArray[np.float32]  # [B, nodes, K] of the selection rule
    states: NDArray[np.uint64]  # [B, nodes, words] set together with the outcome
    utility: Any  # worth of values; see `search.values`
    solver: Any  # node solver; see `search.mcts_solver`


def empty_forest(
    batch: int,
    nodes: int,
    words: int,
    statistics: int,
    utility: Any = _PLAIN,
    solver: Any = _NO_SOLVER,
) -> Forest:
    """Allocate trees without roots, with room for `nodes` nodes each."""
    width = nodes + _SPARE
    return Forest(
        used=np.zeros(batch, np.int32),
        nodes=np.zeros((batch, width), NODE),
        statistics=np.zeros((batch, width, statistics), np.float32),
        states=np.zeros((batch, width, words), np.uint64),
        utility=utility,
        solver=solver,
    )


def empty_tree(batch: int, nodes: int, words: int, statistics: int) -> Tree:
    """Allocate trees without roots, in the form used by selection rules."""
    return by_field(empty_forest(batch, nodes, words, statistics))


def node_bytes(words: int, statistics: int) -> int:
    """Return the size in bytes of a node with a state of `words` words."""
    return _NODE_BYTES + 8 * words + 4 * statistics


def grown(forest: Forest) -> Forest:
    """Return a copy of the trees with twice the capacity."""
    batch, width, words = forest.states.shape
    nodes, statistics = 2 * (width - _SPARE), forest.statistics.shape[2]
    larger = empty_forest(batch, nodes, words, statistics, forest.utility, forest.solver)
    larger.used[:] = forest.used
    for field in ("nodes", "statistics", "states"):
        getattr(larger, field)[:, :width] = getattr(forest, field)
    return larger


def by_field(forest):
    """Return the trees of a forest as views of its fields."""
    forest = borrowed(forest)
    nodes = forest.nodes
    return Tree(
        forest.used,
        nodes["parent"],
        nodes["first_child"],
        nodes["children"],
        nodes["action"],
        nodes["outcome"],
        nodes["visits"],
        nodes["value"],
        nodes["prior"],
        nodes["proven"],
        nodes["distance"],
        nodes["draws"],
        forest.statistics,
        forest.states,
        forest.utility,
        forest.solver,
    )


opened = inlined(by_field)
"""Version of `by_field` for use in kernels."""


@inlined
def has_room(tree, b, nodes):
    """Return whether a tree has room for `nodes` more nodes."""
    return tree.used[b] + nodes <= tree.states.shape[1] - _SPARE


@inlined
def prefetch_nodes(tree, b, first, count):
    """Prefetch `count` nodes starting at `first`; `visits` is the first field of a node."""
    for line in range((count * _NODE_BYTES + LINE - 1) // LINE):
        prefetch(tree.visits, (b, first), line)


GROUP = 32
"""Number of trees searched together: some proceed while memory of others is being loaded."""

COUNTS = ("simulations", "evaluated", "deduplicated", "cached", "terminal", "proven")
"""Names of `SearchState.counts`; `mcts_solver.PROVEN` is the last index."""

SIMULATIONS, EVALUATED, DEDUPLICATED, CACHED, TERMINAL = range(5)


class StepOptions(NamedTuple):
    """Options of one step."""

    number: int
    """Step number, from 1."""
    deduplicate: bool
    """Request equal positions within the step only once."""
    cached: bool
    """Use evaluations of earlier steps."""
    uniform: bool
    """Use uniform evaluations, which need no batch."""
    noise_fraction: float
    noise_concentration: float


class SearchState(NamedTuple):
    """Progress of each tree between kernels, and the batch of the current step."""

    active: NDArray[np.bool_]  # [B] searching
    remaining: NDArray[np.int32]  # [B] simulations still to run
    waiting: NDArray[np.int32]  # [B] number of leaves waiting for evaluations
    leaf: NDArray[np.int32]  # [B, leaves] the waiting leaves
    row: NDArray[np.int32]  # [B, leaves] their rows in the batch
    playout_key: NDArray[np.uint64]  # [B] random stream of leaf evaluators and ties
    noise_key: NDArray[np.uint64]  # [B] random stream of root noise
    root_unprepared: NDArray[np.bool_]  # [B] whether the root rule has yet to prepare the root
    noisy: NDArray[np.bool_]  # [B] whether this search has root noise
    budget: NDArray[np.int32]  # [B] simulations requested at the start
    root: Any  # state of the root rule
    states: NDArray[np.uint64]  # [B * leaves, words] positions to evaluate
    entry: NDArray[np.int64]  # [B * leaves] cache entry of each row, or NO_ENTRY
    counts: NDArray[np.int64]  # [6] see COUNTS


class LeafEvaluations(NamedTuple):
    """Evaluations of a batch of N positions; extra outputs that were not requested are empty."""

    priors: NDArray[np.float32]  # [N, actions]
    values: NDArray[np.float32]  # [N]
    draws: NDArray[np.float32]  # [N] or [0]
    action_values: NDArray[np.float32]  # [N, actions] or [N, 0]


class Workspace(NamedTuple):
    """Scratch memory of one thread."""

    mask: NDArray[np.bool_]  # [actions] legal actions
    words: NDArray[np.uint64]  # [ceil(actions / 8)] the same memory
    state: NDArray[np.uint64]  # [words] the position of a playout
    moves: NDArray[np.int32]  # [1 + MAX_PLIES] length and actions of a playout
    uniform: NDArray[np.float32]  # [actions] equal priors
    trees: NDArray[np.int64]  # [GROUP] a group of trees
    leaves: NDArray[np.int64]  # [GROUP] their current nodes, finally their leaves
    hashes: NDArray[np.uint64]  # [GROUP] hashes of the leaf states
    live: NDArray[np.int64]  # [GROUP] group indices of the trees still descending


class Memory(NamedTuple):
    """All memory used by the kernels of a search; the addresses of its arrays must not change.

    The type is the same for all games, selection rules and leaf evaluators.
    """

    forest: Forest
    cache: Cache
    state: SearchState
    workspace: Workspace


def empty_workspace(game: Game) -> Workspace:
    """Allocate scratch memory."""
    actions = rules.actions(game)
    words = np.zeros(-(-actions // 8), np.uint64)
    return Workspace(
        words.view(np.bool_)[:actions],
        words,
        np.zeros(rules.words(game), np.uint64),
        np.zeros(1 + rules.MAX_PLIES, np.int32),
        np.ones(actions, np.float32),
        np.zeros(GROUP, np.int64),
        np.zeros(GROUP, np.int64),
        np.zeros(GROUP, np.uint64),
        np.zeros(GROUP, np.int64),
    )


def empty_state(trees: int, leaves: int, words: int, root: Any) -> SearchState:
    """Allocate the state of idle trees with up to `leaves` waiting leaves each."""
    return SearchState(
        active=np.zeros(trees, np.bool_),
        remaining=np.zeros(trees, np.int32),
        waiting=np.zeros(trees, np.int32),
        leaf=np.zeros((trees, leaves), np.int32),
        row=np.zeros((trees, leaves), np.int32),
        playout_key=np.zeros(trees, np.uint64),
        noise_key=np.zeros(trees, np.uint64),
        root_unprepared=np.zeros(trees, np.bool_),
        noisy=np.zeros(trees, np.bool_),
        budget=np.zeros(trees, np.int32),
        root=root,
        states=np.zeros((trees * leaves, words), np.uint64),
        entry=np.zeros(trees * leaves, np.int64),
        counts=np.zeros(len(COUNTS), np.int64),
    )
