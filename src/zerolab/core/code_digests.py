"""Digests of code: `CodeDigest` of compiled functions, and `package_digest` of zerolab's files.

Two kernels have the same `CodeDigest` only if numba would compile both to the same machine code. A
compiled kernel contains the functions that it calls and the values of the globals that they use,
from any module. A `CodeDigest` therefore covers the bytecode, closures and defaults of these
functions, and those globals. All of these are read from memory, since an edit to a file affects
machine code only once the file is imported again. The digest also covers functions registered with
``numba.extending.overload`` and the syntax tree of every module that it encounters. It does not
cover extensions of numba itself: constants of new types, methods and attributes added to types, and
code generated during compilation.

A `package_digest` covers the paths and contents of all of zerolab's Python files on disk.
"""

from __future__ import annotations

import ast
import enum
import functools
import hashlib
import inspect
import os
import platform
import sys
import sysconfig
import types
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numba.core import types as numba_types
from numba.core.dispatcher import Dispatcher
from numba.core.extending import _Intrinsic as Intrinsic
from numba.core.registry import cpu_target

from zerolab.core import __version__

_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), np.generic, np.dtype)
_INSTALLED = tuple(
    os.path.join(sysconfig.get_path(name), "")  # noqa: PTH118 (a prefix, separator included)
    for name in ("stdlib", "platstdlib", "purelib", "platlib")
)
_SHARED = ("numpy", "numba", "llvmlite", "math", "builtins")
"""Packages whose code is not digested.

numba has its own implementations of numpy, and the cache key contains the versions of the other
packages.
"""


class CodeDigest:
    """Digest of all functions, classes and values added to it."""

    def __init__(
        self,
        implementations: Callable[[type], Iterable[type]],
        is_covered: Callable[[str], bool],
    ) -> None:
        """Create an empty digest.

        `implementations` returns the implementations of a type, which are added with it.
        `is_covered` returns True for the names of modules that the cache key covers in another
        way; their code is not added.
        """
        self._implementations = implementations
        self._is_covered = is_covered
        self._hash = hashlib.sha256()
        self._indices: dict[int, int] = {}  # by object id
        self._objects: list[object] = []  # kept alive so that no id is reused
        self._owners: set[str] = set()

    def add_type(self, class_: type) -> None:
        """Add the fields and implementations of a NamedTuple."""
        if not self._is_covered(class_.__module__):
            self._owners.add(_package(class_.__module__))
        for implementation in self._implementations(class_):
            if not self._is_covered(implementation.__module__):
                self._owners.add(_package(implementation.__module__))
        self._add(class_)

    def add_function(self, function: Callable[..., Any]) -> None:
        """Add a function and, unless its module is covered, everything its code refers to."""
        assert isinstance(function, types.FunctionType)
        self._note(function.__module__, function.__qualname__, function.__code__.co_code)
        if self._is_covered(function.__module__):
            self._add_closure(function)
        else:
            self._owners.add(_package(function.__module__))
            self._add(function)

    def hexdigest(self) -> str:
        """Return the digest of everything added so far, which depends on the order of additions."""
        return self._hash.hexdigest()

    def _note(self, *words: object) -> None:
        self._hash.update(repr(words).encode())

    def _add(self, value: object) -> None:
        """Add a value: plain values by content, repeated functions and classes by index."""
        if isinstance(value, _PLAIN):
            self._note(type(value).__name__, repr(value))
        elif isinstance(value, tuple | frozenset | np.ndarray):
            self._add_constant(value)
        elif id(value) in self._indices:
            self._note("again", self._indices[id(value)])
        else:
            self._indices[id(value)] = len(self._objects)
            self._objects.append(value)
            self._add_object(value)

    def _add_constant(self, value: tuple[object, ...] | frozenset[object] | np.ndarray) -> None:
        if isinstance(value, np.ndarray):
            self._note("array", value.dtype.str, value.shape, value.strides, value.tobytes())
        elif isinstance(value, frozenset):
            self._note("set", sorted(map(repr, value)))
        else:
            self._note("tuple", len(value))
            if hasattr(value, "_fields"):
                self._add(type(value))
            for each in value:
                self._add(each)

    def _add_object(self, value: object) -> None:
        function = _function_of(value)
        if isinstance(value, Dispatcher):
            self._note(sorted((key, repr(each)) for key, each in value.targetoptions.items()))
        if function is not None:
            self._add_code_of(function)
        elif isinstance(value, type):
            self._add_class(value)
        elif isinstance(value, types.ModuleType):
            if self._follow(value.__name__, "") and (path := _source(value.__name__)):
                self._note("source", syntax_tree_text(path.read_bytes()))
        elif isinstance(value, list | dict):  # may be read while an overload is being chosen
            self._note(type(value).__qualname__, len(value))
            for each in value.items() if isinstance(value, dict) else value:
                self._add(each)
        elif isinstance(value, enum.Enum | numba_types.Type):
            self._note(type(value).__qualname__, repr(value))
        else:  # numba cannot compile other values to constants
            self._note("object", type(value).__module__, type(value).__qualname__)

    def _add_code_of(self, function: types.FunctionType) -> None:
        if self._follow(function.__module__, function.__qualname__):
            self._add_code(function.__code__, function.__globals__)
            self._add_closure(function)
            self._add(function.__defaults__)
            self._add(tuple(sorted((function.__kwdefaults__ or {}).items())))
            for overload in _overloads_of(function):
                self._add(overload)

    def _add_closure(self, function: types.FunctionType) -> None:
        for cell in function.__closure__ or ():
            try:
                self._add(cell.cell_contents)
            except ValueError:  # not yet assigned
                self._note("empty")

    def _add_code(self, code: types.CodeType, names: Mapping[str, object]) -> None:
        self._note(code.co_code, code.co_names, code.co_varnames)
        for name in code.co_names:
            if isinstance(names.get(name), types.ModuleType):
                self._add_attributes(names[name], code.co_names)
            elif name in names:
                self._note(name)
                self._add(names[name])
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                self._add_code(constant, names)
            else:
                self._add(constant)

    def _add_attributes(self, module: object, names: Iterable[str]) -> None:
        """Add the attributes of a module that the code may refer to."""
        assert isinstance(module, types.ModuleType)
        self._add(module)
        if self._follow(module.__name__, ""):
            for name in names:
                value = vars(module).get(name)
                if isinstance(value, types.ModuleType) and value is not module:
                    self._add_attributes(value, [each for each in names if each != name])
                elif value is not None:
                    self._note(name)
                    self._add(value)

    def _add_class(self, class_: type) -> None:
        if self._follow(class_.__module__, class_.__qualname__):
            if issubclass(class_, tuple):  # kernels use only the fields of a NamedTuple
                self._note(getattr(class_, "_fields", ()))
                self._add(tuple(sorted(getattr(class_, "_field_defaults", {}).items())))
            else:
                for base in inspect.getmro(class_)[1:]:
                    self._add(base)
                for name, value in vars(class_).items():
                    if not name.startswith("__"):
                        self._note(name)
                        self._add(value)
        for implementation in self._implementations(class_):
            self._add(implementation)

    def _follow(self, module: str, name: str) -> bool:
        """Add the origin of an object; return True if the digest covers its code.

        For an installed package from which no function or type has been added, add the sizes and
        modification times of its files instead.
        """
        self._note(module, name)
        if self._is_covered(module) or _package(module) in _SHARED:
            return False
        path = _source(module)
        if path and str(path).startswith(_INSTALLED) and _package(module) not in self._owners:
            self._note(_installed_files_digest(_source(_package(module)) or path))
            return False
        if module in sys.modules:
            self._add(sys.modules[module])
        return True


