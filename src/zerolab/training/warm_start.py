"""Warm start with enhanced search in the first self-play iterations [Wang2020b]."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic import Field, field_validator, model_validator

from zerolab.core.config import (
    Settings,
    VariantSettings,
    validate,
    variant_annotation,
)
from zerolab.core.errors import UserError, quoted
from zerolab.core.registry import Registry, load_plugins
from zerolab.search.methods import (
    FPU_SETTINGS,
    LEAF_EVALUATOR_SETTINGS,
    ROOT_RULE_SETTINGS,
    SELECTION_SETTINGS,
)
from zerolab.search.search_settings import SearchSettings
from zerolab.store.folder import RunProgress
from zerolab.training.criteria import RAMPS

load_plugins("training")  # the settings below list all registered types


class WarmStartVariant(NamedTuple):
    """Names of the search rules used during a warm start; None for the rule of plain search."""

    selection: str | None = None
    leaf_evaluator: str | None = None


WARM_START_VARIANTS: Registry[WarmStartVariant] = Registry("variant")
WARM_START_VARIANTS.add("baseline", WarmStartVariant())
WARM_START_VARIANTS.add("rollout", WarmStartVariant(leaf_evaluator="playout"))
WARM_START_VARIANTS.add("rave", WarmStartVariant(selection="rave"))
WARM_START_VARIANTS.add("rora", WarmStartVariant(selection="rave", leaf_evaluator="playout"))
WARM_START_VARIANTS.add("wro", WarmStartVariant(leaf_evaluator="mixed"))
WARM_START_VARIANTS.add("wrora", WarmStartVariant(selection="rave", leaf_evaluator="mixed"))
WARM_START_VARIANTS.add("custom", WarmStartVariant())

_RULE_SETTINGS: Mapping[str, Registry[type[VariantSettings]]] = {
    "selection": SELECTION_SETTINGS,
    "fpu": FPU_SETTINGS,
    "leaf_evaluator": LEAF_EVALUATOR_SETTINGS,
    "root": ROOT_RULE_SETTINGS,
}


class WarmStartSettings(Settings):
    """The search in the first self-play iterations."""

    variant: str = "baseline"
    """A variant of [Wang2020b]: baseline (no warm start), rollout, rave, rora, wro or wrora; or
    custom, which is defined by `search`."""

    ramp: variant_annotation(RAMPS) = Field(default_factory=RAMPS["linear"])  # type: ignore[valid-type]
    """Ramp that sets the playout weight in each iteration and ends the warm start. [Wang2020b]:
    linear, I' = 5."""

    search: Mapping[str, Any] = Field(default_factory=dict)
    """Additional changes to plain search during the warm start, such as
    ``search.leaf_evaluator.playouts=4`` or, with variant = "custom", ``search.selection=rave``."""

    @field_validator("variant")
    @classmethod
    def _require_known_variant(cls, name: str) -> str:
        try:
            WARM_START_VARIANTS[name]
        except UserError as error:
            raise ValueError(str(error)) from None
        return name

    @model_validator(mode="after")
    def _require_consistent_search(self) -> WarmStartSettings:
        if self.variant == "custom" and not self.search:
            raise ValueError(
                'variant = "custom" changes nothing: expected settings such as'
                " warm_start.search.selection=rave"
            )
        if self.variant == "baseline" and self.search:
            raise ValueError(
                f"search.{next(iter(self.search))} has no effect with"
                ' variant = "baseline": expected a different variant, such as "custom"'
            )
        for part, rule in WARM_START_VARIANTS[self.variant]._asdict().items():
            setting = self.search.get(part)
            name = setting.get("name") if isinstance(setting, Mapping) else setting
            if rule is not None and name not in (None, rule):
                raise ValueError(
                    f"search.{part} = {quoted(name)} contradicts variant = {quoted(self.variant)},"
                    f' which uses {quoted(rule)}: expected variant = "custom"'
                )
        for part in _RULE_SETTINGS:
            setting = self.search.get(part)
            if isinstance(setting, Mapping) and "weight" in setting:
                raise ValueError(
                    f"search.{part}.weight = {quoted(setting['weight'])}: expected no weight here,"
                    " since warm_start.ramp sets it"
                )
        return self

    @property
    def is_active(self) -> bool:
        """True if there is a warm start."""
        return self.variant != "baseline"


def warm_start_weight(warm_start: WarmStartSettings, progress: RunProgress) -> float:
    """Return the weight of the warm start in the current iteration."""
    if progress.warm_start_over:
        return 0.0
    weight: float = warm_start.ramp.weight(progress.iteration)
    return weight


def warm_start_search_settings(
    search: SearchSettings, warm_start: WarmStartSettings, weight: float
) -> SearchSettings:
    """Return the self-play search for a warm-start weight; plain search for weight 0.

    Settings that a replaced rule shares with the new one, such as c of PUCT and RAVE, are kept. If
    the warm start replaces a rule with one that has a setting named weight, this setting takes the
    value of `weight`. Rules that are not replaced keep their weight. Raises UserError if
    `warm_start.search` is invalid.
    """
    if weight == 0 or not warm_start.is_active:
        return search
    data, variant = search.model_dump(), WARM_START_VARIANTS[warm_start.variant]
    for part, rule in variant._asdict().items():
        if rule is not None:
            _set_option(data, part, {"name": rule})
    for key, value in warm_start.search.items():
        _set_option(data, key, value)
    changed = validate(SearchSettings, data, source="warm_start.search")
    rules = {
        part: getattr(changed, part)
        for part in _RULE_SETTINGS
        if part in warm_start.search or getattr(variant, part, None) is not None
    }
    weighted = {
        part: rule.model_copy(update={"weight": weight})
        for part, rule in rules.items()
        if "weight" in type(rule).model_fields
    }
    return changed.model_copy(update=weighted)


def _set_option(data: dict[str, Any], key: str, value: Any) -> None:
    """Set one key of search settings; a table updates only the keys that it contains."""
    if key in _RULE_SETTINGS and isinstance(value, str):
        value = {"name": value}
    if not isinstance(value, Mapping):
        data[key] = value
        return
    previous = data.get(key)
    table = dict(previous) if isinstance(previous, Mapping) else {}
    rule = str(value.get("name"))
    if key in _RULE_SETTINGS and rule in _RULE_SETTINGS[key]:  # validation reports unknown rules
        fields = _RULE_SETTINGS[key][rule].model_fields
        table = {field: setting for field, setting in table.items() if field in fields}
    data[key] = {**table, **value}
