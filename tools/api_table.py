"""Table of the public interface, for `generate_tables.py`."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Any

import zerolab
from zerolab.ratings.ratings import EloDifference, Rating
from zerolab.ratings.results import MatchScore
from zerolab.ratings.sprt import SprtVerdict
from zerolab.report.table import Interval
from zerolab.search.evaluator import Evaluation
from zerolab.search.roots import ChildStatistics, NodeStatistics, SearchResult
from zerolab.store.games import GameRecord

_WIDEST = 100
"""Maximum line length in code blocks."""

_RESULT_TYPES = (
    ChildStatistics, EloDifference, Evaluation, GameRecord, Interval, MatchScore,
    NodeStatistics, Rating, SearchResult, SprtVerdict,
)  # fmt: skip
"""Types of results, and their parts, that are not public names themselves."""


def api() -> str:
    """Return all public names with signatures and the first paragraphs of their docstrings.

    The types of their results follow.
    """
    values = [(name, getattr(zerolab, name)) for name in zerolab.__all__]
    functions = [each for each in values if inspect.isfunction(each[1])]
    classes = [each for each in values if inspect.isclass(each[1])]
    constants = [f"- `{name}`: {value}\n" for name, value in values if isinstance(value, int)]
    results = [(each.__name__, each) for each in _RESULT_TYPES]
    sections = {"Functions": functions, "Classes": classes, "Types of results": results}
    documented = [
        f"## {title}\n\n" + "\n".join(_documented(name, value) for name, value in members)
        for title, members in sections.items()
    ]
    return "\n".join([*documented, "## Constants\n\n" + "".join(constants)])


def _documented(name: str, value: Any) -> str:
    """Return the entry of a function, or of a class with its public members.

    The constructor of a class is included if it has a docstring.
    """
    heading = f"### `{name}`\n\n"
    if not inspect.isclass(value):
        return f"{heading}```python\n{signature(name, value)}\n```\n\n{summary(value)}\n"
    members = [_constructor(name, value), _fields_of(value)]
    members += [_member(each, member) for each, member in vars(value).items() if each[0] != "_"]
    lines = "".join(f"- {member}\n" for member in members if member)
    return f"{heading}{summary(value)}\n" + (f"\n{lines}" if lines else "")


def _constructor(name: str, kind: type[Any]) -> str:
    """Return the line of a constructor with a docstring, otherwise ""."""
    create = vars(kind).get("__init__")
    if create is None or not create.__doc__ or is_dataclass(kind):
        return ""
    call = one_line(signature(name, create)).removesuffix(" -> None")
    return f"`{call}`: {summary(create)}"


def _fields_of(kind: type[Any]) -> str:
    """Return a line with the fields of a named tuple or dataclass."""
    if not is_dataclass(kind) and not issubclass(kind, tuple):
        return ""
    fields = ", ".join(f"`{name}: {_type(text)}`" for name, text in kind.__annotations__.items())
    return f"fields: {fields}"


def _type(annotation: Any) -> str:
    """Return an annotation as written in the source, unwrapping those of named tuples."""
    return str(getattr(annotation, "__forward_arg__", annotation))


def _member(name: str, member: Any) -> str:
    """Return the line of a method or property, or "" for other members."""
    if isinstance(member, property):
        return f"`{name}`: {summary(member)}"
    function = getattr(member, "__func__", member)
    if not inspect.isfunction(function):
        return ""
    return f"`{one_line(signature(name, function))}`: {summary(function)}"


def signature(name: str, function: Callable[..., Any]) -> str:
    """Return a function's name and signature, with one parameter per line if it is too long."""
    inspected = inspect.signature(function)
    parameters = []
    for key, parameter in inspected.parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in parameters:
            parameters.append("*")
        if key not in ("self", "cls"):
            parameters.append(f"{key}: {parameter.annotation}{_default(parameter)}")
    line = f"{name}({', '.join(parameters)}) -> {inspected.return_annotation}"
    if len(line) <= _WIDEST:
        return line
    lines = "".join(f"    {each},\n" for each in parameters)
    return f"{name}(\n{lines}) -> {inspected.return_annotation}"


def _default(parameter: inspect.Parameter) -> str:
    """Return `` = DEFAULT``, with ``...`` for functions because their addresses change."""
    if parameter.default is parameter.empty:
        return ""
    if inspect.isfunction(parameter.default):
        return " = ..."
    is_text = isinstance(parameter.default, str)
    return f" = {json.dumps(parameter.default) if is_text else parameter.default}"


def summary(documented: Any) -> str:
    """Return the first paragraph of a docstring as one line."""
    paragraph = (documented.__doc__ or "").strip().split("\n\n")[0]
    return " ".join(paragraph.replace("``", "`").split())


def one_line(text: str) -> str:
    """Return a text with single spaces instead of line breaks and indentation."""
    return " ".join(text.split())
