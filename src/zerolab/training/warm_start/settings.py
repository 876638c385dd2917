"""Which enhancement self-play begins with, and when it ends (FACTS 2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic import Field, field_validator, model_validator

from zerolab.core.config import Choice, Settings, choice_among, validate
from zerolab.core.errors import UserError
from zerolab.core.registry import Registry
from zerolab.search.interface import FPU_SETTINGS, LEAF_EVALUATOR_SETTINGS, SELECTION_SETTINGS
from zerolab.search.settings import SearchSettings
from zerolab.training.warm_start.schedules import SCHEDULES


class Variant(NamedTuple):
    """The rules that an enhancement puts in place of those of plain network search, by name."""

    selection: str | None = None
    leaf_evaluator: str | None = None


VARIANTS: Registry[Variant] = Registry("variant")
VARIANTS.add("baseline", Variant())
VARIANTS.add("rollout", Variant(leaf_evaluator="playout"))
VARIANTS.add("rave", Variant(selection="rave"))
VARIANTS.add("rora", Variant(selection="rave", leaf_evaluator="playout"))
VARIANTS.add("wro", Variant(leaf_evaluator="mixed"))
VARIANTS.add("wrora", Variant(selection="rave", leaf_evaluator="mixed"))
VARIANTS.add("own", Variant())

_CHOICES: Mapping[str, Registry[type[Choice]]] = {
    "selection": SELECTION_SETTINGS,
    "fpu": FPU_SETTINGS,
    "leaf_evaluator": LEAF_EVALUATOR_SETTINGS,
}


class WarmStartSettings(Settings):
    """How the first iterations of self-play are searched."""

    variant: str = "baseline"
    """baseline (none), rollout, rave, rora, wro or wrora as in W, or own: what `search` says."""

    schedule: choice_among(SCHEDULES) = Field(default_factory=SCHEDULES["linear"])  # type: ignore[valid-type]
    """When it ends, and the weight of playouts until then. W: linear, I' = 5."""

    search: Mapping[str, Any] = Field(default_factory=dict)
    """What else differs from the settings of plain search meanwhile, such as
    ``search.leaf_evaluator.playouts=4`` or, with variant = "own", ``search.selection=rave``."""

    @field_validator("variant")
    @classmethod
    def _known(cls, name: str) -> str:
        try:
            VARIANTS[name]
        except UserError as error:
            raise ValueError(str(error)) from None
        return name

    @model_validator(mode="after")
    def _meaningful(self) -> WarmStartSettings:
        if self.variant == "own" and not self.search:
            raise ValueError(
                'variant = "own" has nothing of its own: expected settings such as'
                " warm_start.search.selection=rave"
            )
        if self.variant == "baseline" and self.search:
            raise ValueError(
                f"search.{next(iter(self.search))} has no effect with"
                ' variant = "baseline": expected another one, such as "own"'
            )
        for part, rule in VARIANTS[self.variant]._asdict().items():
            given = self.search.get(part)
            name = given.get("name") if isinstance(given, Mapping) else given
            if rule is not None and name not in (None, rule):
                raise ValueError(
                    f'search.{part} = "{name}" is not what variant = "{self.variant}" stands for,'
                    f' "{rule}": expected variant = "own"'
                )
        leaf = self.search.get("leaf_evaluator")
        if isinstance(leaf, Mapping) and "weight" in leaf:
            raise ValueError(
                f"search.leaf_evaluator.weight = {leaf['weight']}: the weight is what the schedule says"
            )
        return self

    @property
    def is_on(self) -> bool:
        """Whether there is any enhancement."""
        return self.variant != "baseline"


def enhanced(
    search: SearchSettings, warm_start: WarmStartSettings, weight: float
) -> SearchSettings:
    """Return the search of self-play at a weight of the schedule; plain search at weight 0.

    Rules that take each other's place keep the settings they share, such as PUCT's and RAVE's c.
    A leaf evaluator that the enhancement brings gets the weight, if it has one; that of plain search
    keeps its own. Raises UserError where `warm_start.search` does not fit.
    """
    if weight == 0 or not warm_start.is_on:
        return search
    data, variant = search.model_dump(), VARIANTS[warm_start.variant]
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
    """Set one key of a search's settings, a table's keys one by one."""
    if key in _CHOICES and isinstance(value, str):
        value = {"name": value}
    if not isinstance(value, Mapping):
        data[key] = value
        return
    former = data.get(key)
    table = dict(former) if isinstance(former, Mapping) else {}
    rule = str(value.get("name"))
    if key in _CHOICES and rule in _CHOICES[key]:  # an unknown one is told by who validates it
        known = _CHOICES[key][rule].model_fields
        table = {field: setting for field, setting in table.items() if field in known}
    data[key] = {**table, **value}
