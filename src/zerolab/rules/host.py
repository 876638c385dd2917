"""The rules for plain Python: compiled functions with the names of the interface's.

Inside kernels the interface is called directly. Outside, a word that leaves compiled code becomes
an unbounded Python integer, so single positions go through these functions too. `host.legal(game,
state)` returns what `interface.legal(game, state, mask)` writes, and so for all others; a function
of many positions says so in its name or its shapes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from zerolab.core.compiled import kernel
from zerolab.core.errors import UserError
from zerolab.core.threads import in_parts
from zerolab.rules import interface as rules
from zerolab.rules.interface import MOST_PLIES, Game, Mask, State
from zerolab.rules.playouts import mean_playout

_PLAYOUTS_PER_THREAD = 1000


@kernel
def write_start(game, out):
    """Write the first position into uint64[words]."""
    rules.start(game, out)


@kernel
def write_legal(game, state, mask):
    """Write into bool[actions] which actions of an ongoing state are legal."""
    rules.legal(game, state, mask)


@kernel
def write_apply(game, state, action, out):
    """Write the state after a legal action into uint64[words], which may be `state`."""
    rules.apply(game, state, action, out)


@kernel
def _outcome(game, state):
    return rules.outcome(game, state)


@kernel
def _score(game, state):
    return rules.score(game, state)


@kernel
def write_transform(game, state, symmetry, out):
    """Write the image of a state under a symmetry into another uint64[words]."""
    rules.transform(game, state, symmetry, out)


@kernel
def encode_states(game, states, out):
    """Write the planes of uint64[N, words] states into float32[N, planes, cells]."""
    for i in range(states.shape[0]):
        rules.encode(game, states[i], out[i])


@kernel
def _apply_batch(game, states, slots, actions, outcomes):
    for i in range(slots.shape[0]):
        state = states[slots[i]]
        rules.apply(game, state, actions[i], state)
        outcomes[i] = rules.outcome(game, state)


def apply_batch(
    game: Game, states: NDArray[np.uint64], slots: NDArray[np.int64], actions: NDArray[np.int64]
) -> NDArray[np.int8]:
    """Play actions int64[n] in the rows `slots` of uint64[N, words], in place.

    Returns ONGOING or the result for the next mover, int8[n].
    """
    outcomes = np.empty(len(slots), np.int8)
    _apply_batch(game, states, slots, actions, outcomes)
    return outcomes


def start(game: Game) -> State:
    """Return the first position, uint64[words]."""
    state = np.empty(rules.words(game), np.uint64)
    write_start(game, state)
    return state


def legal(game: Game, state: State) -> Mask:
    """Return which actions are legal in an ongoing state, bool[actions]."""
    mask = np.empty(rules.actions(game), np.bool_)
    write_legal(game, state, mask)
    return mask


def apply(game: Game, state: State, action: int) -> State:
    """Return the state after a legal action, seen by the next mover."""
    out = np.empty_like(state)
    write_apply(game, state, action, out)
    return out


def outcome(game: Game, state: State) -> int:
    """Return ONGOING, WIN, DRAW or LOSS for the mover."""
    return int(_outcome(game, state))


def score(game: Game, state: State) -> int:
    """Return the mover's final score in a finished state (see `interface.score`)."""
    return int(_score(game, state))


@kernel
def _score_bounds(game, state):
    return rules.score_bounds(game, state)


@kernel
def _remaining(game, state):
    return rules.remaining(game, state)


@kernel
def _move_ordering_score(game, state):
    return rules.move_ordering_score(game, state)


@kernel
def _solver_moves(game, state, out):
    return rules.solver_moves(game, state, out)


def score_bounds(game: Game, state: State) -> tuple[int, int]:
    """Return the lowest and highest final score of an ongoing state."""
    low, high = _score_bounds(game, state)
    return int(low), int(high)


def remaining(game: Game, state: State) -> int:
    """Return how many stones can still be put at most."""
    return int(_remaining(game, state))


def move_ordering_score(game: Game, state: State) -> int:
    """Return how good a state looks for the player who has just moved."""
    return int(_move_ordering_score(game, state))


def solver_moves(game: Game, state: State) -> list[int]:
    """Return actions of an ongoing state one of which has the highest value."""
    out = np.empty(rules.actions(game), np.int16)
    return [int(action) for action in out[: _solver_moves(game, state, out)]]


@kernel
def _mean_outcomes(game, states, keys, count, means):
    out = np.empty(states.shape[1], np.uint64)
    moves = np.empty(1 + MOST_PLIES, np.int32)
    for i in range(states.shape[0]):
        means[i] = mean_playout(game, states[i], count, keys[i], out, moves)


def playouts(
    game: Game,
    states: NDArray[np.uint64],
    keys: NDArray[np.uint64],
    count: int = 1,
    threads: int = 1,
) -> NDArray[np.float32]:
    """Return the mean outcome of random playouts from each of uint64[N, words] states.

    The result is float32[N], for the mover of each state. Playout j of state i is decided by the
    stream `fold(keys[i], j)`, `keys` being uint64[N], so by neither the batch nor `threads`.
    Raises ValueError where there are not as many keys as states, UserError for other numbers.
    """
    if states.shape != (len(keys), rules.words(game)):
        raise ValueError(f"{len(keys)} keys for states of the shape {states.shape}")
    for name, number in (("count", count), ("threads", threads)):
        if number < 1:
            raise UserError(f"{name} = {number}: expected at least 1")
    means = np.empty(len(states), np.float32)

    def play(begin: int, end: int) -> None:
        _mean_outcomes(game, states[begin:end], keys[begin:end], count, means[begin:end])

    in_parts(play, len(states), worthwhile_parts(len(states) * count, threads))
    return means


def worthwhile_parts(playouts: int, threads: int) -> int:
    """Return among how many threads to share out some playouts: few take less time than waking."""
    return min(threads, 1 + playouts // _PLAYOUTS_PER_THREAD)


def transform(game: Game, state: State, symmetry: int) -> State:
    """Return the image of a state under a symmetry."""
    out = np.empty_like(state)
    write_transform(game, state, symmetry, out)
    return out


def encode(
    game: Game, states: NDArray[np.uint64], padded: int | None = None
) -> NDArray[np.float32]:
    """Return what a network sees of uint64[N, words] states: float32[N, planes, rows, columns].

    With `padded`, the batch is padded with empty planes to that length.
    """
    cells = game[0] * game[1]
    out = np.zeros((padded or len(states), rules.planes(game), cells), np.float32)
    encode_states(game, states, out)
    return out.reshape(len(out), -1, game[0], game[1])


def symmetry_tables(game: Game) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return where each symmetry moves cells, int32[S, cells], and actions, int32[S, actions]."""
    symmetries = range(rules.symmetries(game))
    cells = range(game[0] * game[1])
    actions = range(rules.actions(game))
    cell_table = [[rules.transform_cell(game, s, cell) for cell in cells] for s in symmetries]
    action_table = [
        [rules.transform_action(game, s, action) for action in actions] for s in symmetries
    ]
    return np.array(cell_table, np.int32), np.array(action_table, np.int32)
