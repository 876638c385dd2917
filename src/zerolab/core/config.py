"""Immutable settings, validated before work starts, with a one-line message for every error.

Models, variants and messages share a file because they refer to each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, reduce
from operator import itemgetter, or_
from types import NoneType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, get_args, get_type_hints

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializeAsAny,
    ValidationError,
    create_model,
    model_validator,
)

from zerolab.core.errors import UserError, closest_value, did_you_mean, one_line, quoted
from zerolab.core.nested_tables import expand_variant_name, flatten, truth_values_as_text

_MAX_ERRORS = 20
_MAX_REPR = 70


class Settings(BaseModel):
    """Base class of all settings: immutable, and without unknown keys, NaN or infinity."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_default=True, allow_inf_nan=False
    )

    @model_validator(mode="before")
    @classmethod
    def _reject_truth_values_as_numbers(cls, data: Any) -> Any:
        """Replace booleans in numeric settings with text; pydantic would accept them as 1 and 0."""
        if not isinstance(data, Mapping):
            return data
        return {
            name: truth_values_as_text(value) if _is_numeric(cls, name) else value
            for name, value in data.items()
        }

    def model_dump(self, **options: Any) -> dict[str, Any]:
        """Return the settings as nested dictionaries without None, which TOML cannot express."""
        return super().model_dump(**{"exclude_none": True, **options})

    def __repr__(self) -> str:
        """Return a short line with the settings that differ from their defaults."""
        changed = flatten(self.model_dump(exclude_defaults=True, mode="json"))
        text = ", ".join(f"{key}={value}" for key, value in changed)
        short = text if len(text) <= _MAX_REPR else f"{text[:_MAX_REPR]}..."
        return f"{type(self).__name__}({short})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as plain data, since the classes of some variants are created at run time."""
        return type(self).model_validate, (self.model_dump(mode="json"),)


@lru_cache(4096)
def _is_numeric(model: type[BaseModel], name: str) -> bool:
    """Return whether a setting takes numbers, or lists of them, but neither text nor bool."""
    field = model.model_fields.get(name)
    leaves = list(_leaves(field.annotation)) if field else []
    has_numbers = any(each in (int, float) or type(each) is int for each in leaves)
    return has_numbers and not any(each in (bool, str) for each in leaves)


def _leaves(annotation: Any) -> Iterator[Any]:
    """Yield the types and literal values in an annotation."""
    for each in get_args(annotation) or [annotation]:
        yield from [each] if each is annotation else _leaves(each)


class VariantSettings(Settings):
    """Base class of settings selected by ``name``, such as a network or a selection rule."""

    name: str

    def build(self) -> Any:
        """Return the value that the settings describe; by default, the settings themselves."""
        return self


_Settings = TypeVar("_Settings", bound=Settings)


def variant_settings_class(value_type: Any, name: str) -> type[VariantSettings]:
    """Create the settings class for a NamedTuple type from its annotated fields.

    For ``class Puct(NamedTuple): c: Annotated[float, Field(gt=0)] = 1.0``, the settings have the
    keys ``name`` and ``c``, and their `build` method returns a ``Puct``.
    """
    defaults = value_type._field_defaults
    fields: dict[str, Any] = {
        field: (annotation, defaults.get(field, ...))
        for field, annotation in get_type_hints(value_type, include_extras=True).items()
    }

    def build(self: VariantSettings) -> Any:
        return value_type(*(getattr(self, field) for field in value_type._fields))

    fields["name"] = (Literal[name], name)
    model = create_model(value_type.__name__ + "Settings", __base__=VariantSettings, **fields)
    model.build = build  # type: ignore[method-assign]
    model.__doc__ = value_type.__doc__
    return model


def variant_annotation(registry: Mapping[str, type[VariantSettings]]) -> Any:
    """Return the annotation of a setting whose value is one of the registered variants.

    A string selects the variant of that name with its defaults, as in ``learn.loss=product``.
    """
    models = tuple(registry.values())
    expand = BeforeValidator(expand_variant_name)
    if len(models) == 1:
        return Annotated[models[0], expand]
    return Annotated[reduce(or_, models), Field(discriminator="name"), expand]


class VariantListMarker(NamedTuple):
    """Marker in the annotation of items in a list of registered variants."""

    registry: Mapping[str, type[VariantSettings]]


