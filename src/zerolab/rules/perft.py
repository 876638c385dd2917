"""Perft: counting move sequences, the usual check of rules (counts: docs/papers.md)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from zerolab.core.compiled import kernel
from zerolab.rules import interface as rules
from zerolab.rules.interface import ONGOING, Game


class Count(NamedTuple):
    """The number of sequences of exactly `depth` plies, and of those that end the game there."""

    depth: int
    leaves: int
    ended: int


@kernel
def _count(game, depth, states, masks):
    """Walk all sequences depth first; row d of `states` and `masks` belongs to ply d."""
    leaves = 0
    ended = 0
    action = np.zeros(depth + 1, np.int64)
    ply = 0
    rules.legal(game, states[0], masks[0])
    while ply >= 0:
        if action[ply] == masks.shape[1]:
            ply -= 1
            continue
        chosen = action[ply]
        action[ply] += 1
        if not masks[ply, chosen]:
            continue
        rules.apply(game, states[ply], chosen, states[ply + 1])
        over = rules.outcome(game, states[ply + 1]) != ONGOING
        if ply + 1 == depth:
            leaves += 1
            ended += over
        elif not over:
            ply += 1
            rules.legal(game, states[ply], masks[ply])
            action[ply] = 0
    return leaves, ended


def perft(game: Game, depth: int) -> Iterator[Count]:
    """Yield the counts for 1..depth plies; a pass is a ply.

    Finished games are not continued: Othello 8x8 has 24,571,056 sequences of 10 plies, without the
    228 games that end at ply 9, which some published tables add.
    """
    states = np.empty((depth + 1, rules.words(game)), np.uint64)
    masks = np.empty((depth + 1, rules.actions(game)), np.bool_)
    for plies in range(1, depth + 1):
        rules.start(game, states[0])
        yield Count(plies, *(int(n) for n in _count(game, plies, states, masks)))
