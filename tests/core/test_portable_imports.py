"""Imports of zerolab, which need no Unix-only names."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import zerolab

SOURCES = Path(zerolab.__file__).parent

UNIX_MODULES = {
    "crypt", "curses", "fcntl", "grp", "nis", "posix", "pty", "pwd", "readline", "resource",
    "spwd", "syslog", "termios", "tty",
}  # fmt: skip
"""Modules of the standard library that Python for Windows lacks."""

UNIX_NAMES = {
    "os": {
        "fork", "forkpty", "getegid", "geteuid", "getgid", "getloadavg", "getpgid", "getuid",
        "killpg", "mkfifo", "nice", "register_at_fork", "sched_getaffinity", "sched_setaffinity",
        "setpgrp", "setsid", "statvfs", "uname", "wait4", "waitid",
    },
    "signal": {
        "SIGALRM", "SIGCHLD", "SIGCONT", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGQUIT", "SIGSTOP",
        "SIGTSTP", "SIGUSR1", "SIGUSR2", "SIGWINCH", "alarm", "pthread_sigmask", "setitimer",
    },
}  # fmt: skip
"""Attributes of portable modules that Python for Windows lacks."""


def _executed_by_import(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes below `node` that run on import: all but functions and type checking."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            for decorator in getattr(child, "decorator_list", []):
                yield from (decorator, *_executed_by_import(decorator))
            continue
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        yield child
        yield from _executed_by_import(child)


def _unix_only(source: str) -> list[str]:
    """Return the Unix-only names used by importing a module."""
    found = []
    for node in _executed_by_import(ast.parse(source)):
        match node:
            case ast.Import(names):
                found += [each.name for each in names if each.name in UNIX_MODULES]
            case ast.ImportFrom(module, names):
                found += [module] if module in UNIX_MODULES else []
                known = UNIX_NAMES.get(module or "", set())
                found += [f"{module}.{each.name}" for each in names if each.name in known]
            case ast.Attribute(ast.Name(owner), name) if name in UNIX_NAMES.get(owner, ()):
                found.append(f"{owner}.{name}")
    return found


def test_no_module_imports_what_only_unix_has() -> None:
    found = {
        str(path.relative_to(SOURCES)): names
        for path in sorted(SOURCES.rglob("*.py"))
        if (names := _unix_only(path.read_text("utf-8")))
    }
    assert found == {}


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("import os, resource", ["resource"]),
        ("from pwd import getpwuid", ["pwd"]),
        ("from os import killpg", ["os.killpg"]),
        ("class A:\n    number = signal.SIGHUP", ["signal.SIGHUP"]),
        ("try:\n    import fcntl\nfinally:\n    pass", ["fcntl"]),
        ("def f():\n    import resource\n    return os.fork()", []),
        ("import signal\nnumber = signal.SIGINT", []),
    ],
)
def test_imports_are_found(source: str, names: list[str]) -> None:
    assert _unix_only(source) == names
