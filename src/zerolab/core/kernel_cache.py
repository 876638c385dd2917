"""Disk cache of the machine code of kernels.

numba's built-in cache detects only edits to the file that defines a kernel, and its index breaks
for types that another process cannot import. This cache has one file for each combination of kernel
and types, named by a digest of everything that determines the machine code
(docs/decisions/0001-compiled-pattern.md). Kernels whose entries cannot be read are compiled again.
"""

from __future__ import annotations

import functools
import hashlib
import io
import os
import pickle
import re
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import llvmlite  # type: ignore[import-untyped]
import numba
from filelock import FileLock, Timeout
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.serialize import NumbaPickler
from numba.core.sigutils import normalize_signature

from zerolab.core.code_digests import CodeDigest, syntax_tree_text
from zerolab.core.errors import UserError
from zerolab.core.files import read_file, read_text, write_bytes, write_text

_KERNEL_PACKAGES = ("rules", "games", "search", "oracles", "replay")
"""zerolab's packages whose code or constants can become part of any kernel."""

_KERNEL_MODULES = tuple(
    f"core/{name}.py"
    for name in ("compiled", "inlining", "fragments", "kernel_cache", "code_digests")
)
"""Other modules that determine machine code or the keys of cache entries."""

_KERNEL_IMPORT = b"core.compiled"
"""Text that identifies all other modules that define kernels."""

_VERSIONS = f"{sys.version} {numba.__version__} {llvmlite.__version__}"
_FLAGS = ("BOUNDSCHECK", "DEBUGINFO_DEFAULT", "LOOP_VECTORIZE", "OPT", "SLP_VECTORIZE")
"""numba settings that affect machine code."""

_SUFFIX = ".kernel"
_DIGEST_BYTES = 32
_MAX_ENTRY_BYTES = 1 << 28
_MAX_NOTE_BYTES = 100
_MAX_WAIT_SECONDS = 120.0
MAX_CACHE_BYTES = 1 << 30
"""Limit on the total size of all entries; the least recently used are removed first."""
_MAX_UNUSED_SECONDS = 30 * 24 * 3600.0
"""Seconds since its last use after which an entry is always removed."""


