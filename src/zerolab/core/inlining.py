"""Strategies for compiling helpers that are inlined into kernels, and a check of a strategy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np
from numba.extending import overload

NEWEST_TESTED_NUMBA = (0, 68)
"""Newest version of numba that is known to work with `zerolab.core.fragments`."""

KERNEL_OPTIONS = {"error_model": "numpy", "no_cfunc_wrapper": True}
"""Compiler options for kernels: division as in numpy, and no entry point for C."""


class InliningStrategy(NamedTuple):
    """Strategy for compiling helpers."""

    compile_helper: Callable[[Callable[..., Any]], Any]
    """Function that compiles a helper, which kernels and Python can then call."""
    options: dict[str, Any]
    """Options of `numba.extending.overload` for functions that only kernels call."""


_STANDARD_OPTIONS = {**KERNEL_OPTIONS, "forceinline": True}

STANDARD_INLINING = InliningStrategy(numba.njit(**_STANDARD_OPTIONS), _STANDARD_OPTIONS)
"""numba's standard inlining, which fully optimises each helper before inlining it."""


class _Pair(NamedTuple):
    source: np.ndarray
    out: np.ndarray


def check_inlining(inlining: InliningStrategy) -> None:
    """Compile a small kernel and compare its results with Python's.

    The kernel passes a NamedTuple of arrays to a helper and to an overloaded function, which write
    to one array and create another. Raises RuntimeError if the results differ; compiler errors
    propagate.
    """
    expected, actual = (_Pair(np.arange(3.0), np.zeros(3)) for _ in range(2))
    results = _example(_shifted, _scaled)(expected), numba.njit(_compiled(inlining))(actual)
    if results[0] != results[1] or not np.array_equal(expected.out, actual.out):
        raise RuntimeError("a test kernel returned wrong results")


def _compiled(inlining: InliningStrategy) -> Callable[[_Pair], float]:
    """Return the example with helpers compiled by a strategy."""

    def scaled(pair, factor):
        raise AssertionError

    overload(scaled, jit_options=inlining.options)(lambda pair, factor: _scaled)
    return _example(inlining.compile_helper(_shifted), scaled)


def _example(shifted: Any, scaled: Any) -> Callable[[_Pair], float]:
    def call(pair):
        return shifted(pair, 1).sum() + scaled(pair, 2.0)

    return call


def _shifted(pair, by):
    pair.out[0] = pair.source[by]
    return pair.source + pair.out


def _scaled(pair, factor):
    for i in range(1, len(pair.out)):
        pair.out[i] = factor * pair.out[i - 1]
    return pair.out[-1]
