"""Random streams: published outputs, distributions and dependence on the key alone."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from zerolab.core import streams
from zerolab.core.compiled import kernel

DRAWS = 200_000
SIGMAS = 5.0


@kernel
def _fill_bits(key: Any, out: Any) -> None:
    for number in range(out.shape[0]):
        out[number] = streams.random_bits(key, number)


@kernel
def _fill_uniforms(keys: Any, out: Any) -> None:
    for i in range(out.shape[0]):
        for number in range(out.shape[1]):
            out[i, number] = streams.uniform(keys[i], number)


@kernel
def _fill_gammas(keys: Any, shape: Any, out: Any) -> None:
    for i in range(out.shape[0]):
        out[i] = streams.gamma(keys[i], shape)


@kernel
def _fill_log_gammas(keys: Any, shape: Any, out: Any) -> None:
    for i in range(out.shape[0]):
        out[i] = streams.log_small_gamma(keys[i], shape)


@kernel
def _fill_below(bits: Any, bound: Any, out: Any) -> None:
    for i in range(out.shape[0]):
        out[i] = streams.random_below(bits[i], bound)


def keys(count: int, seed: int = 1) -> NDArray[np.uint64]:
    zeros = np.zeros(count, np.int64)
    return streams.stream_keys(seed, 0, np.arange(count), zeros, streams.PLAYOUT)


def uniforms(streams_: int, draws: int) -> NDArray[np.float64]:
    out = np.empty((streams_, draws))
    _fill_uniforms(keys(streams_), out)
    return out


def within(mean: float, expected: float, deviation: float, count: int) -> bool:
    return abs(mean - expected) < SIGMAS * deviation / math.sqrt(count)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (0, [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]),
        (1234567, [6457827717110365317, 3203168211198807973, 9817491932198370423]),
    ],
)
def test_stream_is_splitmix64(key: int, expected: list[int]) -> None:
    """The expected values are the published first outputs of the generator."""
    outputs = np.empty(3, np.uint64)
    _fill_bits(np.uint64(key), outputs)
    assert outputs.tolist() == expected


@pytest.mark.parametrize("shape", [(1, DRAWS), (DRAWS, 1)], ids=["one stream", "many streams"])
def test_uniforms_are_uniform(shape: tuple[int, int]) -> None:
    draws = uniforms(*shape).ravel()
    assert 0.0 <= draws.min() < draws.max() < 1.0
    assert within(draws.mean(), 0.5, math.sqrt(1 / 12), DRAWS)
    assert within(draws.var(), 1 / 12, math.sqrt(1 / 180), DRAWS)
    counts = np.histogram(draws, 64, (0, 1))[0]
    statistic = ((counts - DRAWS / 64) ** 2).sum() / (DRAWS / 64)
    assert statistic < 63 + SIGMAS * math.sqrt(2 * 63)


@pytest.mark.parametrize("shape", [(1, DRAWS), (DRAWS, 1)], ids=["one stream", "many streams"])
def test_neighbouring_draws_are_independent(shape: tuple[int, int]) -> None:
    draws = uniforms(*shape).ravel()
    pairs = np.histogram2d(draws[:-1], draws[1:], bins=16, range=[[0, 1], [0, 1]])[0]
    expected = (DRAWS - 1) / 256
    assert ((pairs - expected) ** 2).sum() / expected < 255 + SIGMAS * math.sqrt(2 * 255)


@pytest.mark.parametrize("differs", ["seed", "iteration", "game", "ply", "purpose"])
def test_every_part_of_key_gives_independent_stream(differs: str) -> None:
    parts = {"seed": 1, "iteration": 1, "game": 1, "ply": 1, "purpose": 1}
    draws = np.empty((2, 20_000))
    pair = [streams.stream_key(*(parts | {differs: value}).values()) for value in (1, 2)]
    _fill_uniforms(np.array(pair, np.uint64), draws)
    correlation = np.corrcoef(draws)[0, 1]
    assert abs(correlation) < SIGMAS / math.sqrt(20_000)


def test_keys_do_not_collide() -> None:
    small = range(6)
    stream_keys = {int(streams.stream_key(*parts)) for parts in product(small, repeat=5)}
    assert len(stream_keys) == 6**5


def test_batch_order_does_not_change_keys() -> None:
    games, plies = np.arange(50), np.arange(50)[::-1].copy()
    together = streams.stream_keys(3, 4, games, plies, streams.ROOT_NOISE)
    order = np.random.default_rng(0).permutation(50)
    shuffled = streams.stream_keys(3, 4, games[order], plies[order], streams.ROOT_NOISE)
    assert (together[order] == shuffled).all()
    alone = [int(streams.stream_key(3, 4, i, 49 - i, streams.ROOT_NOISE)) for i in range(50)]
    assert together.tolist() == alone


@pytest.mark.parametrize("shape", [0.05, 0.3, 1.0, 2.5, 20.0])
def test_gamma_variates_have_their_mean_and_variance(shape: float) -> None:
    draws = np.empty(DRAWS)
    _fill_gammas(keys(DRAWS), shape, draws)
    assert (draws >= 0).all()
    assert within(draws.mean(), shape, math.sqrt(shape), DRAWS)
    spread = math.sqrt(2 * shape**2 + 6 * shape)  # standard deviation of squared deviations
    assert within(draws.var(), shape, spread, DRAWS)


@pytest.mark.parametrize(
    ("shape", "distribution"),
    [(0.5, lambda x: math.erf(math.sqrt(x))), (1.0, lambda x: 1 - math.exp(-x))],
)
def test_gamma_variates_follow_their_distribution(shape: float, distribution: Any) -> None:
    """Kolmogorov-Smirnov distances above 2.5 / sqrt(n) have a probability below 1e-5."""
    draws = np.empty(20_000)
    _fill_gammas(keys(20_000), shape, draws)
    expected = np.array([distribution(x) for x in np.sort(draws)])
    ranks = np.arange(1, 20_001) / 20_000
    assert np.abs(expected - ranks).max() < 2.5 / math.sqrt(20_000)


@pytest.mark.parametrize("shape", [0.9, 0.1, 1e-3, 1e-9])
def test_logarithms_of_gamma_variates_do_not_underflow(shape: float) -> None:
    draws, logarithms = np.empty((2, 1000))
    _fill_gammas(keys(1000), shape, draws)
    _fill_log_gammas(keys(1000), shape, logarithms)
    assert np.isfinite(logarithms).all()
    usual = draws > 1e-300
    assert usual.all() == (shape > 0.01)
    assert logarithms[usual] == pytest.approx(np.log(draws[usual]), rel=1e-9, abs=1e-9)
    assert (logarithms[~usual] < -690).all()


@pytest.mark.parametrize("bound", [1, 2, 3, 7, 64, 65])
def test_below_is_uniform(bound: int) -> None:
    bits, draws = np.empty(DRAWS, np.uint64), np.empty(DRAWS, np.int64)
    _fill_bits(np.uint64(5), bits)
    _fill_below(bits, bound, draws)
    counts = np.bincount(draws, minlength=bound)
    assert len(counts) == bound
    statistic = ((counts - DRAWS / bound) ** 2).sum() / (DRAWS / bound)
    assert statistic < bound - 1 + SIGMAS * math.sqrt(2 * bound) + SIGMAS**2


@given(st.integers(0, 2**64 - 1), st.integers(1, 2**32 - 1))
def test_below_stays_below(bits: int, bound: int) -> None:
    draws = np.empty(1, np.int64)
    _fill_below(np.array([bits], np.uint64), bound, draws)
    assert draws[0] == (bits >> 32) * bound >> 32 < bound


def test_generators_are_keyed_like_streams() -> None:
    draws = [
        streams.numpy_generator(*key).random(4).tolist()
        for key in [(1, 2, 3), (1, 2, 3), (2, 2, 3), (1, 3, 3), (1, 2, 4)]
    ]
    assert draws[0] == draws[1]
    assert len({tuple(draw) for draw in draws}) == 4


def draws_of_every_kind() -> list[str]:
    uniform_draws = np.empty((3, 8))
    _fill_uniforms(keys(3), uniform_draws)
    gammas = np.empty((4, 8))
    for row, shape in zip(gammas, (0.05, 0.7, 1.0, 30.0), strict=True):
        _fill_gammas(keys(8), shape, row)
    return [keys(3).tobytes().hex(), uniform_draws.tobytes().hex(), gammas.tobytes().hex()]


def test_plain_python_draws_the_same_bits() -> None:
    process = subprocess.run(
        [sys.executable, __file__],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(process.stdout) == draws_of_every_kind()
    assert process.stderr == ""


if __name__ == "__main__":
    print(json.dumps(draws_of_every_kind()))
