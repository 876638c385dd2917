"""The arrays of a search: trees, their progress, the current batch, scratch memory.

Where many trees are searched in turn, each is out of the processor's caches when its turn comes,
so what counts is how few cache lines a simulation touches, and how early it asks for them
(docs/decisions/0016). A node is half a line.
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
"""How many nodes a tree has room for at first; it grows when they are used up."""

UNSEEN = 3
"""The outcome of a node that no simulation has reached yet; its state is not set either."""

_PLAIN = ZeroSum()
_NO_PROOFS = NoSolver()

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
"""A node in memory; see `Tree` for what its fields mean."""

_NODE_BYTES = NODE.itemsize

_SPARE = 2
"""Nodes at the end of each tree that are never used. Without them, trees would begin at multiples
of a power of two, and their roots compete for the same few places of a processor's cache."""


class Forest(NamedTuple):
    """B trees as they lie in memory, all arrays contiguous: what kernels are called with."""

    used: NDArray[np.int32]  # [B] nodes in use
    nodes: NDArray[np.void]  # [B, nodes] NODE
    statistics: NDArray[np.float32]  # [B, nodes, K] of the selection rule
    states: NDArray[np.uint64]  # [B, nodes, words] set once the outcome is
    utility: Any  # what values are worth; see `search.values`
    proofs: Any  # whether results are proven; see `search.mcts_solver`


class Tree(NamedTuple):
    """B trees of up to `nodes` nodes; node 0 of each is its root.

    Values are stored from the view of the player to move at the node (negamax).
    """

    used: NDArray[np.int32]  # [B] nodes in use
    parent: NDArray[np.int32]  # [B, nodes] -1 at the root
    first_child: NDArray[np.int32]  # [B, nodes] 0 until expanded
    children: NDArray[np.int16]  # [B, nodes] number of legal actions, once expanded
    action: NDArray[np.int16]  # [B, nodes] the action that led here
    outcome: NDArray[np.int8]  # [B, nodes] UNSEEN, ONGOING or the result for the mover
    visits: NDArray[np.int32]  # [B, nodes] simulations that passed here, and its evaluation
    value: NDArray[np.float32]  # [B, nodes] mean of the values backed up
    prior: NDArray[np.float32]  # [B, nodes] probability of the action at the parent
    proven: NDArray[np.int8]  # [B, nodes] ONGOING or the mover's proven result; see `proofs`
    distance: NDArray[np.int16]  # [B, nodes] plies to the end of the game, where proven
    draws: NDArray[np.float32]  # [B, nodes] mean probability of a draw; see `utility`
    statistics: NDArray[np.float32]  # [B, nodes, K] of the selection rule
    states: NDArray[np.uint64]  # [B, nodes, words] set once the outcome is
    utility: Any  # what values are worth; see `search.values`
    proofs: Any  # whether results are proven; see `search.mcts_solver`


def empty_forest(
    batch: int,
    nodes: int,
    words: int,
    statistics: int,
    utility: Any = _PLAIN,
    proofs: Any = _NO_PROOFS,
) -> Forest:
    """Allocate trees without roots, with room for `nodes` nodes each."""
    width = nodes + _SPARE
    return Forest(
        used=np.zeros(batch, np.int32),
        nodes=np.zeros((batch, width), NODE),
        statistics=np.zeros((batch, width, statistics), np.float32),
        states=np.zeros((batch, width, words), np.uint64),
        utility=utility,
        proofs=proofs,
    )


def empty_tree(batch: int, nodes: int, words: int, statistics: int) -> Tree:
    """Allocate trees without roots, as selection rules see them."""
    return by_field(empty_forest(batch, nodes, words, statistics))


def node_bytes(words: int, statistics: int) -> int:
    """Return the memory that a node takes, whose state has `words` words."""
    return _NODE_BYTES + 8 * words + 4 * statistics


def grown(forest: Forest) -> Forest:
    """Return the same trees with room for twice as many nodes."""
    batch, width, words = forest.states.shape
    nodes, own = 2 * (width - _SPARE), forest.statistics.shape[2]
    larger = empty_forest(batch, nodes, words, own, forest.utility, forest.proofs)
    larger.used[:] = forest.used
    for field in ("nodes", "statistics", "states"):
        getattr(larger, field)[:, :width] = getattr(forest, field)
    return larger


