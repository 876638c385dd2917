"""A cache on disk of the machine code of kernels.

numba's own cache notices edits of a kernel's file only, and a type that another process does not
know spoils its index. Here each combination of kernel and types has its own file, named by a
digest of everything that the machine code depends on (docs/decisions/0001-compiled-pattern.md).
What cannot be read is compiled again.
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

from zerolab.core.code_digests import CodeDigest, syntax_of
from zerolab.core.errors import UserError
from zerolab.core.files import read_limited, read_text, write_bytes, write_text

_KERNEL_PACKAGES = ("rules", "games", "search", "oracles", "replay")
"""Packages of zerolab whose code, constants included, can become part of any kernel."""

_KERNEL_MODULES = ("core/compiled.py", "core/kernel_cache.py", "core/code_digests.py")
"""Modules elsewhere that decide what machine code is, or what an entry is for."""

_KERNEL_IMPORT = b"core.compiled"
"""Text by which all other modules that define kernels are recognised."""

_RUNNING = f"{sys.version} {numba.__version__} {llvmlite.__version__}"
_FLAGS = ("BOUNDSCHECK", "DEBUGINFO_DEFAULT", "LOOP_VECTORIZE", "OPT", "SLP_VECTORIZE")
"""Settings of numba that change its machine code."""

_SUFFIX = ".kernel"
_DIGEST_BYTES = 32
_MOST_BYTES_OF_ENTRY = 1 << 28
_MOST_BYTES_OF_NOTE = 100
_MOST_SECONDS_TO_WAIT = 120.0
MOST_BYTES = 1 << 30
"""Limit of all entries together; the least recently used are removed first."""
UNUSED_SECONDS = 30 * 24 * 3600.0
"""Age since its last use at which an entry is removed in any case."""


class KernelCache(_Cache):  # type: ignore[misc]
    """The entries of one kernel, with the methods that numba calls."""

    def __init__(
        self,
        function: Callable[..., Any],
        implementations: Callable[[type], Iterable[type]],
    ) -> None:
        """Cache `function`, whose kernels may call all `implementations` of their types."""
        self._function = function
        self._implementations = implementations
        self._paths: dict[tuple[Any, ...], Path | None] = {}

    @property
    def cache_path(self) -> str | None:
        """The folder of all kernels; None if there is no place for it."""
        folder = cache_folder()
        return None if folder is None else str(folder)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the machine code for the argument types `sig`; None if it cannot be loaded."""
        target_context.refresh()
        arguments, _ = normalize_signature(sig)
        path = self._known_path(arguments, target_context.codegen())
        if path is None:
            return None
        try:
            content = read_limited(path, _MOST_BYTES_OF_ENTRY)
            digest, payload = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
            if hashlib.sha256(payload).digest() != digest:
                return None
            parts = _Unpickler(io.BytesIO(payload), _classes(arguments)).load()
            loaded = CompileResult._rebuild(target_context, *parts)
            with suppress(OSError):
                os.utime(path)
        except Exception:  # damaged, unreadable, made for something else
            return None
        return loaded if tuple(loaded.signature.args) == tuple(arguments) else None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store new machine code, if there is room and permission to do so."""
        arguments, _ = normalize_signature(sig)
        path = self._known_path(arguments, data.codegen)
        if path is None or not self._is_lasting(data):
            return
        # No room, no permission, types that cannot be pickled: kernels work without the cache.
        with suppress(OSError, UserError, pickle.PicklingError, TypeError):
            file = io.BytesIO()
            _Pickler(file, _classes(arguments)).dump(data._reduce())
            payload = file.getvalue()
            path.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(path, hashlib.sha256(payload).digest() + payload)
            _tidy_once(path.parents[1])

    @contextmanager
    def alone(self, sig: Any, target_context: Any) -> Iterator[None]:
        """Hold a lock while compiling, so that other processes wait and then load the result.

        They stop waiting for a process that is halted or compiles for minutes.
        """
        target_context.refresh()
        arguments, _ = normalize_signature(sig)
        path = self._known_path(arguments, target_context.codegen())
        with ExitStack() as held:
            with suppress(OSError, NotImplementedError, Timeout):  # works without, too
                if path is not None and not path.exists():
                    path.parent.mkdir(parents=True, exist_ok=True)
                    lock = FileLock(path.with_suffix(".lock"), timeout=_MOST_SECONDS_TO_WAIT)
                    held.enter_context(lock)
            yield

    def flush(self) -> None:
        """Remove the machine code of this kernel."""
        folder = cache_folder()
        for path in folder.glob(f"{self._name()}-*{_SUFFIX}") if folder else ():
            path.unlink(missing_ok=True)

    def enable(self) -> None:
        """Do nothing: the cache is always in use."""

    def disable(self) -> None:
        """Do nothing: the cache is always in use."""

    def _name(self) -> str:
        module = self._function.__module__.rpartition(".")[2]
        return re.sub(r"\W", "_", f"{module}.{self._function.__qualname__}")

    def _known_path(self, arguments: Iterable[Any], codegen: Any) -> Path | None:
        """Return the file for these types; computed once, before the code can change in memory."""
        kinds = tuple(arguments)
        if kinds not in self._paths:
            self._paths[kinds] = self._path(kinds, codegen)
        return self._paths[kinds]

    def _path(self, arguments: Iterable[Any], codegen: Any) -> Path | None:
        folder = cache_folder()
        if folder is None:
            return None
        digest = CodeDigest(self._implementations, _is_hashed)
        digest.add_function(self._function)
        for kind in _classes(arguments):
            digest.add_type(kind)
        flags = [getattr(numba.config, name) for name in _FLAGS]
        facts = digest.hexdigest(), str(tuple(arguments)), codegen.magic_tuple(), flags
        key = hashlib.sha256(repr(facts).encode()).hexdigest()[:32]
        return folder / f"{self._name()}-{key}{_SUFFIX}"

    def _is_lasting(self, data: Any) -> bool:
        """Return whether another process can use this machine code.

        Code that reads large global arrays holds addresses of this process. A returned class that
        no module has would be created anew when unpickled, and differ from the one in use.
        """
        returned = _classes([data.signature.return_type])
        is_found = all(
            each.__module__ != "__main__" and "<locals>" not in each.__qualname__
            for each in returned
        )
        return is_found and not data.library.has_dynamic_globals


class _Pickler(NumbaPickler):  # type: ignore[misc]
    """Writes classes of arguments as indices.

    A class that a script or notebook defines would otherwise be copied, and machine code for the
    copy does not fit the class.
    """

    def __init__(self, file: io.BytesIO, classes: list[type[Any]]) -> None:
        super().__init__(file, protocol=4)
        self._classes = classes

    def persistent_id(self, value: Any) -> int | None:
        if isinstance(value, type) and value in self._classes:
            return self._classes.index(value)
        return None


class _Unpickler(pickle.Unpickler):
    """Reads what `_Pickler` has written; indices stand for the classes of the present arguments."""

    def __init__(self, file: io.BytesIO, classes: list[type[Any]]) -> None:
        super().__init__(file)
        self._classes = classes

    def persistent_load(self, place: Any) -> Any:
        return self._classes[place]


def _classes(kinds: Iterable[Any]) -> list[type]:
    """Return the distinct classes of all NamedTuples in some types, in order."""
    return list(dict.fromkeys(each for kind in kinds for each in _classes_in(kind)))


def _classes_in(kind: Any) -> Iterator[type]:
    if hasattr(kind, "instance_class"):
        yield kind.instance_class
    parts = [*getattr(kind, "types", ()), *getattr(kind, "field_dict", {}).values()]
    for part in [*parts, getattr(kind, "dtype", None)]:
        if part is not None and part is not kind:
            yield from _classes_in(part)


_PACKAGE = Path(__file__).parents[1]


def kernel_sources(package: Path = _PACKAGE) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of every file of zerolab that kernels can depend on."""
    for file in sorted(package.rglob("*.py")):
        name, content = file.relative_to(package), file.read_bytes()
        is_listed = name.parts[0] in _KERNEL_PACKAGES or name.as_posix() in _KERNEL_MODULES
        if is_listed or _KERNEL_IMPORT in content:
            yield name.as_posix(), content


