"""Table 1 of [Clausen2021]: how far networks get that learn from solved positions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from zerolab.studies.analyses.efficiency.variants import SUPERVISED
from zerolab.studies.claims import Claim, Missing
from zerolab.studies.panels.bars import draw_bars
from zerolab.studies.panels.curves import Curve, draw_curves
from zerolab.studies.panels.samples import Sample
from zerolab.studies.report.cells import Cell
from zerolab.studies.report.document import Block, Column, DataTable, Heading, Paragraph, Picture
from zerolab.studies.results import Results, TrainedRun
from zerolab.studies.statistics import Estimate, mean_of, paired_difference
from zerolab.training.records import SupervisedRecord

SETS = ("v1", "v2")
"""Every position of a game, and one position per game."""
RIGHT, PUBLISHED_LABELS = "right", "published"
"""Outcomes as they are, and with losses of the first player labelled as draws [ClausenCode]."""

_SOURCE = "[Clausen2021, Table 1]"


class _Published(NamedTuple):
    """Shares of the test set."""

    move: float
    """How often the move is a strongest one."""
    win: float
    """How often the outcome is the label; losses of the first player are labelled as draws."""


PUBLISHED: Mapping[tuple[str, int], _Published] = {
    ("v1", 5): _Published(0.9163, 0.7747),
    ("v2", 5): _Published(0.9244, 0.7923),
    ("v1", 10): _Published(0.9237, 0.7787),
    ("v2", 10): _Published(0.9300, 0.7967),
    ("v1", 20): _Published(0.9268, 0.7823),
    ("v2", 20): _Published(0.9349, 0.7993),
}
"""By set and blocks: networks of 128 filters, 800,000 positions to learn from."""

DEEPER = Claim(
    "deeper-chooses-better",
    "Deeper networks choose strongest moves more often.",
    _SOURCE,
    "strong accuracy of the deepest networks less that of the shallowest, by seed, mean of both"
    " sets",
    0.0,
    "above",
)
SPREAD = Claim(
    "one-per-game-learns-better",
    "Networks learn better from one position per game than from all positions of fewer games.",
    _SOURCE,
    "strong accuracy with v2 less that with v1, each on its own test set, by seed, mean over"
    " depths",
    0.0,
    "above",
)
CEILING = Claim(
    "result-ceiling",
    "Supervised networks know the result of no more than four in five positions.",
    _SOURCE,
    "share of results known by the deepest networks, with right labels, mean of both sets",
    0.8,
    "below",
)
LABELS = Claim(
    "labels-cost-accuracy",
    "The published labels, with losses of the first player as draws, are harder to learn than right"
    " ones.",
    "[ClausenCode]",
    "share of right labels known less that of published ones, by seed, mean of both sets,"
    " shallowest networks",
    0.0,
    "above",
)


def found(results: Results) -> dict[Claim, Estimate | Missing]:
    """Return the statistic of every claim."""
    if missing := results.missing(SUPERVISED):
        return dict.fromkeys((DEEPER, SPREAD, CEILING, LABELS), Missing(missing))
    depths = _depths(results)
    first, last = depths[0], depths[-1]
    return {
        DEEPER: paired_difference(
            _over_sets(results, last, "strong"), _over_sets(results, first, "strong")
        ),
        SPREAD: paired_difference(
            *(
                _over([_of(results, each, depth, "strong") for depth in depths])
                for each in SETS[::-1]
            )
        ),
        CEILING: mean_of(_over_sets(results, last, "result")),
        LABELS: paired_difference(
            _over_sets(results, first, "label"),
            _over_sets(results, first, "label", PUBLISHED_LABELS),
        ),
    }


def _depths(results: Results) -> list[int]:
    return [int(each) for each in results.levels("blocks", SUPERVISED)]


def _runs(results: Results, name: str, blocks: int, labels: str) -> list[TrainedRun]:
    return results.where(SUPERVISED, set=name, blocks=blocks, labels=labels)


def _of(results: Results, name: str, blocks: int, measure: str, labels: str = RIGHT) -> list[float]:
    """Return a share of the test set, one per seed."""
    return [getattr(_test(run), measure) for run in _runs(results, name, blocks, labels)]


def _test(run: TrainedRun) -> SupervisedRecord:
    """Return what the finished network says about the test set."""
    record: SupervisedRecord = [each for each in run.of(SupervisedRecord) if each.part == "test"][
        -1
    ]
    return record


def _over_sets(results: Results, blocks: int, measure: str, labels: str = RIGHT) -> list[float]:
    """Return the mean of both sets, one per seed."""
    return _over([_of(results, each, blocks, measure, labels) for each in SETS])


def _over(columns: Sequence[Sequence[float]]) -> list[float]:
    """Return the mean of several numbers of each seed."""
    return [sum(each) / len(each) for each in zip(*columns, strict=True)]


def blocks(results: Results) -> Iterator[Block]:
    """Yield what is shown of learning from solved positions."""
    if not results.where(SUPERVISED):
        return
    yield Heading("Learning from solved positions")
    yield Paragraph(
        "Half of the plies that lead to the positions are perfect and half random; v1 has every"
        " position of a game, v2 one per game. A tenth of the games is the test set, which nothing"
        " is learnt from. The published outcomes have losses of the first player labelled as draws"
        " [ClausenCode], so that the published shares of wins are no ceiling for right labels."
    )
    yield _table(results)
    yield from _bars(results)
    yield from _validation(results)


def _table(results: Results) -> DataTable:
    rows: list[list[Cell]] = []
    for depth in _depths(results):
        for name in SETS:
            known = PUBLISHED.get((name, depth))
            row: list[Cell] = [name, depth, len(_runs(results, name, depth, RIGHT))]
            row += [
                _cell(_of(results, name, depth, "strong")),
                known.move if known else None,
                _cell(_of(results, name, depth, "weak")),
                _cell(_of(results, name, depth, "result")),
                _cell(_of(results, name, depth, "label", PUBLISHED_LABELS)),
                known.win if known else None,
            ]
            rows.append(row)
    return DataTable(
        "supervised",
        "Shares of the test set, as Table 1 of [Clausen2021]; intervals are over seeds",
        [
            "set",
            "blocks",
            "runs",
            Column("strongest move", ".1%"),
            Column("published move", ".1%"),
            Column("result kept", ".1%"),
            Column("result known", ".1%"),
            Column("published labels known", ".1%"),
            Column("published win", ".1%"),
        ],
        rows,
    )


def _cell(values: Sequence[float]) -> Cell:
    return mean_of(values) if values else None


def _bars(results: Results) -> Iterator[Block]:
    measures = {"strong": "strongest move", "result": "result known"}
    for measure, axis in measures.items():
        groups = {
            f"{depth} blocks": {
                name: Sample(
                    _of(results, name, depth, measure),
                    published=_published_move(name, depth) if measure == "strong" else None,
                )
                for name in SETS
            }
            for depth in _depths(results)
        }
        yield Picture(
            f"supervised-{measure}",
            draw_bars(groups, f"Test set: {axis}", f"share of positions, {axis}"),
            "A dot is a run, the line their mean with its 95 % interval over runs."
            + (" Diamonds are published." if measure == "strong" else " Right labels."),
        )


def _published_move(name: str, depth: int) -> float | None:
    known = PUBLISHED.get((name, depth))
    return known.move if known else None


def _validation(results: Results) -> Iterator[Block]:
    panels: dict[str, dict[str, Curve]] = {}
    for name in SETS:
        for depth in _depths(results):
            curves = [
                [each.strong for each in run.of(SupervisedRecord) if each.part == "validation"]
                for run in _runs(results, name, depth, RIGHT)
            ]
            if curves:
                points = list(range(1, 1 + max(map(len, curves))))
                panels.setdefault(name, {})[f"{depth} blocks"] = Curve(points, curves)
    if panels:
        yield Picture(
            "supervised-validation",
            draw_curves(panels, "Validation while learning", "passes", "strong accuracy"),
            "After every pass over the positions; the band is one standard deviation between runs.",
        )
