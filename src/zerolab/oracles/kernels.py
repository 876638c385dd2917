"""Alpha-beta with a null window, which tests whether a value is at least some bound.

The search keeps its path in arrays, so that it can stop after some nodes and go on later: whoever
called it shows progress, and sees that a budget is spent or a key was pressed. Bounds are fail-soft
(Fishburn 1983): a test says more than yes or no, namely a bound that may lie beyond the one asked.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.core.compiled import inlined, kernel
from zerolab.oracles.table import HIGHEST, LOWEST, NO_MOVE, copy_state, keep, look_up
from zerolab.rules import interface as rules
from zerolab.rules.interface import ONGOING

# A position with fewer cells left is searched without the table, or its moves without being sorted:
# it costs less than looking it up.
TABLE_FROM = 5
SORT_FROM = 4
LOOK_AHEAD_FROM = 12

_TABLE_MOVE = 1 << 40
_PROMISE = 1 << 24
_ENTER, _NEXT, _LEAVE = range(3)


class Path(NamedTuple):
    """The positions from the root to the one under search; row p belongs to ply p."""

    states: NDArray[np.uint64]  # [P, words]
    children: NDArray[np.uint64]  # [P, actions, words] where `sorted`
    moves: NDArray[np.int16]  # [P, actions] solver moves
    keys: NDArray[np.int64]  # [P, actions] higher is tried sooner
    move_count: NDArray[np.int64]  # [P] how many
    tried: NDArray[np.int64]  # [P] moves tried
    is_sorted: NDArray[np.bool_]  # [P] whether children and keys are there
    bound: NDArray[np.int64]  # [P] the test, for the mover
    best: NDArray[np.int64]  # [P] the highest value of a child so far
    best_move: NDArray[np.int64]  # [P]
    entered: NDArray[np.int64]  # [P] nodes when the position was entered
    image: NDArray[np.uint64]  # [2, words] workspace for symmetric images
    history: NDArray[np.int64]  # [2, actions] cutoffs by side and move
    control: NDArray[np.int64]  # [4] see below


PLY, STAGE, VALUE, NODES = range(4)


def empty_path(plies: int, words: int, actions: int) -> Path:
    """Return a path with room for `plies` - 1 plies after its root."""
    return Path(
        states=np.zeros((plies, words), np.uint64),
        children=np.zeros((plies, actions, words), np.uint64),
        moves=np.zeros((plies, actions), np.int16),
        keys=np.zeros((plies, actions), np.int64),
        move_count=np.zeros(plies, np.int64),
        tried=np.zeros(plies, np.int64),
        is_sorted=np.zeros(plies, np.bool_),
        bound=np.zeros(plies, np.int64),
        best=np.zeros(plies, np.int64),
        best_move=np.zeros(plies, np.int64),
        entered=np.zeros(plies, np.int64),
        image=np.zeros((2, words), np.uint64),
        history=np.zeros((2, actions), np.int64),
        control=np.zeros(4, np.int64),
    )


def grown_path(path: Path, plies: int) -> Path:
    """Return a copy with room for more plies."""
    grown = empty_path(plies, path.states.shape[1], path.moves.shape[1])
    for name in Path._fields:
        former = getattr(path, name)
        getattr(grown, name)[: len(former)] = former
    return grown


@inlined
def _precedes(one, other):
    for word in range(one.shape[0]):
        if one[word] != other[word]:
            return one[word] < other[word]
    return False


@inlined
def _canonical(game, path, state, symmetric_from):
    """Write the state or its first symmetric image into image[0]; return the symmetry."""
    first = path.image[0]
    copy_state(state, first)
    chosen = 0
    if rules.remaining(game, state) >= symmetric_from:
        for symmetry in range(1, rules.symmetries(game)):
            rules.transform(game, state, symmetry, path.image[1])
            if _precedes(path.image[1], first):
                copy_state(path.image[1], first)
                chosen = symmetry
    return chosen


@inlined
def _look_ahead(game, table, path, ply, symmetric_from):
    """Return the highest value that the table guarantees for a move, LOWEST where none."""
    highest = np.int64(LOWEST)
    for i in range(path.move_count[ply]):
        _canonical(game, path, path.children[ply, i], symmetric_from)
        known = look_up(table, path.image[0])
        if -known.high > highest:
            highest = -known.high
            path.best_move[ply] = path.moves[ply, i]
        if -known.low < path.bound[ply]:
            path.keys[ply, i] -= _TABLE_MOVE
    return highest


@inlined
def _sort(game, path, ply, table_move, symmetry):
    """Make the children and say in which order to try them."""
    for i in range(path.move_count[ply]):
        move = path.moves[ply, i]
        child = path.children[ply, i]
        rules.apply(game, path.states[ply], move, child)
        key = rules.move_ordering_score(game, child) * _PROMISE + path.history[ply & 1, move]
        if table_move != NO_MOVE and rules.transform_action(game, symmetry, move) == table_move:
            key += _TABLE_MOVE
        path.keys[ply, i] = key


@inlined
def _bounds_at_sight(game, state):
    """Return bounds of the value that need no search; they are equal in a finished game."""
    if rules.outcome(game, state) != ONGOING:
        score = rules.score(game, state)
        return np.int64(score), np.int64(score)
    low, high = rules.score_bounds(game, state)
    return np.int64(low), np.int64(high)


@inlined
def _enter(game, table, path, ply, symmetric_from):
    """Prepare a position to be searched; return whether that is needless, and then its bound."""
    state = path.states[ply]
    bound = path.bound[ply]
    path.entered[ply] = path.control[NODES]
    path.control[NODES] += 1
    low, high = _bounds_at_sight(game, state)
    left = rules.remaining(game, state)
    table_move = np.int64(NO_MOVE)
    symmetry = 0
    if low < bound <= high and left >= TABLE_FROM:
        symmetry = _canonical(game, path, state, symmetric_from)
        known = look_up(table, path.image[0])
        low = max(low, known.low)
        high = min(high, known.high)
        table_move = known.move
    if low >= bound or high < bound:
        return True, low if low >= bound else high
    path.move_count[ply] = rules.solver_moves(game, state, path.moves[ply])
    path.tried[ply] = 0
    path.best[ply] = LOWEST
    path.best_move[ply] = NO_MOVE
    path.is_sorted[ply] = left >= SORT_FROM and path.move_count[ply] > 1
    if path.is_sorted[ply]:
        _sort(game, path, ply, table_move, symmetry)
        if left >= LOOK_AHEAD_FROM:
            low = _look_ahead(game, table, path, ply, symmetric_from)
    return low >= bound, low


@inlined
def _try_next(game, path, ply):
    """Go on to the child that looks best among those not tried; it faces the opposite test."""
    chosen = path.tried[ply]
    path.tried[ply] += 1
    below = path.states[ply + 1]
    if path.is_sorted[ply]:
        first = chosen
        for i in range(chosen + 1, path.move_count[ply]):
            if path.keys[ply, i] > path.keys[ply, chosen]:
                chosen = i
        _exchange(path, ply, first, chosen)
        copy_state(path.children[ply, first], below)
    else:
        rules.apply(game, path.states[ply], path.moves[ply, chosen], below)
    path.bound[ply + 1] = 1 - path.bound[ply]


@inlined
def _exchange(path, ply, i, j):
    if i != j:
        path.keys[ply, i], path.keys[ply, j] = path.keys[ply, j], path.keys[ply, i]
        path.moves[ply, i], path.moves[ply, j] = path.moves[ply, j], path.moves[ply, i]
        for word in range(path.states.shape[1]):
            kept = path.children[ply, i, word]
            path.children[ply, i, word] = path.children[ply, j, word]
            path.children[ply, j, word] = kept


@inlined
def _reward(path, side, move, left):
    """Count a cutoff in the history, which decides only among moves of equal move_ordering_score."""
    path.history[side, move] += np.int64(min(left, 64)) ** 2
    if path.history[side, move] >= _PROMISE:
        for action in range(path.history.shape[1]):
            path.history[side, action] >>= 1


@inlined
def _note(game, table, path, ply, symmetric_from):
    """Keep what a searched position turned out to be."""
    state = path.states[ply]
    left = rules.remaining(game, state)
    best = path.best[ply]
    is_cut = best >= path.bound[ply]
    if is_cut:
        _reward(path, ply & 1, path.best_move[ply], left)
    if left < TABLE_FROM:
        return
    symmetry = _canonical(game, path, state, symmetric_from)
    effort = 1
    nodes = path.control[NODES] - path.entered[ply]
    while nodes > 1:
        nodes >>= 1
        effort += 1
    if is_cut:
        move = rules.transform_action(game, symmetry, path.best_move[ply])
        keep(table, path.image[0], best, HIGHEST, move, effort)
    else:
        keep(table, path.image[0], LOWEST, best, NO_MOVE, effort)


@kernel
def begin(path, state, bound):
    """Set out to test whether the value of a state is at least `bound`."""
    path.states[0] = state
    path.bound[0] = bound
    path.control[PLY] = 0
    path.control[STAGE] = _ENTER


@kernel
def proceed(game, table, path, symmetric_from, nodes):
    """Search about so many nodes, or until the path is full; return whether the test is finished.

    Then VALUE is a lower bound of the value if it is at least the bound asked for, else an upper
    bound.
    """
    until = path.control[NODES] + nodes
    deepest = path.states.shape[0] - 1
    ply = path.control[PLY]
    stage = path.control[STAGE]
    value = path.control[VALUE]
    while ply >= 0:
        if stage == _ENTER:
            if path.control[NODES] >= until:
                break
            is_known, value = _enter(game, table, path, ply, symmetric_from)
            stage = _LEAVE if is_known else _NEXT
        elif stage == _NEXT:
            if path.best[ply] >= path.bound[ply] or path.tried[ply] == path.move_count[ply]:
                _note(game, table, path, ply, symmetric_from)
                value = path.best[ply]
                stage = _LEAVE
            elif ply == deepest:
                break
            else:
                _try_next(game, path, ply)
                ply += 1
                stage = _ENTER
        else:
            ply -= 1
            if ply >= 0:
                if -value > path.best[ply]:
                    path.best[ply] = -value
                    path.best_move[ply] = path.moves[ply, path.tried[ply] - 1]
                stage = _NEXT
    path.control[PLY] = ply
    path.control[STAGE] = stage
    path.control[VALUE] = value
    return ply < 0
