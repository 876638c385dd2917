"""The compiled pattern: kernels written once, specialised by the types of their arguments.

A value that changes what a kernel does is a ``NamedTuple`` such as ``Othello(rows=6, columns=6)``
or ``Puct(c=1.0)``. A `CompiledInterface` is a set of functions that several such types implement,
each in a class of static methods. Inside a kernel, a call of an interface's function is resolved
at compile time by the type of its first argument; in plain Python (and with
``NUMBA_DISABLE_JIT=1``) the same implementation is picked at run time
(``docs/decisions/0001-compiled-pattern.md``).

Helpers are compiled in a way of their own (``docs/decisions/0021``). By default numba optimises
each helper as thoroughly as a kernel, makes machine code of it that nobody calls, and unpacks every
NamedTuple at each call, which inlining undoes. Without these steps kernels are the same, and
compile in two thirds of the time.
"""

from __future__ import annotations

import functools
import gc
import inspect
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numba
import numpy as np
from llvmlite import ir as llvm  # type: ignore[import-untyped]
from numba import _dynfunc
from numba.core import event, ir, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, DefaultPassBuilder
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import register_pass
from numba.core.datamodel import register_default
from numba.core.datamodel.models import TupleModel
from numba.core.registry import CPUDispatcher, cpu_target
from numba.core.runtime.context import NRTContext
from numba.core.sigutils import normalize_signature
from numba.core.typed_passes import NativeLowering
from numba.extending import overload

from zerolab.core.kernel_cache import KernelCache

_OPTIONS = {"error_model": "numpy", "no_cfunc_wrapper": True}
_WITHIN_KERNELS = {**_OPTIONS, "forceinline": True, "no_cpython_wrapper": True}
"""Compiler options: no entry points for C, nor for Python where only kernels call the code. They
would take as long to compile as the code itself (docs/decisions/0021)."""

_Function = TypeVar("_Function", bound=Callable[..., Any])
_INTERFACES: list[CompiledInterface] = []


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function that Python calls; its machine code is cached on disk.

    Kernels release the interpreter lock, so that several threads can search at once. They divide
    as numpy does: division by zero gives infinity, without a check that would stop vectorisation.
    """
    if numba.config.DISABLE_JIT:
        return function
    compiled = _Kernel(function, targetoptions={**_OPTIONS, "nopython": True, "nogil": True})
    compiled._cache = KernelCache(function, _implementations)
    return compiled


class _Kernel(CPUDispatcher):  # type: ignore[misc]
    """A kernel that only one process compiles at a time."""

    def compile(self, sig: Any) -> Any:
        """Compile for the types `sig`, or load what another process has compiled meanwhile."""
        known = self.overloads.get(normalize_signature(sig)[0])
        if known is not None:
            return known.entry_point
        # numba's global compiler lock comes first: threads must not wait for each other's files.
        with global_compiler_lock, self._cache.alone(sig, self.targetctx):
            return super().compile(sig)


def inlined(function: Callable[..., Any]) -> Any:
    """Compile a helper that only kernels call; its code is inlined into each of them.

    Inlining is forced, because a call would copy every array header of a structure of arrays.
    """
    if numba.config.DISABLE_JIT:
        return function
    options = {**_WITHIN_KERNELS, "nopython": True}
    return _Inlined(function, targetoptions=options, pipeline_class=FragmentCompiler)


class _Inlined(CPUDispatcher):  # type: ignore[misc]
    """A helper that becomes callable from Python only when Python calls it."""

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Compile once for all values of an argument; inlining makes them constants anyway."""
        general = types.unliteral  # type: ignore[attr-defined]
        named = {name: general(kind) for name, kind in kws.items()}
        return super().get_call_template(tuple(map(general, args)), named)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self._callable(*arguments, **named)

    @functools.cached_property
    def _callable(self) -> Any:
        return numba.njit(**_OPTIONS)(self.py_func)


class CompiledInterface:
    """A set of functions that several types implement, such as all games or all selection rules."""

    def __init__(self, noun: str) -> None:
        """Create an interface without types; `noun`, such as "game", names them in errors."""
        self.noun = noun
        self._functions: list[str] = []
        self._implementations: dict[type, type] = {}
        _INTERFACES.append(self)

    def implement(self, kind: type, implementation: type) -> None:
        """Use the static methods of `implementation` for arguments of the type `kind`.

        From then on values of this type differ from values of other types; otherwise tuples of
        equal numbers would share entries of dictionaries and caches. Raises TypeError if a method
        is missing, and ValueError if the type already has another implementation, with which
        kernels may have been compiled.
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
        """Return the class that implements `kind`; raise TypeError if there is none."""
        if kind not in self._implementations:
            raise TypeError(f"{kind.__name__} is not registered as a {self.noun}")
        return self._implementations[kind]

    def function(self, interface: _Function) -> _Function:
        """Decorate a signature with a docstring; the function dispatches on its first argument."""
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
    """Yield the implementations of all interfaces for a type."""
    for interface in _INTERFACES:
        if kind in interface._implementations:
            yield interface._implementations[kind]


def _is_equal(one: tuple[Any, ...], other: object) -> bool:
    return type(one) is type(other) and tuple.__eq__(one, other)


def _is_unequal(one: tuple[Any, ...], other: object) -> bool:
    return not _is_equal(one, other)


def _bare(function: Callable[..., Any]) -> Callable[..., Any]:
    """Hide a function's annotations from numba, which would compare those of two signatures."""
    signature = inspect.signature(function)
    parameters = [each.replace(annotation=each.empty) for each in signature.parameters.values()]
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return function


