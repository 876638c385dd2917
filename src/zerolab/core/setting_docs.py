"""Descriptions of settings: type, bounds, default and documentation of every key of a model."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from zerolab.core.config import AmongMany, Variant

_TYPES = {int: "whole number", float: "number", str: "text", bool: "true or false"}
_SENTENCE_OF_A_PAPER = re.compile(r"(?:^|(?<=[.;] ))\[[A-Z]\w*\](?:, \[|:)")
_MOST_EXCLUSIVE = 10**9  # bounds such as 2**63 are written as powers


class Setting(NamedTuple):
    """One key that a user can set."""

    key: str
    """Dotted, such as ``search.selection.c``."""
    variant: str
    """The variant it belongs to, such as ``puct``; empty if it always exists."""
    type: str
    """The kind of value, such as "whole number" or "all | random | none"."""
    bounds: str
    """Such as "from 1 to 64"; empty if there are none."""
    default: Any
    """None where unset; in words where it depends on the machine."""
    description: str
    """The meaning, in one paragraph."""
    papers: str
    """The values that papers use, by citation key; may be empty."""


def describe_settings(
    model: type[BaseModel], prefix: str = "", variant: str = ""
) -> Iterator[Setting]:
    """Yield every setting of a model and of its variants, in their order.

    Settings that several variants share, such as the heads of networks, are yielded once.
    """
    yielded: set[tuple[str, str]] = set()
    for setting in _described(model, prefix, variant):
        if (setting.key, setting.variant) not in yielded:
            yielded.add((setting.key, setting.variant))
            yield setting


def _described(model: type[BaseModel], prefix: str, variant: str) -> Iterator[Setting]:
    documentation = field_documentation(model)
    for name, field in model.model_fields.items():
        if name == "name" and issubclass(model, Variant):
            continue
        key, text = prefix + name, documentation.get(name, "")
        models, listed = _models(field.annotation), _listed(field.annotation)
        if listed:
            yield _listing(key, variant, field, text, listed)
            for kind in listed:
                listed_name = kind.model_fields["name"].default
                yield from _described(kind, f"{key}.{listed_name}.", listed_name)
        elif not models:
            yield _setting(key, variant, field, text)
        elif issubclass(models[0], Variant):
            yield _choosing(key, variant, field, text, models)
            for each in models:
                yield from _described(each, f"{key}.", each.model_fields["name"].default)
        else:
            yield from _described(models[0], f"{key}.", variant)


def flatten_settings(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted keys and values of nested tables; the key of a variant gives its name.

    The key of a list of variants gives their names; the settings of each follow below its name.
    """
    for name, value in table.items():
        if isinstance(value, list | tuple) and any(isinstance(each, Mapping) for each in value):
            yield prefix + name, tuple(each["name"] for each in value)
            for each in value:
                yield from flatten_settings(each, f"{prefix}{name}.{each['name']}.")
        elif isinstance(value, Mapping):
            if "name" in value:
                yield prefix + name, value["name"]
            yield from flatten_settings(value, f"{prefix}{name}.")
        elif name != "name":
            yield prefix + name, value


def field_documentation(model: type[BaseModel]) -> dict[str, str]:
    """Return the documentation of a model's fields, each on one line, by name.

    It is taken from the string below each field; for variants made from a NamedTuple also from the
    docstring, where it follows the field's name and a colon.
    """
    classes: list[type] = [each for each in reversed(model.__mro__) if issubclass(each, BaseModel)]
    if issubclass(model, Variant):
        classes.append(type(model.model_validate({}).build()))
    found: dict[str, str] = {}
    for each in classes:
        found |= _listed_fields(each) | _attribute_docstrings(each)
    return {name: " ".join(text.split()) for name, text in found.items()}


def _attribute_docstrings(kind: type) -> dict[str, str]:
    """Return the strings below the fields of a class, by field name."""
    body = _class_bodies(kind.__module__).get(kind.__qualname__, [])
    return {
        field.target.id: str(doc.value.value)
        for field, doc in pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(doc, ast.Expr)
        and isinstance(doc.value, ast.Constant)
    }


@cache
def _class_bodies(module: str) -> dict[str, list[ast.stmt]]:
    """Return the statements of each class of a module, except for classes made by functions."""
    try:
        source = inspect.getsource(sys.modules[module])
    except (OSError, TypeError):
        return {}
    return {
        node.name: node.body for node in ast.parse(source).body if isinstance(node, ast.ClassDef)
    }


