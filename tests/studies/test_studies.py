"""Requirements that every study meets."""

from __future__ import annotations

import inspect
import json
from functools import cache

import pytest

from zerolab.studies.cost_model import run_seconds, tournament_seconds
from zerolab.studies.study import SCALES, registered_studies

STUDIES = registered_studies()
by_name = pytest.mark.parametrize("name", STUDIES)
by_scale = pytest.mark.parametrize("scale", SCALES)


@cache
def planned(name, scale):
    return STUDIES[name].design(scale)


def seconds(design):
    """Return about how long a design takes on one core."""
    runs = sum(run_seconds(run.settings) for run in design.distinct_runs.values())
    computed = sum(each.seconds for each in design.computations)
    return runs + sum(map(tournament_seconds, design.tournaments)) + computed


@by_name
def test_every_study_explains_itself(name):
    study = STUDIES[name]
    assert study.name == name
    help_ = inspect.getdoc(study)
    assert help_.partition("\n")[0].endswith(".")
    assert f"Examples:\n  zerolab study {name}" in help_


@by_name
@by_scale
def test_every_design_has_a_name_for_everything(name, scale):
    design = planned(name, scale)
    assert design.parts
    labels = [(run.part, run.label) for run in design.runs]
    assert len(set(labels)) == len(labels)
    labels = [(each.part, each.label) for each in design.computations]
    assert len(set(labels)) == len(labels)
    keys = [each.key for each in design.tournaments]
    assert len(set(keys)) == len(keys)
    for each in design.tournaments:
        assert each.pairs >= 1
        assert each.games % 2 == 0  # half with each colour
        assert all(run in design.runs for run in each.entrants.values())


@by_name
@by_scale
def test_runs_share_a_key_if_nothing_but_their_threads_and_preset_differs(name, scale):
    kept = {}
    for run in planned(name, scale).runs:
        settings = run.settings.model_dump(mode="json", exclude={"preset": True})
        del settings["selfplay"]["threads"]
        kept.setdefault(run.key, settings)
        assert kept[run.key] == settings
    assert len(set(map(json.dumps, kept.values()))) == len(kept)


@by_name
def test_a_design_is_always_the_same(name):
    again = STUDIES[name].design("mini")
    assert again.digest == planned(name, "mini").digest
    assert [run.key for run in again.runs] == [run.key for run in planned(name, "mini").runs]


@by_name
def test_larger_scales_take_longer(name):
    estimates = [seconds(planned(name, scale)) for scale in SCALES]
    assert estimates == sorted(estimates)
    assert estimates[0] < 300


@by_name
def test_a_part_can_be_done_alone(name):
    design = planned(name, "paper")
    for part in design.parts:
        chosen = design.only([part])
        own = [run for run in chosen.runs if run.part == part]
        sources = {source.key for run in chosen.runs for source in run.sources}
        others = [run for run in chosen.runs if run.part != part]
        assert {run.key for run in others} <= sources - {run.key for run in own}
        assert own or others == []
        if not any(run.sources for run in own):
            assert chosen.parts == [part]
        assert {each.part for each in (*chosen.tournaments, *chosen.computations)} <= {part}
