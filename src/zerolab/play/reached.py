"""Which positions games have reached, as hashes.

Positions are those in which a move was made, so final ones are left out; mirrored ones are
different. They are told apart by 64 bits of their hash: in 10 million positions two are taken for
one with a probability of 3e-6.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.rules import host
from zerolab.rules import interface as rules
from zerolab.rules.interface import Game
from zerolab.search.cache import hash_states
from zerolab.store.games import GameRecord


class Reached(NamedTuple):
    """The N positions of some games, ply by ply."""

    hashes: NDArray[np.uint64]  # [N]
    games: NDArray[np.int64]  # [N] the game's place among those given
    plies: NDArray[np.int64]  # [N]


def reached(game: Game, records: Sequence[GameRecord]) -> Reached:
    """Return the positions of games, whose records must be legal."""
    found = [Reached(np.empty(0, np.uint64), np.empty(0, np.int64), np.empty(0, np.int64))]
    states = np.empty((len(records), rules.words(game)), np.uint64)
    states[:] = host.start(game)
    lengths = np.array([len(record.actions) for record in records], np.int64)
    for ply in range(int(lengths.max(initial=0))):
        playing = np.flatnonzero(lengths > ply)
        hashes = np.empty(len(playing), np.uint64)
        hash_states(states[playing], hashes)
        found.append(Reached(hashes, playing, np.full(len(playing), ply)))
        actions = np.array([records[at].actions[ply] for at in playing.tolist()], np.int64)
        host.apply_batch(game, states, playing, actions)
    return Reached(*map(np.concatenate, zip(*found, strict=True)))
