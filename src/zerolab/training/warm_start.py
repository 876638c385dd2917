"""Enhanced search in the first iterations of self-play [Wang2020b]."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic import Field, field_validator, model_validator

from zerolab.core.config import (
    Settings,
    Variant,
    validate,
    variant_among,
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
from zerolab.store.state import RunProgress
from zerolab.training.criteria import RAMPS

load_plugins("training")  # before settings choose among what is registered


class WarmStartRules(NamedTuple):
    """Names of the rules that replace those of plain search during a warm start."""

    selection: str | None = None
    leaf_evaluator: str | None = None


WARM_START_VARIANTS: Registry[WarmStartRules] = Registry("variant")
WARM_START_VARIANTS.add("baseline", WarmStartRules())
WARM_START_VARIANTS.add("rollout", WarmStartRules(leaf_evaluator="playout"))
WARM_START_VARIANTS.add("rave", WarmStartRules(selection="rave"))
WARM_START_VARIANTS.add("rora", WarmStartRules(selection="rave", leaf_evaluator="playout"))
WARM_START_VARIANTS.add("wro", WarmStartRules(leaf_evaluator="mixed"))
WARM_START_VARIANTS.add("wrora", WarmStartRules(selection="rave", leaf_evaluator="mixed"))
WARM_START_VARIANTS.add("custom", WarmStartRules())

_VARIANTS: Mapping[str, Registry[type[Variant]]] = {
    "selection": SELECTION_SETTINGS,
    "fpu": FPU_SETTINGS,
    "leaf_evaluator": LEAF_EVALUATOR_SETTINGS,
    "root": ROOT_RULE_SETTINGS,
}


class WarmStartSettings(Settings):
    """The search in the first iterations of self-play."""

    variant: str = "baseline"
    """One of [Wang2020b]: baseline (no warm start), rollout, rave, rora, wro or wrora; or custom,
    given by `search`."""

    ramp: variant_among(RAMPS) = Field(default_factory=RAMPS["linear"])  # type: ignore[valid-type]
    """The end of the warm start, and the weight of playouts until then. [Wang2020b]: linear,
    I' = 5."""

    search: Mapping[str, Any] = Field(default_factory=dict)
    """Other differences from plain search during the warm start, such as
    ``search.leaf_evaluator.playouts=4`` or, with variant = "custom", ``search.selection=rave``."""

    @field_validator("variant")
    @classmethod
    def _known(cls, name: str) -> str:
        try:
            WARM_START_VARIANTS[name]
        except UserError as error:
            raise ValueError(str(error)) from None
        return name

    @model_validator(mode="after")
    def _meaningful(self) -> WarmStartSettings:
        if self.variant == "custom" and not self.search:
            raise ValueError(
                'variant = "custom" changes nothing: expected settings such as'
                " warm_start.search.selection=rave"
            )
        if self.variant == "baseline" and self.search:
            raise ValueError(
                f"search.{next(iter(self.search))} has no effect with"
                ' variant = "baseline": expected another one, such as "custom"'
            )
        for part, rule in WARM_START_VARIANTS[self.variant]._asdict().items():
            given = self.search.get(part)
            name = given.get("name") if isinstance(given, Mapping) else given
            if rule is not None and name not in (None, rule):
                raise ValueError(
                    f"search.{part} = {quoted(name)} contradicts variant = {quoted(self.variant)},"
                    f' which has {quoted(rule)}: expected variant = "custom"'
                )
        leaf = self.search.get("leaf_evaluator")
        if isinstance(leaf, Mapping) and "weight" in leaf:
            raise ValueError(
                f"search.leaf_evaluator.weight = {quoted(leaf['weight'])}: the ramp sets the weight"
            )
        return self

    @property
    def is_on(self) -> bool:
        """True if there is a warm start."""
        return self.variant != "baseline"


def warm_start_weight(warm_start: WarmStartSettings, progress: RunProgress) -> float:
    """Return the weight of the warm start in self-play of the current iteration."""
    if progress.warm_start_over:
        return 0.0
    weight: float = warm_start.ramp.weight(progress.iteration)
    return weight


def warm_start_search(
    search: SearchSettings, warm_start: WarmStartSettings, weight: float
) -> SearchSettings:
    """Return the search of self-play at a weight of the ramp; plain search at weight 0.

    A rule that replaces another one keeps the settings that both have, such as c of PUCT and RAVE.
    The weight is that of the leaf evaluator, if the warm start brings one that has a weight; the
    leaf evaluator of plain search keeps its own. Raises UserError if `warm_start.search` does not
    fit.
    """
    if weight == 0 or not warm_start.is_on:
        return search
    data, variant = search.model_dump(), WARM_START_VARIANTS[warm_start.variant]
    for part, rule in variant._asdict().items():
        if rule is not None:
            _change(data, part, {"name": rule})
    for key, value in warm_start.search.items():
        _change(data, key, value)
    changed = validate(SearchSettings, data, source="warm_start.search")
    brings_leaf = variant.leaf_evaluator is not None or "leaf_evaluator" in warm_start.search
    if not brings_leaf or "weight" not in type(changed.leaf_evaluator).model_fields:
        return changed
    return changed.model_copy(
        update={"leaf_evaluator": changed.leaf_evaluator.model_copy(update={"weight": weight})}
    )


def _change(data: dict[str, Any], key: str, value: Any) -> None:
    """Set one key of search settings; a table replaces only the keys that it has."""
    if key in _VARIANTS and isinstance(value, str):
        value = {"name": value}
    if not isinstance(value, Mapping):
        data[key] = value
        return
    former = data.get(key)
    table = dict(former) if isinstance(former, Mapping) else {}
    rule = str(value.get("name"))
    if key in _VARIANTS and rule in _VARIANTS[key]:  # validation reports an unknown one
        known = _VARIANTS[key][rule].model_fields
        table = {field: setting for field, setting in table.items() if field in known}
    data[key] = {**table, **value}
