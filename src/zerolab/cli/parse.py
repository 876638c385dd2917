"""Calls to command functions with command-line arguments, and hints for unknown options.

The parameters of a function are the options of the command, and the docstring is the help text.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import functools
import inspect
import io
import itertools
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import tyro
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from zerolab.cli.output import (
    ANSI_CODE,
    DESCRIPTION_PLACEHOLDER,
    expand_placeholders,
    hide_commas_from_tyro,
    wrap_tyro_help,
)
from zerolab.core.errors import UserError, did_you_mean, one_line, quoted

Assignments = Annotated[
    tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="KEY=VALUE")
]
"""Type of the --set option, which can be repeated."""

AgentSpec = tyro.conf.Positional[Annotated[str, tyro.conf.arg(metavar="AGENT")]]
"""Type of a positional argument for an agent."""

_POSITIONAL: Any = tyro.conf.Positional
_LONGEST_WORD = 80  # limit for words in Tyro's messages, which quote values in full
_UNKNOWN = "Unrecognized options: "
_INVALID_CHOICE = re.compile(r"invalid choice '(.*)' for argument '(.*)'\. Expected one of (.*)\.")


def call_command(function: Callable[..., Any], command: str, arguments: Sequence[str]) -> None:
    """Call a function with the options in `arguments`.

    For invalid options, raise UserError with a one-line message instead of printing Tyro's box.
    """
    _require_utf8(arguments)
    text = ""  # error messages do not quote the help
    if {"-h", "--help"}.isdisjoint(arguments):
        _require_values(function, arguments)
    else:
        text = expand_placeholders(inspect.getdoc(function) or "")
    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors), wrap_tyro_help(text):
            bound = tyro.cli(
                _binding(function, hide_commas_from_tyro(text)),
                args=list(arguments),
                prog=f"zerolab {command}",
                description=DESCRIPTION_PLACEHOLDER,
                config=(tyro.conf.FlagCreatePairsOff, tyro.conf.HelptextFromCommentsOff),
                registry=_constructors(),
            )
    except SystemExit as exit_request:
        if not exit_request.code:
            raise
        message = _plain_message(_first_paragraph(ANSI_CODE.sub("", errors.getvalue())), function)
        hint = option_hint(function, arguments) if message.startswith(_UNKNOWN) else ""
        raise UserError(f"{message}{hint} (see zerolab {command} --help)") from None
    bound()


def _plain_message(message: str, function: Callable[..., Any]) -> str:
    """Return one of Tyro's messages in zerolab's style."""
    if match := _INVALID_CHOICE.fullmatch(message):
        word, option, listed = match.groups()
        choices = ast.literal_eval(listed)
        hint = did_you_mean(word, choices)
        return f"{option} {quoted(word)}: expected one of {', '.join(choices)}{hint}"
    message = _shortened(message)
    unknown = message.removeprefix(_UNKNOWN)
    if unknown != message and not any(word.startswith("-") for word in unknown.split(", ")):
        example = _option_name(next(_options(function), "help"))
        return f"unexpected {unknown}: expected the name of an option first, such as {example}"
    names = "|".join(inspect.signature(function).parameters)
    return re.sub(rf"( ({names}))? \(required\)", "", message)


def _require_utf8(arguments: Sequence[str]) -> None:
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            raise UserError(f"{quoted(argument)}: expected text in UTF-8") from None


def _require_values(function: Callable[..., Any], arguments: Sequence[str]) -> None:
    """Raise UserError if an option that takes several values has none, which Tyro would accept."""
    hints = get_type_hints(function)
    several = {
        _option_name(name) for name in _options(function) if get_origin(hints[name]) is tuple
    }
    for argument, following in itertools.pairwise([*arguments, "--"]):
        if argument in several and following.startswith("--"):
            raise UserError(f"{argument} has no value: expected at least one")


def _binding(function: Callable[..., Any], text: str) -> Callable[..., Any]:
    """Return a function for Tyro that binds arguments to `function` instead of calling it."""

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
    bind.__doc__ = re.sub(r"\n {8,}", " ", text)  # Tyro keeps some line breaks in long help texts
    return bind


def _labelled(parameter: inspect.Parameter, hint: Any) -> Any:
    """Return the type hint with a placeholder for the value in the help, adding one if necessary.

    The placeholder of positional arguments and text options is the parameter name, such as GAME.
    Other options have a placeholder for their type.
    """
    metadata = getattr(hint, "__metadata__", ())
    options: dict[str, Any] = {}
    if any(parameter.default is each for each in (None, False, (), "", parameter.empty)):
        options["help_behavior_hint"] = ""  # the help explains the default
    labels = [each for each in metadata if hasattr(each, "metavar")]
    if labels:
        return Annotated[hint, dataclasses.replace(labels[-1], **options)] if options else hint
    if _POSITIONAL in metadata:
        options["metavar"] = _positional_label(parameter, hint)
    elif _without_none(_unannotated(hint)) is str:
        options["metavar"] = parameter.name.upper()
    return Annotated[hint, tyro.conf.arg(**options)] if options else hint


def _positional_label(parameter: inspect.Parameter, hint: Any) -> str:
    label = parameter.name.upper()
    if get_origin(_unannotated(hint)) is tuple:
        return f"[{label.removesuffix('S')} ...]"
    return label if parameter.default is parameter.empty else f"[{label}]"


def _unannotated(hint: Any) -> Any:
    return hint.__origin__ if get_origin(hint) is Annotated else hint


def _without_none(hint: Any) -> Any:
    """Return T for ``T | None``, and any other type unchanged."""
    if get_origin(hint) not in (Union, UnionType):
        return hint
    types = [each for each in get_args(hint) if each is not NoneType]
    return types[0] if len(types) == 1 else hint


_SCALARS: dict[Any, tuple[str, str]] = {
    int: ("N", "a whole number"),
    float: ("X", "a number"),
    str: ("TEXT", "text"),
    Path: ("PATH", "a path"),
}
"""Placeholder and description by option type."""


def _constructors() -> ConstructorRegistry:
    """Return Tyro rules that give readable placeholders and messages and reject "None"."""
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
        inner = _without_none(info.type)
        if inner is info.type:
            return None
        spec = ConstructorRegistry.get_primitive_spec(PrimitiveTypeInfo.make(inner, info.markers))
        if not isinstance(spec, PrimitiveConstructorSpec):
            return spec
        format_value = spec.str_from_instance
        return dataclasses.replace(
            spec, str_from_instance=lambda value: [] if value is None else format_value(value)
        )

    return registry


def _shortened(message: str) -> str:
    """Return a message as one line, without markup and with long quoted values truncated."""
    message = re.sub(r"\[/?bold\]", "", message)
    shorter = re.sub(rf"(\S{{{_LONGEST_WORD // 2}}})\S{{{_LONGEST_WORD // 2},}}", r"\1...", message)
    return one_line(shorter)


def _first_paragraph(box: str) -> str:
    """Return the text between the first two horizontal lines of a box, as one line.

    The box's title is in or above the first horizontal line. If the output encoding has no
    box-drawing characters, horizontal lines are hyphens and there are no vertical lines.
    """
    paragraphs: list[list[str]] = [[]]
    for line in box.splitlines():
        text = line.strip("│| ")
        if text.startswith(("╭", "─", "╰", "---")):
            paragraphs.append([])
        else:
            paragraphs[-1].append(text)
    return " ".join(paragraphs[1]) if len(paragraphs) > 1 else box.strip()


def option_hint(function: Callable[..., Any], arguments: Sequence[str]) -> str:
    """Return a hint such as ``; did you mean --set iterations=5?`` for ``--iterations 5``.

    The hint is empty if there is no similar option or setting. `function` is the command function,
    whose keyword parameters are the options.
    """
    options = {_option_name(name) for name in _options(function)}
    for index, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if not name.startswith("--") or name in (*options, "--help"):
            continue
        if not equals:
            following = arguments[index + 1 : index + 2]
            value = following[0] if following and not following[0].startswith("--") else ""
        if "--set" in options and (key := _setting(function, name.lstrip("-"))):
            assignment = shlex.quote(f"{key}={value}") if value else f"{key}=VALUE"
            return f"; did you mean --set {assignment}?"
        return did_you_mean(name, options)
    return ""


def _option_name(parameter: str) -> str:
    return f"--{parameter.strip('_').replace('_', '-')}"


def _options(function: Callable[..., Any]) -> Iterator[str]:
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY:
            yield name


def _setting(function: Callable[..., Any], name: str) -> str:
    """Return the key of the setting to which an unknown option refers, or ""."""
    from zerolab.core.config import find_setting_key
    from zerolab.league.league_settings import LeagueSettings
    from zerolab.training.train_settings import TrainSettings

    model = LeagueSettings if function.__name__ == "league" else TrainSettings
    return find_setting_key(model, name.rpartition(".")[2])


def check_bounds(name: str, value: int, maximum: int, minimum: int = 1) -> None:
    """Raise UserError unless the value of an option is within its bounds."""
    if not minimum <= value <= maximum:
        raise UserError(
            f"{name} = {quoted(value)}: expected at least {minimum} and at most {maximum}"
        )


def parse_plies(text: str) -> dict[str, int]:
    """Return `first_ply` and `last_ply` from ``LOW:HIGH``, without a bound that is not given.

    Raises UserError if the text has another form.
    """
    match = re.fullmatch(r"(\d{0,5}):(\d{0,5})", text)
    if match is None:
        raise UserError(f"--plies {quoted(text)}: expected LOW:HIGH, such as 20:, 8:30 or :12")
    ends = zip(("first_ply", "last_ply"), match.groups(), strict=True)
    return {name: int(digits) for name, digits in ends if digits}
