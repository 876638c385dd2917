"""Random streams, in which every draw is a pure function of a key and an index.

The key of a stream is a 64-bit hash of (run seed, iteration, game number, ply, purpose). Results
therefore do not depend on the batching of games, the number of workers or interruptions of a run.
Draw n, counted from 0, is output n of SplitMix64 [Steele2014] seeded with the key, that is,
mix64(key + (n + 1) * gamma), where mix64 is the SplitMix64 finaliser and gamma is 2**64 divided by
the golden ratio, rounded to an odd number.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zerolab.core.compiled import inlined, kernel

_GOLDEN_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)

# Purposes. The results of every run depend on these numbers, so never change them.
SELF_PLAY_MOVE = 1
ROOT_NOISE = 2
PLAYOUT = 3
MATCH_MOVE = 4
LEARNING = 5
INITIAL_WEIGHTS = 6
MATCH_OPENING = 7
SELF_PLAY_BUDGET = 10
SELF_PLAY_START = 11
LEAGUE_PLAYER = 12
LEAGUE_PAIR = 13
GROWTH = 15
SERVICE_PLAYOUT = 16
SERVICE_NOISE = 17
SERVICE_BUDGET = 18
DATASET_MOVE = 20
DATASET_SPLIT = 21
ACCURACY_MOVE = 22
DATASET_POSITION_CHOICE = 23
SELF_PLAY_RESIGNATION = 24
PUZZLE = 25
SELF_PLAY_ARCHIVE = 26


@inlined
def mix64(bits):
    """Scramble 64 bits so that each output bit depends on every input bit."""
    bits = (bits ^ (bits >> np.uint64(30))) * _MIX_1
    bits = (bits ^ (bits >> np.uint64(27))) * _MIX_2
    return bits ^ (bits >> np.uint64(31))


@inlined
def fold_in(key, part):
    """Return the key of a new stream, derived from a stream's key and a non-negative integer."""
    return mix64(key * _MIX_2 + mix64(np.uint64(part) + _GOLDEN_GAMMA))


@inlined
def random_bits(key, draw_index):
    """Return draw `draw_index` of a stream as 64 random bits."""
    return mix64(key + (np.uint64(draw_index) + np.uint64(1)) * _GOLDEN_GAMMA)


@inlined
def random_below(random, bound):
    """Map 64 random bits to 0..bound-1, for a bound below 2**32; the bias is below 2**-32."""
    return np.int64(((random >> np.uint64(32)) * np.uint64(bound)) >> np.uint64(32))


@inlined
def uniform(key, draw_index):
    """Return draw `draw_index` of a stream as a float64 in [0, 1)."""
    return np.float64(random_bits(key, draw_index) >> np.uint64(11)) * 2.0**-53


@inlined
def _normal(key, number):
    """Return a standard normal variate from draws `number` and `number` + 1 [Box1958]."""
    radius = math.sqrt(-2.0 * math.log(1.0 - uniform(key, number)))
    return radius * math.cos(2.0 * math.pi * uniform(key, number + 1))


@inlined
def _large_gamma(key, shape):
    """Return a Gamma(shape, 1) variate for a shape of at least 1 [Marsaglia2000]."""
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    number = 1
    while True:
        x = _normal(key, number)
        w = 1.0 + c * x
        v = w * w * w  # not w**3, which plain Python rounds differently from compiled code
        u = 1.0 - uniform(key, number + 2)
        number += 3
        if v > 0.0 and math.log(u) < 0.5 * x * x + d - d * v + d * math.log(v):
            break
    return d * v


@inlined
def gamma(key, shape):
    """Return a Gamma(shape, 1) variate from an entire stream [Marsaglia2000].

    It can underflow to 0 if the shape is below 0.05; see `log_small_gamma`.
    """
    variate = _large_gamma(key, shape if shape >= 1.0 else shape + 1.0)
    if shape >= 1.0:
        return variate
    return variate * (1.0 - uniform(key, 0)) ** (1.0 / shape)


@inlined
def log_small_gamma(key, shape):
    """Return the logarithm of the variate that `gamma` returns for a shape below 1."""
    return math.log(_large_gamma(key, shape + 1.0)) + math.log(1.0 - uniform(key, 0)) / shape


@kernel
def stream_key(seed, iteration, game, ply, purpose):
    """Return the key of a stream as a uint64; all arguments are non-negative integers."""
    key = fold_in(fold_in(np.uint64(seed), iteration), purpose)
    return fold_in(fold_in(key, game), ply)


@kernel
def _fill_stream_keys(seed, iteration, games, plies, purpose, keys):
    for i in range(games.shape[0]):
        keys[i] = stream_key(seed, iteration, games[i], plies[i], purpose)


def stream_keys(
    seed: int, iteration: int, games: NDArray[Any], plies: NDArray[Any], purpose: int
) -> NDArray[np.uint64]:
    """Return uint64[B]: one stream key per game; `games` and `plies` are integers [B]."""
    keys = np.empty(len(games), np.uint64)
    _fill_stream_keys(seed, iteration, games, plies, purpose, keys)
    return keys


@kernel
def _fill_draws(keys, draws):
    for i in range(draws.shape[0]):
        for number in range(draws.shape[1]):
            draws[i, number] = random_bits(keys[i], number)


def permutations(keys: NDArray[np.uint64], length: int) -> NDArray[np.int64]:
    """Return int64[B, length]: a random permutation of 0..length-1 for each stream."""
    draws = np.empty((len(keys), length), np.uint64)
    _fill_draws(keys, draws)
    return np.argsort(draws, axis=1)


def numpy_generator(seed: int, iteration: int, purpose: int) -> np.random.Generator:
    """Return a numpy generator for plain Python (Philox [Salmon2011]), keyed like a stream."""
    return np.random.Generator(
        np.random.Philox(key=int(stream_key(seed, iteration, 0, 0, purpose)))
    )
