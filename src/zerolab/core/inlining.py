"""How numba compiles helpers that only ever become part of kernels (docs/decisions/0021).

By itself numba optimises every helper as thoroughly as a kernel and makes machine code of it, which
nobody calls, and takes every NamedTuple apart at each call, which inlining undoes. Kernels are the
same without; they take a third less time to compile.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from llvmlite import ir as llvm  # type: ignore[import-untyped]
from numba import _dynfunc
from numba.core import ir, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.datamodel import register_default
from numba.core.datamodel.models import TupleModel
from numba.core.registry import cpu_target
from numba.core.runtime.context import NRTContext
from numba.core.typed_passes import NativeLowering


class _Fragment(JITCodeLibrary):  # type: ignore[misc]
    """Code to link into kernels, without machine code of its own."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class _FragmentLowering(NativeLowering):  # type: ignore[misc]
    """Lowers a helper to a fragment, behind an entry that is only a name to call it by."""

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
    """Return whether a helper has to count references to what is on the heap.

    It need not where all of that are arrays that it gets as arguments, or parts of them: whoever
    passes an array holds on to it meanwhile. A generator outlives the call that makes it.
    """
    return (
        _has_memory(state.return_type)
        or not all(map(_is_of_arrays, [state.return_type, *state.typemap.values()]))
        or any(map(_has_memory, _made(state)))
    )


def _is_of_arrays(kind: Any) -> bool:
    """Return whether nothing in a type is on the heap but arrays: no list, no string."""
    if isinstance(kind, types.BaseTuple):  # type: ignore[attr-defined]
        return all(map(_is_of_arrays, kind))
    if isinstance(kind, types.Generator):  # type: ignore[attr-defined]
        return False
    return isinstance(kind, types.Array) or not _has_memory(kind)


def _made(state: Any) -> Iterator[Any]:
    """Yield the types of what a helper makes, by a call, an operator or an attribute.

    Items, slices and fields are parts of what there is; ``array.imag`` may be an array of its own.
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
    """Return whether an expression picks an item or a slice, not what a mask or a list picks."""
    return getattr(expression, "op", "") in ("getitem", "static_getitem") and not any(
        map(_has_memory, signature.args[1:])
    )


def _has_memory(kind: Any) -> bool:
    manager = cpu_target.target_context.data_model_manager
    return bool(manager[kind].contains_nrt_meminfo())


def _without_reference_counts(context: Any) -> Any:
    """Return a context that leaves references alone, in which one can still allocate.

    To assign an array to a slice, numba copies one that overlaps, and frees the copy itself.
    """
    changed = context.subtarget(enable_nrt=False)
    vars(changed)["nrt"] = NRTContext(changed, True)
    return changed


class FragmentCompiler(Compiler):  # type: ignore[misc]
    """numba's compiler for code that kernels contain, and nothing else calls."""

    def define_pipelines(self) -> list[Any]:
        """Return numba's own passes with another last one."""
        pipeline = DefaultPassBuilder.define_nopython_pipeline(self.state)
        pipeline.passes = [
            (_FragmentLowering if kind is NativeLowering else kind, about)
            for kind, about in pipeline.passes
        ]
        pipeline.finalize()
        return [pipeline]


@register_default(types.NamedTuple)  # type: ignore[attr-defined]
class _PassedWhole(TupleModel):  # type: ignore[misc]
    """A NamedTuple of zerolab is one argument, not one for each part of its parts.

    Those of other packages, whose machine code may be of an earlier day, stay as they are.
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
