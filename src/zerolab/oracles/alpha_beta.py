"""Null-window alpha-beta search with a transposition table.

The table stores bounds on the values of positions in bounded memory. Its entries contain complete
states rather than hashes, so there are no collisions.

The search stores its stack in arrays, so it can pause after a number of nodes for the caller to
report progress, check the budget and handle Ctrl-C. Bounds are fail-soft [Fishburn1983]: a test
returns a lower bound of at least the tested bound, or an upper bound below the tested bound.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.core import streams
from zerolab.core.compiled import inlined, kernel
from zerolab.core.memory import copy_row
from zerolab.rules import encoding, rules
from zerolab.rules.rules import ONGOING

NO_MOVE = 0xFFFF
LOWEST_VALUE = -(1 << 14)
HIGHEST_VALUE = 1 << 14

_FIELD = np.uint64(0xFFFF)
_BIAS = 1 << 15


class TranspositionTable(NamedTuple):
    """Transposition table of pairs of entries.

    A new entry with at least as many searched nodes as the first entry replaces it, and the former
    first entry becomes the second. Any other new entry replaces the second.
    """

    states: NDArray[np.uint64]  # [entries, words]
    packed_entries: NDArray[np.uint64]  # [entries] four fields of 16 bits; 0 for empty entries


class TableEntry(NamedTuple):
    """Bounds on the value of a position, and the move that caused a cutoff."""

    low: np.int64
    high: np.int64
    cutoff_move: np.int64
    """Move of the stored image; `NO_MOVE` if only an upper bound is known."""
    log2_nodes: np.int64
    """Binary logarithm of the number of searched nodes, rounded down, plus 1; 0 if unknown."""


def empty_transposition_table(word_count: int, memory_mib: int) -> TranspositionTable:
    """Return an empty table of at most `memory_mib` MiB."""
    entries = 2
    while 2 * entries * 8 * (word_count + 1) <= memory_mib << 20:
        entries *= 2
    states = np.zeros((entries, word_count), np.uint64)
    return TranspositionTable(states, np.zeros(entries, np.uint64))


@inlined
def _pair_of(table, state):
    """Return the index of the first entry of the pair for a state."""
    hashed = np.uint64(0)
    for word in range(state.shape[0]):
        hashed = streams.mix64(hashed ^ state[word])
    return np.int64(hashed & np.uint64(table.packed_entries.shape[0] - 1)) & ~1


@inlined
def _is_entry_of(table, entry, state):
    for word in range(state.shape[0]):
        if table.states[entry, word] != state[word]:
            return False
    return table.packed_entries[entry] != np.uint64(0)


@inlined
def _unpack(packed):
    return TableEntry(
        np.int64(packed & _FIELD) - _BIAS,
        np.int64((packed >> np.uint64(16)) & _FIELD) - _BIAS,
        np.int64((packed >> np.uint64(32)) & _FIELD),
        np.int64(packed >> np.uint64(48)),
    )


@inlined
def _pack(low, high, move, log2_nodes):
    return (
        np.uint64(low + _BIAS)
        | np.uint64(high + _BIAS) << np.uint64(16)
        | np.uint64(move) << np.uint64(32)
        | np.uint64(log2_nodes) << np.uint64(48)
    )


@inlined
def probe_table(table, state):
    """Return the entry of a state, with the widest bounds and no move if it is not in the table."""
    pair = _pair_of(table, state)
    if _is_entry_of(table, pair, state):
        return _unpack(table.packed_entries[pair])
    if _is_entry_of(table, pair + 1, state):
        return _unpack(table.packed_entries[pair + 1])
    return TableEntry(
        np.int64(LOWEST_VALUE), np.int64(HIGHEST_VALUE), np.int64(NO_MOVE), np.int64(0)
    )


@inlined
def store_entry(table, state, low, high, move, log2_nodes):
    """Intersect the stored bounds of a state with new bounds; NO_MOVE keeps the stored move."""
    pair = _pair_of(table, state)
    entry = pair + 1
    if _is_entry_of(table, pair, state):
        entry = pair
    if _is_entry_of(table, entry, state):
        stored = _unpack(table.packed_entries[entry])
        low = max(low, stored.low)
        high = min(high, stored.high)
        log2_nodes = max(log2_nodes, stored.log2_nodes)
        if move == NO_MOVE:
            move = stored.cutoff_move
    elif log2_nodes >= _unpack(table.packed_entries[pair]).log2_nodes:
        copy_row(table.states[pair], table.states[pair + 1])
        table.packed_entries[pair + 1] = table.packed_entries[pair]
        entry = pair
    copy_row(state, table.states[entry])
    table.packed_entries[entry] = _pack(low, high, move, log2_nodes)


# Minimum numbers of empty cells at which it pays to probe the table for a position, to order the
# moves in it, and to probe the table for its children.
_MIN_EMPTIES_FOR_TABLE = 5
_MIN_EMPTIES_FOR_ORDERING = 4
_MIN_EMPTIES_FOR_CHILD_PROBES = 12

_TABLE_MOVE = 1 << 40
_ORDERING_SCORE = 1 << 24
_ENTER, _NEXT, _LEAVE = range(3)


class SearchStack(NamedTuple):
    """Positions from the root to the current position; row p describes ply p."""

    states: NDArray[np.uint64]  # [P, words]
    children: NDArray[np.uint64]  # [P, actions, words] valid if `is_ordered`
    moves: NDArray[np.int16]  # [P, actions] see `rules.solver_moves`
    ordering_keys: NDArray[np.int64]  # [P, actions] moves with higher keys are tried first
    move_count: NDArray[np.int64]  # [P]
    tried_count: NDArray[np.int64]  # [P] number of moves tried
    is_ordered: NDArray[np.bool_]  # [P] True if there are children and ordering keys
    tested_bound: NDArray[np.int64]  # [P] for the mover
    best_value: NDArray[np.int64]  # [P] highest value of a move so far, for the mover
    best_move: NDArray[np.int64]  # [P]
    nodes_before: NDArray[np.int64]  # [P] number of nodes searched before the position
    image_workspace: NDArray[np.uint64]  # [2, words] for symmetric images
    cutoff_history: NDArray[np.int64]  # [2, actions] by side and move (history heuristic)
    scalars: NDArray[np.int64]  # [4] see PLY, STAGE, VALUE and NODES


PLY, STAGE, VALUE, NODES = range(4)
"""Indices of `SearchStack.scalars`: current ply and stage, last value, total number of nodes."""


def empty_stack(row_count: int, word_count: int, action_count: int) -> SearchStack:
    """Return a stack with room for `row_count` - 1 plies after its root."""
    return SearchStack(
        states=np.zeros((row_count, word_count), np.uint64),
        children=np.zeros((row_count, action_count, word_count), np.uint64),
        moves=np.zeros((row_count, action_count), np.int16),
        ordering_keys=np.zeros((row_count, action_count), np.int64),
        move_count=np.zeros(row_count, np.int64),
        tried_count=np.zeros(row_count, np.int64),
        is_ordered=np.zeros(row_count, np.bool_),
        tested_bound=np.zeros(row_count, np.int64),
        best_value=np.zeros(row_count, np.int64),
        best_move=np.zeros(row_count, np.int64),
        nodes_before=np.zeros(row_count, np.int64),
        image_workspace=np.zeros((2, word_count), np.uint64),
        cutoff_history=np.zeros((2, action_count), np.int64),
        scalars=np.zeros(4, np.int64),
    )


def grown_stack(stack: SearchStack, row_count: int) -> SearchStack:
    """Return a copy of a stack with room for more plies."""
    grown = empty_stack(row_count, stack.states.shape[1], stack.moves.shape[1])
    for name in SearchStack._fields:
        rows = getattr(stack, name)
        getattr(grown, name)[: len(rows)] = rows
    return grown


@inlined
def _canonical(game, stack, state, min_symmetric_empties):
    """Write the smallest symmetric image of a state to image_workspace[0]; return its symmetry.

    States with fewer than `min_symmetric_empties` empty cells are copied unchanged.
    """
    if rules.empty_count(game, state) >= min_symmetric_empties:
        images = stack.image_workspace
        return encoding.canonical_state(game, state, images[0], images[1])
    copy_row(state, stack.image_workspace[0])
    return 0


@inlined
def _probe_children(game, table, stack, ply, min_symmetric_empties):
    """Return the highest lower bound of a move in the table, or LOWEST_VALUE.

    The enhanced transposition cutoff uses this bound. Moves refuted by the table are tried last.
    """
    highest = np.int64(LOWEST_VALUE)
    for i in range(stack.move_count[ply]):
        _canonical(game, stack, stack.children[ply, i], min_symmetric_empties)
        stored = probe_table(table, stack.image_workspace[0])
        if -stored.high > highest:
            highest = -stored.high
            stack.best_move[ply] = stack.moves[ply, i]
        if -stored.low < stack.tested_bound[ply]:
            stack.ordering_keys[ply, i] -= _TABLE_MOVE
    return highest


@inlined
def _order(game, stack, ply, table_move, symmetry):
    """Generate the children and their ordering keys, with the move from the table first."""
    for i in range(stack.move_count[ply]):
        move = stack.moves[ply, i]
        child = stack.children[ply, i]
        rules.apply(game, stack.states[ply], move, child)
        key = (
            rules.move_ordering_score(game, child) * _ORDERING_SCORE
            + stack.cutoff_history[ply & 1, move]
        )
        if table_move != NO_MOVE and encoding.transform_action(game, symmetry, move) == table_move:
            key += _TABLE_MOVE
        stack.ordering_keys[ply, i] = key


@inlined
def _static_bounds(game, state):
    """Return bounds on the value without a search; they are equal for finished games."""
    if rules.outcome(game, state) != ONGOING:
        score = rules.final_score(game, state)
        return np.int64(score), np.int64(score)
    low, high = rules.score_bounds(game, state)
    return np.int64(low), np.int64(high)


@inlined
def _enter(game, table, stack, ply, min_symmetric_empties):
    """Start searching a position; return whether its test is already decided, and a bound."""
    state = stack.states[ply]
    bound = stack.tested_bound[ply]
    stack.nodes_before[ply] = stack.scalars[NODES]
    stack.scalars[NODES] += 1
    low, high = _static_bounds(game, state)
    empties = rules.empty_count(game, state)
    table_move = np.int64(NO_MOVE)
    symmetry = 0
    if low < bound <= high and empties >= _MIN_EMPTIES_FOR_TABLE:
        symmetry = _canonical(game, stack, state, min_symmetric_empties)
        stored = probe_table(table, stack.image_workspace[0])
        low = max(low, stored.low)
        high = min(high, stored.high)
        table_move = stored.cutoff_move
    if low >= bound or high < bound:
        return True, low if low >= bound else high
    stack.move_count[ply] = rules.solver_moves(game, state, stack.moves[ply])
    stack.tried_count[ply] = 0
    stack.best_value[ply] = LOWEST_VALUE
    stack.best_move[ply] = NO_MOVE
    stack.is_ordered[ply] = empties >= _MIN_EMPTIES_FOR_ORDERING and stack.move_count[ply] > 1
    if stack.is_ordered[ply]:
        _order(game, stack, ply, table_move, symmetry)
        if empties >= _MIN_EMPTIES_FOR_CHILD_PROBES:
            low = _probe_children(game, table, stack, ply, min_symmetric_empties)
    return low >= bound, low


@inlined
def _try_next(game, stack, ply):
    """Descend to the untried child with the highest key, to test the opposite bound there."""
    first = stack.tried_count[ply]
    stack.tried_count[ply] += 1
    child = stack.states[ply + 1]
    if stack.is_ordered[ply]:
        best = first
        for i in range(first + 1, stack.move_count[ply]):
            if stack.ordering_keys[ply, i] > stack.ordering_keys[ply, best]:
                best = i
        _exchange(stack, ply, first, best)
        copy_row(stack.children[ply, first], child)
    else:
        rules.apply(game, stack.states[ply], stack.moves[ply, first], child)
    stack.tested_bound[ply + 1] = 1 - stack.tested_bound[ply]


@inlined
def _exchange(stack, ply, i, j):
    if i != j:
        keys = stack.ordering_keys
        keys[ply, i], keys[ply, j] = keys[ply, j], keys[ply, i]
        stack.moves[ply, i], stack.moves[ply, j] = stack.moves[ply, j], stack.moves[ply, i]
        for word in range(stack.states.shape[1]):
            previous = stack.children[ply, i, word]
            stack.children[ply, i, word] = stack.children[ply, j, word]
            stack.children[ply, j, word] = previous


@inlined
def _add_to_history(stack, side, move, empties):
    """Record a cutoff in the history, which breaks ties between ordering scores."""
    stack.cutoff_history[side, move] += np.int64(min(empties, 64)) ** 2
    if stack.cutoff_history[side, move] >= _ORDERING_SCORE:
        for action in range(stack.cutoff_history.shape[1]):
            stack.cutoff_history[side, action] >>= 1


@inlined
def _store_bound(game, table, stack, ply, min_symmetric_empties):
    """Store the bound on the value of a position in the table."""
    state = stack.states[ply]
    empties = rules.empty_count(game, state)
    best = stack.best_value[ply]
    is_cut = best >= stack.tested_bound[ply]
    if is_cut:
        _add_to_history(stack, ply & 1, stack.best_move[ply], empties)
    if empties < _MIN_EMPTIES_FOR_TABLE:
        return
    symmetry = _canonical(game, stack, state, min_symmetric_empties)
    log2_nodes = 1
    nodes = stack.scalars[NODES] - stack.nodes_before[ply]
    while nodes > 1:
        nodes >>= 1
        log2_nodes += 1
    if is_cut:
        move = encoding.transform_action(game, symmetry, stack.best_move[ply])
        store_entry(table, stack.image_workspace[0], best, HIGHEST_VALUE, move, log2_nodes)
    else:
        store_entry(table, stack.image_workspace[0], LOWEST_VALUE, best, NO_MOVE, log2_nodes)


@kernel
def start_null_window_test(stack, state, bound):
    """Prepare to test whether the value of a state is at least `bound`."""
    copy_row(state, stack.states[0])
    stack.tested_bound[0] = bound
    stack.scalars[PLY] = 0
    stack.scalars[STAGE] = _ENTER


@kernel
def run_null_window_test(game, table, stack, min_symmetric_empties, nodes):
    """Search about `nodes` nodes, or until the stack is full; return True if the test is finished.

    Once the test is finished, the scalar VALUE is a bound on the value of the state: a lower bound
    if VALUE is at least the tested bound, otherwise an upper bound.
    """
    node_limit = stack.scalars[NODES] + nodes
    deepest = stack.states.shape[0] - 1
    ply = stack.scalars[PLY]
    stage = stack.scalars[STAGE]
    value = stack.scalars[VALUE]
    while ply >= 0:
        if stage == _ENTER:
            if stack.scalars[NODES] >= node_limit:
                break
            is_decided, value = _enter(game, table, stack, ply, min_symmetric_empties)
            stage = _LEAVE if is_decided else _NEXT
        elif stage == _NEXT:
            if (
                stack.best_value[ply] >= stack.tested_bound[ply]
                or stack.tried_count[ply] == stack.move_count[ply]
            ):
                _store_bound(game, table, stack, ply, min_symmetric_empties)
                value = stack.best_value[ply]
                stage = _LEAVE
            elif ply == deepest:
                break
            else:
                _try_next(game, stack, ply)
                ply += 1
                stage = _ENTER
        else:
            ply -= 1
            if ply >= 0:
                if -value > stack.best_value[ply]:
                    stack.best_value[ply] = -value
                    stack.best_move[ply] = stack.moves[ply, stack.tried_count[ply] - 1]
                stage = _NEXT
    stack.scalars[PLY] = ply
    stack.scalars[STAGE] = stage
    stack.scalars[VALUE] = value
    return ply < 0
