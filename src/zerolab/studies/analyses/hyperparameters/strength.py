"""Elo of final networks by the values of each hyper-parameter, and how far runs differ anyway."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from zerolab.studies.analyses.elo import elo_table
from zerolab.studies.analyses.hyperparameters.sweep_runs import PLACES, Sweep
from zerolab.studies.analyses.hyperparameters.values import DEFAULT
from zerolab.studies.panels.bars import draw_bars
from zerolab.studies.panels.samples import Sample
from zerolab.studies.report.cells import cell_text
from zerolab.studies.report.document import Block, Heading, Paragraph, Picture
from zerolab.studies.statistics import Spread


def strength_blocks(sweep: Sweep) -> Iterator[Block]:
    """Yield the figure and the table of Elo, and what makes runs of one setting differ."""
    yield Heading("Strength")
    if sweep.tournament is None:
        yield Paragraph(f"The tournament is not finished: {sweep.results.missing()}.")
        return
    if not sweep.default or not any(each.runs for each in sweep.others):
        yield Paragraph(f"Too few runs are there: {sweep.results.missing()}.")
        return
    groups = {
        symbol: {
            **dict.fromkeys(PLACES, Sample([])),  # the same colours whatever is there
            **{PLACES[each.place]: sweep.elo_sample(each.runs) for each in settings},
        }
        for symbol, settings in sweep.by_symbol.items()
    }
    yield Picture(
        "elo",
        draw_bars(groups, "Elo of final networks above Random's", "Elo, Random = 0"),
        "One tournament of all final networks and Random, each network searching with the default"
        " number of simulations and the default c: what differs is what was learned. The runs with"
        " all defaults are the same in all groups.",
    )
    shown = {"": {DEFAULT: sweep.elo_sample(sweep.default)}}
    shown |= {
        symbol: {
            f"{each.value:g}": sweep.elo_sample(each.runs)
            for each in settings
            if each.place != 1 and each.runs
        }
        for symbol, settings in sweep.by_symbol.items()
    }
    yield elo_table("elo-by-setting", "Elo above Random's by setting", shown, "parameter", "value")
    yield Paragraph(_spread_words([each for group in shown.values() for each in group.values()]))


def pooled_spread(samples: Sequence[Sample]) -> Spread | None:
    """Return how far runs of one setting differ, from many settings; None without two runs of one.

    By the method of moments, as `spread`, from the deviations of runs from their setting's mean.
    """
    repeated = [sample for sample in samples if len(sample.values) > 1]
    freedom = sum(len(sample.values) - 1 for sample in repeated)
    if not freedom:
        return None
    squares = sum(float(np.var(sample.values) * len(sample.values)) for sample in repeated)
    errors = [error**2 for sample in repeated for error in sample.errors]
    observed, measured = squares / freedom, float(np.mean(errors))
    return Spread(
        math.sqrt(observed), math.sqrt(max(0.0, observed - measured)), math.sqrt(measured)
    )


def _spread_words(samples: Sequence[Sample]) -> str:
    found = pooled_spread(samples)
    if found is None:
        return (
            "Every setting has one run: how far two runs of one setting differ is not known, so no"
            " difference between settings can be told from chance."
        )
    return (
        f"Runs of one setting differ by a standard deviation of {found.observed:.0f} Elo, over all"
        f" settings. {cell_text(found.explained, '.0%')} of that variance is error of measuring"
        f" ({found.measurement:.0f} Elo a run); true strengths differ by {found.between:.0f} Elo."
    )