class KernelCache(_Cache):  # type: ignore[misc]
    """Cache entries of one kernel, with the methods that numba calls."""

    def __init__(
        self,
        function: Callable[..., Any],
        implementations: Callable[[type], Iterable[type]],
    ) -> None:
        """Cache kernels compiled from `function`.

        `implementations` returns the implementations of a type, which the kernels may call.
        """
        self._function = function
        self._implementations = implementations
        self._paths: dict[tuple[Any, ...], Path | None] = {}

    @property
    def cache_path(self) -> str | None:
        """Folder of all kernels; None if no location is known."""
        folder = kernel_cache_folder()
        return None if folder is None else str(folder)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the machine code for the argument types `sig`; None if it cannot be loaded."""
        target_context.refresh()
        arguments, _ = normalize_signature(sig)
        path = self._path_computed_once(arguments, target_context.codegen())
        if path is None:
            return None
        try:
            content = read_file(path, _MAX_ENTRY_BYTES)
            digest, payload = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
            if hashlib.sha256(payload).digest() != digest:
                return None
            parts = _Unpickler(io.BytesIO(payload), _classes(arguments)).load()
            result = CompileResult._rebuild(target_context, *parts)
            with suppress(OSError):
                os.utime(path)
        except Exception:  # damaged, unreadable, or for other types
            return None
        return result if tuple(result.signature.args) == tuple(arguments) else None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store new machine code if disk space and permissions allow it."""
        arguments, _ = normalize_signature(sig)
        path = self._path_computed_once(arguments, data.codegen)
        if path is None or not self._is_portable(data):
            return
        # Kernels work without the cache if the disk is full, permissions are missing or types
        # cannot be pickled.
        with suppress(OSError, UserError, pickle.PicklingError, TypeError):
            file = io.BytesIO()
            _Pickler(file, _classes(arguments)).dump(data._reduce())
            payload = file.getvalue()
            path.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(path, hashlib.sha256(payload).digest() + payload)
            _tidy_once(path.parents[1])

    @contextmanager
    def compilation_lock(self, sig: Any, target_context: Any) -> Iterator[None]:
        """Lock a kernel during its compilation; other processes wait and then load the result.

        The wait lasts at most two minutes, in case the compiling process is suspended.
        """
        target_context.refresh()
        arguments, _ = normalize_signature(sig)
        path = self._path_computed_once(arguments, target_context.codegen())
        with ExitStack() as stack:
            # Without a lock, several processes may compile the same kernel, which is harmless.
            with suppress(OSError, NotImplementedError, Timeout):
                if path is not None and not path.exists():
                    path.parent.mkdir(parents=True, exist_ok=True)
                    lock = FileLock(path.with_suffix(".lock"), timeout=_MAX_WAIT_SECONDS)
                    stack.enter_context(lock)
            yield

    def flush(self) -> None:
        """Remove the machine code of this kernel."""
        folder = kernel_cache_folder()
        for path in folder.glob(f"{self._name()}-*{_SUFFIX}") if folder else ():
            path.unlink(missing_ok=True)

    def enable(self) -> None:
        """Do nothing, since the cache is always enabled."""

    def disable(self) -> None:
        """Do nothing, since the cache is always enabled."""

    def _name(self) -> str:
        module = self._function.__module__.rpartition(".")[2]
        return re.sub(r"\W", "_", f"{module}.{self._function.__qualname__}")

    def _path_computed_once(self, arguments: Iterable[Any], codegen: Any) -> Path | None:
        """Return the path of the entry for some argument types.

        The path is computed only once, because code in memory may change after its compilation.
        """
        types = tuple(arguments)
        if types not in self._paths:
            self._paths[types] = self._path(types, codegen)
        return self._paths[types]

    def _path(self, arguments: Iterable[Any], codegen: Any) -> Path | None:
        folder = kernel_cache_folder()
        if folder is None:
            return None
        digest = CodeDigest(self._implementations, _hashed_modules()[0].__contains__)
        digest.add_function(self._function)
        for each in _classes(arguments):
            digest.add_type(each)
        flags = [getattr(numba.config, name) for name in _FLAGS]
        facts = digest.hexdigest(), str(tuple(arguments)), codegen.magic_tuple(), flags
        key = hashlib.sha256(repr(facts).encode()).hexdigest()[:32]
        return folder / f"{self._name()}-{key}{_SUFFIX}"

    def _is_portable(self, data: Any) -> bool:
        """Return True if another process can use this machine code.

        Code that reads large global arrays contains memory addresses of this process. Unpickling a
        return type whose class cannot be imported would create a second, different class.
        """
        return_classes = _classes([data.signature.return_type])
        are_importable = all(
            each.__module__ != "__main__" and "<locals>" not in each.__qualname__
            for each in return_classes
        )
        return are_importable and not data.library.has_dynamic_globals


class _Pickler(NumbaPickler):  # type: ignore[misc]
    """Pickler that writes the classes of arguments as indices.

    Otherwise a class defined in a script or notebook would be copied, and machine code for the copy
    would not accept the original class.
    """

    def __init__(self, file: io.BytesIO, classes: list[type[Any]]) -> None:
        super().__init__(file, protocol=4)
        self._classes = classes

    def persistent_id(self, value: Any) -> int | None:
        if isinstance(value, type) and value in self._classes:
            return self._classes.index(value)
        return None


class _Unpickler(pickle.Unpickler):
    """Unpickler that replaces the indices written by `_Pickler` with the current classes."""

    def __init__(self, file: io.BytesIO, classes: list[type[Any]]) -> None:
        super().__init__(file)
        self._classes = classes

    def persistent_load(self, index: Any) -> Any:
        return self._classes[index]


def _classes(numba_types: Iterable[Any]) -> list[type]:
    """Return the distinct classes of all NamedTuples in the given types, in order."""
    return list(dict.fromkeys(each for whole in numba_types for each in _classes_in(whole)))


def _classes_in(whole: Any) -> Iterator[type]:
    if hasattr(whole, "instance_class"):
        yield whole.instance_class
    parts = [*getattr(whole, "types", ()), *getattr(whole, "field_dict", {}).values()]
    for part in [*parts, getattr(whole, "dtype", None)]:
        if part is not None and part is not whole:
            yield from _classes_in(part)


