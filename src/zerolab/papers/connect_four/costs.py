"""Cost of self-play on a reference machine, and accuracy at a cost.

One measurement says more about its iteration than about the method, and the more often a run is
measured, the higher its highest one. So accuracies are compared after smoothing, at as many points
of every run.

[Clausen2021] counts the cost of training in hours of one graphics card: milliseconds of a move
times moves played. Here the machine is the one that makes this measurement, and every network is
measured beside all others, untrained and in random games, whatever machines the runs are trained
on. It is made on one core, so that it is the same however many workers a study has.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from zerolab.core.config import validate
from zerolab.core.processes import on_one_core
from zerolab.papers.connect_four.variants import TRAINING, VARIANTS
from zerolab.store.checks import digest
from zerolab.store.run_folder import RunFolder
from zerolab.studies.design import PlannedComputation, PlannedRun
from zerolab.studies.results import Results, TrainedRun
from zerolab.training.costs import run_costs
from zerolab.training.move_times import (
    ROUNDS,
    MeasuredMove,
    MoveKind,
    MoveTimes,
    Subject,
    measure_moves,
    move_kind,
)
from zerolab.training.settings import TrainSettings

_LAST_SHARE = 0.2  # of the cost, over which accuracies at a cost are averaged
_POINTS = 50  # of a run at which its smoothed accuracy is looked at


class Step(NamedTuple):
    """The state of a run after an iteration."""

    cost: float
    """Of self-play so far, in hours of a core of the reference machine."""
    strong: float
    """Strong accuracy of the search, from 0 to 1."""


def steps(run: TrainedRun, times: MoveTimes) -> list[Step]:
    """Return all measured iterations of a run, in order."""
    return [
        Step(each.reference_hours, each.strong)
        for each in run_costs(RunFolder.open(run.path), times)
        if each.strong is not None and each.reference_hours is not None
    ]


def accuracy_at(run: Sequence[Step], cost: float) -> float | None:
    """Return the accuracy that a run has reached at a cost, None where it was measured later.

    The mean over the last fifth of the cost, with straight lines between iterations.
    """
    first = (1 - _LAST_SHARE) * cost
    if first < run[0].cost:
        return None
    at = np.linspace(first, cost, 21)
    return float(np.interp(at, [each.cost for each in run], [each.strong for each in run]).mean())


def cost_to_reach(run: Sequence[Step], strong: float) -> float | None:
    """Return the least cost at which a run has reached an accuracy; None where it never has."""
    return next((each.cost for each in _smoothed(run) if each.strong >= strong), None)


def peak(run: Sequence[Step]) -> float | None:
    """Return the highest accuracy that a run has reached; None where it was measured too rarely."""
    return max((each.strong for each in _smoothed(run)), default=None)


def _smoothed(run: Sequence[Step]) -> list[Step]:
    costs = np.linspace(0, run[-1].cost, _POINTS + 1)[1:].tolist()
    reached = ((cost, accuracy_at(run, cost)) for cost in costs)
    return [Step(cost, strong) for cost, strong in reached if strong is not None]


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


class Mover(NamedTuple):
    """A network whose moves are measured: of the first run that has moves of this kind."""

    kind: MoveKind
    run: PlannedRun
    iteration: int
    titles: list[str]
    """Of the variants that have such moves."""


def movers(runs: Iterable[PlannedRun]) -> dict[str, Mover]:
    """Return whose moves some runs make, by the keys of their kinds."""
    found: dict[str, Mover] = {}
    for run in runs:
        title = VARIANTS[str(run.factors["variant"])].title
        for iteration in range(run.settings.iterations):
            kind = move_kind(run.settings, iteration)
            mover = found.setdefault(_key(kind), Mover(kind, run, iteration, []))
            if title not in mover.titles:
                mover.titles.append(title)
    return found


def planned_measurement(runs: Iterable[PlannedRun]) -> PlannedComputation:
    """Return the measurement of all kinds of moves that some runs make."""
    networks: dict[str, Any] = {}
    simulations = 0
    for key, mover in movers(runs).items():
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


def _key(kind: MoveKind) -> str:
    facts = json.dumps(kind.model_dump(mode="json"), sort_keys=True)
    return digest(facts.encode())[:_KEY_LENGTH]
