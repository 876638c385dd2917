"""Measure the files, function lengths and public names of source trees.

python tools/code_size.py src ../before/src
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

_SMALL_FILE = 50  # lines


class Size(NamedTuple):
    """Size of a source tree; function lengths are in lines without docstrings."""

    files: int
    small_files: int
    lines: int
    code_lines: int
    median_file: float
    functions: int
    median_function: float
    p90_function: float
    longest_function: int
    public_names: int


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield every function and method of a module, including nested ones."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the number of lines in a function without its docstring and decorators."""
    docstring = function.body[0] if ast.get_docstring(function, clean=False) else None
    end = function.end_lineno or function.lineno
    lines = end - function.lineno + 1
    if docstring is None:
        return lines
    return lines - ((docstring.end_lineno or docstring.lineno) - docstring.lineno + 1)


def code_lines(source: str, tree: ast.Module) -> int:
    """Return the number of lines that are not blank, comments or docstrings."""
    strings = {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    return sum(
        number not in strings and bool(line.strip()) and not line.lstrip().startswith("#")
        for number, line in enumerate(source.splitlines(), 1)
    )


def public_names(tree: ast.Module) -> int:
    """Return the number of public functions, classes and methods in a module."""
    names = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    methods = [
        method
        for node in names
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
        for method in node.body
        if isinstance(method, ast.FunctionDef)
    ]
    return sum(not node.name.startswith("_") for node in [*names, *methods])


def measure(root: Path) -> Size:
    """Measure all Python files under a folder."""
    sources = [path.read_text("utf-8") for path in sorted(root.rglob("*.py"))]
    trees = [ast.parse(source) for source in sources]
    lines = [source.count("\n") for source in sources]
    lengths = sorted(length(each) for tree in trees for each in functions(tree))
    return Size(
        len(sources), sum(count < _SMALL_FILE for count in lines), sum(lines),
        sum(map(code_lines, sources, trees)), median(lines), len(lengths),
        median(lengths), quantiles(lengths, n=10)[-1], lengths[-1],
        sum(map(public_names, trees)),
    )  # fmt: skip


def main(names: Sequence[str]) -> int:
    """Print the size of each source tree; return 2, with a message, if one has no Python files."""
    for name in names:
        if not any(Path(name).rglob("*.py")):
            print(f"{name}: expected a folder with Python files, such as src", file=sys.stderr)
            return 2
    for name in names:
        print(name)
        for field, value in measure(Path(name))._asdict().items():
            print(f"  {field:18} {value:g}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["src"]))
