"""Actions chosen by rolling horizon evolution in sample positions; prints them as a program."""

from __future__ import annotations

import json
import sys

import numpy as np

from zerolab.core import streams
from zerolab.rules.catalogue import parse_game
from zerolab.search.rhea import RheaSettings, rhea_actions
from zerolab.testing.random_games import ongoing_sample_positions

SMALL = RheaSettings(playouts=17, population=3, horizon=3, mutation=0.4, playouts_each=2)


def some_states(name: str, count: int) -> np.ndarray:
    """Return ongoing positions from all phases of random games, uint64[count, words]."""
    states = [sample.state for sample in ongoing_sample_positions(parse_game(name))]
    return np.array(states)[np.linspace(0, len(states) - 1, count).astype(int)]


def some_keys(count: int, seed: int = 0) -> np.ndarray:
    """Return stream keys, uint64[count]."""
    numbers = np.arange(count)
    return streams.stream_keys(seed, 0, numbers, numbers, streams.MATCH_MOVE)


def choices(name: str) -> list[int]:
    """Return the actions chosen with `SMALL` settings."""
    return rhea_actions(parse_game(name), SMALL, some_states(name, 6), some_keys(6)).tolist()


if __name__ == "__main__":
    print(json.dumps([choices(name) for name in sys.argv[1:]]))
