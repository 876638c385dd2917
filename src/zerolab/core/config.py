"""Immutable settings, validated before work starts, with one line of explanation per mistake.

Models, variants and messages share a file because they refer to each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, get_args, get_type_hints

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializeAsAny,
    ValidationError,
    create_model,
)

from zerolab.core.errors import UserError, nearest, one_line, quoted
from zerolab.core.nested_tables import named_table

_MAX_MISTAKES = 20


class Settings(BaseModel):
    """Base class of all settings: immutable, and without unknown keys, NaN or infinity."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_default=True, allow_inf_nan=False
    )

    def model_dump(self, **options: Any) -> dict[str, Any]:
        """Return the settings as nested dictionaries without None, which TOML cannot express."""
        return super().model_dump(**{"exclude_none": True, **options})

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as plain data, since the classes of some variants are created at run time."""
        return type(self).model_validate, (self.model_dump(mode="json"),)


class Variant(Settings):
    """Base class of settings selected by ``name``, such as a network or a selection rule."""

    name: str

    def build(self) -> Any:
        """Return the value that the settings describe; by default, the settings themselves."""
        return self


_Settings = TypeVar("_Settings", bound=Settings)


def variant_from(kind: Any, name: str) -> type[Variant]:
    """Create the settings class of a compiled-pattern type from its annotated fields.

    For ``class Puct(NamedTuple): c: Annotated[float, Field(gt=0)] = 1.0``, the settings have the
    keys ``name`` and ``c``, and their `build` method returns a ``Puct``.
    """
    defaults = kind._field_defaults
    fields: dict[str, Any] = {
        field: (annotation, defaults.get(field, ...))
        for field, annotation in get_type_hints(kind, include_extras=True).items()
    }

    def build(self: Variant) -> Any:
        return kind(*(getattr(self, field) for field in kind._fields))

    fields["name"] = (Literal[name], name)
    model = create_model(kind.__name__ + "Settings", __base__=Variant, **fields)
    model.build = build  # type: ignore[method-assign]
    model.__doc__ = kind.__doc__
    return model


def variant_among(registry: Mapping[str, type[Variant]]) -> Any:
    """Return the annotation of a setting whose value is one of the registered variants.

    A string selects the variant of that name with its defaults, as in ``learn.loss=product``.
    """
    kinds = tuple(registry.values())
    if len(kinds) == 1:
        return Annotated[kinds[0], BeforeValidator(named_table)]
    return Annotated[reduce(or_, kinds), Field(discriminator="name"), BeforeValidator(named_table)]


class AmongMany(NamedTuple):
    """Marker of the item annotation in a list of registered variants."""

    registry: Mapping[str, type[Variant]]


def variants_among(registry: Mapping[str, type[Variant]]) -> Any:
    """Return the annotation of a setting whose value is a list of registered variants.

    A string selects the variant of that name with its defaults, as in `variant_among`. Names are
    looked up when settings are validated, so variants can be registered later.
    """

    def parse_item(value: Any) -> Variant:
        if isinstance(value, Variant):
            return value
        table = named_table(value)
        name = table.get("name") if isinstance(table, Mapping) else None
        if not isinstance(name, str):
            raise ValueError(f"{quoted(value)}: expected one of {', '.join(registry)}")
        try:
            return validate(registry[name], table)
        except UserError as error:
            raise ValueError(str(error).replace("\n", "; ")) from None

    item = Annotated[SerializeAsAny[Variant], BeforeValidator(parse_item), AmongMany(registry)]
    return tuple[item, ...]


def require_even(games: int) -> int:
    """Return `games`; raise ValueError unless both players can move first in half of them."""
    if games % 2:
        raise ValueError(
            f"{games} is odd: expected an even number such as {games + 1}, so that each side moves"
            " first in half of the games"
        )
    return games


def validate(model: type[_Settings], data: Mapping[str, Any], source: str = "") -> _Settings:
    """Return `data` as validated settings; raise UserError with one line per mistake."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise settings_error(model, error, source) from None


