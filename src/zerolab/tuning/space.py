"""Search spaces of fixed settings, ranges and alternatives.

``KEY=VALUE`` fixes a setting. ``search.selection.c=0.5..4`` specifies a range,
``learn.learning_rate=log:0.001..0.1`` a range on a logarithmic scale, and
``learn.loss=sum|product`` alternatives. A setting of an alternative applies only to trials with
that alternative. For example, with ``network=conv|resnet``, the setting ``network.blocks=2..6``
applies only to trials with ``resnet``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from optuna.trial import Trial

from zerolab.core.errors import UserError, quoted
from zerolab.core.nested_tables import parse_assignments, selection_path
from zerolab.core.setting_docs import SettingDescription, describe_settings
from zerolab.training.train_settings import TrainSettings

SettingValue = int | float | str
"""Value of a setting in a trial: a number from a range, or the text of an alternative."""

TrialValues = dict[str, SettingValue]
"""Values of a trial by key, in order of assignment."""

_NUMBER = r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
_RANGE = re.compile(rf"(log:)?\s*({_NUMBER})\s*\.\.\s*({_NUMBER})")
_INTEGER = re.compile(r"[-+]?[0-9]+")
_LOG = "log:"
_MAX_DIGITS = 18
_EXPECTED_RANGE = "expected a range such as 0.5..4, 1..8 or log:0.001..0.1"
_OWN_KEYS = {
    "game": "it is the first argument",
    "preset": "it is set by --preset",
    "seed": "trial n uses the seed --seed + n",
}


class Range(NamedTuple):
    """Range of numbers, including both ends."""

    low: float
    high: float
    is_log: bool
    is_whole: bool
    """True if the setting accepts only whole numbers."""

    @property
    def trial_values_to_check(self) -> tuple[SettingValue, ...]:
        """Values with which the settings are checked before the search starts: both ends."""
        return (self.low, self.high)

    def suggest(self, trial: Trial, key: str) -> SettingValue:
        """Return the value of `key` in a trial, drawing it unless it was drawn before."""
        if self.is_whole:
            return trial.suggest_int(key, int(self.low), int(self.high), log=self.is_log)
        return trial.suggest_float(key, self.low, self.high, log=self.is_log)


class Alternatives(NamedTuple):
    """Set of alternative values."""

    value_texts: tuple[str, ...]
    """Alternatives, each value as text."""

    @property
    def trial_values_to_check(self) -> tuple[SettingValue, ...]:
        """Values with which the settings are checked before the search starts: all alternatives."""
        return self.value_texts

    def suggest(self, trial: Trial, key: str) -> SettingValue:
        """Return the value of `key` in a trial, drawing it unless it was drawn before."""
        return str(trial.suggest_categorical(key, self.value_texts))


class Condition(NamedTuple):
    """Condition that the value of another setting is one of several alternatives."""

    key: str
    """Key of the other setting."""
    value_texts: tuple[str, ...]
    """Alternatives for which the condition holds."""


@dataclass(frozen=True)
class SpaceSetting:
    """Searched or fixed setting, given as ``KEY=VALUE``."""

    key: str
    value_text: str
    domain: Range | Alternatives | None
    """Searched values, or None if the setting is fixed."""
    condition: Condition | None = None
    """Condition under which the setting applies, or None if it always applies."""

    def applies_to(self, values: Mapping[str, SettingValue]) -> bool:
        """Return whether the setting applies to a trial with the values drawn so far."""
        return (
            self.condition is None or values.get(self.condition.key) in self.condition.value_texts
        )


class SearchSpace:
    """Fixed and searched settings, ordered so that conditions refer to earlier settings."""

    def __init__(self, all_settings: Iterable[SpaceSetting]) -> None:
        self.all_settings = tuple(sorted(all_settings, key=lambda setting: setting.key.count(".")))

    @classmethod
    def parse(cls, assignments: Sequence[str]) -> SearchSpace:
        """Parse ``KEY=VALUE`` texts; raise UserError if they are invalid.

        `TuningPlan` checks whether the settings exist and accept the values.
        """
        documented = _documented_settings()
        parts = [_split(assignment) for assignment in assignments]
        for key, count in Counter(key for key, _ in parts).items():
            if count > 1:
                raise UserError(f"{quoted(key)} is set {count} times: expected only once")
        unconditional = [
            SpaceSetting(key, text, _parse_domain(key, text, documented.get(key, [])))
            for key, text in parts
        ]
        return cls(_with_conditions(unconditional, documented))

    @property
    def searched_domains(self) -> dict[str, Range | Alternatives]:
        """Domains of the searched settings by key."""
        return {
            setting.key: setting.domain
            for setting in self.all_settings
            if setting.domain is not None
        }

    @property
    def possible_assignments(self) -> list[str]:
        """``KEY=VALUE`` texts of all settings, with one for each alternative of a setting."""
        return [
            f"{setting.key}={text}"
            for setting in self.all_settings
            for text in (
                setting.domain.value_texts
                if isinstance(setting.domain, Alternatives)
                else [setting.value_text]
            )
        ]

    def suggest(self, trial: Trial, before_draw: Callable[[str], None]) -> TrialValues:
        """Return the values of a trial, drawing those that were not drawn before.

        `before_draw` is called with each key before the value is drawn.
        """
        values: TrialValues = {}
        for setting in self.all_settings:
            if setting.domain is not None and setting.applies_to(values):
                before_draw(setting.key)
                values[setting.key] = setting.domain.suggest(trial, setting.key)
        return values

    def assignments(self, values: Mapping[str, SettingValue]) -> list[str]:
        """Return the ``KEY=VALUE`` texts of a trial."""
        return [
            f"{setting.key}={setting.value_text if setting.domain is None else values[setting.key]}"
            for setting in self.all_settings
            if setting.applies_to(values)
        ]

    def corner_values(self, end: int, changed: Mapping[str, SettingValue] = {}) -> TrialValues:
        """Return the first (`end` 0) or last (`end` -1) checked value of every setting.

        Values in `changed` take precedence.
        """
        values: TrialValues = {}
        for setting in self.all_settings:
            if setting.domain is not None and setting.applies_to(values):
                corner = setting.domain.trial_values_to_check[end]
                values[setting.key] = changed.get(setting.key, corner)
        return values

    def trials_that_check_values(self) -> Iterator[list[TrialValues]]:
        """Yield a pair of trials for each end of a range and each alternative.

        All other settings have their first values in one trial and their last values in the other.
        At least one trial of each pair should be valid.
        """
        for setting in self.all_settings:
            for value in setting.domain.trial_values_to_check if setting.domain else ():
                changed: TrialValues = {setting.key: value}
                if setting.condition is not None:
                    changed[setting.condition.key] = setting.condition.value_texts[0]
                yield [self.corner_values(end, changed) for end in (0, -1)]


def _documented_settings() -> dict[str, list[SettingDescription]]:
    """Return the settings of a run by key.

    If several variants have a setting with the same key, there is one description per variant.
    """
    settings: dict[str, list[SettingDescription]] = {}
    for setting in describe_settings(TrainSettings):
        settings.setdefault(setting.key, []).append(setting)
    return settings


def _split(assignment: str) -> tuple[str, str]:
    ((path, _),) = parse_assignments([assignment])
    names = [part.strip() for part in path]
    key = ".".join(selection_path(names) if len(names) > 1 else names)
    if key in _OWN_KEYS:
        raise UserError(f"{quoted(key)} cannot be set here: {_OWN_KEYS[key]}")
    return key, assignment.partition("=")[2].strip()


def _parse_domain(
    key: str, text: str, documented: Sequence[SettingDescription]
) -> Range | Alternatives | None:
    ((_, value),) = parse_assignments([f"{key}={text}"])
    if value != text:  # TOML, such as a number, a quoted string or a list
        return None
    types = {name for each in documented for name in each.type.partition(",")[0].split(" or ")}
    if _RANGE.fullmatch(text) or text.startswith(_LOG):
        return _parse_range(key, text, types)
    if "|" in text:
        return _parse_alternatives(key, text)
    if ".." in text and types & {"number", "whole number"}:
        raise UserError(f"{key} = {quoted(text)}: {_EXPECTED_RANGE}")
    return None


def _parse_range(key: str, text: str, types: set[str]) -> Range:
    match = _RANGE.fullmatch(text)
    if match is None or max(map(len, match.groups(default=""))) > _MAX_DIGITS:
        raise UserError(f"{key} = {quoted(text)}: {_EXPECTED_RANGE}")
    is_log, is_whole = bool(match[1]), "whole number" in types and "number" not in types
    if types and not is_whole and "number" not in types:
        accepted = " or ".join(sorted(types))
        raise UserError(
            f"{key} = {quoted(text)}: this setting accepts {accepted} and cannot have a range;"
            " expected alternatives such as a|b"
        )
    if is_whole and not all(_INTEGER.fullmatch(end) for end in match.groups()[1:]):
        raise UserError(f"{key} = {quoted(text)}: expected whole numbers, as in 1..8")
    low, high = (int(end) if is_whole else float(end) for end in match.groups()[1:])
    if not low < high:
        raise UserError(f"{key} = {quoted(text)}: expected the smaller number first, as in 1..8")
    if is_log and low <= 0:
        raise UserError(f"{key} = {quoted(text)}: expected positive numbers on a logarithmic scale")
    return Range(low, high, is_log, is_whole)


def _parse_alternatives(key: str, text: str) -> Alternatives:
    texts = tuple(part.strip() for part in text.split("|"))
    if not all(texts) or len(set(texts)) < len(texts):
        raise UserError(f"{key} = {quoted(text)}: expected different alternatives, as in a|b|c")
    return Alternatives(texts)


def _with_conditions(
    settings: Sequence[SpaceSetting], documented: Mapping[str, Sequence[SettingDescription]]
) -> Iterator[SpaceSetting]:
    """Yield the settings with their conditions."""
    alternatives = {
        setting.key: setting.domain
        for setting in settings
        if isinstance(setting.domain, Alternatives)
    }
    for setting in settings:
        parents = (key for key in alternatives if setting.key.startswith(f"{key}."))
        parent = max(parents, key=len, default="")
        owners = {each.variant for each in documented.get(setting.key, ())}
        texts = tuple(
            text
            for text in (alternatives[parent].value_texts if parent else ())
            if _variant_name(text) in owners
        )
        # If no alternative has the setting, `TuningPlan` reports an error.
        condition = Condition(parent, texts) if texts else None
        yield SpaceSetting(setting.key, setting.value_text, setting.domain, condition)


def _variant_name(text: str) -> str:
    """Return the variant name of an alternative, which is written as a name or a table."""
    ((_, value),) = parse_assignments([f"choice={text}"])
    return str(value.get("name", "")) if isinstance(value, dict) else str(value)
