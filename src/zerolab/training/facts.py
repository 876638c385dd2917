"""From examples, as they are stored, to the facts that the window keeps."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

import numpy as np
from numpy.typing import NDArray

from zerolab.replay.facts import Facts
from zerolab.store.examples import Examples


def window_rows(
    examples: Examples,
    discount: float,
    columns: Container[str],
    features: NDArray[np.float16] | None = None,
) -> tuple[NDArray[np.uint64], Facts]:
    """Return the states and facts of the fully searched moves.

    Of the facts of many numbers, those not among `columns` are left empty. `features`, float16[N,
    features], are those of `later_features` where they are known. `discount` is what an outcome
    keeps of its value with every ply that leads to it: the rest counts as a draw, as if each ply
    could end the game as one.
    """
    nothing = np.empty((len(examples.states), 0), np.float16)
    wide: dict[str, Callable[[], NDArray[np.float16]]] = {
        "policies": lambda: examples.policies,
        "replies": lambda: _replies(examples),
        "moves": lambda: _moves(examples),
        "action_values": lambda: examples.action_values,
        "features": lambda: nothing if features is None else features,
    }
    chosen = {name: make() if name in columns else nothing for name, make in wide.items()}
    values = examples.outcomes * np.float64(discount) ** examples.plies_left
    facts = Facts(
        values=values.astype(np.float32),
        draws=(1 - np.abs(values)).astype(np.float32),
        root_values=examples.root_values.astype(np.float32),
        root_draws=examples.root_draws.astype(np.float32),
        plies_left=examples.plies_left.astype(np.float32),
        plies=examples.plies.astype(np.float32),
        **chosen,
    )
    full = examples.full
    return examples.states[full], Facts(*(column[full] for column in facts))


def _replies(examples: Examples) -> NDArray[np.float16]:
    """Return the policies at the opponent's next move, NaN where none was fully searched."""
    replies = np.full_like(examples.policies, np.nan)
    follows = (np.diff(examples.games) == 0) & (np.diff(examples.plies) == 1) & examples.full[1:]
    replies[:-1][follows] = examples.policies[1:][follows]
    return replies


def _moves(examples: Examples) -> NDArray[np.float16]:
    moves = np.zeros_like(examples.policies)
    moves[np.arange(len(moves)), examples.actions] = 1
    return moves


def later_features(
    examples: Examples, features: NDArray[np.float16], plies: Sequence[int]
) -> NDArray[np.float16]:
    """Return the features of later positions, float16[N, len(plies) * width], ply by ply.

    `features`, float16[N, width], are those of the examples' own positions. NaN stands for
    positions after the last move of a game.
    """
    count, width = features.shape
    later = np.full((count, len(plies), width), np.nan, np.float16)
    for place, ply in enumerate(plies):
        now, then = slice(max(0, count - ply)), slice(ply, None)
        goes_on = examples.games[now] == examples.games[then]
        goes_on &= examples.plies[now] + ply == examples.plies[then]
        later[now, place][goes_on] = features[then][goes_on]
    return later.reshape(count, len(plies) * width)
