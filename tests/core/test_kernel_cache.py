"""The kernel cache: invalidation, damaged entries, concurrency and cleaning."""

from __future__ import annotations

import ast
import os
import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numba
import pytest

import zerolab
from forks import Fork
from zerolab.core import kernel_cache
from zerolab.core.compiled import kernel

DOUBLING = """
from zerolab.core.compiled import CompiledInterface, kernel
PAIRS = CompiledInterface("pair")
@PAIRS.declare
def total(pair): ...
@kernel
def double(pair):
    return 2 * total(pair)
"""
SCRIPT = """
from typing import NamedTuple
from doubling import PAIRS, double
from constants import BONUS
class Pair(NamedTuple):
    one: int
    other: int
class Total:
    @staticmethod
    def total(pair):
        return pair.one + pair.other + BONUS
PAIRS.implement(Pair, Total)
print(double(Pair(1, 2)), len(double.stats.cache_hits))
"""
WAITING = """
import sys, time
from pathlib import Path
from zerolab.core.compiled import kernel
@kernel
def successor(number):
    return number + 1
Path(sys.argv[1]).touch()
while not (Path("one").exists() and Path("other").exists()):
    time.sleep(0.001)
successor(1)
print(len(successor.stats.cache_hits))
"""


IN_FORK = """
import runpy, sys
from zerolab.core import kernel_cache
kernel_cache.cache_root.cache_clear()  # do not use the server's cache
sys.dont_write_bytecode = True  # bytecode caches miss two edits within a second
sys.path.insert(0, "")
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.fixture
def folder_of_scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of processes, with their cache in the folder `cache`."""
    Fork(code="").finish()  # starts the server, if necessary, with the tests' own cache
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path


def _printed(process: Fork) -> str:
    printed, errors = process.finish()
    assert process.returncode == 0, errors
    return printed.strip()


def _run(script: str) -> str:
    return _printed(Fork(script, code=IN_FORK))


def _entries(folder: Path) -> list[Path]:
    return sorted((folder / "cache").rglob("*.kernel"))


def test_script_is_compiled_again_only_after_edit(folder_of_scripts: Path) -> None:
    folder = folder_of_scripts
    (folder / "doubling.py").write_text(DOUBLING)
    (folder / "constants.py").write_text("BONUS = 0\n")
    (folder / "script.py").write_text(SCRIPT)
    assert _run("script.py") == "6 0"
    (entry,) = _entries(folder)
    assert re.fullmatch(r"kernels-[0-9a-f]+", entry.parent.name)
    assert entry.parent.parent == folder / "cache"
    assert _run("script.py") == "6 1"
    assert _entries(folder) == [entry]
    (folder / "constants.py").write_text("BONUS = 10\n")
    assert _run("script.py") == "26 0", "imported modules count"


def _digest(package: Path) -> str:
    return kernel_cache._digest_of_code(dict(kernel_cache.kernel_sources(package)))


