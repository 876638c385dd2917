"""Cost of self-play on a reference machine, and accuracy at a cost.

[Clausen2021] counts the cost of training in hours of one graphics card: milliseconds of a move
times moves played. Here the reference machine is the one that times the moves, while runs may be
trained on others. All networks are timed side by side, untrained and in random games, on one core,
so that the number of workers does not matter.

The accuracy of a single iteration is noisy, and the more often a run is measured, the higher its
highest accuracy. Accuracies are therefore smoothed and compared at equally many points of every
run.
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

_LAST_SHARE = 0.2  # of the cost, over which the accuracy at a cost is averaged
_POINTS = 50  # of a run at which its smoothed accuracy is computed


class Step(NamedTuple):
    """The state of a run after an iteration."""

    cost: float
    """Self-play so far, in core hours of the reference machine."""
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
    """Return the accuracy of a run at a cost; None if its measurements begin later.

    It is the mean over the last fifth of the cost, interpolated linearly between iterations.
    """
    first = (1 - _LAST_SHARE) * cost
    if first < run[0].cost:
        return None
    at = np.linspace(first, cost, 21)
    return float(np.interp(at, [each.cost for each in run], [each.strong for each in run]).mean())


def cost_to_reach(run: Sequence[Step], strong: float) -> float | None:
    """Return the least cost at which a run reaches an accuracy; None if it never does."""
    return next((each.cost for each in _smoothed(run) if each.strong >= strong), None)


def peak(run: Sequence[Step]) -> float | None:
    """Return the highest smoothed accuracy of a run; None if it was measured too rarely."""
    return max((each.strong for each in _smoothed(run)), default=None)


def _smoothed(run: Sequence[Step]) -> list[Step]:
    costs = np.linspace(0, run[-1].cost, _POINTS + 1)[1:].tolist()
    reached = ((cost, accuracy_at(run, cost)) for cost in costs)
    return [Step(cost, strong) for cost, strong in reached if strong is not None]


_PLIES = 2  # of every game in a round
_KEY_LENGTH = 16
_SECONDS_PER_SIMULATION = 1e-4


class MeasuredMoves:
    """Measurements of a study by kind of move; implements `MoveTimes`."""

    def __init__(self, numbers: Mapping[str, float]) -> None:
        """Take the result of `measure`."""
        self._numbers = numbers

    def of(self, kind: MoveKind) -> MeasuredMove | None:
        """Return the measurement of a kind of move; None if there is none."""
        begin = f"{_key(kind)}."
        fields = {
            name.removeprefix(begin): value
            for name, value in self._numbers.items()
            if name.startswith(begin)
        }
        return validate(MeasuredMove, {"kind": kind.model_dump(), **fields}) if fields else None


class Mover(NamedTuple):
    """Network whose moves are timed: that of the first run with moves of this kind."""

    kind: MoveKind
    run: PlannedRun
    iteration: int
    titles: list[str]
    """Titles of the variants with such moves."""


def movers(runs: Iterable[PlannedRun]) -> dict[str, Mover]:
    """Return the networks whose moves occur in some runs, by the keys of their kinds of move."""
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
    """Return the computation that times all kinds of moves of some runs."""
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
    """Time the moves of networks, each given by key as the settings of its run and an iteration.

    Runs on one core. Returns the fields of `MeasuredMove` without the kind, as ``KEY.FIELD``.
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
    """Return the measured times of moves; None before they are measured."""
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
