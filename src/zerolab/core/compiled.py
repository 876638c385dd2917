"""The compiled pattern: kernels written once, specialised by the types of their arguments.

A value that changes what a kernel does is a ``NamedTuple`` such as ``Othello(rows=6, columns=6)``
or ``Puct(c=1.0)``. A *family* is a set of such types together with the functions that each of
them provides. Inside a kernel, calling a function of a family picks the implementation by the
type of its first argument, at compile time; in plain Python (and with ``NUMBA_DISABLE_JIT=1``) it
picks the same implementation at run time. ``docs/decisions/0001`` tells why.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import inspect
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np
from numba.core.caching import FunctionCache
from numba.extending import overload

_PLUGIN_GROUPS = ("zerolab.games", "zerolab.search")
"""Entry points by which other packages add code to kernels."""

_Function = TypeVar("_Function", bound=Callable[..., Any])
_STALE_CACHE_SECONDS = 30 * 24 * 3600.0


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function that plain Python calls; the machine code is kept on disk.

    Kernels release the interpreter lock, so that several threads can search at once, and divide
    as numpy does: by zero gives an infinity, without a check that would stop vectorisation.
    """
    compiled = numba.njit(nogil=True, error_model="numpy")(function)
    if not numba.config.DISABLE_JIT:
        compiled._cache = _KernelCache(function)
    return compiled


def inlined(function: Callable[..., Any]) -> Any:
    """Compile a helper that only kernels call; its code becomes part of each of them.

    Inlining is forced: a call would copy every array header of a structure of arrays.
    """
    return numba.njit(nogil=True, error_model="numpy", forceinline=True)(function)


class _KernelCache(FunctionCache):  # type: ignore[misc]
    """numba's cache on disk, which does without entries it cannot read.

    A kernel's index names the types it was compiled for. Those of a module that is no longer
    there, such as a stranger's rule, make numba fail to read the whole index.
    """

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except (ImportError, AttributeError):
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except (ImportError, AttributeError):
            self.flush()
            super().save_overload(sig, data)


class CompiledInterface:
    """Types that implement the same functions, such as all games or all selection rules."""

    def __init__(self, noun: str) -> None:
        self.noun = noun
        self._implementations: dict[type, type] = {}

    def implement(self, kind: type, implementation: type) -> None:
        """Let `implementation`'s static methods serve arguments of the type `kind`."""
        self._implementations[kind] = implementation

    def implementation(self, kind: type) -> type:
        """Return the class whose static methods serve `kind`."""
        if kind not in self._implementations:
            raise TypeError(f"{kind.__name__} is not registered as a {self.noun}")
        return self._implementations[kind]

    def function(self, interface: _Function) -> _Function:
        """Turn a signature and its docstring into a function dispatched on its first argument."""
        name = interface.__name__

        @functools.wraps(interface)
        def dispatched(first: Any, *others: Any) -> Any:
            return getattr(self.implementation(type(first)), name)(first, *others)

        def specialise(*arguments: Any, **named: Any) -> Callable[..., Any] | None:
            first = arguments[0] if arguments else next(iter(named.values()))
            kind = getattr(first, "instance_class", None)
            return None if kind is None else _bare(getattr(self.implementation(kind), name))

        specialise.__name__ = name
        specialise.__signature__ = _bare(interface).__signature__  # type: ignore[attr-defined]
        overload(dispatched, jit_options={"error_model": "numpy", "forceinline": True})(specialise)
        return dispatched  # type: ignore[return-value]


def _bare(function: Callable[..., Any]) -> Callable[..., Any]:
    """Hide a function's annotations from numba, which compares them when it should not."""
    signature = inspect.signature(function)
    parameters = [each.replace(annotation=each.empty) for each in signature.parameters.values()]
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return function


def _source_files() -> list[Path]:
    """List every file whose code a kernel may contain: this package and registered games."""
    files = sorted(Path(__file__).parents[1].rglob("*.py"))
    for point in (point for group in _PLUGIN_GROUPS for point in entry_points(group=group)):
        spec = find_spec(point.module.partition(".")[0])
        for place in (spec.submodule_search_locations or []) if spec else []:
            files += sorted(Path(place).rglob("*.py"))
        if spec and spec.origin:
            files.append(Path(spec.origin))
    return [file for file in files if file.is_file()]


def _cache_root() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "zerolab"


def _drop_stale_caches(root: Path, keep: Path) -> None:
    for folder in root.glob("kernels-*"):
        if folder != keep and time.time() - folder.stat().st_mtime > _STALE_CACHE_SECONDS:
            shutil.rmtree(folder, ignore_errors=True)


def _kernel_cache_folder() -> Path:
    """Return a folder named by a hash of all sources.

    A compiled kernel contains the functions it calls, but numba only notices edits in the
    kernel's own file. A folder for each state of the sources makes stale machine code impossible.
    """
    digest = hashlib.sha256(sys.version.encode())
    for file in _source_files():
        digest.update(file.name.encode() + file.read_bytes())
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


if not os.environ.get("NUMBA_CACHE_DIR"):
    numba.config.CACHE_DIR = str(_kernel_cache_folder())
if numba.config.DISABLE_JIT:
    np.seterr(over="ignore")  # 64-bit words wrap by intention, as they do in compiled code
