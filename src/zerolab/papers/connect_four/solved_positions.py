"""Supervised learning from solved positions [Clausen2021, Table 1], and accuracy on easy ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from zerolab.agents.kinds.run import run_agent
from zerolab.core.errors import UserError
from zerolab.evaluation.accuracy import accuracy_report, player_choices
from zerolab.evaluation.positions import Positions, read_positions
from zerolab.papers.connect_four.findings import CEILING, DEEPER, EASY_CLAIM, LABELS, SPREAD
from zerolab.papers.connect_four.variants import BASELINE, EXTENDED, SUPERVISED, TRAINING, VARIANTS
from zerolab.report.claims import Claim
from zerolab.report.document import Block, Heading, Paragraph, Picture
from zerolab.report.interval import Cell
from zerolab.report.interval_plots import draw_bars
from zerolab.report.table import Column, Table
from zerolab.report.xy_plots import Curve, draw_curves
from zerolab.rules.catalogue import parse_game
from zerolab.store.checks import digest, read_bytes
from zerolab.store.run_folder import RunFolder
from zerolab.studies.claims import Missing
from zerolab.studies.results import Results, TrainedRun
from zerolab.studies.statistics import Estimate, mean_of, paired_difference, sample_of_runs
from zerolab.studies.study_folder import LARGEST_POSITIONS
from zerolab.training.records import AccuracyRecord, SupervisedRecord

SETS = ("v1", "v2")
"""Sets with every position of a game, and with one position per game."""
RIGHT, PUBLISHED_LABELS = "right", "published"
"""Labels: true outcomes, or losses of the first player as draws [ClausenCode]."""


class _Published(NamedTuple):
    """Published shares of the test set."""

    move: float
    """Positions in which the move is a strongest one."""
    win: float
    """Positions in which the predicted outcome is the label, with `PUBLISHED_LABELS`."""


PUBLISHED: Mapping[tuple[str, int], _Published] = {
    ("v1", 5): _Published(0.9163, 0.7747),
    ("v2", 5): _Published(0.9244, 0.7923),
    ("v1", 10): _Published(0.9237, 0.7787),
    ("v2", 10): _Published(0.9300, 0.7967),
    ("v1", 20): _Published(0.9268, 0.7823),
    ("v2", 20): _Published(0.9349, 0.7993),
}
"""By set and number of blocks, for networks of 128 filters and 800,000 positions to learn from."""


def supervised_findings(results: Results) -> dict[Claim, Estimate | Missing]:
    """Return the statistic of every claim about supervised learning."""
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
    """Return the record of the finished network on the test set."""
    last: SupervisedRecord
    *_, last = (each for each in run.of(SupervisedRecord) if each.part == "test")
    return last


def _over_sets(results: Results, blocks: int, measure: str, labels: str = RIGHT) -> list[float]:
    """Return the mean of both sets, one per seed."""
    return _over([_of(results, each, blocks, measure, labels) for each in SETS])


def _over(columns: Sequence[Sequence[float]]) -> list[float]:
    """Return the mean of several numbers, one per seed."""
    return [sum(each) / len(each) for each in zip(*columns, strict=True)]


def supervised_blocks(results: Results) -> Iterator[Block]:
    """Yield figures and tables of learning from solved positions."""
    if not results.where(SUPERVISED):
        return
    yield Heading("Learning from solved positions")
    yield Paragraph(
        "Half of the plies that lead to the positions are perfect and half random; v1 has every"
        " position of a game, v2 one per game. A tenth of the games is held out as the test set."
        " The published labels call losses of the first player draws [ClausenCode], so that the"
        " published shares of wins are no ceiling for right labels."
    )
    yield _table(results)
    yield from _bars(results)
    yield from _validation(results)


def _table(results: Results) -> Table:
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
    return Table(
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
    return mean_of(values).interval if values else None


def _bars(results: Results) -> Iterator[Block]:
    measures = {"strong": "strongest move", "result": "result known"}
    for measure, axis in measures.items():
        groups = {
            f"{depth} blocks": {
                name: sample_of_runs(
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
            "A dot is a run, the line the mean with its 95 % interval over runs."
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


_PUBLISHED_EASY = {BASELINE: 94.6, EXTENDED: 95.3}
"""Strong accuracy of search in percent [Clausen2021]."""

ByVariant = Mapping[str, Mapping[Cell, float]]
"""Strong accuracy of search, by variant and seed."""


def measure_easy(results: Results) -> dict[str, dict[Cell, float]]:
    """Measure the networks of all finished runs; none before the positions are solved."""
    planned = next((each for each in results.design.solved if each.label == "easy"), None)
    if planned is None or planned.title not in results.solved:
        return {}
    easy = _Easy(results, results.solved[planned.title], planned.game)
    return {
        name: {run.factors["seed"]: easy.accuracy(run) for run in runs}
        for name in _PUBLISHED_EASY
        if (runs := results.where(TRAINING, variant=name))
    }


class _Easy:
    """The easy positions, read only if a network has not been measured before."""

    def __init__(self, results: Results, file: Path, game: str) -> None:
        self._results = results
        self._file = file
        self._game = game
        self._digest = digest(read_bytes(file, LARGEST_POSITIONS))

    @cached_property
    def _positions(self) -> Positions:
        return read_positions(self._file, parse_game(self._game))[0]

    def accuracy(self, run: TrainedRun) -> float:
        """Return the strong accuracy of the best network's search, as in training.

        The result is cached on disk, because measuring takes hours at scale `paper`.
        """
        opened = RunFolder.open(run.path)
        weights = opened.weights_digest(opened.progress.best)
        facts = {"run": run.planned.key, "weights": weights, "positions": self._digest}
        found = self._results.once("easy positions", facts, lambda: self._measured(opened, run))
        return found["strong"]

    def _measured(self, opened: RunFolder, run: TrainedRun) -> dict[str, float]:
        agent = run_agent(opened, opened.progress.best)
        choices = player_choices(agent, self._positions, run.planned.settings.seed)
        strong = accuracy_report("search", self._positions, choices).all.strong
        if strong is None:
            raise UserError(f"{run.path}: no easy positions to measure it on")
        return {"strong": strong.interval.value}


def easy_findings(results: Results, accuracies: ByVariant) -> dict[Claim, Estimate | Missing]:
    """Return the statistic of the claim about easy positions."""
    if missing := results.missing(TRAINING):
        return {EASY_CLAIM: Missing(missing)}
    if not _PUBLISHED_EASY.keys() <= accuracies.keys():
        return {EASY_CLAIM: Missing("the easy positions are not solved")}
    extended, baseline = accuracies[EXTENDED], accuracies[BASELINE]
    pairs = [(extended[seed], baseline[seed]) for seed in extended]
    return {EASY_CLAIM: paired_difference(*zip(*pairs, strict=True))}


def easy_blocks(results: Results, accuracies: ByVariant) -> Iterator[Block]:
    """Yield a table of easy and hard positions."""
    rows: list[list[Cell]] = []
    for name, by_seed in accuracies.items():
        hard = [_final_hard(run) for run in results.where(TRAINING, variant=name)]
        rows.append(
            [
                VARIANTS[name].title, len(by_seed), mean_of(list(by_seed.values())).interval,
                _PUBLISHED_EASY[name] / 100, mean_of(hard).interval,
            ]
        )  # fmt: skip
    if rows:
        yield Table(
            "easy",
            "Strong accuracy of search with the best network of a whole run, on easy positions (of"
            " games in which nine plies in ten are perfect) and on the hard ones of the figures",
            [
                "variant",
                "runs",
                Column("easy", ".1%"),
                Column("published easy", ".1%"),
                Column("hard", ".1%"),
            ],
            rows,
        )


def _final_hard(run: TrainedRun) -> float:
    last: AccuracyRecord = run.of(AccuracyRecord)[-1]
    return last.search_strong