@functools.cache
def _hashed_modules() -> tuple[frozenset[str], str]:
    """Return the modules of `kernel_sources`, and a digest of them and of what runs them.

    Parsing takes longer than everything else at the start of a process, so its result is kept on
    disk.
    """
    sources = dict(kernel_sources())
    package = __name__.partition(".")[0]
    modules = (name.removesuffix(".py").removesuffix("/__init__") for name in sources)
    known = frozenset(f"{package}.{module.replace('/', '.')}" for module in modules)
    raw = hashlib.sha256(_RUNNING.encode())
    for name, content in sources.items():
        raw.update(f"{name} {len(content)} ".encode() + content)
    root = _root()
    note = root / f"sources-{raw.hexdigest()[:32]}" if root else None
    with suppress(OSError, UserError):
        if note and re.fullmatch(r"[0-9a-f]{16}", kept := read_text(note, _MOST_BYTES_OF_NOTE)):
            os.utime(note)
            return known, kept
    digest = _digest_of_code(sources)
    with suppress(OSError, UserError):
        if note:
            note.parent.mkdir(parents=True, exist_ok=True)
            write_text(note, digest)
    return known, digest


def _digest_of_code(sources: Mapping[str, bytes]) -> str:
    """Return a digest of the syntax of some sources and of the versions that run them."""
    digest = hashlib.sha256(_RUNNING.encode())
    for name, content in sources.items():
        digest.update(f"{name} {syntax_of(content)} ".encode())
    return digest.hexdigest()[:16]


