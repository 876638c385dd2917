"""Search spaces of fixed settings, ranges and alternatives.

``KEY=VALUE`` fixes a setting. ``search.selection.c=0.5..4`` specifies a range,
``learn.learning_rate=log:0.001..0.1`` a range on a logarithmic scale, and
``learn.loss=sum|product`` alternatives. A setting that belongs to an alternative applies only to
trials with this alternative. For example, with ``network=conv|resnet``, the setting
``network.blocks=2..6`` applies to trials with ``resnet``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from optuna.trial import Trial

from zerolab.core.errors import UserError, quoted
from zerolab.core.nested_tables import parse_assignments
from zerolab.core.setting_docs import Setting, describe_settings
from zerolab.training.settings import TrainSettings

Value = int | float | str
"""Value of a setting in a trial: a number from a range, or the text of an alternative."""

Values = dict[str, Value]
"""Values by key, in order of assignment."""

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
    def ends(self) -> tuple[Value, ...]:
        """Values for which settings are checked."""
        return (self.low, self.high)

    def suggest(self, trial: Trial, key: str) -> Value:
        """Return the value of `key` in a trial, drawing it unless it was drawn before."""
        if self.is_whole:
            return trial.suggest_int(key, int(self.low), int(self.high), log=self.is_log)
        return trial.suggest_float(key, self.low, self.high, log=self.is_log)


class Alternatives(NamedTuple):
    """Set of alternative values."""

    texts: tuple[str, ...]
    """Texts of the alternatives."""

    @property
    def ends(self) -> tuple[Value, ...]:
        """All alternatives, which are all checked."""
        return self.texts

    def suggest(self, trial: Trial, key: str) -> Value:
        """Return the value of `key` in a trial, drawing it unless it was drawn before."""
        return str(trial.suggest_categorical(key, self.texts))


class Condition(NamedTuple):
    """Condition that another setting has certain alternatives."""

    key: str
    """Key of the other setting."""
    texts: tuple[str, ...]
    """Alternatives for which the condition holds."""


@dataclass(frozen=True)
class SpaceItem:
    """Searched or fixed setting, given as ``KEY=VALUE``."""

    key: str
    text: str
    """Text of the value."""
    domain: Range | Alternatives | None
    """Searched values, or None for a fixed setting."""
    condition: Condition | None = None
    """Condition under which the setting applies, or None if it always applies."""

    def applies(self, values: Mapping[str, Value]) -> bool:
        """Return whether the setting applies to a trial with the values drawn so far."""
        return self.condition is None or values.get(self.condition.key) in self.condition.texts


class SearchSpace:
    """Fixed and searched settings, ordered so that settings come before their dependants."""

    def __init__(self, items: Iterable[SpaceItem]) -> None:
        self.items = tuple(sorted(items, key=lambda item: item.key.count(".")))

    @classmethod
    def parse(cls, assignments: Sequence[str]) -> SearchSpace:
        """Parse a space from ``KEY=VALUE`` texts; mistakes raise UserError.

        `TuningPlan` checks whether the settings exist and accept the values.
        """
        settings = _settings_by_key()
        parts = [_split(assignment) for assignment in assignments]
        for key, count in Counter(key for key, _ in parts).items():
            if count > 1:
                raise UserError(f"{quoted(key)} is set {count} times: expected it once")
        items = [
            SpaceItem(key, text, _domain(key, text, settings.get(key, []))) for key, text in parts
        ]
        return cls(_with_conditions(items, settings))

    @property
    def searched(self) -> dict[str, Range | Alternatives]:
        """Domains of searched settings by key."""
        return {item.key: item.domain for item in self.items if item.domain is not None}

    def suggest(self, trial: Trial, begin: Callable[[str], None]) -> Values:
        """Return the values of a trial, drawing those that were not drawn before.

        `begin` is called with each key before its value is drawn.
        """
        values: Values = {}
        for item in self.items:
            if item.domain is not None and item.applies(values):
                begin(item.key)
                values[item.key] = item.domain.suggest(trial, item.key)
        return values

    def assignments(self, values: Mapping[str, Value]) -> list[str]:
        """Return the ``KEY=VALUE`` texts of a trial."""
        return [
            f"{item.key}={item.text if item.domain is None else values[item.key]}"
            for item in self.items
            if item.applies(values)
        ]

    def corner(self, end: int, changed: Mapping[str, Value] = {}) -> Values:
        """Return the first (`end` 0) or last (`end` -1) value of each setting, except `changed`."""
        values: Values = {}
        for item in self.items:
            if item.domain is not None and item.applies(values):
                values[item.key] = changed.get(item.key, item.domain.ends[end])
        return values

    def probes(self) -> Iterator[list[Values]]:
        """Yield two trials for each end of a range and each alternative.

        All other settings have their first values in one trial and their last values in the other.
        At least one of the two trials should be valid.
        """
        for item in self.items:
            for value in item.domain.ends if item.domain else ():
                changed: Values = {item.key: value}
                if item.condition is not None:
                    changed[item.condition.key] = item.condition.texts[0]
                yield [self.corner(end, changed) for end in (0, -1)]


def _settings_by_key() -> dict[str, list[Setting]]:
    """Return the settings of a run by key, with several settings if variants share a key."""
    settings: dict[str, list[Setting]] = {}
    for setting in describe_settings(TrainSettings):
        settings.setdefault(setting.key, []).append(setting)
    return settings


def _split(assignment: str) -> tuple[str, str]:
    ((path, _),) = parse_assignments([assignment])
    key = ".".join(part.strip() for part in path)
    if key in _OWN_KEYS:
        raise UserError(f"{quoted(key)} cannot be set here: {_OWN_KEYS[key]}")
    return key, assignment.partition("=")[2].strip()


def _domain(key: str, text: str, settings: Sequence[Setting]) -> Range | Alternatives | None:
    ((_, value),) = parse_assignments([f"{key}={text}"])
    if value != text:  # TOML, such as a number, a quoted string or a list
        return None
    kinds = {kind for setting in settings for kind in setting.type.partition(",")[0].split(" or ")}
    if _RANGE.fullmatch(text) or text.startswith(_LOG):
        return _range(key, text, kinds)
    if "|" in text:
        return _alternatives(key, text)
    if ".." in text and kinds & {"number", "whole number"}:
        raise UserError(f"{key} = {quoted(text)}: {_EXPECTED_RANGE}")
    return None


def _range(key: str, text: str, kinds: set[str]) -> Range:
    match = _RANGE.fullmatch(text)
    if match is None or max(map(len, match.groups(default=""))) > _MAX_DIGITS:
        raise UserError(f"{key} = {quoted(text)}: {_EXPECTED_RANGE}")
    is_log, is_whole = bool(match[1]), "whole number" in kinds and "number" not in kinds
    if kinds and not is_whole and "number" not in kinds:
        accepted = " or ".join(sorted(kinds))
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


def _alternatives(key: str, text: str) -> Alternatives:
    texts = tuple(part.strip() for part in text.split("|"))
    if not all(texts) or len(set(texts)) < len(texts):
        raise UserError(f"{key} = {quoted(text)}: expected different alternatives, as in a|b|c")
    return Alternatives(texts)


def _with_conditions(
    items: Sequence[SpaceItem], settings: Mapping[str, Sequence[Setting]]
) -> Iterator[SpaceItem]:
    """Yield the items with their conditions."""
    choices = {item.key: item.domain for item in items if isinstance(item.domain, Alternatives)}
    for item in items:
        parents = (key for key in choices if item.key.startswith(f"{key}."))
        parent = max(parents, key=len, default="")
        owners = {setting.variant for setting in settings.get(item.key, ())}
        texts = tuple(
            text
            for text in (choices[parent].texts if parent else ())
            if _variant_name(text) in owners
        )
        # If no alternative has the setting, `TuningPlan` reports it.
        condition = Condition(parent, texts) if texts else None
        yield SpaceItem(item.key, item.text, item.domain, condition)


def _variant_name(text: str) -> str:
    """Return the variant name of an alternative, which is written as a name or a table."""
    ((_, value),) = parse_assignments([f"choice={text}"])
    return str(value.get("name", "")) if isinstance(value, dict) else str(value)
