"""Rules that some settings have no effect with certain values of other settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from zerolab.core.errors import quoted
from zerolab.league.league_settings import (
    SETTINGS_OF_PARAMETERS,
    THRESHOLD_REMEDY,
    UNUSED_THRESHOLD,
)
from zerolab.networks.objectives import HEADS, trained_heads
from zerolab.play.selfplay_settings import ServiceMode
from zerolab.search.search_settings import SearchSettings
from zerolab.training.train_settings import TrainSettings
from zerolab.training.warm_start import warm_start_search_settings


class NoEffectRule(NamedTuple):
    """Rule that some settings have no effect with certain values of other settings."""

    keys: tuple[str, ...]
    """Dotted keys, each including all keys below it."""
    find_cause: Callable[[TrainSettings], str]
    """Function that returns the cause, for messages; empty if the settings have an effect."""
    remedy: str
    """Settings to change instead, for messages."""


def _when(key: str, value: object) -> Callable[[TrainSettings], str]:
    """Return a `NoEffectRule.find_cause` for settings whose `key`, or its variant, has `value`."""

    def find_cause(settings: TrainSettings) -> str:
        actual: Any = settings
        for part in key.split("."):
            actual = getattr(actual, part)
        actual = getattr(actual, "name", actual)
        return f"{key} = {quoted(actual)}" if actual == value else ""

    return find_cause


def _learns_from_positions(settings: TrainSettings) -> str:
    return "solved positions to learn from" if settings.supervised.positions else ""


def _no_visit_target_cause(settings: TrainSettings) -> str:
    play = settings.selfplay
    has_visits = play.late_policy_target == "visits"
    has_visits |= play.policy_target == "visits" and play.temperature_plies > 0
    return "" if has_visits else f"selfplay.late_policy_target = {quoted(play.late_policy_target)}"


def _searches(settings: TrainSettings) -> tuple[SearchSettings, SearchSettings]:
    """Return plain search and that of the warm start, which are equal without a warm start."""
    warm = warm_start_search_settings(settings.search, settings.warm_start, 1.0)
    return settings.search, warm


def _baselines_change(settings: TrainSettings, *parts: str) -> bool:
    """Return whether the spec of a baseline may change parts of the search, such as its root."""
    return any(part in spec for spec in settings.final_evaluation.baselines for part in parts)


def _no_noise_cause(settings: TrainSettings) -> str:
    is_on = any(search.noise.fraction for search in _searches(settings))
    return "" if is_on else "search.noise.fraction = 0.0"


def _no_inherited_visits_cause(settings: TrainSettings) -> str:
    mode = settings.selfplay.mode
    if isinstance(mode, ServiceMode):  # it discards all trees
        return f"selfplay.mode = {quoted(mode.name)}"
    is_kept = any(search.reuse_tree for search in _searches(settings))
    return "" if is_kept else "search.reuse_tree = false"


def _no_fpu_cause(settings: TrainSettings) -> str:
    is_used = any(search.selection.name != "uct" for search in _searches(settings))
    is_used |= _baselines_change(settings, "selection")
    return "" if is_used else 'search.selection = "uct"'


def _no_rave_values_cause(settings: TrainSettings) -> str:
    is_used = any(
        search.root.name == "rave_values" or getattr(search.selection, "equivalence", 0) != 0
        for search in _searches(settings)
    )
    is_used |= _baselines_change(settings, "selection", "root")
    return "" if is_used else "search.selection.equivalence = 0"


def _no_temperature_cause(settings: TrainSettings) -> str:
    """Return a cause if all policy targets are equal and no move is sampled."""
    play = settings.selfplay
    if play.policy_target != play.late_policy_target or settings.league is not None:
        return ""
    targets = f"selfplay.policy_target = selfplay.late_policy_target = {quoted(play.policy_target)}"
    if play.mode.name == "big_tree":
        return f'selfplay.mode = "big_tree" and {targets}'
    # Gumbel's noise replaces sampling, except among proven losses. Only full searches have noise.
    has_noise = play.budget.name == "fixed" and all(
        search.root.name == "gumbel" and not search.proven_values for search in _searches(settings)
    )
    return f'search.root = "gumbel" and {targets}' if has_noise else ""


def _no_search_weight_cause(settings: TrainSettings) -> str:
    loss, heads = settings.learn.loss, settings.network.heads
    trained = trained_heads(loss, heads)
    has_effect = any(head.uses_search_weight for head in heads if head.name in trained)
    return "" if has_effect else f"learn.loss = {quoted(loss.name)} and no trained outcome head"


def _ignored_learning_rate_cause(settings: TrainSettings) -> str:
    name = "fresh_optimizer"
    return f"published_bugs = {quoted(name)}" if name in settings.published_bugs else ""


def _league_parameters(settings: TrainSettings) -> str:
    """Return the league's parameters as a cause, for settings that no league uses."""
    league = settings.league
    return "" if league is None else f"league.parameters = {', '.join(league.parameters)}"