def _append(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with open(file, "a") as stream:
        stream.write(text)


def test_only_edits_of_kernel_code_start_new_cache(tmp_path: Path) -> None:
    """Kernel code consists of some whole packages and all modules that define kernels."""
    package = tmp_path / "zerolab"
    source = Path(zerolab.__file__).parent
    for part in ("core", "rules"):
        shutil.copytree(source / part, package / part)
    digests = {_digest(package)}
    for edited in ("rules/boards.py", "rules/notes.py", "core/streams.py", "agents/mine.py"):
        _append(package / edited, "from zerolab.core.compiled import kernel  # edited\n")
        digests.add(_digest(package))
    assert len(digests) == 5
    _append(package / "rules" / "boards.py", "# A comment.\n")
    _append(package / "core" / "errors.py", "NEW = 1\n")
    _append(package / "cli" / "words.py", "GREETING = 'hello'\n")
    assert _digest(package) in digests


@pytest.mark.parametrize(
    ("edited", "is_equal"),
    [
        ('"""Docs, better."""\nX = 1\ndef f():\n    "More."\n    return X\n', True),
        ('"""Docs."""\n\nX = 1  # why\ndef f():\n    "More."\n    return X\n"About X"\n', True),
        ('"""Docs."""\nX = 2\ndef f():\n    "More."\n    return X\n', False),
        ('"""Docs."""\nX = 1\ndef f():\n    "More."\n    return "X"\n', False),
    ],
)
def test_comments_and_docstrings_do_not_change_digest(edited: str, is_equal: bool) -> None:
    source = '"""Docs."""\nX = 1\ndef f():\n    "More."\n    return X\n'
    one, other = (
        kernel_cache._digest_of_code({"a.py": each.encode()}) for each in (source, edited)
    )
    assert (one == other) == is_equal


def test_every_module_that_defines_a_kernel_is_hashed() -> None:
    hashed = {name for name, _ in kernel_cache.kernel_sources()}
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
    assert {"games/gobang.py", "search/puct.py"} <= hashed, "types of interfaces"
    assert not any(name.startswith(("cli/", "training/")) for name in hashed)


def _is_kernel_code(function: ast.FunctionDef) -> bool:
    marks = {getattr(each, "id", "") for each in function.decorator_list}
    return bool(marks & {"kernel", "inlined"}) or (
        "staticmethod" in marks and function.returns is None
    )


def test_kernels_use_only_hashed_modules() -> None:
    hashed = dict(kernel_cache.kernel_sources())
    modules = {f"zerolab.{name.removesuffix('.py').replace('/', '.')}" for name in hashed}
    for name, source in hashed.items():
        tree = ast.parse(source)
        foreign = {
            alias.asname or alias.name: f"{node.module}.{alias.name}"
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("zerolab")
            for alias in node.names
            if not {node.module, f"{node.module}.{alias.name}"} & modules
        }
        used = {
            foreign[each.id]
            for function in ast.walk(tree)
            if isinstance(function, ast.FunctionDef) and _is_kernel_code(function)
            for each in ast.walk(function)
            if isinstance(each, ast.Name) and each.id in foreign
        }
        assert not used, name


@kernel
def _successor(number: Any) -> Any:
    return number + 1


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The parent folder of an empty cache for this test."""
    monkeypatch.setattr(kernel_cache, "cache_root", lambda: tmp_path / "cache")
    kernel_cache._tidy_once.cache_clear()
    return tmp_path


def _hits() -> int:
    """Compile a kernel as a new process would, and return the number of cache hits."""
    fresh = kernel(_successor.py_func)
    assert fresh(1) == 2
    return sum(fresh.stats.cache_hits.values())


def test_user_without_home_has_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", without_home)
    monkeypatch.setattr(os, "environ", {})
    assert kernel_cache.cache_root.__wrapped__() is None
    monkeypatch.setattr(os, "environ", {"XDG_CACHE_HOME": "/somewhere"})
    assert kernel_cache.cache_root.__wrapped__() == Path("/somewhere/zerolab")


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def _replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    "damage",
    [
        _cut,
        _replace_by_folder,
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(bytes(path.stat().st_size)),
        lambda path: path.write_bytes(path.read_bytes()[:-1] + b"?"),
        lambda path: (path.unlink(), os.mkfifo(path)),
    ],
)
def test_damaged_entry_is_compiled_again(own_cache: Path, damage: Any) -> None:
    assert _hits() == 0
    assert _hits() == 1
    (entry,) = _entries(own_cache)
    damage(entry)
    assert _hits() == 0
    if entry.is_file():
        assert _hits() == 1, "the damaged entry is replaced"


def test_unwritable_cache_compiles_every_time(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (own_cache / "cache").write_text("a file")
    assert _hits() == _hits() == 0
    too_long = own_cache / ("n" * 300)
    # A path that is too long behaves like a folder without access.
    monkeypatch.setattr(kernel_cache, "cache_root", lambda: too_long)
    assert _hits() == _hits() == 0
    monkeypatch.setattr(kernel_cache, "cache_root", lambda: None)
    assert _hits() == _hits() == 0


def test_concurrent_processes_compile_kernel_once(folder_of_scripts: Path) -> None:
    (folder_of_scripts / "waiting.py").write_text(WAITING)
    processes = [Fork("waiting.py", name, code=IN_FORK) for name in ("one", "other")]
    assert sorted(map(_printed, processes)) == ["0", "1"]


def test_different_processors_have_separate_entries() -> None:
    cache = kernel(_successor.py_func)._cache

    def path_on(processor: str) -> Path | None:
        codegen = SimpleNamespace(magic_tuple=lambda: ("x86_64", processor, "+avx2"))
        return cache._path((numba.types.int64,), codegen)

    assert path_on("znver4") != path_on("skylake")
    assert path_on("znver4") == path_on("znver4")


def test_numba_flags_have_separate_entries(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _hits() == 0
    monkeypatch.setattr(numba.config, "BOUNDSCHECK", 1)
    assert _hits() == 0


def test_unused_entries_are_removed_first(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _hits() == 0
    (entry,) = _entries(own_cache)
    root = own_cache / "cache"
    (root / "kernels-fedcba9876543210").symlink_to(own_cache / "linked")
    old_folder = root / "kernels-0123456789abcdef"
    unused = [entry.with_name("unused.kernel")]
    unused += [old_folder / ".a.kernel.1.part", old_folder / "a.lock"]
    foreign = [
        entry.with_name("notes.txt"), root / "kernels-mine" / "a.kernel", root / "sources-of-mine",
        own_cache / "linked" / "a.kernel",
    ]  # fmt: skip
    for path in (*unused, *foreign):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(100))
        os.utime(path, (0, 0))
    os.utime(entry, (0, 0))
    assert _hits() == 1, "a hit renews the entry's time"
    kernel_cache._tidy_once.cache_clear()
    kernel_cache._tidy_once(own_cache / "cache")
    assert entry.exists()
    assert all(each.exists() for each in foreign)
    assert not any(each.exists() for each in unused)
    assert not old_folder.exists()

    older = entry.with_name("older.kernel")
    older.write_bytes(bytes(100))
    os.utime(older, (entry.stat().st_mtime - 10,) * 2)
    monkeypatch.setattr(kernel_cache, "MAX_CACHE_BYTES", entry.stat().st_size + 99)
    kernel_cache._tidy_once.cache_clear()
    kernel_cache._tidy_once(own_cache / "cache")
    assert entry.exists()
    assert not older.exists()
