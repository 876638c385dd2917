"""Settings without effect under others, refused where the user sets them.

A preset may hold such a setting, since the others may be changed. Set by the user, it is a mistake,
and the message names the setting that does have the effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from zerolab.core.config import parse_assignments
from zerolab.core.errors import UserError, quoted
from zerolab.networks.heads.interface import HEADS
from zerolab.networks.losses import learnt_heads
from zerolab.training.settings import TrainSettings
from zerolab.training.warm_start.settings import warm_start_search


class Idle(NamedTuple):
    """Settings that others leave without an effect."""

    keys: tuple[str, ...]
    """Dotted keys; what is below them belongs to them."""
    reason: Callable[[TrainSettings], str]
    """Returns the others that leave them without an effect, as they are set; empty if none do."""
    expected: str
    """The settings with the effect, or the change of the others that gives these one."""


def _when(key: str, value: object) -> Callable[[TrainSettings], str]:
    """Return the reason that holds where a setting, a choice by its name, has a value."""

    def reason(settings: TrainSettings) -> str:
        found: Any = settings
        for part in key.split("."):
            found = getattr(found, part)
        found = getattr(found, "name", found)
        return f"{key} = {quoted(found)}" if found == value else ""

    return reason


def _learns_from_positions(settings: TrainSettings) -> str:
    return "solved positions to learn from" if settings.supervised.positions else ""


def _has_no_noise(settings: TrainSettings) -> str:
    warm = warm_start_search(settings.search, settings.warm_start, 1.0)
    is_on = settings.search.noise.fraction or warm.noise.fraction
    return "" if is_on else "search.noise.fraction = 0.0"


def _has_a_rate_of_its_own(settings: TrainSettings) -> str:
    return 'the defect "fresh_optimizer"' if "fresh_optimizer" in settings.defects else ""


def _does_not_evolve(parameter: str) -> Callable[[TrainSettings], str]:
    def reason(settings: TrainSettings) -> str:
        league = settings.league
        if league is None or parameter in league.parameters:
            return ""
        return f"league.parameters = {', '.join(league.parameters)}"

    return reason


def _is_not_learnt(name: str) -> Callable[[TrainSettings], str]:
    def reason(settings: TrainSettings) -> str:
        loss, heads = settings.learn.loss, settings.network.heads
        has_weight = any(head.name == name and head.weight for head in heads)
        is_learnt = not has_weight or name in learnt_heads(loss, heads)
        return "" if is_learnt else f"learn.loss = {quoted(loss.name)}"

    return reason


_PARAMETERS = ("c", "fpu", "draw_value", "threshold", "check")

IDLE: tuple[Idle, ...] = (
    Idle(
        ("selfplay.episodes",),
        _when("selfplay.schedule", "continuous"),
        "selfplay.schedule.plies, times selfplay.parallel_games, or selfplay.schedule=episodes",
    ),
    Idle(
        ("selfplay.early_targets",),
        _when("selfplay.sampled_plies", 0),
        "selfplay.late_targets, or selfplay.sampled_plies above 0",
    ),
    Idle(
        (
            "selfplay", "league", "warm_start", "gate", "search.noise",
            "learn.window", "learn.merging", "learn.root_value_weight",
        ),
        _learns_from_positions,
        "settings of network and learn",
    ),
    Idle(
        ("search.noise.concentration", "search.noise.inherited_visits"),
        _has_no_noise,
        "search.noise.fraction above 0, such as 0.25",
    ),
    Idle(
        ("warm_start.schedule",),
        _when("warm_start.variant", "baseline"),
        "a warm start, such as warm_start.variant=wrora",
    ),
    Idle(("learn.learning_rate",), _has_a_rate_of_its_own, "a run without it"),
    Idle(("gate.openings",), _when("gate.games", 0), "gate.games above 0"),
    Idle(("accuracy.positions",), _when("accuracy.every", 0), "accuracy.every of at least 1"),
    Idle(
        ("final_evaluation.openings", "final_evaluation.baselines"),
        _when("final_evaluation.games", 0),
        "final_evaluation.games above 0",
    ),
    Idle(("league.clock",), _does_not_evolve("threshold"), "threshold among league.parameters"),
    Idle(("league.optimum",), _does_not_evolve("check"), "check among league.parameters"),
    *(
        Idle((f"network.heads.{name}.weight",), _is_not_learnt(name), "a loss such as sum")
        for name in HEADS
    ),
    *(
        Idle((f"league.ranges.{name}",), _does_not_evolve(name), f"{name} among league.parameters")
        for name in _PARAMETERS
    ),
)  # fmt: skip
"""Whatever of this kind `TrainSettings` does not refuse by itself."""


def require_effects(settings: TrainSettings, assignments: Sequence[str]) -> None:
    """Raise UserError where an assignment has no effect with the settings that it led to."""
    for key in assigned_keys(assignments):
        if message := no_effect(settings, key):
            raise UserError(message)


def no_effect(settings: TrainSettings, key: str) -> str:
    """Return why a setting has no effect with the others, and what has; empty if it has one."""
    for idle in IDLE:
        is_meant = any(key == each or key.startswith(f"{each}.") for each in idle.keys)
        reason = idle.reason(settings) if is_meant else ""
        if reason:
            return f"{key} has no effect with {reason}: expected {idle.expected}"
    return ""


def assigned_keys(assignments: Sequence[str]) -> list[str]:
    """Return the dotted keys that assignments set, those of tables one by one."""
    return [
        key
        for path, value in parse_assignments(assignments)
        for key in _keys(".".join(path), value)
    ]


def _keys(key: str, value: Any) -> Iterator[str]:
    if not isinstance(value, Mapping):
        yield key
        return
    for name, each in value.items():
        yield from _keys(key if name == "name" else f"{key}.{name}", each)
