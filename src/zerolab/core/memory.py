"""Views without ownership, prefetching, and cheap kernel arguments.

`borrowed_view` returns views without reference counts, and `prefetch` loads a cache line before it
is needed. Neither has an effect in plain Python or with ``NUMBA_DISABLE_JIT=1``.

A kernel unpacks its arguments at every call. This takes about 0.2 microseconds per array, which
adds up for structures with dozens of arrays. Unpacking a `tuple_handle` takes only as long as
unpacking a single array.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.core.types.containers import BaseTuple
from numba.experimental import structref
from numba.extending import intrinsic, overload
from numba.np.arrayobj import get_itemsize, make_array, populate_array

from zerolab.core.compiled import inlined, kernel

CACHE_LINE_BYTES = 64
"""Size of a cache line in bytes."""

_READ, _KEEP, _DATA = 0, 3, 1
"""Arguments of llvm.prefetch: read access, all cache levels, data cache."""

_INLINED = {"forceinline": True, "no_cfunc_wrapper": True}


@inlined
def copy_row(row: Any, out: Any) -> None:
    """Copy the elements of a one-dimensional array into another array of the same length.

    Use it instead of slice assignments, which numba takes seconds longer to compile because they
    contain code that formats an error message (docs/decisions/0021).
    """
    for i in range(row.shape[0]):
        out[i] = row[i]


def borrowed_view(value: Any) -> Any:
    """Return a view of an array, or of a nested NamedTuple of arrays, that does not own its memory.

    The caller must keep the owner alive, since references to the view are not counted. The strides
    of a C-contiguous view are computed from its shape, so that the compiler knows how they are
    related.
    """
    return value


@overload(borrowed_view, jit_options=_INLINED)  # type: ignore[untyped-decorator]
def _(value: Any) -> Any:
    def implementation(value: Any) -> Any:
        return _borrow(value)

    return implementation


@intrinsic  # type: ignore[untyped-decorator]
def _borrow(typing_context: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _borrowing(context, builder, value, arguments[0])

    return value(value), generate


def _borrowing(context: Any, builder: Any, numba_type: Any, value: Any) -> Any:
    if isinstance(numba_type, types.Array):
        return _without_owner(context, builder, numba_type, value)
    if isinstance(numba_type, BaseTuple):
        for at, member in enumerate(numba_type):
            part = _borrowing(context, builder, member, builder.extract_value(value, at))
            value = builder.insert_value(value, part, at)
    return value


def _without_owner(context: Any, builder: Any, numba_type: Any, value: Any) -> Any:
    array = make_array(numba_type)(context, builder, value)
    strides = cgutils.unpack_tuple(builder, array.strides, numba_type.ndim)
    itemsize = context.get_constant(types.intp, get_itemsize(context, numba_type))
    if numba_type.layout == "C":
        shape = cgutils.unpack_tuple(builder, array.shape, numba_type.ndim)
        strides[-1] = itemsize
        for axis in reversed(range(numba_type.ndim - 1)):
            strides[axis] = builder.mul(strides[axis + 1], shape[axis + 1])
    result = make_array(numba_type)(context, builder)
    populate_array(
        result,
        data=array.data,
        shape=array.shape,
        strides=cgutils.pack_array(builder, strides),
        itemsize=itemsize,
        meminfo=None,
    )
    return result._getvalue()


def assume_non_negative(number: Any) -> Any:
    """Return an integer, promising the compiler that it is not negative; in kernels, it is an intp.

    The compiler then omits the code for negative indices in array accesses.
    """
    return number


@overload(assume_non_negative, jit_options=_INLINED)  # type: ignore[untyped-decorator]
def _(number: Any) -> Any:
    def implementation(number: Any) -> Any:
        return _assume_non_negative(number)

    return implementation


@intrinsic  # type: ignore[untyped-decorator]
def _assume_non_negative(typing_context: Any, number: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        own = context.cast(builder, arguments[0], number, types.intp)
        zero = ir.Constant(own.type, 0)
        function_type = ir.FunctionType(ir.VoidType(), [ir.IntType(1)])
        assume = cgutils.get_or_insert_function(builder.module, function_type, "llvm.assume")
        builder.call(assume, [builder.icmp_signed(">=", own, zero)])
        return own

    return types.intp(number), generate


def prefetch(array: Any, index: Any, line: int) -> None:
    """Start loading the cache line that is `line` lines after the address of array[index].

    `index` is a tuple of integers, at most one per dimension. Addresses outside the array are
    harmless.
    """


@overload(prefetch, jit_options=_INLINED)  # type: ignore[untyped-decorator]
def _(array: Any, index: Any, line: Any) -> Any:
    def implementation(array: Any, index: Any, line: Any) -> None:
        _prefetch(array, index, line)

    return implementation


@intrinsic  # type: ignore[untyped-decorator]
def _prefetch(typing_context: Any, array: Any, index: Any, line: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        view = make_array(array)(context, builder, arguments[0])
        word = ir.IntType(64)
        number = context.cast(builder, arguments[2], line, types.intp)
        offset = builder.mul(number, ir.Constant(word, CACHE_LINE_BYTES))
        strides = cgutils.unpack_tuple(builder, view.strides, array.ndim)
        for at, numba_type in enumerate(index):
            place = builder.extract_value(arguments[1], at)
            place = context.cast(builder, place, numba_type, types.intp)
            offset = builder.add(offset, builder.mul(place, strides[at]))
        address = cgutils.pointer_add(builder, view.data, offset)
        flag = ir.IntType(32)
        function_type = ir.FunctionType(ir.VoidType(), [address.type, flag, flag, flag])
        function = cgutils.get_or_insert_function(builder.module, function_type, "llvm.prefetch.p0")
        constants = [ir.Constant(flag, each) for each in (_READ, _KEEP, _DATA)]
        builder.call(function, [address, *constants])
        return context.get_dummy_value()

    return types.void(array, index, line), generate


class _PlainHandle(NamedTuple):
    value: Any


@structref.register
class _HandleType(types.StructRef):  # type: ignore[name-defined,misc]
    """Type of handles in kernels."""


class _Handle(structref.StructRefProxy):  # type: ignore[misc]
    """Handle in Python code, which can do nothing with it except pass it to kernels."""


structref.define_boxing(_HandleType, _Handle)


def tuple_handle(value: Any) -> Any:
    """Return a handle through which kernels read a NamedTuple of numbers, arrays and NamedTuples.

    In a kernel, the handle's `value` attribute is the NamedTuple, which is cheap to read.
    """
    return _PlainHandle(value) if numba.config.DISABLE_JIT else _box(value)


def _new_handle(value: Any) -> Any:
    raise AssertionError


@overload(_new_handle)  # type: ignore[untyped-decorator]
def _(value: Any) -> Any:
    numba_type = _HandleType([("value", value)])

    def implementation(value: Any) -> Any:
        new = structref.new(numba_type)
        new.value = value
        return new

    return implementation


@kernel
def _box(value: Any) -> Any:
    return _new_handle(value)
