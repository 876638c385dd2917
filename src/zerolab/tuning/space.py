"""Search spaces: settings that are fixed, or vary over ranges and alternatives.

``KEY=VALUE`` fixes a setting; ``search.selection.c=0.5..4`` is a range,
``learn.learning_rate=log:0.001..0.1`` a range on a logarithmic scale, and
``learn.loss=sum|product`` gives alternatives. A setting that belongs to one alternative applies
only in trials that choose it: beside ``network=conv|resnet``, ``network.blocks=2..6`` applies in
those with ``resnet``.
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
"""Value of a setting in a trial: a number of a range, or an alternative as written."""

Values = dict[str, Value]
"""Values by key, in the order in which they are assigned."""

_NUMBER = r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
_RANGE = re.compile(rf"(log:)?\s*({_NUMBER})\s*\.\.\s*({_NUMBER})")
_INTEGER = re.compile(r"[-+]?[0-9]+")
_LOG = "log:"
_MOST_DIGITS = 18
_EXPECTED_RANGE = "expected a range such as 0.5..4, 1..8 or log:0.001..0.1"
_OWN_KEYS = {
    "game": "it is the first argument",
    "preset": "it is set by --preset",
    "seed": "every trial has its own, from --seed on",
}


class Range(NamedTuple):
    """Numbers between two ends, inclusive."""

    low: float
    high: float
    is_log: bool
    is_whole: bool
    """True if the setting takes only whole numbers."""

    @property
    def ends(self) -> tuple[Value, ...]:
        """Values with which settings are checked, on behalf of all others."""
        return (self.low, self.high)

    def suggest(self, trial: Trial, key: str) -> Value:
        """Return the value in a trial, drawn now unless it was drawn before."""
        if self.is_whole:
            return trial.suggest_int(key, int(self.low), int(self.high), log=self.is_log)
        return trial.suggest_float(key, self.low, self.high, log=self.is_log)


class Alternatives(NamedTuple):
    """A choice of values, as written."""

    texts: tuple[str, ...]

    @property
    def ends(self) -> tuple[Value, ...]:
        """All alternatives; see `Range.ends`."""
        return self.texts

    def suggest(self, trial: Trial, key: str) -> Value:
        """Return the value in a trial, as `Range.suggest` does."""
        return str(trial.suggest_categorical(key, self.texts))


class Condition(NamedTuple):
    """Dependence of a setting on the alternative that another setting takes."""

    key: str
    texts: tuple[str, ...]
    """Alternatives with which the setting applies."""


@dataclass(frozen=True)
class SpaceItem:
    """One ``KEY=VALUE``: a setting that is searched or fixed."""

    key: str
    text: str
    """Value as written."""
    domain: Range | Alternatives | None
    """Searched values; None for a fixed setting."""
    condition: Condition | None = None
    """Condition under which the setting applies; None for always."""

    def applies(self, values: Mapping[str, Value]) -> bool:
        """Return whether the setting applies in a trial with these values so far."""
        return self.condition is None or values.get(self.condition.key) in self.condition.texts


class SearchSpace:
    """All settings that are fixed or searched; those on which others depend come first."""

    def __init__(self, items: Iterable[SpaceItem]) -> None:
        self.items = tuple(sorted(items, key=lambda each: each.key.count(".")))

    @classmethod
    def parse(cls, assignments: Sequence[str]) -> SearchSpace:
        """Return the space described by ``KEY=VALUE`` texts; raise UserError for a mistake.

        `TuningPlan` checks whether the settings exist and accept such values.
        """
        known = _known_settings()
        parts = [_split(each) for each in assignments]
        for key, count in Counter(key for key, _ in parts).items():
            if count > 1:
                raise UserError(f"{quoted(key)} is set {count} times: expected it once")
        items = [
            SpaceItem(key, text, _domain(key, text, known.get(key, []))) for key, text in parts
        ]
        return cls(_with_conditions(items, known))

    @property
    def searched(self) -> dict[str, Range | Alternatives]:
        """Searched settings by key."""
        return {each.key: each.domain for each in self.items if each.domain is not None}

    def suggest(self, trial: Trial, begin: Callable[[str], None]) -> Values:
        """Return the values of a trial, including those drawn before it was stopped.

        Calls `begin` with each key before its value is drawn.
        """
        values: Values = {}
        for each in self.items:
            if each.domain is not None and each.applies(values):
                begin(each.key)
                values[each.key] = each.domain.suggest(trial, each.key)
        return values

    def assignments(self, values: Mapping[str, Value]) -> list[str]:
        """Return the ``KEY=VALUE`` texts of a trial."""
        return [
            f"{each.key}={each.text if each.domain is None else values[each.key]}"
            for each in self.items
            if each.applies(values)
        ]

    def corner(self, end: int, changed: Mapping[str, Value] = {}) -> Values:
        """Return the first values (`end` 0) or the last ones (-1) of all, with some changed."""
        values: Values = {}
        for each in self.items:
            if each.domain is not None and each.applies(values):
                values[each.key] = changed.get(each.key, each.domain.ends[end])
        return values

    def probes(self) -> Iterator[list[Values]]:
        """Yield two trials for each end of a range and each alternative; one of them should work.

        The other settings have their first values in one trial and their last in the other.
        """
        for each in self.items:
            for value in each.domain.ends if each.domain else ():
                changed: Values = {each.key: value}
                if each.condition is not None:
                    changed[each.condition.key] = each.condition.texts[0]
                yield [self.corner(end, changed) for end in (0, -1)]


def _known_settings() -> dict[str, list[Setting]]:
    """Return the settings of a run by key: several if variants have keys of the same name."""
    known: dict[str, list[Setting]] = {}
    for each in describe_settings(TrainSettings):
        known.setdefault(each.key, []).append(each)
    return known


def _split(assignment: str) -> tuple[str, str]:
    ((path, _),) = parse_assignments([assignment])
    key = ".".join(part.strip() for part in path)
    if key in _OWN_KEYS:
        raise UserError(f"{quoted(key)} cannot be set here: {_OWN_KEYS[key]}")
    return key, assignment.partition("=")[2].strip()


def _domain(key: str, text: str, settings: Sequence[Setting]) -> Range | Alternatives | None:
    ((_, value),) = parse_assignments([f"{key}={text}"])
    if value != text:  # it is TOML: a number, a quoted text, a list
        return None
    kinds = {kind for each in settings for kind in each.type.partition(",")[0].split(" or ")}
    if _RANGE.fullmatch(text) or text.startswith(_LOG):
        return _range(key, text, kinds)
    if "|" in text:
        return _alternatives(key, text)
    if ".." in text and kinds & {"number", "whole number"}:
        raise UserError(f"{key} = {quoted(text)}: {_EXPECTED_RANGE}")
    return None


def _range(key: str, text: str, kinds: set[str]) -> Range:
    found = _RANGE.fullmatch(text)
    if found is None or max(map(len, found.groups(default=""))) > _MOST_DIGITS:
        raise UserError(f"{key} = {quoted(text)}: {_EXPECTED_RANGE}")
    is_log, is_whole = bool(found[1]), "whole number" in kinds and "number" not in kinds
    if kinds and not is_whole and "number" not in kinds:
        takes = " or ".join(sorted(kinds))
        raise UserError(
            f"{key} = {quoted(text)}: a range needs a setting that takes numbers, this one takes"
            f" {takes}; expected alternatives such as a|b"
        )
    if is_whole and not all(_INTEGER.fullmatch(end) for end in found.groups()[1:]):
        raise UserError(f"{key} = {quoted(text)}: expected whole numbers, as in 1..8")
    low, high = (int(end) if is_whole else float(end) for end in found.groups()[1:])
    if not low < high:
        raise UserError(f"{key} = {quoted(text)}: expected the smaller number first, as in 1..8")
    if is_log and low <= 0:
        raise UserError(f"{key} = {quoted(text)}: expected positive numbers on a logarithmic scale")
    return Range(low, high, is_log, is_whole)


def _alternatives(key: str, text: str) -> Alternatives:
    texts = tuple(each.strip() for each in text.split("|"))
    if not all(texts) or len(set(texts)) < len(texts):
        raise UserError(f"{key} = {quoted(text)}: expected different alternatives, as in a|b|c")
    return Alternatives(texts)


def _with_conditions(
    items: Sequence[SpaceItem], known: Mapping[str, Sequence[Setting]]
) -> Iterator[SpaceItem]:
    """Yield the items with their conditions."""
    chosen = {each.key: each.domain for each in items if isinstance(each.domain, Alternatives)}
    for each in items:
        parent = max((key for key in chosen if each.key.startswith(f"{key}.")), key=len, default="")
        owners = {setting.variant for setting in known.get(each.key, ())}
        texts = tuple(
            text for text in (chosen[parent].texts if parent else ()) if _name(text) in owners
        )
        # If no alternative has such a setting, the check of the settings reports it.
        condition = Condition(parent, texts) if texts else None
        yield SpaceItem(each.key, each.text, each.domain, condition)


def _name(text: str) -> str:
    """Return the name of the variant that an alternative gives, by name or as a table."""
    ((_, value),) = parse_assignments([f"choice={text}"])
    return str(value.get("name", "")) if isinstance(value, dict) else str(value)
