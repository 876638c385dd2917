"""How long moves of self-play take on one machine, for every network of the study.

[Clausen2021] counts the cost of training in hours of one graphics card: milliseconds of a move
times moves played. Here the machine is the one that makes this measurement, and every network is
measured beside all others, untrained and in random games, whatever machines the runs are trained
on. It is made on one core, so that it is the same however many workers a study has.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from zerolab.core.config import validate
from zerolab.core.threads import on_one_core
from zerolab.networks.flops import count_parameters, evaluation_flops
from zerolab.rules.catalogue import parse_game
from zerolab.store.checks import digest
from zerolab.studies.analyses.efficiency.variants import TRAINING, VARIANTS
from zerolab.studies.design import PlannedComputation, PlannedRun
from zerolab.studies.report.cells import Cell
from zerolab.studies.report.document import Column, DataTable
from zerolab.studies.results import Results
from zerolab.training.costs.measuring import ROUNDS, Subject, measure_moves
from zerolab.training.costs.moves import MoveKind, move_kind
from zerolab.training.costs.reference import MeasuredMove
from zerolab.training.settings import TrainSettings

_PLIES = 2  # of every game in a round
_KEY_LENGTH = 16
_SECONDS_PER_SIMULATION = 1e-4


class MeasuredMoves:
    """The measurements of a study by kinds of moves; see `MoveTimes`."""

    def __init__(self, numbers: Mapping[str, float]) -> None:
        """Take what `measure` has returned."""
        self._numbers = numbers

    def of(self, kind: MoveKind) -> MeasuredMove | None:
        """Return the measurement of a kind of moves, None if there is none."""
        begin = f"{_key(kind)}."
        fields = {
            name.removeprefix(begin): value
            for name, value in self._numbers.items()
            if name.startswith(begin)
        }
        return validate(MeasuredMove, {"kind": kind.model_dump(), **fields}) if fields else None


class _Mover(NamedTuple):
    """A network whose moves are measured: of the first run that has moves of this kind."""

    kind: MoveKind
    run: PlannedRun
    iteration: int
    titles: list[str]
    """Of the variants that have such moves."""


def _movers(runs: Iterable[PlannedRun]) -> dict[str, _Mover]:
    """Return whose moves some runs make, by the keys of their kinds."""
    found: dict[str, _Mover] = {}
    for run in runs:
        title = VARIANTS[str(run.factors["variant"])].title
        for iteration in range(run.settings.iterations):
            kind = move_kind(run.settings, iteration)
            mover = found.setdefault(_key(kind), _Mover(kind, run, iteration, []))
            if title not in mover.titles:
                mover.titles.append(title)
    return found


def planned_measurement(runs: Iterable[PlannedRun]) -> PlannedComputation:
    """Return the measurement of all kinds of moves that some runs make."""
    networks: dict[str, Any] = {}
    simulations = 0
    for key, mover in _movers(runs).items():
        settings = mover.run.settings
        networks[key] = {"settings": settings.model_dump(mode="json"), "iteration": mover.iteration}
        simulations += settings.selfplay.parallel_games * settings.search.simulations
    seconds = simulations * _PLIES * (ROUNDS + 1) * _SECONDS_PER_SIMULATION
    function, arguments = f"{__name__}:{measure.__name__}", {"networks": networks}
    return PlannedComputation(TRAINING, "time of a move", function, arguments, seconds)


def measure(*, networks: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Measure moves of networks, given by key as settings of their runs and an iteration.

    On one core. Returns the fields of `MeasuredMove` but for the kind, as ``KEY.FIELD``.
    """
    subjects = [
        Subject.untrained(validate(TrainSettings, each["settings"]), each["iteration"])
        for each in networks.values()
    ]
    with on_one_core():
        measured = measure_moves(subjects, _PLIES)
    return {
        f"{key}.{name}": float(value)
        for key, each in zip(networks, measured, strict=True)
        for name, value in each.model_dump(exclude={"kind"}).items()
    }


def measured_moves(results: Results) -> MeasuredMoves | None:
    """Return what was measured; None where it has not been yet."""
    found = (
        results.computed.get(each.title)
        for each in results.design.computations
        if each.function == f"{__name__}:{measure.__name__}"
    )
    numbers = next(found, None)
    return None if numbers is None else MeasuredMoves(numbers)


def times_table(results: Results) -> DataTable | None:
    """Return what a move takes with every network; None where it has not been measured yet."""
    times = measured_moves(results)
    if times is None:
        return None
    planned = (run for run in results.design.runs if run.part == TRAINING)
    rows: list[list[Cell]] = []
    for mover in _movers(planned).values():
        measured = times.of(mover.kind)
        if measured is not None:
            settings = mover.run.settings
            network, game = settings.network_of(mover.iteration), parse_game(settings.game)
            interval = f"{measured.low:.3g} to {measured.high:.3g}"
            rows.append(
                [
                    str(mover.kind), ", ".join(mover.titles), count_parameters(network, game),
                    evaluation_flops(network, game) / 1e6, measured.milliseconds, interval,
                ]
            )  # fmt: skip
    return DataTable(
        "time-of-a-move",
        "Networks, and what a move takes on one core of the machine that measured",
        [
            "network",
            "variants",
            Column("weights", ",d"),
            Column("million operations per position", ".3g"),
            Column("ms a move", ".3g"),
            "interval of the median",
        ],
        rows,
    )


def _key(kind: MoveKind) -> str:
    facts = json.dumps(kind.model_dump(mode="json"), sort_keys=True)
    return digest(facts.encode())[:_KEY_LENGTH]
