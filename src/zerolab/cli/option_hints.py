"""Hints for unknown options: a similar option, or a setting that ``--set`` changes."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from zerolab.core.errors import did_you_mean


def option_hint(function: Callable[..., Any], arguments: Sequence[str]) -> str:
    """Return ``; did you mean --set iterations=5?`` for ``--iterations 5``, or a similar option.

    It is empty if no option or setting is meant. `function` is the command function, whose
    keyword parameters are the options.
    """
    options = {f"--{name.strip('_').replace('_', '-')}" for name in _options(function)}
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


def _options(function: Callable[..., Any]) -> Iterator[str]:
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY:
            yield name


def _setting(function: Callable[..., Any], name: str) -> str:
    """Return the key of the setting that an unknown option means, or ""."""
    from zerolab.core.suggestions import setting_named
    from zerolab.league.league_settings import LeagueSettings
    from zerolab.training.train_settings import TrainSettings

    model = LeagueSettings if function.__name__ == "league" else TrainSettings
    return setting_named(model, name.rpartition(".")[2])