def variant_list_annotation(registry: Mapping[str, type[VariantSettings]]) -> Any:
    """Return the annotation of a setting whose value is a list of registered variants.

    A string selects the variant of that name with its defaults, as in `variant_annotation`. Names
    are looked up when settings are validated, so variants can be registered later.
    """

    def parse_item(value: Any) -> VariantSettings:
        if isinstance(value, VariantSettings):
            return value
        table = expand_variant_name(value)
        name = table.get("name") if isinstance(table, Mapping) else None
        if not isinstance(name, str):
            raise ValueError(f"{quoted(value)}: expected one of {', '.join(registry)}")
        try:
            return validate(registry[name], table)
        except UserError as error:
            raise ValueError(str(error).replace("\n", "; ")) from None

    item = Annotated[
        SerializeAsAny[VariantSettings], BeforeValidator(parse_item), VariantListMarker(registry)
    ]
    return tuple[item, ...]


def validate(model: type[_Settings], data: Mapping[str, Any], source: str = "") -> _Settings:
    """Return `data` as validated settings; raise UserError with one line per error."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise settings_error(model, error, source) from None


def settings_error(model: type[BaseModel], error: ValidationError, source: str = "") -> UserError:
    """Return a UserError with one line for each of the first 20 errors that pydantic reports.

    Each line begins with `source`, the file or text of the settings.
    """
    prefix = f"{one_line(source)}: " if source else ""
    details = error.errors(include_url=False)
    paths = [each["loc"] for each in details]
    parents = {path[:length] for path in paths for length in range(len(path))}
    # pydantic also reports a list with invalid items as too short.
    details = [
        each for each in details if each["type"] != "too_short" or each["loc"] not in parents
    ]
    lines = [prefix + _explain(model, detail) for detail in details[:_MAX_ERRORS]]
    if others := len(details) - len(lines):
        noun = "error" if others == 1 else "errors"
        lines.append(f"{prefix}and {others:,} more {noun}")
    return UserError("\n".join(lines))


def fill_in_variant_names(model: type[BaseModel], data: dict[str, Any]) -> None:
    """Add the default variant's name to each variant table that has none, in place.

    ``selection.c = 2`` then changes the default selection rule if no rule is named.
    """
    for key, field in model.model_fields.items():
        table = data.get(key)
        if not isinstance(table, dict):
            continue
        default = None if field.is_required() else field.get_default(call_default_factory=True)
        variants = _variants_at([key], model)
        if isinstance(default, VariantSettings) and default.name in variants and table:
            table.setdefault("name", default.name)
        inner = variants.get(str(table.get("name"))) or (
            type(default) if isinstance(default, BaseModel) else _only_model(field.annotation)
        )
        if inner is not None:
            fill_in_variant_names(inner, table)


_EXPECTATIONS = {
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "literal_error": "{expected}",
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number with fewer digits",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_parsing": "a number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "string_type": "a string",
    "tuple_type": "a list",
    "too_short": "a list of at least {min_length}",
    "too_long": "a list of at most {max_length}",
    "dict_type": "a table of settings",
    "model_type": "a table of settings",
    "model_attributes_type": "a table of settings",
    "union_tag_invalid": "one of {expected_tags}",
}


class _Location(NamedTuple):
    """Location of an error in the settings."""

    key: str
    """Dotted key."""
    model: type[BaseModel] | None
    """Model at the key; None if the value is not a model."""


def _locate(model: type[BaseModel], path: Sequence[int | str]) -> _Location:
    """Return the location that pydantic describes with `path`."""
    keys: list[str] = []
    current: type[BaseModel] | None = model
    for part in path:
        if current is not None and part in current.model_fields:
            keys.append(str(part))
            current = _only_model(_without_none(current.model_fields[str(part)].annotation))
            continue
        variants = {} if current else _variants_at(keys, model)
        if part in variants:
            current = variants[str(part)]
        else:
            keys.append(str(part))
    return _Location(".".join(keys), current)


def _without_none(annotation: Any) -> Any:
    """Return the type of an optional setting; return any other annotation unchanged."""
    members = get_args(annotation)
    return members[0] if members[1:] == (NoneType,) else annotation


def _only_model(annotation: Any) -> type[BaseModel] | None:
    is_model = isinstance(annotation, type) and issubclass(annotation, BaseModel)
    return annotation if is_model else None


def _variants_at(keys: Sequence[str], model: type[BaseModel]) -> dict[str, type[BaseModel]]:
    """Return the variants that can be selected at `keys`, by name."""
    annotation: Any = model
    for key in keys:
        inner = _only_model(annotation)
        if inner is None or key not in inner.model_fields:
            return {}
        annotation = inner.model_fields[key].annotation
    members = [member for member in map(_only_model, get_args(annotation)) if member]
    return {
        member.model_fields["name"].default: member
        for member in members
        if issubclass(member, VariantSettings)
    }


def _explain_unknown(model: type[BaseModel], path: Sequence[int | str]) -> str:
    """Return the message for an unknown key, which may belong to a variant that is not selected."""
    parent, name = _locate(model, path[:-1]), str(path[-1])
    prefix = f"{parent.key}." if parent.key else ""
    siblings = _variants_at(parent.key.split("."), model)
    owners = [variant for variant, settings in siblings.items() if name in settings.model_fields]
    if owners and parent.model:
        selected = parent.model.model_fields["name"].default
        alternatives = " or ".join(map(quoted, owners))
        return (
            f"{prefix}{name} belongs to {parent.key} = {alternatives}, but {parent.key} ="
            f" {quoted(selected)} here: expected {parent.key}={' or '.join(owners)}"
        )
    suggestion = suggested_setting_key(model, prefix + name, parent.model)
    hint = f"; did you mean {quoted(suggestion)}?" if suggestion else ""
    return f"unknown setting {quoted(prefix + name)}{hint}"


def _explain(model: type[BaseModel], detail: Mapping[str, Any]) -> str:
    """Return the message for an error that pydantic reports."""
    error_type, context = detail["type"], detail.get("ctx", {})
    path = detail["loc"]
    if error_type == "extra_forbidden":
        return _explain_unknown(model, path)
    key = _locate(model, path).key
    if error_type == "missing":
        return f"{key} is missing"
    if error_type == "value_error":
        return f"{key}: {context['error']}" if key else str(context["error"])
    if error_type == "union_tag_not_found":
        names = ", ".join(_variants_at(key.split("."), model))
        return f"{key}.name is missing: expected one of {names}"
    if error_type == "union_tag_invalid":
        tag = str(context["tag"])
        tags = [name.strip("' ") for name in str(context["expected_tags"]).split(",")]
        expected = f"expected one of {', '.join(tags)}{did_you_mean(tag, tags)}"
        return f"{key}.name = {quoted(tag)}: {expected}"
    expectation = _EXPECTATIONS.get(error_type)
    expected = expectation.format(**context) if expectation else one_line(detail["msg"])
    if error_type == "model_attributes_type" and (variants := _variants_at(key.split("."), model)):
        expected = f"one of {', '.join(variants)}"
    hint = ""
    if error_type == "literal_error" and isinstance(detail["input"], str):
        hint = did_you_mean(detail["input"], expected.split("'")[1::2])
    return f"{key} = {quoted(detail['input'])}: expected {expected}{hint}"


_MIN_SIMILARITY = 0.5
_MIN_SIMILARITY_ELSEWHERE = 0.8  # for a setting in another table


def suggested_setting_key(
    model: type[BaseModel], key: str, parent: type[BaseModel] | None = None
) -> str:
    """Return the dotted key of the setting that an unknown key probably means, or "".

    A setting whose name or initials equal the last part of the key takes precedence. Otherwise, the
    result is the most similar field of `parent`, the table that lacks the key, or a setting in
    another table with a very similar name, if that is more similar.
    """
    prefix, _, name = key.rpartition(".")
    if named := find_setting_key(model, name):
        return named
    start = f"{prefix}." if prefix else ""
    fields = [start + each for each in parent.model_fields] if parent else []
    by_key = {each.casefold(): each for each in fields}
    by_name = {each.rpartition(".")[2].casefold(): each for each in _sorted_keys(model)[::-1]}
    matches = [
        *closest_value(key.casefold(), by_key, _MIN_SIMILARITY),
        *closest_value(name.casefold(), by_name, _MIN_SIMILARITY_ELSEWHERE),
    ]
    return max(matches, key=itemgetter(0))[1] if matches else ""


def find_setting_key(model: type[BaseModel], name: str) -> str:
    """Return the shortest dotted key whose last part is `name` or else has `name` as its initials.

    Returns "" if there is no such key.
    """
    keys = _sorted_keys(model)
    folded = name.casefold().replace("-", "_")
    for spelling in (str.casefold, _initials):
        for key in keys:
            if spelling(key.rpartition(".")[2]) == folded:
                return key
    return ""


def _sorted_keys(model: type[BaseModel]) -> list[str]:
    """Return the dotted keys of all settings, shortest first."""
    return sorted(set(_keys(model)), key=lambda each: (each.count("."), len(each)))


def _initials(name: str) -> str:
    """Return the initials of several words; for a single word, ".", which matches no setting."""
    words = name.casefold().split("_")
    return "".join(word[:1] for word in words) if len(words) > 1 else "."


def _keys(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Yield the dotted keys of all settings in a model and its variants."""
    for name, field in model.model_fields.items():
        key = prefix + name
        models = list(_models(field.annotation))
        if not models and name != "name":
            yield key
        for inner in models:
            yield from _keys(inner, f"{key}.")


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models in an annotation that is a model or a union of models."""
    for each in (annotation, *get_args(annotation)):
        if isinstance(each, type) and issubclass(each, BaseModel):
            yield each
