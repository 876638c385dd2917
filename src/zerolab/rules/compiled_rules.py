"""Compiled rules for calls from Python, for single states and for batches.

Kernels call the functions of `rules.rules` and `rules.encoding` directly. Plain Python must not
pass states to these functions, because a word returned from compiled code becomes an unbounded
Python integer. Plain Python calls the functions of this module instead. For a single state,
uint64[words], there are functions such as ``legal``, which returns a new array, and
``write_legal``, which writes to a given array. Functions named ``..._batch`` take many states,
uint64[N, words].
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.core.compiled import kernel
from zerolab.core.errors import UserError, quoted
from zerolab.core.processes import run_in_threads
from zerolab.rules import encoding, rules
from zerolab.rules.rules import (
    MAX_PLIES,
    ONGOING,
    Game,
    Mask,
    State,
    mean_playout_outcome,
    threads_for_playouts,
)


def start(game: Game) -> State:
    """Return the initial state of a game, uint64[words]."""
    state = np.empty(rules.word_count(game), np.uint64)
    write_start(game, state)
    return state


@kernel
def write_start(game, out):
    """Write the initial state of a game to `out`, uint64[words]."""
    rules.start(game, out)


def legal(game: Game, state: State) -> Mask:
    """Return bool[actions]: the mask of legal actions in an ongoing state."""
    mask = np.empty(rules.action_count(game), np.bool_)
    write_legal(game, state, mask)
    return mask


@kernel
def write_legal(game, state, mask):
    """Write the legal actions in an ongoing state to `mask`, bool[actions]."""
    rules.legal(game, state, mask)


def apply(game: Game, state: State, action: int) -> State:
    """Return the state after a legal action, from the next mover's point of view."""
    out = np.empty_like(state)
    write_apply(game, state, action, out)
    return out


@kernel
def write_apply(game, state, action, out):
    """Write the state after a legal action to `out`, uint64[words], which can be `state`."""
    rules.apply(game, state, action, out)


def outcome(game: Game, state: State) -> int:
    """Return ONGOING, or WIN, DRAW or LOSS for the mover."""
    return int(_outcome(game, state))


@kernel
def _outcome(game, state):
    return rules.outcome(game, state)


def encode(game: Game, state: State) -> NDArray[np.float32]:
    """Return the planes of a state, float32[planes, rows, columns]."""
    return encode_batch(game, state[None])[0]


def transform(game: Game, state: State, symmetry: int) -> State:
    """Return the image of a state under a symmetry."""
    out = np.empty_like(state)
    write_transform(game, state, symmetry, out)
    return out


@kernel
def write_transform(game, state, symmetry, out):
    """Write the image of a state under a symmetry to another array, `out`, uint64[words]."""
    encoding.transform(game, state, symmetry, out)