def _does_not_evolve(parameter: str) -> Callable[[TrainSettings], str]:
    def find_cause(settings: TrainSettings) -> str:
        league = settings.league
        if league is None or parameter in league.parameters:
            return ""
        return _league_parameters(settings)

    return find_cause


def _is_not_learnt(name: str) -> Callable[[TrainSettings], str]:
    def find_cause(settings: TrainSettings) -> str:
        loss, heads = settings.learn.loss, settings.network.heads
        has_weight = any(head.name == name and head.weight for head in heads)
        is_learnt = not has_weight or name in trained_heads(loss, heads)
        return "" if is_learnt else f"learn.loss = {quoted(loss.name)}"

    return find_cause


NO_EFFECT_RULES: tuple[NoEffectRule, ...] = (
    NoEffectRule(
        ("selfplay.episodes",),
        _when("selfplay.mode", "continuous"),
        "selfplay.mode.plies (plies per parallel game), or selfplay.mode=episodic",
    ),
    NoEffectRule(
        ("selfplay.policy_target",),
        _when("selfplay.temperature_plies", 0),
        "selfplay.late_policy_target, or selfplay.temperature_plies above 0",
    ),
    NoEffectRule(
        ("selfplay.policy_target_temperature",), _no_visit_target_cause, 'the "visits" target'
    ),
    NoEffectRule(
        (
            "selfplay", "league", "warm_start", "gate", "search.noise",
            "learn.window", "learn.merging", "learn.value_target_search_weight",
            "learn.surprise_weight",
        ),
        _learns_from_positions,
        "settings of network and learn",
    ),
    NoEffectRule(
        ("search.noise.concentration", "search.noise.inherited_visits"),
        _no_noise_cause,
        "search.noise.fraction above 0, such as 0.25",
    ),
    NoEffectRule(
        ("search.noise.inherited_visits",),
        _no_inherited_visits_cause,
        "a self-play search that keeps its tree between moves",
    ),
    NoEffectRule(("search.fpu",), _no_fpu_cause, "a selection rule such as puct"),
    NoEffectRule(
        tuple(f"search.selection.{key}" for key in ("playout_moves", "all_movers", "reading")),
        _no_rave_values_cause,
        "search.selection.equivalence above 0",
    ),
    NoEffectRule(
        ("selfplay.temperature_plies",),
        _no_temperature_cause,
        "different policy targets, or self-play that samples moves",
    ),
    NoEffectRule(
        ("learn.optimizer.beta1", "learn.optimizer.momentum"),
        _when("learn.schedule", "cycle"),
        "learn.schedule.momentum and learn.schedule.momentum_at_peak",
    ),
    NoEffectRule(
        ("learn.value_target_search_weight",), _no_search_weight_cause, "a loss such as sum"
    ),
    NoEffectRule(
        ("warm_start.ramp",),
        _when("warm_start.variant", "baseline"),
        "a warm start, such as warm_start.variant=wrora",
    ),
    NoEffectRule(
        ("learn.learning_rate",), _ignored_learning_rate_cause, "other published_bugs"
    ),
    NoEffectRule(("gate.openings",), _when("gate.games", 0), "gate.games above 0"),
    NoEffectRule(
        ("accuracy.positions",), _when("accuracy.every", 0), "accuracy.every of at least 1"
    ),
    NoEffectRule(
        ("final_evaluation.openings", "final_evaluation.baselines"),
        _when("final_evaluation.games", 0),
        "final_evaluation.games above 0",
    ),
    *(
        NoEffectRule((f"network.heads.{name}.weight",), _is_not_learnt(name), "a loss such as sum")
        for name in HEADS
    ),
    NoEffectRule((f"league.{UNUSED_THRESHOLD}",), _league_parameters, f"league.{THRESHOLD_REMEDY}"),
    *(
        NoEffectRule(
            (f"league.{key}",),
            _does_not_evolve(parameter),
            f"{parameter} among league.parameters",
        )
        for key, parameter in SETTINGS_OF_PARAMETERS.items()
    ),
)  # fmt: skip
"""Rules for settings that have no effect but pass the validation of `TrainSettings`."""
