"""Handles: what many calls of kernels share is unpacked for them once.

A kernel unpacks its arguments at every call: an array takes about a fifth of a microsecond, which
adds up where a structure has dozens. A handle is unpacked like a single array.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
from numba.core import types
from numba.experimental import structref
from numba.extending import overload

from zerolab.core.compiled import kernel


class _PlainHandle(NamedTuple):
    value: Any


@structref.register
class _HandleType(types.StructRef):  # type: ignore[name-defined,misc]
    """The type of handles in kernels."""


class _Handle(structref.StructRefProxy):  # type: ignore[misc]
    """A handle in Python, where it can only be passed on."""


structref.define_boxing(_HandleType, _Handle)


def handle(value: Any) -> Any:
    """Return what kernels take for a NamedTuple of numbers, arrays and more NamedTuples.

    In a kernel, its attribute `value` is the NamedTuple, and cheap to read.
    """
    return _PlainHandle(value) if numba.config.DISABLE_JIT else _box(value)


def _made(value: Any) -> Any:
    raise AssertionError


@overload(_made)  # type: ignore[untyped-decorator]
def _(value: Any) -> Any:
    kind = _HandleType([("value", value)])

    def implementation(value: Any) -> Any:
        made = structref.new(kind)
        made.value = value
        return made

    return implementation


@kernel
def _box(value: Any) -> Any:
    return _made(value)