def _is_hashed(module: str) -> bool:
    return module in _hashed_modules()[0]


@functools.cache
def _root() -> Path | None:
    """Return the folder of all caches; None without an environment variable or home directory."""
    if own := os.environ.get("NUMBA_CACHE_DIR"):
        return Path(own)
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "zerolab")
    except RuntimeError:
        return None


def cache_folder() -> Path | None:
    """Return the folder for kernels of the present sources of zerolab, which may not exist yet.

    None if there is neither an environment variable that names a place nor a home directory.
    """
    root = _root()
    return None if root is None else root / f"kernels-{_hashed_modules()[1]}"


@functools.cache
def _tidy_once(root: Path) -> None:
    """Remove entries that have not been used for long, then the least recently used over the limit.

    Loading an entry renews its time. Other files, and links, are never touched.
    """
    found = []
    folders = [each for each in _named(root, "kernels-", 16) if stat.S_ISDIR(each.lstat().st_mode)]
    inside = (each for folder in folders for each in folder.iterdir() if _is_own(each))
    for path in (*inside, *_named(root, "sources-", 32)):
        with suppress(OSError):
            facts = path.lstat()
            if stat.S_ISREG(facts.st_mode):
                found.append((facts.st_mtime, facts.st_size, path))
    total, oldest = 0, time.time() - UNUSED_SECONDS
    for used, size, path in sorted(found, reverse=True):
        total += size
        if used < oldest or total > MOST_BYTES:
            with suppress(OSError):
                path.unlink()
    for folder in folders:
        with suppress(OSError):  # those in use are not empty
            folder.rmdir()


def _named(root: Path, prefix: str, digits: int) -> list[Path]:
    """Return the paths named by a prefix and a number of hexadecimal digits."""
    form = re.compile(f"{prefix}[0-9a-f]{{{digits}}}")
    return [each for each in root.iterdir() if form.fullmatch(each.name)]


def _is_own(path: Path) -> bool:
    return path.suffix in (_SUFFIX, ".lock", ".part")


_hashed_modules()  # at import: this process does not run code that is edited later
