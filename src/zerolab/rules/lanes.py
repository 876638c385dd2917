"""SIMD: four words at once, one for each direction of a board's lines.

Lanes are a tuple of four uint64. In compiled code each operation is one on an LLVM vector, which
every processor can execute; in plain Python it is done word by word. Compute with lanes in
straight-line code: LLVM splits those that a branch or a loop chooses into four words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from zerolab.core.compiled import inlined

_LANES = types.UniTuple(types.uint64, 4)
_WORD = ir.IntType(64)
_VECTOR = ir.VectorType(_WORD, 4)
_PLACES = [ir.Constant(ir.IntType(32), i) for i in range(4)]


def _vector(builder: Any, lanes: Any) -> Any:
    """Emit a tuple as a vector; LLVM removes conversions from and to tuples in between."""
    vector = ir.Constant(_VECTOR, ir.Undefined)
    for i, place in enumerate(_PLACES):
        vector = builder.insert_element(vector, builder.extract_value(lanes, i), place)
    return vector


def _tuple(builder: Any, vector: Any) -> Any:
    lanes = ir.Constant(ir.ArrayType(_WORD, 4), ir.Undefined)
    for i, place in enumerate(_PLACES):
        lanes = builder.insert_value(lanes, builder.extract_element(vector, place), i)
    return lanes


def _compile_as(function: Callable[..., Any], instruction: str) -> None:
    """Replace a function of two lanes by one LLVM instruction in compiled code."""

    @intrinsic
    def emitted(_context, one, two):
        def generate(_context, builder, _signature, arguments):
            vectors = (_vector(builder, each) for each in arguments)
            return _tuple(builder, getattr(builder, instruction)(*vectors))

        return (_LANES(_LANES, _LANES), generate) if one == two == _LANES else None

    def implementation(one, two):
        return emitted(one, two)

    overload(function, jit_options={"forceinline": True})(lambda one, two: implementation)


def shift_left(one, two):
    """Return lanes shifted to higher bits, each by its own number of bits, under 64."""
    return tuple(word << step for word, step in zip(one, two, strict=True))


def shift_right(one, two):
    """Return lanes shifted to lower bits, each by its own number of bits, under 64."""
    return tuple(word >> step for word, step in zip(one, two, strict=True))


def bit_and(one, two):
    """Return the bits set in both, lane by lane."""
    return tuple(word & other for word, other in zip(one, two, strict=True))


def bit_or(one, two):
    """Return the bits set in one or the other, lane by lane."""
    return tuple(word | other for word, other in zip(one, two, strict=True))


@inlined
def broadcast(word):
    """Return the same word in every lane."""
    return word, word, word, word


@inlined
def load(words):
    """Return uint64[4] as lanes."""
    return words[0], words[1], words[2], words[3]


def any_bit(lanes):
    """Return the bits set in any lane, as one word."""
    return lanes[0] | lanes[1] | lanes[2] | lanes[3]


@intrinsic
def _any_bit(_context, lanes):
    def generate(_context, builder, _signature, arguments):
        kind = ir.FunctionType(_WORD, [_VECTOR])
        reduce = cgutils.get_or_insert_function(builder.module, kind, "llvm.vector.reduce.or.v4i64")
        return builder.call(reduce, [_vector(builder, arguments[0])])

    return (types.uint64(_LANES), generate) if lanes == _LANES else None


_compile_as(shift_left, "shl")
_compile_as(shift_right, "lshr")
_compile_as(bit_and, "and_")
_compile_as(bit_or, "or_")


@overload(any_bit, jit_options={"forceinline": True})
def _(lanes):
    def implementation(lanes):
        return _any_bit(lanes)

    return implementation
