"""The compiled pattern: dispatch by type, compiled and plain, and a cache that notices edits."""

from __future__ import annotations

import gc
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest

import zerolab
from zerolab.core import compiled
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


def _run(program: str, folder: Path) -> str:
    paths = [str(folder), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "NUMBA_CACHE_DIR": str(folder / "cache"),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_a_type_that_is_gone_spoils_no_machine_code_but_its_own(tmp_path: Path) -> None:
    (tmp_path / "doubling.py").write_text(
        "from zerolab.core.compiled import kernel\n"
        "@kernel\n"
        "def double(value):\n"
        "    return 2 * value[0]\n"
    )
    (tmp_path / "leaving.py").write_text(
        "from typing import NamedTuple\nclass Pair(NamedTuple):\n    one: int\n    other: int\n"
    )
    both = "from doubling import double; from leaving import Pair; double((1,)); double(Pair(1, 2))"
    _run(both, tmp_path)
    (tmp_path / "leaving.py").unlink()
    again = "print(double((3,)), *double.stats.cache_hits.values())"
    assert _run(f"from doubling import double; {again}", tmp_path) == "6 1"


def _cache_folder(package: Path, cache: str, **more: str) -> str:
    """Return where a process that imports this copy of the package keeps its kernels."""
    program = "import zerolab.core.compiled, numba; print(numba.config.CACHE_DIR)"
    environment = {key: value for key, value in os.environ.items() if key != "NUMBA_CACHE_DIR"}
    paths = [str(package), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={
            **environment,
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "XDG_CACHE_HOME": cache,
            **more,
        },
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder with a copy of the package's kernels."""
    source = Path(zerolab.__file__).parent
    for part in ("__init__.py", "core", "rules"):
        target = tmp_path / "copy" / "zerolab" / part
        if (source / part).is_dir():
            shutil.copytree(source / part, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            target.parent.mkdir(parents=True)
            shutil.copy(source / part, target)
    return tmp_path / "copy"


@pytest.mark.parametrize("edited", ["rules/boards.py", "rules/notes.py", "agents/kinds/mine.py"])
def test_an_edit_of_kernel_code_starts_a_new_cache(
    package: Path, tmp_path: Path, edited: str
) -> None:
    """Whatever a kernel may call: all of some packages, elsewhere modules that define kernels."""
    cache = str(tmp_path / "cache")
    before = _cache_folder(package, cache)
    assert before.startswith(cache)
    source = package / "zerolab" / edited
    source.parent.mkdir(parents=True, exist_ok=True)
    with open(source, "a") as file:
        file.write("from zerolab.core.compiled import kernel  # edited\n")
    assert _cache_folder(package, cache) != before


def test_an_edit_of_other_code_keeps_the_cache(package: Path, tmp_path: Path) -> None:
    cache = str(tmp_path / "cache")
    before = _cache_folder(package, cache)
    (package / "zerolab" / "cli").mkdir()
    (package / "zerolab" / "cli" / "words.py").write_text("GREETING = 'hello'\n")
    assert _cache_folder(package, cache) == before


def test_every_module_that_defines_a_kernel_is_hashed() -> None:
    hashed = {name for name, _ in compiled._kernel_sources()}
    package = Path(zerolab.__file__).parent
    defining = {
        file.relative_to(package).as_posix()
        for file in package.rglob("*.py")
        if re.search(
            r"^@(kernel|inlined|overload|intrinsic)\b|(kernel|inlined)\(", file.read_text(), re.M
        )
    }
    assert len(defining) > 20
    assert defining <= hashed
    assert {"games/gobang.py", "search/selections/puct.py"} <= hashed, "interfaces' types"
    assert not any(name.startswith(("cli/", "training/")) for name in hashed)


def test_an_edit_of_another_packages_game_starts_one_too(package: Path, tmp_path: Path) -> None:
    cache = str(tmp_path / "cache")
    before = _cache_folder(package, cache)
    announcement = package / "third_party-1.dist-info" / "entry_points.txt"
    announcement.parent.mkdir()
    announcement.write_text("[zerolab.games]\nthird = third_party\n")
    (package / "third_party.py").write_text("side = 3\n")
    registered = _cache_folder(package, cache)
    (package / "third_party.py").write_text("side = 4\n")
    edited = _cache_folder(package, cache)
    assert len({before, registered, edited}) == 3


def test_a_cache_that_cannot_be_written_is_replaced(package: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    folder = _cache_folder(package, str(tmp_path / "file"), TMPDIR=str(tmp_path))
    assert Path(folder).parent == tmp_path
    assert not Path(folder).exists(), "the replacement goes when the process ends"


def test_the_users_own_cache_folder_is_respected(package: Path, tmp_path: Path) -> None:
    own = str(tmp_path / "own")
    assert _cache_folder(package, str(tmp_path), NUMBA_CACHE_DIR=own) == own


def test_old_kernel_caches_are_dropped(package: Path, tmp_path: Path) -> None:
    root = tmp_path / "cache" / "zerolab"
    old, recent, foreign = root / "kernels-old", root / "kernels-recent", root / "other"
    for folder in (old, recent, foreign):
        folder.mkdir(parents=True)
    os.utime(old, (0, 0))
    os.utime(foreign, (0, 0))
    current = _cache_folder(package, str(tmp_path / "cache"))
    assert {each.name for each in root.iterdir()} == {
        Path(current).name, "kernels-recent", "other",
    }  # fmt: skip
