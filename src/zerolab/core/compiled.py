"""The compiled pattern: kernels written once and specialised by the types of their arguments.

A value that changes the behaviour of a kernel is a ``NamedTuple`` such as
``Othello(rows=6, columns=6)`` or ``Puct(c=1.0)``. A `CompiledInterface` is a set of functions that
several types implement, each in a class of static methods. A kernel that calls a function of an
interface resolves the call at compile time, by the type of the first argument. Plain Python selects
the same implementation at run time, even with ``NUMBA_DISABLE_JIT=1``
(``docs/decisions/0001-compiled-pattern.md``).

Helpers are compiled differently from kernels (``docs/decisions/0021``). By default, numba optimises
each helper as thoroughly as a kernel, generates unused machine code for it, and unpacks every
NamedTuple at each call, which inlining undoes. Skipping these steps leaves the kernels unchanged
and reduces their compile time by a third.
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

from zerolab.core.compilation import observers
from zerolab.core.kernel_cache import KernelCache

_OPTIONS = {"error_model": "numpy", "no_cfunc_wrapper": True}
_WITHIN_KERNELS = {**_OPTIONS, "forceinline": True, "no_cpython_wrapper": True}
"""Compiler options of code that only kernels call.

They omit the entry points for C and Python, which would take as long to compile as the code itself
(docs/decisions/0021).
"""

_Function = TypeVar("_Function", bound=Callable[..., Any])
_INTERFACES: list[CompiledInterface] = []


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function for calls from Python; its machine code is cached on disk.

    Kernels release the interpreter lock, so several threads can search in parallel. Division by
    zero gives infinity, as in numpy, since a check would prevent vectorisation.
    """
    if numba.config.DISABLE_JIT:
        return function
    compiled = _Kernel(function, targetoptions={**_OPTIONS, "nopython": True, "nogil": True})
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
    options = {**_WITHIN_KERNELS, "nopython": True}
    return _Inlined(function, targetoptions=options, pipeline_class=HelperCompiler)


class _Inlined(CPUDispatcher):  # type: ignore[misc]
    """A helper that is compiled for calls from Python only when Python first calls it."""

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Compile once for all values of a literal, since inlining makes the value a constant."""
        general = types.unliteral  # type: ignore[attr-defined]
        named = {name: general(numba_type) for name, numba_type in kws.items()}
        return super().get_call_template(tuple(map(general, args)), named)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self._callable(*arguments, **named)

    @functools.cached_property
    def _callable(self) -> Any:
        return numba.njit(**_OPTIONS)(self.py_func)


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

        This makes values of different types unequal. As plain tuples, values with equal numbers
        would share entries of dictionaries and caches. Raises TypeError if a method is missing, and
        ValueError if the type already has another implementation, since compiled kernels may
        contain that one.
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
        options = {**_WITHIN_KERNELS, "pipeline_class": HelperCompiler}
        overload(dispatched, jit_options=options)(specialise)
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


class _HelperLibrary(JITCodeLibrary):  # type: ignore[misc]
    """Code of a helper that is linked into kernels and not compiled to machine code by itself."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class _HelperLowering(NativeLowering):  # type: ignore[misc]
    """Pass that lowers a helper to a library whose entry point is only a name."""

    _name = "helper_lowering"

    def run_pass(self, state: Any) -> bool:
        if not _counts_references(state):
            state.targetctx = _without_reference_counts(state.targetctx)
        state.library = _HelperLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
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
    """Return True if a helper must count references to objects on the heap.

    Counting is unnecessary if all these objects are array arguments or parts of them, since the
    caller keeps its arguments alive. A generator needs counts because it outlives the call that
    creates it.
    """
    return (
        _has_memory(state.return_type)
        or not all(map(_has_only_arrays, [state.return_type, *state.typemap.values()]))
        or any(map(_has_memory, _created_types(state)))
    )


def _has_only_arrays(numba_type: Any) -> bool:
    """Return True if the only heap memory of a type is that of arrays, unlike lists and strings."""
    if isinstance(numba_type, types.BaseTuple):  # type: ignore[attr-defined]
        return all(map(_has_only_arrays, numba_type))
    if isinstance(numba_type, types.Generator):  # type: ignore[attr-defined]
        return False
    return isinstance(numba_type, types.Array) or not _has_memory(numba_type)


def _created_types(state: Any) -> Iterator[Any]:
    """Yield the types of the values that a helper creates with calls, operators or attributes.

    Items, slices and fields are parts of existing values. Attributes such as ``array.imag`` may be
    new arrays.
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
    """Return True if an expression is an item or a slice, and not indexed with a mask or list."""
    return getattr(expression, "op", "") in ("getitem", "static_getitem") and not any(
        map(_has_memory, signature.args[1:])
    )


def _has_memory(numba_type: Any) -> bool:
    manager = cpu_target.target_context.data_model_manager
    return bool(manager[numba_type].contains_nrt_meminfo())


def _without_reference_counts(context: Any) -> Any:
    """Return a context that does not count references but can allocate memory.

    It must allocate because numba copies an array before assigning it to a slice that overlaps it.
    """
    uncounted = context.subtarget(enable_nrt=False)
    vars(uncounted)["nrt"] = NRTContext(uncounted, True)
    return uncounted


class HelperCompiler(Compiler):  # type: ignore[misc]
    """Compiler of helpers, which only kernels call."""

    def define_pipelines(self) -> list[Any]:
        """Return numba's passes, with the lowering replaced."""
        pipeline = DefaultPassBuilder.define_nopython_pipeline(self.state)
        pipeline.passes = [
            (_HelperLowering if each is NativeLowering else each, description)
            for each, description in pipeline.passes
        ]
        pipeline.finalize()
        return [pipeline]


@register_default(types.NamedTuple)  # type: ignore[attr-defined]
class _SingleArgument(TupleModel):  # type: ignore[misc]
    """Data model that passes a NamedTuple of zerolab as one argument, not one per leaf.

    NamedTuples of other packages are passed as usual, since cached machine code may rely on it.
    """

    def __init__(self, manager: Any, numba_type: Any) -> None:
        super().__init__(manager, numba_type)
        self._is_ours = numba_type.instance_class.__module__.partition(".")[0] == "zerolab"

    def get_argument_type(self) -> Any:
        return self.get_value_type() if self._is_ours else super().get_argument_type()

    def as_argument(self, builder: llvm.IRBuilder, value: Any) -> Any:
        return value if self._is_ours else super().as_argument(builder, value)

    def from_argument(self, builder: llvm.IRBuilder, value: Any) -> Any:
        return value if self._is_ours else super().from_argument(builder, value)


class _GarbageCollectorPause(event.Listener):  # type: ignore[misc]
    """Listener that disables garbage collection during compilation.

    Collections would take a tenth of the compile time and free almost no memory.
    """

    _depth = 0  # of nested compilations; numba lets only one thread compile at a time

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
    """Listener that tells the observers of this process about compilations."""

    def on_start(self, _: Any) -> None:
        for observer in observers:
            observer.started()

    def on_end(self, _: Any) -> None:
        for observer in observers:
            observer.ended()


event.register("numba:compile", _GarbageCollectorPause())
event.register("numba:compile", _ObserverNotification())
if numba.config.DISABLE_JIT:
    np.seterr(over="ignore")  # 64-bit words wrap on purpose, as in compiled code
