"""How trained networks do on easy positions: of games in which nine plies in ten are perfect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path

from zerolab.agents.kinds.run import run_agent
from zerolab.core.errors import UserError
from zerolab.evaluation.accuracy import accuracy_report
from zerolab.evaluation.choices import player_choices
from zerolab.evaluation.collecting import DatasetSettings
from zerolab.evaluation.positions import Positions, read_positions
from zerolab.rules.catalogue import parse_game
from zerolab.store.checks import digest, read_bytes
from zerolab.store.run_folder import RunFolder
from zerolab.studies.analyses.efficiency.variants import BASELINE, EXTENDED, TRAINING, VARIANTS
from zerolab.studies.claims import Claim, Missing
from zerolab.studies.design import PlannedPositions
from zerolab.studies.engine.layout import LARGEST_POSITIONS
from zerolab.studies.report.cells import Cell
from zerolab.studies.report.document import Block, Column, DataTable
from zerolab.studies.results import Results, TrainedRun
from zerolab.studies.statistics import Estimate, mean_of, paired_difference
from zerolab.training.records import AccuracyRecord

_PUBLISHED = {BASELINE: 94.6, EXTENDED: 95.3}
"""Strong accuracy of search in percent [Clausen2021]."""
_PERFECT = 0.9
_SECONDS = 0.1  # of solving one: most of the plies before it have to be solved, too

EASY_CLAIM = Claim(
    "extended-is-better-on-easy-positions",
    "In the end the extended version also chooses better than the baseline in easy positions.",
    "[Clausen2021, section 3]",
    "strong accuracy of search on easy positions, extended less baseline, best networks of whole"
    " runs, by seed",
    0.0,
    "above",
)

ByVariant = Mapping[str, Mapping[Cell, float]]
"""Strong accuracy of search, by variant and seed."""


def easy_positions(game: str, count: int) -> PlannedPositions:
    """Return the easy positions that the report measures networks on."""
    settings = DatasetSettings(perfect=_PERFECT, one_per_game=True, seed=1)
    return PlannedPositions("easy", game, count, settings, count * _SECONDS, TRAINING)


def measured(results: Results) -> dict[str, dict[Cell, float]]:
    """Measure the networks of all runs that are finished; none before there are positions."""
    planned = next((each for each in results.design.solved if each.label == "easy"), None)
    if planned is None or planned.title not in results.solved:
        return {}
    easy = _Easy(results, results.solved[planned.title], planned.game)
    return {
        name: {run.factors["seed"]: easy.accuracy(run) for run in runs}
        for name in _PUBLISHED
        if (runs := results.where(TRAINING, variant=name))
    }


class _Easy:
    """The easy positions, which are read where a network has not been measured before."""

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

        It takes hours at scale `paper`, and is kept.
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
            raise UserError(f"{run.path}: there are no easy positions to measure it on")
        return {"strong": strong.mean}


def found(results: Results, accuracies: ByVariant) -> dict[Claim, Estimate | Missing]:
    """Return the statistic of the claim."""
    if missing := results.missing(TRAINING):
        return {EASY_CLAIM: Missing(missing)}
    if not _PUBLISHED.keys() <= accuracies.keys():
        return {EASY_CLAIM: Missing("the easy positions are not solved")}
    extended, baseline = accuracies[EXTENDED], accuracies[BASELINE]
    pairs = [(extended[seed], baseline[seed]) for seed in extended]
    return {EASY_CLAIM: paired_difference(*zip(*pairs, strict=True))}


def blocks(results: Results, accuracies: ByVariant) -> Iterator[Block]:
    """Yield a table of easy and hard positions."""
    rows: list[list[Cell]] = []
    for name, by_seed in accuracies.items():
        hard = [_final_hard(run) for run in results.where(TRAINING, variant=name)]
        rows.append(
            [
                VARIANTS[name].title, len(by_seed), mean_of(list(by_seed.values())),
                _PUBLISHED[name] / 100, mean_of(hard),
            ]
        )  # fmt: skip
    if rows:
        yield DataTable(
            "easy",
            "Strong accuracy of search with the best network of a whole run: easy positions, from"
            " games in which nine plies in ten are perfect, and the hard ones of the other figures",
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
