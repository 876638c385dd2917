"""Claims that an outcome can decide, at the scale with the fewest planned seeds."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from made_up_runs import design_of, made_up_results, noise

from zerolab.papers.hyperparameters.grid import GRID_SYMBOLS
from zerolab.papers.hyperparameters.study import (
    HyperparameterCorrelationStudy,
    HyperparameterScreeningStudy,
    HyperparameterSweepStudy,
)
from zerolab.papers.loss_functions.study import LossFunctionsStudy
from zerolab.papers.published_bugs.study import WIN_LABELS_PART, PublishedBugsStudy
from zerolab.papers.transfer.measures import BoardPair
from zerolab.papers.transfer.similarity import SCRATCH_CKA, SOURCE_CKA
from zerolab.papers.transfer.study import (
    FINE_TUNED,
    FROZEN,
    MAPPED,
    RANDOM_FROZEN,
    SCRATCH,
    TransferStudy,
)
from zerolab.papers.warm_start.study import WarmStartStudy

pytestmark = pytest.mark.usefixtures("few_bootstrap_samples")

SECONDS = {"selfplay": 1.0, "learn": 1.0, "gate": 1.0}
WILD, FIRST = "rave", "wrora"
"""Variants of the warm start that differ from the others in some outcomes."""
ELO_OF_METHOD = {
    SCRATCH: 0.0,
    FINE_TUNED: 200.0,
    FROZEN: 50.0,
    RANDOM_FROZEN: -100.0,
    MAPPED: 100.0,
}


def alike(planned):
    """Return arguments of a run and an Elo that hardly differ between runs."""
    levels = {"loss": 1.0, "fall": 1.0, "elo": 10.0, "accuracy": 0.5}
    measured = {name: level + noise(planned, 1e-3, name) for name, level in levels.items()}
    return {"seconds": SECONDS, **measured}, noise(planned, 0.1)


def training_tells_strength(planned):
    """Return results ordered equally by training and tournament Elo."""
    elo = noise(planned, 1.0)
    return {"seconds": SECONDS, "elo": 10.0 + elo}, elo


def one_varies(planned):
    """Return results of a leading variant, a variant that differs between runs, and the value loss,
    which hardly differs."""
    variant, loss = planned.factors.get("variant"), planned.factors.get("loss")
    elo = noise(planned, 100.0 if variant == WILD else 0.01 if loss == "value" else 1.0)
    return {"seconds": SECONDS, "elo": 10.0}, elo + 3000.0 * (variant == FIRST)


def value_loss_varies(planned):
    """Return results of a leading value loss that differs between runs, unlike other losses."""
    is_value = planned.factors["loss"] == "value"
    elo = noise(planned, 100.0 if is_value else 1.0) + 3000.0 * is_value
    return {"seconds": SECONDS, "elo": 10.0}, elo


def losses_rise(planned):
    """Return results in which losses rise with training Elo, less steadily in some runs."""
    dip = 15.0 * (noise(planned, 1.0, "dip") > 0.0)
    return {"seconds": SECONDS, "fall": -1.0, "elo": 10.0, "dip": dip}, noise(planned, 1.0)


def work_varies(planned):
    """Return results in which time and work are a product of powers of I, E, m and ep."""
    factors = [planned.factors[symbol] for symbol in GRID_SYMBOLS]
    _, games, simulations, epochs = factors
    work = {"simulations": games * simulations * 100, "samples": games * epochs * 100}
    spent = {stage: float(math.prod(factors)) for stage in SECONDS}
    return {"seconds": spent, **work}, noise(planned, 3.0) + 50.0 * math.log2(factors[0])


def transfer_helps(planned):
    """Return results in which methods differ, and other sizes help more than other games."""
    method, source = planned.factors["way"], planned.factors.get("source")
    is_near = source is not None and BoardPair(source, planned.part).is_near
    accuracy = 0.3 + noise(planned, 1e-3) + (method == FINE_TUNED) * (0.2 + 0.1 * is_near)
    tuned, scratch = ([0.9, first + noise(planned, 1e-3, "cka")] for first in (0.5, 0.9))
    measured = {SOURCE_CKA: tuned, SCRATCH_CKA: scratch} if method == FINE_TUNED else {"layers": []}
    return {"seconds": SECONDS, "accuracy": accuracy, "measurements": measured}, (
        ELO_OF_METHOD[method] + noise(planned, 10.0)
    )


COMMON = (alike, training_tells_strength, one_varies)
STUDIES = {
    WarmStartStudy: COMMON,
    LossFunctionsStudy: [*COMMON, value_loss_varies, losses_rise],
    PublishedBugsStudy: COMMON,
    HyperparameterSweepStudy: [alike],
    HyperparameterScreeningStudy: [alike],
    HyperparameterCorrelationStudy: [work_varies],
    TransferStudy: [transfer_helps],
}
"""Outcomes that together decide all claims of a study."""


def decided(study, scale, outcome):
    """Return the keys of decided claims and of all claims."""
    design = design_of(study, scale)
    results = made_up_results(
        scale, design, lambda run: outcome(run)[0], lambda run: outcome(run)[1], error=0.1
    )
    counts = {
        "accuracy": 0.5,
        "ceiling": 0.5,
        "distinct": 1e4,
        "true_labels": 9e3,
        "true_labels_trials": 1e4,
    }
    computed = {each.title: counts for each in design.computations if each.part == WIN_LABELS_PART}
    verdicts = study().verdicts(replace(results, computation_results=computed))
    return {each.claim.key for each in verdicts if each.is_decided}, {
        each.claim.key for each in verdicts
    }


@pytest.mark.parametrize("study", STUDIES)
def test_every_claim_is_decided_by_some_outcome(study):
    scale = min(("mini", "small", "paper"), key=study().seed_count)
    found, every = set(), set()
    for outcome in STUDIES[study]:
        some, every = decided(study, scale, outcome)
        found |= some
    assert every - found == set()