def _overloads_of(function: types.FunctionType) -> list[types.FunctionType]:
    """Return a function's overloads that are registered with `numba.extending.overload`."""
    context = cpu_target.typing_context
    context.refresh()
    try:
        function_type = context.resolve_value_type(function)
    except ValueError:  # numba has no type for a function without overloads
        return []
    templates = getattr(function_type, "templates", ())
    return [each._overload_func for each in templates if hasattr(each, "_overload_func")]


@functools.cache
def _installed_files_digest(path: Path) -> str:
    """Return a digest of the paths, sizes and modification times of the files of a package."""
    files = sorted(path.parent.rglob("*.py")) if path.name == "__init__.py" else [path]
    facts = [(str(each), each.stat().st_size, each.stat().st_mtime_ns) for each in files]
    return hashlib.sha256(repr(facts).encode()).hexdigest()


def _function_of(value: object) -> types.FunctionType | None:
    """Return the Python function of a method, a compiled function or a numba intrinsic, if any."""
    if isinstance(value, Dispatcher):
        value = value.py_func
    elif isinstance(value, Intrinsic):
        value = value._defn
    elif isinstance(value, staticmethod | classmethod | types.MethodType):
        value = value.__func__
    return value if isinstance(value, types.FunctionType) else None


def syntax_tree_text(source: bytes) -> str:
    """Return the syntax tree of source code as text, without comments and docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        for body in (getattr(node, "body", None), getattr(node, "orelse", None)):
            if isinstance(body, list):
                body[:] = [each for each in body if not _is_text(each)]
    return ast.dump(tree)


def _is_text(statement: ast.stmt) -> bool:
    """Return True if a statement is only a string, such as a docstring."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _package(module: str) -> str:
    return module.partition(".")[0]


def _source(module: str) -> Path | None:
    """Return the file of an imported module; None if it has none, as in a notebook."""
    path = getattr(sys.modules.get(module), "__file__", None)
    return Path(path) if path and os.path.isfile(path) else None  # noqa: PTH113


_LIBRARIES = "torch", "numpy", "numba"


@functools.cache
def package_digest() -> str:
    """Return a digest of all Python files of zerolab, by path and content."""
    total, root = hashlib.blake2b(digest_size=16), Path(__file__).parents[1]
    for path in sorted(root.rglob("*.py")):
        for part in (path.relative_to(root).as_posix().encode(), path.read_bytes()):
            total.update(hashlib.blake2b(part, digest_size=16).digest())
    return total.hexdigest()


def software_versions() -> dict[str, str]:
    """Return the versions of zerolab, Python and the libraries that can affect results."""
    libraries = {name: version(name) for name in _LIBRARIES}
    return {"zerolab": __version__, "python": platform.python_version(), **libraries}
