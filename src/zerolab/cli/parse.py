"""Call functions with command-line arguments.

The parameters of a function are the options of its command, and its docstring is the help. Names
in braces, such as ``{presets}``, stand for lists of registered things. They are looked up only when
the help is shown, because some take half a second to import.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import tyro
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from zerolab.core.errors import UserError, one_line, quoted

Assignments = Annotated[
    tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="KEY=VALUE")
]
"""A repeatable --set option."""

AgentSpec = tyro.conf.Positional[Annotated[str, tyro.conf.arg(metavar="AGENT")]]
"""A positional argument that names an agent."""

_POSITIONAL: Any = tyro.conf.Positional
_LONGEST_WORD = 80  # in the messages of tyro, which quote values in full


def call(function: Callable[..., Any], command: str, arguments: Sequence[str]) -> None:
    """Call a function with the options in the arguments.

    Raises UserError with one line for wrong options, where tyro would draw a box.
    """
    _require_utf8(arguments)
    text = inspect.getdoc(function) or ""
    if not {"-h", "--help"}.isdisjoint(arguments):
        text = with_lists(text)
    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors):
            bound = tyro.cli(
                _binding(function, text),
                args=list(arguments),
                prog=f"zerolab {command}",
                description=_description(text),
                config=(tyro.conf.FlagCreatePairsOff, tyro.conf.HelptextFromCommentsOff),
                registry=_constructors(),
            )
    except SystemExit as ended:
        if not ended.code:
            raise
        message = _shortened(_first_paragraph(errors.getvalue()))
        raise UserError(f"{message} (see zerolab {command} --help)") from None
    bound()


def _require_utf8(arguments: Sequence[str]) -> None:
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            raise UserError(f"{quoted(argument)}: expected text in UTF-8") from None


def _binding(function: Callable[..., Any], text: str) -> Callable[..., Any]:
    """Return a function for tyro that binds its arguments without a call."""

    def bind(*positional: Any, **named: Any) -> Callable[[], Any]:
        return functools.partial(function, *positional, **named)

    signature = inspect.signature(function)
    hints = get_type_hints(function, include_extras=True)
    parameters = [
        each.replace(annotation=_labelled(each, hints[each.name]))
        for each in signature.parameters.values()
    ]
    bind.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    bind.__annotations__ = {each.name: each.annotation for each in parameters}
    bind.__doc__ = re.sub(r"\n {8,}", " ", text)  # tyro keeps some line breaks in long help texts
    return bind


def _labelled(parameter: inspect.Parameter, hint: Any) -> Any:
    """Return a type hint with its placeholder in the help, unless it has one.

    Positional ones and texts have their names, such as GAME; the others, their types.
    """
    metadata = getattr(hint, "__metadata__", ())
    if any(hasattr(each, "metavar") for each in metadata):
        return hint
    options: dict[str, Any] = {}
    if any(parameter.default is each for each in (None, False, (), "", parameter.empty)):
        options["help_behavior_hint"] = ""  # the help explains the default
    if _POSITIONAL in metadata:
        options["metavar"] = _positional_label(parameter, hint)
    elif _without_none(_plain(hint)) is str:
        options["metavar"] = parameter.name.upper()
    return Annotated[hint, tyro.conf.arg(**options)] if options else hint


def _positional_label(parameter: inspect.Parameter, hint: Any) -> str:
    label = parameter.name.upper()
    if get_origin(_plain(hint)) is tuple:
        return f"[{label.removesuffix('S')} ...]"
    return label if parameter.default is parameter.empty else f"[{label}]"


def _plain(hint: Any) -> Any:
    return hint.__origin__ if get_origin(hint) is Annotated else hint


def _without_none(hint: Any) -> Any:
    """Return T for ``T | None``, and any other type as it is."""
    if get_origin(hint) not in (Union, UnionType):
        return hint
    kinds = [each for each in get_args(hint) if each is not NoneType]
    return kinds[0] if len(kinds) == 1 else hint


_SCALARS: dict[Any, tuple[str, str]] = {
    int: ("N", "a whole number"),
    float: ("X", "a number"),
    str: ("TEXT", "text"),
    Path: ("PATH", "a path"),
}
"""Placeholder and description of the values of options."""


def _constructors() -> ConstructorRegistry:
    """Return rules for tyro: readable placeholders, plain messages, and no "None" as a value."""
    registry = ConstructorRegistry()

    @registry.primitive_rule
    def scalar(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
        if info.type not in _SCALARS:
            return None
        placeholder, description = _SCALARS[info.type]

        def parse(texts: list[str]) -> Any:
            try:
                return info.type(texts[0])
            except ValueError:
                raise ValueError(f"expected {description}, not {quoted(texts[0])}") from None

        return PrimitiveConstructorSpec(
            nargs=1,
            metavar=placeholder,
            instance_from_str=parse,
            is_instance=lambda value: isinstance(value, info.type),
            str_from_instance=lambda value: [str(value)],
        )

    @registry.primitive_rule
    def optional(info: PrimitiveTypeInfo) -> Any:
        kind = _without_none(info.type)
        if kind is info.type:
            return None
        spec = ConstructorRegistry.get_primitive_spec(PrimitiveTypeInfo.make(kind, info.markers))
        if not isinstance(spec, PrimitiveConstructorSpec):
            return spec
        shown = spec.str_from_instance
        return replace(spec, str_from_instance=lambda value: [] if value is None else shown(value))

    return registry


def with_lists(text: str) -> str:
    """Fill in lists of registered things, such as ``{agents}`` and ``{presets}``."""
    for name, names in _LISTS.items():
        if f"{{{name}}}" in text:
            text = text.replace(f"{{{name}}}", ", ".join(names()))
    return text


def _agents() -> list[str]:
    from zerolab.agents.agent import AGENT_KINDS

    return [kind.form for name, kind in AGENT_KINDS.items() if name != "run"]


def _presets() -> list[str]:
    """Return one text with a line per preset and its title, for an indented section."""
    from zerolab.training.preset_files import preset_names, preset_title

    return _lines({name: preset_title(name) for name in preset_names()})


def _strength_variants() -> list[str]:
    from zerolab.bench.strength_settings import VARIANTS

    return _lines({name: variant.about for name, variant in VARIANTS.items()})


def _lines(explained: Mapping[str, str]) -> list[str]:
    width = max(map(len, explained))
    return ["\n  ".join(f"{name:{width}}  {text}" for name, text in explained.items())]


def _games() -> list[str]:
    from zerolab.rules.catalogue import registered_games

    return list(registered_games())


def _suites() -> list[str]:
    from zerolab.bench.measurement import SUITES

    return list(SUITES)


_LISTS: dict[str, Callable[[], Sequence[str]]] = {
    "agents": _agents,
    "presets": _presets,
    "games": _games,
    "suites": _suites,
    "strength_variants": _strength_variants,
}


_SECTIONS = ("Examples:", "Presets:", "Variants:")


def _description(text: str) -> str:
    """Return a docstring up to its arguments, one paragraph per line, its sections unchanged.

    By itself, tyro omits sections such as "Examples:".
    """
    paragraphs = text.partition("\nArgs:\n")[0].strip().split("\n\n")
    return "\n\n".join(
        each if each.startswith(_SECTIONS) else each.replace("\n", " ") for each in paragraphs
    )


def _shortened(message: str) -> str:
    """Return a message without markup, and with long quoted values cut."""
    message = re.sub(r"\[/?bold\]", "", message)
    shorter = re.sub(rf"(\S{{{_LONGEST_WORD // 2}}})\S{{{_LONGEST_WORD // 2},}}", r"\1...", message)
    return one_line(shorter)


def _first_paragraph(box: str) -> str:
    """Return the text between the first two rules of a box, as one line.

    The title is in or above the first rule. If the encoding of the output has no characters for
    boxes, rules are hyphens and there are no sides.
    """
    paragraphs: list[list[str]] = [[]]
    for line in box.splitlines():
        text = line.strip("│| ")
        if text.startswith(("╭", "─", "╰", "---")):
            paragraphs.append([])
        else:
            paragraphs[-1].append(text)
    return " ".join(paragraphs[1]) if len(paragraphs) > 1 else box.strip()