def symmetry_tables(game: Game) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return int32[S, cells] and int32[S, actions]: images of cells and actions by symmetry."""
    symmetries = range(encoding.symmetry_count(game))
    cells, actions = range(game[0] * game[1]), range(rules.action_count(game))
    cell_images = [[encoding.transform_cell(game, s, cell) for cell in cells] for s in symmetries]
    action_images = [
        [encoding.transform_action(game, s, action) for action in actions] for s in symmetries
    ]
    return np.array(cell_images, np.int32), np.array(action_images, np.int32)


def empty_count(game: Game, state: State) -> int:
    """Return the maximum number of pieces that can still be placed."""
    return int(_empty_count(game, state))


@kernel
def _empty_count(game, state):
    return rules.empty_count(game, state)


def max_plies(game: Game) -> int:
    """Return an upper bound on the length of a game in plies."""
    return int(_max_plies(game))


@kernel
def _max_plies(game):
    return rules.max_plies(game)


def final_score(game: Game, state: State) -> int:
    """Return the score for the mover in a finished state."""
    return int(_final_score(game, state))


@kernel
def _final_score(game, state):
    return rules.final_score(game, state)


def score_bounds(game: Game, state: State) -> tuple[int, int]:
    """Return a lower and an upper bound on the final score for the mover in an ongoing state."""
    low, high = _score_bounds(game, state)
    return int(low), int(high)


@kernel
def _score_bounds(game, state):
    return rules.score_bounds(game, state)


def solver_moves(game: Game, state: State) -> list[int]:
    """Return the actions that a solver must try in an ongoing state, best first."""
    out = np.empty(rules.action_count(game), np.int16)
    return [int(action) for action in out[: _solver_moves(game, state, out)]]


@kernel
def _solver_moves(game, state, out):
    return rules.solver_moves(game, state, out)


def move_ordering_score(game: Game, state: State) -> int:
    """Return a heuristic value of a state for the player who has just moved."""
    return int(_move_ordering_score(game, state))


@kernel
def _move_ordering_score(game, state):
    return rules.move_ordering_score(game, state)


def apply_batch(
    game: Game, states: NDArray[np.uint64], rows: NDArray[np.int64], actions: NDArray[np.int64]
) -> NDArray[np.int8]:
    """Apply one action to each of the states at `rows`, in place; return int8[n] outcomes.

    `states` is uint64[N, words]; `rows` and `actions` are int64[n]. Each result is ONGOING or the
    outcome for the next mover.
    """
    outcomes = np.empty(len(rows), np.int8)
    _apply_batch(game, states, rows, actions, outcomes)
    return outcomes


@kernel
def _apply_batch(game, states, rows, actions, outcomes):
    for i in range(rows.shape[0]):
        state = states[rows[i]]
        rules.apply(game, state, actions[i], state)
        outcomes[i] = rules.outcome(game, state)


def require_states(game: Game, states: NDArray[np.uint64]) -> None:
    """Raise UserError unless `states` are an array uint64[N, words], as kernels assume."""
    words = rules.word_count(game)
    is_array = isinstance(states, np.ndarray)
    if not is_array or states.dtype != np.uint64 or states.shape[1:] != (words,):
        description = f"{states.dtype}{list(states.shape)}" if is_array else quoted(states)
        raise UserError(f"states = {description}: expected an array uint64[N, {words}]")


def encode_batch(
    game: Game, states: NDArray[np.uint64], padded: int | None = None
) -> NDArray[np.float32]:
    """Return float32[N, planes, rows, columns]: the planes of states, uint64[N, words].

    If `padded` is given, the batch is padded to that length, at least N, with zeros. Raises
    UserError for states of another type or shape, and for a shorter length.
    """
    require_states(game, states)
    if padded is not None and padded < len(states):
        raise UserError(f"padded = {padded}: expected at least {len(states)}, the number of states")
    cells = game[0] * game[1]
    out = np.zeros((padded or len(states), encoding.plane_count(game), cells), np.float32)
    write_planes_batch(game, states, out)
    return out.reshape(len(out), -1, game[0], game[1])


@kernel
def write_planes_batch(game, states, out):
    """Write the planes of states, uint64[N, words], to `out`, float32[N, planes, cells]."""
    for i in range(states.shape[0]):
        encoding.encode(game, states[i], out[i])


def playout_batch(
    game: Game,
    states: NDArray[np.uint64],
    keys: NDArray[np.uint64],
    count: int = 1,
    threads: int = 1,
) -> NDArray[np.float32]:
    """Return float32[N]: mean outcomes of `count` random playouts for the mover of each state.

    `states` is uint64[N, words], and `keys` is uint64[N]. Playout j of state i uses the stream
    `fold_in(keys[i], j)`, so results do not depend on the batch or on `threads`. Raises ValueError
    unless there is one key per state, and UserError if `count` or `threads` is less than 1.
    """
    if states.shape != (len(keys), rules.word_count(game)):
        raise ValueError(f"{len(keys)} keys for states of shape {states.shape}")
    for name, number in (("count", count), ("threads", threads)):
        if number < 1:
            raise UserError(f"{name} = {number}: expected at least 1")
    means = np.empty(len(states), np.float32)

    def play(begin: int, end: int) -> None:
        _playout_batch(game, states[begin:end], keys[begin:end], count, means[begin:end])

    run_in_threads(play, len(states), threads_for_playouts(len(states) * count, threads))
    return means


@kernel
def _playout_batch(game, states, keys, count, means):
    out = np.empty(states.shape[1], np.uint64)
    moves = np.empty(1 + MAX_PLIES, np.int32)
    for i in range(states.shape[0]):
        means[i] = mean_playout_outcome(game, states[i], count, keys[i], out, moves)


def canonical_states(
    game: Game, states: NDArray[np.uint64]
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return uint64[n, words] and int64[n]: canonical states, and the symmetries that lead to them.

    `states` is uint64[n, words]. A canonical state is the smallest image of a state under all
    symmetries, compared word by word. Two states have the same canonical state if and only if they
    are symmetric to each other.
    """
    images, symmetries = np.empty_like(states), np.empty(len(states), np.int64)
    _smallest(game, states, images, symmetries, np.empty(states.shape[1], np.uint64))
    return images, symmetries


@kernel
def _smallest(game, states, images, symmetries, workspace):
    for i in range(states.shape[0]):
        symmetries[i] = encoding.canonical_state(game, states[i], images[i], workspace)


class PerftCount(NamedTuple):
    """Counts of the action sequences of one length."""

    depth: int
    """Length of the sequences in plies."""
    leaf_count: int
    """Number of sequences."""
    ended_leaf_count: int
    """Number of sequences after which the game is over."""


@kernel
def _count_sequences(game, depth, states, masks):
    """Return the number of action sequences, and of those that end the game, by depth-first search.

    Row d of `states` and `masks` is the workspace of ply d.
    """
    leaves = 0
    ended = 0
    action = np.zeros(depth + 1, np.int64)
    ply = 0
    rules.legal(game, states[0], masks[0])
    while ply >= 0:
        if action[ply] == masks.shape[1]:
            ply -= 1
            continue
        current = action[ply]
        action[ply] += 1
        if not masks[ply, current]:
            continue
        rules.apply(game, states[ply], current, states[ply + 1])
        is_over = rules.outcome(game, states[ply + 1]) != ONGOING
        if ply + 1 == depth:
            leaves += 1
            ended += is_over
        elif not is_over:
            ply += 1
            rules.legal(game, states[ply], masks[ply])
            action[ply] = 0
    return leaves, ended


def perft(game: Game, depth: int) -> Iterator[PerftCount]:
    """Yield the counts for 1..depth plies; a pass is a ply.

    Games that end earlier are not counted. Othello 8x8 has 24,571,056 sequences of 10 plies; some
    published tables add the 228 games that end at ply 9.
    """
    states = np.empty((depth + 1, rules.word_count(game)), np.uint64)
    masks = np.empty((depth + 1, rules.action_count(game)), np.bool_)
    for plies in range(1, depth + 1):
        rules.start(game, states[0])
        yield PerftCount(plies, *(int(n) for n in _count_sequences(game, plies, states, masks)))
