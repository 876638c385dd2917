"""Compile-time dispatch: kernels are written once and specialised for their argument types.

A value that changes the behaviour of a kernel is a ``NamedTuple`` such as
``Othello(rows=6, columns=6)`` or ``Puct(c=1.0)``. A `CompiledInterface` is a set of functions that
several types implement, each in a class of static methods. A kernel that calls a function of an
interface resolves the call at compile time, by the type of the first argument. Plain Python,
including all code under ``NUMBA_DISABLE_JIT=1``, selects the same implementation at run time
(``docs/decisions/0001-compiled-pattern.md``).

Helpers are compiled differently from kernels: as fragments (`zerolab.core.fragments`), or with
numba's own options (`zerolab.core.inlining`) if numba's internals have changed.
"""

from __future__ import annotations

import functools
import gc
import inspect
import warnings
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numba
import numpy as np
from numba.core import event
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher
from numba.core.sigutils import normalize_signature
from numba.extending import overload

from zerolab.core.errors import SlowFallbackWarning, one_line
from zerolab.core.inlining import (
    KERNEL_OPTIONS,
    NEWEST_TESTED_NUMBA,
    STANDARD_INLINING,
    InliningStrategy,
    check_inlining,
)
from zerolab.core.kernel_cache import KernelCache
from zerolab.core.processes import is_multiprocessing_child
from zerolab.core.resources import compilation_observers


def choose_inlining() -> InliningStrategy:
    """Return the strategy for compiling helpers: fragments if this version of numba allows them.

    Fragments rely on numba's internal classes. If numba is newer than the tested version, it must
    first compile an example correctly. If anything fails, issue a SlowFallbackWarning and
    return `STANDARD_INLINING`.
    """
    try:
        from zerolab.core.fragments import FAST_INLINING  # noqa: PLC0415  may fail

        if numba.version_info.short > NEWEST_TESTED_NUMBA:
            check_inlining(FAST_INLINING)
    except Exception as error:
        if not is_multiprocessing_child():  # its parent warns
            bound = f"numba<{NEWEST_TESTED_NUMBA[0]}.{NEWEST_TESTED_NUMBA[1] + 1}"
            warnings.warn(
                f"numba {numba.__version__} has changed internals that zerolab uses, so kernels"
                f" compile more slowly: pip install '{bound}' ({one_line(error)})",
                SlowFallbackWarning,
                stacklevel=2,
            )
        return STANDARD_INLINING
    return FAST_INLINING


_INLINING = choose_inlining()