_PACKAGE = Path(__file__).parents[1]


def kernel_sources(package: Path = _PACKAGE) -> Iterator[tuple[str, bytes]]:
    """Yield the name and content of every zerolab file that can affect kernels."""
    for file in sorted(package.rglob("*.py")):
        name, content = file.relative_to(package), file.read_bytes()
        is_listed = name.parts[0] in _KERNEL_PACKAGES or name.as_posix() in _KERNEL_MODULES
        if is_listed or _KERNEL_IMPORT in content:
            yield name.as_posix(), content


@functools.cache
def _hashed_modules() -> tuple[frozenset[str], str]:
    """Return the modules of `kernel_sources`, and a digest of their code and of library versions.

    The digest is stored on disk, since parsing the sources takes longer than any other part of
    process startup.
    """
    sources = dict(kernel_sources())
    package = __name__.partition(".")[0]
    modules = (name.removesuffix(".py").removesuffix("/__init__") for name in sources)
    module_names = frozenset(f"{package}.{module.replace('/', '.')}" for module in modules)
    raw = hashlib.sha256(_VERSIONS.encode())
    for name, content in sources.items():
        raw.update(f"{name} {len(content)} ".encode() + content)
    root = cache_root()
    note = root / f"sources-{raw.hexdigest()[:32]}" if root else None
    with suppress(OSError, UserError):
        if note and re.fullmatch(r"[0-9a-f]{16}", stored := read_text(note, _MAX_NOTE_BYTES)):
            os.utime(note)
            return module_names, stored
    digest = _digest_of_code(sources)
    with suppress(OSError, UserError):
        if note:
            note.parent.mkdir(parents=True, exist_ok=True)
            write_text(note, digest)
    return module_names, digest


def _digest_of_code(sources: Mapping[str, bytes]) -> str:
    """Return a digest of source files' syntax and of the versions of Python, numba and llvmlite."""
    digest = hashlib.sha256(_VERSIONS.encode())
    for name, content in sources.items():
        digest.update(f"{name} {syntax_tree_text(content)} ".encode())
    return digest.hexdigest()[:16]


@functools.cache
def cache_root() -> Path | None:
    """Return the folder of all caches; None if no variable or home directory determines it."""
    if folder := os.environ.get("NUMBA_CACHE_DIR"):
        return Path(folder)
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "zerolab")
    except RuntimeError:
        return None


def kernel_cache_folder() -> Path | None:
    """Return the folder, which may not exist yet, for kernels of the current zerolab sources.

    Returns None if there is neither a home directory nor an environment variable for the folder.
    """
    root = cache_root()
    return None if root is None else root / f"kernels-{_hashed_modules()[1]}"


@functools.cache
def _tidy_once(root: Path) -> None:
    """Remove entries unused for 30 days, and the least recently used ones beyond the size limit.

    Loading an entry updates its modification time. Other files and links are not touched.
    """
    files = []
    folders = [
        each
        for each in _paths_with_digest(root, "kernels-", 16)
        if stat.S_ISDIR(each.lstat().st_mode)
    ]
    suffixes = _SUFFIX, ".lock", ".part"
    entries = (each for folder in folders for each in folder.iterdir() if each.suffix in suffixes)
    for path in (*entries, *_paths_with_digest(root, "sources-", 32)):
        with suppress(OSError):
            status = path.lstat()
            if stat.S_ISREG(status.st_mode):
                files.append((status.st_mtime, status.st_size, path))
    total, oldest = 0, time.time() - _MAX_UNUSED_SECONDS
    for used, size, path in sorted(files, reverse=True):
        total += size
        if used < oldest or total > MAX_CACHE_BYTES:
            with suppress(OSError):
                path.unlink()
    for folder in folders:
        with suppress(OSError):  # folders in use are not empty
            folder.rmdir()


def _paths_with_digest(root: Path, prefix: str, digits: int) -> list[Path]:
    """Return the paths whose names consist of a prefix and `digits` hexadecimal digits."""
    pattern = re.compile(f"{prefix}[0-9a-f]{{{digits}}}")
    return [each for each in root.iterdir() if pattern.fullmatch(each.name)]


_hashed_modules()  # at import, because later edits do not affect this process