def settings_error(model: type[BaseModel], error: ValidationError, source: str = "") -> UserError:
    """Return a UserError with one line for each of the first 20 mistakes that pydantic reports.

    Each line begins with `source`, the file or text of the settings.
    """
    prefix = f"{one_line(source)}: " if source else ""
    mistakes = error.errors(include_url=False)
    lines = [prefix + _explain(model, mistake) for mistake in mistakes[:_MAX_MISTAKES]]
    if others := len(mistakes) - len(lines):
        lines.append(f"{prefix}and {others:,} more mistakes")
    return UserError("\n".join(lines))


_EXPECTATIONS = {
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "literal_error": "{expected}",
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number of fewer digits",
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


class _Spot(NamedTuple):
    """Location of a mistake in the settings."""

    key: str
    """Dotted key."""
    model: type[BaseModel] | None
    """Model at the key; None if the value is not a model."""


def _locate(model: type[BaseModel], location: Sequence[int | str]) -> _Spot:
    keys: list[str] = []
    current: type[BaseModel] | None = model
    for part in location:
        if current is not None and part in current.model_fields:
            keys.append(str(part))
            current = _only_model(current.model_fields[str(part)].annotation)
            continue
        variants = {} if current else _variants_at(keys, model)
        if part in variants:
            current = variants[str(part)]
        else:
            keys.append(str(part))
    return _Spot(".".join(keys), current)


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
        if issubclass(member, Variant)
    }


def _explain_unknown(model: type[BaseModel], location: Sequence[int | str]) -> str:
    """Return the message for an unknown key, which may belong to a variant not selected."""
    spot, name = _locate(model, location[:-1]), str(location[-1])
    prefix = f"{spot.key}." if spot.key else ""
    siblings = _variants_at(spot.key.split("."), model)
    owners = [variant for variant, kind in siblings.items() if name in kind.model_fields]
    if owners and spot.model:
        selected = spot.model.model_fields["name"].default
        alternatives = " or ".join(map(quoted, owners))
        return (
            f"{prefix}{name} belongs to {spot.key} = {alternatives}, but {spot.key} ="
            f" {quoted(selected)} here: expected {spot.key}={owners[0]} first"
        )
    known = [prefix + field for field in spot.model.model_fields] if spot.model else []
    return f"unknown setting {quoted(prefix + name)}{nearest(prefix + name, known)}"


def _explain(model: type[BaseModel], mistake: Mapping[str, Any]) -> str:
    kind, context = mistake["type"], mistake.get("ctx", {})
    location = mistake["loc"]
    if kind == "extra_forbidden":
        return _explain_unknown(model, location)
    key = _locate(model, location).key
    if kind == "missing":
        return f"{key} is missing"
    if kind == "value_error":
        return f"{key}: {context['error']}" if key else str(context["error"])
    if kind == "union_tag_not_found":
        names = ", ".join(_variants_at(key.split("."), model))
        return f"{key}.name is missing: expected one of {names}"
    if kind == "union_tag_invalid":
        tag = str(context["tag"])
        tags = [name.strip("' ") for name in str(context["expected_tags"]).split(",")]
        expected = f"expected one of {', '.join(tags)}{nearest(tag, tags)}"
        return f"{key}.name = {quoted(tag)}: {expected}"
    expectation = _EXPECTATIONS.get(kind)
    expected = expectation.format(**context) if expectation else one_line(mistake["msg"])
    if kind == "model_attributes_type" and (variants := _variants_at(key.split("."), model)):
        expected = f"one of {', '.join(variants)}"
    hint = ""
    if kind == "literal_error" and isinstance(mistake["input"], str):
        hint = nearest(mistake["input"], expected.split("'")[1::2])
    return f"{key} = {quoted(mistake['input'])}: expected {expected}{hint}"
