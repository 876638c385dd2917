"""The compiled pattern: dispatch by type, compiled and plain."""

from __future__ import annotations

import gc
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest

from zerolab.core.compiled import CompiledInterface, inlined, kernel
from zerolab.core.memory import copy_row

SHAPES = CompiledInterface("shape")


@SHAPES.function
def area(shape: Any, scale: float) -> float:
    """Return the area of a shape."""
    raise AssertionError


@SHAPES.function
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
    """Inherits what calls the interface, and must get its own area there."""

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
def test_the_type_of_the_first_argument_decides(areas: Any) -> None:
    assert areas(Square(3.0), 2.0) == (18.0, 18.0)
    assert areas(Rectangle(2.0, 5.0), 1.0) == (10.0, 20.0)


def test_a_type_without_implementation_is_named() -> None:
    with pytest.raises(TypeError, match="Circle is not registered as a shape"):
        area(Circle(1.0), 1.0)
    with pytest.raises(Exception, match="Circle is not registered as a shape"):
        _areas(Circle(1.0), 1.0)


def test_dispatching_functions_keep_their_names_and_docstrings() -> None:
    assert area.__name__ == "area"
    assert area.__doc__ == "Return the area of a shape."


def test_equal_fields_do_not_make_values_of_different_types_equal() -> None:
    class Cube(NamedTuple):
        side: float

    SHAPES.implement(Cube, SquareArea)
    square, cube, same = Square(3.0), Cube(3.0), Square(3.0)
    assert (square == cube, square != cube) == (False, True)
    assert (square == same, square != same) == (True, False)
    assert {Square(3.0): "square", Cube(3.0): "cube"}[Cube(3.0)] == "cube"
    assert (Square(3.0), 1) != (Cube(3.0), 1), "also within what contains them"


@inlined
def _tripled(word: Any) -> Any:
    return np.uint64(3) * word


def test_helpers_of_kernels_can_be_called_from_python_and_wrap_there_too() -> None:
    assert _tripled(np.uint64(2**63 + 1)) == 2**63 + 3


def test_the_collector_of_garbage_works_again_after_compiling() -> None:
    assert gc.isenabled()
    assert numba.njit(lambda number: number + 1)(1) == 2
    assert gc.isenabled()
    gc.disable()
    try:
        assert numba.njit(lambda number: number + 2)(1) == 3
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_helpers_are_compiled_without_entries_that_kernels_do_not_need() -> None:
    @numba.njit
    def in_kernel(word: Any) -> Any:
        return _tripled(word)

    assert in_kernel(np.uint64(2**63 + 1)) == 2**63 + 3
    (code,) = _tripled.overloads.values()
    compiled_functions = {function.name for function in code.library.get_defined_functions()}
    assert code.fndesc.llvm_func_name in compiled_functions
    assert code.fndesc.llvm_cpython_wrapper_name not in compiled_functions
    assert code.fndesc.llvm_cfunc_wrapper_name not in compiled_functions


def test_a_row_is_copied_into_another_array() -> None:
    numbers = np.arange(6, dtype=np.uint64).reshape(2, 3)
    out = np.zeros((3, 2), np.uint64)
    copy_row(numbers[1], out[:, 1])
    assert out.tolist() == [[0, 3], [0, 4], [0, 5]]
