"""Four words at once: the four directions of a board's lines, handled by one instruction each.

Lanes are a tuple of four uint64. In compiled code each operation is one on a vector of LLVM, which
every processor's instructions can express; in plain Python it is done word by word. Compute with
them in straight lines: lanes that a branch or a loop chooses fall apart into four words.
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
    """Emit the vector of a tuple; LLVM drops the moves from and to tuples in between."""
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
    """Let compiled code replace a function of two lanes by one instruction of LLVM."""

    @intrinsic
    def emitted(_context, one, two):
        def generate(_context, builder, _signature, arguments):
            vectors = (_vector(builder, each) for each in arguments)
            return _tuple(builder, getattr(builder, instruction)(*vectors))

        return (_LANES(_LANES, _LANES), generate) if one == two == _LANES else None

    def implementation(one, two):
        return emitted(one, two)

    overload(function, jit_options={"forceinline": True})(lambda one, two: implementation)


def shift_up(one, two):
    """Return lanes moved towards higher bits, each by its own number of bits under 64."""
    return tuple(word << step for word, step in zip(one, two, strict=True))


def shift_down(one, two):
    """Return lanes moved towards lower bits, each by its own number of bits under 64."""
    return tuple(word >> step for word, step in zip(one, two, strict=True))


def both(one, two):
    """Return the bits set in both."""
    return tuple(word & other for word, other in zip(one, two, strict=True))


def either(one, two):
    """Return the bits set in one or the other."""
    return tuple(word | other for word, other in zip(one, two, strict=True))


@inlined
def spread(word):
    """Return the same word in every lane."""
    return word, word, word, word


def gather(lanes):
    """Return the bits set in any lane, as one word."""
    return lanes[0] | lanes[1] | lanes[2] | lanes[3]


@intrinsic
def _gather(_context, lanes):
    def generate(_context, builder, _signature, arguments):
        kind = ir.FunctionType(_WORD, [_VECTOR])
        reduce = cgutils.get_or_insert_function(builder.module, kind, "llvm.vector.reduce.or.v4i64")
        return builder.call(reduce, [_vector(builder, arguments[0])])

    return (types.uint64(_LANES), generate) if lanes == _LANES else None


_compile_as(shift_up, "shl")
_compile_as(shift_down, "lshr")
_compile_as(both, "and_")
_compile_as(either, "or_")


@overload(gather, jit_options={"forceinline": True})
def _(lanes):
    def implementation(lanes):
        return _gather(lanes)

    return implementation
