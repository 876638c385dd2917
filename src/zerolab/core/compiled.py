"""The compiled pattern: kernels written once, specialised by the types of their arguments.

A value that changes what a kernel does is a ``NamedTuple`` such as ``Othello(rows=6, columns=6)``
or ``Puct(c=1.0)``. A `CompiledInterface` is a set of functions that several such types implement,
each in a class of static methods. Inside a kernel, a call of an interface's function is resolved
at compile time by the type of its first argument; in plain Python (and with
``NUMBA_DISABLE_JIT=1``) the same implementation is picked at run time. Why it is done this way is
explained in ``docs/decisions/0001-compiled-pattern.md``.
"""

from __future__ import annotations

import functools
import gc
import inspect
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numba
import numpy as np
from numba.core import event, types
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher
from numba.core.sigutils import normalize_signature
from numba.extending import overload

from zerolab.core.inlining import FragmentCompiler
from zerolab.core.kernel_cache import KernelCache

_OPTIONS = {"error_model": "numpy", "no_cfunc_wrapper": True}
_WITHIN_KERNELS = {**_OPTIONS, "forceinline": True, "no_cpython_wrapper": True}
"""How code is compiled: without entries for C, nor for Python where only kernels call it. They
would take as long as the code itself (docs/decisions/0021)."""

_Function = TypeVar("_Function", bound=Callable[..., Any])
_INTERFACES: list[CompiledInterface] = []


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function that plain Python calls; the machine code is cached on disk.

    Kernels release the interpreter lock, so that several threads can search at once, and divide
    as numpy does: division by zero gives infinity, without a check that would stop vectorisation.
    """
    if numba.config.DISABLE_JIT:
        return function
    compiled = _Kernel(function, targetoptions={**_OPTIONS, "nopython": True, "nogil": True})
    compiled._cache = KernelCache(function, _implementations)
    return compiled


class _Kernel(CPUDispatcher):  # type: ignore[misc]
    """A kernel that several processes do not compile at the same time."""

    def compile(self, sig: Any) -> Any:
        """See `numba.core.dispatcher.Dispatcher.compile`."""
        known = self.overloads.get(normalize_signature(sig)[0])
        if known is not None:
            return known.entry_point
        # numba's lock of all compilers first: threads must not wait for each other's files.
        with global_compiler_lock, self._cache.alone(sig, self.targetctx):
            return super().compile(sig)


def inlined(function: Callable[..., Any]) -> Any:
    """Compile a helper that only kernels call; its code becomes part of each of them.

    Inlining is forced: a call would copy every array header of a structure of arrays.
    """
    if numba.config.DISABLE_JIT:
        return function
    options = {**_WITHIN_KERNELS, "nopython": True}
    return _Inlined(function, targetoptions=options, pipeline_class=FragmentCompiler)


class _Inlined(CPUDispatcher):  # type: ignore[misc]
    """A helper without what makes it callable from Python, unless Python does call it."""

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Compile once for all values of an argument; inlining makes constants of them anyway."""
        general = types.unliteral  # type: ignore[attr-defined]
        named = {name: general(kind) for name, kind in kws.items()}
        return super().get_call_template(tuple(map(general, args)), named)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self._callable(*arguments, **named)

    @functools.cached_property
    def _callable(self) -> Any:
        return numba.njit(**_OPTIONS)(self.py_func)


class CompiledInterface:
    """Functions that several types implement, such as all games or all selection rules."""

    def __init__(self, noun: str) -> None:
        """Name in error messages what the types are, such as "game"."""
        self.noun = noun
        self._functions: list[str] = []
        self._implementations: dict[type, type] = {}
        _INTERFACES.append(self)

    def implement(self, kind: type, implementation: type) -> None:
        """Use the static methods of `implementation` for arguments of the type `kind`.

        From then on a value of this type equals none of another type: tuples of equal numbers would
        share entries of dictionaries and caches. Raises TypeError if a method is missing, and
        ValueError if the type has an implementation: kernels may have been compiled with that one.
        """
        if self._implementations.get(kind, implementation) is not implementation:
            raise ValueError(f"{kind.__name__} is registered twice as a {self.noun}")
        missing = [name for name in self._functions if not hasattr(implementation, name)]
        if missing:
            raise TypeError(f"{implementation.__name__} lacks {', '.join(missing)}")
        self._implementations[kind] = implementation
        kind.__eq__ = _is_equal  # type: ignore[assignment,method-assign]
        kind.__ne__ = _is_unequal  # type: ignore[assignment,method-assign]

    def implementation(self, kind: type) -> type:
        """Return the class whose static methods are used for `kind`; raise TypeError if none."""
        if kind not in self._implementations:
            raise TypeError(f"{kind.__name__} is not registered as a {self.noun}")
        return self._implementations[kind]

    def function(self, interface: _Function) -> _Function:
        """Decorate a signature with a docstring: make it dispatch on its first argument."""
        name = interface.__name__
        self._functions.append(name)

        @functools.wraps(interface)
        def dispatched(first: Any, *others: Any) -> Any:
            return getattr(self.implementation(type(first)), name)(first, *others)

        def specialise(*arguments: Any, **named: Any) -> Callable[..., Any] | None:
            first = arguments[0] if arguments else next(iter(named.values()))
            kind = getattr(first, "instance_class", None)
            return None if kind is None else _bare(getattr(self.implementation(kind), name))

        specialise.__name__ = name
        specialise.__signature__ = _bare(interface).__signature__  # type: ignore[attr-defined]
        options = {**_WITHIN_KERNELS, "pipeline_class": FragmentCompiler}
        overload(dispatched, jit_options=options)(specialise)
        return dispatched  # type: ignore[return-value]


def _implementations(kind: type) -> Iterator[type]:
    """Yield what implements some interface for a type."""
    for interface in _INTERFACES:
        if kind in interface._implementations:
            yield interface._implementations[kind]


def _is_equal(one: tuple[Any, ...], other: object) -> bool:
    return type(one) is type(other) and tuple.__eq__(one, other)


def _is_unequal(one: tuple[Any, ...], other: object) -> bool:
    return not _is_equal(one, other)


def _bare(function: Callable[..., Any]) -> Callable[..., Any]:
    """Hide a function's annotations from numba, which compares them when it should not."""
    signature = inspect.signature(function)
    parameters = [each.replace(annotation=each.empty) for each in signature.parameters.values()]
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return function


class _WithoutCollector(event.Listener):  # type: ignore[misc]
    """Keeps Python's collector of garbage from going through all that a compilation makes.

    It would take a tenth of the time, and find next to nothing before the end.
    """

    _depth = 0  # compilations are nested, and numba lets one thread compile at a time

    def on_start(self, _: Any) -> None:
        if self._depth == 0:
            self._was_on = gc.isenabled()
            gc.disable()
        self._depth += 1

    def on_end(self, _: Any) -> None:
        self._depth -= 1
        if self._depth == 0 and self._was_on:
            gc.enable()


event.register("numba:compile", _WithoutCollector())
if numba.config.DISABLE_JIT:
    np.seterr(over="ignore")  # 64-bit words wrap by intention, as they do in compiled code