_Function = TypeVar("_Function", bound=Callable[..., Any])
_INTERFACES: list[CompiledInterface] = []


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function for calls from Python; its machine code is cached on disk.

    Kernels release the interpreter lock, so several threads can search in parallel. Dividing floats
    by zero gives infinity or NaN, as in numpy, since a check would prevent vectorisation.
    """
    if numba.config.DISABLE_JIT:
        return function
    compiled = _Kernel(function, targetoptions={**KERNEL_OPTIONS, "nopython": True, "nogil": True})
    compiled._cache = KernelCache(function, _implementations)
    return compiled


class _Kernel(CPUDispatcher):  # type: ignore[misc]
    """A kernel that only one process compiles at a time."""

    def compile(self, sig: Any) -> Any:
        """Compile for the types `sig`, or load the result of another process."""
        compiled = self.overloads.get(normalize_signature(sig)[0])
        if compiled is not None:
            return compiled.entry_point
        # Take numba's global lock first; otherwise threads would wait for each other's file locks.
        with global_compiler_lock, self._cache.compilation_lock(sig, self.targetctx):
            return super().compile(sig)


def inlined(function: Callable[..., Any]) -> Any:
    """Compile a helper that is inlined into each kernel that calls it.

    Inlining is forced because a call would copy every array header of a structure of arrays.
    """
    if numba.config.DISABLE_JIT:
        return function
    return _INLINING.compile_helper(function)


class CompiledInterface:
    """A set of functions implemented by several types, such as all games or selection rules."""

    def __init__(self, noun: str) -> None:
        """Create an interface; error messages refer to its types as `noun`, such as "game"."""
        self.noun = noun
        self._functions: list[str] = []
        self._implementations: dict[type, type] = {}
        _INTERFACES.append(self)

    def implement(self, dispatch_type: type, implementation: type) -> None:
        """Use the static methods of `implementation` if the first argument is a `dispatch_type`.

        This makes values of different types unequal; otherwise, as plain tuples with equal fields,
        they would share dictionary and cache entries. Raises TypeError if a method is missing, and
        ValueError if the type already has another implementation, since compiled kernels may
        already contain it.
        """
        if self._implementations.get(dispatch_type, implementation) is not implementation:
            raise ValueError(f"{dispatch_type.__name__} is registered twice as a {self.noun}")
        missing_names = [name for name in self._functions if not hasattr(implementation, name)]
        if missing_names:
            raise TypeError(f"{implementation.__name__} lacks {', '.join(missing_names)}")
        self._implementations[dispatch_type] = implementation
        dispatch_type.__eq__ = _is_equal  # type: ignore[assignment,method-assign]
        dispatch_type.__ne__ = _is_unequal  # type: ignore[assignment,method-assign]

    def implementation(self, dispatch_type: type) -> type:
        """Return the class that implements `dispatch_type`; raise TypeError if there is none."""
        if dispatch_type not in self._implementations:
            raise TypeError(f"{dispatch_type.__name__} is not registered as a {self.noun}")
        return self._implementations[dispatch_type]

    def declare(self, declaration: _Function) -> _Function:
        """Declare a function of the interface, which dispatches on its first argument.

        Use it as a decorator; the body of the decorated function is never executed.
        """
        name = declaration.__name__
        self._functions.append(name)

        @functools.wraps(declaration)
        def dispatched(first: Any, *others: Any) -> Any:
            return getattr(self.implementation(type(first)), name)(first, *others)

        def specialise(*arguments: Any, **named: Any) -> Callable[..., Any] | None:
            first = arguments[0] if arguments else next(iter(named.values()))
            dispatch_type = getattr(first, "instance_class", None)
            if dispatch_type is None:
                return None
            return _without_annotations(getattr(self.implementation(dispatch_type), name))

        specialise.__name__ = name
        signature = _without_annotations(declaration).__signature__  # type: ignore[attr-defined]
        specialise.__signature__ = signature  # type: ignore[attr-defined]
        overload(dispatched, jit_options=_INLINING.options)(specialise)
        return dispatched  # type: ignore[return-value]


def _implementations(dispatch_type: type) -> Iterator[type]:
    """Yield the implementations of a type in all interfaces."""
    for interface in _INTERFACES:
        if dispatch_type in interface._implementations:
            yield interface._implementations[dispatch_type]


def _is_equal(one: tuple[Any, ...], other: object) -> bool:
    return type(one) is type(other) and tuple.__eq__(one, other)


def _is_unequal(one: tuple[Any, ...], other: object) -> bool:
    return not _is_equal(one, other)


def _without_annotations(function: Callable[..., Any]) -> Callable[..., Any]:
    """Hide the annotations of a function from numba, which rejects differing annotations."""
    signature = inspect.signature(function)
    parameters = [each.replace(annotation=each.empty) for each in signature.parameters.values()]
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return function


class _GarbageCollectorPause(event.Listener):  # type: ignore[misc]
    """Listener that disables garbage collection during compilation.

    Collections would take a tenth of the compile time and free almost no memory.
    """

    _depth = 0  # number of nested compilations; numba lets only one thread compile at a time

    def on_start(self, _: Any) -> None:
        if self._depth == 0:
            self._was_enabled = gc.isenabled()
            gc.disable()
        self._depth += 1

    def on_end(self, _: Any) -> None:
        self._depth -= 1
        if self._depth == 0 and self._was_enabled:
            gc.enable()


class _ObserverNotification(event.Listener):  # type: ignore[misc]
    """Listener that notifies this process's observers of compilations."""

    def on_start(self, _: Any) -> None:
        for observer in compilation_observers:
            observer.on_start()

    def on_end(self, _: Any) -> None:
        for observer in compilation_observers:
            observer.on_end()


event.register("numba:compile", _GarbageCollectorPause())
event.register("numba:compile", _ObserverNotification())
if numba.config.DISABLE_JIT:
    np.seterr(over="ignore")  # 64-bit words wrap on purpose, as in compiled code