class _Fragment(JITCodeLibrary):  # type: ignore[misc]
    """Code that is linked into kernels and never becomes machine code by itself."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class _FragmentLowering(NativeLowering):  # type: ignore[misc]
    """Lowers a helper to a fragment, with an entry point that is only a name to call it by."""

    _name = "fragment_lowering"

    def run_pass(self, state: Any) -> bool:
        if not _counts_references(state):
            state.targetctx = _without_reference_counts(state.targetctx)
        state.library = _Fragment(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        super().run_pass(state)
        lowered = state["cr"]
        name = lowered.fndesc.qualname
        module = lowered.fndesc.lookup_module()
        entry = _dynfunc.make_function(module, name, "", 0, lowered.env, (state.library,))
        state.targetctx.insert_user_function(entry, lowered.fndesc, [state.library])
        state["cr"] = lowered._replace(cfunc=entry)
        return True


def _counts_references(state: Any) -> bool:
    """Return whether a helper has to count references to objects on the heap.

    It need not if these are only arrays that it gets as arguments, or parts of them, because the
    caller holds on to an array that it passes. A generator outlives the call that makes it.
    """
    return (
        _has_memory(state.return_type)
        or not all(map(_is_of_arrays, [state.return_type, *state.typemap.values()]))
        or any(map(_has_memory, _made(state)))
    )


def _is_of_arrays(kind: Any) -> bool:
    """Return whether a type keeps nothing but arrays on the heap: no list, no string."""
    if isinstance(kind, types.BaseTuple):  # type: ignore[attr-defined]
        return all(map(_is_of_arrays, kind))
    if isinstance(kind, types.Generator):  # type: ignore[attr-defined]
        return False
    return isinstance(kind, types.Array) or not _has_memory(kind)


def _made(state: Any) -> Iterator[Any]:
    """Yield the types of the values that a helper makes by a call, an operator or an attribute.

    Items, slices and fields are parts of existing values; ``array.imag`` may be a new array.
    """
    for expression, signature in state.calltypes.items():
        if signature is not None and not _is_part(expression, signature):
            yield signature.return_type
    for block in state.func_ir.blocks.values():
        for assignment in block.find_insts(ir.Assign):
            if getattr(assignment.value, "op", "") == "getattr":
                owner = state.typemap[assignment.value.value.name]
                if not isinstance(owner, types.BaseTuple):  # type: ignore[attr-defined]
                    yield state.typemap[assignment.target.name]


def _is_part(expression: Any, signature: Any) -> bool:
    """Return whether an expression is an item or a slice, rather than indexing by mask or list."""
    return getattr(expression, "op", "") in ("getitem", "static_getitem") and not any(
        map(_has_memory, signature.args[1:])
    )


def _has_memory(kind: Any) -> bool:
    manager = cpu_target.target_context.data_model_manager
    return bool(manager[kind].contains_nrt_meminfo())


def _without_reference_counts(context: Any) -> Any:
    """Return a context that counts no references but can still allocate.

    To assign an array to a slice that overlaps it, numba makes a copy, and frees that copy itself.
    """
    changed = context.subtarget(enable_nrt=False)
    vars(changed)["nrt"] = NRTContext(changed, True)
    return changed


class FragmentCompiler(Compiler):  # type: ignore[misc]
    """numba's compiler, for code that becomes part of kernels and that nothing else calls."""

    def define_pipelines(self) -> list[Any]:
        """Return numba's own passes, except for the last one."""
        pipeline = DefaultPassBuilder.define_nopython_pipeline(self.state)
        pipeline.passes = [
            (_FragmentLowering if kind is NativeLowering else kind, about)
            for kind, about in pipeline.passes
        ]
        pipeline.finalize()
        return [pipeline]


@register_default(types.NamedTuple)  # type: ignore[attr-defined]
class _PassedWhole(TupleModel):  # type: ignore[misc]
    """Passes a NamedTuple of zerolab as one argument instead of one for each of its leaves.

    NamedTuples of other packages, which may have cached machine code, are passed as usual.
    """

    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind)
        self._is_whole = kind.instance_class.__module__.partition(".")[0] == "zerolab"

    def get_argument_type(self) -> Any:
        return self.get_value_type() if self._is_whole else super().get_argument_type()

    def as_argument(self, builder: llvm.IRBuilder, value: Any) -> Any:
        return value if self._is_whole else super().as_argument(builder, value)

    def from_argument(self, builder: llvm.IRBuilder, value: Any) -> Any:
        return value if self._is_whole else super().from_argument(builder, value)


class _WithoutCollector(event.Listener):  # type: ignore[misc]
    """Turns the garbage collector off during compilation.

    It would take a tenth of the time and find next to nothing before the end.
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
    np.seterr(over="ignore")  # 64-bit words wrap on purpose, as in compiled code
