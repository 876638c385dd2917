"""Bit operations that numba lacks: SIMD on four words, and isolating the n-th set bit.

Lanes are a tuple of four uint64. In compiled code, each operation on lanes is one LLVM vector
operation, which works on every processor; plain Python processes one word at a time. Use lanes
only in straight-line code, since LLVM splits lanes selected by a branch or a loop into four words.

Finding the n-th set bit takes one instruction on most processors and about twenty on others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.extending import intrinsic, overload
from numpy.typing import NDArray

from zerolab.core.compiled import inlined

_LANES = types.UniTuple(types.uint64, 4)
_WORD = ir.IntType(64)
_VECTOR = ir.VectorType(_WORD, 4)
_INDICES = [ir.Constant(ir.IntType(32), i) for i in range(4)]


def _vector(builder: Any, lanes: Any) -> Any:
    """Convert a tuple to a vector; LLVM removes pairs of opposite conversions."""
    vector = ir.Constant(_VECTOR, ir.Undefined)
    for i, index in enumerate(_INDICES):
        vector = builder.insert_element(vector, builder.extract_value(lanes, i), index)
    return vector


def _tuple(builder: Any, vector: Any) -> Any:
    """Convert a vector to a tuple."""
    lanes = ir.Constant(ir.ArrayType(_WORD, 4), ir.Undefined)
    for i, index in enumerate(_INDICES):
        lanes = builder.insert_value(lanes, builder.extract_element(vector, index), i)
    return lanes


def _compile_as(function: Callable[..., Any], instruction: str) -> None:
    """Compile calls to a function of two tuples of lanes to one LLVM instruction."""

    @intrinsic
    def emitted(_context, lanes, other):
        def generate(_context, builder, _signature, arguments):
            vectors = (_vector(builder, each) for each in arguments)
            return _tuple(builder, getattr(builder, instruction)(*vectors))

        return (_LANES(_LANES, _LANES), generate) if lanes == other == _LANES else None

    def implementation(lanes, other):
        return emitted(lanes, other)

    overload(function, jit_options={"forceinline": True})(lambda lanes, other: implementation)


def shift_lanes_left(lanes, steps):
    """Return lanes shifted to higher bits; `steps` has one number of bits, below 64, per lane."""
    return tuple(word << step for word, step in zip(lanes, steps, strict=True))


def shift_lanes_right(lanes, steps):
    """Return lanes shifted to lower bits; `steps` has one number of bits, below 64, per lane."""
    return tuple(word >> step for word, step in zip(lanes, steps, strict=True))


def and_lanes(lanes, other):
    """Return the bitwise AND of two tuples of lanes."""
    return tuple(one & two for one, two in zip(lanes, other, strict=True))


def or_lanes(lanes, other):
    """Return the bitwise OR of two tuples of lanes."""
    return tuple(one | two for one, two in zip(lanes, other, strict=True))


@inlined
def broadcast_lanes(word):
    """Return lanes that all contain `word`."""
    return word, word, word, word


@inlined
def load_lanes(words):
    """Return the lanes in an array uint64[4]."""
    return words[0], words[1], words[2], words[3]


def or_reduce(lanes):
    """Return a word with the bits set in at least one lane."""
    return lanes[0] | lanes[1] | lanes[2] | lanes[3]


@intrinsic
def _or_reduce(_context, lanes):
    def generate(_context, builder, _signature, arguments):
        function_type = ir.FunctionType(_WORD, [_VECTOR])
        reduce = cgutils.get_or_insert_function(
            builder.module, function_type, "llvm.vector.reduce.or.v4i64"
        )
        return builder.call(reduce, [_vector(builder, arguments[0])])

    return (types.uint64(_LANES), generate) if lanes == _LANES else None


_compile_as(shift_lanes_left, "shl")
_compile_as(shift_lanes_right, "lshr")
_compile_as(and_lanes, "and_")
_compile_as(or_lanes, "or_")


@overload(or_reduce, jit_options={"forceinline": True})
def _(lanes):
    def implementation(lanes):
        return _or_reduce(lanes)

    return implementation


_M1 = np.uint64(0x5555555555555555)
_M2 = np.uint64(0x3333333333333333)
_M4 = np.uint64(0x0F0F0F0F0F0F0F0F)
_LOW_BITS = np.uint64(0x0101010101010101)
_HIGH_BITS = np.uint64(0x8080808080808080)
_ONE = np.uint64(1)
_BYTE = np.uint64(0xFF)
_SLOW_DEPOSIT = ("znver1", "znver2")
"""Processors on which `pdep` takes one step per bit."""


def _bits_of_bytes() -> NDArray[np.uint64]:
    """Return uint64[256, 8]: the set bits of each byte in ascending order, followed by zeros."""
    table = np.zeros((256, 8), np.uint64)
    for byte in range(256):
        bits = [1 << i for i in range(8) if byte >> i & 1]
        table[byte, : len(bits)] = bits
    return table


_BITS_OF_BYTES = _bits_of_bytes()


@inlined
def cumulative_byte_popcounts(word):
    """Return a word whose byte i is the number of set bits in bytes 0 to i of `word`."""
    word = word - ((word >> _ONE) & _M1)
    word = (word & _M2) + ((word >> np.uint64(2)) & _M2)
    return ((word + (word >> np.uint64(4))) & _M4) * _LOW_BITS


@inlined
def isolate_nth_bit_portably(word, n):
    """Return a word with only the set bit that has exactly `n` lower set bits, on any processor.

    The bit is in the first byte whose cumulative number of set bits exceeds `n`. All bytes are
    compared in parallel [Vigna2008, Alg. 2].
    """
    n = np.uint64(n)
    counts = cumulative_byte_popcounts(word)
    skipped = (((n * _LOW_BITS) | _HIGH_BITS) - counts) & _HIGH_BITS
    offset = ((skipped >> np.uint64(7)) * _LOW_BITS >> np.uint64(56)) << np.uint64(3)
    n -= ((counts << np.uint64(8)) >> offset) & _BYTE
    return _BITS_OF_BYTES[(word >> offset) & _BYTE, n] << offset


@intrinsic
def _deposit(_context, bits, mask):
    """Return `bits` with bit i moved to the i-th set bit of `mask`."""

    def generate(_context, builder, _signature, arguments):
        word = ir.IntType(64)
        function_type = ir.FunctionType(word, [word, word])
        name = "llvm.x86.bmi.pdep.64"
        return builder.call(
            cgutils.get_or_insert_function(builder.module, function_type, name), arguments
        )

    return types.uint64(types.uint64, types.uint64), generate


def isolate_nth_bit(word, n):
    """Return a word with only the set bit that has exactly `n` lower set bits, which must exist."""
    return isolate_nth_bit_portably(word, n)


@overload(isolate_nth_bit, jit_options={"forceinline": True})
def _(word, n):
    def deposit(word, n):
        return _deposit(_ONE << np.uint64(n), word)

    def portable(word, n):
        return isolate_nth_bit_portably(word, n)

    return deposit if _has_fast_deposit() else portable


def _has_fast_deposit() -> bool:
    """Return True if numba compiles for a processor with a fast `pdep`.

    The disk cache has separate machine code for different processors.
    """
    triple, processor, features = cpu_target.target_context.codegen().magic_tuple()
    return (
        triple.startswith("x86_64")
        and "+bmi2" in features.split(",")
        and processor not in _SLOW_DEPOSIT
    )
