"""Cost of self-play on a reference machine, and accuracy at a given cost.

[Clausen2021] measures training cost in hours on one graphics card, as the time per move multiplied
by the number of moves. Here, the machine that times the moves is the reference machine. The runs
can be trained on other machines. Moves are timed with untrained networks in random games, on one
core, so the number of workers does not affect the cost. All networks are timed together, under the
same load.

The accuracy of a single iteration is noisy, and the maximum of noisy measurements grows with their
number. Accuracies are therefore smoothed and evaluated at the same number of points in every run.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from zerolab.core.config import validate
from zerolab.core.processes import pinned_to_one_core
from zerolab.papers.connect_four.variants import TRAINING, VARIANTS
from zerolab.store.checks import hex_digest
from zerolab.studies.design import PlannedComputation, PlannedRun, without_newer_settings
from zerolab.studies.finished_work import TrainedRun
from zerolab.studies.results import Results
from zerolab.training.costs import iteration_costs
from zerolab.training.move_times import (
    ROUNDS,
    MeasurementSubject,
    MoveKind,
    MoveTime,
    MoveTimes,
    measure_move_times,
    move_kind,
)
from zerolab.training.train_settings import TrainSettings

_LAST_SHARE = 0.2  # share of the cost over which accuracy is averaged
_TERA = 1e12
_POINTS = 50  # smoothed accuracies per run


class AccuracyPoint(NamedTuple):
    """Point on the accuracy curve of a run: cost and accuracy after an iteration."""

    cost: float
    """Cost of all self-play so far, in core hours on the reference machine."""
    strong_accuracy: float
    """Share of solved positions in which search chooses a best move, from 0 to 1."""
    operations: float = 0.0
    """Floating-point operations of the network in all self-play so far, in units of 10^12."""


def accuracy_points(run: TrainedRun, times: MoveTimes) -> list[AccuracyPoint]:
    """Return the points of all measured iterations of a run, in order."""
    return [
        AccuracyPoint(iteration.reference_hours, iteration.strong, iteration.selfplay_flops / _TERA)
        for iteration in iteration_costs(run.planned.settings, run.records, times)
        if iteration.strong is not None and iteration.reference_hours is not None
    ]


def accuracy_at_cost(points: Sequence[AccuracyPoint], cost: float) -> float | None:
    """Return the accuracy of a run at a cost, or None if its measurements start too late.

    The accuracy is averaged over the last fifth of the cost, with linear interpolation between
    iterations.
    """
    first = (1 - _LAST_SHARE) * cost
    if first < points[0].cost:
        return None
    costs = np.linspace(first, cost, 21)
    accuracies = np.interp(
        costs, [point.cost for point in points], [point.strong_accuracy for point in points]
    )
    return float(accuracies.mean())


def cost_to_reach(points: Sequence[AccuracyPoint], strong_accuracy: float) -> float | None:
    """Return the lowest cost at which a run reaches a smoothed accuracy, or None if it never does.

    `strong_accuracy` ranges from 0 to 1.
    """
    smoothed = _smoothed(points)
    return next((each.cost for each in smoothed if each.strong_accuracy >= strong_accuracy), None)


def peak_accuracy(points: Sequence[AccuracyPoint]) -> float | None:
    """Return the highest smoothed accuracy of a run, or None if its measurements start too late."""
    return max((point.strong_accuracy for point in _smoothed(points)), default=None)


def final_accuracy(points: Sequence[AccuracyPoint]) -> float | None:
    """Return the accuracy at the end of a run, or None if its measurements start too late."""
    return accuracy_at_cost(points, points[-1].cost)


def _smoothed(points: Sequence[AccuracyPoint]) -> list[AccuracyPoint]:
    costs = np.linspace(0, points[-1].cost, _POINTS + 1)[1:].tolist()
    accuracies = ((cost, accuracy_at_cost(points, cost)) for cost in costs)
    return [AccuracyPoint(cost, each) for cost, each in accuracies if each is not None]


_PLIES = 2  # per game and round
_KEY_LENGTH = 16
_SECONDS_PER_SIMULATION = 1e-4
_WITHOUT_EFFECT: Mapping[str, Any] = {"selfplay": {"chunks", "lag"}}  # on the time of a move


class MeasuredMoveTimes:
    """Move times measured for a study, by kind of move; implements `MoveTimes`."""

    def __init__(self, numbers: Mapping[str, float]) -> None:
        """Wrap `numbers`, the result of `measure`."""
        self._numbers = numbers

    def find(self, kind: MoveKind) -> MoveTime | None:
        """Return the measurement of a kind of move, or None if there is none."""
        prefix = f"{_key(kind)}."
        fields = {
            name.removeprefix(prefix): value
            for name, value in self._numbers.items()
            if name.startswith(prefix)
        }
        return validate(MoveTime, {"kind": kind.model_dump(), **fields}) if fields else None


class TimedMoveKind(NamedTuple):
    """Kind of move to time, with the first run and iteration that have such moves."""

    kind: MoveKind
    run: PlannedRun
    iteration: int
    variant_titles: list[str]
    """Titles of all variants with such moves."""


def timed_move_kinds(runs: Iterable[PlannedRun]) -> dict[str, TimedMoveKind]:
    """Return all kinds of moves in `runs`, by the key of the kind."""
    by_key: dict[str, TimedMoveKind] = {}
    for run in runs:
        title = VARIANTS[str(run.factors["variant"])].title
        # The search stays the same, so only a change of the network begins another kind.
        for _, same in groupby(range(run.settings.iterations), run.settings.network_at):
            iteration = next(same)
            kind = move_kind(run.settings, iteration)
            timed = by_key.setdefault(_key(kind), TimedMoveKind(kind, run, iteration, []))
            if title not in timed.variant_titles:
                timed.variant_titles.append(title)
    return by_key


def planned_move_timing(runs: Iterable[PlannedRun]) -> PlannedComputation:
    """Return the computation that times all kinds of moves in `runs`."""
    networks: dict[str, Any] = {}
    simulations = 0
    for key, timed in timed_move_kinds(runs).items():
        settings = timed.run.settings.model_copy(update={"seed": 0})  # the same for all seeds
        networks[key] = {
            "settings": without_newer_settings(
                settings.model_dump(mode="json", exclude=_WITHOUT_EFFECT)
            ),
            "iteration": timed.iteration,
        }
        simulations += settings.selfplay.parallel_games * settings.search.simulations
    seconds = simulations * _PLIES * (ROUNDS + 1) * _SECONDS_PER_SIMULATION
    function, arguments = f"{__name__}:{measure.__name__}", {"networks": networks}
    return PlannedComputation(TRAINING, "time of a move", function, arguments, seconds)


def measure(*, networks: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Time the moves of networks on one core.

    `networks` maps a key to the settings of a run (`settings`) and an iteration (`iteration`).
    Return the fields of `MoveTime`, except `kind`, under the names ``KEY.FIELD``.
    """
    subjects = [
        MeasurementSubject.untrained(
            validate(TrainSettings, network["settings"]), network["iteration"]
        )
        for network in networks.values()
    ]
    with pinned_to_one_core():
        moves = measure_move_times(subjects, _PLIES)
    return {
        f"{key}.{name}": float(value)
        for key, move in zip(networks, moves, strict=True)
        for name, value in move.model_dump(exclude={"kind"}).items()
    }


def measured_move_times(results: Results) -> MeasuredMoveTimes | None:
    """Return the measured move times, or None if they have not been measured."""
    computed = (
        results.computation_results.get(planned.title)
        for planned in results.design.computations
        if planned.function == f"{__name__}:{measure.__name__}"
    )
    numbers = next(computed, None)
    return None if numbers is None else MeasuredMoveTimes(numbers)


def _key(kind: MoveKind) -> str:
    text = json.dumps(kind.model_dump(mode="json"), sort_keys=True)
    return hex_digest(text.encode())[:_KEY_LENGTH]
