"""Requirements of all registered studies."""

from __future__ import annotations

import inspect
import json
from collections import Counter
from functools import cache

import pytest

from zerolab.report.claims import ClaimTable
from zerolab.studies.cost_model import estimate_run_seconds, estimate_tournament_seconds
from zerolab.studies.results import Results
from zerolab.studies.study import SCALES, registered_studies

STUDIES = registered_studies()
by_name = pytest.mark.parametrize("name", STUDIES)
by_scale = pytest.mark.parametrize("scale", SCALES)


@cache
def planned(name, scale):
    return STUDIES[name].planned_design(scale)


def estimated_seconds(design):
    """Return the estimated seconds of a design on one core; the seed of a run does not matter."""
    first, counts = {}, Counter()
    for run in design.distinct_runs.values():
        text = run.settings.model_dump_json(exclude={"seed"})
        first.setdefault(text, run.settings)
        counts[text] += 1
    runs = sum(estimate_run_seconds(first[text]) * count for text, count in counts.items())
    computed = sum(each.estimated_seconds for each in design.computations)
    return runs + sum(map(estimate_tournament_seconds, design.tournaments)) + computed


@by_name
def test_study_has_documentation(name):
    study = STUDIES[name]
    assert study.name == name
    help_ = inspect.getdoc(study)
    assert help_.partition("\n")[0].endswith(".")
    assert f"Examples:\n  zerolab study {name}" in help_


@by_name
@by_scale
def test_design_has_unique_names(name, scale):
    design = planned(name, scale)
    assert design.part_names
    labels = [(run.part, run.label) for run in design.runs]
    assert len(set(labels)) == len(labels)
    labels = [(item.part, item.label) for item in design.computations]
    assert len(set(labels)) == len(labels)
    keys = [item.key for item in design.tournaments]
    assert len(set(keys)) == len(keys)
    for item in design.tournaments:
        assert item.pair_count >= 1
        assert item.games_per_pair % 2 == 0  # half with each colour
        assert all(run in design.runs for run in item.run_by_player.values())


@by_name
@by_scale
def test_runs_share_a_key_only_if_equal_up_to_threads_and_preset(name, scale):
    settings_by_key = {}
    for run in planned(name, scale).runs:
        settings = run.settings.model_dump(mode="json", exclude={"preset": True})
        del settings["selfplay"]["threads"]
        settings_by_key.setdefault(run.key, settings)
        assert settings_by_key[run.key] == settings
    assert len(set(map(json.dumps, settings_by_key.values()))) == len(settings_by_key)


@by_name
def test_design_is_deterministic(name):
    repeated = STUDIES[name].planned_design("mini")
    assert repeated.digest == planned(name, "mini").digest
    assert [run.key for run in repeated.runs] == [run.key for run in planned(name, "mini").runs]


@by_name
def test_larger_scales_take_longer(name):
    estimates = [estimated_seconds(planned(name, scale)) for scale in SCALES]
    assert estimates == sorted(estimates)
    assert estimates[0] < 300


@by_name
def test_claims_do_not_depend_on_the_scale(name):
    """Claims that depend on the scale could be chosen after seeing results."""
    claims = []
    for scale in SCALES:
        document = STUDIES[name].report(Results(scale, planned(name, scale), [], {}))
        (table,) = [each for each in document.blocks if isinstance(each, ClaimTable)]
        claims.append([verdict.claim for verdict in table.verdicts])
    assert claims[0]
    assert all(each == claims[0] for each in claims)


@by_name
def test_parts_can_be_selected(name):
    design = planned(name, "paper")
    for part in design.part_names:
        chosen = design.restricted_to_parts([part])
        own_runs = [run for run in chosen.runs if run.part == part]
        sources = {source.key for run in chosen.runs for source in run.source_runs}
        source_runs = [run for run in chosen.runs if run.part != part]
        assert {run.key for run in source_runs} <= sources - {run.key for run in own_runs}
        assert own_runs or source_runs == []
        if not any(run.source_runs for run in own_runs):
            assert chosen.part_names == [part]
        assert {each.part for each in (*chosen.tournaments, *chosen.computations)} <= {part}
