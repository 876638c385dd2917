"""Claims that some outcome decides, at the scale with the fewest planned seeds."""

from __future__ import annotations

import pytest
from made_up_runs import design_of, made_up_results, noise

from zerolab.papers.loss_functions.study import LossFunctionsStudy
from zerolab.papers.published_bugs.study import LABELS, PublishedBugsStudy
from zerolab.papers.warm_start.study import WarmStartStudy

pytestmark = pytest.mark.usefixtures("few_resamples")

SECONDS = {"selfplay": 1.0, "learn": 1.0, "gate": 1.0}
WILD, FIRST = "rave", "wrora"
"""Variants of the warm start that differ from the others in some outcomes."""


def alike(planned):
    """Return arguments of a run and an Elo that hardly differ between runs."""
    levels = {"loss": 1.0, "fall": 1.0, "elo": 10.0, "accuracy": 0.5}
    measured = {name: level + noise(planned, 1e-3, name) for name, level in levels.items()}
    return {"seconds": SECONDS, **measured}, noise(planned, 0.1)


def training_tells_strength(planned):
    """Return results whose training Elo has the order of Elo in tournaments."""
    elo = noise(planned, 1.0)
    return {"seconds": SECONDS, "elo": 10.0 + elo}, elo


def one_varies(planned):
    """Return results of a leading variant and of one that is different in each run."""
    variant = planned.factors.get("variant")
    elo = noise(planned, 100.0 if variant == WILD else 1.0)
    return {"seconds": SECONDS, "elo": 10.0}, elo + 3000.0 * (variant == FIRST)


def decided(study, scale, outcome):
    """Return the keys of decided and of all claims for an outcome."""
    design = design_of(study, scale)
    results = made_up_results(
        scale, design, lambda run: outcome(run)[0], lambda run: outcome(run)[1], error=0.1
    )
    counts = {"accuracy": 0.5, "ceiling": 0.5, "distinct": 1e4, "true_labels": 9e3}
    computed = {each.title: counts for each in design.computations if each.part == LABELS}
    verdicts = study().verdicts(
        results.__class__(**{**vars(results), "computation_results": computed})
    )
    return {each.claim.key for each in verdicts if each.is_decided}, {
        each.claim.key for each in verdicts
    }


@pytest.mark.parametrize("study", [WarmStartStudy, LossFunctionsStudy, PublishedBugsStudy])
def test_every_claim_is_decided_by_some_outcome(study):
    scale = min(("mini", "small", "paper"), key=study().seed_count)
    found, every = set(), set()
    for outcome in (alike, training_tells_strength, one_varies):
        some, every = decided(study, scale, outcome)
        found |= some
    assert every - found == set()
