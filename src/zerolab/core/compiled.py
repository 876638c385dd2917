"""The compiled pattern: kernels written once, specialised by the types of their arguments.

A value that changes what a kernel does is a ``NamedTuple`` such as ``Othello(rows=6, columns=6)``
or ``Puct(c=1.0)``. A `CompiledInterface` is a set of functions that several such types implement,
each in a class of static methods. Inside a kernel, a call of an interface's function is resolved
at compile time by the type of its first argument; in plain Python (and with
``NUMBA_DISABLE_JIT=1``) the same implementation is picked at run time. Why it is done this way is
explained in ``docs/decisions/0001-compiled-pattern.md``.
"""

from __future__ import annotations

import atexit
import functools
import gc
import hashlib
import inspect
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np
from numba.core import event, types
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.registry import CPUDispatcher
from numba.extending import overload

from zerolab.core.inlining import FragmentCompiler

_KERNEL_PACKAGES = ("core", "rules", "games", "search", "oracles", "replay")
"""Packages of zerolab whose code, constants included, can become part of any kernel."""

_KERNEL_IMPORT = b"core.compiled"
"""What a module elsewhere contains if it defines kernels."""

_PLUGIN_GROUPS = ("zerolab.games", "zerolab.search")
"""Entry points by which other packages add code to kernels."""

_OPTIONS = {"error_model": "numpy", "no_cfunc_wrapper": True}
_WITHIN_KERNELS = {**_OPTIONS, "forceinline": True, "no_cpython_wrapper": True}
"""How code is compiled: without entries for C, nor for Python where only kernels call it. They
would take as long as the code itself (docs/decisions/0021)."""

_Function = TypeVar("_Function", bound=Callable[..., Any])
_STALE_CACHE_SECONDS = 30 * 24 * 3600.0


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function that plain Python calls; the machine code is cached on disk.

    Kernels release the interpreter lock, so that several threads can search at once, and divide
    as numpy does: division by zero gives infinity, without a check that would stop vectorisation.
    """
    compiled = numba.njit(**_OPTIONS, nogil=True)(function)
    if not numba.config.DISABLE_JIT:
        compiled._cache = _KernelCache(function)
    return compiled


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


class _KernelCache(FunctionCache):  # type: ignore[misc]
    """numba's cache on disk, with an index for each combination of types, not for each kernel.

    An index names types, and numba cannot read it where one of them is unknown, such as a selection
    rule of a package now uninstalled. Besides, processes that change an index at the same time
    could mix up whose machine code is whose.
    """

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        self._choose_index(sig)
        try:
            return super().load_overload(sig, target_context)
        except (ImportError, AttributeError):
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        self._choose_index(sig)
        try:
            super().save_overload(sig, data)
        except (ImportError, AttributeError):
            self.flush()
            super().save_overload(sig, data)

    def _choose_index(self, types: Any) -> None:
        digest = hashlib.sha256(str(types).encode()).hexdigest()[:16]
        self._cache_file = IndexDataCacheFile(
            self._cache_path,
            f"{self._impl.filename_base}.{digest}",
            self._impl.locator.get_source_stamp(),
        )


class CompiledInterface:
    """Functions that several types implement, such as all games or all selection rules."""

    def __init__(self, noun: str) -> None:
        """Name in error messages what the types are, such as "game"."""
        self.noun = noun
        self._functions: list[str] = []
        self._implementations: dict[type, type] = {}

    def implement(self, kind: type, implementation: type) -> None:
        """Use the static methods of `implementation` for arguments of the type `kind`.

        Raises TypeError if one is missing.
        """
        missing = [name for name in self._functions if not hasattr(implementation, name)]
        if missing:
            raise TypeError(f"{implementation.__name__} lacks {', '.join(missing)}")
        self._implementations[kind] = implementation

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


def _bare(function: Callable[..., Any]) -> Callable[..., Any]:
    """Hide a function's annotations from numba, which compares them when it should not."""
    signature = inspect.signature(function)
    parameters = [each.replace(annotation=each.empty) for each in signature.parameters.values()]
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return function


def _kernel_sources() -> Iterator[tuple[str, bytes]]:
    """Yield name and content of every file whose code can become part of a kernel."""
    package = Path(__file__).parents[1]
    for file in sorted(package.rglob("*.py")):
        name, content = file.relative_to(package), file.read_bytes()
        if name.parts[0] in _KERNEL_PACKAGES or _KERNEL_IMPORT in content:
            yield name.as_posix(), content
    for file in _plugin_files():
        yield file.name, file.read_bytes()


def _plugin_files() -> Iterator[Path]:
    """Yield the files of the packages that add games or search rules."""
    points = (point for group in _PLUGIN_GROUPS for point in entry_points(group=group))
    for package in sorted({point.module.partition(".")[0] for point in points}):
        spec = find_spec(package)
        if spec is None:
            continue
        for folder in spec.submodule_search_locations or ():
            yield from sorted(Path(folder).rglob("*.py"))
        if spec.origin and Path(spec.origin).is_file():
            yield Path(spec.origin)


def _cache_root() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "zerolab"


def _drop_stale_caches(root: Path, keep: Path) -> None:
    for folder in root.glob("kernels-*"):
        if folder != keep and time.time() - folder.stat().st_mtime > _STALE_CACHE_SECONDS:
            shutil.rmtree(folder, ignore_errors=True)


def _kernel_cache_folder() -> Path:
    """Return a folder named by a hash of the sources that can become part of kernels.

    Machine code contains the functions and constants that a kernel uses, but numba only notices
    edits in the kernel's own file. With one folder per state of the sources, none can be stale.
    """
    digest = hashlib.sha256(sys.version.encode())
    for name, content in _kernel_sources():
        digest.update(f"{name} {len(content)} ".encode() + content)
    root = _cache_root()
    folder = root / f"kernels-{digest.hexdigest()[:16]}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        _drop_stale_caches(root, folder)
    except OSError:
        folder = Path(tempfile.mkdtemp(prefix="zerolab-kernels-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


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
if not os.environ.get("NUMBA_CACHE_DIR"):
    numba.config.CACHE_DIR = str(_kernel_cache_folder())
if numba.config.DISABLE_JIT:
    np.seterr(over="ignore")  # 64-bit words wrap by intention, as they do in compiled code
