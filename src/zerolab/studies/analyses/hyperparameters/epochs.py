"""Losses of every epoch by the values of each hyper-parameter [Wang2020a, Figs 2 and 3]."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from zerolab.studies.analyses.hyperparameters.sweep_runs import PLACES, Setting, Sweep
from zerolab.studies.panels.curves import Curve, draw_curves
from zerolab.studies.report.document import Block, Heading, Paragraph, Picture
from zerolab.studies.results import TrainedRun

_LOSSES: Mapping[str, tuple[str, Sequence[str]]] = {
    "losses": ("Loss of policy and value together", ("policy", "value")),
    "losses-policy": ("Loss of the policy", ("policy",)),
    "losses-value": ("Loss of the value", ("value",)),
}
"""Titles and terms by the names of pictures."""


def epoch_blocks(sweep: Sweep) -> Iterator[Block]:
    """Yield a picture per loss: a panel per hyper-parameter, a line per value."""
    yield Heading("Losses of every epoch")
    if not sweep.results.where():
        yield Paragraph(f"No run is finished: {sweep.results.missing()}.")
        return
    for name, (title, terms) in _LOSSES.items():
        panels = {
            _heading(settings): {
                **dict.fromkeys(PLACES, Curve([], [])),  # the same colours whatever is there
                **{
                    PLACES[each.place]: loss_curve(each.runs, terms)
                    for each in settings
                    if each.runs
                },
            }
            for settings in sweep.by_symbol.values()
        }
        yield Picture(
            name,
            draw_curves(panels, title, "iteration", "loss", columns=3),
            "One point per epoch: those of iteration i lie between i - 1 and i. A panel has its"
            " hyper-parameter and its least, default and greatest value above it; all other"
            " parameters are at their defaults. The runs of a value have random streams of"
            " their own, so that lines differ by chance from the start; those with all defaults are"
            " the same in all panels. As Figs 2 and 3 of [Wang2020a].",
        )


def _heading(settings: Sequence[Setting]) -> str:
    return f"{settings[0].symbol} = {', '.join(f'{each.value:g}' for each in settings)}"


def loss_curve(runs: Sequence[TrainedRun], terms: Sequence[str]) -> Curve:
    """Return the sum of some losses after every epoch, with the iteration as x.

    A run that learned less, such as one whose iterations had no examples, ends early.
    """
    longest = max((run.epoch_losses for run in runs), key=lambda losses: sum(map(len, losses)))
    x = [
        iteration + (epoch + 1) / len(losses)
        for iteration, losses in enumerate(longest)
        for epoch in range(len(losses))
    ]
    every = [
        [sum(losses[term] for term in terms) for epochs in run.epoch_losses for losses in epochs]
        for run in runs
    ]
    return Curve(x, [[*each, *[float("nan")] * (len(x) - len(each))] for each in every])