def by_field(forest):
    """Return the trees of a forest by their fields, views of its memory."""
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
        forest.proofs,
    )


opened = inlined(by_field)
"""The same within kernels."""


@inlined
def has_room(tree, b, nodes):
    """Return whether a tree has room for this many more nodes."""
    return tree.used[b] + nodes <= tree.states.shape[1] - _SPARE


@inlined
def prefetch_nodes(tree, b, first, count):
    """Begin to load `count` nodes from node `first` on; `visits` is their first field."""
    for line in range((count * _NODE_BYTES + LINE - 1) // LINE):
        prefetch(tree.visits, (b, first), line)


GROUP = 32
"""How many trees are searched together: while memory of one is on its way, others go on."""

COUNTS = ("simulations", "evaluated", "deduplicated", "cached", "terminal", "proven")
"""What `SearchState.counts` counts; `proofs.PROVEN` is the place of the last."""

SIMULATIONS, EVALUATED, DEDUPLICATED, CACHED, TERMINAL = range(5)


class StepOptions(NamedTuple):
    """How one step is run."""

    number: int
    """This step's, counted from 1."""
    deduplicate: bool
    """Request equal positions of the step once."""
    cached: bool
    """Use evaluations of earlier steps."""
    uniform: bool
    """Evaluations are uniform and need no batch."""
    noise_fraction: float
    noise_concentration: float


class SearchState(NamedTuple):
    """What the search keeps for each tree between kernels, and the batch of the current step."""

    active: NDArray[np.bool_]  # [B] searching
    remaining: NDArray[np.int32]  # [B] simulations still to run
    waiting: NDArray[np.int32]  # [B] how many leaves wait for their evaluations
    leaf: NDArray[np.int32]  # [B, most] these leaves
    row: NDArray[np.int32]  # [B, most] their evaluations' rows in the batch
    playout_key: NDArray[np.uint64]  # [B] random stream of leaf evaluators and ties
    noise_key: NDArray[np.uint64]  # [B] random stream of root noise
    root_due: NDArray[np.bool_]  # [B] whether the root rule has yet to prepare the root
    noisy: NDArray[np.bool_]  # [B] whether this search has noise at its root
    budget: NDArray[np.int32]  # [B] simulations asked for at the start
    root: Any  # what the root rule keeps
    states: NDArray[np.uint64]  # [B * most, words] the positions to evaluate
    slot: NDArray[np.int64]  # [B * most] where in the cache the answer to a row goes, or NO_SLOT
    counts: NDArray[np.int64]  # [6] see COUNTS


class LeafEvaluations(NamedTuple):
    """Evaluations of a batch of N positions; what is not wanted is empty."""

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
    leaves: NDArray[np.int64]  # [GROUP] the nodes where they are, at last their leaves
    hashes: NDArray[np.uint64]  # [GROUP] of the leaves' states
    live: NDArray[np.int64]  # [GROUP] the places in the group of those still on their way


class Memory(NamedTuple):
    """All that the kernels of a search work on; what lives in it does not move.

    Its type is the same for all games, selection rules and leaf evaluators.
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


def empty_state(slots: int, most: int, words: int, root: Any) -> SearchState:
    """Allocate the progress of idle trees, of which `most` leaves may wait at once."""
    return SearchState(
        active=np.zeros(slots, np.bool_),
        remaining=np.zeros(slots, np.int32),
        waiting=np.zeros(slots, np.int32),
        leaf=np.zeros((slots, most), np.int32),
        row=np.zeros((slots, most), np.int32),
        playout_key=np.zeros(slots, np.uint64),
        noise_key=np.zeros(slots, np.uint64),
        root_due=np.zeros(slots, np.bool_),
        noisy=np.zeros(slots, np.bool_),
        budget=np.zeros(slots, np.int32),
        root=root,
        states=np.zeros((slots * most, words), np.uint64),
        slot=np.zeros(slots * most, np.int64),
        counts=np.zeros(len(COUNTS), np.int64),
    )
