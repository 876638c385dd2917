"""Type, bounds, default and documentation of every setting of a model, and units of numbers."""

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

from zerolab.core.config import VariantListMarker, VariantSettings
from zerolab.core.nested_tables import flatten

_TYPES = {int: "whole number", float: "number", str: "text", bool: "true or false"}
_PAPER_SENTENCE = re.compile(r"(?:^|(?<=[.;] ))\[[A-Z]\w*\](?:, \[|:)")
_MAX_DECIMAL = 10**9  # larger bounds such as 2**63 are written as powers


class Unit(NamedTuple):
    """Unit of a number in a record, as an annotation of its field."""

    name: str


class SettingDescription(NamedTuple):
    """Description of a setting."""

    key: str
    """Dotted key, such as ``search.selection.c``."""
    variant: str
    """Variant to which the setting belongs, such as ``puct``; empty if it belongs to none."""
    type: str
    """Kind of value, such as "whole number" or "all | random | none"."""
    bounds: str
    """Bounds in words, such as "from 1 to 64"; empty if there are none."""
    default: Any
    """Default value, or None if there is none; a description if it depends on the machine."""
    description: str
    """Meaning of the setting, in one paragraph."""
    papers: str
    """Values used in papers, by citation key; may be empty."""


def describe_settings(
    model: type[BaseModel], prefix: str = "", variant: str = ""
) -> Iterator[SettingDescription]:
    """Yield every setting of a model and its variants, in order of declaration.

    Settings shared by several variants, such as the heads of networks, are yielded once.
    """
    yielded: set[tuple[str, str]] = set()
    for setting in _all_settings(model, prefix, variant):
        if (setting.key, setting.variant) not in yielded:
            yielded.add((setting.key, setting.variant))
            yield setting


def _all_settings(
    model: type[BaseModel], prefix: str, variant: str
) -> Iterator[SettingDescription]:
    documentation = field_documentation(model)
    for name, field in model.model_fields.items():
        if name == "name" and issubclass(model, VariantSettings):
            continue
        key = prefix + name
        texts = _split_papers(documentation.get(name, ""))
        models, listed = _models(field.annotation), _list_variants(field.annotation)
        if listed:
            yield SettingDescription(
                key, variant, f"list of {_names(listed)}", "", field.default, *texts
            )
            for settings_class in listed:
                listed_name = settings_class.model_fields["name"].default
                yield from _all_settings(settings_class, f"{key}.{listed_name}.", listed_name)
        elif not models:
            bounds, default = _bounds(field.metadata), _default(field)
            yield SettingDescription(key, variant, _type(field.annotation), bounds, default, *texts)
        elif issubclass(models[0], VariantSettings):
            default = field.get_default(call_default_factory=True).name
            yield SettingDescription(key, variant, _names(models), "", default, *texts)
            for each in models:
                yield from _all_settings(each, f"{key}.", each.model_fields["name"].default)
        else:
            yield from _all_settings(models[0], f"{key}.", variant)


def _names(variants: Sequence[type[BaseModel]]) -> str:
    return " | ".join(each.model_fields["name"].default for each in variants)


def flatten_settings(table: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the keys in nested tables, in the form of `SettingDescription.key`, and their values.

    Lists of tables are flattened as by `flatten` with `into_lists`. The value at the key of a
    variant is the variant's name. Empty tables are left out.
    """
    for key, value in flatten(table, into_lists=True):
        if value != {}:
            yield key.removesuffix(".name"), value


def field_documentation(model: type[BaseModel]) -> dict[str, str]:
    """Return the documentation of the fields of a model, each on one line, by name.

    The documentation of a field is the string below it. For variants created from a NamedTuple, it
    can also follow the name of the field and a colon in the docstring.
    """
    classes: list[type] = [each for each in reversed(model.__mro__) if issubclass(each, BaseModel)]
    if issubclass(model, VariantSettings):
        classes.append(type(model.model_validate({}).build()))
    documentation: dict[str, str] = {}
    for each in classes:
        documentation |= _fields_in_docstring(each) | _attribute_docstrings(each)
    return {name: " ".join(text.split()) for name, text in documentation.items()}


def _attribute_docstrings(class_: type) -> dict[str, str]:
    """Return the docstrings below the fields of a class, by field name."""
    body = _class_bodies(class_.__module__).get(class_.__qualname__, [])
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
    """Return the statements of each top-level class of a module, by class name."""
    try:
        source = inspect.getsource(sys.modules[module])
    except (OSError, TypeError):
        return {}
    return {
        node.name: node.body for node in ast.parse(source).body if isinstance(node, ast.ClassDef)
    }


def _fields_in_docstring(class_: type) -> dict[str, str]:
    """Return the notes on fields in a NamedTuple's docstring, as in ``c: 1 in [Wang2019]``."""
    fields = getattr(class_, "_fields", ())
    if not fields:
        return {}
    parts = re.split(rf"(?:^|\s)({'|'.join(fields)}): ", inspect.getdoc(class_) or "")
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def _default(field: FieldInfo) -> Any:
    """Return the default of a field, as text if it depends on the machine."""
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


def _list_variants(annotation: Any) -> list[type[VariantSettings]]:
    """Return the variants that an annotation allows in a list."""
    if get_origin(annotation) is not tuple:
        return []
    marks = getattr(get_args(annotation)[0], "__metadata__", ())
    return [
        settings_class
        for mark in marks
        if isinstance(mark, VariantListMarker)
        for settings_class in mark.registry.values()
    ]


def _split_papers(text: str) -> tuple[str, str]:
    """Split a text in two before its first sentence about a paper, such as ``[Wang2019]: 20``."""
    match = _PAPER_SENTENCE.search(text)
    if match is None:
        return text, ""
    return text[: match.start()].strip(), text[match.start() :]


def _models(annotation: Any) -> list[type[BaseModel]]:
    """Return the models in an annotation that is a model or a union of models."""
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
    """Return the bounds in words, from constraints of annotated_types."""
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
    if isinstance(value, int) and value > _MAX_DECIMAL and value.bit_count() == 1:
        return f"2**{value.bit_length() - 1}"
    return f"{value:,}"
