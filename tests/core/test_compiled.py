"""Dispatch on types, kernels and the helpers inlined into kernels."""

from __future__ import annotations

import gc
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest
from numba.core.registry import cpu_target
from numba.core.runtime import _nrt_python, rtsys

from zerolab.core import compiled, resources
from zerolab.core.compiled import CompiledInterface, inlined, kernel
from zerolab.core.memory import copy_row

SHAPES = CompiledInterface("shape")


@SHAPES.declare
def area(shape: Any, scale: float) -> float:
    """Return the area of a shape."""
    raise AssertionError


@SHAPES.declare
def double_area(shape: Any) -> float:
    """Return twice the area."""
    raise AssertionError


class Square(NamedTuple):
    side: float


class Rectangle(NamedTuple):
    width: float
    height: float


class Circle(NamedTuple):
    radius: float


class SquareArea:
    @staticmethod
    def area(shape, scale):
        return scale * shape.side**2

    @staticmethod
    def double_area(shape):
        return 2 * area(shape, 1.0)


class RectangleArea(SquareArea):
    """Inherits a method that calls the interface, which must dispatch to this class's area."""

    @staticmethod
    def area(shape, scale):
        return scale * shape.width * shape.height


SHAPES.implement(Square, SquareArea)
SHAPES.implement(Rectangle, RectangleArea)


@kernel
def _areas(shape, scale):
    return area(shape, scale), double_area(shape)


def _plain_areas(shape: Any, scale: float) -> tuple[float, float]:
    return area(shape, scale), double_area(shape)


@pytest.mark.parametrize("areas", [_areas, _plain_areas], ids=["compiled", "plain"])
def test_dispatch_depends_on_type_of_first_argument(areas: Any) -> None:
    assert areas(Square(3.0), 2.0) == (18.0, 18.0)
    assert areas(Rectangle(2.0, 5.0), 1.0) == (10.0, 20.0)


def test_unregistered_type_is_named_in_error() -> None:
    with pytest.raises(TypeError, match="Circle is not registered as a shape"):
        area(Circle(1.0), 1.0)
    with pytest.raises(Exception, match="Circle is not registered as a shape"):
        _areas(Circle(1.0), 1.0)


def test_interface_functions_keep_name_and_docstring() -> None:
    assert area.__name__ == "area"
    assert area.__doc__ == "Return the area of a shape."


def test_values_of_different_types_are_unequal() -> None:
    class Cube(NamedTuple):
        side: float

    SHAPES.implement(Cube, SquareArea)
    square, cube, same = Square(3.0), Cube(3.0), Square(3.0)
    assert (square == cube, square != cube) == (False, True)
    assert (square == same, square != same) == (True, False)
    assert {Square(3.0): "square", Cube(3.0): "cube"}[Cube(3.0)] == "cube"
    assert (Square(3.0), 1) != (Cube(3.0), 1), "also inside containers"


@inlined
def _tripled(word: Any) -> Any:
    return np.uint64(3) * word


def test_inlined_helper_wraps_around_in_python() -> None:
    assert _tripled(np.uint64(2**63 + 1)) == 2**63 + 3


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_observers_see_compilations_and_no_later_calls(monkeypatch) -> None:
    class Observer:
        def __init__(self) -> None:
            self.events: list[str] = []

        def on_start(self) -> None:
            self.events.append("started")

        def on_end(self) -> None:
            self.events.append("ended")

    observer = Observer()
    monkeypatch.setattr(resources, "compilation_observers", [observer])
    monkeypatch.setattr(compiled, "compilation_observers", [observer])
    triple = numba.njit(lambda number: 3 * number)
    assert triple(2) == 6
    assert observer.events[0] == "started"
    assert observer.events.count("started") == observer.events.count("ended") > 0
    seen = len(observer.events)
    assert triple(3) == 9
    assert len(observer.events) == seen


def test_garbage_collector_is_restored_after_compilation() -> None:
    assert gc.isenabled()
    assert numba.njit(lambda number: number + 1)(1) == 2
    assert gc.isenabled()
    gc.disable()
    try:
        assert numba.njit(lambda number: number + 2)(1) == 3
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_inlined_helpers_have_no_python_wrappers() -> None:
    @numba.njit
    def in_kernel(word: Any) -> Any:
        return _tripled(word)

    assert in_kernel(np.uint64(2**63 + 1)) == 2**63 + 3
    (code,) = _tripled.overloads.values()
    compiled_functions = {function.name for function in code.library.get_defined_functions()}
    assert code.fndesc.llvm_func_name in compiled_functions
    assert code.fndesc.llvm_cpython_wrapper_name not in compiled_functions
    assert code.fndesc.llvm_cfunc_wrapper_name not in compiled_functions


def test_copy_row_fills_strided_array() -> None:
    numbers = np.arange(6, dtype=np.uint64).reshape(2, 3)
    out = np.zeros((3, 2), np.uint64)
    copy_row(numbers[1], out[:, 1])
    assert out.tolist() == [[0, 3], [0, 4], [0, 5]]


pytestmark = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="tests compiled code")


@inlined
def copied(out, state):
    out[0], out[1] = state[0], state[1]
    out[1:] = out[:-1]


@inlined
def _push(todo, item):
    todo.append(item)


@inlined
def listed(out, state):
    steps = [1, 2]
    todo = [state]
    for _ in range(9):
        _push(todo, state + 1)
    out[0] = todo[9][0] + steps[1]


@inlined
def looked_up(out, state):
    table = {1: 2}
    table[3] = 4
    out[0] = table[1] + table[3] + state[0]


@inlined
def _items(array):
    for row in range(len(array)):
        yield array[row]


@inlined
def _sum_of_new(size):
    return np.full(size, 1000).sum()  # reuses memory that was freed too early


@inlined
def yielded(out, state):
    for item in _items(state + 1):
        out[0] += item + 0 * _sum_of_new(len(state))


@inlined
def imaginary(out, state):
    part = state.imag
    out[0] = part[0]


@inlined
def refused(out, state):
    if state[0] < 0:
        raise ValueError("negative", state[0])
    out[0] = state[0]


@pytest.mark.parametrize(
    ("helper", "expected", "leaked"),
    [
        (copied, [3, 3, 5], 0),
        (listed, [6, 0, 0], 0),
        (looked_up, [9, 0, 0], 0),
        (yielded, [18, 0, 0], 1),  # numba itself leaks one block per generator
        (imaginary, [0, 0, 0], 0),
        (refused, [3, 0, 0], 0),
    ],
)  # fmt: skip
def test_inlined_helpers_compute_correctly_without_leaks(helper, expected, leaked):
    @kernel
    def call(out, state):
        helper(out, state)

    state = np.array([3, 5, 7])
    call(np.zeros(3, np.int64), state)  # compiles
    rtsys.initialize(cpu_target.target_context)
    _nrt_python.memsys_enable_stats()
    before, out = rtsys.get_allocation_stats(), np.zeros(3, np.int64)
    call(out, state)
    after = rtsys.get_allocation_stats()
    _nrt_python.memsys_disable_stats()
    assert out.tolist() == expected
    assert (after.alloc - before.alloc) - (after.free - before.free) == leaked
