"""What the kernels of a search work on: its methods, its trees' progress, and scratch memory."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.rules import interface as rules
from zerolab.rules.interface import Game
from zerolab.search.cache import Cache
from zerolab.search.tree import Forest

GROUP = 32
"""How many trees are searched together: while memory of one is on its way, others go on."""

COUNTS = ("simulations", "evaluated", "deduplicated", "cached", "terminal", "proven")
"""What `SearchState.counts` counts; `proofs.PROVEN` is the place of the last."""

SIMULATIONS, EVALUATED, DEDUPLICATED, CACHED, TERMINAL = range(5)


class Methods(NamedTuple):
    """How a tree is searched; each is a type registered in `search.interface`.

    Kernels are compiled for them. What takes all of them is compiled anew for each combination, so
    the leaf evaluator, which few functions need, is not among them.
    """

    selection: Any
    fpu: Any
    tie_break: Any
    root: Any
    wave: Any


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


class Answers(NamedTuple):
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
    moves: NDArray[np.int32]  # [1 + MOST_PLIES] length and actions of a playout
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
        np.zeros(1 + rules.MOST_PLIES, np.int32),
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
