"""The n-th set bit of a word: one instruction where the processor has it, else about twenty."""

from __future__ import annotations

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.extending import intrinsic, overload
from numpy.typing import NDArray

from zerolab.core.compiled import inlined

_M1 = np.uint64(0x5555555555555555)
_M2 = np.uint64(0x3333333333333333)
_M4 = np.uint64(0x0F0F0F0F0F0F0F0F)
_LOW_BITS = np.uint64(0x0101010101010101)
_HIGH_BITS = np.uint64(0x8080808080808080)
_ONE = np.uint64(1)
_BYTE = np.uint64(0xFF)
_SLOW_DEPOSIT = ("znver1", "znver2")
"""Processors whose `pdep` takes one step per bit."""


def _bits_of_bytes() -> NDArray[np.uint64]:
    """Return uint64[256, 8]: the n-th set bit of each byte, as far as it has one."""
    found = np.zeros((256, 8), np.uint64)
    for byte in range(256):
        bits = [1 << i for i in range(8) if byte >> i & 1]
        found[byte, : len(bits)] = bits
    return found


_BITS_OF_BYTES = _bits_of_bytes()


@inlined
def counts_up_to_bytes(word):
    """Return in each byte the number of set bits of the word up to and including that byte."""
    word = word - ((word >> _ONE) & _M1)
    word = (word & _M2) + ((word >> np.uint64(2)) & _M2)
    return ((word + (word >> np.uint64(4))) & _M4) * _LOW_BITS


@inlined
def nth_bit_anywhere(word, n):
    """Return the set bit above exactly `n` set bits, on any processor.

    All bytes are compared at once: the bit is in the first one up to which more than `n` are set
    [Vigna2008, Alg. 2].
    """
    n = np.uint64(n)
    counts = counts_up_to_bytes(word)
    passed = (((n * _LOW_BITS) | _HIGH_BITS) - counts) & _HIGH_BITS
    place = ((passed >> np.uint64(7)) * _LOW_BITS >> np.uint64(56)) << np.uint64(3)
    n -= ((counts << np.uint64(8)) >> place) & _BYTE
    return _BITS_OF_BYTES[(word >> place) & _BYTE, n] << place


@intrinsic
def _deposit(_context, bits, places):
    """Emit the instruction that moves bit i to the i-th set bit of `places`."""

    def generate(_context, builder, _signature, arguments):
        word = ir.IntType(64)
        kind = ir.FunctionType(word, [word, word])
        name = "llvm.x86.bmi.pdep.64"
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments)

    return types.uint64(types.uint64, types.uint64), generate


def nth_bit(word, n):
    """Return the set bit above exactly `n` set bits as a word; there must be one."""
    return nth_bit_anywhere(word, n)


@overload(nth_bit, jit_options={"forceinline": True})
def _(word, n):
    def deposit(word, n):
        return _deposit(_ONE << np.uint64(n), word)

    def anywhere(word, n):
        return nth_bit_anywhere(word, n)

    return deposit if _has_fast_deposit() else anywhere


def _has_fast_deposit() -> bool:
    """Return whether numba compiles for a processor with a fast `pdep`.

    Its cache on disk keeps machine code of different processors apart.
    """
    triple, processor, features = cpu_target.target_context.codegen().magic_tuple()
    return (
        triple.startswith("x86_64")
        and "+bmi2" in features.split(",")
        and processor not in _SLOW_DEPOSIT
    )
