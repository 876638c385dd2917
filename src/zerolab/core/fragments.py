"""Fragments: helpers that are optimised and compiled only as parts of kernels.

By default, numba optimises each helper as thoroughly as a kernel, generates unused machine code for
it, and adds code to unpack every NamedTuple at each call, which inlining then removes. Skipping
these steps leaves the kernels unchanged and cuts compile time by a third (``docs/decisions/0021``).

This module relies on numba's internal classes, which a new version of numba may change. In that
case, `zerolab.core.compiled` does without it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numba
from llvmlite import ir as llvm  # type: ignore[import-untyped]
from numba import _dynfunc
from numba.core import ir, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.datamodel import register_default
from numba.core.datamodel.models import TupleModel
from numba.core.registry import CPUDispatcher, cpu_target
from numba.core.runtime.context import NRTContext
from numba.core.typed_passes import NativeLowering

from zerolab.core.inlining import KERNEL_OPTIONS, InliningStrategy


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
        return numba.njit(**KERNEL_OPTIONS)(self.py_func)


class _FragmentLibrary(JITCodeLibrary):  # type: ignore[misc]
    """Code of a helper, linked into kernels and not separately compiled to machine code."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class _FragmentLowering(NativeLowering):  # type: ignore[misc]
    """Pass that lowers a helper to a library whose entry point is only a name."""

    _name = "fragment_lowering"

    def run_pass(self, state: Any) -> bool:
        if not _counts_references(state):
            state.targetctx = _without_reference_counts(state.targetctx)
        state.library = _FragmentLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
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
    """Return True if a type uses heap memory only for arrays, unlike lists and strings."""
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

    Memory is needed because numba copies an array before assigning it to an overlapping slice.
    """
    uncounted = context.subtarget(enable_nrt=False)
    vars(uncounted)["nrt"] = NRTContext(uncounted, True)
    return uncounted


class _FragmentCompiler(Compiler):  # type: ignore[misc]
    """Compiler for helpers, which are called only from kernels."""

    def define_pipelines(self) -> list[Any]:
        """Return numba's passes, with the lowering replaced."""
        pipeline = DefaultPassBuilder.define_nopython_pipeline(self.state)
        pipeline.passes = [
            (_FragmentLowering if each is NativeLowering else each, description)
            for each, description in pipeline.passes
        ]
        pipeline.finalize()
        return [pipeline]


@register_default(types.NamedTuple)  # type: ignore[attr-defined]
class _SingleArgument(TupleModel):  # type: ignore[misc]
    """Data model that passes a zerolab NamedTuple as a single argument, not one per nested field.

    NamedTuples from other packages are passed as usual, since cached machine code may rely on this.
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


_OPTIONS = {**KERNEL_OPTIONS, "forceinline": True, "no_cpython_wrapper": True}
"""Compiler options for code called only from kernels.

They omit the entry points for C and Python, which would take as long to compile as the code itself
(docs/decisions/0021).
"""


def _compile_helper(function: Callable[..., Any]) -> Any:
    options = {**_OPTIONS, "nopython": True}
    return _Inlined(function, targetoptions=options, pipeline_class=_FragmentCompiler)


FAST_INLINING = InliningStrategy(_compile_helper, {**_OPTIONS, "pipeline_class": _FragmentCompiler})
"""Fast strategy, which may stop working if numba's internals change."""