def _listed_fields(kind: type) -> dict[str, str]:
    """Return the notes on fields in a NamedTuple's docstring, as in ``c: 1 in [Wang2019]``."""
    fields = getattr(kind, "_fields", ())
    if not fields:
        return {}
    parts = re.split(rf"(?:^|\s)({'|'.join(fields)}): ", inspect.getdoc(kind) or "")
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def _setting(key: str, variant: str, field: FieldInfo, text: str) -> Setting:
    description, papers = _split_papers(text)
    bounds, default = _bounds(field.metadata), _default(field)
    return Setting(key, variant, _type(field.annotation), bounds, default, description, papers)


def _default(field: FieldInfo) -> Any:
    """Return a field's default, in words where its value depends on the machine."""
    if field.is_required():
        return None
    extra = field.json_schema_extra
    words = extra.get("default") if isinstance(extra, dict) else None
    return words or field.get_default(call_default_factory=True)


def _tuple_type(members: Sequence[Any]) -> str:
    if members[1:] != (...,):
        return " and ".join(_type(each) for each in members)
    noun, comma, bounds = _type(members[0]).partition(",")
    plural = noun if get_origin(members[0]) is Literal else f"{noun}s"
    return f"list of {plural}{comma}{bounds}"


def _choosing(
    key: str, variant: str, field: FieldInfo, text: str, members: Sequence[type[BaseModel]]
) -> Setting:
    description, papers = _split_papers(text)
    names = " | ".join(each.model_fields["name"].default for each in members)
    default = field.get_default(call_default_factory=True).name
    return Setting(key, variant, names, "", default, description, papers)


def _listed(annotation: Any) -> list[type[Variant]]:
    """Return the variants that an annotation allows in a list."""
    if get_origin(annotation) is not tuple:
        return []
    marks = getattr(get_args(annotation)[0], "__metadata__", ())
    return [
        kind for mark in marks if isinstance(mark, AmongMany) for kind in mark.registry.values()
    ]


def _listing(
    key: str, variant: str, field: FieldInfo, text: str, members: Sequence[type[Variant]]
) -> Setting:
    description, papers = _split_papers(text)
    names = " | ".join(each.model_fields["name"].default for each in members)
    return Setting(key, variant, f"list of {names}", "", field.default, description, papers)


def _split_papers(text: str) -> tuple[str, str]:
    """Split off the sentences that begin with the key of a paper, such as ``[Wang2019]: 20``."""
    found = _SENTENCE_OF_A_PAPER.search(text)
    if found is None:
        return text, ""
    return text[: found.start()].strip(), text[found.start() :]


def _models(annotation: Any) -> list[type[BaseModel]]:
    """Return the models that an annotation allows, alone or as a union."""
    kinds = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    return [each for each in kinds if isinstance(each, type) and issubclass(each, BaseModel)]


def _type(annotation: Any) -> str:
    arguments = get_args(annotation)
    origin = get_origin(annotation)
    if origin is Literal:
        return " | ".join(map(str, arguments))
    if origin in (Union, UnionType):
        return " or ".join(_type(each) for each in arguments if each is not NoneType)
    if origin is tuple:
        return _tuple_type(arguments)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return "table"
    if hasattr(annotation, "__metadata__"):
        return ", ".join(filter(None, (_type(arguments[0]), _bounds(annotation.__metadata__))))
    return _TYPES.get(annotation, getattr(annotation, "__name__", str(annotation)))


def _bounds(metadata: Sequence[Any]) -> str:
    """Return bounds in words, from constraints of annotated_types."""
    bounds = {
        name: getattr(each, name)
        for each in metadata
        for name in ("gt", "ge", "lt", "le")
        if getattr(each, name, None) is not None
    }
    if {"ge", "le"} <= bounds.keys():
        return f"from {_number(bounds['ge'])} to {_number(bounds['le'])}"
    words = {"gt": "more than", "ge": "at least", "lt": "less than", "le": "at most"}
    return ", ".join(f"{words[name]} {_number(value)}" for name, value in bounds.items())


def _number(value: float) -> str:
    if isinstance(value, int) and value > _MOST_EXCLUSIVE and value.bit_count() == 1:
        return f"2**{value.bit_length() - 1}"
    return f"{value:,}"
